//! `session`: who is logged in.

use clap::{Args, Subcommand};
use hyper::Method;

use super::completion::session_numbers;
use super::table::{Column, ListArgs, Numbers, extra, left, or_dash, print, right};
use super::{Connection, Done, Terminal};
use crate::config::{Error, ErrorKind};
use crate::control::SessionInfo;

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// List sessions
    #[command(visible_alias = "show")]
    List(ListArgs),
    /// Ask an initiator to log a session out when what it has sent is answered; it may log in again at once
    Logout(Logout),
    /// End a session; the initiator may log in again at once
    Kill(Kill),
}

#[derive(Debug, Args)]
pub(super) struct Logout {
    /// The session's number (TSIH)
    #[arg(add = session_numbers())]
    session: u16,
    /// End the session where the initiator has not logged out after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    within: u16,
}

#[derive(Debug, Args)]
pub(super) struct Kill {
    /// The session's number (TSIH)
    #[arg(add = session_numbers())]
    session: u16,
    /// Do not ask
    #[arg(short = 'y', long, visible_short_alias = 'f', visible_alias = "force")]
    yes: bool,
}

pub(super) fn run(verb: Verb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let sessions = || client.get::<Vec<SessionInfo>>("/v1/sessions");
    match verb {
        Verb::List(args) => print(t, &args, &COLUMNS, &sessions()?, "no sessions"),
        Verb::Logout(Logout { session, within }) => {
            let path = format!("/v1/sessions/{session}/logout?within_s={within}");
            let () = client.call(&Method::POST, &path)?;
            let asked = "its initiator was asked to log out";
            Ok(writeln!(
                t.out,
                "session {session}: {asked} within {within} s"
            )?)
        }
        Verb::Kill(args) => {
            let missing = || {
                Error::not_found(
                    format!("there is no session {}", args.session),
                    "sandstone session list shows those there are",
                )
            };
            let sessions = sessions()?;
            let session = sessions
                .iter()
                .find(|session| session.tsih == args.session)
                .ok_or_else(missing)?;
            if !args.yes {
                confirm(t, session)?;
            }
            let () = client.call(&Method::DELETE, &format!("/v1/sessions/{}", args.session))?;
            Ok(writeln!(t.out, "session {} ended", args.session)?)
        }
    }
}

fn confirm(t: &mut Terminal<'_>, session: &SessionInfo) -> Done {
    let target = session.target.as_deref().unwrap_or("discovery");
    writeln!(
        t.err,
        "session {} of {} at {target}, {} commands in flight, would end",
        session.tsih, session.initiator, session.in_flight
    )?;
    let Some(ask) = t.ask.as_mut() else {
        let message = "this needs a confirmation and nobody is there to ask";
        return Err(Error::new(ErrorKind::InUse, message, "repeat the command with --yes").into());
    };
    if matches!(ask("Go on? [y/N] ")?.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    writeln!(t.err, "nothing was changed")?;
    Err(super::Failure::Said)
}

const COLUMNS: [Column<SessionInfo>; 15] = [
    right("tsih", |s, _| s.tsih.to_string()),
    left("initiator", |s, _| s.initiator.clone()),
    left("target", |s, _| {
        s.target.clone().unwrap_or_else(|| "(discovery)".into())
    }),
    left("peer", |s, _| or_dash(&each(s, |c| c.peer.to_string()))),
    right("luns", |s, _| s.luns.len().to_string()),
    right("read", |s, n| n.size(s.read_bytes)),
    right("written", |s, n| n.size(s.written_bytes)),
    right("age", |s, n: Numbers| n.span(s.age_s)),
    extra(left("isid", |s, _| s.isid.clone())),
    extra(left("portal", |s, _| {
        or_dash(&each(s, |c| format!("{},{}", c.local, s.portal_group)))
    })),
    extra(left("digests", |s, _| {
        or_dash(&each(s, |c| digests(c.header_digest, c.data_digest).into()))
    })),
    extra(left("auth", |s, _| {
        s.chap_user
            .as_ref()
            .map_or("-".into(), |user| format!("CHAP {user}"))
    })),
    extra(right("commands", |s, _| s.commands.to_string())),
    extra(right("inflight", |s, _| s.in_flight.to_string())),
    extra(right("loop", |s, _| s.event_loop.to_string())),
];

fn each(session: &SessionInfo, show: impl Fn(&crate::control::ConnectionInfo) -> String) -> String {
    session
        .connections
        .iter()
        .map(show)
        .collect::<Vec<_>>()
        .join(" ")
}

fn digests(header: bool, data: bool) -> &'static str {
    match (header, data) {
        (true, true) => "header,data",
        (true, false) => "header",
        (false, true) => "data",
        (false, false) => "none",
    }
}
