//! The model: for each block, the writes and when they began and ended. It finds every content that
//! no order of the writes explains.

use std::collections::BTreeMap;
use std::ops::Range;

/// Number of blocks. There are few, so that requests meet.
pub(super) const BLOCKS: u64 = 24;

/// Content of a block: the number of the write that wrote it, 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The block holds one write whole.
    Of(u64),
    /// The block holds parts of several writes.
    Torn,
}

impl Content {
    /// Reads the content of a block.
    pub(super) fn of(block: &[u8]) -> Self {
        let mut words = block.as_chunks::<8>().0.iter();
        let number = words.next().copied().unwrap_or_default();
        match words.all(|word| *word == number) {
            true => Self::Of(u64::from_le_bytes(number)),
            false => Self::Torn,
        }
    }

    /// Returns the bytes of blocks that the write of this number writes.
    pub(super) fn bytes(number: u64, len: usize) -> Vec<u8> {
        number.to_le_bytes().repeat(len / 8)
    }
}

/// End of a write for its host, and its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Good(u64),
    Failed(u64),
}

#[derive(Clone, Copy, Debug)]
struct Written {
    number: u64,
    begun: u64,
    end: Option<End>,
}

impl Written {
    fn ended(&self) -> Option<u64> {
        self.end.map(|end| match end {
            End::Good(at) | End::Failed(at) => at,
        })
    }
}

/// History of all blocks.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Counter that orders all events.
    moment: u64,
    blocks: Vec<Vec<Written>>,
    /// Writes under way: their blocks.
    under_way: BTreeMap<u64, Range<u64>>,
    written: u64,
}

impl Ledger {
    pub(super) fn new(blocks: u64) -> Self {
        let zeros = Written {
            number: 0,
            begun: 0,
            end: Some(End::Good(0)),
        };
        Self {
            moment: 0,
            blocks: vec![vec![zeros]; blocks as usize],
            under_way: BTreeMap::new(),
            written: 0,
        }
    }

    /// Returns a moment later than all others.
    pub(super) fn now(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Notes that a host submits a write, and returns its number.
    pub(super) fn begin(&mut self, blocks: Range<u64>) -> u64 {
        self.written += 1;
        let (number, begun) = (self.written, self.now());
        for block in blocks.clone() {
            self.blocks[block as usize].push(Written {
                number,
                begun,
                end: None,
            });
        }
        self.under_way.insert(number, blocks);
        number
    }

    /// Notes that a write ended, and returns its blocks.
    pub(super) fn end(&mut self, number: u64, is_good: bool) -> Range<u64> {
        let at = self.now();
        let blocks = self.under_way.remove(&number).expect("a write ends once");
        let end = match is_good {
            true => End::Good(at),
            false => End::Failed(at),
        };
        for block in blocks.clone() {
            let history = &mut self.blocks[block as usize];
            let mine = history.iter_mut().find(|written| written.number == number);
            mine.expect("it was begun").end = Some(end);
        }
        blocks
    }

    /// Checks content that a block had at some moment after `since`. It must not have been
    /// overwritten, by then, by a write that began after its own had ended.
    ///
    /// # Errors
    /// The content is torn, was never written, or is too old.
    pub(super) fn check(&self, block: u64, content: Content, since: u64) -> Result<(), String> {
        let Content::Of(number) = content else {
            return Err(format!("block {block} holds parts of several writes"));
        };
        let history = &self.blocks[block as usize];
        let found = history.iter().find(|written| written.number == number);
        let Some(found) = found else {
            return Err(format!(
                "block {block} holds {number}, which no host wrote there"
            ));
        };
        let newer = history.iter().find(|newer| {
            let is_after = found.ended().is_some_and(|ended| ended < newer.begun);
            is_after && matches!(newer.end, Some(End::Good(at)) if at < since)
        });
        match newer {
            None => Ok(()),
            Some(newer) => Err(format!(
                "block {block}: an old write is there: {found:?}, over {newer:?}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(ledger: &mut Ledger, number: u64) -> Result<(), String> {
        let since = ledger.now();
        ledger.check(0, Content::Of(number), since)
    }

    #[test]
    fn only_a_newer_acknowledged_write_makes_content_old() {
        let mut ledger = Ledger::new(1);
        let first = ledger.begin(0..1);
        assert_eq!(
            (checked(&mut ledger, 0), checked(&mut ledger, first)),
            (Ok(()), Ok(()))
        );
        ledger.end(first, true);
        checked(&mut ledger, 0).expect_err("overwritten");
        // Two writes that are under way together may land in any order.
        let (second, third) = (ledger.begin(0..1), ledger.begin(0..1));
        ledger.end(third, true);
        assert_eq!(checked(&mut ledger, second), Ok(()));
        checked(&mut ledger, first).expect_err("it had ended before the third began");
        // A write that failed may have happened, but not any more after the next one.
        ledger.end(second, false);
        assert_eq!(checked(&mut ledger, second), Ok(()));
        let since = ledger.now();
        let fourth = ledger.begin(0..1);
        ledger.end(fourth, true);
        checked(&mut ledger, second).expect_err("an old write");
        let read_before = ledger.check(0, Content::Of(second), since);
        assert_eq!(
            read_before,
            Ok(()),
            "the read began before the fourth write ended"
        );
        checked(&mut ledger, 9).expect_err("nobody wrote it");
    }

    #[test]
    fn a_block_of_two_writes_is_torn() {
        let mut block = Content::bytes(3, 512);
        assert_eq!(Content::of(&block), Content::Of(3));
        block[504..].copy_from_slice(&4_u64.to_le_bytes());
        assert_eq!(Content::of(&block), Content::Torn);
        let ledger = Ledger::new(1);
        ledger.check(0, Content::Torn, 1).expect_err("torn");
    }
}
