//! Rounds over all disks: each is asked twice an hour, one at a time, by a thread of its own.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::baseline::Baselines;
use crate::program::Program;
use crate::report::Report;
use model::disk::{DiskHealth, DiskVerdict};
use state_folder::{KeptFile, open_json, seal_json};

/// Kind of the file with the baselines, in its first line.
const KIND: &str = "disks";
/// Time after which a disk is asked again.
const AGAIN: Duration = Duration::from_secs(1800);
/// Time after which a look shows disks that were plugged in.
const LOOK: Duration = Duration::from_secs(30);
/// Longest wait at the end for a disk that is being asked.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// A disk to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Name that tells the disk from others, whatever its node is.
    pub identity: String,
    /// Device node.
    pub node: String,
}

/// Rounds, with the latest health of each disk. Dropping them ends the thread.
#[derive(Debug)]
pub struct Rounds {
    latest: Arc<Latest>,
    stop: Option<Sender<()>>,
    /// Signal that the thread has ended: its other side is gone.
    ended: Mutex<Receiver<()>>,
}

#[derive(Debug, Default)]
struct Latest(Mutex<BTreeMap<String, DiskHealth>>);

impl Latest {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, DiskHealth>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rounds {
    /// Starts to ask the disks that `list` returns. Baselines are kept in the state folder.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        folder: &Path,
        program: Program,
        list: impl Fn() -> Vec<Disk> + Send + 'static,
    ) -> io::Result<Self> {
        let latest = Arc::new(Latest::default());
        let (stop, stopped) = channel();
        let (living, ended) = channel::<()>();
        let mut round = Round {
            kept: Kept::load(folder),
            program,
            latest: Arc::clone(&latest),
            asked: BTreeMap::new(),
        };
        let work = move || {
            let _living = living;
            loop {
                round.go(&list(), &stopped);
                if let Err(RecvTimeoutError::Disconnected) = stopped.recv_timeout(LOOK) {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("disk-health".into())
            .spawn(work)?;
        Ok(Self {
            latest,
            stop: Some(stop),
            ended: Mutex::new(ended),
        })
    }

    /// Returns the latest health of all disks that are there, by identity.
    pub fn health(&self) -> BTreeMap<String, DiskHealth> {
        self.latest.lock().clone()
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that waits for a disk is left behind: it holds nothing that the end needs.
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(LAST_ANSWER);
    }
}

/// State of the thread.
struct Round {
    kept: Kept,
    program: Program,
    latest: Arc<Latest>,
    /// Times at which disks were asked.
    asked: BTreeMap<String, Instant>,
}

impl Round {
    /// Asks those disks that are due.
    fn go(&mut self, disks: &[Disk], stopped: &Receiver<()>) {
        let is_there = |identity: &String| disks.iter().any(|disk| disk.identity == *identity);
        self.asked.retain(|identity, _| is_there(identity));
        self.latest.lock().retain(|identity, _| is_there(identity));
        let before = self.kept.baselines.clone();
        for disk in disks {
            if let Err(std::sync::mpsc::TryRecvError::Disconnected) = stopped.try_recv() {
                break;
            }
            let asked = self.asked.get(&disk.identity);
            if asked.is_some_and(|at| at.elapsed() < AGAIN) {
                continue;
            }
            let health = self.ask(disk);
            self.asked.insert(disk.identity.clone(), Instant::now());
            self.latest.lock().insert(disk.identity.clone(), health);
        }
        self.kept.save(&before);
    }

    fn ask(&mut self, disk: &Disk) -> DiskHealth {
        let now_ms = now_ms();
        let answer = self.program.ask(&disk.node);
        match answer.and_then(|answer| Report::read(&answer)) {
            Ok(report) => self.kept.baselines.judge(&disk.identity, report, now_ms),
            Err(why) => {
                // A disk that sleeps, or is too busy, is as it was.
                let last = self.latest.lock().get(&disk.identity).cloned();
                last.unwrap_or(DiskHealth {
                    verdict: DiskVerdict::Unknown,
                    reasons: vec![why],
                    asked_ms: now_ms,
                    ..DiskHealth::default()
                })
            }
        }
    }
}

/// Baselines with their file.
struct Kept {
    baselines: Baselines,
    file: KeptFile,
    generation: u64,
}

impl Kept {
    fn load(folder: &Path) -> Self {
        let mut file = KeptFile::at(folder.join("disks.json"), 1);
        let found = file.load(|bytes| open_json::<Baselines>(KIND, bytes));
        if let Some(trouble) = &found.trouble {
            tracing::warn!(
                "the baselines of disks are lost, and begin again: {}",
                trouble.reason
            );
            file.put_right(found.content.as_ref().map(|(generation, _)| *generation));
        }
        let (generation, baselines) = found.content.unwrap_or_default();
        Self {
            baselines,
            file,
            generation,
        }
    }

    /// Saves the baselines if they changed. They are a convenience: what cannot be saved is told in
    /// the log, and stands in memory.
    fn save(&mut self, before: &Baselines) {
        self.baselines.forget(now_ms());
        if self.baselines == *before {
            return;
        }
        self.generation += 1;
        let sealed = seal_json(KIND, self.generation, &self.baselines);
        let saved = sealed.and_then(|bytes| self.file.save(self.generation, &bytes));
        if let Err(error) = saved {
            tracing::warn!("the baselines of disks are not saved: {error}");
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;

    /// Returns a stand-in for smartctl that prints the file `NODE.json` of its folder.
    fn stand_in(folder: &Path) -> Program {
        let path = folder.join("smartctl");
        let text =
            "#!/bin/sh\nfor node; do :; done\ncat \"$(dirname \"$0\")/$node.json\" 2>/dev/null\n";
        std::fs::write(&path, text).expect("written");
        let rights = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, rights).expect("set");
        Program::at(path)
    }

    fn answer(folder: &Path, node: &str, answer: &str) {
        let path: PathBuf = folder.join(format!("{node}.json"));
        std::fs::write(path, answer).expect("written");
    }

    fn disks(names: &[(&str, &str)]) -> Vec<Disk> {
        let disks = names.iter().map(|(identity, node)| Disk {
            identity: (*identity).to_owned(),
            node: (*node).to_owned(),
        });
        disks.collect()
    }

    /// Starts rounds over these disks, waits until all were asked once, and returns their health.
    fn once(folder: &Path, names: &[(&str, &str)]) -> BTreeMap<String, DiskHealth> {
        let (all, count) = (disks(names), names.len());
        let rounds = Rounds::start(folder, stand_in(folder), move || all.clone());
        let rounds = rounds.expect("a thread");
        let give_up = Instant::now() + Duration::from_secs(60);
        loop {
            let health = rounds.health();
            if health.len() == count {
                return health;
            }
            assert!(Instant::now() < give_up, "{health:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    const WELL: &str = include_str!("../tests/answers/ata-well.json");

    #[test]
    fn each_disk_has_the_health_that_it_tells() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        answer(folder, "sda", WELL);
        answer(
            folder,
            "sdb",
            include_str!("../tests/answers/ata-failing.json"),
        );
        let health = once(folder, &[("A", "sda"), ("B", "sdb"), ("C", "sdc")]);
        let verdicts: Vec<_> = health.values().map(|it| it.verdict).collect();
        assert_eq!(
            verdicts,
            [
                DiskVerdict::Well,
                DiskVerdict::Failing,
                DiskVerdict::Unknown
            ]
        );
        assert_eq!(health["C"].reasons, ["smartctl gave no answer"]);
    }

    #[test]
    fn a_baseline_outlives_a_restart_and_follows_the_disk_to_another_slot() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        answer(folder, "sda", WELL);
        assert_eq!(
            once(folder, &[("A", "sda")])["A"].verdict,
            DiskVerdict::Well
        );
        let grown = WELL.replace(
            r#""raw":{"value":8,"string":"8"}"#,
            r#""raw":{"value":9,"string":"9"}"#,
        );
        assert_ne!(grown, WELL);
        answer(folder, "sdx", &grown);
        let health = once(folder, &[("A", "sdx")]);
        assert_eq!(health["A"].verdict, DiskVerdict::Wearing);
        assert_eq!(
            health["A"].reasons,
            ["1 reallocated sectors more than before"]
        );
    }

    #[test]
    fn damaged_baselines_stop_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        std::fs::write(folder.join("disks.json"), "no JSON").expect("written");
        answer(folder, "sda", WELL);
        assert_eq!(
            once(folder, &[("A", "sda")])["A"].verdict,
            DiskVerdict::Well
        );
    }

    #[test]
    fn a_disk_that_falls_asleep_is_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let disk = &disks(&[("A", "sda")])[0];
        let mut round = Round {
            kept: Kept::load(path),
            program: stand_in(path),
            latest: Arc::default(),
            asked: BTreeMap::new(),
        };
        answer(path, "sda", include_str!("../tests/answers/standby.json"));
        let unknown = round.ask(disk);
        assert_eq!(unknown.reasons, ["Device is in STANDBY mode, exit(0)"]);
        answer(path, "sda", WELL);
        let well = round.ask(disk);
        round.latest.lock().insert("A".to_owned(), well.clone());
        answer(path, "sda", include_str!("../tests/answers/standby.json"));
        assert_eq!(round.ask(disk), well);
    }
}
