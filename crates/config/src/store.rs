//! The state folder: the daemon that uses it, and the configuration in it.
//!
//! ```text
//!     STATE/                      mode 0700
//!       config.toml               the configuration that is in force, mode 0600
//!       history/config.12.toml    copies of it and of earlier configurations, by generation
//!       secrets.key               opens the secrets in config.toml and access.json
//!       lock                      held by the daemon that uses the folder
//!       volumes/                  files of logical units with relative paths
//! ```
//!
//! The first line of a configuration file carries its generation and a CRC-32 over the rest, which
//! tell a good file from a torn or edited one. [`state_folder`] describes the order of writes. A
//! comment after the first line notes the origin of the generation ([`super::history`]).
//!
//! # Invariants
//! - After a crash at any point the folder opens with the old configuration or the new one.
//! - A [`Store::save`] that failed leaves the old configuration in force. If this cannot be
//!   promised (the disk failed twice), the store refuses all further saves.
//! - A damaged file loses nothing while the copy of its generation is whole. If the copy is lost
//!   too, nothing is served: an older configuration may let in a host that was shut out since.
//! - Two daemons never use one folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::vault::Vault;
use super::history::{GenerationView, Note};
use super::identity::{self, Seed};
use super::redact::for_each_secret;
use super::validate::validate;
use model::config::Config;
use model::error::{Error, ErrorKind};
use state_folder::{KeptFile, SecretKey, Trouble, Unfit};

mod replacement;
mod vault;

pub use replacement::{Replaced, Replacement};

/// Number of earlier configurations that are kept.
pub const HISTORY: usize = 32;

/// Beginning of the first line. The number is the version of the format.
const HEADER: &str = "# sandstone configuration, format 1";

/// State folder in use by this process.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    file: KeptFile,
    /// Whether neither the old nor the new file can be promised to be in force.
    broken: bool,
    /// Damage that was found when the file was opened, and its remedy.
    notice: Option<String>,
    vault: Vault,
    _lock: Held,
}

impl Store {
    /// Opens a state folder, creating it if it does not exist, and returns its configuration.
    pub fn open(folder: &Path) -> Result<(Self, Config), Error> {
        let mut store = Self::lock(folder)?;
        let found = store.file.load(|bytes| open(bytes, Some(&store.vault)));
        let config = match (found.content, found.trouble) {
            (Some((_, config)), None) => config,
            (Some((generation, config)), Some(trouble))
                if !trouble.is_newest_lost && !trouble.is_newer =>
            {
                store.file.put_right(Some(generation));
                store.note(format!(
                    "{}; its copy in the history is in force, so nothing is lost",
                    trouble.reason
                ));
                config
            }
            (_, Some(trouble)) => return Err(store.corrupt(&trouble)),
            (None, None) => {
                store.refuse_orphans()?;
                let identity = identity::new_installation(&mut Seed::random()?);
                let config = Config {
                    identity,
                    ..Config::default()
                };
                store.save(&config, &Note::now("the state folder was created"))?;
                config
            }
        };
        let closed = store.vault.closed();
        if closed > 0 {
            store.note(format!(
                "the key does not open {closed} secrets of the configuration, so no initiator logs in with them: \
                 restore secrets.key in {} and restart, or set the secrets again",
                store.folder.display()
            ));
        }
        Ok((store, config))
    }

    /// Returns the key that seals the secrets in the folder's files.
    pub fn secret_key(&self) -> Arc<SecretKey> {
        Arc::clone(self.vault.key())
    }

    /// Returns the damage that was found when the file was opened, and its remedy.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    fn note(&mut self, notice: String) {
        tracing::error!("{notice}");
        self.notice = Some(notice);
    }

    /// Refuses a folder that has other files of a daemon, but no configuration. A new identity
    /// would change the designators by which initiators know the units.
    fn refuse_orphans(&self) -> Result<(), Error> {
        let Some(orphan) = self.orphan() else {
            return Ok(());
        };
        let (file, orphan) = (self.file.path().display(), orphan.display());
        Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "{file} is lost with all its generations, but {orphan} exists: this is not a new state folder"
            ),
            format!(
                "restore a backup with `sandstone config restore FILE --state {}`. Without a backup, start \
                 with a new state folder (--state), and import the pools there with `sandstone pool import \
                 -f`: its logical units get new identities",
                self.folder.display()
            ),
        )
        .not_changed("no file was changed, and nothing is served"))
    }

    /// Returns a file of the folder that belongs to a configuration.
    fn orphan(&self) -> Option<PathBuf> {
        let orphans = ["pools.json", "units"].map(|name| self.folder.join(name));
        orphans.into_iter().find(|orphan| orphan.exists())
    }

    /// Reads the configuration in force from a folder that another process may be using. The file
    /// is replaced whole, so the result is one configuration or the next.
    ///
    /// # Errors
    /// The configuration cannot be read, or is damaged.
    pub fn peek(folder: &Path) -> Result<Config, Error> {
        let file = folder.join("config.toml");
        let vault = Vault::peek(folder);
        let found = KeptFile::at(file.clone(), HISTORY).load(|bytes| open(bytes, vault.as_ref()));
        match (found.content, found.trouble) {
            (Some((_, config)), None) => Ok(config),
            (Some((_, config)), Some(trouble)) if !trouble.is_newest_lost => Ok(config),
            (_, Some(trouble)) => Err(Error::new(
                ErrorKind::Corrupt,
                format!("the configuration cannot be used: {}", trouble.reason),
                "sandstone config rollback shows how to go back",
            )),
            (None, None) => Err(Error::not_found(
                format!("{} holds no configuration", folder.display()),
                "name the state folder of the daemon with --state",
            )),
        }
    }

    /// Returns the reason why the file itself is not as the daemon wrote it. A whole copy of it may
    /// exist nevertheless.
    pub fn damage(folder: &Path) -> Option<String> {
        let mut file = KeptFile::at(folder.join("config.toml"), HISTORY);
        file.load(|bytes| open(bytes, None))
            .trouble
            .map(|trouble| trouble.reason)
    }

    /// Returns the path of the state folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Replaces the stored configuration, and notes its origin. After an error the previous
    /// configuration is still in force.
    pub fn save(&mut self, config: &Config, note: &Note) -> Result<(), Error> {
        if self.broken {
            return Err(Error::new(
                ErrorKind::Storage,
                "an earlier save failed halfway and could not be undone; saving is off until the daemon \
                 restarts",
                "check the disk under the state folder, then restart the daemon",
            ));
        }
        validate(config)?;
        let text = render(&self.vault.sealed(config)?, note)?;
        self.file
            .save(config.generation, text.as_bytes())
            .map_err(|error| {
                self.broken = KeptFile::is_halfway(&error);
                self.failed(error)
            })
    }

    /// Reports whether neither the old nor the new file can be promised to be in force. Saving is
    /// then refused.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::storage(
            format!("save the configuration in {}", self.folder.display()),
            error,
        )
    }

    /// Puts the configuration `before` in force again, after [`Store::save`] succeeded but the data
    /// plane refused. It takes no space.
    pub fn revert(&mut self, before: &Config) -> Result<(), Error> {
        self.file.go_back(before.generation).map_err(|error| {
            self.broken = true;
            self.failed(error)
        })
    }

    /// Lists the generations to which a return is possible, in ascending order.
    pub fn generations(&self) -> Result<Vec<u64>, Error> {
        let mut generations = self
            .file
            .generations()
            .map_err(|e| Error::storage("list the history of the configuration", e))?;
        generations.retain(|generation| Some(*generation) != self.file.stored());
        Ok(generations)
    }

    /// Lists all kept generations with their notes, in ascending order.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn history(&self) -> Result<Vec<GenerationView>, Error> {
        history(&self.file)
    }

    /// Lists the generations like [`Self::history`], for a folder that another process may be
    /// using.
    ///
    /// # Errors
    /// As for [`Self::history`].
    pub fn peek_history(folder: &Path) -> Result<Vec<GenerationView>, Error> {
        let mut file = KeptFile::at(folder.join("config.toml"), HISTORY);
        // Damage does not matter here, and the list shows the ways out of it.
        let _ = file.load(|bytes| open(bytes, None));
        history(&file)
    }

    /// Returns an earlier configuration.
    pub fn generation(&self, generation: u64) -> Result<Config, Error> {
        let kept = self.generations()?;
        let path = self.file.copy(generation);
        match read(&path)? {
            Some(bytes) => open(&bytes, Some(&self.vault))
                .map(|(_, config)| config)
                .map_err(|unfit| {
                    let message = format!("{} cannot be used: {}", path.display(), unfit.reason);
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
                    format!(
                        "generation {generation} is not kept; the kept generations are: {list}"
                    ),
                    "choose one of these generations: sandstone config history",
                ))
            }
        }
    }

    fn lock(folder: &Path) -> Result<Self, Error> {
        let failed = |e| Error::storage(format!("use the state folder {}", folder.display()), e);
        let private = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        private(folder).map_err(failed)?;
        let typed = folder;
        // The path is absolute, so that a daemon that changes its directory still finds the folder.
        let folder = folder.canonicalize().map_err(failed)?;
        private(&folder.join("history")).map_err(failed)?;
        private(&folder.join("volumes")).map_err(failed)?;
        let path = folder.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).mode(0o600);
        let open = options
            .clone()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        // A folder that cannot be written just now must not stop the configured service.
        let (mut lock, refusal) = match open {
            Ok(lock) => (lock, None),
            Err(error) => match options.open(&path) {
                Ok(lock) => (lock, Some(error)),
                Err(_) => return Err(failed(error)),
            },
        };
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
                    format!(
                        "ask that daemon (sandstone --state {} status), stop it, or give another folder with \
                         --state",
                        typed.display()
                    ),
                ));
            }
            Err(fs::TryLockError::Error(e)) => return Err(failed(e)),
        }
        // The holder's number helps a user who is refused. A full disk has no room for it.
        let told = refusal.map_or_else(
            || {
                lock.set_len(0)
                    .and_then(|()| writeln!(lock, "process {}", std::process::id()))
            },
            Err,
        );
        if let Err(error) = told {
            tracing::warn!(%error, "the state folder cannot be written");
        }
        Ok(Self {
            file: KeptFile::at(folder.join("config.toml"), HISTORY),
            vault: Vault::open(&folder)?,
            folder,
            broken: false,
            notice: None,
            _lock: Held(lock),
        })
    }

    fn corrupt(&self, trouble: &Trouble) -> Error {
        let generations = self.file.generations().unwrap_or_default();
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
            format!(
                "the configuration cannot be used: {}; {found}",
                trouble.reason
            ),
            next,
        )
        .not_changed("no file was changed, and nothing is served")
    }

    fn file(&self) -> PathBuf {
        self.file.path().to_owned()
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::storage(format!("read {}", path.display()), e)),
    }
}

/// Reads the generation and content of a configuration file. Without a vault, nobody wants its
/// secrets.
fn open(bytes: &[u8], vault: Option<&Vault>) -> Result<(u64, Config), Unfit> {
    // Bytes that are not text fail the checksum, like all other damage.
    let config = parse(&String::from_utf8_lossy(bytes), vault)?;
    Ok((config.generation, config))
}

fn history(file: &KeptFile) -> Result<Vec<GenerationView>, Error> {
    let generations = file
        .generations()
        .map_err(|e| Error::storage("list the history of the configuration", e))?;
    let view = |generation: u64| {
        let text = fs::read_to_string(file.copy(generation)).unwrap_or_default();
        // A damaged copy tells nothing.
        let note = checked(&text).ok().and_then(Note::find);
        GenerationView::new(generation, file.stored() == Some(generation), note)
    };
    Ok(generations.into_iter().map(view).collect())
}

fn render(config: &Config, note: &Note) -> Result<String, Error> {
    let body = toml::to_string(config).map_err(|e| {
        Error::invalid(
            format!("the configuration cannot be written as TOML: {e}"),
            "report this as a defect",
        )
        .caused_by(e)
    })?;
    let body = format!(
        "# Kept by the daemon. To change it: sandstone config show, edit, sandstone config apply.\n{}{body}",
        note.line()
    );
    let sum = crc32fast::hash(body.as_bytes());
    Ok(format!(
        "{HEADER}, generation {}, crc32 {sum:08x}\n{body}",
        config.generation
    ))
}

/// Returns the text behind the first line of a whole file.
fn checked(text: &str) -> Result<&str, Unfit> {
    let (first, body) = text.split_once('\n').ok_or("it is empty or torn")?;
    if !first.starts_with(HEADER) {
        return Err(
            match first.strip_prefix("# sandstone configuration, format ") {
                Some(_) => Unfit {
                    reason: "it was written by a newer version of Sandstone".into(),
                    is_newer: true,
                },
                None => "its first line is not that of a Sandstone configuration".into(),
            },
        );
    }
    let sum = first
        .rsplit_once("crc32 ")
        .and_then(|(_, sum)| u32::from_str_radix(sum, 16).ok());
    if sum != Some(crc32fast::hash(body.as_bytes())) {
        return Err("its checksum does not match: it is torn, damaged or edited by hand".into());
    }
    Ok(body)
}

/// Reads a configuration file. The error says what is wrong with it.
fn parse(text: &str, vault: Option<&Vault>) -> Result<Config, Unfit> {
    let body = checked(text)?;
    let mut config: Config =
        toml::from_str(body).map_err(|e| format!("it cannot be read as a configuration: {e}"))?;
    match vault {
        Some(vault) => vault.unseal(&mut config),
        // The rules know the length of a secret, and that some must differ.
        None => {
            let mut number = 0;
            for_each_secret(&mut config, &mut |secret| {
                number += 1;
                *secret = format!("{number:012}");
            });
        }
    }
    validate(&config).map_err(|e| format!("it breaks a rule: {e}"))?;
    Ok(config)
}

/// Lock of a state folder.
#[derive(Debug)]
struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        // Closing is not enough: a process that is being started has the descriptor too, until it
        // runs its own program. If the lock cannot be ended here, it ends with the descriptor.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests;
