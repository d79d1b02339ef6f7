//! A scrub is begun, paused and stopped by administrators. A resilver interrupts it, and it begins
//! again from the start when that is over: what it saw before says nothing of what was rebuilt
//! since. It begins again, too, where the pool is opened: checkpoints keep that it was at work.

use super::{Scan, ScanKind, ScanState, ScrubRecord};
use crate::pool::state::Pool;

impl Pool {
    /// Begins to verify everything; a scrub that was paused goes on.
    pub fn scrub(&mut self, now_us: u64) {
        self.now_us = now_us;
        match &mut self.scan {
            Some(scan) if scan.status.state == ScanState::Paused => {
                scan.status.state = ScanState::Running;
                scan.status.began_us += now_us.saturating_sub(scan.paused_us);
                // Devices may be back by now.
                scan.unreadable.clear();
                // It says so from then on.
                self.is_checkpoint_wanted = true;
            }
            Some(scan) if scan.status.state == ScanState::Running => {
                if let Some(waiting) = &mut self.waiting_scrub {
                    *waiting = ScanState::Running;
                }
            }
            _ => {
                self.waiting_scrub = None;
                self.begin_scan(ScanKind::Scrub, Vec::new());
            }
        }
        self.go_on();
    }

    /// Stops a scrub for a while.
    pub fn pause_scrub(&mut self) {
        let now_us = self.now_us;
        if let Some(waiting) = &mut self.waiting_scrub {
            *waiting = ScanState::Paused;
        }
        if let Some(scan) = self.running_scrub()
            && scan.status.state == ScanState::Running
        {
            scan.status.state = ScanState::Paused;
            scan.paused_us = now_us;
        }
        // It says so from then on.
        self.is_checkpoint_wanted = true;
    }

    /// Gives a scrub up.
    pub fn stop_scrub(&mut self) {
        let time_s = self.time_s;
        self.waiting_scrub = None;
        if self.running_scrub().is_some() {
            self.tell_lost();
        }
        if let Some(scan) = self.running_scrub() {
            scan.status.state = ScanState::Canceled;
            scan.status.ended_s = time_s;
            scan.batch.clear();
        }
        // It says so from then on.
        self.is_checkpoint_wanted = true;
    }

    pub(super) fn running_scrub(&mut self) -> Option<&mut Scan> {
        let scan = self.scan.as_mut()?;
        (scan.status.kind == ScanKind::Scrub && scan.is_active()).then_some(scan)
    }

    /// The scrub that a resilver interrupted and that begins again when that is over: running or
    /// paused then.
    pub fn waiting_scrub(&self) -> Option<ScanState> {
        self.waiting_scrub
    }

    /// The scrub that has not ended: what checkpoints keep.
    pub(in crate::pool) fn unended_scrub(&self) -> Option<ScrubRecord> {
        let scan = self.scan.as_ref();
        let own = scan.filter(|scan| scan.status.kind == ScanKind::Scrub);
        let own = own.and_then(|scan| ScrubRecord::of(scan.status.state));
        own.or(self.waiting_scrub.and_then(ScrubRecord::of))
    }

    /// A resilver is about to begin.
    pub(super) fn interrupt_scrub(&mut self) {
        if let Some(scrub) = self.running_scrub() {
            self.waiting_scrub = Some(scrub.status.state);
            self.tell_lost();
        }
    }

    /// Nothing has to be rebuilt any more: the scrub that waited for that begins again.
    pub(super) fn begin_waiting_scrub(&mut self) {
        if self.scan.as_ref().is_some_and(Scan::is_active) {
            return;
        }
        let Some(state) = self.waiting_scrub.take() else {
            return;
        };
        self.begin_scan(ScanKind::Scrub, Vec::new());
        if let Some(scan) = &mut self.scan {
            scan.status.state = state;
            scan.paused_us = self.now_us;
        }
    }
}
