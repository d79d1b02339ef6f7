//! The signals that end a daemon in order, or have it look anew.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// SIGINT and SIGTERM, caught from now on: they end a daemon in order, also one that has just begun
/// to serve.
#[derive(Debug)]
pub struct StopSignals(Signals);

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Look anew for what may have changed.
    Reload,
    /// End, because of the signal of this name.
    Stop(&'static str),
}

impl StopSignals {
    /// Catches them.
    ///
    /// # Errors
    /// The kernel refuses the signal handlers.
    pub fn catch() -> std::io::Result<Self> {
        Signals::new([SIGINT, SIGTERM]).map(Self)
    }

    /// Catches SIGHUP too, which ends nothing from now on: a terminal that closes must not take the
    /// storage with it.
    ///
    /// # Errors
    /// The kernel refuses the signal handlers.
    pub fn catch_with_reload() -> std::io::Result<Self> {
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map(Self)
    }

    /// Waits for one that ends; returns its name.
    pub fn wait(mut self) -> &'static str {
        loop {
            if let Asked::Stop(reason) = self.wait_for_next() {
                return reason;
            }
        }
    }

    /// Waits for the next one.
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
