//! `session`: the sessions of initiators.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::edit::EditArgs;
use super::{Connection, Done, Terminal};
use crate::grammar::completion::session_numbers;
use crate::print::table::{self, Column, ListArgs, Numbers, extra, left, or_dash, print, right};
use control::endpoint::session;
use model::data_plane::SessionInfo;
use model::{Error, ErrorKind};

#[derive(Debug, Subcommand)]
pub(super) enum SessionVerb {
    /// List sessions
    #[command(visible_alias = "show")]
    List(ListArgs),
    /// Ask an initiator to log out after its outstanding commands are answered; it may log in again
    /// at once
    Logout(Logout),
    /// End a session; the initiator may log in again at once
    Kill(Kill),
}

#[derive(Debug, Args)]
pub(super) struct Logout {
    /// Number of the session (TSIH)
    #[arg(add = session_numbers(), value_parser = number)]
    session: u16,
    /// End the session if the initiator has not logged out after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    within: u16,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct Kill {
    /// Number of the session (TSIH)
    #[arg(add = session_numbers(), value_parser = number)]
    session: u16,
    #[command(flatten)]
    edit: EditArgs,
}

/// Reads a session's number.
fn number(text: &str) -> Result<u16, String> {
    let number = text.parse();
    number.map_err(|_| {
        "write the number of one session: the TSIH that `sandstone session list` shows".to_owned()
    })
}

/// Action on a session, done or previewed.
#[derive(Debug, Serialize)]
struct Told<'a> {
    dry_run: bool,
    action: &'static str,
    /// Seconds within which its initiator is to log out.
    #[serde(skip_serializing_if = "Option::is_none")]
    within_s: Option<u16>,
    session: &'a SessionInfo,
}

pub(super) fn run(verb: SessionVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let sessions = || client.call(&session::LIST, &[]);
    match verb {
        SessionVerb::List(args) => print(t, &args, &COLUMNS, &sessions()?, "no sessions"),
        SessionVerb::Logout(Logout {
            session,
            within,
            edit,
        }) => {
            let session = find(sessions()?, session)?;
            let (number, asked) = (session.tsih, "asked to log out");
            if !edit.dry_run {
                let how = session::Logout { within_s: within };
                client.ask(&session::LOGOUT, &[&number.to_string()], &how, &())?;
            }
            let told = Told {
                dry_run: edit.dry_run,
                action: "logout",
                within_s: Some(within),
                session: &session,
            };
            let done = format!("session {number}: its initiator was {asked} within {within} s");
            let would = format!("its initiator would be {asked} within {within} s");
            tell(t, &edit, &told, &done, &would)
        }
        SessionVerb::Kill(Kill { session, edit }) => {
            let session = find(sessions()?, session)?;
            let number = session.tsih;
            if !edit.dry_run {
                if !edit.yes {
                    confirm(t, &session)?;
                }
                client.call(&session::KILL, &[&number.to_string()])?;
            }
            let told = Told {
                dry_run: edit.dry_run,
                action: "kill",
                within_s: None,
                session: &session,
            };
            let done = format!("session {number} ended");
            tell(t, &edit, &told, &done, "it would end")
        }
    }
}

fn find(sessions: Vec<SessionInfo>, number: u16) -> Result<SessionInfo, Error> {
    let mut sessions = sessions.into_iter();
    sessions
        .find(|session| session.tsih == number)
        .ok_or_else(|| {
            Error::not_found(
                format!("there is no session {number}"),
                "sandstone session list shows all sessions",
            )
        })
}

/// Prints what was done, or what would be.
fn tell(t: &mut Terminal<'_>, edit: &EditArgs, told: &Told<'_>, done: &str, would: &str) -> Done {
    if edit.json {
        return table::json(t, told);
    }
    if !edit.dry_run {
        return Ok(writeln!(t.out, "{done}")?);
    }
    writeln!(t.out, "{}: {would}", in_words(told.session))?;
    Ok(writeln!(t.out, "nothing was changed (--dry-run)")?)
}

/// Returns a session and its load, in words.
fn in_words(session: &SessionInfo) -> String {
    let target = session.target.as_deref().unwrap_or("discovery");
    let (number, initiator, in_flight) = (session.tsih, &session.initiator, session.in_flight);
    format!("session {number} of {initiator} at {target}, {in_flight} commands in flight")
}

fn confirm(t: &mut Terminal<'_>, session: &SessionInfo) -> Done {
    writeln!(t.err, "{}: it would end", in_words(session))?;
    let Some(ask) = t.ask.as_mut() else {
        let message = "this needs a confirmation, and there is no terminal to ask on";
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

fn each(
    session: &SessionInfo,
    show: impl Fn(&model::data_plane::ConnectionInfo) -> String,
) -> String {
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
