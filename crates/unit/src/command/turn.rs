//! Share of a turn that an event loop gives to long commands.
//!
//! A device that answers at once, memory most of all, would let a VERIFY of a whole unit run from
//! its first block to its last while everybody else on the loop waits. So what such devices move
//! for tasks is counted, and once a turn has had its share the rest waits for the turns to come, in
//! the order of arrival. READ and WRITE are not counted: they are bounded by the largest transfer
//! and move references.

use std::collections::VecDeque;

use super::operation::Token;
use block::Request;

/// Bytes that devices move at once for tasks until a turn has had its share: about 0.2 ms of work.
const SHARE: u64 = 1 << 20;
/// Fewest bytes that a request counts as, for its costs beside moving them.
const LEAST: u64 = 4096;
/// Bytes that a question about a range counts as, however long the range: a device looks at many
/// pages before it answers.
const QUESTION: u64 = SHARE;

/// Current turn of a loop, and the operations that wait for the next.
#[derive(Debug, Default)]
pub struct Turn {
    moved: u64,
    waiting: VecDeque<Token>,
}

impl Turn {
    /// Begins a new turn.
    #[inline]
    pub fn begin(&mut self) {
        self.moved = 0;
    }

    /// Reports whether the turn has had its share: further requests of tasks wait for the next.
    pub fn is_over(&self) -> bool {
        self.moved >= SHARE
    }

    /// Counts a request that its device answered at once.
    pub fn count(&mut self, weight: u64) {
        self.moved += weight;
    }

    /// Lets an operation wait until it is its turn again.
    pub fn wait(&mut self, token: Token) {
        self.waiting.push_back(token);
    }

    /// The next operation that goes on in this turn.
    pub fn next_waiting(&mut self) -> Option<Token> {
        if self.is_over() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Reports whether any operation waits for the next turn.
    pub fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// Returns the weight of a request.
pub fn weight(request: &Request) -> u64 {
    let bytes = match request {
        Request::Read { len, .. } => u64::from(*len),
        Request::Write { data, .. } => data.len() as u64,
        Request::WriteZeroes { len, .. } | Request::Discard { len, .. } => *len,
        Request::Extents { .. } => QUESTION,
        Request::Flush => LEAST,
    };
    bytes.max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_goes_on_in_order_until_the_share_is_used_up() {
        let mut turn = Turn::default();
        assert!(!turn.is_awaited());
        (0..3).for_each(|number| turn.wait(Token(number)));
        turn.begin();
        assert_eq!(turn.next_waiting(), Some(Token(0)));
        turn.count(SHARE - 1);
        assert_eq!(turn.next_waiting(), Some(Token(1)));
        turn.count(1);
        // Both operations have more to do.
        turn.wait(Token(0));
        turn.wait(Token(1));
        assert_eq!(turn.next_waiting(), None);
        turn.begin();
        let order: Vec<_> = std::iter::from_fn(|| turn.next_waiting()).collect();
        assert_eq!(order, [Token(2), Token(0), Token(1)]);
        assert!(!turn.is_awaited());
    }

    #[test]
    fn small_requests_count_too() {
        assert_eq!(
            weight(&Request::Read {
                offset: 0,
                len: 512
            }),
            LEAST
        );
        assert_eq!(weight(&Request::Flush), LEAST);
        let offset = 0;
        assert_eq!(
            weight(&Request::Discard {
                offset,
                len: 1 << 30
            }),
            1 << 30
        );
        assert_eq!(
            weight(&Request::Extents {
                offset,
                len: 1 << 40
            }),
            QUESTION
        );
    }
}
