//! Requests that a lane gathers for other threads. Those of one turn leave in one passage, with the
//! batch. None stays while the loop sleeps: what comes after the batch is due at once
//! ([`Lane::next_deadline`]).

use std::any::Any;

use super::Lane;

/// Requests of a lane for one other thread.
pub trait Gathered: Any + Send {
    /// Hands the requests over. It completes those that nobody takes.
    fn hand_over(self: Box<Self>, lane: &mut Lane);
}

/// Requests for other threads, by a number that each thread chose for itself.
#[derive(Default)]
pub(super) struct All(Vec<(usize, Box<dyn Gathered>)>);

impl All {
    /// Reports whether nothing is gathered.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Lane {
    /// Returns the requests that the lane gathers for a thread, which leave with the batch. `key`
    /// is the thread's own number, and `begin` makes the first list of a batch.
    pub fn gather<T: Gathered>(&mut self, key: usize, begin: impl FnOnce() -> T) -> &mut T {
        let all = &mut self.gathered.0;
        let is_own = |(of, list): &(usize, Box<dyn Gathered>)| {
            let list: &dyn Any = &**list;
            *of == key && list.is::<T>()
        };
        let at = all.iter().position(is_own).unwrap_or_else(|| {
            all.push((key, Box::new(begin())));
            all.len() - 1
        });
        let list: &mut dyn Any = &mut *all[at].1;
        list.downcast_mut()
            .expect("the list was found or made with this type")
    }

    /// Hands over what was gathered.
    pub fn hand_over(&mut self) {
        while let Some((_, list)) = self.gathered.0.pop() {
            list.hand_over(self);
        }
    }
}
