//! The question which host gets a unit, and at which target and portals it comes in.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use config::change::{CreateUnit, Share};
use config::identity;
use control::endpoint::{host, map, target};
use control::transaction::{Commit, Committed};
use maud::{Markup, html};
use model::Error;
use model::name::begins_as_name;

use super::finish::CLIENTS;
use super::parts::{Choice, one_of, some_of, values, warning};
use crate::form::Field;
use crate::visit::Visit;

/// Names of the fields of the question.
pub(super) const FIELDS: [&str; 7] = [
    "client",
    "host_kind",
    "initiator",
    "host",
    "target",
    "portal",
    "port",
];

/// Port of iSCSI.
const PORT: &str = "3260";
/// Value of the field for a portal on every address.
const EVERY_ADDRESS: &str = "0.0.0.0";
/// Pattern of the initiators of a host that any initiator belongs to.
const ANY: &str = "*";

/// Shows the question.
///
/// # Errors
/// Hosts or targets cannot be listed.
pub(super) fn show(visit: &Visit) -> Result<Markup, Error> {
    let form = &visit.form;
    let clients: Vec<Choice<'_>> = CLIENTS
        .iter()
        .map(|(name, client)| Choice::new(name, html! { (client.title()) }))
        .collect();
    Ok(html! {
        (whom(visit)?)
        (one_of("client", "What runs on the host?", form.some("client").unwrap_or("esxi"), &clients))
        (at_which_target(visit)?)
    })
}

/// Asks for the host.
fn whom(visit: &Visit) -> Result<Markup, Error> {
    let form = &visit.form;
    let hosts = visit.call(&host::LIST, &[])?;
    let names: Vec<(String, String)> = hosts
        .iter()
        .map(|view| {
            let initiators = view.spec.initiators.join(", ");
            (
                view.spec.name.clone(),
                format!("{}: {initiators}", view.spec.name),
            )
        })
        .collect();
    let suggestions = strangers(visit);
    let first = if hosts.is_empty() { "new" } else { "known" };
    let new = html! {
        (Field::new("initiator", "iSCSI name of the host").conditional().value(form.get("initiator"))
            .hint("As in iqn.1998-01.com.vmware:esx1. On Linux and Proxmox it is in /etc/iscsi/initiatorname.iscsi, \
                   on ESXi under Storage Adapters, on Windows in the iSCSI Initiator under Configuration.")
            .suggesting(&suggestions))
    };
    let known = html! { (Field::new("host", "Host").value(form.get("host")).choice(&names)) };
    let mut all = Vec::new();
    if !hosts.is_empty() {
        all.push(Choice::new("known", html! { "A host that is known here" }).hint(known));
    }
    all.push(Choice::new("new", html! { "A new host" }).hint(new));
    let danger = html! {
        "Every machine that reaches the portals can then read and write the unit. Two that do so without a \
         cluster file system destroy its data."
    };
    all.push(Choice::new("any", html! { "Any host" }).hint(warning(danger)));
    let kind = form.some("host_kind").unwrap_or(first);
    Ok(one_of("host_kind", "Which host may use it?", kind, &all))
}

/// Returns initiators that are logged in, and belong to no host yet.
fn strangers(visit: &Visit) -> Vec<String> {
    let console = &visit.console;
    let config = console.door.plane().transactions.config();
    let moment = console.live.now();
    let sessions = moment.snapshot().sessions.iter();
    let strange = sessions.filter(|it| console.live.hosts.of(&config, &it.initiator).is_none());
    let mut all: Vec<String> = strange.map(|it| it.initiator.clone()).collect();
    all.sort();
    all.dedup();
    all.truncate(100);
    all
}

/// Asks for the target, and for the portals of a new one.
fn at_which_target(visit: &Visit) -> Result<Markup, Error> {
    let targets = visit.call(&target::LIST, &[])?;
    let mut all: Vec<Choice<'_>> = targets
        .iter()
        .map(|view| {
            let groups = view.spec.portal_groups.iter();
            let portals: Vec<String> = groups
                .flat_map(|group| &group.portals)
                .map(ToString::to_string)
                .collect();
            let words = html! { span.name { (view.spec.iqn) } };
            Choice::new(&view.spec.iqn, words)
                .hint(html! { "Listens at " (portals.join(", ")) "." })
        })
        .collect();
    let portals = portals(visit);
    let chosen = match values(visit, "portal") {
        none if none.is_empty() => vec![EVERY_ADDRESS],
        some => some,
    };
    let port = visit.form.some("port").unwrap_or(PORT);
    let choices: Vec<Choice<'_>> = portals
        .iter()
        .map(|(value, label)| Choice::new(value, html! { (label) }))
        .collect();
    let asked = html! {
        (some_of("portal", "Addresses at which a new target listens", &chosen, &choices))
        (Field::new("port", "TCP port of a new target").conditional().value(port).number())
    };
    if targets.is_empty() {
        return Ok(asked);
    }
    all.push(Choice::new("new", html! { "A new target" }).hint(asked));
    let first = targets.first().map_or("new", |view| view.spec.iqn.as_str());
    let chosen = visit.form.some("target").unwrap_or(first);
    Ok(one_of(
        "target",
        "At which target does it log in?",
        chosen,
        &all,
    ))
}

/// Returns the addresses of this machine, with words for people.
fn portals(visit: &Visit) -> Vec<(String, String)> {
    let every = (
        EVERY_ADDRESS.to_owned(),
        "Every address of this machine".to_owned(),
    );
    let moment = visit.console.live.now();
    let interfaces = moment.snapshot().interfaces.iter();
    let mut own: Vec<(IpAddr, &str)> = interfaces
        .flat_map(|it| {
            it.addresses
                .iter()
                .map(move |address| (*address, it.name.as_str()))
        })
        // A link-local address means nothing without its interface.
        .filter(|(address, _)| !matches!(address, IpAddr::V6(it) if it.is_unicast_link_local()))
        .collect();
    own.sort_by_key(|(address, name)| (address.is_loopback(), *name, *address));
    let words = |address: &IpAddr, name: &str| match address.is_loopback() {
        true => format!("{address} ({name}, for clients on this machine only)"),
        false => format!("{address} ({name})"),
    };
    let own = own
        .into_iter()
        .map(|(address, name)| (address.to_string(), words(&address, name)));
    [every].into_iter().chain(own).collect()
}

/// Returns the host as `share` takes it: a name, an initiator, or a pattern.
///
/// # Errors
/// No host is named.
pub(super) fn wanted(visit: &Visit) -> Result<String, Error> {
    let form = &visit.form;
    let (name, next) = match form.get("host_kind") {
        "any" => return Ok(ANY.to_owned()),
        "known" => (form.some("host"), "choose a host of the list"),
        _ => (
            form.some("initiator"),
            "enter the host's iSCSI name, such as iqn.1998-01.com.vmware:esx1",
        ),
    };
    let name = name.ok_or_else(|| Error::invalid("no host is named", next))?;
    let is_known = form.get("host_kind") == "known";
    match is_known || begins_as_name(name) || name.contains(['*', '?']) {
        true => Ok(name.to_owned()),
        false => Err(Error::invalid(
            format!("{name:?} is no iSCSI name"),
            "enter a name that begins with iqn., eui. or naa., such as iqn.1998-01.com.vmware:esx1",
        )),
    }
}

/// Returns the portals of a new target.
fn wanted_portals(visit: &Visit) -> Result<Vec<SocketAddr>, Error> {
    let text = visit.form.some("port").unwrap_or(PORT);
    let port: u16 = text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
        Error::invalid(
            format!("{text:?} is not a TCP port"),
            "enter a number from 1 to 65535; 3260 is that of iSCSI",
        )
    })?;
    let chosen = values(visit, "portal");
    if chosen.contains(&EVERY_ADDRESS) && chosen.len() > 1 {
        return Err(Error::invalid(
            "every address is chosen, and single ones beside it",
            "choose either every address, or those that you want",
        ));
    }
    if chosen.is_empty() {
        return Ok(vec![SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)]);
    }
    let parsed = chosen.into_iter().map(|text| {
        let address = text.parse::<IpAddr>().map_err(|_| {
            Error::invalid(
                format!("{text:?} is not an address"),
                "choose addresses of the list",
            )
        })?;
        Ok(SocketAddr::new(address, port))
    });
    parsed.collect()
}

/// Returns the request that makes the unit, and gives it to the host.
///
/// # Errors
/// An answer is missing or wrong.
pub(super) fn share(visit: &Visit, create: CreateUnit) -> Result<Share, Error> {
    let unit = create.name.clone();
    let (target, portals) = match visit.form.some("target") {
        Some(iqn) if iqn != "new" => (iqn.to_owned(), Vec::new()),
        _ => {
            let own = unit.to_ascii_lowercase().replace('_', "-");
            let iqn = format!("{}:{own}", identity::TARGET_PREFIX);
            (iqn, wanted_portals(visit)?)
        }
    };
    Ok(Share {
        host: wanted(visit)?,
        unit,
        create: Some(create),
        target: Some(target),
        portals,
        lun: None,
        read_only: false,
    })
}

/// Shows in words what the host gets, and where.
pub(super) fn told(share: &Share, committed: &Committed) -> Markup {
    let fields = |object: &str| {
        let mut all = committed.differences.iter();
        let found = all.find(|it| it.object == object);
        found.map(|it| it.fields.as_slice()).unwrap_or_default()
    };
    let lun = fields("map").iter().find(|it| it.field == "lun");
    let lun = lun.and_then(|it| it.new.as_deref());
    let portals: Vec<String> = share.portals.iter().map(portal_in_words).collect();
    html! {
        section aria-label="The host" {
            h2 { "The host" }
            p {
                @match share.host.as_str() {
                    ANY => "Any host",
                    host => span.name { (host) },
                }
                " sees it" @if let Some(lun) = lun { " as LUN " (lun) }
                @if let Some(target) = &share.target {
                    " of the target " span.name { (target) }
                    @if !portals.is_empty() { ", which is new and listens at " (portals.join(", ")) }
                }
                "."
            }
        }
    }
}

fn portal_in_words(portal: &SocketAddr) -> String {
    match portal.ip().is_unspecified() {
        true => format!("every address of this machine, port {}", portal.port()),
        false => portal.to_string(),
    }
}

/// Fields of a new unit that the change itself draws, so a preview cannot tell them.
const DRAWN: [&str; 2] = ["naa", "serial"];

/// Returns what the request would change, and changes nothing.
///
/// # Errors
/// The request is refused.
pub(super) fn preview(visit: &Visit, request: Share) -> Result<Committed, Error> {
    let how = Commit {
        dry_run: true,
        ..Commit::default()
    };
    let mut committed = visit.ask(&map::SHARE, &[], how, request)?.committed;
    for difference in &mut committed.differences {
        let fields = &mut difference.fields;
        fields.retain(|it| !DRAWN.contains(&it.field.as_str()));
    }
    Ok(committed)
}
