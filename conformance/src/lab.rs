//! What a lab is: a name, what it proves, and a function that proves it or says why it cannot.

use anyhow::Result;

use crate::packages::Tools;
use crate::server::{Kind, Server, Spec};

/// What labs share.
#[derive(Debug)]
pub struct Bench {
    /// The server under test.
    pub kind: Kind,
    /// Programs of others.
    pub tools: Tools,
}

impl Bench {
    /// Starts the server under test.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn serve(&self, spec: Spec) -> Result<Server> {
        Server::start(&self.kind, &self.tools, spec)
    }

    /// True when the peer is measured instead of Sandstone.
    pub fn is_peer(&self) -> bool {
        matches!(self.kind, Kind::Tgt)
    }
}

/// How a lab ended, when it did not fail.
#[derive(Debug)]
pub enum Outcome {
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
    pub fn passed(figures: impl Into<String>) -> Self {
        Self::Passed {
            figures: figures.into(),
            skips: Vec::new(),
        }
    }
}

/// One lab.
#[derive(Clone, Copy)]
pub struct Lab {
    /// What to type to run only this one.
    pub name: &'static str,
    /// What it proves.
    pub about: &'static str,
    /// It boots a guest: left out of quick runs.
    pub guest: bool,
    /// Runs it.
    pub run: fn(&Bench) -> Result<Outcome>,
}
