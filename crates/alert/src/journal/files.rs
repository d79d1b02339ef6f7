//! Files of the journal: one JSON line for each event. A full file is renamed, and the oldest is
//! removed, so that the journal never grows beyond its bound.
//!
//! A power cut may leave a damaged line at the end. Such a line is passed over and counted. The
//! next line begins on a line of its own.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use model::event::Event;

/// Most bytes of the file that is written to.
const MAX_FILE: u64 = 1 << 20;
/// Number of full files that are kept beside it.
const FULL_FILES: usize = 3;
/// Most bytes that are read of one file: a file is no longer than [`MAX_FILE`] and one batch.
const MAX_READ: u64 = 4 << 20;

/// The journal's files.
#[derive(Debug)]
pub(super) struct Files {
    path: PathBuf,
    file: Option<File>,
    max_file: u64,
}

/// Events that were found, and the damage.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Events in order of their numbers.
    pub(super) events: Vec<Event>,
    /// Number of lines that are no events.
    pub(super) damaged: u64,
    /// Reasons why files could not be read.
    pub(super) unread: Vec<String>,
}

impl Files {
    /// Names the files in a state folder, and opens none of them yet.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self {
            path: folder.join("events.log"),
            file: None,
            max_file: MAX_FILE,
        }
    }

    /// Reads all files.
    pub(super) fn read(&self) -> Found {
        let mut found = Found::default();
        for path in (1..=FULL_FILES).rev().map(|number| self.full(number)) {
            read(&path, &mut found);
        }
        read(&self.path, &mut found);
        found.events.sort_by_key(|event| event.number);
        found.events.dedup_by_key(|event| event.number);
        found
    }

    /// Appends events durably.
    ///
    /// # Errors
    /// The folder cannot be written. Some of the events may be there; reading passes over copies.
    pub(super) fn append(&mut self, events: &[Event]) -> io::Result<()> {
        let mut lines = Vec::new();
        for event in events {
            serde_json::to_writer(&mut lines, event)?;
            lines.push(b'\n');
        }
        let written = self.write(&lines);
        if written.is_err() {
            // The next attempt opens the file again, and begins on a new line.
            self.file = None;
        }
        written
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => open(&self.path)?,
        };
        if file.metadata()?.len() >= self.max_file {
            self.rotate()?;
            file = open(&self.path)?;
        }
        file.write_all(lines)?;
        file.sync_data()?;
        self.file = Some(file);
        Ok(())
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (1..FULL_FILES).rev() {
            match fs::rename(self.full(number), self.full(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.full(1))
    }

    fn full(&self, number: usize) -> PathBuf {
        let mut path = self.path.as_os_str().to_owned();
        path.push(format!(".{number}"));
        path.into()
    }
}

/// Opens a file at its end, on a line of its own.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

fn read(path: &Path, found: &mut Found) {
    let read = File::open(path).and_then(|file| {
        let mut bytes = Vec::new();
        file.take(MAX_READ).read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            let reason = format!("{}: {error}", path.display());
            found.unread.push(reason);
            return;
        }
    };
    let lines = bytes.split(|byte| *byte == b'\n');
    for line in lines.filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(event) => found.events.push(event),
            Err(_) => found.damaged += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> Event {
        Event {
            number,
            text: format!("event {number}\nwith a second line"),
            ..Event::default()
        }
    }

    fn numbers(found: &Found) -> Vec<u64> {
        found.events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn a_damaged_tail_costs_its_line_only() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::in_folder(folder.path());
        files.append(&[event(1), event(2)]).unwrap();
        let path = folder.path().join("events.log");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        let mut files = Files::in_folder(folder.path());
        let found = files.read();
        assert_eq!((numbers(&found), found.damaged), (vec![1], 1));
        files.append(&[event(3)]).unwrap();
        let found = files.read();
        assert_eq!((numbers(&found), found.damaged), (vec![1, 3], 1));
        assert_eq!(found.events[1], event(3));
        // Bytes that are no text are damage too.
        fs::write(&path, [0xff, 0, b'\n']).unwrap();
        assert_eq!(files.read().damaged, 1);
    }

    #[test]
    fn files_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::in_folder(folder.path());
        files.max_file = 1000;
        (1..=200).for_each(|number| files.append(&[event(number)]).unwrap());
        let entries = fs::read_dir(folder.path()).unwrap();
        let sizes: Vec<u64> = entries
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert_eq!(sizes.len(), FULL_FILES + 1);
        assert!(sizes.iter().all(|size| *size < 1300), "{sizes:?}");
        let found = numbers(&files.read());
        assert_eq!(found.last(), Some(&200));
        assert!(found.len() > 15, "{found:?}");
        assert!(found.is_sorted());
        let is_whole = found.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        assert!(is_whole, "{found:?}");
    }

    #[test]
    fn a_folder_that_cannot_be_written_loses_nothing_once_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        let mut files = Files::in_folder(&inside);
        assert!(files.append(&[event(1)]).is_err());
        fs::create_dir(&inside).unwrap();
        files.append(&[event(1), event(2)]).unwrap();
        assert_eq!(numbers(&files.read()), [1, 2]);
    }
}
