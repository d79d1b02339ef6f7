//! Watch for device names that go or come back: a disk that is pulled or plugged in, a file that is
//! renamed.
//!
//! The kernel (inotify) reports changes in the folders that hold the names of pool devices. The
//! thread sleeps until one of these names changes, and then calls for a check. It decides nothing
//! itself.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

/// Bytes for events that arrive together.
const EVENTS: usize = 4096;

/// Handle of the watching thread.
pub(crate) struct NameWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    inotify: OwnedFd,
    /// Descriptor that ends the thread's sleep.
    wake: OwnedFd,
    /// Last parts of the devices' paths.
    names: Mutex<BTreeSet<OsString>>,
    is_over: AtomicBool,
}

impl fmt::Debug for NameWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameWatch").finish_non_exhaustive()
    }
}

impl NameWatch {
    /// Starts the thread, which calls `on_change`.
    ///
    /// # Errors
    /// The kernel has no descriptor or thread left.
    pub(crate) fn start(on_change: impl Fn() + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            inotify: init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            names: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("device-names".to_owned());
        let thread = thread.spawn(move || own.run(&on_change))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Replaces the watched names. A folder that does not exist yet is not watched.
    pub(crate) fn watch<'a>(&self, paths: impl Iterator<Item = &'a Path>) {
        let flags =
            WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
        let mut names = BTreeSet::new();
        for path in paths {
            if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
                names.insert(name.to_owned());
                // A folder that is already watched stays so.
                let _ = add_watch(&self.shared.inotify, folder, flags);
            }
        }
        *self.shared.names() = names;
    }
}

impl Drop for NameWatch {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // A full counter wakes the thread as well.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
        // A thread that panicked has already said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn names(&self) -> std::sync::MutexGuard<'_, BTreeSet<OsString>> {
        // The value is replaced whole: a panic leaves nothing half done.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, on_change: &dyn Fn()) {
        while !self.is_over.load(Ordering::Acquire) {
            let mut sources = [
                PollFd::new(&self.inotify, PollFlags::IN),
                PollFd::new(&self.wake, PollFlags::IN),
            ];
            match poll(&mut sources, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => {
                    tracing::warn!(%error, "device names are no longer watched");
                    return;
                }
            }
            if self.has_news() && !self.is_over.load(Ordering::Acquire) {
                on_change();
            }
        }
    }

    /// Takes all events, and reports whether one concerns a device.
    fn has_news(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); EVENTS];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        let mut is_news = false;
        // Until no event is left.
        while let Ok(event) = events.next() {
            let name = event
                .file_name()
                .map(|name| OsStr::from_bytes(name.to_bytes()));
            // An event without a name means a folder that went, or more events than the kernel
            // kept.
            is_news |= name.is_none_or(|name| self.names().contains(name));
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn names_that_go_and_come_are_noticed_and_no_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = folder.path().join("d0");
        std::fs::write(&device, "x").expect("a file");
        let (sender, news) = channel();
        let watch =
            NameWatch::start(move || sender.send(()).expect("somebody waits")).expect("a watch");
        watch.watch([device.as_path()].into_iter());
        let is_noticed = || news.recv_timeout(Duration::from_secs(20)).is_ok();
        std::fs::write(folder.path().join("other"), "x").expect("a file");
        std::fs::rename(&device, folder.path().join("away")).expect("renamed");
        assert!(is_noticed());
        // No event was reported for the other name before.
        std::fs::rename(folder.path().join("away"), &device).expect("renamed");
        assert!(is_noticed());
        std::fs::remove_file(&device).expect("removed");
        assert!(is_noticed());
        drop(watch);
        assert!(
            news.try_recv().is_err(),
            "the thread has ended, and said nothing more"
        );
    }
}
