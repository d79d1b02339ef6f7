//! Files of benchmarks: one for each, in a folder of their own in the state folder.
//!
//! A file is replaced whole, so a power cut leaves the older or the newer one. Results are no part
//! of the configuration: a file that is damaged is told, left alone, and missing in the list.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::order::StartBenchmark;
use super::view::BenchmarkView;
use bench::results::Results;
use state_folder::write_private;

/// Version of the format of a file.
const FORMAT: u32 = 1;
/// Name of the folder.
const FOLDER: &str = "benchmarks";
/// Ending of the files' names.
const ENDING: &str = "json";

/// A benchmark as it lies in its file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    format: u32,
    pub(crate) view: BenchmarkView,
    pub(crate) order: StartBenchmark,
    pub(crate) results: Results,
}

impl Record {
    /// Returns the record of a benchmark that begins.
    pub(crate) fn new(view: BenchmarkView, order: StartBenchmark, results: Results) -> Self {
        Self {
            format: FORMAT,
            view,
            order,
            results,
        }
    }
}

/// Part of a file that lists need.
#[derive(Debug, Deserialize)]
struct Head {
    format: u32,
    view: BenchmarkView,
}

/// A benchmark in the list, and the size of its file in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) view: BenchmarkView,
    pub(crate) bytes: u64,
}

/// Folder with the files.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
}

impl Files {
    /// Reads the list of benchmarks in a state folder. Also returns what cannot be read, in words.
    pub(crate) fn open(state: &Path) -> (Self, BTreeMap<u64, Kept>, Vec<String>) {
        let files = Self {
            folder: state.join(FOLDER),
        };
        let mut kept = BTreeMap::new();
        let mut notices = Vec::new();
        let entries = match fs::read_dir(&files.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return (files, kept, notices),
            Err(error) => {
                notices.push(unreadable(&files.folder, &error));
                return (files, kept, notices);
            }
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            let Some(id) = id_of(&path) else { continue };
            match head(&path) {
                Ok((view, bytes)) => drop(kept.insert(id, Kept { view, bytes })),
                Err(error) => notices.push(unreadable(&path, &error)),
            }
        }
        (files, kept, notices)
    }

    fn path(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{id}.{ENDING}"))
    }

    /// Reads a benchmark.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub(crate) fn read(&self, id: u64) -> io::Result<Record> {
        let bytes = fs::read(self.path(id))?;
        serde_json::from_slice(&bytes).map_err(io::Error::other)
    }

    /// Writes a benchmark, and returns the size of its file.
    ///
    /// # Errors
    /// The state folder cannot be written. The older file stays.
    pub(crate) fn write(&self, record: &Record) -> io::Result<u64> {
        fs::create_dir_all(&self.folder)?;
        let bytes = serde_json::to_vec(record).map_err(io::Error::other)?;
        write_private(&self.path(record.view.id), &bytes, true)?;
        Ok(bytes.len() as u64)
    }

    /// Removes a benchmark. One that is gone already is no error.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn remove(&self, id: u64) -> io::Result<()> {
        match fs::remove_file(self.path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!(
        "the benchmark in {} cannot be read and is not listed: {error}; remove the file if it is not needed",
        path.display()
    )
}

/// Returns the number of the benchmark in a file.
fn id_of(path: &Path) -> Option<u64> {
    if path.extension()?.to_str()? != ENDING {
        return None;
    }
    path.file_stem()?.to_str()?.parse().ok()
}

fn head(path: &Path) -> io::Result<(BenchmarkView, u64)> {
    let bytes = fs::read(path)?;
    let head: Head = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
    if head.format != FORMAT {
        let format = head.format;
        let words = format!("it has format {format}, and this version reads {FORMAT}");
        return Err(io::Error::other(words));
    }
    Ok((head.view, bytes.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{results, run};

    fn record(id: u64) -> Record {
        let view = BenchmarkView {
            id,
            unit: "db".to_owned(),
            ..BenchmarkView::default()
        };
        let results = results(vec![run("a", &[], 0, 100, 1.0)]);
        Record::new(view, StartBenchmark::default(), results)
    }

    #[test]
    fn what_is_written_is_listed_and_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let (files, kept, notices) = Files::open(folder.path());
        assert!(kept.is_empty() && notices.is_empty());
        let bytes = files.write(&record(7)).expect("written");
        let (files, kept, notices) = Files::open(folder.path());
        assert!(notices.is_empty(), "{notices:?}");
        assert_eq!((kept[&7].view.unit.as_str(), kept[&7].bytes), ("db", bytes));
        assert_eq!(files.read(7).expect("read").results, record(7).results);
        files.remove(7).expect("removed");
        files.remove(7).expect("it is gone already");
        assert!(Files::open(folder.path()).1.is_empty());
    }

    #[test]
    fn a_damaged_file_is_told_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (files, ..) = Files::open(folder.path());
        files.write(&record(1)).expect("written");
        let later = r#"{"format": 2, "view": {}}"#;
        for (name, text) in [("2.json", "{"), ("3.json", later), ("note.txt", "mine")] {
            fs::write(folder.path().join(FOLDER).join(name), text).expect("written");
        }
        let (_, kept, mut notices) = Files::open(folder.path());
        notices.sort();
        assert_eq!(kept.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(notices[0].contains("2.json cannot be read"), "{notices:?}");
        assert!(folder.path().join(FOLDER).join("2.json").exists());
    }
}
