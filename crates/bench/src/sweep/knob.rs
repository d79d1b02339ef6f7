//! Knobs: settings with a name, values worth trying, a way to apply a value, and the commands that
//! set it on ESXi, on Linux and in Sandstone.

use std::collections::BTreeMap;

use serde::Serialize;

use super::plan::Need;
use crate::parameters::Parameters;
use crate::profile;
use crate::results::Target;
use crate::workload::Profile;
use model::quantity::{format_size, parse_size};

/// Setup of a run before it begins; knobs change it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Profile to run.
    pub profile: Profile,
    /// Parameters of the run.
    pub parameters: Parameters,
    /// Options for opening the target, by name: settings of an initiator. If they change, the
    /// target is opened anew.
    pub target_options: BTreeMap<String, String>,
    /// Whether the logical unit's write cache is to be on; `None` leaves it alone.
    pub write_cache: Option<bool>,
    /// Properties that the volume beneath the unit is to have, by name.
    pub volume: BTreeMap<String, String>,
}

/// Commands that set a value; `None` for a system without a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Commands {
    /// Command in the shell of ESXi.
    pub esxi: Option<String>,
    /// Command on Linux.
    pub linux: Option<String>,
    /// Command for Sandstone.
    pub sandstone: Option<String>,
}

/// Names that commands contain. An unknown name is a word in capitals, which the user replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    /// Name of the unit: `naa.…`.
    pub device: &'a str,
    /// T10 vendor.
    pub vendor: &'a str,
    /// Product, which ESXi calls model.
    pub model: &'a str,
    /// Storage array type.
    pub satp: &'a str,
    /// The target's iSCSI name.
    pub target: &'a str,
}

impl<'a> Names<'a> {
    /// Names if nothing is known.
    pub const UNKNOWN: Names<'static> = Names {
        device: "NAA",
        vendor: "VENDOR",
        model: "MODEL",
        satp: "VMW_SATP_ALUA",
        target: "IQN",
    };

    /// Returns the names of the measured target.
    pub fn of(target: &'a Target) -> Self {
        let Some(unit) = &target.unit else {
            return Self::UNKNOWN;
        };
        let url = target.name.split_once("://").map_or("", |(_, rest)| rest);
        Self {
            device: &unit.name,
            vendor: &unit.vendor,
            model: &unit.product,
            satp: &unit.satp,
            target: url.split('/').nth(1).unwrap_or(Self::UNKNOWN.target),
        }
    }
}

/// Setting that can be varied.
pub trait Knob: Send + Sync {
    /// Returns the name on the command line and in results.
    fn name(&self) -> &str;

    /// Describes the effect in one line.
    fn about(&self) -> &str;

    /// Returns the values worth trying if the user names none. The others are compared with the
    /// first.
    fn values(&self) -> Vec<String>;

    /// Changes a setup.
    ///
    /// # Errors
    /// The value is unknown; the error lists the possible ones.
    fn apply(&self, value: &str, setup: &mut Setup) -> Result<(), String>;

    /// Returns the commands that set this value for this unit.
    fn commands(&self, value: &str, of: &Names<'_>) -> Commands;

    /// Returns the setting without which the knob has no effect.
    fn need(&self) -> Option<Need> {
        None
    }
}

/// Registry of knobs.
#[derive(Default)]
pub struct Registry {
    knobs: Vec<Box<dyn Knob>>,
}

impl Registry {
    /// Creates the registry of the knobs that every target has.
    pub fn of_every_target() -> Self {
        let mut registry = Self::default();
        for knob in SIMPLE {
            registry.add(Box::new(*knob));
        }
        registry
    }

    /// Adds a knob, or replaces the one of its name.
    pub fn add(&mut self, knob: Box<dyn Knob>) {
        self.knobs.retain(|other| other.name() != knob.name());
        self.knobs.push(knob);
    }

    /// Finds the knob of this name.
    pub fn find(&self, name: &str) -> Option<&dyn Knob> {
        self.iter()
            .find(|knob| knob.name().eq_ignore_ascii_case(name))
    }

    /// Iterates over all knobs.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Knob> {
        self.knobs.iter().map(|knob| &**knob)
    }
}

/// Knob of the workload.
#[derive(Clone, Copy)]
struct Simple {
    name: &'static str,
    about: &'static str,
    values: &'static [&'static str],
    apply: fn(&str, &mut Setup) -> Result<(), String>,
    commands: fn(&str, &Names<'_>) -> Commands,
}

impl Knob for Simple {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        self.about
    }

    fn values(&self) -> Vec<String> {
        self.values
            .iter()
            .map(|value| (*value).to_owned())
            .collect()
    }

    fn apply(&self, value: &str, setup: &mut Setup) -> Result<(), String> {
        (self.apply)(value, setup)
    }

    fn commands(&self, value: &str, of: &Names<'_>) -> Commands {
        (self.commands)(value, of)
    }
}

const SIMPLE: &[Simple] = &[
    Simple {
        name: "outstanding",
        about: "accesses in flight per worker",
        values: &["1", "4", "16", "32", "64", "128", "192"],
        apply: |value, setup| {
            let count = count(value)?;
            setup.parameters.outstanding = count;
            each_stream(setup, |stream| stream.outstanding = None);
            Ok(())
        },
        commands: |value, of| Commands {
            esxi: Some(format!(
                "esxcli storage core device set -d {} -O {value}",
                of.device
            )),
            linux: Some(format!(
                "echo {value} > /sys/block/DEVICE/device/queue_depth"
            )),
            sandstone: Some(format!("sandstone bench run TARGET --outstanding {value}")),
        },
    },
    Simple {
        name: "nr_requests",
        about: "requests of a Linux block device's queue: accesses in flight, as outstanding",
        values: &["128", "4"],
        apply: |value, setup| {
            let count = count(value)?;
            setup.parameters.outstanding = count;
            each_stream(setup, |stream| stream.outstanding = None);
            Ok(())
        },
        commands: |value, _| Commands {
            linux: Some(format!(
                "echo {value} > /sys/block/DEVICE/queue/nr_requests"
            )),
            ..Commands::default()
        },
    },
    Simple {
        name: "workers",
        about: "threads, each with its own part of the working set",
        values: &["1", "2", "4", "8"],
        apply: |value, setup| {
            let count = count(value)?;
            setup.parameters.workers = count;
            each_stream(setup, |stream| stream.workers = None);
            Ok(())
        },
        commands: |value, _| Commands {
            sandstone: Some(format!("sandstone bench run TARGET --workers {value}")),
            ..Commands::default()
        },
    },
    Simple {
        name: "block",
        about: "size of every access",
        values: &[
            "4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M",
        ],
        apply: |value, setup| {
            let size = size(value)?;
            each_stream(setup, |stream| {
                for line in &mut stream.specification.lines {
                    line.size = size;
                    line.align = size.min(4096);
                }
            });
            Ok(())
        },
        commands: |_, _| Commands::default(),
    },
    Simple {
        name: "max-io",
        about: "largest I/O; larger accesses are split (DiskMaxIOSize, max_sectors_kb)",
        values: &["none", "512K", "128K", "32K"],
        apply: |value, setup| {
            setup.parameters.max_io = match value {
                "none" => None,
                value => Some(size(value)?),
            };
            Ok(())
        },
        commands: |value, of| {
            size(value).map_or_else(|_| Commands::default(), |size| max_io(size, of))
        },
    },
    Simple {
        name: "max_sectors_kb",
        about: "largest I/O in KiB, as Linux and ESXi's DiskMaxIOSize count it: max-io",
        values: &["512", "128", "32"],
        apply: |value, setup| {
            setup.parameters.max_io = Some(kib(value)?);
            Ok(())
        },
        commands: |value, of| {
            kib(value).map_or_else(|_| Commands::default(), |size| max_io(size, of))
        },
    },
    Simple {
        name: "pattern",
        about: "pattern of the bytes that are written",
        values: &["random", "zeros", "compressible:50"],
        apply: |value, setup| {
            setup.parameters.data = value.parse()?;
            setup
                .profile
                .workloads
                .iter_mut()
                .for_each(|workload| workload.data = None);
            Ok(())
        },
        commands: |_, _| Commands::default(),
    },
    Simple {
        name: "profile",
        about: "workloads that are run",
        values: &["vmktree", "fileserver", "oltp"],
        apply: |value, setup| {
            setup.profile =
                profile::find(value).ok_or_else(|| format!("there is no profile {value}"))?;
            Ok(())
        },
        commands: |value, _| Commands {
            sandstone: Some(format!("sandstone bench run TARGET --profile {value}")),
            ..Commands::default()
        },
    },
];

fn each_stream(setup: &mut Setup, change: impl Fn(&mut crate::workload::Stream)) {
    for workload in &mut setup.profile.workloads {
        workload.streams.iter_mut().for_each(&change);
    }
}

/// Returns the commands for a largest I/O of this many bytes.
fn max_io(bytes: u32, of: &Names<'_>) -> Commands {
    let kib = bytes / 1024;
    Commands {
        esxi: Some(format!(
            "esxcli system settings advanced set -o /Disk/DiskMaxIOSize -i {kib}"
        )),
        linux: Some(format!(
            "echo {kib} > /sys/block/DEVICE/queue/max_sectors_kb"
        )),
        sandstone: Some(format!(
            "sandstone initiator device set -d {} --max-io {}",
            of.device,
            format_size(u64::from(bytes))
        )),
    }
}

/// Converts a number of KiB to bytes.
fn kib(value: &str) -> Result<u32, String> {
    let bytes = value
        .parse()
        .ok()
        .and_then(|kib: u32| kib.checked_mul(1024));
    let bytes = bytes.filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("{value:?} is not a number of KiB"))
}

fn count(value: &str) -> Result<u32, String> {
    match value.parse() {
        Ok(count @ 1..=65_536) => Ok(count),
        _ => Err(format!("{value:?} is not a number from 1 to 65536")),
    }
}

fn size(value: &str) -> Result<u32, String> {
    let bytes = parse_size(value)?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(format!("{value} is not the size of an access")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reached::Unit;

    fn setup() -> Setup {
        Setup {
            profile: profile::find("crystal").expect("built in"),
            parameters: Parameters::default(),
            target_options: BTreeMap::new(),
            write_cache: None,
            volume: BTreeMap::new(),
        }
    }

    #[test]
    fn every_value_of_every_knob_applies_and_nonsense_does_not() {
        for knob in Registry::of_every_target().iter() {
            assert!(knob.values().len() > 1 && !knob.about().is_empty());
            let mut results = Vec::new();
            for value in knob.values() {
                let mut setup = setup();
                knob.apply(&value, &mut setup).expect("its own value");
                assert!(
                    !results.contains(&setup),
                    "{} {value} changes nothing",
                    knob.name()
                );
                results.push(setup);
            }
            assert!(
                knob.apply("nonsense", &mut setup()).is_err(),
                "{}",
                knob.name()
            );
        }
    }

    #[test]
    fn a_setting_is_put_into_the_words_of_other_systems() {
        let registry = Registry::of_every_target();
        let max_io = registry
            .find("MAX-IO")
            .expect("there")
            .commands("32K", &Names::UNKNOWN);
        assert_eq!(
            max_io.linux.as_deref(),
            Some("echo 32 > /sys/block/DEVICE/queue/max_sectors_kb")
        );
        assert!(
            max_io
                .esxi
                .expect("there")
                .ends_with("/Disk/DiskMaxIOSize -i 32")
        );
        assert!(registry.find("colour").is_none());
    }

    #[test]
    fn commands_name_what_was_measured() {
        let mut target = Target {
            name: "iscsi://host:3260/iqn.a:b/0".to_owned(),
            ..Target::default()
        };
        assert_eq!(Names::of(&target), Names::UNKNOWN);
        target.unit = Some(Unit {
            name: "naa.6001405".to_owned(),
            vendor: "LIO-ORG".to_owned(),
            product: "block 1".to_owned(),
            satp: "VMW_SATP_ALUA".to_owned(),
            ..Unit::default()
        });
        let names = Names::of(&target);
        assert_eq!((names.device, names.vendor), ("naa.6001405", "LIO-ORG"));
        assert_eq!((names.model, names.target), ("block 1", "iqn.a:b"));
        let registry = Registry::of_every_target();
        let max_io = registry.find("max-io").expect("there");
        let typed = max_io.commands("32K", &names).sandstone.expect("there");
        assert_eq!(
            typed,
            "sandstone initiator device set -d naa.6001405 --max-io 32K"
        );
    }

    #[test]
    fn a_knob_stands_above_what_a_profile_says() {
        let mut setup = setup();
        let registry = Registry::of_every_target();
        registry
            .find("outstanding")
            .expect("there")
            .apply("7", &mut setup)
            .expect("a number");
        let streams = setup
            .profile
            .workloads
            .iter()
            .flat_map(|workload| &workload.streams);
        assert!(
            streams
                .into_iter()
                .all(|stream| stream.outstanding.is_none())
        );
        assert_eq!(setup.parameters.outstanding, 7);
    }
}
