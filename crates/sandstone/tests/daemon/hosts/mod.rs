//! Two daemons: one serves, and the other logs in, chooses paths, and exports the same disk.
//!
//! The tests use the command line, as a user does.

mod discovery;
mod foreign_names;
mod gateway;
mod logins;
mod old_targets;
mod physical_blocks;
mod times;
mod write_cache;

use std::ffi::OsString;
use std::path::Path;

use cli::{Terminal, run_client};
use model::config::BackendSpec;
use testing::wait;

use crate::served::{Served, TARGET, unit};

/// Bytes of the disk.
const SIZE: u64 = 16 << 20;
/// Name of the disk.
const DEVICE: &str = "naa.6e000000000000010000000000000001";

/// Result of a command line.
#[derive(Debug, PartialEq, Eq)]
struct Ran {
    code: u8,
    out: String,
    err: String,
}

impl Ran {
    /// Returns the output; the command must have succeeded.
    fn good(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Returns the error; the command must have failed.
    fn bad(self) -> String {
        assert_eq!(self.code, 1, "{self:?}");
        self.err
    }
}

/// Runs a command line against the daemon of a state folder.
fn run(state: &Path, line: &str) -> Ran {
    run_words(state, &line.split_whitespace().collect::<Vec<_>>())
}

/// Runs a command line whose words may hold blanks.
fn run_words(state: &Path, words: &[&str]) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = ["sandstone", "--state", state.to_str().unwrap()];
    let args = args.into_iter().chain(words.iter().copied());
    let terminal = Terminal {
        out: &mut out,
        err: &mut err,
        ask: None,
        width: None,
    };
    let code = run_client(
        &sandstone::PROGRAM,
        args.map(OsString::from).collect::<Vec<_>>(),
        terminal,
    );
    Ran {
        code,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

/// Runs a command line until it prints this text.
fn until(state: &Path, line: &str, wanted: &str) -> String {
    let what = format!("{line}: {wanted:?}");
    wait::until_seen(&what, || run(state, line), |ran| ran.out.contains(wanted)).out
}

/// Starts a daemon that serves a disk in a file.
fn back() -> Served {
    let backend = BackendSpec::File {
        path: "volumes/vol.img".into(),
        size: SIZE,
        preallocate: false,
    };
    Served::start(vec![unit("vol", 1, backend)])
}

/// Starts a daemon that serves nothing yet.
fn front() -> Served {
    Served::start(Vec::new())
}

/// Logs a daemon in to another's target with this number of sessions.
fn log_in(front: &Served, back: &Served, sessions: u32) -> String {
    let portal = back.portal;
    let line = format!("initiator login {TARGET} --portal {portal} --sessions {sessions}");
    run(front.folder(), &line).good()
}
