//! Edits of this machine as an initiator: logins, devices, claim rules.

use super::*;
use model::initiator::url::with_port;
use model::initiator::{AdapterTimes, DeviceSpec, LoginParameters, LoginSpec};
use multipath::{ClaimRule, Psp, RuleError, RuleErrorKind, Satp};

/// Parameters of `initiator adapter set`. A `None` leaves the value unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetInitiator {
    /// iSCSI name; empty to make it from the host name.
    #[serde(default)]
    pub name: Option<String>,
    /// Times to change.
    #[serde(default)]
    pub times: AdapterTimes,
    /// Whether all times that are not given become the defaults.
    #[serde(default)]
    pub default_times: bool,
}

/// Parameters of `initiator login`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogIn {
    /// iSCSI name of the target.
    pub iqn: String,
    /// Portals of the target, `host[:port]`.
    pub portals: Vec<String>,
    /// Source addresses or network interfaces.
    #[serde(default)]
    pub binds: Vec<String>,
    /// Sessions for each portal and bind, default 1.
    #[serde(default)]
    pub sessions: Option<u32>,
    /// CHAP name and secret of this machine.
    #[serde(default)]
    pub chap: Option<SetChap>,
    /// CHAP name and secret that the target must prove.
    #[serde(default)]
    pub mutual_chap: Option<SetChap>,
    /// Parameters by which sessions are made and kept.
    #[serde(default)]
    pub parameters: LoginParameters,
}

/// Parameters of `initiator modify`. A `None` leaves the value unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModifyLogin {
    /// New portals of the target.
    #[serde(default)]
    pub portals: Option<Vec<String>>,
    /// New binds.
    #[serde(default)]
    pub binds: Option<Vec<String>>,
    /// Sessions for each portal and bind.
    #[serde(default)]
    pub sessions: Option<u32>,
    /// CHAP name and secret of this machine.
    #[serde(default)]
    pub chap: Option<SetChap>,
    /// CHAP name and secret that the target must prove.
    #[serde(default)]
    pub mutual_chap: Option<SetChap>,
    /// Whether to log in without CHAP.
    #[serde(default)]
    pub no_chap: bool,
    /// Parameters to change.
    #[serde(default)]
    pub parameters: LoginParameters,
}

/// Parameters of `initiator device set` and `initiator psp set`. A `None` leaves the value
/// unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetDevice {
    /// Path selection, by ESXi's name or without its prefix.
    #[serde(default)]
    pub psp: Option<String>,
    /// Path that FIXED prefers, by runtime name; empty for none.
    #[serde(default)]
    pub preferred_path: Option<String>,
    /// Queue depth (DQLEN).
    #[serde(default)]
    pub queue_depth: Option<u32>,
    /// Most bytes of one command; 0 for the device's own limit.
    #[serde(default)]
    pub max_io: Option<u32>,
    /// Options of round robin as claim rules write them: `iops=1`, `policy=iops`, `useANO=1`.
    #[serde(default)]
    pub round_robin: Option<String>,
}

/// Parameters of `initiator satp set`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetDefaultPsp {
    /// Storage array type.
    pub satp: String,
    /// Path selection of its devices whose rule names none.
    pub psp: String,
}

impl Edit {
    pub(super) fn set_initiator(&mut self, request: &SetInitiator) -> Result<(), Error> {
        let initiator = &mut self.config.initiator;
        match request.name.as_deref() {
            None => {}
            Some("") => initiator.name.clear(),
            Some(given) => given.clone_into(&mut initiator.name),
        }
        initiator.times = match request.default_times {
            true => request.times.clone(),
            false => request.times.or(&initiator.times),
        };
        Ok(())
    }

    pub(super) fn log_in(&mut self, request: &LogIn) -> Result<(), Error> {
        let iqn = request.iqn.clone();
        if self.config.initiator.target(&iqn).is_some() {
            let iqn = name::shown(&iqn);
            return Err(Error::exists(
                format!("the initiator is already logged in to {iqn}"),
                format!(
                    "sandstone initiator modify {iqn} changes the login; sandstone initiator session list \
                     shows the sessions"
                ),
            ));
        }
        self.config.initiator.targets.push(LoginSpec {
            iqn,
            portals: normal_portals(&request.portals)?,
            binds: request.binds.clone(),
            sessions: request.sessions.unwrap_or(1),
            chap: request.chap.as_ref().map(SetChap::secret),
            mutual_chap: request.mutual_chap.as_ref().map(SetChap::secret),
            parameters: request.parameters.clone(),
        });
        Ok(())
    }

    pub(super) fn modify_login(&mut self, iqn: &str, request: &ModifyLogin) -> Result<(), Error> {
        let login = self.login_mut(iqn)?;
        if let Some(portals) = &request.portals {
            login.portals = normal_portals(portals)?;
        }
        if let Some(binds) = &request.binds {
            login.binds.clone_from(binds);
        }
        login.sessions = request.sessions.unwrap_or(login.sessions);
        if request.no_chap {
            (login.chap, login.mutual_chap) = (None, None);
        }
        if let Some(chap) = &request.chap {
            login.chap = Some(chap.secret());
        }
        if let Some(chap) = &request.mutual_chap {
            login.mutual_chap = Some(chap.secret());
        }
        let (old, new) = (&login.parameters, &request.parameters);
        login.parameters = LoginParameters {
            chap_algorithms: new.chap_algorithms.clone().or(old.chap_algorithms.clone()),
            header_digest: new.header_digest.or(old.header_digest),
            data_digest: new.data_digest.or(old.data_digest),
            max_outstanding_r2t: new.max_outstanding_r2t.or(old.max_outstanding_r2t),
            first_burst_length: new.first_burst_length.or(old.first_burst_length),
            max_burst_length: new.max_burst_length.or(old.max_burst_length),
            max_recv_data_segment_length: new
                .max_recv_data_segment_length
                .or(old.max_recv_data_segment_length),
            immediate_data: new.immediate_data.or(old.immediate_data),
            initial_r2t: new.initial_r2t.or(old.initial_r2t),
            tcp_window: new.tcp_window.or(old.tcp_window),
            quick_ack: new.quick_ack.or(old.quick_ack),
            ping_after_ms: new.ping_after_ms.or(old.ping_after_ms),
            dead_after_ms: new.dead_after_ms.or(old.dead_after_ms),
            login_timeout_s: new.login_timeout_s.or(old.login_timeout_s),
            command_timeout_s: new.command_timeout_s.or(old.command_timeout_s),
        };
        Ok(())
    }

    pub(super) fn log_out(&mut self, iqn: &str) -> Result<(), Error> {
        let iqn = self.login_mut(iqn)?.iqn.clone();
        let targets = &mut self.config.initiator.targets;
        targets.retain(|target| target.iqn != iqn);
        Ok(())
    }

    fn login_mut(&mut self, iqn: &str) -> Result<&mut LoginSpec, Error> {
        let mut targets = self.config.initiator.targets.iter_mut();
        targets.find(|target| target.iqn == iqn).ok_or_else(|| {
            Error::not_found(
                format!("the initiator is not logged in to {iqn}"),
                "sandstone initiator session list shows the sessions; sandstone initiator login logs in",
            )
        })
    }

    pub(super) fn set_device(&mut self, name: &str, request: &SetDevice) -> Result<(), Error> {
        let devices = &mut self.config.initiator.devices;
        let at = devices.iter().position(|device| device.name == name);
        let at = at.unwrap_or_else(|| {
            devices.push(DeviceSpec {
                name: name.to_owned(),
                ..DeviceSpec::default()
            });
            devices.len() - 1
        });
        let device = &mut devices[at];
        if let Some(psp) = &request.psp {
            device.psp = Some(psp_named(psp)?);
        }
        if let Some(path) = &request.preferred_path {
            device.preferred_path = (!path.is_empty()).then(|| path.clone());
        }
        device.queue_depth = request.queue_depth.or(device.queue_depth);
        if let Some(bytes) = request.max_io {
            device.max_io = (bytes != 0).then_some(bytes);
        }
        if let Some(options) = &request.round_robin {
            let limits = device.round_robin.unwrap_or_default();
            device.round_robin = Some(limits.with_options(options).map_err(refused)?);
        }
        devices.retain(|device| !device.is_empty());
        Ok(())
    }

    pub(super) fn reset_device(&mut self, name: &str) -> Result<(), Error> {
        let devices = &mut self.config.initiator.devices;
        if !devices.iter().any(|device| device.name == name) {
            return Err(Error::not_found(
                format!("device {name} has no settings of its own"),
                "sandstone initiator device list shows the devices",
            ));
        }
        devices.retain(|device| device.name != name);
        Ok(())
    }

    pub(super) fn add_claim_rule(&mut self, rule: &RuleText) -> Result<(), Error> {
        let rule = ClaimRule::parse(rule).map_err(refused)?;
        self.config.initiator.rules.add(rule).map_err(refused)
    }

    pub(super) fn remove_claim_rule(&mut self, rule: &RuleText) -> Result<(), Error> {
        let rule = ClaimRule::parse(rule).map_err(refused)?;
        let removed = self.config.initiator.rules.remove(&rule);
        removed.map(drop).map_err(refused)
    }

    pub(super) fn set_default_psp(&mut self, request: &SetDefaultPsp) -> Result<(), Error> {
        let satp = Satp::from_name(request.satp.trim()).ok_or_else(|| {
            Error::not_found(
                format!("the storage array type {:?} is unknown", request.satp),
                "sandstone initiator satp list shows the storage array types",
            )
        })?;
        let psp = psp_named(&request.psp)?;
        self.config.initiator.rules.set_default_psp(satp, psp);
        Ok(())
    }
}

fn psp_named(name: &str) -> Result<Psp, Error> {
    Psp::from_name(name.trim()).ok_or_else(|| {
        let names = Psp::ALL.map(Psp::name).join(", ");
        Error::invalid(
            format!("the path selection policy {name:?} is unknown"),
            format!("choose one of {names}"),
        )
    })
}

fn refused(error: RuleError) -> Error {
    let kind = match error.kind {
        RuleErrorKind::Invalid | RuleErrorKind::System => ErrorKind::Invalid,
        RuleErrorKind::Exists => ErrorKind::Exists,
        RuleErrorKind::NotFound => ErrorKind::NotFound,
    };
    Error::new(kind, error.message, error.next)
}

fn normal_portals(portals: &[String]) -> Result<Vec<String>, Error> {
    let normal = portals.iter().map(|portal| {
        with_port(portal).map_err(|_| {
            Error::invalid(
                format!("{portal:?} is not a portal"),
                "write host or host:port, with IPv6 addresses in brackets",
            )
        })
    });
    normal.collect()
}
