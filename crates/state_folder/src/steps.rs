//! Steps of a save at which it may fail or the power may go. Tests make each of them happen.

use std::io;

/// Request that is about to go to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Create a temporary file.
    Create,
    /// Write bytes that take new space to the temporary file.
    Write,
    /// Write bytes to the temporary file where it has space already.
    Overwrite,
    /// Sync the temporary file.
    Sync,
    /// Rename the temporary file to the name that it replaces.
    Rename,
    /// Sync the folder.
    SyncFolder,
    /// Remove a file that must not count.
    Remove,
}

/// Lets a test fail the step. Outside tests it does nothing.
#[cfg(not(any(test, feature = "faults")))]
#[expect(clippy::unnecessary_wraps, reason = "tests make it fail")]
pub(super) fn before(_step: Step) -> io::Result<()> {
    Ok(())
}

#[cfg(any(test, feature = "faults"))]
pub(super) use faults::before;

#[cfg(any(test, feature = "faults"))]
pub mod faults {
    //! Faults that tests inject into the saves of one thread.

    use std::cell::RefCell;

    use super::{Step, io};

    type Fault = Box<dyn FnMut(Step) -> io::Result<()>>;

    thread_local! {
        static FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
    }

    /// Asks the thread's injected fault before a step.
    pub fn before(step: Step) -> io::Result<()> {
        FAULT.with_borrow_mut(|fault| match fault {
            Some(fault) => fault(step),
            None => Ok(()),
        })
    }

    /// Asks `fault` before each step of the saves that `work` makes on this thread.
    pub fn during<T>(
        fault: impl FnMut(Step) -> io::Result<()> + 'static,
        work: impl FnOnce() -> T,
    ) -> T {
        /// Guard that removes the fault, also after a panic.
        struct Until;
        impl Drop for Until {
            fn drop(&mut self) {
                FAULT.set(None);
            }
        }
        FAULT.set(Some(Box::new(fault)));
        let _until = Until;
        work()
    }

    /// Fails the steps that `is_hit` picks, from step `at` on (counted from 0).
    pub fn from(
        at: usize,
        error: io::ErrorKind,
        is_hit: impl Fn(Step) -> bool + 'static,
    ) -> impl FnMut(Step) -> io::Result<()> + 'static {
        let mut steps = 0;
        move |step| {
            steps += 1;
            match steps > at && is_hit(step) {
                true => Err(error.into()),
                false => Ok(()),
            }
        }
    }

    /// Simulates a disk without space: no new bytes are written, but names can be changed.
    pub fn full(at: usize) -> impl FnMut(Step) -> io::Result<()> + 'static {
        let takes_space = |step| matches!(step, Step::Create | Step::Write);
        from(at, io::ErrorKind::StorageFull, takes_space)
    }

    /// Simulates a file system that became read-only.
    pub fn read_only(at: usize) -> impl FnMut(Step) -> io::Result<()> + 'static {
        from(at, io::ErrorKind::ReadOnlyFilesystem, |_| true)
    }
}
