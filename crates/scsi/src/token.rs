//! ROD tokens (SPC-4 5.17.6): small handles for the data that blocks held at one moment. POPULATE
//! TOKEN makes them, and WRITE USING TOKEN uses them.
//!
//! The one type offered is *point in time copy – change vulnerable*. A token holds until one of its
//! blocks is about to be written, and is revoked then. So the code that carries out block actions
//! announces each write to the unit, which costs one load while no token lives. Blocks also change
//! without being written. Blocks behind the end of a unit that shrinks are gone, and a device may
//! have lost writes.
//!
//! A token is no secret. It is only good for a nexus that sees the unit which made it, and that
//! nexus could read the blocks anyway. But a token must never be mistaken for a token of an earlier
//! run of the program. So tokens carry an epoch, and without an epoch no tokens are offered. Tokens
//! do not expire with time, which the crate does not know, but by number: the oldest is dropped
//! when there are too many.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::logical_unit::config::UnitConfig;
use crate::sense::{Asc, Sense};
use crate::{BlockRange, Lba};

/// Length of a ROD token.
pub(crate) const TOKEN_LEN: usize = 512;
/// ROD TYPE: point in time copy – change vulnerable.
pub(crate) const TYPE_CHANGE_VULNERABLE: u32 = 0x0080_0001;
/// ROD TYPE: point in time copy – any. The copy manager chooses the type.
pub(crate) const TYPE_ANY_POINT_IN_TIME: u32 = 0x0080_FFFF;
/// ROD TYPE: block device zero ROD token.
pub(crate) const TYPE_ZERO: u32 = 0xFFFF_0001;
/// ROD TOKEN LENGTH: the bytes after the first eight.
const ROD_TOKEN_LENGTH: u16 = 0x01F8;
/// Most block device range descriptors in one command.
pub(crate) const MAX_RANGES: u16 = 64;
/// Most bytes for which one token stands.
pub(crate) const MAX_TOKEN_BYTES: u64 = 256 << 20;
/// Most tokens of a unit that live at once.
const MAX_LIVE: usize = 256;
/// Offset of the epoch in the token: in the extended ROD token data.
const EPOCH_AT: usize = 256;

/// Data that some blocks of a unit held when the token was made.
#[derive(Debug)]
pub(crate) struct Token {
    id: u64,
    /// Blocks of the token, in its order.
    ranges: Vec<BlockRange>,
    bytes: Box<[u8; TOKEN_LEN]>,
    is_revoked: AtomicBool,
}

/// Tokens of one logical unit.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    live: AtomicUsize,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// Number that no other run of the program had. Tokens are offered once there is one.
    epoch: Option<[u8; 16]>,
    issued: u64,
    live: VecDeque<Arc<Token>>,
}

/// Right to read the blocks of a token, as long as the token lasts.
#[derive(Debug)]
pub(crate) struct TokenUse(Arc<Token>);

impl TokenUse {
    /// Returns TOKEN REVOKED once one of the blocks was about to be written.
    pub(crate) fn check(&self) -> Result<(), Sense> {
        if self.0.is_revoked.load(Ordering::Acquire) {
            Err(Sense::illegal(Asc::TOKEN_REVOKED))
        } else {
            Ok(())
        }
    }

    /// Returns the blocks, in order.
    pub(crate) fn ranges(&self) -> &[BlockRange] {
        &self.0.ranges
    }
}

impl Tokens {
    /// Reports whether tokens are offered.
    pub(crate) fn are_enabled(&self) -> bool {
        self.book().epoch.is_some()
    }

    /// Offers tokens, with 16 random bytes that no other run of the program had.
    pub(crate) fn enable(&self, epoch: [u8; 16]) {
        self.book().epoch = Some(epoch);
    }

    /// Makes a token for these blocks of the unit, or returns `None` if tokens are not offered.
    /// `capacity` returns the blocks that the unit has now.
    pub(crate) fn make(
        &self,
        config: &UnitConfig,
        capacity: impl FnOnce() -> u64,
        ranges: Vec<BlockRange>,
    ) -> Option<Box<[u8; TOKEN_LEN]>> {
        let mut book = self.book();
        let epoch = book.epoch?;
        book.issued += 1;
        let id = book.issued;
        let bytes = encode(config, id, &epoch, &ranges);
        if book.live.len() == MAX_LIVE
            && let Some(oldest) = book.live.pop_front()
        {
            oldest.is_revoked.store(true, Ordering::Release);
        }
        // A unit that shrinks takes its new size first, and then revokes tokens under this lock. So
        // this look at the size, under the lock too, keeps no token that reaches beyond it.
        let capacity = capacity();
        if ranges.iter().all(|range| range.end() <= capacity) {
            book.live.push_back(Arc::new(Token {
                id,
                ranges,
                bytes: bytes.clone(),
                is_revoked: AtomicBool::new(false),
            }));
        }
        self.live.store(book.live.len(), Ordering::Release);
        Some(bytes)
    }

    /// Returns the token with these bytes.
    pub(crate) fn find(&self, bytes: &[u8; TOKEN_LEN]) -> Result<TokenUse, Sense> {
        let book = self.book();
        let id = u64::from_be_bytes(bytes.first_chunk::<16>().map_or([0; 8], |head| {
            let [_, _, _, _, _, _, _, _, id @ ..] = *head;
            id
        }));
        let is_of_epoch = book
            .epoch
            .is_some_and(|epoch| bytes[EPOCH_AT..EPOCH_AT + 16] == epoch);
        if !is_of_epoch || id == 0 || id > book.issued {
            return Err(Sense::illegal(Asc::TOKEN_UNKNOWN));
        }
        let token = book
            .live
            .iter()
            .find(|token| token.id == id)
            .ok_or(Sense::illegal(Asc::TOKEN_REVOKED))?;
        if *token.bytes != *bytes {
            return Err(Sense::illegal(Asc::TOKEN_CORRUPT));
        }
        Ok(TokenUse(Arc::clone(token)))
    }

    /// Deletes a token that is used up (DEL_TKN).
    pub(crate) fn delete(&self, token: &TokenUse) {
        self.retain(|live| live.id != token.0.id);
    }

    /// Revokes every token of which a block is in the range.
    pub(crate) fn revoke(&self, range: BlockRange) {
        self.retain(|live| !live.ranges.iter().any(|held| held.overlaps(range)));
    }

    /// Revokes as [`Self::revoke`] does, before a write to the range. It costs one load while there
    /// are no tokens.
    #[inline]
    pub(crate) fn note_write(&self, range: BlockRange) {
        if self.live.load(Ordering::Acquire) != 0 {
            self.revoke(range);
        }
    }

    /// Revokes every token.
    pub(crate) fn revoke_all(&self) {
        self.retain(|_| false);
    }

    fn retain(&self, keep: impl Fn(&Token) -> bool) {
        let mut book = self.book();
        book.live.retain(|token| {
            let keep = keep(token);
            if !keep {
                token.is_revoked.store(true, Ordering::Release);
            }
            keep
        });
        self.live.store(book.live.len(), Ordering::Release);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds the token's bytes (SPC-4 table 90).
fn encode(
    config: &UnitConfig,
    id: u64,
    epoch: &[u8; 16],
    ranges: &[BlockRange],
) -> Box<[u8; TOKEN_LEN]> {
    let mut token = Box::new([0; TOKEN_LEN]);
    token[..4].copy_from_slice(&TYPE_CHANGE_VULNERABLE.to_be_bytes());
    token[6..8].copy_from_slice(&ROD_TOKEN_LENGTH.to_be_bytes());
    token[8..16].copy_from_slice(&id.to_be_bytes());
    // CREATOR LOGICAL UNIT DESCRIPTOR: an identification CSCD descriptor, NAA.
    let naa_len = config.naa.len().min(20);
    token[16] = 0xE4;
    token[20] = 0x01;
    token[21] = 0x03;
    token[23] = naa_len as u8;
    token[24..24 + naa_len].copy_from_slice(&config.naa[..naa_len]);
    token[44..48].copy_from_slice(&config.block_len.to_be_bytes());
    // NUMBER OF BYTES REPRESENTED, sixteen bytes wide.
    let blocks: u64 = ranges.iter().map(|range| range.count.0).sum();
    let bytes = blocks * u64::from(config.block_len);
    token[56..64].copy_from_slice(&bytes.to_be_bytes());
    // Device type specific data (SBC-4 table 8) follows.
    token[96..100].copy_from_slice(&config.block_len.to_be_bytes());
    token[101] = config.physical_exponent;
    token[EPOCH_AT..EPOCH_AT + 16].copy_from_slice(epoch);
    token
}

/// Returns the NAA designator of the unit that made a token.
pub(crate) fn creator_naa(token: &[u8; TOKEN_LEN]) -> Option<&[u8]> {
    let is_naa = token[16] == 0xE4 && token[20] & 0x0F == 1 && token[21] & 0x3F == 0x03;
    token[24..44]
        .get(..usize::from(token[23]))
        .filter(|_| is_naa)
}

/// Cuts `blocks` blocks, `skip` blocks into the sequence, out of a sequence of ranges.
pub(crate) fn cut(ranges: &[BlockRange], skip: u64, blocks: u64) -> Vec<BlockRange> {
    let mut skip = skip;
    let mut left = blocks;
    let mut out = Vec::new();
    for range in ranges {
        let skipped = skip.min(range.count.0);
        skip -= skipped;
        let count = (range.count.0 - skipped).min(left);
        left -= count;
        if count > 0 {
            out.extend(BlockRange::new(range.start.0 + skipped, count));
        }
    }
    out
}

/// Cuts two sequences of ranges of equal total length into pairs of equal length.
pub(crate) fn pair(from: &[BlockRange], to: &[BlockRange]) -> Vec<(Lba, Lba, u64)> {
    let mut out = Vec::new();
    let (mut from, mut to) = (from.iter().copied(), to.iter().copied());
    let (mut a, mut b) = (from.next(), to.next());
    while let (Some(source), Some(target)) = (a, b) {
        let count = source.count.0.min(target.count.0);
        if count > 0 {
            out.push((source.start, target.start, count));
        }
        let rest = |range: BlockRange| {
            BlockRange::new(range.start.0 + count, range.count.0 - count)
                .filter(|range| !range.is_empty())
        };
        a = rest(source).or_else(|| from.next());
        b = rest(target).or_else(|| to.next());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, count: u64) -> BlockRange {
        BlockRange::new(start, count).unwrap()
    }

    #[test]
    fn sequences_are_cut_and_paired() {
        let ranges = [range(10, 4), range(0, 0), range(100, 6)];
        assert_eq!(cut(&ranges, 0, 10), [range(10, 4), range(100, 6)]);
        assert_eq!(cut(&ranges, 3, 3), [range(13, 1), range(100, 2)]);
        assert_eq!(cut(&ranges, 4, 1), [range(100, 1)]);
        assert_eq!(cut(&ranges, 10, 1), []);
        assert_eq!(
            pair(&cut(&ranges, 3, 5), &[range(7, 2), range(50, 3)]),
            [
                (Lba(13), Lba(7), 1),
                (Lba(100), Lba(8), 1),
                (Lba(101), Lba(50), 3)
            ]
        );
    }
}
