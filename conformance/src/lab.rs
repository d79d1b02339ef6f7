//! Labs: a name, a claim, and a function that proves the claim or says why it cannot.

use anyhow::Result;

use crate::machine::packages::Tools;
use crate::servers::server::{Server, ServerKind, Spec};

/// Values that labs share.
#[derive(Debug)]
pub(crate) struct Bench {
    /// Kind of the server under test.
    pub(crate) kind: ServerKind,
    /// Duration of a storm in seconds.
    pub(crate) seconds: u64,
    /// Folder with two revisions of the package.
    pub(crate) packages: Option<std::path::PathBuf>,
    /// Folder for pictures of pages.
    pub(crate) pictures: Option<std::path::PathBuf>,
    /// Programs of other projects.
    pub(crate) tools: Tools,
}

impl Bench {
    /// Starts the server under test.
    ///
    /// # Errors
    /// Fails as [`Server::start`] does.
    pub(crate) fn serve(&self, spec: Spec) -> Result<Server> {
        Server::start(&self.kind, &self.tools, spec)
    }

    /// Reports whether the peer is under test instead of Sandstone.
    pub(crate) fn is_peer(&self) -> bool {
        matches!(self.kind, ServerKind::Tgt)
    }
}

/// Result of a lab that did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The lab proved its claim.
    Passed {
        /// One line of figures.
        figures: String,
        /// Parts that an outside suite skipped, each with its reason.
        skips: Vec<String>,
    },
    /// The lab cannot run here, for this reason.
    Skipped(String),
}

impl Outcome {
    /// Makes a passed outcome with a line of figures.
    pub(crate) fn passed(figures: impl Into<String>) -> Self {
        Self::Passed {
            figures: figures.into(),
            skips: Vec::new(),
        }
    }
}

/// Labs that may run beside a lab on this machine's few cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Room for other labs beside this one.
    Shared,
    /// Room for other labs beside a guest that this one boots, which keeps a processor busy. Quick
    /// runs leave this lab out.
    Guest,
    /// No room for other labs, and none at all without packages (`--packages`).
    Packages,
    /// No room for other labs, and none at all without a folder for pictures (`--pictures`).
    Pictures,
    /// No room for other labs or tests, which would spoil the measurements or meet its disks.
    Alone,
}

/// One lab.
#[derive(Clone, Copy)]
pub(crate) struct Lab {
    /// Name that selects only this lab on the command line.
    pub(crate) name: &'static str,
    /// Claim that the lab proves.
    pub(crate) about: &'static str,
    /// Labs that may run beside it.
    pub(crate) room: Room,
    /// Function that runs the lab.
    pub(crate) run: fn(&Bench) -> Result<Outcome>,
}
