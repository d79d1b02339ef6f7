//! `target`: targets, their portals and their secrets.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use clap::{Args, Subcommand};

use super::edit::{EditArgs, Request, make, remove};
use super::host::SecretArgs;
use super::lu::yes_no;
use super::{Connection, Done, Terminal};
use crate::grammar::completion::{alua_states, target_names};
use crate::print::table::{Column, ListArgs, extra, left, or_dash, print, right};
use config::change::{AddPortal, CreateTarget, ModifyTarget, SetAluaState};
use control::Client;
use control::answer::TargetView;
use control::endpoint::target;
use model::config::{AluaMode, AluaState, RedirectSpec, TargetParameters};
use model::hindrance::AluaChoice;

#[derive(Debug, Subcommand)]
pub(super) enum TargetVerb {
    /// Make a target
    Create(Create),
    /// Add or remove listening addresses
    #[command(subcommand)]
    Portal(Portal),
    /// Set the secret that the target proves itself with (mutual CHAP); initiators' secrets belong
    /// to hosts
    Auth(Auth),
    /// Set the ALUA state of a target port group, live: of every portal group in it. Choices of
    /// initiators in the group end. While it is `transitioning` initiators wait
    AluaState(SetState),
    /// Change alias, ALUA and limits, live
    Modify(Box<Modify>),
    /// Accept logins again
    Online(Named),
    /// Refuse logins; sessions go on
    Offline(Named),
    /// Send initiators elsewhere at login
    Redirect(Redirect),
    /// List targets
    #[command(visible_alias = "show")]
    List(List),
    /// Remove a target; hosts and logical units stay
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// iSCSI name, as in iqn.2024-08.internal.sandstone:disk1
    iqn: String,
    /// Listening address; may be given several times [default: 0.0.0.0:3260]
    #[arg(long = "portal", value_name = "ADDR[:PORT]", value_parser = portal)]
    portals: Vec<SocketAddr>,
    /// Alias, which initiators show beside the name
    #[arg(long, default_value = "")]
    alias: String,
    /// ALUA changes that are offered
    #[arg(long, value_name = "none|implicit|explicit|both", default_value = "both", value_parser = alua_mode)]
    alua: AluaMode,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Portal {
    /// Listen at one more address
    Add(AddArgs),
    /// Stop listening at an address
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Name of the target
    #[arg(add = target_names())]
    iqn: String,
    /// Address; 3260 if no port is given
    #[arg(value_name = "ADDR[:PORT]", value_parser = portal)]
    portal: SocketAddr,
    /// Portal group; a new number makes a new group, which is a SCSI target port of its own
    #[arg(long, default_value_t = 1)]
    tag: u16,
    /// ALUA target port group of a new portal group [default: the first with room]
    #[arg(long, value_name = "NUMBER")]
    target_port_group: Option<u16>,
    /// ALUA state of a new portal group
    #[arg(long, value_name = "STATE", value_parser = alua_state, add = alua_states())]
    alua_state: Option<AluaState>,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// Name of the target
    #[arg(add = target_names())]
    iqn: String,
    /// Address; 3260 if no port is given
    #[arg(value_name = "ADDR[:PORT]", value_parser = portal)]
    portal: SocketAddr,
    #[command(flatten)]
    removal: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct SetState {
    /// Target port group, as `target list -o iqn,ports` shows it
    #[arg(value_name = "GROUP")]
    group: u16,
    /// ALUA state, also as SCSI writes it: active/non-optimized
    #[arg(value_name = "STATE", value_parser = alua_state, add = alua_states())]
    alua_state: AluaState,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct Auth {
    /// Name of the target
    #[arg(add = target_names())]
    iqn: String,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct Modify {
    /// Name of the target
    #[arg(add = target_names())]
    iqn: String,
    /// Alias, which initiators show beside the name
    #[arg(long)]
    alias: Option<String>,
    /// ALUA changes that are offered
    #[arg(long, value_name = "none|implicit|explicit|both", value_parser = alua_mode)]
    alua: Option<AluaMode>,
    /// Most commands in flight per session
    #[arg(long)]
    queue_depth: Option<u16>,
    /// Most connections per session
    #[arg(long)]
    max_connections: Option<u16>,
    /// Most sessions of this target
    #[arg(long)]
    max_sessions: Option<u32>,
    /// Insist on CRC32C over headers
    #[arg(long, value_name = "yes|no", value_parser = yes_no)]
    header_digest: Option<bool>,
    /// Insist on CRC32C over data
    #[arg(long, value_name = "yes|no", value_parser = yes_no)]
    data_digest: Option<bool>,
    /// Seconds of silence before a ping; 0 turns pings off
    #[arg(long, value_name = "SECONDS")]
    nop_in_interval: Option<u32>,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// Name of the target
    #[arg(add = target_names())]
    iqn: String,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct Redirect {
    /// Name of the target
    #[arg(add = target_names())]
    iqn: String,
    /// Address to send initiators to, as host:port
    #[arg(required_unless_present = "none")]
    address: Option<String>,
    /// Tell initiators that the target moved for good
    #[arg(long)]
    permanent: bool,
    /// Stop redirecting
    #[arg(long, conflicts_with_all = ["address", "permanent"])]
    none: bool,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Targets to list; without a name, all
    #[arg(add = target_names())]
    iqns: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Name of the target
    #[arg(add = target_names())]
    iqn: String,
    #[command(flatten)]
    removal: EditArgs,
}

pub(super) fn run(verb: TargetVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let base = ModifyTarget::default;
    match verb {
        TargetVerb::Create(args) => {
            let body = CreateTarget {
                iqn: args.iqn,
                alias: args.alias,
                portals: args.portals,
                alua: args.alua,
                parameters: TargetParameters::default(),
            };
            let request = Request::with(&target::CREATE, &[], &body);
            make(t, &client, &args.edit, &request)
        }
        TargetVerb::Portal(verb) => portals(verb, connection, t),
        TargetVerb::Auth(args) => {
            let mutual_chap = args.secret.read(t)?;
            let no_mutual_chap = mutual_chap.is_none();
            let body = ModifyTarget {
                mutual_chap,
                no_mutual_chap,
                ..base()
            };
            change(t, &client, &args.iqn, &args.edit, &body)
        }
        TargetVerb::AluaState(args) => {
            let body = SetAluaState {
                state: args.alua_state,
            };
            let group = args.group.to_string();
            let request = Request::with(&target::SET_ALUA_STATE, &[&group], &body);
            make(t, &client, &args.edit, &request)
        }
        TargetVerb::Modify(args) => modify(*args, &client, t),
        TargetVerb::Online(args) => {
            let body = ModifyTarget {
                offline: Some(false),
                ..base()
            };
            change(t, &client, &args.iqn, &args.edit, &body)
        }
        TargetVerb::Offline(args) => {
            let body = ModifyTarget {
                offline: Some(true),
                ..base()
            };
            change(t, &client, &args.iqn, &args.edit, &body)
        }
        TargetVerb::Redirect(args) => {
            let permanent = args.permanent;
            let redirect = args
                .address
                .map(|address| RedirectSpec { address, permanent });
            let body = ModifyTarget {
                redirect,
                no_redirect: args.none,
                ..base()
            };
            change(t, &client, &args.iqn, &args.edit, &body)
        }
        TargetVerb::List(args) => list(&args, &client, t),
        TargetVerb::Delete(args) => {
            let request = Request::bare(&target::DELETE, &[&args.iqn]);
            remove(t, &client, &args.removal, &request, false)
        }
    }
}

fn change(
    t: &mut Terminal<'_>,
    client: &Client,
    iqn: &str,
    edit: &EditArgs,
    body: &ModifyTarget,
) -> Done {
    let request = Request::with(&target::MODIFY, &[iqn], body);
    make(t, client, edit, &request)
}

fn list(args: &List, client: &Client, t: &mut Terminal<'_>) -> Done {
    let one = |iqn: &String| client.call(&target::SHOW, &[iqn]);
    let targets: Vec<TargetView> = match args.iqns.as_slice() {
        [] => client.call(&target::LIST, &[])?,
        iqns => iqns.iter().map(one).collect::<Result<_, _>>()?,
    };
    let none = "no targets; make one with `sandstone target create IQN`";
    print(t, &args.list, &COLUMNS, &targets, none)?;
    if args.list.is_for_people() {
        for line in chosen(&targets) {
            writeln!(t.err, "{line}")?;
        }
    }
    Ok(())
}

/// Returns one line for each target port group that initiators gave another ALUA state for
/// themselves.
fn chosen(targets: &[TargetView]) -> Vec<String> {
    let all = targets.iter().flat_map(|view| &view.alua_choices);
    let mut groups: BTreeMap<u16, Vec<&AluaChoice>> = BTreeMap::new();
    for choice in all {
        let choices = groups.entry(choice.target_port_group).or_default();
        // Two targets may have ports in one group.
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    let lines = groups.into_iter().map(|(group, choices)| {
        let shown = choices.iter().take(3).map(|choice| {
            let (state, initiator) = (choice.chosen.as_str(), &choice.initiator);
            format!("{state} of lu {} for {initiator}", choice.unit)
        });
        let shown: Vec<String> = shown.collect();
        let more = match choices.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let administrator = choices[0].administrator.as_str();
        format!(
            "target port group {group}: the administrator set {administrator}, and initiators chose \
             otherwise (explicit ALUA): {}{more}; to end that: sandstone target alua-state {group} \
             {administrator}",
            shown.join(", ")
        )
    });
    lines.collect()
}

fn portals(verb: Portal, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        Portal::Add(args) => {
            let body = AddPortal {
                portal: args.portal,
                tag: args.tag,
                target_port_group: args.target_port_group,
                alua_state: args.alua_state,
            };
            let request = Request::with(&target::ADD_PORTAL, &[&args.iqn], &body);
            make(t, &client, &args.edit, &request)
        }
        Portal::Remove(args) => {
            let portal = args.portal.to_string();
            let request = Request::bare(&target::REMOVE_PORTAL, &[&args.iqn, &portal]);
            remove(t, &client, &args.removal, &request, false)
        }
    }
}

fn modify(args: Modify, client: &Client, t: &mut Terminal<'_>) -> Done {
    let at = [args.iqn.as_str()];
    let view: TargetView = client.call(&target::SHOW, &at)?;
    let old = view.spec.parameters;
    let parameters = TargetParameters {
        queue_depth: args.queue_depth.or(old.queue_depth),
        max_connections: args.max_connections.or(old.max_connections),
        max_sessions: args.max_sessions.or(old.max_sessions),
        require_header_digest: args.header_digest.or(old.require_header_digest),
        require_data_digest: args.data_digest.or(old.require_data_digest),
        nop_in_interval_s: args.nop_in_interval.or(old.nop_in_interval_s),
        ..old
    };
    let body = ModifyTarget {
        alias: args.alias,
        alua: args.alua,
        parameters: Some(parameters),
        ..ModifyTarget::default()
    };
    let request = Request::with(&target::MODIFY, &at, &body);
    make(t, client, &args.edit, &request)
}

const COLUMNS: [Column<TargetView>; 8] = [
    left("iqn", |v, _| v.spec.iqn.clone()),
    left("state", |v, _| state(v)),
    left("portals", |v, _| addresses(v)),
    right("sessions", |v, _| v.sessions.to_string()),
    left("auth", |v, _| {
        v.spec
            .mutual_chap
            .as_ref()
            .map_or("-".into(), |c| format!("mutual {}", c.user))
    }),
    extra(left("alua", |v, _| {
        format!("{:?}", v.spec.alua).to_lowercase()
    })),
    extra(left("alias", |v, _| or_dash(&v.spec.alias))),
    extra(left("ports", |v, _| ports(v))),
];

fn state(view: &TargetView) -> String {
    let failed = view
        .portals
        .iter()
        .find_map(|portal| portal.error.as_ref().map(|error| (portal.address, error)));
    match (view.spec.offline, &view.spec.redirect, failed) {
        (true, ..) => "offline".into(),
        (_, Some(redirect), _) => format!("redirects to {}", redirect.address),
        (_, _, Some((address, error))) => format!("fault: {address}: {error}"),
        _ => "online".into(),
    }
}

fn addresses(view: &TargetView) -> String {
    let groups = view.spec.portal_groups.iter();
    groups
        .flat_map(|g| g.portals.iter().map(|p| format!("{p},{}", g.tag)))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns portal group, relative port id, target port group and ALUA state, and then the number of
/// choices that initiators made for themselves.
fn ports(view: &TargetView) -> String {
    let port = |g: &model::config::PortalGroupSpec| {
        let choices = view.alua_choices.iter();
        let is_of = |choice: &&AluaChoice| choice.target_port_group == g.target_port_group;
        let chosen = match choices.filter(is_of).count() {
            0 => String::new(),
            count => format!(":explicit={count}"),
        };
        format!(
            "{}:rtpi={}:tpg={}:{}{chosen}",
            g.tag,
            g.relative_port_id,
            g.target_port_group,
            g.alua_state.as_str()
        )
    };
    view.spec
        .portal_groups
        .iter()
        .map(port)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Reads an address with or without a port. The default is iSCSI's port 3260.
pub(super) fn portal(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let with_port = text.parse::<SocketAddr>().ok();
    with_port
        .or_else(|| {
            bare.parse::<IpAddr>()
                .ok()
                .map(|ip| SocketAddr::new(ip, 3260))
        })
        .ok_or_else(|| {
            format!(
                "{text:?} is not an address; write 10.0.0.1, 10.0.0.1:3260, [fd00::1]:3260 or 0.0.0.0"
            )
        })
}

fn alua_mode(text: &str) -> Result<AluaMode, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "choose none, implicit, explicit or both".into())
}

fn alua_state(text: &str) -> Result<AluaState, String> {
    // SCSI's own spelling is active/optimized.
    serde_json::from_value(text.replace('/', "-").into()).map_err(|_| {
        "choose active-optimized, active-non-optimized, standby, unavailable or transitioning"
            .into()
    })
}
