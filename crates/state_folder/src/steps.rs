//! The moments of a save at which it may fail or the power may go; tests make each of them happen.

use std::io;

/// A request that is about to be made of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A temporary file is made.
    Create,
    /// Bytes are written to it that take space.
    Write,
    /// Bytes are written to it where it has space.
    Overwrite,
    /// It is synced.
    Sync,
    /// It takes the name of what it replaces.
    Rename,
    /// The folder is synced.
    SyncFolder,
    /// A file that is not to count is removed.
    Remove,
}

/// Lets a test fail the step. Nothing stands between the daemon and its file system.
#[cfg(not(any(test, feature = "faults")))]
#[expect(clippy::unnecessary_wraps, reason = "tests make it fail")]
pub(super) fn before(_step: Step) -> io::Result<()> {
    Ok(())
}

#[cfg(any(test, feature = "faults"))]
pub(super) use faults::before;

#[cfg(any(test, feature = "faults"))]
pub mod faults {
    //! Faults of this thread's saves.

    use std::cell::RefCell;

    use super::{Step, io};

    type Fault = Box<dyn FnMut(Step) -> io::Result<()>>;

    thread_local! {
        static FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
    }

    /// Asks the fault of this thread before a step.
    pub fn before(step: Step) -> io::Result<()> {
        FAULT.with_borrow_mut(|fault| match fault {
            Some(fault) => fault(step),
            None => Ok(()),
        })
    }

    /// Asks `fault` before each step of what `work` saves on this thread.
    pub fn during<T>(
        fault: impl FnMut(Step) -> io::Result<()> + 'static,
        work: impl FnOnce() -> T,
    ) -> T {
        /// Takes the fault away, also after a panic.
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

    /// Fails the steps that `is_hit` picks, from the `at`th on (from 0).
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

    /// A disk without space: nothing new is written, names can be changed.
    pub fn full(at: usize) -> impl FnMut(Step) -> io::Result<()> + 'static {
        let takes_space = |step| matches!(step, Step::Create | Step::Write);
        from(at, io::ErrorKind::StorageFull, takes_space)
    }

    /// A file system that became read-only.
    pub fn read_only(at: usize) -> impl FnMut(Step) -> io::Result<()> + 'static {
        from(at, io::ErrorKind::ReadOnlyFilesystem, |_| true)
    }
}
