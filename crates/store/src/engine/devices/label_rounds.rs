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

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes answers of which only the last ends what is expected. Returns what it ends with.
    fn answers(labels: &mut Labels, are_good: &[bool]) -> (usize, bool, usize) {
        let (last, others) = are_good.split_last().expect("an answer");
        for is_good in others {
            assert!(labels.answered(*is_good).is_none());
        }
        let answered = labels.answered(*last).expect("the last answer");
        (answered.round, answered.is_flushing, answered.good)
    }

    #[test]
    fn each_end_of_a_leaf_keeps_an_intact_label_in_each_round() {
        // The first half of the labels lies at the start of the leaf, the others at its end.
        for round in ROUNDS {
            let at_start = round.iter().filter(|label| **label < 2).count();
            assert_eq!(at_start, 1, "{round:?}");
        }
        let mut all: Vec<usize> = ALL_ROUNDS.concat();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
        let outer = ALL_ROUNDS.map(|round| [round[0], round[1]]);
        assert_eq!(outer, ROUNDS);
    }

    #[test]
    fn a_change_during_a_write_waits_for_the_next_one() {
        let mut labels = Labels::default();
        assert!(!labels.is_new());
        labels.note_change();
        assert!(labels.is_new() && labels.round().is_none());
        labels.take_change();
        labels.begin(vec![1]);
        assert!(!labels.is_new());
        assert_eq!(labels.round(), Some(0));
        labels.note_change();
        assert!(labels.is_new());
        assert_eq!(labels.config(), Some(&vec![1]));
        assert_eq!(labels.end(), Some(vec![1]));
        assert!(labels.is_new());
        assert_eq!((labels.round(), labels.config()), (None, None));
    }

    #[test]
    fn a_round_ends_with_its_last_answer_and_counts_anew() {
        let mut labels = Labels::default();
        labels.begin(vec![1]);
        labels.expect(0, false, 3);
        assert_eq!(answers(&mut labels, &[true, false, true]), (0, false, 2));
        labels.expect(0, true, 2);
        assert_eq!(answers(&mut labels, &[false, false]), (0, true, 0));
        labels.expect(1, false, 1);
        assert_eq!(labels.round(), Some(1));
        assert_eq!(answers(&mut labels, &[true]), (1, false, 1));
    }

    #[test]
    fn nothing_is_expected_without_a_write_or_after_it() {
        let mut labels = Labels::default();
        labels.expect(1, true, 2);
        assert!(labels.answered(true).is_none());
        assert_eq!((labels.round(), labels.end()), (None, None));
        labels.begin(vec![1]);
        labels.expect(0, false, 2);
        labels.end();
        assert!(labels.answered(true).is_none());
        labels.begin(vec![2]);
        labels.expect(0, false, 1);
        assert_eq!(answers(&mut labels, &[true]), (0, false, 1));
    }
}
