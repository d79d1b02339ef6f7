//! `map`: the hosts that see each logical unit, and the reasons why not.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::edit::{EditArgs, Request, make, remove};
use super::{Connection, Done, Failure, Terminal};
use crate::grammar::completion::{host_names, lu_names, target_and_group_names};
use crate::print::table::{self, Column, ListArgs, left, print, right};
use config::change::{AddMap, RemoveMap};
use config::explain::{Explanation, Outcome};
use control::answer::{HostView, UnitView};
use control::client::Client;
use control::endpoint::{host, lu, map};
use model::config::{HostSpec, MapSpec};
use model::{Error, name};

#[derive(Debug, Subcommand)]
pub(super) enum MapVerb {
    /// Show a logical unit to a host
    Add(Add),
    /// Stop showing a logical unit to a host
    Remove(Remove),
    /// List the map
    #[command(visible_alias = "show")]
    List(ListArgs),
    /// Explain why an initiator sees a logical unit, or does not
    Explain(Explain),
}

#[derive(Debug, Args)]
pub(super) struct Add {
    /// Name of the logical unit
    #[arg(add = lu_names())]
    lu: String,
    /// Name of the host; without it, every host
    #[arg(long, add = host_names())]
    host: Option<String>,
    /// Show the logical unit to every host
    #[arg(long, conflicts_with = "host", required_unless_present = "host")]
    every_host: bool,
    /// Show it only through this target, or the targets of this target group
    #[arg(long, value_name = "IQN|GROUP", add = target_and_group_names())]
    target: Option<String>,
    /// LUN of the logical unit there [default: the lowest free one]
    #[arg(long)]
    lun: Option<u16>,
    /// Refuse writes through this map
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// Name of the logical unit
    #[arg(add = lu_names())]
    lu: String,
    /// Remove only maps of this host
    #[arg(long, add = host_names())]
    host: Option<String>,
    /// Remove only maps that name this target or target group
    #[arg(long, value_name = "IQN|GROUP", add = target_and_group_names())]
    target: Option<String>,
    /// Remove only maps with this LUN
    #[arg(long)]
    lun: Option<u16>,
    /// Remove every map that fits
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    removal: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// Name of the initiator, or a host for each of its initiators
    #[arg(value_name = "IQN|HOST", add = host_names())]
    initiator: String,
    /// Name of the logical unit; without it, everything that the initiator sees
    #[arg(add = lu_names())]
    lu: Option<String>,
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

/// Map with the identity of its unit, for the listing.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    map: MapSpec,
    naa: String,
}

pub(super) fn run(verb: MapVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        MapVerb::Add(args) => {
            let body = AddMap {
                unit: args.lu,
                host: args.host,
                target: args.target,
                lun: args.lun,
                read_only: args.read_only,
            };
            let request = Request::with(&map::ADD, &[], &body);
            make(t, &client, &args.edit, &request)
        }
        MapVerb::Remove(args) => {
            let body = RemoveMap {
                unit: args.lu,
                host: args.host,
                target: args.target,
                lun: args.lun,
                all: args.all,
            };
            let request = Request::with(&map::REMOVE, &[], &body);
            remove(t, &client, &args.removal, &request, false)
        }
        MapVerb::List(args) => {
            let maps: Vec<MapSpec> = client.call(&map::LIST, &[])?;
            let units: Vec<UnitView> = client.call(&lu::LIST, &[])?;
            let naa = |name: &str| {
                units
                    .iter()
                    .find(|u| u.spec.name == name)
                    .map_or(String::new(), |u| format!("naa.{}", u.spec.naa))
            };
            let rows: Vec<_> = maps
                .into_iter()
                .map(|map| Row {
                    naa: naa(&map.unit),
                    map,
                })
                .collect();
            print(
                t,
                &args,
                &COLUMNS,
                &rows,
                "no maps, so no host sees a logical unit; add one with `sandstone map add LU --host HOST`",
            )
        }
        MapVerb::Explain(args) => explain(&args, &client, t),
    }
}

const COLUMNS: [Column<Row>; 6] = [
    left("lu", |r, _| r.map.unit.clone()),
    left("host", |r, _| {
        r.map.host.clone().unwrap_or_else(|| "*".into())
    }),
    left("target", |r, _| {
        r.map.target.clone().unwrap_or_else(|| "*".into())
    }),
    right("lun", |r, _| r.map.lun.to_string()),
    left("access", |r, _| {
        if r.map.read_only { "ro" } else { "rw" }.into()
    }),
    left("naa", |r, _| r.naa.clone()),
];

fn explain(args: &Explain, client: &Client, t: &mut Terminal<'_>) -> Done {
    let ask = |initiator: &str| {
        let question = map::Question {
            initiator: initiator.to_owned(),
            unit: args.lu.clone(),
        };
        client.ask(&map::EXPLAIN, &[], &question, &())
    };
    let host = named_host(client, &args.initiator)?;
    let answers = match &host {
        None => vec![ask(&args.initiator)?],
        Some(host) => one_by_one(host)?
            .into_iter()
            .map(ask)
            .collect::<Result<_, _>>()?,
    };
    match (args.json, &host) {
        (true, None) => table::json(t, &answers[0])?,
        (true, Some(_)) => table::json(t, &answers)?,
        (false, _) => {
            for (number, answer) in answers.iter().enumerate() {
                if number > 0 {
                    writeln!(t.out)?;
                }
                write_explanation(t, answer)?;
            }
        }
    }
    if answers.iter().all(|answer| answer.visible) {
        Ok(())
    } else {
        Err(Failure::Said)
    }
}

/// Returns the host with this name, unless the name is an initiator's.
fn named_host(client: &Client, named: &str) -> Result<Option<HostSpec>, Failure> {
    if name::begins_as_name(named) {
        return Ok(None);
    }
    let hosts: Vec<HostView> = client.call(&host::LIST, &[])?;
    let mut hosts = hosts.into_iter().map(|host| host.spec);
    Ok(hosts.find(|host| host.name == named))
}

/// Returns the initiators of a host that are named without wildcards.
fn one_by_one(host: &HostSpec) -> Result<Vec<&str>, Failure> {
    let named = host.initiators.iter().map(String::as_str);
    let named: Vec<&str> = named.filter(|it| name::foreign(it).is_ok()).collect();
    if named.is_empty() {
        let what = if host.initiators.is_empty() {
            "no initiators"
        } else {
            "patterns only"
        };
        return Err(Failure::Refused(Error::invalid(
            format!("host {} has {what}", host.name),
            "sandstone map explain IQN, with the name of one client",
        )));
    }
    Ok(named)
}

fn write_explanation(t: &mut Terminal<'_>, answer: &Explanation) -> Done {
    writeln!(t.out, "{}\n", answer.conclusion)?;
    for step in &answer.steps {
        let sign = match step.outcome {
            Outcome::Ok => "ok  ",
            Outcome::Note => "note",
            Outcome::Blocked => "NO  ",
        };
        writeln!(t.out, "  {sign}  {}", step.finding)?;
        if let Some(next) = &step.next {
            writeln!(t.out, "        -> {next}")?;
        }
    }
    if answer.unit.is_none() && !answer.sees.is_empty() {
        writeln!(t.out)?;
        for sight in &answer.sees {
            let access = if sight.read_only { "ro" } else { "rw" };
            writeln!(
                t.out,
                "  LUN {} of {}: {} {access} ({})",
                sight.lun, sight.target, sight.unit, sight.by
            )?;
        }
    }
    Ok(())
}
