//! The event loops that serve units, whichever protocol each loop speaks.
//!
//! A token names an operation that waits for a range or for its turn. The token also names the
//! operation's loop. So operations of several protocols can wait for each other on one unit, and an
//! order to wait for what is under way ([`DrainOrder`]) reaches them all.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use scsi::task_set::Wake;

use super::drain::DrainOrder;

/// Most loops at a time. A token has eight bits for its loop.
const MOST: usize = 256;

/// Name of an operation of a loop: loop, generation, index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

impl Token {
    /// Makes the token of an operation of a loop. `generation` is cut to 24 bits.
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

/// Call to a loop from others.
#[derive(Clone, Debug)]
pub enum Call {
    /// An operation of the loop may continue.
    Wake(Token),
    /// An order is to wait for what the loop has under way.
    Drain(DrainOrder),
}

/// Function that gives a call to one loop. It may be called from any thread.
type Door = Box<dyn Fn(Call) + Send + Sync>;

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

    /// Adds a loop, and returns its seat. `door` gets the calls to the loop. Numbers begin with
    /// zero, and numbers of ended loops are reused. The result is `None` if there are 256 loops
    /// already.
    pub fn join(self: &Arc<Self>, door: impl Fn(Call) + Send + Sync + 'static) -> Option<Seat> {
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
            door(Call::Wake(token));
        }
    }

    /// Gives an order to every loop.
    pub fn drain(&self, order: &DrainOrder) {
        for door in self.doors().iter().flatten() {
            door(Call::Drain(order.clone()));
        }
    }

    fn doors(&self) -> RwLockReadGuard<'_, Vec<Option<Door>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seat of a loop among the others. The loop leaves when its seat is dropped.
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
            loops.join(move |call| {
                if let Call::Wake(token) = call {
                    sender.send((name, token)).expect("the test listens");
                }
            })
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
