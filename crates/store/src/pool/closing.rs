//! The ends of a pool's use by a host, as the host needs them: taking it, and letting it go in
//! order. And what a volume's user is told of space.

use super::state::Pool;
use super::usage::Moment;
use crate::format::{DatasetId, SECTOR_SIZE};

/// Space of a volume or snapshot, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetSpace {
    /// The size that clients see.
    pub size: u64,
    /// The space of its blocks, parity not counted.
    pub referenced: u64,
    /// What data of it may still take, uncompressed; parity not counted.
    pub available: u64,
    /// What data of it could take if nothing else were in the pool; parity not counted.
    pub capacity: u64,
}

impl Pool {
    /// The space of a volume or snapshot; `None` where there is none of that number.
    pub fn dataset_space(&self, dataset: DatasetId) -> Option<DatasetSpace> {
        let contents = self.contents.get(&dataset)?;
        let referenced = self.referenced(contents, Moment::Now);
        let all = self.space.counts().size.saturating_sub(self.slop());
        Some(DatasetSpace {
            size: contents.size,
            referenced: referenced.sectors * SECTOR_SIZE as u64,
            available: self.available_to(dataset, contents),
            capacity: self.data_of(contents, all),
        })
    }

    /// The pool is this host's from now on; where its labels say something else, they say so with
    /// the next checkpoint.
    pub fn claim(&mut self, host: &str, now_us: u64) {
        self.now_us = now_us;
        self.end_trims(false);
        if self.config.is_exported || self.config.host != host {
            self.set_exported(false, host);
        }
        self.note_protection();
        self.is_checkpoint_wanted |= self.is_config_new;
        self.go_on();
    }

    /// Whether the labels say of its vdevs what is known; a checkpoint may be under way.
    pub fn is_labelled(&self) -> bool {
        self.suspended.is_none() && !self.are_labels_due()
    }

    /// Whether the labels say what the pool is: it exists, and is its host's.
    pub fn is_config_durable(&self) -> bool {
        self.suspended.is_none()
            && self.checkpoint.is_none()
            && !self.is_checkpoint_wanted
            && !self.is_config_new
            && self.renewal.is_none()
    }

    /// Everything that was taken goes into a last checkpoint, with `is_exported` one that says that
    /// any host may import the pool. The caller submits nothing from now on, and goes on until
    /// [`Pool::is_settled`].
    pub fn begin_closing(&mut self, is_exported: bool, now_us: u64) {
        self.now_us = now_us;
        self.is_export_wanted = is_exported;
        self.is_checkpoint_wanted = true;
        self.is_closing = true;
        self.end_trims(true);
        self.go_on();
    }

    /// Whether the labels may say that any host may import the pool: nothing else will be written.
    pub(super) fn is_export_due(&self) -> bool {
        self.is_export_wanted && self.is_all_written()
    }

    /// Lets the labels say it, as the last thing that is written.
    pub(super) fn export_go_on(&mut self) {
        if self.is_export_due() {
            self.is_export_wanted = false;
            self.config.is_exported = true;
            self.is_config_new = true;
        }
    }

    /// Whether the activity records may say that this host lets the pool go: nothing else will be
    /// written.
    pub(super) fn is_close_due(&self) -> bool {
        self.is_closing && self.is_written_for_good() && self.is_to_be_let_go()
    }

    /// Lets them say it, behind all else.
    pub(super) fn close_go_on(&mut self) {
        if self.is_close_due() {
            self.close_activity();
        }
    }

    /// Whether everything that was taken is in a durable checkpoint, and nothing is under way. A
    /// suspended pool never comes to rest.
    pub fn is_settled(&self) -> bool {
        match self.is_closing && self.activity.is_some() {
            true => self.is_let_go(),
            false => self.is_written_for_good(),
        }
    }

    fn is_written_for_good(&self) -> bool {
        self.is_all_written() && !self.is_export_wanted
    }

    fn is_all_written(&self) -> bool {
        self.is_config_durable()
            && self.pending.is_empty()
            && self.stalled.is_empty()
            && self.waiting.is_empty()
            && self.trims.is_at_rest()
            && self.locks.is_empty()
            && self.commit.group.is_empty()
            && self.commit.chain.sealed_seq() == self.persisted.seq
    }

    /// The group of the log that what was answered last is in, at the latest. It outlives a power
    /// cut when that is not beyond [`Pool::promised_seq`].
    pub fn newest_seq(&self) -> u64 {
        let open = u64::from(!self.commit.group.is_empty());
        self.commit.chain.sealed_seq() + open
    }

    /// Why it takes no changes any more; `None` where it does, or never did.
    pub fn suspended_because(&self) -> Option<&str> {
        self.suspended.as_deref().filter(|_| !self.is_read_only)
    }

    /// Serves reads only from now on: for a pool that was just opened and whose devices are not to
    /// be written. What is read with wrong bytes is not repaired, and a scrub that had not ended
    /// does not begin again.
    pub fn make_read_only(&mut self) {
        self.array.set_healing(false);
        (self.scan, self.waiting_scrub) = (None, None);
        self.is_read_only = true;
        self.suspended = Some("it was imported to be read only".into());
    }

    /// Whether it only serves reads.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether it takes changes.
    pub fn takes_changes(&self) -> bool {
        self.suspended.is_none()
    }
}
