//! Rounds in which labels are written, so that a torn write leaves an intact label at each end.

/// Labels at the ends of a leaf that are written in each round.
pub(in crate::engine) const ROUNDS: [[usize; 2]; 2] = [[0, 2], [1, 3]];

/// Labels that are written in each round, with the inner labels, which only writers of a pool need.
pub(in crate::engine) const ALL_ROUNDS: [[usize; 3]; 2] = [[0, 2, 4], [1, 3, 5]];

/// Configuration in the labels: whether it is new, and how far its write is.
#[derive(Debug, Default)]
pub(in crate::engine) struct Labels {
    /// Whether the configuration changed and the labels do not have it yet.
    is_new: bool,
    /// Write of the configuration into the labels that is under way.
    renewal: Option<Renewal>,
}

/// Write of a configuration into the labels.
#[derive(Debug)]
struct Renewal {
    config: Vec<u8>,
    round: usize,
    is_flushing: bool,
    /// Writes or flushes that were not answered yet, and those that succeeded.
    waiting: usize,
    good: usize,
}

/// Writes or flushes of a round that were all answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) round: usize,
    pub(super) is_flushing: bool,
    /// Number of those that succeeded.
    pub(super) good: usize,
}

impl Labels {
    /// Notes that the labels do not have the present configuration.
    pub(in crate::engine) fn note_change(&mut self) {
        self.is_new = true;
    }

    /// Reports whether the configuration changed, and no write of it that began has the change.
    pub(in crate::engine) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns the round that is being written; `None` if no configuration is being written.
    pub(in crate::engine) fn round(&self) -> Option<usize> {
        self.renewal.as_ref().map(|renewal| renewal.round)
    }

    /// Notes that the present configuration is about to be written.
    pub(super) fn take_change(&mut self) {
        self.is_new = false;
    }

    /// Begins to write a configuration.
    pub(super) fn begin(&mut self, config: Vec<u8>) {
        self.renewal = Some(Renewal {
            config,
            round: 0,
            is_flushing: false,
            waiting: 0,
            good: 0,
        });
    }

    /// Returns the configuration that is being written.
    pub(super) fn config(&self) -> Option<&Vec<u8>> {
        self.renewal.as_ref().map(|renewal| &renewal.config)
    }

    /// Expects `count` answers to writes or flushes of a round.
    pub(super) fn expect(&mut self, round: usize, is_flushing: bool, count: usize) {
        if let Some(renewal) = &mut self.renewal {
            (renewal.round, renewal.is_flushing) = (round, is_flushing);
            (renewal.waiting, renewal.good) = (count, 0);
        }
    }

    /// Takes an answer; `None` if more are expected, or none was.
    pub(super) fn answered(&mut self, is_good: bool) -> Option<Answered> {
        let renewal = self.renewal.as_mut()?;
        renewal.waiting -= 1;
        renewal.good += usize::from(is_good);
        (renewal.waiting == 0).then_some(Answered {
            round: renewal.round,
            is_flushing: renewal.is_flushing,
            good: renewal.good,
        })
    }

    /// Ends the write of a configuration, and returns it.
    pub(super) fn end(&mut self) -> Option<Vec<u8>> {
        self.renewal.take().map(|renewal| renewal.config)
    }
}
