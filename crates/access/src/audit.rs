//! The audit log: a line for each attempt to change something, whether it was let through or not.
//!
//! Each line holds the SHA-256 of the line before. So nobody can change or remove a line without a
//! break in the chain, unless all later lines are made anew; and whoever keeps the digest of the
//! last line elsewhere notices that too.
//!
//! # Files
//! `audit/audit.log` in the state folder has the newest lines, `audit.log.1` older ones, and so on.
//! There are at most [`FILES`] files of [`FULL`] bytes.
//!
//! # Order of writes
//! A line is written and synced before the answer to its request leaves. A power cut may tear the
//! last line, whose request nobody was answered. The next start removes it, and says so in a line.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use model::access::{AuditCheck, AuditLine};

use super::secret;

mod redact;

pub use redact::without_secrets;

/// Most files.
pub(crate) const FILES: usize = 10;
/// Length in bytes at which a file is full.
pub(crate) const FULL: u64 = 16 << 20;
/// Name of the newest file.
const NAME: &str = "audit.log";
/// Digest that stands before the first line.
const NONE: &str = "";

/// The audit log of a state folder.
#[derive(Debug)]
pub(crate) struct Audit {
    folder: PathBuf,
    /// Number of the last line.
    seq: u64,
    /// Digest of the last line.
    head: String,
    /// Length of the newest file.
    len: u64,
    full: u64,
    /// Reason why the last line could not be written.
    failure: Option<String>,
}

impl Audit {
    /// Opens the log of a state folder.
    pub(crate) fn open(state: &Path, now: u64) -> Self {
        Self::with_full_length(state, now, FULL)
    }

    fn with_full_length(state: &Path, now: u64, full: u64) -> Self {
        let mut audit = Self {
            folder: state.join("audit"),
            seq: 0,
            head: NONE.to_owned(),
            len: 0,
            full,
            failure: None,
        };
        if let Err(error) = audit.find_end(now) {
            audit.failure = Some(error.to_string());
        }
        audit
    }

    /// Returns what administrators have to know of the log.
    pub(crate) fn notice(&self) -> Option<String> {
        let failure = self.failure.as_ref()?;
        Some(format!(
            "the audit log in {} cannot be written, so changes are not noted there: {failure}",
            self.folder.display()
        ))
    }

    /// Appends a line. Its number and the digest of the line before are set here. A line that
    /// cannot be written is told by [`Self::notice`], because storage must stay manageable when
    /// the state folder is full.
    pub(crate) fn append(&mut self, line: AuditLine) {
        let line = AuditLine {
            seq: self.seq + 1,
            previous: self.head.clone(),
            ..line
        };
        let text = match serde_json::to_string(&line) {
            Ok(text) => text,
            Err(error) => {
                self.failure = Some(error.to_string());
                return;
            }
        };
        match self.write(&text) {
            Ok(()) => {
                self.seq = line.seq;
                self.head = secret::digest(&text);
                self.failure = None;
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// Returns the newest lines, the newest first; with `before`, of those with lower numbers.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn newest(&self, before: Option<u64>, most: usize) -> io::Result<Vec<AuditLine>> {
        let mut lines = Vec::new();
        for path in self.files() {
            let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
            for line in text.lines().rev() {
                let Ok(line) = serde_json::from_slice::<AuditLine>(line.as_bytes()) else {
                    continue;
                };
                if before.is_some_and(|before| line.seq >= before) {
                    continue;
                }
                if lines.len() == most {
                    return Ok(lines);
                }
                lines.push(line);
            }
        }
        Ok(lines)
    }

    /// Checks the whole chain.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn check(&self) -> io::Result<AuditCheck> {
        let mut check = AuditCheck::default();
        // The line before the oldest one is gone, so its digest is believed.
        let mut expected: Option<(u64, String)> = None;
        for path in self.files().into_iter().rev() {
            let bytes = fs::read(&path)?;
            let place = |number: usize| format!("{}:{}", path.display(), number + 1);
            for (number, text) in String::from_utf8_lossy(&bytes).lines().enumerate() {
                let digest = secret::digest(text);
                check.lines += 1;
                let line = match serde_json::from_slice::<AuditLine>(text.as_bytes()) {
                    Ok(line) => line,
                    Err(error) => {
                        check
                            .breaks
                            .push(format!("{}: not a line of the log: {error}", place(number)));
                        expected = expected.map(|(seq, _)| (seq + 1, digest));
                        continue;
                    }
                };
                if check.first == 0 {
                    check.first = line.seq;
                }
                if let Some((seq, previous)) = &expected {
                    if line.seq != *seq {
                        check.breaks.push(format!(
                            "{}: line {} follows line {}",
                            place(number),
                            line.seq,
                            seq - 1
                        ));
                    } else if line.previous != *previous {
                        check.breaks.push(format!(
                            "{}: the line before it, {}, was changed",
                            place(number),
                            seq - 1
                        ));
                    }
                } else if line.seq > 1 && self.files().len() < FILES {
                    check.breaks.push(format!(
                        "{}: the lines before line {} are missing",
                        place(number),
                        line.seq
                    ));
                }
                check.last = line.seq;
                expected = Some((line.seq + 1, digest));
            }
        }
        check.head = expected.map(|(_, digest)| digest).unwrap_or_default();
        if (check.last, &check.head) != (self.seq, &self.head) {
            check.breaks.push(format!(
                "the log ends with line {}, but the daemon wrote line {}",
                check.last, self.seq
            ));
        }
        Ok(check)
    }

    /// Returns the files that exist, the newest first.
    fn files(&self) -> Vec<PathBuf> {
        let all = (0..FILES).map(|age| self.file(age));
        all.filter(|path| path.exists()).collect()
    }

    fn file(&self, age: usize) -> PathBuf {
        match age {
            0 => self.folder.join(NAME),
            age => self.folder.join(format!("{NAME}.{age}")),
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let len = text.len() as u64 + 1;
        if self.len > 0 && self.len + len > self.full {
            for age in (0..FILES - 1).rev() {
                match fs::rename(self.file(age), self.file(age + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            self.len = 0;
        }
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(self.file(0))?;
        let written = file
            .write_all(format!("{text}\n").as_bytes())
            .and_then(|()| file.sync_data());
        if written.is_err() {
            // A part of the line would break the chain.
            file.set_len(self.len)?;
        } else if self.len == 0 {
            File::open(&self.folder)?.sync_all()?;
        }
        written?;
        self.len += len;
        Ok(())
    }

    /// Finds the last line, and removes a torn one behind it.
    fn find_end(&mut self, now: u64) -> io::Result<()> {
        let path = self.file(0);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let torn = bytes.len() - whole;
        if torn > 0 {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(whole as u64)?;
            file.sync_all()?;
        }
        self.len = whole as u64;
        let newest = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        // A file that was begun and has no line yet follows on the older one.
        let older =
            || fs::read(self.file(1)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = match newest.is_empty() {
            true => older().unwrap_or_default(),
            false => newest,
        };
        if let Some(last) = text.lines().next_back() {
            self.head = secret::digest(last);
        }
        let numbers = text.lines().rev();
        let mut numbers =
            numbers.filter_map(|line| serde_json::from_slice::<AuditLine>(line.as_bytes()).ok());
        self.seq = numbers.next().map_or(0, |line| line.seq);
        if torn > 0 {
            self.append(AuditLine {
                at: now,
                by: "daemon".to_owned(),
                request: "start".to_owned(),
                result: format!("{torn} bytes of a torn line were removed"),
                ..AuditLine::default()
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
