//! Files with histories: where they lie, how a new one begins, and what becomes of a damaged one.
//!
//! A file gets its name only when it is whole. A damaged file keeps its bytes under another name.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use model::history::HistoryKind;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::book::{Book, Storage, Unfit, repaired};

/// File as storage of a book.
#[derive(Debug)]
pub(crate) struct FileStorage(File);

impl Storage for FileStorage {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, at)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn lengthen(&self, bytes: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
            // Some file systems cannot reserve space. A file with holes serves there.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.0.set_len(bytes),
            reserved => Ok(reserved?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Returns the path of the file of a kind.
pub(crate) fn path(folder: &Path, kind: HistoryKind) -> PathBuf {
    folder.join(match kind {
        HistoryKind::Unit => "units.rings",
        HistoryKind::Pool => "pools.rings",
        HistoryKind::Disk => "disks.rings",
        HistoryKind::Host => "hosts.rings",
        HistoryKind::PortGroup => "port-groups.rings",
    })
}

/// Opens the book of a kind, or begins it. Returns also what was wrong with the file, as a clause,
/// if it was damaged; then the book has all of it that is whole.
///
/// # Errors
/// The folder or the file cannot be read or written. Nothing is lost.
pub(crate) fn open(
    folder: &Path,
    kind: HistoryKind,
) -> io::Result<(Book<FileStorage>, Option<String>)> {
    let path = path(folder, kind);
    make_folder(folder)?;
    if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        begin(&path, |new| Book::create(new, kind))?;
    }
    let why = match Book::open(existing(&path)?, kind) {
        Ok(book) => return Ok((book, None)),
        Err(Unfit::Io(error)) => return Err(error),
        Err(Unfit::Damaged(why)) => why,
    };
    let damaged = existing(&path)?;
    let aside = added(&path, ".damaged");
    let mut kept = 0;
    begin(&path, |new| {
        kept = repaired(&damaged, new, kind)?;
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::hard_link(&path, &aside)
    })?;
    let rest = match kept {
        0 => "a new one was begun, because nothing in it can be used",
        _ => "a new file has all records that are whole; there is nothing to do",
    };
    let told = format!(
        "{} is damaged: {why}. It is kept as {}, and {rest}",
        path.display(),
        aside.display()
    );
    match Book::open(existing(&path)?, kind) {
        Ok(book) => Ok((book, Some(told))),
        Err(Unfit::Io(error)) => Err(error),
        Err(Unfit::Damaged(why)) => Err(io::Error::other(format!(
            "the new file is damaged as well: {why}"
        ))),
    }
}

/// Creates a folder that only the daemon may read, unless it exists.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn existing(path: &Path) -> io::Result<FileStorage> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(FileStorage(file)),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Fills a new file, and gives it its name once it is durable.
fn begin(path: &Path, fill: impl FnOnce(&FileStorage) -> io::Result<()>) -> io::Result<()> {
    let new = added(path, ".new");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let file = FileStorage(options.mode(0o600).open(&new)?);
    let begun = fill(&file).and_then(|()| fs::rename(&new, path));
    if let Err(error) = begun {
        // A file that stays is overwritten by the next attempt.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn added(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
