//! Signals that stop a daemon cleanly, or make it reload.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// SIGINT and SIGTERM, caught from now on. They stop a daemon cleanly, even if it has just begun to
/// serve.
#[derive(Debug)]
pub struct StopSignals(Signals);

/// Request that a signal makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Reload: look again for what may have changed.
    Reload,
    /// Stop, because of the signal of this name.
    Stop(&'static str),
}

impl StopSignals {
    /// Catches the signals.
    ///
    /// # Errors
    /// The kernel refuses the signal handlers.
    pub fn catch() -> std::io::Result<Self> {
        Signals::new([SIGINT, SIGTERM]).map(Self)
    }

    /// Catches SIGHUP too, which from now on ends nothing: a terminal that closes must not stop the
    /// storage.
    ///
    /// # Errors
    /// The kernel refuses the signal handlers.
    pub fn catch_with_reload() -> std::io::Result<Self> {
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map(Self)
    }

    /// Waits for a signal that stops the daemon, and returns its name.
    pub fn wait(mut self) -> &'static str {
        loop {
            if let Asked::Stop(reason) = self.wait_for_next() {
                return reason;
            }
        }
    }

    /// Waits for the next signal.
    pub fn wait_for_next(&mut self) -> Asked {
        match self.0.forever().next() {
            Some(SIGHUP) => Asked::Reload,
            Some(SIGINT) => Asked::Stop("SIGINT"),
            Some(SIGTERM) => Asked::Stop("SIGTERM"),
            // Only these three are caught.
            _ => Asked::Stop("a signal"),
        }
    }
}
