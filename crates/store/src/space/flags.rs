//! A set of small numbers (regions, pages) as bits. It takes hardly any memory, and hands its
//! numbers out in ascending order.

/// A set of numbers below a limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    words: Vec<u64>,
    count: usize,
}

impl Flags {
    /// Makes room for numbers below `limit`.
    pub(super) fn reach(&mut self, limit: usize) {
        self.words.resize(limit.div_ceil(64), 0);
    }

    #[inline]
    pub(super) fn contains(&self, number: u32) -> bool {
        self.words[number as usize / 64] >> (number % 64) & 1 == 1
    }

    #[inline]
    pub(super) fn insert(&mut self, number: u32) {
        if !self.contains(number) {
            self.words[number as usize / 64] |= 1 << (number % 64);
            self.count += 1;
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, number: u32) {
        if self.contains(number) {
            self.words[number as usize / 64] &= !(1 << (number % 64));
            self.count -= 1;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the lowest number.
    pub(super) fn first(&self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let word = self.words.iter().position(|word| *word != 0)?;
        Some(word as u32 * 64 + self.words[word].trailing_zeros())
    }

    /// Takes the lowest number out.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    pub(super) fn memory(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}
