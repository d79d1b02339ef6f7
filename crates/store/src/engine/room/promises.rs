//! Promises of space: to volumes that reserved it, and to the lists of datasets in a manifest.

/// Space that is promised and not used yet.
#[derive(Debug, Default)]
pub(in crate::engine) struct Promises {
    /// Sectors that volumes have reserved and do not use yet.
    reserved: u64,
    /// Whether there are volumes with reservations.
    has_reserved: bool,
    /// Most bytes that the lists of datasets can take in a manifest, whatever is written; `None` if
    /// they were not counted yet.
    lists: Option<usize>,
}

impl Promises {
    /// Sets the unused sectors of volumes with reservations; `None` if there is no such volume.
    pub(super) fn reserve(&mut self, unused: Option<u64>) {
        self.has_reserved = unused.is_some();
        self.reserved = unused.unwrap_or(0);
    }

    /// Returns the sectors that volumes have reserved and do not use yet.
    pub(in crate::engine) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Reports whether there are volumes with reservations.
    pub(super) fn has_reserved(&self) -> bool {
        self.has_reserved
    }

    /// Returns the most bytes that the lists of datasets can take in a manifest; `None` if they
    /// were not counted yet.
    pub(in crate::engine) fn lists(&self) -> Option<usize> {
        self.lists
    }

    pub(in crate::engine) fn note_lists(&mut self, bytes: Option<usize>) {
        self.lists = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_promised_at_first_and_no_list_was_counted() {
        let new = Promises::default();
        assert_eq!((new.reserved(), new.has_reserved()), (0, false));
        assert_eq!(new.lists(), None);
    }

    #[test]
    fn a_reservation_that_is_used_up_is_still_one() {
        let mut promises = Promises::default();
        promises.reserve(Some(7));
        assert_eq!((promises.reserved(), promises.has_reserved()), (7, true));
        promises.reserve(Some(0));
        assert_eq!((promises.reserved(), promises.has_reserved()), (0, true));
        promises.reserve(None);
        assert_eq!((promises.reserved(), promises.has_reserved()), (0, false));
    }

    #[test]
    fn room_for_lists_is_counted_again_after_it_is_forgotten() {
        let mut promises = Promises::default();
        promises.reserve(Some(7));
        promises.note_lists(Some(4096));
        assert_eq!(promises.lists(), Some(4096));
        promises.note_lists(None);
        assert_eq!(promises.lists(), None);
        assert_eq!(promises.reserved(), 7);
    }
}
