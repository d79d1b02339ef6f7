//! What a lab is: a name, what it proves, and a function that proves it or says why it cannot.

use anyhow::Result;

use crate::packages::Tools;
use crate::server::{Kind, Server, Spec};

/// What labs share.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The server under test.
    pub(crate) kind: Kind,
    /// How long a storm rages.
    pub(crate) seconds: u64,
    /// Programs of others.
    pub(crate) tools: Tools,
}

impl Bench {
    /// Starts the server under test.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub(crate) fn serve(&self, spec: Spec) -> Result<Server> {
        Server::start(&self.kind, &self.tools, spec)
    }

    /// True when the peer is measured instead of Sandstone.
    pub(crate) fn is_peer(&self) -> bool {
        matches!(self.kind, Kind::Tgt)
    }
}

/// How a lab ended, when it did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It proved what it is for.
    Passed {
        /// One line of figures.
        figures: String,
        /// Parts that an outside suite skipped, each with its reason.
        skips: Vec<String>,
    },
    /// It cannot run here, and why.
    Skipped(String),
}

impl Outcome {
    /// Passed with a line of figures.
    pub(crate) fn passed(figures: impl Into<String>) -> Self {
        Self::Passed {
            figures: figures.into(),
            skips: Vec::new(),
        }
    }
}

/// What may run beside a lab on this machine's few cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Others may.
    Shared,
    /// It boots a guest, which keeps a processor busy. Left out of quick runs.
    Guest,
    /// Nothing may: it measures what others would spoil.
    Alone,
}

/// One lab.
#[derive(Clone, Copy)]
pub(crate) struct Lab {
    /// What to type to run only this one.
    pub(crate) name: &'static str,
    /// What it proves.
    pub(crate) about: &'static str,
    /// What may run beside it.
    pub(crate) room: Room,
    /// Runs it.
    pub(crate) run: fn(&Bench) -> Result<Outcome>,
}
