//! Content of a logical unit while writes of several sessions race. The medium is a register per
//! block, checked for every content that no order of the writes explains.

/// A write as seen by its submitter.
#[derive(Clone, Copy, Debug)]
struct Written {
    value: u64,
    begun: u64,
    ended: Option<u64>,
}

/// Blocks, and the history of each.
pub(super) struct Medium {
    blocks: Vec<u64>,
    history: Vec<Vec<Written>>,
    /// Counter that orders all events.
    moment: u64,
}

impl Medium {
    pub(super) fn new(blocks: usize) -> Self {
        let zeros = Written {
            value: 0,
            begun: 0,
            ended: Some(0),
        };
        Self {
            blocks: vec![0; blocks],
            history: vec![vec![zeros]; blocks],
            moment: 0,
        }
    }

    pub(super) fn now(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Notes that a write is submitted.
    pub(super) fn begin(&mut self, (at, len): (u64, u64), value: u64) {
        let begun = self.now();
        for history in &mut self.history[at as usize..(at + len) as usize] {
            history.push(Written {
                value,
                begun,
                ended: None,
            });
        }
    }

    /// Lands a copy of a write unknown to its submitter. Once the write was reported as done, the
    /// copy must change nothing: its data is there already.
    ///
    /// # Panics
    /// The blocks hold other data.
    pub(super) fn land(&mut self, (at, len): (u64, u64), value: u64) {
        for block in at..at + len {
            let mut history = self.history[block as usize].iter();
            let is_done = history.any(|w| w.value == value && w.ended.is_some());
            let found = self.blocks[block as usize];
            assert!(
                !is_done || found == value,
                "block {block}: {value}, done before, lands over {found}"
            );
        }
        self.apply((at, len), value);
    }

    /// Performs a write.
    pub(super) fn apply(&mut self, (at, len): (u64, u64), value: u64) {
        self.blocks[at as usize..(at + len) as usize].fill(value);
    }

    /// Notes that a write was reported as done.
    pub(super) fn end(&mut self, (at, len): (u64, u64), value: u64) {
        let ended = self.now();
        for history in &mut self.history[at as usize..(at + len) as usize] {
            for written in history.iter_mut().filter(|w| w.value == value) {
                written.ended = Some(ended);
            }
        }
    }

    /// Returns the content that a read finds now.
    pub(super) fn read(&self, (at, len): (u64, u64)) -> Vec<u64> {
        self.blocks[at as usize..(at + len) as usize].to_vec()
    }

    /// Panics if a read returned content that was outdated when the read began at `begun`:
    /// overwritten by a write that was done by then.
    pub(super) fn check_read(&self, at: u64, found: &[u64], begun: u64) {
        for (offset, value) in found.iter().enumerate() {
            let history = &self.history[at as usize + offset];
            let written = history.iter().find(|w| w.value == *value);
            let written = written.expect("a value that somebody wrote");
            let newer = history.iter().find(|newer| {
                let after = written.ended.is_some_and(|ended| ended < newer.begun);
                after && newer.ended.is_some_and(|ended| ended < begun)
            });
            assert!(
                newer.is_none(),
                "block {}: an old write came back: {written:?} over {newer:?}",
                at as usize + offset
            );
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }
}
