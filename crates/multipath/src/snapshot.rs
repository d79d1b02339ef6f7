//! An administrator's view of a device. It has the words of `esxcli storage nmp device list`, `path
//! list` and `psp roundrobin deviceconfig get`, and the queue in the columns of esxtop.

use scsi::application_client::target_port_groups::AccessState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::device::Device;
use super::path::{Link, Path, PathId};
use super::path_selection::{Psp, each, get};
use super::queue_load;
use super::round_robin::{LimitType, RoundRobin};
use super::satp::Satp;

/// A device at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeviceSnapshot {
    /// Name of the device: `naa.…`.
    pub name: String,
    /// "Device Display Name": `SUN iSCSI Disk (naa.…)`.
    pub display_name: String,
    /// "Storage Array Type".
    pub satp: Satp,
    /// "Storage Array Type Device Config".
    pub satp_device_config: String,
    /// "Path Selection Policy".
    pub psp: Psp,
    /// "Path Selection Policy Device Config".
    pub psp_device_config: String,
    /// "Working Paths": runtime names of the paths that carry I/O now.
    pub working_paths: Vec<String>,
    /// Limits of VMW_PSP_RR.
    pub round_robin: RoundRobin,
    /// All paths, in order of their numbers.
    pub paths: Vec<PathSnapshot>,
    /// Queue of the device.
    pub queue: QueueSnapshot,
}

/// A path at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PathSnapshot {
    /// Long name of the path: `iqn.…-00023d000001,iqn.…,t,1-naa.…`.
    pub uid: String,
    /// "Runtime Name".
    pub runtime_name: String,
    /// "Group State": `active`, `active unoptimized`, `standby`, `unavailable`, `offline`,
    /// `transitioning` or `dead`; or `suspect` for a silent path.
    pub group_state: String,
    /// "Storage Array Type Path Config".
    pub satp_path_config: String,
    /// "Path Selection Policy Path Config".
    pub psp_path_config: String,
    /// Number of I/Os on the path.
    pub active: u32,
    /// Most I/Os that the path may have. The number is below the queue depth after TASK SET FULL or
    /// BUSY.
    pub window: u32,
    /// Moving average of the latency in microseconds; 0 if nothing was measured.
    pub latency_us: f32,
}

/// Queue of a device, in esxtop's terms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueSnapshot {
    /// DQLEN: the queue depth.
    pub dqlen: u32,
    /// ACTV: I/Os at the device.
    pub actv: u32,
    /// QUED: I/Os that wait, for any reason.
    pub qued: u32,
    /// %USD: ACTV of DQLEN, in percent.
    pub used_percent: f64,
    /// LOAD: ACTV and QUED over DQLEN.
    pub load: f64,
    /// Number of waiting I/Os that wait for the end of a lost session's writes.
    pub held: u32,
    /// Writes of lost sessions that may still land.
    pub ghosts: u32,
}

impl DeviceSnapshot {
    /// Returns the lines of `psp roundrobin deviceconfig get`, as names and values.
    pub fn round_robin_lines(&self) -> [(&'static str, String); 5] {
        let limits = &self.round_robin;
        [
            ("Byte Limit", limits.bytes.to_string()),
            ("Device", self.name.clone()),
            ("IOOperation Limit", limits.iops.to_string()),
            ("Limit Type", limits.limit_type.name().to_owned()),
            ("Use Active Unoptimized Paths", limits.use_ano.to_string()),
        ]
    }
}

impl Device {
    /// Returns the present state of the queue.
    pub fn queue_snapshot(&self) -> QueueSnapshot {
        let waiting = self.queue.len() + self.held.len() + self.delayed.len();
        let (dqlen, actv) = (self.settings.depth(), self.in_flight);
        let qued = u32::try_from(waiting).unwrap_or(u32::MAX);
        QueueSnapshot {
            dqlen,
            actv,
            qued,
            used_percent: queue_load::used_percent(f64::from(actv), dqlen),
            load: queue_load::load(f64::from(actv), f64::from(qued), dqlen),
            held: u32::try_from(self.held.len()).unwrap_or(u32::MAX),
            ghosts: u32::try_from(self.ghosts.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the running sums.
    pub fn counters(&self) -> super::Counters {
        self.counters
    }

    /// Returns the sums of the I/Os that succeeded on a path; `None` for a number without a path.
    pub fn path_sums(&self, id: PathId) -> Option<super::Counters> {
        get(&self.paths, id).map(|path| path.counters)
    }

    /// Returns the runtime name of a path, the number of I/Os on it, and the most that it may have.
    pub fn path_load(&self, id: PathId) -> Option<(&str, u32, u32)> {
        let path = get(&self.paths, id)?;
        Some((&path.identity.runtime_name, path.in_flight, path.window))
    }

    /// Returns the state of a path's session and unit; `None` for a number without a path.
    pub fn link(&self, id: PathId) -> Option<Link> {
        get(&self.paths, id).map(|path| path.link)
    }

    /// Returns the present state of the device.
    pub fn snapshot(&self) -> DeviceSnapshot {
        let vendor = each(&self.paths)
            .map(|(_, path)| path.identity.vendor.as_str())
            .find(|vendor| !vendor.is_empty());
        DeviceSnapshot {
            name: self.name.clone(),
            display_name: format!("{} iSCSI Disk ({})", vendor.unwrap_or("Unknown"), self.name),
            satp: self.settings.satp,
            satp_device_config: self.satp_device_config(),
            psp: self.settings.psp,
            psp_device_config: self.psp_device_config(),
            working_paths: self.working_paths(),
            round_robin: self.settings.round_robin,
            paths: each(&self.paths)
                .map(|(id, path)| self.path_snapshot(id, path))
                .collect(),
            queue: self.queue_snapshot(),
        }
    }

    fn path_snapshot(&self, id: PathId, path: &Path) -> PathSnapshot {
        let identity = &path.identity;
        PathSnapshot {
            uid: identity.uid(&self.name),
            runtime_name: identity.runtime_name.clone(),
            group_state: group_state(path).to_owned(),
            satp_path_config: if self.settings.satp.is_alua() {
                format!(
                    "{{TPG_id={},TPG_state={},RTP_id={},RTP_health={}}}",
                    identity.target_port_group,
                    abbreviation(path.access),
                    identity.relative_port,
                    if path.link == Link::Up { "UP" } else { "DOWN" },
                )
            } else {
                let satp = self.settings.satp.name();
                format!("SATP {satp} does not support path configuration.")
            },
            psp_path_config: self.psp_path_config(id),
            active: path.in_flight,
            window: path.window,
            latency_us: path.latency_us,
        }
    }

    fn satp_device_config(&self) -> String {
        let satp = self.settings.satp;
        if !satp.is_alua() {
            return format!(
                "SATP {} does not support device configuration.",
                satp.name()
            );
        }
        let tpgs = each(&self.paths).fold(0, |tpgs, (_, path)| tpgs | path.identity.tpgs);
        let on = |flag: bool| if flag { "on" } else { "off" };
        let mut groups: Vec<_> = each(&self.paths)
            .map(|(_, path)| (path.identity.target_port_group, abbreviation(path.access)))
            .collect();
        groups.sort_unstable();
        groups.dedup();
        let groups: String = groups
            .iter()
            .map(|(id, state)| format!("{{TPG_id={id},TPG_state={state}}}"))
            .collect();
        format!(
            "{{implicit_support={};explicit_support={}; explicit_allow={};alua_followover=on; \
             action_OnRetryErrors=off; {groups}}}",
            on(tpgs & 0b01 != 0),
            on(tpgs & 0b10 != 0),
            on(self.settings.explicit_allow),
        )
    }

    fn psp_device_config(&self) -> String {
        let current = self.runtime_name(self.selection.current());
        match self.settings.psp {
            Psp::Mru => format!("Current Path={current}"),
            Psp::Fixed => {
                let preferred = match &self.settings.preferred_path {
                    Some(name) => name,
                    None => {
                        self.runtime_name(self.selection.preferred(&self.paths, &self.settings))
                    }
                };
                format!("{{preferred={preferred};current={current}}}")
            }
            Psp::RoundRobin => {
                let limits = &self.settings.round_robin;
                format!(
                    "{{policy={},iops={},bytes={},useANO={}; lastPathIndex={}: \
                     NumIOsPending={},numBytesPending={}}}",
                    match limits.limit_type {
                        LimitType::Default => "rr",
                        LimitType::Iops => "iops",
                        LimitType::Bytes => "bytes",
                    },
                    limits.iops,
                    limits.bytes,
                    u8::from(limits.use_ano),
                    self.selection.index(),
                    self.selection.ios_here,
                    self.selection.bytes_here,
                )
            }
            Psp::LeastQueue => "{policy=least-queue}".to_owned(),
            Psp::LowestLatency => {
                let paths: Vec<_> = each(&self.paths)
                    .map(|(_, path)| {
                        format!("{}={:.0}us", path.identity.runtime_name, path.latency_us)
                    })
                    .collect();
                format!("{{policy=lowest-latency; {}}}", paths.join(","))
            }
        }
    }

    fn psp_path_config(&self, id: PathId) -> String {
        let is_current = self.selection.current() == Some(id);
        let yes = |flag: bool| if flag { "yes" } else { "no" };
        match self.settings.psp {
            Psp::Mru if is_current => "{current path; rank: 0}".to_owned(),
            Psp::Mru => "{non-current path; rank: 0}".to_owned(),
            Psp::Fixed => {
                let preferred = self.selection.preferred(&self.paths, &self.settings);
                format!(
                    "{{current: {}; preferred: {}}}",
                    yes(is_current),
                    yes(preferred == Some(id))
                )
            }
            psp => format!("PSP {} does not support path configuration.", psp.name()),
        }
    }

    fn working_paths(&self) -> Vec<String> {
        let candidates = self.selection.candidates();
        let all = match self.settings.psp {
            Psp::Mru | Psp::Fixed => candidates
                .get(self.selection.index())
                .map(std::slice::from_ref)
                .unwrap_or_default(),
            Psp::RoundRobin | Psp::LeastQueue | Psp::LowestLatency => candidates,
        };
        all.iter()
            .map(|id| self.runtime_name(Some(*id)).to_owned())
            .collect()
    }

    fn runtime_name(&self, id: Option<PathId>) -> &str {
        id.and_then(|id| get(&self.paths, id))
            .map_or("none", |path| &path.identity.runtime_name)
    }
}

fn group_state(path: &Path) -> &'static str {
    match (path.link, path.access) {
        (Link::Dead | Link::UnitGone, _) => "dead",
        (Link::Suspect, _) => "suspect",
        (Link::Up, AccessState::ActiveOptimized) => "active",
        (Link::Up, AccessState::ActiveNonOptimized) => "active unoptimized",
        (Link::Up, AccessState::Standby) => "standby",
        (Link::Up, AccessState::Unavailable) => "unavailable",
        (Link::Up, AccessState::Offline) => "offline",
        (Link::Up, AccessState::Transitioning) => "transitioning",
    }
}

/// Returns the abbreviation in the device config of VMW_SATP_ALUA.
fn abbreviation(state: AccessState) -> &'static str {
    match state {
        AccessState::ActiveOptimized => "AO",
        AccessState::ActiveNonOptimized => "ANO",
        AccessState::Standby => "STBY",
        AccessState::Unavailable => "UNAVAIL",
        AccessState::Offline => "OFFLINE",
        AccessState::Transitioning => "TRANS",
    }
}
