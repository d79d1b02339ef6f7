//! The state folder: one file that holds the configuration and is replaced whole, or not at all.
//!
//! ```text
//!     STATE/                      mode 0700
//!       config.toml               the configuration that is in force, mode 0600
//!       config.toml.new           one being written; a leftover means nothing and is removed
//!       history/config.12.toml    the configurations before it, by generation
//!       lock                      held by the daemon that uses the folder
//!       volumes/                  files of logical units with relative paths
//! ```
//!
//! The first line of a configuration file carries its generation and a CRC-32 over the rest, so a
//! torn or edited file is told from a good one.
//!
//! # Invariants
//! - After a crash at any point the folder opens with the old configuration or the new one.
//! - A [`Store::save`] that failed leaves the old one in force. If that cannot be promised (the
//!   disk failed twice), the store refuses all further saves.
//! - Two daemons never use one folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::error::{Error, ErrorKind};
use super::identity::{self, Seed};
use super::model::Config;
use super::validate::validate;

/// How many earlier configurations are kept.
pub const HISTORY: usize = 32;

/// What the first line begins with; the number is the format's version.
const HEADER: &str = "# sandstone configuration, format 1";

/// The moments of a save between which a crash leaves different files behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SaveStep {
    /// The new file is written, perhaps not on the disk yet.
    Written,
    /// The new file is on the disk under its temporary name.
    Synced,
    /// The old file has its name in the history.
    Kept,
    /// The new file took the name of the old one.
    Renamed,
    /// The new name is on the disk; only clearing old generations is left.
    Durable,
}

/// A state folder in use by this process.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Generation of `config.toml`; `None` before the first save.
    stored: Option<u64>,
    /// Set when neither the old nor the new file can be promised to be in force.
    broken: bool,
    _lock: File,
}

impl Store {
    /// Opens a state folder, making it if it does not exist, and returns its configuration.
    pub fn open(folder: &Path) -> Result<(Self, Config), Error> {
        let mut store = Self::lock(folder)?;
        let config = match read(&store.file())? {
            Some(text) => parse(&text).map_err(|reason| store.corrupt(&reason))?,
            None if store.generations()?.is_empty() => {
                let identity = identity::new_installation(&mut Seed::random()?);
                let config = Config {
                    identity,
                    ..Config::default()
                };
                store.save(&config)?;
                config
            }
            None => return Err(store.corrupt("it is missing")),
        };
        store.stored = Some(config.generation);
        Ok((store, config))
    }

    /// The configuration that is in force in a folder which another process may be using: it is replaced whole,
    /// so what is read is one or the next.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn peek(folder: &Path) -> Result<Config, Error> {
        let file = folder.join("config.toml");
        let text = read(&file)?.ok_or_else(|| {
            Error::not_found(
                format!("there is no configuration in {}", folder.display()),
                "name the state folder of the daemon with --state",
            )
        })?;
        parse(&text).map_err(|reason| {
            let message = format!("{} cannot be used: {reason}", file.display());
            Error::new(
                ErrorKind::Corrupt,
                message,
                "sandstone config rollback shows how to go back",
            )
        })
    }

    /// Puts an earlier generation in force in a folder that no daemon uses: the way out when
    /// `config.toml` is damaged. The damaged file is kept as `config.toml.damaged`.
    pub fn recover(folder: &Path, generation: u64) -> Result<Config, Error> {
        let mut store = Self::lock(folder)?;
        let mut config = store.generation(generation)?;
        let counted = match read(&store.file())?.map(|text| parse(&text)) {
            Some(Ok(current)) => {
                store.stored = Some(current.generation);
                Some(current)
            }
            Some(Err(_)) => {
                let damaged = store.folder.join("config.toml.damaged");
                fs::rename(store.file(), &damaged).map_err(|e| {
                    Error::storage(format!("move the damaged file to {}", damaged.display()), e)
                })?;
                None
            }
            None => None,
        };
        let newest = store.generations()?.into_iter().max().unwrap_or(generation);
        if let Some(newest) = counted.map_or_else(|| store.generation(newest).ok(), Some) {
            identity::carry_over(&newest.identity, &mut config);
        }
        // One above every number that was ever in force, the damaged file's included.
        config.generation = newest.max(store.stored.unwrap_or(newest + 1)) + 1;
        store.save(&config)?;
        Ok(config)
    }

    /// The state folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Replaces the stored configuration. On an error the one before is still in force.
    pub fn save(&mut self, config: &Config) -> Result<(), Error> {
        self.save_observed(config, &mut |_| Ok(()))
    }

    /// [`Store::save`] that calls `observe` at each step; an error from it stands for a crash
    /// there and leaves the files as they are. For tests of crash safety.
    pub fn save_observed(
        &mut self,
        config: &Config,
        observe: &mut dyn FnMut(SaveStep) -> io::Result<()>,
    ) -> Result<(), Error> {
        if self.broken {
            return Err(Error::new(
                ErrorKind::Storage,
                "an earlier save failed half-way and could not be undone; saving is off until the daemon restarts",
                "check the disk under the state folder, then restart the daemon",
            ));
        }
        validate(config)?;
        let text = render(config)?;
        let failed = |e| {
            Error::storage(
                format!("save the configuration in {}", self.folder.display()),
                e,
            )
        };
        self.prepare(&text, observe).map_err(failed)?;
        if let Err(error) = self.replace(observe) {
            let error = failed(error);
            self.undo();
            return Err(error);
        }
        self.stored = Some(config.generation);
        // Old generations that stay are a matter of tidiness, not of truth.
        let _ = self.prune();
        Ok(())
    }

    /// Puts the configuration `before` in force again after [`Store::save`] succeeded but the data
    /// plane refused.
    pub fn revert(&mut self, before: &Config) -> Result<(), Error> {
        let undone = self.stored;
        self.save(before).inspect_err(|_| self.broken = true)?;
        if let Some(generation) = undone.filter(|&undone| undone != before.generation) {
            // It was never in force; keeping it would offer it for rollback.
            let _ = fs::remove_file(self.kept(generation));
        }
        Ok(())
    }

    /// The generations that can be gone back to, ascending.
    pub fn generations(&self) -> Result<Vec<u64>, Error> {
        let list = || -> io::Result<Vec<u64>> {
            let mut generations = Vec::new();
            for entry in fs::read_dir(self.history())? {
                let name = entry?.file_name();
                let number = name
                    .to_str()
                    .and_then(|n| n.strip_prefix("config.")?.strip_suffix(".toml"));
                generations.extend(number.and_then(|n| n.parse::<u64>().ok()));
            }
            generations.sort_unstable();
            Ok(generations)
        };
        list().map_err(|e| Error::storage(format!("list {}", self.history().display()), e))
    }

    /// An earlier configuration.
    pub fn generation(&self, generation: u64) -> Result<Config, Error> {
        let kept = self.generations()?;
        let path = self.kept(generation);
        match read(&path)? {
            Some(text) => parse(&text).map_err(|reason| {
                let message = format!("{} cannot be used: {reason}", path.display());
                Error::new(
                    ErrorKind::Corrupt,
                    message,
                    "choose another generation: sandstone config history",
                )
            }),
            None => {
                let list: Vec<_> = kept.iter().map(u64::to_string).collect();
                let list = if list.is_empty() {
                    "none".to_owned()
                } else {
                    list.join(", ")
                };
                Err(Error::not_found(
                    format!("generation {generation} is not kept; kept are: {list}"),
                    "choose one of these: sandstone config history",
                ))
            }
        }
    }

    fn lock(folder: &Path) -> Result<Self, Error> {
        let failed = |e| Error::storage(format!("use the state folder {}", folder.display()), e);
        let private = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        private(folder).map_err(failed)?;
        private(&folder.join("history")).map_err(failed)?;
        private(&folder.join("volumes")).map_err(failed)?;
        // Absolute, so that a daemon that changes its directory still finds it.
        let folder = folder.canonicalize().map_err(failed)?;
        let path = folder.join("lock");
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        let mut lock = open.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() {
                    "another process"
                } else {
                    holder.trim()
                };
                return Err(Error::new(
                    ErrorKind::Locked,
                    format!(
                        "the state folder {} is in use by {holder}",
                        folder.display()
                    ),
                    "talk to that daemon (sandstone status), stop it, or give another folder with --state",
                ));
            }
            Err(fs::TryLockError::Error(e)) => return Err(failed(e)),
        }
        lock.set_len(0)
            .and_then(|()| writeln!(lock, "process {}", std::process::id()))
            .map_err(failed)?;
        match fs::remove_file(folder.join("config.toml.new")) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(e)),
            _ => Ok(Self {
                folder,
                stored: None,
                broken: false,
                _lock: lock,
            }),
        }
    }

    /// Writes the new file and keeps the old one under its generation.
    fn prepare(
        &self,
        text: &str,
        observe: &mut dyn FnMut(SaveStep) -> io::Result<()>,
    ) -> io::Result<()> {
        let new = self.new_file();
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(text.as_bytes())?;
        observe(SaveStep::Written)?;
        file.sync_all()?;
        observe(SaveStep::Synced)?;
        if let Some(stored) = self.stored {
            // A leftover of that number may be a configuration that was refused or never finished.
            match fs::remove_file(self.kept(stored)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => fs::hard_link(self.file(), self.kept(stored))?,
            }
            File::open(self.history())?.sync_all()?;
        }
        observe(SaveStep::Kept)
    }

    fn replace(&self, observe: &mut dyn FnMut(SaveStep) -> io::Result<()>) -> io::Result<()> {
        fs::rename(self.new_file(), self.file())?;
        observe(SaveStep::Renamed)?;
        File::open(&self.folder)?.sync_all()?;
        observe(SaveStep::Durable)
    }

    /// Brings the old file back after the new one took its name but perhaps not for good.
    fn undo(&mut self) {
        let back = || -> io::Result<()> {
            match self.stored {
                Some(stored) => {
                    fs::hard_link(self.kept(stored), self.new_file())?;
                    fs::rename(self.new_file(), self.file())?;
                }
                None => fs::remove_file(self.file())?,
            }
            File::open(&self.folder)?.sync_all()
        };
        self.broken = back().is_err();
    }

    fn prune(&self) -> Result<(), Error> {
        let kept = self.generations()?;
        for generation in kept.iter().rev().skip(HISTORY) {
            let _ = fs::remove_file(self.kept(*generation));
        }
        Ok(())
    }

    fn corrupt(&self, reason: &str) -> Error {
        let generations = self.generations().unwrap_or_default();
        let good = generations
            .into_iter()
            .rev()
            .find(|&generation| self.generation(generation).is_ok());
        let file = self.file();
        let folder = self.folder.display();
        let (found, next) = match good {
            Some(good) => (
                format!("the last good generation is {good}"),
                format!("sandstone config rollback {good} --state {folder}"),
            ),
            None => (
                "no earlier generation is good either".to_owned(),
                format!(
                    "restore {} from a backup, or start a new state folder",
                    file.display()
                ),
            ),
        };
        Error::new(
            ErrorKind::Corrupt,
            format!("{} cannot be used: {reason}; {found}", file.display()),
            next,
        )
        .not_changed("no file was touched, nothing is served")
    }

    fn file(&self) -> PathBuf {
        self.folder.join("config.toml")
    }

    fn new_file(&self) -> PathBuf {
        self.folder.join("config.toml.new")
    }

    fn history(&self) -> PathBuf {
        self.folder.join("history")
    }

    fn kept(&self, generation: u64) -> PathBuf {
        self.history().join(format!("config.{generation}.toml"))
    }
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read(path) {
        // Bytes that are not text fail the check sum with everything else that is damaged.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::storage(format!("read {}", path.display()), e)),
    }
}

fn render(config: &Config) -> Result<String, Error> {
    let body = toml::to_string(config).map_err(|e| {
        Error::invalid(
            format!("the configuration cannot be written as TOML: {e}"),
            "report this as a defect",
        )
        .caused_by(e)
    })?;
    let body = format!(
        "# Kept by the daemon. To change it: sandstone config show, edit, sandstone config apply.\n{body}"
    );
    let sum = crc32fast::hash(body.as_bytes());
    Ok(format!(
        "{HEADER}, generation {}, crc32 {sum:08x}\n{body}",
        config.generation
    ))
}

/// Reads a configuration file; the error says what is wrong with it.
fn parse(text: &str) -> Result<Config, String> {
    let (first, body) = text.split_once('\n').ok_or("it is empty or torn")?;
    if !first.starts_with(HEADER) {
        return Err(
            match first.strip_prefix("# sandstone configuration, format ") {
                Some(_) => "it was written by a newer version of Sandstone".into(),
                None => "its first line is not that of a Sandstone configuration".into(),
            },
        );
    }
    let sum = first
        .rsplit_once("crc32 ")
        .and_then(|(_, sum)| u32::from_str_radix(sum, 16).ok());
    if sum != Some(crc32fast::hash(body.as_bytes())) {
        return Err(
            "its check sum does not match: it is torn, damaged or was edited by hand".into(),
        );
    }
    let config: Config =
        toml::from_str(body).map_err(|e| format!("it does not read as a configuration: {e}"))?;
    validate(&config).map_err(|e| format!("it breaks a rule: {e}"))?;
    Ok(config)
}

#[cfg(test)]
mod tests;
