//! The event loops that serve units, whatever protocol each of them speaks.
//!
//! An operation that waits for a range or for its turn is named by a token, and the token names its
//! loop. So operations of several protocols wait for each other on one unit.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use scsi::task_set::Wake;

/// Most loops at a time: a token has eight bits for its loop.
const MOST: usize = 256;

/// Name of an operation of a loop: loop, generation, index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

impl Token {
    /// Names an operation of a loop. `generation` is cut to 24 bits.
    #[inline]
    pub fn new(loop_index: usize, generation: u32, index: u32) -> Self {
        let generation = u64::from(generation & ((1 << 24) - 1));
        Self((loop_index as u64) << 56 | generation << 32 | u64::from(index))
    }

    /// Returns the number of the loop.
    pub fn loop_index(self) -> usize {
        (self.0 >> 56) as usize
    }

    /// Returns the operation's place in the table of the loop.
    pub fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

/// Way to one loop: called with the token of an operation that may go on. The call may come from
/// any thread.
type Door = Box<dyn Fn(Token) + Send + Sync>;

/// Loops that serve the same units.
#[derive(Default)]
pub struct Loops(RwLock<Vec<Option<Door>>>);

impl fmt::Debug for Loops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loops")
            .field("doors", &self.doors().len())
            .finish()
    }
}

impl Loops {
    /// Returns an empty list of loops.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Takes a loop in; `door` is called with the tokens of its operations. Numbers begin with
    /// zero, and those of loops that have ended are given again. `None` if there are 256 loops
    /// already.
    pub fn join(self: &Arc<Self>, door: impl Fn(Token) + Send + Sync + 'static) -> Option<Seat> {
        let mut doors = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let free = doors.iter().position(Option::is_none);
        let index = free.unwrap_or(doors.len());
        if index == MOST {
            return None;
        }
        if index == doors.len() {
            doors.push(None);
        }
        doors[index] = Some(Box::new(door));
        Some(Seat {
            loops: Arc::clone(self),
            index,
        })
    }

    /// Returns the function that task sets, range locks and signals call with a token.
    pub fn wake(self: &Arc<Self>) -> Wake {
        let loops = Arc::clone(self);
        Arc::new(move |token| loops.wake_operation(Token(token)))
    }

    fn wake_operation(&self, token: Token) {
        // A loop that has ended has no operations.
        if let Some(Some(door)) = self.doors().get(token.loop_index()) {
            door(token);
        }
    }

    fn doors(&self) -> RwLockReadGuard<'_, Vec<Option<Door>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Place of a loop among others; the loop leaves when this is dropped.
#[derive(Debug)]
pub struct Seat {
    loops: Arc<Loops>,
    index: usize,
}

impl Seat {
    /// Returns the number of the loop.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut doors = self.loops.0.write().unwrap_or_else(PoisonError::into_inner);
        doors[self.index] = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn each_token_reaches_its_loop_and_numbers_of_ended_loops_are_given_again() {
        let loops = Loops::new();
        let (sender, woken) = channel();
        let join = |name: &'static str| {
            let sender = sender.clone();
            loops.join(move |token| sender.send((name, token)).expect("the test listens"))
        };
        let first = join("first").expect("room");
        let second = join("second").expect("room");
        assert_eq!((first.index(), second.index()), (0, 1));
        let wake = loops.wake();
        let token = Token::new(1, 7, 9);
        assert_eq!((token.loop_index(), token.index()), (1, 9));
        wake(token.0);
        assert_eq!(woken.try_recv(), Ok(("second", token)));
        drop(first);
        wake(Token::new(0, 0, 0).0);
        assert!(woken.try_recv().is_err(), "it has ended");
        let third = join("third").expect("room");
        assert_eq!(third.index(), 0);
        let seats: Vec<_> = (2..MOST).map(|_| join("more").expect("room")).collect();
        assert!(join("too many").is_none());
        drop(seats);
        assert_eq!(join("again").expect("room").index(), 2);
    }
}
