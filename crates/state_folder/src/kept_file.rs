//! One file of the state folder with its generations: loading, saving, and going back to an older
//! one. The documentation of the crate states the order of writes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::frame::Unfit;
use super::steps::{Step, before};

/// Bytes that a reservation adds to the present length of the file.
const ROOM: usize = 32 << 10;

/// File of which older generations are kept.
#[derive(Debug)]
pub struct KeptFile {
    path: PathBuf,
    /// Number of generations that are kept beside the one in force.
    keep: usize,
    /// Generation in force.
    stored: Option<u64>,
    /// Highest generation that any file of this name ever had, as far as is known.
    highest: u64,
    /// Length of the file, in bytes, when it was last loaded or saved.
    len: usize,
    /// Whether the file itself was found damaged, and not only older than its copy.
    is_unfit: bool,
}

/// File as it was found.
#[derive(Debug)]
pub struct FoundFile<T> {
    /// Newest whole generation, and its content.
    pub content: Option<(u64, T)>,
    /// Damage of the file; `None` if the file is as it was written, or never existed.
    pub trouble: Option<Trouble>,
}

/// Damage of a file.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// Reason, as a clause without a full stop.
    pub reason: String,
    /// Whether no copy of the newest generation is whole. An acknowledged change may then be
    /// missing.
    pub is_newest_lost: bool,
    /// Whether a newer version of the program wrote the file.
    pub is_newer: bool,
    /// Files that do not count.
    pub damaged: Vec<PathBuf>,
}

impl KeptFile {
    /// Names the file at `path`, of which `keep` generations stay beside the one in force.
    pub fn at(path: PathBuf, keep: usize) -> Self {
        Self {
            path,
            keep,
            stored: None,
            highest: 0,
            len: 0,
            is_unfit: false,
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the generation in force; `None` before the first save.
    pub fn stored(&self) -> Option<u64> {
        self.stored
    }

    /// Returns a generation that no file of this name had before.
    pub fn next_generation(&self) -> u64 {
        self.highest + 1
    }

    /// Finds the newest whole generation, and changes no file. `open` checks bytes, and returns
    /// their generation and content.
    pub fn load<T>(&mut self, open: impl Fn(&[u8]) -> Result<(u64, T), Unfit>) -> FoundFile<T> {
        let main = read(&self.path).and_then(|bytes| Ok((open(&bytes)?, bytes)));
        let numbers = self.generations().unwrap_or_default();
        let newest_copy = numbers.last().copied();
        let (mut best, reason, is_newer) = match main {
            Ok((found, bytes)) => {
                self.len = bytes.len();
                (Some(found), None, false)
            }
            Err(Lacking::Missing) => (None, newest_copy.map(|_| "it is missing".to_owned()), false),
            Err(Lacking::Unfit(unfit)) => (None, Some(unfit.reason), unfit.is_newer),
        };
        let of_main = best.as_ref().map(|(generation, _)| *generation);
        let mut damaged = Vec::new();
        self.is_unfit = reason.is_some() && self.path.exists();
        if self.is_unfit {
            damaged.push(self.path.clone());
        }
        for number in numbers.into_iter().rev() {
            if best.as_ref().is_some_and(|(best, _)| *best >= number) {
                break;
            }
            let copy = self.copy(number);
            match read(&copy).and_then(|bytes| Ok((open(&bytes)?, bytes))) {
                Ok((found, bytes)) => {
                    self.len = bytes.len();
                    best = Some(found);
                }
                Err(_) => damaged.push(copy),
            }
        }
        let generation = best.as_ref().map(|(generation, _)| *generation);
        self.stored = of_main;
        self.highest = generation.max(newest_copy).unwrap_or(0);
        let reason = match (of_main, generation) {
            (Some(main), Some(best)) if main < best => Some(format!(
                "it holds generation {main}, but generation {best} was in force"
            )),
            _ => reason,
        };
        // A torn copy above a whole file is a save that was never acknowledged.
        let trouble = reason.map(|reason| Trouble {
            is_newest_lost: generation < newest_copy || generation.is_none(),
            reason: format!("{}: {reason}", self.path.display()),
            is_newer,
            damaged,
        });
        FoundFile {
            content: best,
            trouble,
        }
    }

    /// Renames a damaged file to `….damaged`, and replaces it by the copy of `generation` if there
    /// is one. A file that is whole and older than its copy stays until it is replaced: a kill in
    /// the middle of a save leaves it. If the folder cannot be written, everything stays as it is:
    /// the copy counts until the file is replaced.
    pub fn put_right(&mut self, generation: Option<u64>) {
        let right = || -> io::Result<()> {
            if self.is_unfit && self.path.exists() {
                fs::rename(&self.path, added(&self.path, ".damaged"))?;
            }
            match generation {
                Some(generation) => replace(&self.path, &fs::read(self.copy(generation))?),
                None => sync_folder(&self.path),
            }
        };
        match right() {
            Ok(()) => self.stored = generation,
            Err(error) => {
                let file = self.path.display();
                tracing::warn!(%file, %error, "the damaged file could not be replaced yet");
            }
        }
    }

    /// Reserves space for the next save: writes and syncs the blocks that the save will need.
    ///
    /// # Errors
    /// The space is too small, or the folder cannot be written. Nothing has changed.
    pub fn reserve(&self) -> io::Result<()> {
        make_folder(&self.history())?;
        let zeroes = vec![0; self.len + ROOM];
        let copy = self.history().join(file_name(&self.path));
        for new in [beside(&copy), beside(&self.path)] {
            write_beside(&new, &zeroes).inspect_err(|_| self.release())?;
        }
        Ok(())
    }

    /// Frees the space that [`Self::reserve`] took and no save used.
    pub fn release(&self) {
        let copy = self.history().join(file_name(&self.path));
        for new in [beside(&copy), beside(&self.path)] {
            // If the file stays, the next save uses or removes it.
            let _ = fs::remove_file(new);
        }
    }

    /// Replaces the file. After a crash the file holds either its old content or `bytes`. The
    /// generation must be higher than the one in force.
    ///
    /// # Errors
    /// The folder cannot be written. The previous generation is still in force; if that cannot be
    /// promised, the error of the second failure says so.
    pub fn save(&mut self, generation: u64, bytes: &[u8]) -> io::Result<()> {
        let before = self.stored;
        if before >= Some(generation) {
            let message = format!("generation {generation} is not above the generation in force");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let saved = self
            .write_copy(generation, bytes)
            .and_then(|()| replace(&self.path, bytes));
        if let Err(error) = saved {
            self.undo(before, generation).map_err(|second| {
                let message =
                    format!("{error}; and the previous file could not be restored: {second}");
                io::Error::new(error.kind(), Halfway(message))
            })?;
            return Err(error);
        }
        self.stored = Some(generation);
        self.highest = self.highest.max(generation);
        self.len = bytes.len();
        self.prune();
        Ok(())
    }

    /// Reports whether an error of [`Self::save`] leaves open which content is in force, the old or
    /// the new.
    pub fn is_halfway(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|of| of.is::<Halfway>())
    }

    fn write_copy(&self, generation: u64, bytes: &[u8]) -> io::Result<()> {
        make_folder(&self.history())?;
        // The reserved file's name does not depend on the generation.
        let reserved = beside(&self.history().join(file_name(&self.path)));
        put(&reserved, &self.copy(generation), bytes)
    }

    /// Puts the content of an existing copy in force again. This takes no space.
    ///
    /// # Errors
    /// The copy does not exist, or the folder cannot be written.
    pub fn go_back(&mut self, generation: u64) -> io::Result<()> {
        let undone = self.stored.unwrap_or(generation);
        self.undo(Some(generation), undone)?;
        self.stored = Some(generation);
        Ok(())
    }

    /// Puts `before` in force, and removes the copy of the undone generation.
    fn undo(&self, before: Option<u64>, undone: u64) -> io::Result<()> {
        self.release();
        // The copy goes first: of two whole generations the higher counts.
        if before != Some(undone) {
            remove(&self.copy(undone))?;
        }
        let is_as_before = before.is_some_and(|before| {
            let is_same = |bytes: Vec<u8>| fs::read(&self.path).is_ok_and(|now| now == bytes);
            fs::read(self.copy(before)).is_ok_and(is_same)
        });
        match before {
            _ if is_as_before => return Ok(()),
            Some(before) => {
                let new = beside(&self.path);
                fs::hard_link(self.copy(before), &new)?;
                fs::rename(new, &self.path)?;
            }
            None => remove(&self.path)?,
        }
        sync_folder(&self.path)
    }

    /// Removes the file, its copies, and all remains of both.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn remove(&self) -> io::Result<()> {
        self.release();
        for generation in self.generations()? {
            remove(&self.copy(generation))?;
        }
        remove(&self.path)
    }

    /// Lists the generations that have a copy, in ascending order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn generations(&self) -> io::Result<Vec<u64>> {
        let name = file_name(&self.path);
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let mut generations = Vec::new();
        let entries = match fs::read_dir(self.history()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(generations),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?.file_name();
            let number = entry.to_str().and_then(|entry| {
                let rest = entry.strip_prefix(stem)?.strip_prefix('.')?;
                rest.strip_suffix(extension)?.strip_suffix('.')
            });
            generations.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        generations.sort_unstable();
        Ok(generations)
    }

    /// Returns the path of the copy of a generation.
    pub fn copy(&self, generation: u64) -> PathBuf {
        let name = file_name(&self.path);
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        self.history()
            .join(format!("{stem}.{generation}.{extension}"))
    }

    fn history(&self) -> PathBuf {
        folder_of(&self.path).join("history")
    }

    /// Removes the copies of all generations but the one in force.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn forget_older(&self) -> io::Result<()> {
        let older = self.generations()?;
        let mut older = older.iter().filter(|it| Some(**it) < self.stored);
        older.try_for_each(|generation| remove(&self.copy(*generation)))?;
        sync_folder(&self.copy(0))
    }

    fn prune(&self) {
        let kept = self.generations().unwrap_or_default();
        for generation in kept.iter().rev().skip(self.keep + 1) {
            // A copy that stays is untidy, but harmless.
            let _ = fs::remove_file(self.copy(*generation));
        }
    }
}

/// Reason why no bytes count.
enum Lacking {
    Missing,
    Unfit(Unfit),
}

impl From<Unfit> for Lacking {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

/// Mark of the errors that [`KeptFile::is_halfway`] recognizes.
#[derive(Debug)]
struct Halfway(String);

impl std::fmt::Display for Halfway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Halfway {}

fn read(path: &Path) -> Result<Vec<u8>, Lacking> {
    fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Lacking::Missing,
        _ => Lacking::Unfit(format!("it cannot be read: {error}").into()),
    })
}

fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn file_name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

fn added(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the path at which the replacement of a file is written.
pub(super) fn beside(path: &Path) -> PathBuf {
    added(path, ".new")
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(&beside(path), path, bytes)
}

/// Writes `bytes` to `new`, and renames it to `path`.
fn put(new: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_beside(new, bytes)?;
    before(Step::Rename)?;
    fs::rename(new, path)?;
    sync_folder(path)
}

/// Writes a file that only the daemon may read. Blocks of an existing file are used again, because
/// they were reserved.
fn write_beside(new: &Path, bytes: &[u8]) -> io::Result<()> {
    let reserved = fs::metadata(new).map(|file| file.len()).ok();
    if reserved.is_none() {
        before(Step::Create)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(new)?;
    before(match reserved.unwrap_or(0) >= bytes.len() as u64 {
        true => Step::Overwrite,
        false => Step::Write,
    })?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    before(Step::Sync)?;
    file.sync_all()
}

pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    before(Step::SyncFolder)?;
    File::open(folder_of(path))?.sync_all()
}

/// Creates a folder, unless it exists, so that it survives a power cut.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    before(Step::Create)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    sync_folder(folder)?;
    sync_folder(folder_of(folder))
}

fn remove(path: &Path) -> io::Result<()> {
    // A read-only file system refuses even to remove a missing file.
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    before(Step::Remove)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
