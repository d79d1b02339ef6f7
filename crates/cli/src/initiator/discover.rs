//! `initiator discover`: lists the targets that portals or a server know. It needs no daemon.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs};
use iscsi::chap::ChapCredential;
use iscsi::send_targets::DiscoveredTarget;
use serde::Serialize;

use super::super::secret::LoginSecrets;
use super::super::{Done, Failure, Program, Terminal};
use crate::print::table::{Column, ListArgs, left, print, right};
use config::change::SetChap;
use initiator::discovery::send_targets;
use initiator::own_name;
use model::initiator::configured::named_algorithms;
use model::initiator::settings::SessionSettings;
use model::initiator::url;
use model::{Error, ErrorKind, name};

/// Options that name the portals or server to ask, and the user to ask as.
#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("where").args(["portals", "isns"]).required(true).multiple(true)))]
pub(in super::super) struct Args {
    /// Portals to ask by SendTargets; port 3260 if none is named
    #[arg(value_name = "PORTAL")]
    portals: Vec<String>,
    /// Ask this iSNS server; port 3205 if none is named
    #[arg(long, value_name = "SERVER")]
    isns: Option<String>,
    #[command(flatten)]
    secrets: LoginSecrets,
    /// CHAP_A to offer, the preferred one first; no other is ever used [default:
    /// sha3-256,sha1,md5,sha256]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    chap_algorithms: Vec<String>,
    /// Start from this source address, or at this network interface (needs root)
    #[arg(long, value_name = "ADDR|IFACE")]
    bind: Option<String>,
    /// iSCSI name of this machine [default: made of the host name]
    #[arg(long, value_name = "IQN")]
    initiator_name: Option<String>,
    /// Most time that one portal or server may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    #[command(flatten)]
    list: ListArgs,
}

/// Portal of a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Row {
    target: String,
    portal: String,
    portal_group_tag: u16,
}

const COLUMNS: [Column<Row>; 3] = [
    left("target", |r, _| r.target.clone()),
    left("portal", |r, _| r.portal.clone()),
    right("tpgt", |r, _| r.portal_group_tag.to_string()),
];

pub(super) fn run(program: &Program, args: &Args, t: &mut Terminal<'_>) -> Done {
    let name = match &args.initiator_name {
        None => own_name::initiator_name(),
        Some(given) => initiator_name(given)?,
    };
    let limit = Duration::from_secs(args.timeout);
    let mut rows = BTreeSet::new();
    let mut failed = Vec::new();
    let mut notes = Vec::new();
    if !args.portals.is_empty() {
        let mut settings = SessionSettings::new(&name);
        let (ours, theirs) = args.secrets.read(t)?;
        if !args.chap_algorithms.is_empty() {
            settings.chap_algorithms = named_algorithms(&args.chap_algorithms).ok_or_else(|| {
                Error::invalid(
                    "a CHAP algorithm is unknown, or is named twice",
                    "name some of sha3-256, sha256, sha1 and md5, each once, the preferred one first",
                )
            })?;
        }
        settings.credential = ours.map(credential);
        settings.target_credential = theirs.map(credential);
        let bind = args.bind.as_deref().map(url::bind);
        for portal in &args.portals {
            match send_targets(portal, bind.as_ref(), &settings, limit) {
                Ok(found) => {
                    notes.extend(found.notes.into_iter().map(|note| (portal.clone(), note)));
                    rows.extend(found.targets.into_iter().flat_map(rows_of));
                }
                Err(error) => failed.push(Error::new(
                    ErrorKind::Unavailable,
                    error.to_string(),
                    error.next(),
                )),
            }
        }
    }
    if let Some(server) = &args.isns {
        match ask_isns(program, server, &name, limit) {
            Ok(found) => {
                let (usable, odd): (Vec<Row>, Vec<Row>) = found
                    .into_iter()
                    .partition(|row| name::foreign(&row.target).is_ok());
                rows.extend(usable);
                notes.extend(odd.into_iter().map(|row| {
                    let note = format!("left out: {:?} is not the name of a target", row.target);
                    (server.clone(), note)
                }));
            }
            Err(error) => failed.push(error),
        }
    }
    let rows: Vec<Row> = rows.into_iter().collect();
    if !rows.is_empty() || failed.is_empty() {
        let none = format!(
            "no targets for {name}; map the storage to this name, or give another with --initiator-name"
        );
        print(t, &args.list, &COLUMNS, &rows, &none)?;
    }
    for (portal, note) in &notes {
        writeln!(t.err, "{portal}: {note}")?;
    }
    // Targets that were found are shown even if other portals could not be asked.
    let last = failed.pop();
    for error in &failed {
        super::super::report(t.err, error)?;
    }
    last.map_or(Ok(()), |error| Err(Failure::Refused(error)))
}

fn rows_of(target: DiscoveredTarget) -> impl Iterator<Item = Row> {
    let name = target.name;
    target.portals.into_iter().map(move |portal| Row {
        target: name.clone(),
        portal: portal.address,
        portal_group_tag: portal.portal_group_tag,
    })
}

/// Returns the name by which the storage knows this machine, exactly.
pub(super) fn initiator_name(given: &str) -> Result<String, Error> {
    match name::foreign(given) {
        Ok(()) => Ok(given.to_owned()),
        Err(fault) => Err(Error::invalid(
            format!("{given:?} is not the name of an initiator: {fault}"),
            "use a name such as iqn.2024-08.com.example:host1",
        )),
    }
}

fn credential(chap: SetChap) -> ChapCredential {
    ChapCredential {
        name: chap.user,
        secret: chap.secret.into_bytes(),
    }
}

fn ask_isns(
    program: &Program,
    server: &str,
    name: &str,
    limit: Duration,
) -> Result<Vec<Row>, Error> {
    let unreachable = |error: &dyn std::fmt::Display| {
        Error::new(
            ErrorKind::Unavailable,
            format!("iSNS server {server}: {error}"),
            "check its address and that it listens (the usual port is 3205), or ask a portal by SendTargets",
        )
    };
    let address = isns_address(server).map_err(|error| unreachable(&error))?;
    let found =
        (program.isns_targets)(address, name, limit).map_err(|error| unreachable(&error))?;
    let rows = found.into_iter().flat_map(|target| {
        let name = target.name;
        target.portals.into_iter().map(move |(portal, tag)| Row {
            target: name.clone(),
            portal: portal.to_string(),
            portal_group_tag: tag,
        })
    });
    Ok(rows.collect())
}

fn isns_address(server: &str) -> std::io::Result<SocketAddr> {
    let port = iscsi::isns::DEFAULT_PORT;
    let found = match server.parse::<std::net::IpAddr>() {
        Ok(ip) => Some(SocketAddr::new(ip, port)),
        Err(_) if server.contains(':') => server.to_socket_addrs()?.next(),
        Err(_) => (server, port).to_socket_addrs()?.next(),
    };
    found.ok_or_else(|| std::io::ErrorKind::NotFound.into())
}
