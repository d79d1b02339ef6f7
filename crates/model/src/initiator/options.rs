//! The options of a URL, by name: all settings of sessions and devices that users vary to see their
//! effect. The benchmark sweeps over these names.

use std::ops::RangeInclusive;
use std::time::Duration;

use iscsi::chap::{ChapAlgorithm, ChapCredential};
use iscsi::negotiation::DigestPolicy;

use super::settings::{Bind, DeviceSettings, Route, TargetSettings};
use super::url::{LunUrl, bind, with_port};
use crate::name;
use crate::quantity::parse_size;
use multipath::{Psp, RoundRobin};

/// An option: its name, its values, and its effect.
#[derive(Clone, Copy, Debug)]
pub struct OptionHelp {
    /// Name of the option in a URL.
    pub name: &'static str,
    /// Values that the option accepts.
    pub takes: &'static str,
    /// Effect of the option.
    pub help: &'static str,
}

const fn option(name: &'static str, takes: &'static str, help: &'static str) -> OptionHelp {
    OptionHelp { name, takes, help }
}

/// Seconds that a command may take.
pub const COMMAND_TIMEOUT_S: RangeInclusive<u32> = 1..=3600;
/// Seconds that I/O may wait while all paths are down. The upper end is ESXi's, more than a day.
pub const APD_TIMEOUT_S: RangeInclusive<u32> = 0..=99_999;
/// Milliseconds to wait for a lost session's writes. The upper end is that of `APD_TIMEOUT_S`.
pub const FENCE_TIMEOUT_MS: RangeInclusive<u32> = 0..=99_999_000;
/// Milliseconds to wait for a lost session's writes after the session's end was confirmed.
pub const FENCE_SETTLE_MS: RangeInclusive<u32> = 0..=600_000;

/// All options, in the order of listings.
pub const OPTIONS: [OptionHelp; 27] = [
    option(
        "portal",
        "a host[:port]",
        "one more portal of the target; repeatable",
    ),
    option(
        "bind",
        "a source address or an interface",
        "source of the connections (port binding); repeatable",
    ),
    option(
        "sessions",
        "a number from 1 to 64",
        "sessions per portal and source",
    ),
    option(
        "initiator_name",
        "an iSCSI name",
        "name with which the initiator logs in",
    ),
    option(
        "target_user",
        "a name",
        "user as which the target must authenticate (mutual CHAP)",
    ),
    option(
        "target_password",
        "a secret",
        "secret with which the target must authenticate (mutual CHAP)",
    ),
    option(
        "chap_algorithms",
        "a list of sha3-256, sha256, sha1 and md5",
        "CHAP_A to offer, the preferred one first; no other algorithm is ever used",
    ),
    option("header_digest", "crc32c or none", "HeaderDigest"),
    option("data_digest", "crc32c or none", "DataDigest"),
    option("immediate_data", "yes or no", "ImmediateData"),
    option("initial_r2t", "yes or no", "InitialR2T"),
    option("first_burst", "a size from 512 to 16M", "FirstBurstLength"),
    option("max_burst", "a size from 512 to 16M", "MaxBurstLength"),
    option(
        "max_recv_segment",
        "a size from 512 to 16M",
        "MaxRecvDataSegmentLength",
    ),
    option(
        "max_outstanding_r2t",
        "a number from 1 to 65535",
        "MaxOutstandingR2T",
    ),
    option(
        "quick_ack",
        "yes or no",
        "acknowledge TCP segments without delay",
    ),
    option(
        "window",
        "a size from 4K to 1G",
        "TCP send and receive buffers",
    ),
    option(
        "queue_depth",
        "a number from 1 to 4096",
        "I/Os at the device at once (DQLEN)",
    ),
    option(
        "max_io",
        "a size from 4K to 8M, a multiple of 4K",
        "maximum bytes of one command (DiskMaxIOSize); longer requests are split",
    ),
    option(
        "psp",
        "fixed, mru, rr, least_queue or lowest_latency",
        "path selection",
    ),
    option(
        "iops",
        "a number of I/Os",
        "round robin: I/Os on a path before the next path",
    ),
    option(
        "bytes",
        "a number of bytes",
        "round robin: bytes on a path before the next path",
    ),
    option(
        "use_ano",
        "yes or no",
        "round robin: use active/non-optimized paths too",
    ),
    option(
        "fence_timeout",
        "milliseconds from 0 to 99999000, or never",
        "longest wait for the writes of a lost session",
    ),
    option(
        "fence_settle",
        "milliseconds from 0 to 600000",
        "wait for the writes of a lost session after the target confirmed its end (default: by vendor)",
    ),
    option(
        "command_timeout",
        "seconds from 1 to 3600",
        "time that a command may take before it is aborted and repeated",
    ),
    option(
        "apd_timeout",
        "seconds from 0 to 99999",
        "time that I/O waits while all paths are down",
    ),
];

/// Path selection and limits to start from, if round robin limits are given without a path
/// selection.
const ROUND_ROBIN: (Psp, RoundRobin) = (Psp::RoundRobin, RoundRobin::DEFAULT);

/// Options that were read so far, as settings of a target and a device.
#[derive(Debug)]
pub struct Options {
    target: TargetSettings,
    device: DeviceSettings,
    portals: Vec<String>,
    binds: Vec<Bind>,
    target_user: Option<String>,
    target_password: Option<String>,
    names: Vec<&'static str>,
}

impl Options {
    /// Starts from the given settings. Routes are added to those of `target`.
    pub fn new(target: TargetSettings, device: DeviceSettings) -> Self {
        let mut portals = Vec::new();
        let mut binds = Vec::new();
        for route in &target.routes {
            if !portals.contains(&route.portal) {
                portals.push(route.portal.clone());
            }
            binds.extend(route.bind.clone().filter(|bind| !binds.contains(bind)));
        }
        Self {
            target,
            device,
            portals,
            binds,
            target_user: None,
            target_password: None,
            names: Vec::new(),
        }
    }

    /// Sets one option. The error tells the values that the option accepts.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some(help) = OPTIONS.iter().find(|option| option.name == name) else {
            let names: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
            return Err(format!(
                "option {name} is unknown; the options are {}",
                names.join(", ")
            ));
        };
        match self.try_set(name, value) {
            Some(()) => {
                self.names.push(help.name);
                Ok(())
            }
            None => Err(format!("{name}={value}: give {}", help.takes)),
        }
    }

    fn try_set(&mut self, name: &str, value: &str) -> Option<()> {
        let session = &mut self.target.session;
        let limits = &mut session.limits;
        match name {
            "portal" => self.portals.push(with_port(value).ok()?),
            "bind" => self.binds.push(bind(value)),
            "sessions" => self.target.sessions = number(value, 1..=64)?,
            "initiator_name" => {
                name::foreign(value).ok()?;
                value.clone_into(&mut session.initiator_name);
            }
            "target_user" => self.target_user = Some(some(value)?),
            "target_password" => self.target_password = Some(some(value)?),
            "chap_algorithms" => session.chap_algorithms = ChapAlgorithm::named(value.split(','))?,
            "header_digest" => limits.header_digest = digest(value)?,
            "data_digest" => limits.data_digest = digest(value)?,
            "immediate_data" => limits.immediate_data = yes(value)?,
            "initial_r2t" => limits.initial_r2t = yes(value)?,
            "first_burst" => limits.first_burst_length = size(value, 512, 0xff_ffff)?,
            "max_burst" => limits.max_burst_length = size(value, 512, 0xff_ffff)?,
            "max_recv_segment" => {
                limits.max_recv_data_segment_length = size(value, 512, 0xff_ffff)?
            }
            "max_outstanding_r2t" => limits.max_outstanding_r2t = number(value, 1..=65_535)? as u16,
            "command_timeout" => {
                let seconds = number(value, COMMAND_TIMEOUT_S)?;
                session.command_timeout = Duration::from_secs(u64::from(seconds));
            }
            "quick_ack" => session.tcp.quick_ack = yes(value)?,
            "window" => session.tcp.window = Some(size(value, 4096, 1 << 30)?),
            _ => return self.try_set_device(name, value),
        }
        Some(())
    }

    fn try_set_device(&mut self, name: &str, value: &str) -> Option<()> {
        let device = &mut self.device;
        match name {
            "queue_depth" => device.base.queue_depth = number(value, 1..=4096)?,
            "max_io" => {
                device.max_io = Some(size(value, 4096, 8 << 20).filter(|size| size % 4096 == 0)?)
            }
            "psp" => device.psp.get_or_insert(ROUND_ROBIN).0 = Psp::from_name(value)?,
            "iops" | "bytes" | "use_ano" => {
                let value = match name {
                    "use_ano" => u8::from(yes(value)?).to_string(),
                    _ => parse_size(value).ok()?.to_string(),
                };
                let option = format!(
                    "{}={value}",
                    if name == "use_ano" { "useANO" } else { name }
                );
                let (_, round_robin) = device.psp.get_or_insert(ROUND_ROBIN);
                *round_robin = round_robin.with_options(&option).ok()?;
            }
            "fence_timeout" => {
                device.base.fence_timeout_us = match value {
                    "never" => None,
                    _ => Some(u64::from(number(value, FENCE_TIMEOUT_MS)?) * 1000),
                };
            }
            "fence_settle" => {
                let ms = number(value, FENCE_SETTLE_MS)?;
                device.fence_settle_us = Some(u64::from(ms) * 1000);
            }
            "apd_timeout" => {
                device.base.apd_timeout_us = u64::from(number(value, APD_TIMEOUT_S)?) * 1_000_000
            }
            _ => return None,
        }
        Some(())
    }

    /// Joins the credentials of the target, and returns the URL with all options.
    ///
    /// # Errors
    /// A user comes without a password, or a password without a user.
    pub fn finish(mut self) -> Result<LunUrl, String> {
        match (self.target_user, self.target_password) {
            (None, None) => {}
            (Some(name), Some(secret)) if self.target.session.credential.is_some() => {
                let secret = secret.into_bytes();
                self.target.session.target_credential = Some(ChapCredential { name, secret });
            }
            _ => {
                return Err(
                    "mutual CHAP needs user%secret@, target_user and target_password".to_owned(),
                );
            }
        }
        let binds: Vec<Option<Bind>> = match self.binds.is_empty() {
            true => vec![None],
            false => self.binds.into_iter().map(Some).collect(),
        };
        let routes = self.portals.iter().flat_map(|portal| {
            binds.iter().map(|bind| Route {
                portal: portal.clone(),
                bind: bind.clone(),
            })
        });
        self.target.routes = routes.collect();
        Ok(LunUrl {
            target: self.target,
            device: self.device,
            options: self.names,
        })
    }
}

fn number(value: &str, range: RangeInclusive<u32>) -> Option<u32> {
    value.parse().ok().filter(|number| range.contains(number))
}

fn size(value: &str, least: u32, most: u32) -> Option<u32> {
    let size = parse_size(value).ok()?.min(u64::from(u32::MAX)) as u32;
    // 16M is one byte more than the field holds, but users often type it.
    let size = if size == most + 1 { most } else { size };
    (least..=most).contains(&size).then_some(size)
}

fn yes(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "1" | "true" | "on" => Some(true),
        "no" | "0" | "false" | "off" => Some(false),
        _ => None,
    }
}

fn some(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn digest(value: &str) -> Option<DigestPolicy> {
    match value.to_ascii_lowercase().as_str() {
        "crc32c" => Some(DigestPolicy::Require),
        "none" => Some(DigestPolicy::Forbid),
        _ => None,
    }
}
