//! Administrators' view of the fabric.

use std::time::Duration;

use iscsi::initiator::LoggedIn;
use scsi::application_client::report_luns;

use super::super::nexus::{Nexus, NexusState};
use super::{Device, Fabric};
use model::figures::initiator::{DeviceFigures, PathFigures};
use model::initiator::settings::SessionSettings;
use model::initiator::view::{
    InitiatorDevice, InitiatorPath, InitiatorSession, SessionState, SessionTimes,
};
use multipath::{Link, PathId};

impl Fabric {
    /// Returns the sessions, in order of target and number.
    pub(in super::super) fn sessions(&self) -> Vec<InitiatorSession> {
        let there = self.nexuses.iter().filter(|nexus| !nexus.is_free());
        let mut sessions: Vec<_> = there.map(|nexus| self.session(nexus)).collect();
        sessions.sort_by(|a, b| (&a.target, a.channel).cmp(&(&b.target, b.channel)));
        sessions
    }

    fn session(&self, nexus: &Nexus) -> InitiatorSession {
        let state = match &nexus.state {
            _ if nexus.parting_until_us.is_some() => SessionState::LoggingOut,
            NexusState::Up { .. } if nexus.is_suspect => SessionState::Silent,
            NexusState::Up { .. } => SessionState::LoggedIn,
            NexusState::Coming { .. } => SessionState::Connecting,
            NexusState::Down { .. } => SessionState::Down,
            NexusState::Leaving { .. } | NexusState::Gone => SessionState::LoggingOut,
        };
        let (source, in_flight) = match &nexus.state {
            NexusState::Up { link } => (link.local(), link.outstanding()),
            _ => (None, 0),
        };
        let retry_ms = match &nexus.state {
            NexusState::Down { retry_us } => Some(retry_us.saturating_sub(self.now_us()) / 1000),
            _ => None,
        };
        let login = nexus.logged_in.as_deref().filter(|_| nexus.is_up());
        let mut luns: Vec<u16> = nexus
            .paths
            .iter()
            .filter_map(|path| report_luns::number(path.lun))
            .collect();
        luns.sort_unstable();
        InitiatorSession {
            target: self.targets[nexus.target].settings.name.clone(),
            channel: nexus.channel,
            portal: nexus.portal.to_string(),
            redirected_to: nexus.moved_to.map(|address| address.to_string()),
            source: source.map(|address| address.to_string()),
            bind: nexus.bind.as_ref().map(ToString::to_string),
            isid: nexus.isid.to_string(),
            tsih: login.map(|login| login.tsih),
            portal_group: login.and_then(|login| login.portal_group_tag),
            state,
            logins: nexus.logins,
            failures: nexus.failures,
            last_error: nexus.last_error.as_ref().map(ToString::to_string),
            retry_ms,
            header_digest: login.is_some_and(|login| login.connection.header_digest),
            data_digest: login.is_some_and(|login| login.connection.data_digest),
            parameters: login.map(parameters).unwrap_or_default(),
            times: Some(times(&self.targets[nexus.target].settings.session)),
            is_scanned: nexus.has_scanned,
            luns,
            in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
        }
    }

    /// Returns the devices that have paths, in order of their names.
    pub(in super::super) fn devices(&self) -> Vec<InitiatorDevice> {
        let mut devices: Vec<_> = (0..self.devices.len())
            .map(|at| self.device_view(at))
            .filter(|device| !device.ways.is_empty())
            .collect();
        devices.sort_by(|a, b| a.nmp.name.cmp(&b.nmp.name));
        devices
    }

    /// Returns the figures of the devices that have paths, in order of their names.
    pub(in super::super) fn figures(&self) -> Vec<DeviceFigures> {
        let devices = self.devices.iter().zip(1..);
        let figures = devices.map(|(device, key)| self.device_figures(device, key));
        let mut figures: Vec<_> = figures.filter(|device| !device.paths.is_empty()).collect();
        figures.sort_by(|a, b| a.name.cmp(&b.name));
        figures
    }

    fn device_figures(&self, device: &Device, key: u64) -> DeviceFigures {
        let queue = device.policy.queue_snapshot();
        let paths = (0..).map(PathId).zip(&device.paths);
        let paths = paths.filter_map(|(id, way)| {
            let (sums, nexus) = (device.policy.path_sums(id)?, &self.nexuses[way.nexus]);
            let (runtime_name, active, queue_depth) = device.policy.path_load(id)?;
            Some(PathFigures {
                runtime_name: runtime_name.to_owned(),
                target: self.targets[nexus.target].settings.name.clone(),
                portal: nexus.portal.to_string(),
                queue_depth,
                active,
                reads: sums.reads,
                writes: sums.writes,
                others: sums.others,
            })
        });
        DeviceFigures {
            name: device.policy.name().to_owned(),
            key,
            queue_depth: queue.dqlen,
            active: queue.actv,
            queued: queue.qued,
            sums: device.policy.counters(),
            paths: paths.collect(),
        }
    }

    /// Returns the view of one device.
    pub(in super::super) fn device_view(&self, at: usize) -> InitiatorDevice {
        let device = &self.devices[at];
        let inquiry = &device.portrait.inquiry;
        let settings = device.policy.settings();
        InitiatorDevice {
            nmp: device.policy.snapshot(),
            ways: self.ways(device),
            vendor: inquiry.vendor.clone(),
            model: inquiry.model.clone(),
            revision: inquiry.revision.clone(),
            serial: device.portrait.serial.clone(),
            size: device.geometry.map_or(0, |geometry| geometry.len),
            block_size: device.limits.block,
            max_io: device.limits.max_io,
            apd_timeout_s: settings.apd_timeout_us / 1_000_000,
            fence_timeout_ms: settings.fence_timeout_us.map(|us| us / 1000),
            fence_settle_ms: settings.fence_settle_us / 1000,
            fault: self.device_fault(at),
        }
    }

    fn ways(&self, device: &Device) -> Vec<InitiatorPath> {
        let paths = (0..).map(PathId).zip(&device.paths);
        let known = paths.filter_map(|(id, way)| Some((device.policy.link(id)?, way)));
        known
            .map(|(link, way)| {
                let nexus = &self.nexuses[way.nexus];
                let source = match &nexus.state {
                    NexusState::Up { link } => link.local(),
                    _ => None,
                };
                InitiatorPath {
                    target: self.targets[nexus.target].settings.name.clone(),
                    portal: nexus.portal.to_string(),
                    source: source.map(|address| address.to_string()),
                    lun: report_luns::number(way.lun),
                    reason: reason(link, nexus),
                }
            })
            .collect()
    }

    /// Returns the reason why a device cannot be used now.
    pub(in super::super) fn device_fault(&self, at: usize) -> Option<String> {
        let device = &self.devices[at];
        let ways = self.ways(device);
        if ways.is_empty() {
            return Some("no session leads to it any longer".to_owned());
        }
        if ways.iter().any(|way| way.reason.is_none()) {
            return device
                .geometry
                .is_none()
                .then(|| "it has not reported its size".to_owned());
        }
        let reasons: Vec<_> = ways
            .iter()
            .filter_map(|way| Some(format!("{}: {}", way.portal, way.reason.as_ref()?)))
            .collect();
        Some(format!("all paths are down: {}", reasons.join("; ")))
    }

    /// Returns the device of this name, if its size is known.
    pub(in super::super) fn device_called(&self, name: &str) -> Option<usize> {
        let mut devices = self.devices.iter();
        devices.position(|device| device.policy.name() == name && device.geometry.is_some())
    }

    /// Returns the names of the devices to which no other target leads.
    pub(in super::super) fn devices_only_behind(&self, targets: &[usize]) -> Vec<String> {
        let led_to_by = |at: usize, inside: bool| {
            self.nexuses.iter().any(|nexus| {
                targets.contains(&nexus.target) == inside
                    && nexus.paths.iter().any(|path| path.device == at)
            })
        };
        (0..self.devices.len())
            .filter(|at| led_to_by(*at, true) && !led_to_by(*at, false))
            .map(|at| self.devices[at].policy.name().to_owned())
            .collect()
    }
}

/// Returns the reason why a path is dead.
fn reason(link: Link, nexus: &Nexus) -> Option<String> {
    match link {
        Link::Up | Link::Suspect => None,
        Link::UnitGone => Some("the target no longer has this unit".to_owned()),
        Link::Dead => Some(match (&nexus.last_error, nexus.is_up()) {
            (Some(error), false) => error.to_string(),
            (None, false) => "no session yet".to_owned(),
            (_, true) => "the session is being scanned".to_owned(),
        }),
    }
}

fn times(session: &SessionSettings) -> SessionTimes {
    let ms = |time: Duration| time.as_millis() as u64;
    let alive = &session.keep_alive;
    SessionTimes {
        ping_after_ms: ms(alive.quiet),
        idle_ping_after_ms: ms(alive.idle),
        dead_after_ms: ms(alive.timeout),
        dead_after_alone_ms: ms(alive.patience),
        retry_first_ms: ms(session.back_off.first),
        retry_most_ms: ms(session.back_off.most),
        login_timeout_s: session.login_timeout.as_secs(),
        command_timeout_s: session.command_timeout.as_secs(),
    }
}

/// Returns the keys of a login in the order of RFC 7143 §13.
fn parameters(login: &LoggedIn) -> Vec<(String, String)> {
    let yes = |flag: bool| if flag { "Yes" } else { "No" }.to_owned();
    let digest = |flag: bool| if flag { "CRC32C" } else { "None" }.to_owned();
    let (session, connection) = (&login.session, &login.connection);
    let all = [
        ("HeaderDigest", digest(connection.header_digest)),
        ("DataDigest", digest(connection.data_digest)),
        ("InitialR2T", yes(session.initial_r2t)),
        ("ImmediateData", yes(session.immediate_data)),
        (
            "MaxRecvDataSegmentLength",
            connection.our_max_recv_data_segment_length.to_string(),
        ),
        (
            "MaxXmitDataSegmentLength",
            connection.peer_max_recv_data_segment_length.to_string(),
        ),
        ("MaxBurstLength", session.max_burst_length.to_string()),
        ("FirstBurstLength", session.first_burst_length.to_string()),
        ("MaxOutstandingR2T", session.max_outstanding_r2t.to_string()),
        ("DefaultTime2Wait", session.default_time2wait_s.to_string()),
        (
            "DefaultTime2Retain",
            session.default_time2retain_s.to_string(),
        ),
        (
            "ErrorRecoveryLevel",
            session.error_recovery_level.to_string(),
        ),
    ];
    let named = all
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    named.collect()
}
