//! `initiator session`: sessions at other machines' targets, in the words of `esxcli iscsi
//! session`.

use clap::Subcommand;

use super::super::{Connection, Done, Terminal};
use super::times;
use crate::print::table::{Column, ListArgs, Numbers, extra, left, or_dash, print, right};
use control::endpoint::initiator;
use model::initiator::view::InitiatorSession;

#[derive(Debug, Subcommand)]
pub(in super::super) enum InitiatorSessionVerb {
    /// List sessions; those that are down with the reason
    #[command(visible_alias = "show")]
    List(ListArgs),
}

pub(super) fn run(
    verb: InitiatorSessionVerb,
    connection: &Connection,
    t: &mut Terminal<'_>,
) -> Done {
    let InitiatorSessionVerb::List(args) = verb;
    let sessions: Vec<InitiatorSession> = connection.client().call(&initiator::SESSIONS, &[])?;
    print(
        t,
        &args,
        &COLUMNS,
        &sessions,
        "no sessions; log in with `sandstone initiator login IQN --portal HOST`",
    )
}

const COLUMNS: [Column<InitiatorSession>; 17] = [
    left("target", |s, _| s.target.clone()),
    left("c", |s, _| format!("C{}", s.channel)),
    left("portal", |s, _| or_dash(&s.portal)),
    left("source", |s, _| {
        option(s.source.as_deref().or(s.bind.as_deref()))
    }),
    left("isid", |s, _| or_dash(&s.isid)),
    right("tsih", |s, _| {
        s.tsih.map_or("-".into(), |tsih| tsih.to_string())
    }),
    left("state", |s, _| s.state.name().into()),
    right("logins", |s, _| s.logins.to_string()),
    left("reason", |s, _| option(s.last_error.as_deref())),
    extra(right("tpgt", |s, _| {
        s.portal_group.map_or("-".into(), |tag| tag.to_string())
    })),
    extra(left("digests", |s, _| {
        match (s.header_digest, s.data_digest) {
            (true, true) => "header,data",
            (true, false) => "header",
            (false, true) => "data",
            (false, false) => "none",
        }
        .into()
    })),
    extra(left("parameters", |s, _| {
        let keys = s
            .parameters
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        or_dash(&keys.collect::<Vec<_>>().join(","))
    })),
    extra(left("times", |s, _| {
        option(s.times.as_ref().map(times::column).as_deref())
    })),
    extra(left("luns", |s, _| {
        let luns = s.luns.iter().map(u16::to_string);
        or_dash(&luns.collect::<Vec<_>>().join(","))
    })),
    extra(right("inflight", |s, _| s.in_flight.to_string())),
    extra(right("retry", |s, n| match (s.retry_ms, n) {
        (None, _) => "-".into(),
        (Some(ms), Numbers::Exact) => format!("{:.3}", ms as f64 / 1000.0),
        (Some(ms), Numbers::Short) => format!("{:.1}s", ms as f64 / 1000.0),
    })),
    extra(left("redirected", |s, _| {
        option(s.redirected_to.as_deref())
    })),
];

fn option(text: Option<&str>) -> String {
    or_dash(text.unwrap_or_default())
}
