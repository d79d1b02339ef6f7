//! `initiator login`, `modify` and `logout`: the targets that this machine is logged in to, and the
//! parameters of the logins.

use std::time::{Duration, Instant};

use clap::Args;

use super::super::edit::{EditArgs, Request, make, remove};
use super::super::lu::yes_no;
use super::super::secret::LoginSecrets;
use super::super::{Connection, Done, Terminal};
use super::times::{bare_milliseconds, bare_seconds};
use crate::grammar::completion::{login_names, size};
use config::change::{LogIn, ModifyLogin};
use control::Client;
use control::endpoint::initiator;
use model::initiator::LoginParameters;
use model::initiator::view::{InitiatorSession, SessionState};
use model::{Error, ErrorKind, name};

/// Time that the command waits for a login before it goes on without it.
const WAIT: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub(in super::super) struct Login {
    /// Name of the target
    #[arg(value_name = "IQN")]
    target: String,
    /// Portal of the target; may be given several times; port 3260 if none is named
    #[arg(long = "portal", value_name = "HOST[:PORT]", required = true)]
    portals: Vec<String>,
    /// Start from this source address, or at this network interface; may be given several times:
    /// every portal is reached from each
    #[arg(long = "bind", value_name = "ADDR|IFACE")]
    binds: Vec<String>,
    /// Sessions for each portal and bind [default: 1]
    #[arg(long, value_name = "N")]
    sessions: Option<u32>,
    #[command(flatten)]
    secrets: LoginSecrets,
    #[command(flatten)]
    parameters: Parameters,
    /// Do not wait for the sessions
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(in super::super) struct Modify {
    /// Name of the target
    #[arg(value_name = "IQN", add = login_names())]
    target: String,
    /// New list of portals
    #[arg(long = "portal", value_name = "HOST[:PORT]")]
    portals: Vec<String>,
    /// New list of source addresses and interfaces
    #[arg(long = "bind", value_name = "ADDR|IFACE", conflicts_with = "no_bind")]
    binds: Vec<String>,
    /// Start from any address that the kernel chooses
    #[arg(long)]
    no_bind: bool,
    /// Sessions for each portal and bind
    #[arg(long, value_name = "N")]
    sessions: Option<u32>,
    #[command(flatten)]
    secrets: LoginSecrets,
    /// Log in without CHAP
    #[arg(long, conflicts_with = "user")]
    no_chap: bool,
    #[command(flatten)]
    parameters: Parameters,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(in super::super) struct Logout {
    /// Name of the target
    #[arg(value_name = "IQN", add = login_names())]
    target: String,
    #[command(flatten)]
    removal: EditArgs,
}

/// Parameters of sessions.
#[derive(Debug, Args)]
struct Parameters {
    /// CHAP_A to offer, the preferred one first; no other is ever used [default:
    /// sha3-256,sha1,md5,sha256]
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        help_heading = "Parameters"
    )]
    chap_algorithms: Vec<String>,
    /// CRC32C over headers: required or forbidden [default: as the target likes]
    #[arg(long, value_name = "yes|no", value_parser = yes_no, help_heading = "Parameters")]
    header_digest: Option<bool>,
    /// CRC32C over data: required or forbidden [default: as the target likes]
    #[arg(long, value_name = "yes|no", value_parser = yes_no, help_heading = "Parameters")]
    data_digest: Option<bool>,
    /// MaxOutstandingR2T to offer [default: 8]
    #[arg(long, value_name = "N", help_heading = "Parameters")]
    max_outstanding_r2t: Option<u16>,
    /// FirstBurstLength to offer [default: 256K]
    #[arg(long, value_name = "SIZE", value_parser = bytes, help_heading = "Parameters")]
    first_burst: Option<u32>,
    /// MaxBurstLength to offer [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = bytes, help_heading = "Parameters")]
    max_burst: Option<u32>,
    /// MaxRecvDataSegmentLength to declare [default: 256K]
    #[arg(long, value_name = "SIZE", value_parser = bytes, help_heading = "Parameters")]
    max_recv_segment: Option<u32>,
    /// ImmediateData [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = yes_no, help_heading = "Parameters")]
    immediate_data: Option<bool>,
    /// InitialR2T [default: no]
    #[arg(long, value_name = "yes|no", value_parser = yes_no, help_heading = "Parameters")]
    initial_r2t: Option<bool>,
    /// TCP buffers of each connection [default: the kernel tunes them]
    #[arg(long, value_name = "SIZE", value_parser = bytes, help_heading = "Parameters")]
    tcp_window: Option<u32>,
    /// Acknowledge segments at once instead of later [default: no]
    #[arg(long, value_name = "yes|no", value_parser = yes_no, help_heading = "Parameters")]
    quick_ack: Option<bool>,
    /// Silence with commands outstanding before a ping, in milliseconds [default: the adapter's,
    /// 250]
    #[arg(long, value_name = "MS", value_parser = bare_milliseconds, help_heading = "Parameters")]
    ping_after: Option<u32>,
    /// Silence after a ping before a session is given up, in milliseconds [default: the adapter's,
    /// 450]
    #[arg(long, value_name = "MS", value_parser = bare_milliseconds, help_heading = "Parameters")]
    dead_after: Option<u32>,
    /// Most time that a login may take, in seconds [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = bare_seconds, help_heading = "Parameters")]
    login_timeout: Option<u16>,
    /// Most time that a command may take before it is aborted and repeated, in seconds [default:
    /// 30]
    #[arg(long, value_name = "SECONDS", value_parser = bare_seconds, help_heading = "Parameters")]
    command_timeout: Option<u16>,
}

impl Parameters {
    fn spec(&self) -> LoginParameters {
        let algorithms = &self.chap_algorithms;
        LoginParameters {
            chap_algorithms: (!algorithms.is_empty()).then(|| algorithms.clone()),
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            max_outstanding_r2t: self.max_outstanding_r2t,
            first_burst_length: self.first_burst,
            max_burst_length: self.max_burst,
            max_recv_data_segment_length: self.max_recv_segment,
            immediate_data: self.immediate_data,
            initial_r2t: self.initial_r2t,
            tcp_window: self.tcp_window,
            quick_ack: self.quick_ack,
            ping_after_ms: self.ping_after,
            dead_after_ms: self.dead_after,
            login_timeout_s: self.login_timeout,
            command_timeout_s: self.command_timeout,
        }
    }
}

/// Reads a size of less than 4 GiB.
pub(super) fn bytes(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| format!("{text:?} is too large"))
}

pub(super) fn log_in(args: Login, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let (chap, mutual_chap) = args.secrets.read(t)?;
    let body = LogIn {
        iqn: args.target.clone(),
        portals: args.portals,
        binds: args.binds,
        sessions: args.sessions,
        chap,
        mutual_chap,
        parameters: args.parameters.spec(),
    };
    let request = Request::with(&initiator::LOG_IN, &[], &body);
    make(t, &client, &args.edit, &request)?;
    if args.edit.dry_run || args.edit.json || args.no_wait {
        return Ok(());
    }
    tell_sessions(t, &wait_for(&client, &args.target)?)
}

/// Returns the sessions of a target, once each is up or has failed.
pub(in super::super) fn wait_for(
    client: &Client,
    target: &str,
) -> Result<Vec<InitiatorSession>, Error> {
    let until = Instant::now() + WAIT;
    loop {
        let mut sessions: Vec<InitiatorSession> = client.call(&initiator::SESSIONS, &[])?;
        sessions.retain(|session| session.target == target);
        let is_settled = |session: &InitiatorSession| {
            session.failures > 0 || session.state == SessionState::LoggedIn && session.is_scanned
        };
        if sessions.iter().all(is_settled) || Instant::now() >= until {
            return Ok(sessions);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn tell_sessions(t: &mut Terminal<'_>, sessions: &[InitiatorSession]) -> Done {
    let mut failed = None;
    for session in sessions {
        let portal = &session.portal;
        if session.state == SessionState::LoggedIn {
            let luns = match session.luns.len() {
                0 => "no LUNs".to_owned(),
                1 => "1 LUN".to_owned(),
                count => format!("{count} LUNs"),
            };
            writeln!(
                t.out,
                "session C{} at {portal}: logged in, {luns}",
                session.channel
            )?;
        } else {
            let why = session.last_error.as_deref().unwrap_or("no answer yet");
            writeln!(t.err, "session C{} at {portal}: {why}", session.channel)?;
            failed = Some(session);
        }
    }
    let Some(failed) = failed else {
        return Ok(());
    };
    let target = name::shown(&failed.target);
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("some sessions to {target} could not be opened; the daemon keeps trying"),
        format!(
            "sandstone initiator session list shows the sessions; sandstone initiator modify or logout \
             {target} changes or ends the login"
        ),
    )
    .not_changed("the login is configured")
    .into())
}

pub(super) fn modify(args: Modify, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let (chap, mutual_chap) = args.secrets.read(t)?;
    let binds = match (args.no_bind, args.binds) {
        (true, _) => Some(Vec::new()),
        (false, binds) => (!binds.is_empty()).then_some(binds),
    };
    let body = ModifyLogin {
        portals: (!args.portals.is_empty()).then_some(args.portals),
        binds,
        sessions: args.sessions,
        chap,
        mutual_chap,
        no_chap: args.no_chap,
        parameters: args.parameters.spec(),
    };
    let request = Request::with(&initiator::MODIFY_LOGIN, &[&args.target], &body);
    make(t, &connection.client(), &args.edit, &request)
}

pub(super) fn log_out(args: &Logout, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let request = Request::bare(&initiator::LOG_OUT, &[&args.target]);
    remove(t, &connection.client(), &args.removal, &request, false)
}
