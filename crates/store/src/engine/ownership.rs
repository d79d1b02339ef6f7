//! Beginning and end of a pool's use by a host: taking it, and letting it go in order. Also reports
//! the space of a volume to its user.

use super::room::usage::Moment;
use super::state::Pool;
use crate::format::{DatasetId, SECTOR_SIZE};

/// Space of a volume or snapshot, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetSpace {
    /// Size that hosts see.
    pub size: u64,
    /// Space of its blocks, parity not counted.
    pub referenced: u64,
    /// Space that its data may still take, uncompressed, parity not counted.
    pub available: u64,
    /// Space that its data could take if nothing else were in the pool, parity not counted.
    pub capacity: u64,
}

impl Pool {
    /// Returns the space of a volume or snapshot; `None` if no dataset has that number.
    pub fn dataset_space(&self, dataset: DatasetId) -> Option<DatasetSpace> {
        let contents = self.contents_of(dataset)?;
        let referenced = self.referenced(contents, Moment::Now);
        let all = self.space_counts().size.saturating_sub(self.slop());
        Some(DatasetSpace {
            size: contents.size,
            referenced: referenced.sectors * SECTOR_SIZE as u64,
            available: self.available_to(dataset, contents),
            capacity: self.data_of(contents, all),
        })
    }

    /// Claims the pool for this host. If the labels say otherwise, they are corrected with the next
    /// checkpoint.
    pub fn claim(&mut self, host: &str, now_us: u64) {
        self.heed_time(now_us);
        self.end_trims(false);
        if self.config().is_exported || self.config().host != host {
            self.set_exported(false, host);
        }
        self.note_protection();
        if self.is_config_new() {
            self.want_checkpoint();
        }
        self.go_on();
    }

    /// Reports whether the labels hold all that is known of the vdevs. A checkpoint may be under
    /// way.
    pub fn is_labelled(&self) -> bool {
        !self.is_suspended() && !self.are_labels_due()
    }

    /// Reports whether the labels are complete: the pool exists, and belongs to its host.
    pub fn is_config_durable(&self) -> bool {
        !self.is_suspended()
            && !self.is_making_checkpoint()
            && !self.is_checkpoint_wanted()
            && !self.are_labels_due()
    }

    /// Begins to close the pool: everything taken goes into a last checkpoint. With `is_exported`,
    /// the labels then say that any host may import the pool. The caller submits nothing from now
    /// on, and continues until [`Pool::is_settled`].
    pub fn begin_closing(&mut self, is_exported: bool, now_us: u64) {
        self.heed_time(now_us);
        self.condition.begin_closing(is_exported);
        self.want_checkpoint();
        self.end_trims(true);
        self.go_on();
    }

    /// Reports whether the labels may say that any host may import the pool, since nothing else
    /// will be written.
    pub(super) fn is_export_due(&self) -> bool {
        self.condition.is_export_wanted() && self.is_all_written()
    }

    /// Lets the labels say that any host may import the pool, as the last thing that is written.
    pub(super) fn export_go_on(&mut self) {
        if self.is_export_due() {
            self.condition.forget_export();
            self.label_as_exported();
        }
    }

    /// Reports whether the activity records may say that this host lets the pool go, since nothing
    /// else will be written.
    pub(super) fn is_close_due(&self) -> bool {
        self.condition.is_closing() && self.is_written_for_good() && self.is_to_be_let_go()
    }

    /// Lets the activity records say that this host lets the pool go, after all else.
    pub(super) fn close_go_on(&mut self) {
        if self.is_close_due() {
            self.close_activity();
        }
    }

    /// Reports whether everything taken is in a durable checkpoint, and nothing is under way. A
    /// suspended pool never comes to rest.
    pub fn is_settled(&self) -> bool {
        match self.condition.is_closing() && self.activity.is_some() {
            true => self.is_let_go(),
            false => self.is_written_for_good(),
        }
    }

    fn is_written_for_good(&self) -> bool {
        self.is_all_written() && !self.condition.is_export_wanted()
    }

    fn is_all_written(&self) -> bool {
        self.is_config_durable()
            && !self.has_requests()
            && self.trims.is_at_rest()
            && !self.has_locks()
            && !self.has_open_group()
            && self.sealed_seq() == self.checkpoint_seq()
    }

    /// Returns the reason why the pool takes no more changes; `None` if it takes them, or never
    /// did.
    pub fn suspended_because(&self) -> Option<&str> {
        let reason = self.condition.suspended();
        reason.filter(|_| !self.is_read_only())
    }

    /// Makes the pool serve only reads, for a pool that was just opened and whose devices are not
    /// to be written. Wrong bytes found by reads are not repaired, and an unfinished scrub does not
    /// begin again.
    pub fn make_read_only(&mut self) {
        self.set_healing(false);
        self.forget_scans();
        self.condition.make_read_only();
    }

    /// Reports whether the pool only serves reads.
    pub fn is_read_only(&self) -> bool {
        self.condition.is_read_only()
    }

    /// Reports whether the pool takes changes.
    pub fn takes_changes(&self) -> bool {
        !self.is_suspended()
    }
}
