//! The queue of messages on the disk: a file for each message, in a folder of the state folder.
//!
//! A file that was cut short is a message that nobody was promised, and is removed.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::message::Message;
use state_folder::write_private;

/// Most bytes of a file that is read.
const MAX_FILE: u64 = 256 << 10;

/// Folder of the queue.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Names the folder of a state folder.
    pub(super) fn of(state: &Path) -> Self {
        Self {
            path: state.join("alert-queue"),
        }
    }

    /// Returns the messages, in order of their numbers, each with its file.
    pub(super) fn read(&self) -> Vec<(PathBuf, Message)> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for path in entries.map(|entry| entry.path()) {
            match read(&path) {
                Some(message) => found.push((path, message)),
                None => {
                    let file = path.display();
                    tracing::warn!(%file, "a queued alert cannot be read, and is removed");
                    let _ = fs::remove_file(&path);
                }
            }
        }
        found.sort_by_key(|(_, message)| message.id);
        found
    }

    /// Keeps a message, and returns its file.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn add(&self, message: &Message) -> io::Result<PathBuf> {
        if !self.path.is_dir() {
            DirBuilder::new().mode(0o700).create(&self.path)?;
        }
        let path = self.path.join(format!("{:012}.json", message.id));
        write_private(&path, &serde_json::to_vec(message)?, true)?;
        Ok(path)
    }
}

fn read(path: &Path) -> Option<Message> {
    let len = fs::metadata(path).ok()?.len();
    if len > MAX_FILE {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::{News, Notice};
    use model::alert::AlertView;

    #[test]
    fn whole_messages_are_found_in_order_and_others_removed() {
        let state = tempfile::tempdir().unwrap();
        let folder = Folder::of(state.path());
        assert!(folder.read().is_empty());
        let message = |id| Message {
            id,
            way: "desk".to_owned(),
            machine: "san1".to_owned(),
            made_ms: 1,
            notice: Notice {
                news: News::Opened,
                alert: AlertView::default(),
            },
        };
        for id in [11, 9, 100] {
            folder.add(&message(id)).unwrap();
        }
        fs::write(state.path().join("alert-queue/torn.json"), b"{\"id\":").unwrap();
        let found = folder.read();
        let ids: Vec<u64> = found.iter().map(|(_, it)| it.id).collect();
        assert_eq!(ids, [9, 11, 100]);
        assert_eq!(
            fs::read_dir(state.path().join("alert-queue"))
                .unwrap()
                .count(),
            3
        );
    }
}
