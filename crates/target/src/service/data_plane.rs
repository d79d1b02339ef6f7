//! The questions that the control plane asks the data plane, and their answers.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use scsi::UnitAttention;

use super::Service;
use super::change::host_refused;
use crate::gateway;
use crate::message::Message;
use crate::session::registry::{RegisteredSession, SessionName};
use block::Condition;
use config::access::HostIndex;
use model::config::{BackendSpec, Config};
use model::data_plane::{
    ApplyError, DataPlane, Login, PortalStatus, PortalTcp, SessionInfo, UnitStatus,
};
use model::figures::{self, CommandsRead, Figures, SessionFigures, UnitFigures};
use model::hindrance::{AluaChoice, Clearing, Hindrance};
use model::initiator::view::{InitiatorDevice, InitiatorSession};
use model::volume_id::Volumes;
use model::{Error, ErrorKind};
use unit::hindrances;
use unit::transition;
use unit::unit::Unit;

/// Units whose devices are asked for their condition before the first answer is waited for. A
/// pool's thread answers all of them at once, and requests wait behind them.
const ASKED_TOGETHER: usize = 128;

impl DataPlane for Service {
    fn try_again(&self) {
        Self::try_again(self);
    }

    fn apply(&self, config: Arc<Config>) -> Result<(), ApplyError> {
        self.change_to(config)
    }

    fn restore(&self, config: Arc<Config>) -> Result<(), ApplyError> {
        self.host.apply(&config.initiator).map_err(host_refused)?;
        self.start_serving(config);
        Ok(())
    }

    fn initiator_sessions(&self) -> Vec<InitiatorSession> {
        self.host.sessions()
    }

    fn initiator_devices(&self) -> Vec<InitiatorDevice> {
        self.host.devices()
    }

    fn initiator_rescan(&self, iqn: Option<&str>) -> bool {
        self.host.rescan(iqn)
    }

    fn physical_block_size(&self, backend: &BackendSpec) -> Option<u32> {
        let backend = self.opener.backends.of(backend);
        backend.physical_block_size(gateway::PATIENCE)
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.shared
            .send_to_all(|| Message::Describe(sender.clone()));
        drop(sender);
        let mut sessions = Vec::new();
        // A loop that has ended does not answer.
        for _ in 0..self.shared.loops() {
            match receiver.recv_timeout(Duration::from_secs(2)) {
                Ok(some) => sessions.extend(some),
                Err(_) => break,
            }
        }
        sessions.sort_by_key(|session| session.tsih);
        sessions
    }

    fn count_sessions(&self) -> usize {
        self.shared.registry().len()
    }

    fn logins(&self) -> Vec<Login> {
        let sessions = self.shared.registry().normal_sessions().into_iter();
        let login = |(name, session): (SessionName, Arc<RegisteredSession>)| Login {
            tsih: session.tsih,
            initiator: name.initiator.to_string(),
            target: self.shared.target_name(&name.target),
        };
        let mut logins: Vec<Login> = sessions.map(login).collect();
        logins.sort_by_key(|login| login.tsih);
        logins
    }

    fn portal_tcp(&self) -> Vec<PortalTcp> {
        self.shared.portal_counts.all()
    }

    fn kill_session(&self, tsih: u16) -> bool {
        let Some(session) = self.shared.registry().by_tsih(tsih) else {
            return false;
        };
        self.shared.send(
            session.loop_index,
            Message::Dismiss(session.key, "killed by the administrator"),
        );
        true
    }

    fn ask_to_log_out(&self, tsih: u16, within_s: u16) -> bool {
        let Some(session) = self.shared.registry().by_tsih(tsih) else {
            return false;
        };
        let message = Message::AskToLogOut(session.key, within_s);
        self.shared.send(session.loop_index, message);
        true
    }

    fn units(&self) -> Vec<UnitStatus> {
        // Devices may take their time, and holding the lock meanwhile would keep others waiting.
        let current = self.lock().clone();
        let faults = current.faults.iter();
        let faulty = faults.map(|(name, error)| faulty_status(name, error));
        let specs = current.config.units_by_name();
        let mut units: Vec<UnitStatus> = faulty.collect();
        let served: Vec<&Arc<Unit>> = current.units.values().collect();
        for together in served.chunks(ASKED_TOGETHER) {
            let asked: Vec<_> = together
                .iter()
                .map(|unit| (unit, unit.device.ask_condition()))
                .collect();
            units.extend(asked.into_iter().map(|(unit, condition)| {
                let spec = specs.get(unit.name.as_str());
                unit_status(unit, &condition(), spec.is_some_and(|spec| spec.offline))
            }));
        }
        units.sort_by(|a, b| a.name.cmp(&b.name));
        units
    }

    fn figures(&self, read: &CommandsRead) -> Figures {
        let units: Vec<Arc<Unit>> = self.lock().units.values().cloned().collect();
        Figures {
            units: units.iter().map(|unit| unit_figures(unit, read)).collect(),
            sessions: self.session_figures(),
            port_groups: self.shared.port_group_figures(),
            devices: self.host.figures(),
        }
    }

    fn notices(&self) -> Vec<String> {
        let notices = self.opener.notices.lock();
        notices.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn unit(&self, name: &str) -> Option<UnitStatus> {
        let current = self.lock().clone();
        if let Some(error) = current.faults.get(name) {
            return Some(faulty_status(name, error));
        }
        let unit = current.units.get(name)?;
        let spec = current.config.unit(name);
        let condition = unit.device.ask_condition()();
        let is_offline = spec.is_some_and(|spec| spec.offline);
        Some(unit_status(unit, &condition, is_offline))
    }

    fn alua_choices(&self) -> Vec<AluaChoice> {
        let units: Vec<Arc<Unit>> = self.lock().units.values().cloned().collect();
        let choices = units.iter().map(|unit| hindrances::alua_choices(unit));
        choices.flatten().collect()
    }

    fn end_alua_choices(&self, group: u16) -> Result<(), Error> {
        let _changing = self.one_change_at_a_time();
        let units: Vec<Arc<Unit>> = self.lock().units.values().cloned().collect();
        let ended = units
            .iter()
            .map(|unit| hindrances::end_alua_choices(unit, group));
        // A unit whose state cannot be stored keeps no other from ending.
        ended.collect::<Vec<_>>().into_iter().collect()
    }

    fn clear(&self, unit: &str, what: Clearing) -> Result<Vec<Hindrance>, Error> {
        // A unit that another one replaces just now would end the state too late: it would stay in
        // force in the other unit.
        let _changing = self.one_change_at_a_time();
        let served = self.lock().units.get(unit).cloned();
        let not_served = || {
            Error::new(
                ErrorKind::Refused,
                format!("lu {unit} is not served now"),
                format!("sandstone lu list {unit} tells why, and what to do"),
            )
        };
        hindrances::clear(&*served.ok_or_else(not_served)?, what)
    }

    fn portals(&self) -> Vec<PortalStatus> {
        self.lock().portals()
    }

    fn volumes(&self) -> &dyn Volumes {
        &*self.opener.backends.pools
    }

    fn is_at_rest(&self, units: &[String]) -> bool {
        let units = self.served(units);
        units.is_empty() || transition::outlast(&*self.shared, &units)
    }

    fn data_was_replaced(&self, units: &[String]) {
        for unit in self.served(units) {
            unit.logical.note_loss();
            unit.logical
                .raise(UnitAttention::INQUIRY_DATA_HAS_CHANGED, None);
            unit.logical
                .raise(UnitAttention::CAPACITY_DATA_HAS_CHANGED, None);
        }
    }

    fn shutdown(&self) {
        self.isns.stop();
        self.space_monitor.stop();
        self.second_try.stop();
        self.acceptor.stop();
        self.shared.send_to_all(|| Message::Stop);
    }
}

impl Service {
    fn session_figures(&self) -> Vec<SessionFigures> {
        let sessions = self.shared.registry().normal_sessions();
        let config = Arc::clone(&self.lock().config);
        let index = HostIndex::new(&config);
        let host = |initiator: &str| {
            let hosts = index.hosts(initiator);
            hosts.first().map(|host| host.name.clone())
        };
        let figures = sessions.into_iter().map(|(name, session)| SessionFigures {
            host: host(&name.initiator),
            tsih: session.tsih,
            number: session.key.0,
            initiator: name.initiator.to_string(),
            target: self.shared.target_name(&name.target),
            portal_group: name.portal_group_tag,
            queue_depth: session.queue_depth(),
            totals: session.tally.totals(),
            luns: session.lun_figures(),
        });
        figures.collect()
    }

    /// Returns those of these units that are served.
    fn served(&self, names: &[String]) -> Vec<Arc<Unit>> {
        let current = self.lock();
        let units = names.iter().filter_map(|name| current.units.get(name));
        units.cloned().collect()
    }
}

fn unit_figures(unit: &Unit, read: &CommandsRead) -> UnitFigures {
    let (number, totals) = (unit.tally.number(), unit.tally.totals());
    let rests = read.get(&number) == Some(&figures::commands(&totals));
    UnitFigures {
        name: unit.name.clone(),
        number,
        naa: hex(&unit.logical.config().naa),
        under_way: unit.under_way(),
        totals,
        errors: unit.errors(),
        rare: unit.tally.rare(),
        latency: (!rests).then(|| Box::new(unit.tally.latency())),
    }
}

/// Returns bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the status of a configured unit that cannot be served.
fn faulty_status(name: &str, error: &ApplyError) -> UnitStatus {
    let (fault, remedy) = (&error.message, &error.next);
    UnitStatus {
        name: name.to_owned(),
        fault: Some(fault.clone()),
        remedy: Some(remedy.clone()),
        hindrances: vec![hindrances::broken(fault, Some(remedy), true)],
        ..UnitStatus::default()
    }
}

fn unit_status(unit: &Unit, condition: &Condition, offline: bool) -> UnitStatus {
    let usage = condition.usage.as_ref().ok();
    let (fault, remedy) = match (unit.device.fault(), &condition.suspension) {
        (Some(fault), _) => (Some(fault), None),
        (None, Some(it)) => (Some(it.reason.clone()), Some(it.remedy.clone())),
        (None, None) => (None, None),
    };
    let totals = unit.logical.statistics().totals();
    let block_len = u64::from(unit.logical.block_len());
    let mut status = UnitStatus {
        name: unit.name.clone(),
        online: !offline && fault.is_none(),
        fault,
        remedy,
        size: unit.logical.blocks() * block_len,
        physical_block_size: Some(unit.logical.physical_block_len()),
        allocated: usage.map(|usage| usage.allocated),
        available: usage
            .and_then(|usage| usage.pool)
            .map(|pool| pool.available),
        write_cache: unit.logical.tells_write_cache(),
        read_only: unit.logical.is_write_protected(),
        reservation: unit.logical.reservation_in_words(),
        hindrances: Vec::new(),
        reads: totals.read_commands,
        writes: totals.write_commands,
        read_bytes: totals.read_blocks * block_len,
        written_bytes: totals.write_blocks * block_len,
        errors: unit.errors(),
    };
    status.hindrances = hindrances::hindrances(unit, &status, condition);
    status
}
