//! Imports the configurations of other targets. Identities are kept, so that initiators find the
//! disks they knew. Nobody gets more access than before, or access with less proof. Parts that
//! cannot be carried over are left out and named.

mod access;
mod dropped;
pub mod lio;
mod merge;
mod parameters;
pub mod scst;

#[cfg(test)]
mod mutations;
#[cfg(test)]
mod oracle;

pub use merge::merge;

use super::change::Change;
use super::identity::Seed;
use model::Error;
use model::config::{ChapSecret, Config, TargetSpec, UnitSpec};

/// Configuration of another program in Sandstone's terms, with an account of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Configuration. Port ids and missing identities are made when it is applied.
    pub config: Config,
    /// Notes on parts that were left out or are different now, one sentence each.
    pub notes: Vec<String>,
    /// Names of the devices, targets, groups and LUNs that were left out.
    pub left_out: Vec<String>,
    /// Number of devices in the source.
    pub devices: usize,
    /// Number of targets in the source.
    pub targets: usize,
}

impl Imported {
    /// Summarizes the import in one line: the numbers of parts that came over, and the parts that
    /// did not.
    pub fn summary(&self) -> String {
        let config = &self.config;
        let plural = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        let mut text = format!(
            "{} of {}, {} of {}, {}, {}",
            config.units.len(),
            plural(self.devices, "device"),
            config.targets.len(),
            plural(self.targets, "target"),
            plural(config.hosts.len(), "host"),
            plural(config.maps.len(), "map"),
        );
        if !self.left_out.is_empty() {
            text.push_str(&format!("; left out: {}", self.left_out.join(", ")));
        }
        text
    }

    fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn leave_out(&mut self, what: impl Into<String>, why: impl std::fmt::Display) {
        let what = what.into();
        self.note(format!("{what} was left out: {why}"));
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
        }
    }

    /// Adds a unit, unless a rule here forbids it. If another unit has its identity, a new identity
    /// is made.
    fn add_unit(&mut self, source: &str, mut unit: UnitSpec) -> Option<String> {
        let same = |other: &UnitSpec| {
            (!unit.naa.is_empty() && other.naa == unit.naa)
                || (!unit.serial.is_empty() && other.serial == unit.serial)
        };
        if let Some(other) = self.config.units.iter().find(|other| same(other)) {
            self.notes.push(format!(
                "{source} gets a new identity: logical unit {} already has its NAA or serial number",
                other.name
            ));
            (unit.naa, unit.serial) = (String::new(), String::new());
        }
        let name = unit.name.clone();
        self.config.units.push(unit);
        let units = self.config.units.clone();
        let kept = self.try_out(
            source,
            Config {
                units,
                ..Config::default()
            },
        );
        if kept {
            return Some(name);
        }
        self.config.units.pop();
        None
    }

    /// Adds a target, unless a rule here forbids it.
    fn add_target(&mut self, target: TargetSpec) -> bool {
        let source = format!("target {}", target.iqn);
        self.config.targets.push(target);
        let targets = self.config.targets.clone();
        let kept = self.try_out(
            &source,
            Config {
                targets,
                ..Config::default()
            },
        );
        if !kept {
            self.config.targets.pop();
        }
        kept
    }

    fn try_out(&mut self, source: &str, config: Config) -> bool {
        let tried =
            Change::Replace(Box::new(config)).applied(&Config::default(), Seed::fixed(1), false);
        let Err(error) = tried else { return true };
        self.leave_out(source, error.message);
        false
    }
}

/// Returns the reason why a secret that was good enough for the other program cannot be used here.
fn unusable(secret: &ChapSecret) -> Option<&'static str> {
    if !(12..=255).contains(&secret.secret.len()) {
        Some("its secret does not have 12 to 255 bytes")
    } else if !(1..=255).contains(&secret.user.len()) || secret.user.chars().any(char::is_control) {
        Some("its CHAP user name is empty, too long or holds control characters")
    } else {
        None
    }
}

/// Adds the secret that this side proves. It is dropped if an initiator could send it back.
fn mutual(imported: &mut Imported, whose: &str, secret: Option<ChapSecret>) -> Option<ChapSecret> {
    let secret = secret?;
    if let Some(reason) = unusable(&secret) {
        imported.leave_out(format!("the mutual secret of {whose}"), reason);
        return None;
    }
    Some(secret)
}

/// Drops each mutual secret with which an initiator authenticates itself as well (RFC 7143 9.2.1
/// forbids this).
fn drop_reflected(imported: &mut Imported) {
    let config = &mut imported.config;
    let hosts = config.hosts.iter().filter_map(|host| host.chap.as_ref());
    let known: Vec<String> = hosts
        .chain(&config.discovery_chap)
        .map(|chap| chap.secret.clone())
        .collect();
    let mut dropped = Vec::new();
    let targets = config.targets.iter_mut();
    let all = targets.map(|target| (target.iqn.as_str(), &mut target.mutual_chap));
    for (name, mutual) in all.chain([("discovery", &mut config.discovery_mutual_chap)]) {
        if mutual.as_ref().is_some_and(|m| known.contains(&m.secret)) {
            dropped.push(format!("the mutual secret of {name}"));
            *mutual = None;
        }
    }
    for what in dropped {
        imported.leave_out(
            what,
            "an initiator has this secret too, and an impostor could reflect it",
        );
    }
}

/// Converts a name to the rules here: other characters become `-`.
fn plain_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':') {
                c
            } else {
                '-'
            }
        })
        .collect();
    let plain = plain.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if plain.is_empty() {
        "unnamed".into()
    } else {
        plain.chars().take(120).collect()
    }
}

/// Makes a name from `base` that is not `taken`.
fn free_name(base: &str, taken: impl Fn(&str) -> bool) -> String {
    let base = plain_name(base);
    let mut name = base.clone();
    let mut number = 2;
    while taken(&name) {
        name = format!("{base}-{number}");
        number += 1;
    }
    name
}
