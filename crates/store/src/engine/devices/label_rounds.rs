//! Rounds in which labels are written, so that a torn write leaves an intact label at each end.

/// Labels at the ends of a leaf that are written in each round.
pub(in crate::engine) const ROUNDS: [[usize; 2]; 2] = [[0, 2], [1, 3]];

/// Labels that are written in each round, with the inner labels, which only writers of a pool need.
pub(in crate::engine) const ALL_ROUNDS: [[usize; 3]; 2] = [[0, 2, 4], [1, 3, 5]];

/// Write of a configuration into the labels.
#[derive(Debug)]
pub(in crate::engine) struct Renewal {
    pub(super) config: Vec<u8>,
    pub(super) round: usize,
    pub(super) is_flushing: bool,
    /// Writes or flushes that were not answered yet, and those that succeeded.
    pub(super) waiting: usize,
    pub(super) good: usize,
}
