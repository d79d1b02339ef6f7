//! Backups: one file with the whole configuration of a machine, including its secrets. It restores
//! the configuration on a bare machine.
//!
//! ```text
//!     {"sandstone": "backup", "format": 1, "generation": 7, "crc32": "0f1e2d3c", "content":
//!     { "version": …, "machine": …, "time_s": …, "config": { … }, "pools": [ … ] }
//!     }
//! ```
//! The frame is that of the daemon's own files. A sealed backup has another frame around this one
//! ([`seal`]).

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::validate::validate;
use model::config::Config;
use model::error::{Error, ErrorKind};
use state_folder::{Unfit, open_json, seal_json};

mod seal;

pub use seal::SHORTEST_PASSPHRASE;

/// Version of this Sandstone.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Most bytes that a reader of a backup has to take. It holds far more objects than a machine can
/// serve.
pub const MOST_BYTES: u64 = 256 << 20;
/// The frame's name for a backup, and for a sealed one.
const KIND: &str = "backup";
const SEALED: &str = "sealed backup";

/// The whole configuration of a machine, including its secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// Version of Sandstone that made the backup.
    pub version: String,
    /// Name of the machine.
    pub machine: String,
    /// Time of the backup, in seconds since 1970.
    pub time_s: u64,
    /// Configuration, including its secrets.
    pub config: Config,
    /// Pools to import with the configuration. Their labels hold the truth about them.
    pub pools: Vec<PoolMembers>,
}

/// A pool, and the places of its devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolMembers {
    /// Name of the pool.
    pub name: String,
    /// Number of the pool, in 16 hexadecimal digits.
    pub guid: String,
    /// Paths of its devices, or names of other machines' disks.
    pub devices: Vec<String>,
}

impl Backup {
    /// Creates a backup of this machine's present state.
    pub fn new(config: &Config, pools: Vec<PoolMembers>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let machine = rustix::system::uname();
        Self {
            version: VERSION.to_owned(),
            machine: machine.nodename().to_string_lossy().into_owned(),
            time_s: since.map_or(0, |since| since.as_secs()),
            config: config.clone(),
            pools,
        }
    }

    /// Encodes the backup as a file.
    ///
    /// # Errors
    /// The backup cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        seal_json(KIND, self.config.generation, self).map_err(unwritable)
    }

    /// Encodes the backup as a file that only the passphrase opens.
    ///
    /// # Errors
    /// The passphrase is too short, or the machine has no random numbers or memory.
    pub fn to_sealed_bytes(&self, passphrase: &str) -> Result<Vec<u8>, Error> {
        let sealed = seal::Sealed::new(&self.to_bytes()?, passphrase)?;
        seal_json(SEALED, self.config.generation, &sealed).map_err(unwritable)
    }

    /// Decodes the backup in a file called `name`. If the file is sealed, `passphrase` is called.
    ///
    /// # Errors
    /// The file is damaged, of a later version or of another kind, or the passphrase is wrong.
    pub fn from_bytes<E: From<Error>>(
        name: &str,
        bytes: &[u8],
        passphrase: impl FnOnce() -> Result<String, E>,
    ) -> Result<Self, E> {
        let backup = match open_json::<seal::Sealed>(SEALED, bytes) {
            Ok((_, sealed)) => Self::read(&sealed.open(name, &passphrase()?)?),
            Err(_) if begins_as(bytes, KIND) => Self::read(bytes),
            Err(unfit) if begins_as(bytes, SEALED) => Err(Unreadable::Frame(unfit)),
            Err(_) => Err(Unreadable::Foreign),
        };
        Ok(backup.map_err(|why| why.told(name))?)
    }

    fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        let (_, content) = open_json::<Value>(KIND, bytes).map_err(Unreadable::Frame)?;
        let version = content.get("version").and_then(Value::as_str);
        let version = shown::plain(version.unwrap_or("of an unknown version"));
        let misfit = |reason: String| Unreadable::Content { version, reason };
        match serde_json::from_value::<Self>(content) {
            Ok(backup) => match validate(&backup.config).and_then(|()| backup.check_words()) {
                Ok(()) => Ok(backup),
                Err(error) => Err(misfit(error.message)),
            },
            // The decoder quotes what it found. That may be a secret in the wrong place.
            Err(error) => Err(misfit(shown::without_values(&error.to_string()))),
        }
    }

    /// Refuses words that no daemon writes. They are shown, and stand in commands that people copy:
    /// a hostile file must not talk to the terminal or the shell.
    fn check_words(&self) -> Result<(), Error> {
        let refused = |what: &str, word: &str| {
            Err(Error::invalid(
                format!("\"{}\" is no {what}", shown::plain(word)),
                "use another backup",
            ))
        };
        for (what, word) in [
            ("version", &self.version),
            ("machine's name", &self.machine),
        ] {
            if word.chars().any(shown::is_obeyed) {
                return refused(what, word);
            }
        }
        for pool in &self.pools {
            if !is_pool_name(&pool.name) {
                return refused("pool's name", &pool.name);
            }
            if pool.guid.len() != 16 || !pool.guid.bytes().all(|it| it.is_ascii_hexdigit()) {
                return refused("pool's number", &pool.guid);
            }
            let mut devices = pool.devices.iter();
            if let Some(device) = devices.find(|it| it.chars().any(shown::is_obeyed)) {
                return refused("device's path", device);
            }
        }
        Ok(())
    }

    /// Reports whether a file begins like a backup, sealed or not.
    pub fn is_one(bytes: &[u8]) -> bool {
        begins_as(bytes, KIND) || begins_as(bytes, SEALED)
    }

    /// Returns the number of secrets in the backup.
    pub fn secrets(&self) -> usize {
        let config = &self.config;
        let of_hosts = config.hosts.iter().map(|host| &host.chap);
        let of_targets = config.targets.iter().map(|target| &target.mutual_chap);
        let logins = config.initiator.targets.iter();
        let of_logins = logins.flat_map(|login| [&login.chap, &login.mutual_chap]);
        let own = [&config.discovery_chap, &config.discovery_mutual_chap];
        let all = of_hosts.chain(of_targets).chain(of_logins).chain(own);
        let of_ways = config.alert_ways.iter().map(|way| way.secrets().len());
        all.flatten().count() + of_ways.sum::<usize>()
    }
}

/// Reason why a file is no usable backup.
enum Unreadable {
    /// The file is of another kind.
    Foreign,
    Frame(Unfit),
    /// The file is whole, but has content that this version does not understand.
    Content {
        version: String,
        reason: String,
    },
}

impl Unreadable {
    fn told(self, name: &str) -> Error {
        match self {
            Self::Foreign => Error::invalid(
                format!(
                    "{name} is not a backup, or it was cut off: its first line is not that of a backup"
                ),
                "name a file that sandstone config export made; sandstone config apply takes a TOML file",
            ),
            Self::Frame(unfit) if unfit.is_newer => Error::invalid(
                format!(
                    "{name} was made by a later version of Sandstone than this version, {}",
                    VERSION
                ),
                "restore it with that version or a later one (sandstone --version)",
            ),
            Self::Frame(unfit) => Error::new(
                ErrorKind::Corrupt,
                format!("{name} cannot be used: {}", unfit.reason),
                "copy the file again from the original, or use another backup",
            ),
            Self::Content { version, reason } if version == VERSION => Error::invalid(
                format!(
                    "{name} is not as Sandstone {VERSION} made it: {reason}; it was changed, and its \
                     checksum with it"
                ),
                "use another backup, or the original of this one",
            ),
            Self::Content { version, reason } => Error::invalid(
                format!(
                    "{name} was made by Sandstone {version}; this version, {}, does not understand it: \
                     {reason}",
                    VERSION
                ),
                "restore it with the version that made it, or with a later one",
            ),
        }
    }
}

/// Reports whether a pool may have this name.
fn is_pool_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.: ".contains(&byte);
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(is_plain)
}

/// Reports whether the first line belongs to a frame of this kind, whole or not.
fn begins_as(bytes: &[u8], kind: &str) -> bool {
    bytes.starts_with(format!("{{\"sandstone\":\"{kind}\"").as_bytes())
}

fn unwritable(error: std::io::Error) -> Error {
    Error::invalid(
        format!("the backup cannot be written as JSON: {error}"),
        "report this as a defect",
    )
}

#[cfg(test)]
mod tests;
