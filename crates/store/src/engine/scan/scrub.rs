//! Scrubs: begun, paused and stopped by administrators.
//!
//! A resilver interrupts a scrub, which begins again from the start when the resilver is over. Its
//! earlier results prove nothing about blocks rebuilt since. It also begins again when the pool is
//! opened, since checkpoints keep that it was at work.

use super::{Scan, ScanKind, ScanRecord, ScanState, ScrubRecord};
use crate::engine::state::Pool;

impl Pool {
    /// Begins to verify everything, or resumes a paused scrub.
    pub fn scrub(&mut self, now_us: u64) {
        self.heed_time(now_us);
        match &mut self.scans.present {
            Some(scan) if scan.status.state == ScanState::Paused => {
                scan.status.state = ScanState::Running;
                scan.status.began_us += now_us.saturating_sub(scan.paused_us);
                // Missing devices may be back by now.
                scan.unreadable.clear();
                // The checkpoint will record the new state.
                self.want_checkpoint();
            }
            Some(scan) if scan.status.state == ScanState::Running => {
                if let Some(waiting) = &mut self.scans.waiting_scrub {
                    *waiting = ScanState::Running;
                }
            }
            _ => {
                self.scans.waiting_scrub = None;
                self.begin_scan(ScanKind::Scrub, Vec::new());
            }
        }
        self.go_on();
    }

    /// Pauses a scrub.
    pub fn pause_scrub(&mut self) {
        let now_us = self.now_us();
        if let Some(waiting) = &mut self.scans.waiting_scrub {
            *waiting = ScanState::Paused;
        }
        if let Some(scan) = self.running_scrub()
            && scan.status.state == ScanState::Running
        {
            scan.status.state = ScanState::Paused;
            scan.paused_us = now_us;
        }
        // The checkpoint will record the new state.
        self.want_checkpoint();
    }

    /// Stops a scrub for good.
    pub fn stop_scrub(&mut self) {
        let time_s = self.time_s();
        self.scans.waiting_scrub = None;
        if self.running_scrub().is_some() {
            self.tell_lost();
        }
        if let Some(scan) = self.running_scrub() {
            scan.status.state = ScanState::Canceled;
            scan.status.ended_s = time_s;
            scan.batch.clear();
        }
        // The checkpoint will record the new state.
        self.want_checkpoint();
    }

    pub(super) fn running_scrub(&mut self) -> Option<&mut Scan> {
        let scan = self.scans.present.as_mut()?;
        (scan.status.kind == ScanKind::Scrub && scan.is_active()).then_some(scan)
    }

    /// Returns the state of a scrub that a resilver interrupted. The scrub begins again in this
    /// state, running or paused, when the resilver is over.
    pub fn waiting_scrub(&self) -> Option<ScanState> {
        self.scans.waiting_scrub
    }

    /// Restores what the last checkpoint knew of scans.
    pub(in crate::engine) fn open_scans(
        &mut self,
        ended: Option<ScanRecord>,
        scrub: Option<ScanState>,
    ) {
        (self.scans.ended, self.scans.waiting_scrub) = (ended, scrub);
    }

    /// Forgets the present scan, and the scrub that waits.
    pub(in crate::engine) fn forget_scans(&mut self) {
        (self.scans.present, self.scans.waiting_scrub) = (None, None);
    }

    /// Returns the scrub that has not ended, for checkpoints to keep.
    pub(in crate::engine) fn unended_scrub(&self) -> Option<ScrubRecord> {
        let scan = self.scans.present.as_ref();
        let own = scan.filter(|scan| scan.status.kind == ScanKind::Scrub);
        let own = own.and_then(|scan| ScrubRecord::of(scan.status.state));
        own.or(self.scans.waiting_scrub.and_then(ScrubRecord::of))
    }

    /// Interrupts a scrub, since a resilver is about to begin.
    pub(super) fn interrupt_scrub(&mut self) {
        if let Some(scrub) = self.running_scrub() {
            self.scans.waiting_scrub = Some(scrub.status.state);
            self.tell_lost();
        }
    }

    /// Begins the waiting scrub again, since nothing has to be rebuilt any more.
    pub(super) fn begin_waiting_scrub(&mut self) {
        if self.scans.present.as_ref().is_some_and(Scan::is_active) {
            return;
        }
        let Some(state) = self.scans.waiting_scrub.take() else {
            return;
        };
        self.begin_scan(ScanKind::Scrub, Vec::new());
        let now_us = self.now_us();
        if let Some(scan) = &mut self.scans.present {
            scan.status.state = state;
            scan.paused_us = now_us;
        }
    }
}
