//! `--backend`: a logical unit over a device of another machine, given by its name or by a URL. A
//! URL first logs in to its target. From then on the unit follows the device itself, even if its
//! LUN later names another device.

mod options;

use iscsi::chap::ChapCredential;
use iscsi::initiator::OFFERED;
use iscsi::negotiation::{DigestPolicy, Limits};

use super::edit::{EditArgs, Request, make};
use super::initiator::login::wait_for;
use super::{Failure, Terminal};
use config::change::{LogIn, SetChap};
use control::Client;
use control::answer::DeviceView;
use control::endpoint::initiator;
use control::transaction::Commit;
use model::initiator::settings::{DeviceSettings, SessionSettings, TargetSettings};
use model::initiator::url::LunUrl;
use model::initiator::{LoginParameters, LoginSpec};
use model::{Error, ErrorKind, name};

/// A device of another machine as typed.
#[derive(Clone, Debug)]
pub(super) enum Remote {
    /// The device's name.
    Device(String),
    /// URL of the device.
    Url(Box<LunUrl>),
}

/// Reads `naa.…` or `iscsi://…`.
pub(super) fn remote(text: &str) -> Result<Remote, String> {
    if LunUrl::is_one(text) {
        // The daemon knows the initiator's name.
        let session = SessionSettings::new(String::new());
        let url = LunUrl::parse(text, session, DeviceSettings::default());
        return url
            .map(|url| Remote::Url(Box::new(url)))
            .map_err(|error| error.to_string());
    }
    if ["naa.", "eui.", "t10."]
        .iter()
        .any(|kind| text.starts_with(kind))
    {
        return Ok(Remote::Device(text.to_owned()));
    }
    Err("write the name of a device (naa.…, as `sandstone initiator device list` shows it) or iscsi://HOST[:PORT]/IQN/LUN".into())
}

/// Returns the name of the device. For a URL, logs in to its target unless a session exists.
pub(super) fn find(
    remote: &Remote,
    client: &Client,
    edit: &EditArgs,
    t: &mut Terminal<'_>,
) -> Result<String, Failure> {
    let url = match remote {
        Remote::Device(name) => return Ok(name.clone()),
        Remote::Url(url) => url,
    };
    let target = url.target.name.clone();
    options::refuse_adapter_wide(url)?;
    let lun = url.target.lun.unwrap_or(0);
    let logins: Vec<LoginSpec> = client.call(&initiator::LOGINS, &[])?;
    if let Some(login) = logins.iter().find(|login| login.iqn == target) {
        options::refuse_other_login(url, login)?;
    } else {
        if edit.dry_run {
            let message = format!("LUN {lun} of {target} is unknown until a login");
            let next = "log in first (sandstone initiator login), or omit --dry-run";
            return Err(Error::invalid(message, next).into());
        }
        let body = log_in(&target, &url.target);
        let request = Request::with(&initiator::LOG_IN, &[], &body);
        // With --json, the unit's document is the only output.
        if edit.json {
            let _: control::transaction::Committed =
                client.ask(&initiator::LOG_IN, &[], &Commit::default(), &body)?;
        } else {
            make(t, client, edit, &request)?;
        }
    }
    let sessions = wait_for(client, &target)?;
    let devices: Vec<DeviceView> = client.call(&initiator::DEVICES, &[])?;
    let leads_there = |device: &&DeviceView| {
        let mut ways = device.state.ways.iter();
        ways.any(|way| way.target == target && way.lun == Some(lun))
    };
    if let Some(device) = devices.iter().find(leads_there) {
        let name = device.state.nmp.name.clone();
        options::choose(url, &name, client, edit, t)?;
        return Ok(name);
    }
    let error = sessions
        .iter()
        .find_map(|session| session.last_error.as_ref());
    let shown = name::shown(&target);
    let (message, next) = match error {
        Some(error) => (
            format!("no session could be opened to {shown}: {error}"),
            format!(
                "change the login with sandstone initiator modify {shown}, or end it with sandstone \
                 initiator logout {shown}"
            ),
        ),
        None => (
            format!("{target} shows no disk as LUN {lun} to this initiator"),
            "have the target map the unit to this initiator, or name another LUN: sandstone initiator lun list".to_owned(),
        ),
    };
    let error = Error::new(ErrorKind::Unavailable, message, next);
    Err(error
        .not_changed(format!(
            "no logical unit was made; the login to {target} stays"
        ))
        .into())
}

fn log_in(target: &str, settings: &TargetSettings) -> LogIn {
    let mut portals: Vec<String> = Vec::new();
    let mut binds: Vec<String> = Vec::new();
    for route in &settings.routes {
        if !portals.contains(&route.portal) {
            portals.push(route.portal.clone());
        }
        let bind = route.bind.as_ref().map(ToString::to_string);
        binds.extend(bind.filter(|bind| !binds.contains(bind)));
    }
    let session = &settings.session;
    LogIn {
        iqn: target.to_owned(),
        portals,
        binds,
        sessions: Some(settings.sessions),
        chap: session.credential.as_ref().map(chap),
        mutual_chap: session.target_credential.as_ref().map(chap),
        parameters: LoginParameters {
            chap_algorithms: algorithms(session),
            quick_ack: session.tcp.quick_ack.then_some(true),
            tcp_window: session.tcp.window,
            command_timeout_s: command_timeout_s(session),
            ..parameters(&session.limits)
        },
    }
}

/// Returns the algorithms that the URL names.
fn algorithms(session: &SessionSettings) -> Option<Vec<String>> {
    let names = session.chap_algorithms.iter();
    let names = names.map(|algorithm| algorithm.name().to_owned()).collect();
    (session.chap_algorithms != OFFERED).then_some(names)
}

/// Returns the login parameters that the URL sets to other values than the defaults.
fn parameters(limits: &Limits) -> LoginParameters {
    let default = SessionSettings::new(String::new()).limits;
    let digest = |policy| match policy {
        DigestPolicy::Require => Some(true),
        DigestPolicy::Forbid => Some(false),
        DigestPolicy::Allow | DigestPolicy::Prefer => None,
    };
    fn other<T: PartialEq + Copy>(value: T, default: T) -> Option<T> {
        (value != default).then_some(value)
    }
    LoginParameters {
        header_digest: digest(limits.header_digest),
        data_digest: digest(limits.data_digest),
        max_outstanding_r2t: other(limits.max_outstanding_r2t, default.max_outstanding_r2t),
        first_burst_length: other(limits.first_burst_length, default.first_burst_length),
        max_burst_length: other(limits.max_burst_length, default.max_burst_length),
        max_recv_data_segment_length: other(
            limits.max_recv_data_segment_length,
            default.max_recv_data_segment_length,
        ),
        immediate_data: other(limits.immediate_data, default.immediate_data),
        initial_r2t: other(limits.initial_r2t, default.initial_r2t),
        ..LoginParameters::default()
    }
}

fn command_timeout_s(session: &SessionSettings) -> Option<u16> {
    let default = SessionSettings::new(String::new()).command_timeout;
    let seconds = session.command_timeout.as_secs();
    let seconds = u16::try_from(seconds).unwrap_or(u16::MAX);
    (session.command_timeout != default).then_some(seconds)
}

fn chap(credential: &ChapCredential) -> SetChap {
    SetChap {
        user: credential.name.clone(),
        secret: String::from_utf8_lossy(&credential.secret).into_owned(),
    }
}
