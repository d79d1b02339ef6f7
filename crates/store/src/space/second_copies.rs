//! The second copies on one vdev: the end of each stream's last one, and the searches in vain.
//!
//! The vdev keeps this for [`second_copy_place`](super::second_copy_place), which chooses places.

use super::Stream;
use super::in_vain::InVain;

/// Number of distances from the first copy that are tried. The last distance is 0.
pub(super) const TRIES: usize = 3;

/// Second copies of a vdev, by stream.
#[derive(Clone, Debug, Default)]
pub(super) struct SecondCopies {
    /// Region of each stream's last copy, and the end of the copy in it.
    last: [Option<(u32, u32)>; Stream::COUNT],
    in_vain: [[InVain; TRIES]; Stream::COUNT],
}

impl SecondCopies {
    /// Returns the region of a stream's last copy, and the end of the copy in it.
    pub(super) fn last(&self, stream: Stream) -> Option<(u32, u32)> {
        self.last[stream as usize]
    }

    /// Notes that a copy was placed.
    pub(super) fn placed(&mut self, stream: Stream, region: u32, end: u32) {
        self.last[stream as usize] = Some((region, end));
    }

    /// Reports whether a search for `sectors` or fewer sectors was in vain at a distance.
    pub(super) fn is_in_vain(&self, stream: Stream, distance: usize, sectors: u32) -> bool {
        self.in_vain[stream as usize][distance].covers(sectors)
    }

    /// Notes that `sectors` sectors were looked for in vain at a distance.
    pub(super) fn note_in_vain(&mut self, stream: Stream, distance: usize, sectors: u32) {
        self.in_vain[stream as usize][distance].note(sectors);
    }

    /// Forgets what was looked for in vain: there may be more room now.
    pub(super) fn look_again(&mut self) {
        self.in_vain = Default::default();
    }
}
