//! Names of objects that a request is making. A request that needs a name in use waits until the
//! name is free.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The names that are held.
#[derive(Debug, Default)]
pub struct NamesInUse {
    held: Mutex<BTreeSet<String>>,
    freed: Condvar,
}

/// A hold on names. While it exists, no other request holds one of them.
#[derive(Debug)]
pub(super) struct Held<'a> {
    of: &'a NamesInUse,
    names: Vec<String>,
}

impl NamesInUse {
    /// Waits until none of these names is held, then holds all of them. It never holds only some,
    /// so requests cannot wait for each other in a ring.
    pub(super) fn hold(&self, names: Vec<String>) -> Held<'_> {
        let is_held = |held: &mut BTreeSet<String>| names.iter().any(|name| held.contains(name));
        let waited = self.freed.wait_while(self.lock(), is_held);
        let mut held = waited.unwrap_or_else(PoisonError::into_inner);
        held.extend(names.iter().cloned());
        Held { of: self, names }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.of.lock();
        for name in &self.names {
            held.remove(name);
        }
        self.of.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_name_is_held_once_and_others_go_on() {
        let names = NamesInUse::default();
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (inside, done) = (AtomicU32::new(0), AtomicU32::new(0));
        let first = names.hold(owned(&["a", "b"]));
        std::thread::scope(|scope| {
            let waits = |wanted: &'static [&'static str]| {
                let _held = names.hold(owned(wanted));
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                inside.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
            };
            scope.spawn(move || waits(&["b", "c"]));
            scope.spawn(move || waits(&["c", "a"]));
            drop(names.hold(owned(&["d"])));
            assert_eq!(done.load(Ordering::SeqCst), 0);
            drop(first);
        });
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }
}
