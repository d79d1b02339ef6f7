//! The keeper of `alerts.json`: a thread that saves the newest book and paths, so that nobody who
//! judges or reads alerts waits for a disk.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::book::KeptBook;
use crate::watch::hosts::KnownPaths;
use state_folder::{KeptFile, open_json, seal_json};

/// Kind of the file, in its first line.
const KIND: &str = "alerts";
/// Pause after a save that failed.
const AGAIN: Duration = Duration::from_secs(5);

/// All that outlives a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) book: KeptBook,
    #[serde(default)]
    pub(crate) paths: KnownPaths,
}

/// Keeper of the file. Dropping it saves what waits, and stops the thread.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    orders: Mutex<Orders>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Orders {
    wanted: Option<Kept>,
    /// Number of the newest order, and of the newest that is done.
    ordered: u64,
    done: u64,
    is_ending: bool,
    trouble: Option<String>,
}

impl Keeper {
    /// Loads the file, and starts the thread. A damaged file is put aside.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(folder: &Path) -> io::Result<(Self, Kept)> {
        let mut file = KeptFile::at(folder.join("alerts.json"), 1);
        let found = file.load(|bytes| open_json::<Kept>(KIND, bytes));
        let generation = found.content.as_ref().map(|(generation, _)| *generation);
        if let Some(trouble) = &found.trouble {
            tracing::warn!("alerts may be missing: {}", trouble.reason);
            file.put_right(generation);
        }
        let kept = found.content.map(|(_, kept)| kept).unwrap_or_default();
        let shared = Arc::new(Shared::default());
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("alert-keeper".into())
            .spawn(move || worker.save_until_end(file))?;
        let thread = Some(thread);
        Ok((Self { shared, thread }, kept))
    }

    /// Orders a save, and returns its number.
    pub(crate) fn save(&self, kept: Kept) -> u64 {
        let mut orders = self.shared.lock();
        orders.wanted = Some(kept);
        orders.ordered += 1;
        self.shared.news.notify_all();
        orders.ordered
    }

    /// Waits until the order of this number is on the disk.
    ///
    /// # Errors
    /// It could not be saved in time.
    pub(crate) fn wait(&self, number: u64, patience: Duration) -> Result<(), String> {
        let until = Instant::now() + patience;
        let mut orders = self.shared.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if orders.done >= number {
                return Ok(());
            }
            if let Some(trouble) = orders.trouble.clone() {
                return Err(trouble);
            }
            if left.is_zero() {
                return Err("the disk of the state folder does not answer".to_owned());
            }
            let waited = self.shared.news.wait_timeout(orders, left);
            orders = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the reason why the newest order could not be saved, if it could not.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.shared.lock().trouble.clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.lock().is_ending = true;
        self.shared.news.notify_all();
        // A thread that panicked has already said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save_until_end(&self, mut file: KeptFile) {
        let mut orders = self.lock();
        loop {
            if let Some(kept) = orders.wanted.take() {
                let number = orders.ordered;
                drop(orders);
                let generation = file.next_generation();
                let saved = seal_json(KIND, generation, &kept)
                    .and_then(|bytes| file.save(generation, &bytes));
                orders = self.lock();
                match saved {
                    Ok(()) => {
                        orders.done = number;
                        orders.trouble = None;
                    }
                    Err(error) => {
                        if orders.trouble.is_none() {
                            tracing::warn!(%error, "alerts cannot be saved; trying again");
                        }
                        orders.trouble = Some(error.to_string());
                        // A newer order may have come meanwhile.
                        orders.wanted.get_or_insert(kept);
                    }
                }
                self.news.notify_all();
            }
            if orders.is_ending && (orders.wanted.is_none() || orders.trouble.is_some()) {
                return;
            }
            let is_idle = |orders: &mut Orders| {
                !orders.is_ending && (orders.wanted.is_none() || orders.trouble.is_some())
            };
            let pause = self.news.wait_timeout_while(orders, AGAIN, is_idle);
            orders = pause.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn kept(initiator: &str) -> Kept {
        let paths = format!("{{\"initiators\": {{\"{initiator}\": []}}}}");
        Kept {
            paths: serde_json::from_str(&paths).unwrap(),
            ..Kept::default()
        }
    }

    #[test]
    fn the_newest_order_is_found_by_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, found) = Keeper::start(folder.path()).unwrap();
        assert_eq!(found, Kept::default());
        for at in 0..50 {
            keeper.save(kept(&at.to_string()));
        }
        let last = keeper.save(kept("last"));
        keeper.wait(last, PATIENCE).unwrap();
        keeper.save(kept("at the end"));
        drop(keeper);
        let (_keeper, found) = Keeper::start(folder.path()).unwrap();
        assert_eq!(found, kept("at the end"));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told_and_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        std::fs::write(&inside, b"no folder").unwrap();
        let (keeper, _) = Keeper::start(&inside).unwrap();
        let number = keeper.save(kept("one"));
        assert!(keeper.wait(number, PATIENCE).is_err());
        assert!(keeper.trouble().is_some());
        std::fs::remove_file(&inside).unwrap();
        std::fs::create_dir(&inside).unwrap();
        let give_up = Instant::now() + PATIENCE;
        while keeper.wait(number, PATIENCE).is_err() {
            assert!(Instant::now() < give_up);
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(keeper.trouble(), None);
    }

    #[test]
    fn a_damaged_file_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, _) = Keeper::start(folder.path()).unwrap();
        keeper.save(kept("one"));
        drop(keeper);
        std::fs::write(folder.path().join("alerts.json"), b"torn").unwrap();
        let (_keeper, found) = Keeper::start(folder.path()).unwrap();
        // Its copy is whole.
        assert_eq!(found, kept("one"));
    }
}
