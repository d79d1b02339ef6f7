//! A mark in the state folder while the daemon runs. A start that finds it knows that the last run
//! did not end in order.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::journal::now_ms;
use state_folder::write_private;

/// Mark of a running daemon. It stays when the process is killed.
#[derive(Debug)]
pub struct RunMark {
    path: PathBuf,
    before: Option<Unclean>,
}

/// A run that did not end in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclean {
    /// Time at which that run began, in milliseconds since 1970; 0 if it is not known.
    pub began_ms: u64,
    /// Whether the machine has been started anew since.
    pub is_machine_restarted: bool,
}

impl Unclean {
    /// Describes the end of that run.
    pub fn in_words(&self) -> &'static str {
        match self.is_machine_restarted {
            true => "the machine went down while the daemon ran",
            false => "the daemon was killed or crashed; it did not end in order",
        }
    }
}

/// Content of the mark.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Mark {
    began_ms: u64,
    boot: String,
}

impl RunMark {
    /// Sets the mark of this run, and looks for that of an earlier one.
    ///
    /// # Errors
    /// The mark cannot be written. The result of the look is lost then too, because the next start
    /// would report it again and again.
    pub fn set(folder: &Path) -> io::Result<Self> {
        let path = folder.join("running");
        let boot = boot();
        let before = match fs::read(&path) {
            Ok(bytes) => {
                // A mark that was cut short is a mark too.
                let mark: Mark = serde_json::from_slice(&bytes).unwrap_or_default();
                Some(Unclean {
                    began_ms: mark.began_ms,
                    is_machine_restarted: !mark.boot.is_empty() && mark.boot != boot,
                })
            }
            Err(_) => None,
        };
        let mark = Mark {
            began_ms: now_ms(),
            boot,
        };
        write_private(&path, &serde_json::to_vec(&mark)?, true)?;
        Ok(Self { path, before })
    }

    /// Returns the earlier run, if it did not end in order.
    pub fn before(&self) -> Option<&Unclean> {
        self.before.as_ref()
    }

    /// Removes the mark: this run has ended in order.
    pub fn clear(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            let file = self.path.display();
            tracing::warn!(%file, %error, "the next start will report an end out of order");
        }
    }
}

/// Returns the number of this start of the machine, or nothing where the kernel does not tell it.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_out_of_order_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunMark::set(folder.path()).unwrap();
        assert_eq!(first.before(), None);
        first.clear();
        let killed = RunMark::set(folder.path()).unwrap();
        assert_eq!(killed.before(), None);
        drop(killed);
        let after = RunMark::set(folder.path()).unwrap();
        let unclean = after.before().unwrap();
        assert!(unclean.began_ms > 0 && !unclean.is_machine_restarted);
        fs::write(folder.path().join("running"), b"{\"began").unwrap();
        let cut = RunMark::set(folder.path()).unwrap();
        assert_eq!(cut.before().unwrap().began_ms, 0);
        let mark = Mark {
            began_ms: 5,
            boot: "another".to_owned(),
        };
        let bytes = serde_json::to_vec(&mark).unwrap();
        fs::write(folder.path().join("running"), bytes).unwrap();
        let restarted = RunMark::set(folder.path()).unwrap();
        assert!(restarted.before().unwrap().is_machine_restarted);
    }
}
