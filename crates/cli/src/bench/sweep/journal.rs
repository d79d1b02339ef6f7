//! The journal of a sweep: all that it has turned or made, in a file that outlives it. If the sweep
//! is killed, the next command of the benchmark puts everything back.
//!
//! The order matters. Properties and a write cache are noted, durably, before they are turned. A
//! volume is noted after it was made, because a volume of its name that the sweep did not make is
//! somebody else's. The file goes when everything is put back. A sweep at work holds a lock on its
//! file, which ends with the sweep however the sweep ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::made;
use super::volume::command;
use crate::{Connection, Done, Terminal};
use control::Client;
use control::endpoint::volume;
use control::endpoint::volume::How;
use initiator::write_cache::WriteCache;
use model::pool::dataset::Changed;
use model::pool::dataset::change::DatasetChange;
use model::{Error, ErrorKind};

/// Change that a sweep makes outside its own files, with the state before it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(super) enum Entry {
    /// Properties of a volume that are turned.
    Properties {
        /// Changes that restore the properties.
        before: Vec<DatasetChange>,
    },
    /// Volume that was made, with a logical unit.
    Made {
        volume: String,
        unit: String,
        /// Time of creation by the daemon's clock. A volume of that name from another time is not
        /// the sweep's.
        created_s: u64,
    },
    /// Write cache that is turned.
    WriteCache { target: String, was_on: bool },
}

/// File of a sweep at work.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Begins a journal beside the files of the daemon. If this process may not write there, begins
    /// it in the user's own folder.
    pub(super) fn begin(connection: &Connection) -> Result<Self, Error> {
        let daemon = connection.client().address().to_string();
        let number = getrandom::u64().map_err(|error| cannot(io::Error::other(error)))?;
        let mut last = io::ErrorKind::NotFound.into();
        for folder in folders(connection) {
            match Self::begin_in(&folder, number, &daemon) {
                Ok(journal) => return Ok(journal),
                Err(error) => last = error,
            }
        }
        Err(cannot(last))
    }

    fn begin_in(folder: &Path, number: u64, daemon: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("{number:016x}"));
        // The name of a target may hold a secret.
        let mut options = OpenOptions::new();
        let file = options
            .create_new(true)
            .append(true)
            .mode(0o600)
            .open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut journal = Self { path, file };
        journal.line(&daemon)?;
        File::open(folder)?.sync_all()?;
        Ok(journal)
    }

    /// Notes a change. When this returns, the note outlives a power cut.
    pub(super) fn note(&mut self, entry: &Entry) -> Result<(), Error> {
        self.line(entry).map_err(cannot)
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        self.file.sync_all()
    }

    /// Removes the file, because everything was put back.
    pub(super) fn end(self) {
        // A journal that stays is put back once more, which changes nothing.
        let _ = fs::remove_file(&self.path);
    }
}

/// Puts back the changes of sweeps that were killed, and reports that. Names every change that
/// cannot be put back.
pub(in crate::bench) fn put_back_left(connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let files = folders(connection).into_iter();
    let files = files
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten();
    for path in files.filter_map(|entry| Some(entry.ok()?.path())) {
        let Some(entries) = left(&path, &client.address().to_string()) else {
            continue;
        };
        let mut is_whole = true;
        for entry in entries.iter().rev() {
            match entry.put_back(&client) {
                Ok(()) => writeln!(
                    t.err,
                    "a sweep that was killed left {}; this was undone",
                    entry.words()
                )?,
                Err(error) => {
                    is_whole = false;
                    writeln!(
                        t.err,
                        "a sweep that was killed left {}, and this cannot be undone: {error}; undo it by hand: {}",
                        entry.words(),
                        entry.by_hand()
                    )?;
                }
            }
        }
        if is_whole {
            // A journal that stays is put back once more, which changes nothing.
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Returns the notes of a sweep of this daemon, if the sweep is no longer at work. A torn last line
/// was not acted on.
fn left(path: &Path, daemon: &str) -> Option<Vec<Entry>> {
    let file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let of: String = serde_json::from_slice(lines.next()?.as_bytes()).ok()?;
    let entries = lines.filter_map(|line| serde_json::from_slice(line.as_bytes()).ok());
    (of == daemon).then(|| entries.collect())
}

/// Returns the folders that may hold journals: the daemon's state folder, and the user's.
fn folders(connection: &Connection) -> Vec<PathBuf> {
    let state = connection.state_folder();
    let state = state.is_dir().then(|| state.to_owned());
    let own = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let own = own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")));
    let own = own.map(|own| own.join("sandstone"));
    let all = state.into_iter().chain(own);
    all.map(|folder| folder.join("sweeps")).collect()
}

fn cannot(error: io::Error) -> Error {
    let mut error = Error::storage("record the changes of the sweep", error);
    error.next = "set XDG_STATE_HOME to a writable folder: without the record, the changes of a killed sweep \
                  could not be undone"
        .to_owned();
    error
}

impl Entry {
    fn put_back(&self, client: &Client) -> Result<(), Error> {
        match self {
            Self::Properties { before } => before.iter().try_for_each(|change| {
                let done: Result<Changed, Error> =
                    client.ask(&volume::CHANGE, &[], &How::default(), change);
                gone_is_well(done.map(drop))
            }),
            Self::Made {
                volume,
                unit,
                created_s,
            } => made::remove_left(client, volume, unit, *created_s),
            Self::WriteCache { target, was_on } => WriteCache::of(target)
                .map_err(|error| error.to_string())
                .and_then(|cache| cache.turn(*was_on).map_err(|error| error.to_string()))
                .map_err(|error| Error::new(ErrorKind::Unavailable, error, self.by_hand())),
        }
    }

    /// Returns the leftover change as a noun phrase.
    fn words(&self) -> String {
        match self {
            Self::Properties { .. } => "changed properties of a volume".to_owned(),
            Self::Made { volume, unit, .. } => format!("volume {volume} and lu {unit}"),
            Self::WriteCache { target, .. } => {
                format!(
                    "a changed write cache of {}",
                    backends::locate::shown(target)
                )
            }
        }
    }

    /// Returns the command that puts the change back.
    pub(super) fn by_hand(&self) -> String {
        match self {
            Self::Properties { before } => {
                let commands: Vec<String> = before.iter().map(command).collect();
                commands.join("; ")
            }
            Self::Made { volume, unit, .. } => {
                format!("sandstone lu delete {unit} --yes; sandstone volume destroy {volume}")
            }
            Self::WriteCache { was_on, .. } => {
                let was = if *was_on { "on" } else { "off" };
                format!("turn the unit's write cache {was} where it is administered")
            }
        }
    }
}

/// Accepts that the object does not exist any more: then there is nothing to put back.
fn gone_is_well(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(was_on: bool) -> Entry {
        let target = "iscsi://localhost/iqn.2026-01.io.sandstone:x/0".to_owned();
        Entry::WriteCache { target, was_on }
    }

    #[test]
    fn only_what_a_sweep_left_that_is_not_at_work_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::begin_in(folder.path(), 7, "here").expect("begun");
        journal.note(&entry(true)).expect("noted");
        journal
            .file
            .write_all(b"{\"what\":\"write-ca")
            .expect("torn");
        let path = journal.path.clone();
        assert!(left(&path, "here").is_none(), "it is at work");
        drop(journal);
        assert!(left(&path, "elsewhere").is_none(), "another daemon's");
        let found = left(&path, "here").expect("it ended");
        assert!(matches!(
            found[..],
            [Entry::WriteCache { was_on: true, .. }]
        ));
    }
}
