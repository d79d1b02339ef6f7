//! The program around the command line. It holds the verbs that are daemons, and work on this
//! machine that no daemon does for a client.
//!
//! The command line knows the model and the client of the API. It does not know pools or servers:
//! the crate that joins all parts fills in these functions.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use iscsi::isns::FoundTarget;

use crate::{Connection, attach, demo, serve};
use config::backup::PoolMembers;
use model::pool::check::{CheckPool, CheckView};
use model::pool::rebuild_labels::{RebuildLabels, RebuildProgress, RebuildView};
use model::{Error, ErrorKind};

/// Function that checks a pool.
pub(crate) type CheckPoolFn = fn(&CheckPool, &mut dyn FnMut(u64, u64)) -> Result<CheckView, Error>;

/// Function that rebuilds labels.
pub(crate) type RebuildLabelsFn =
    fn(&RebuildLabels, &mut dyn FnMut(RebuildProgress<'_>)) -> Result<RebuildView, Error>;

/// Functions that the command line needs from the program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Runs `serve`.
    pub serve: fn(&serve::Args, &Connection) -> ExitCode,
    /// Runs `demo`.
    pub demo: fn(&demo::Args, &Connection) -> ExitCode,
    /// Runs `initiator attach`.
    pub attach: fn(&attach::Args, &Connection) -> ExitCode,
    /// Checks a pool that is not open. The function is told the bytes that were proven, and all.
    pub check_pool: CheckPoolFn,
    /// Rebuilds labels of devices that lost all of them.
    pub rebuild_labels: RebuildLabelsFn,
    /// Returns the pools that the list of a state folder names, and their devices.
    pub pool_members: fn(&Path) -> Vec<PoolMembers>,
    /// Asks an iSNS server for the targets of an initiator; each step takes at most the given time.
    /// An error is the reason in words.
    pub isns_targets: fn(SocketAddr, &str, Duration) -> Result<Vec<FoundTarget>, String>,
}

impl Program {
    /// Returns a program that only has clients of a daemon: all else is refused.
    pub const fn of_clients() -> Self {
        Self {
            serve: |_, _| ExitCode::FAILURE,
            demo: |_, _| ExitCode::FAILURE,
            attach: |_, _| ExitCode::FAILURE,
            check_pool: |_, _| Err(absent()),
            rebuild_labels: |_, _| Err(absent()),
            pool_members: |_| Vec::new(),
            isns_targets: |_, _, _| Err(absent().message),
        }
    }
}

fn absent() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "this program has only clients of a daemon",
        "use the sandstone program",
    )
}
