//! `initiator path` and `initiator lun`: the paths to devices, in the words of `esxcli storage nmp
//! path`.

use clap::Subcommand;
use serde::Serialize;

use super::super::{Connection, Done, Terminal};
use super::ListOf;
use crate::print::table::{Column, extra, left, or_dash, print, right};
use control::answer::DeviceView;
use model::initiator::view::InitiatorPath;
use multipath::PathSnapshot;

#[derive(Debug, Subcommand)]
pub(in super::super) enum PathVerb {
    /// List paths; dead ones with the reason
    #[command(visible_alias = "show")]
    List(ListOf),
}

#[derive(Debug, Subcommand)]
pub(in super::super) enum LunVerb {
    /// List the logical units that each target shows
    #[command(visible_alias = "show")]
    List(ListOf),
}

/// Path with its device.
#[derive(Serialize)]
struct Row {
    device: String,
    #[serde(flatten)]
    path: PathSnapshot,
    #[serde(flatten)]
    way: InitiatorPath,
}

pub(super) fn run(verb: PathVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let PathVerb::List(args) = verb;
    let devices = args.fetch(connection)?;
    let mut rows: Vec<Row> = devices.into_iter().flat_map(rows).collect();
    rows.sort_by(|a, b| (&a.device, &a.path.runtime_name).cmp(&(&b.device, &b.path.runtime_name)));
    let none =
        "no paths; `sandstone initiator session list` shows the sessions that should have some";
    print(t, &args.list, &COLUMNS, &rows, none)
}

fn rows(device: DeviceView) -> impl Iterator<Item = Row> {
    let name = device.state.nmp.name;
    let paths = device.state.nmp.paths.into_iter().zip(device.state.ways);
    paths.map(move |(path, way)| Row {
        device: name.clone(),
        path,
        way,
    })
}

const COLUMNS: [Column<Row>; 13] = [
    left("path", |r, _| r.path.runtime_name.clone()),
    left("device", |r, _| r.device.clone()),
    left("state", |r, _| r.path.group_state.clone()),
    left("target", |r, _| r.way.target.clone()),
    left("portal", |r, _| r.way.portal.clone()),
    right("actv", |r, _| r.path.active.to_string()),
    right("latency", |r, _| match r.path.latency_us {
        0.0 => "-".into(),
        us if us < 1000.0 => format!("{us:.0}us"),
        us => format!("{:.2}ms", us / 1000.0),
    }),
    left("reason", |r, _| {
        or_dash(r.way.reason.as_deref().unwrap_or_default())
    }),
    extra(left("uid", |r, _| r.path.uid.clone())),
    extra(left("source", |r, _| {
        or_dash(r.way.source.as_deref().unwrap_or_default())
    })),
    extra(right("window", |r, _| r.path.window.to_string())),
    extra(left("satp-config", |r, _| r.path.satp_path_config.clone())),
    extra(left("psp-config", |r, _| r.path.psp_path_config.clone())),
];

/// Logical unit at a target.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Lun {
    target: String,
    lun: u16,
    device: String,
    size: u64,
    vendor: String,
    model: String,
    serial: Option<String>,
    paths: usize,
}

pub(super) fn run_lun(verb: LunVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let LunVerb::List(args) = verb;
    let mut luns: Vec<Lun> = Vec::new();
    for DeviceView { state, .. } in args.fetch(connection)? {
        for way in &state.ways {
            let same = |lun: &&mut Lun| {
                lun.target == way.target && Some(lun.lun) == way.lun && lun.device == state.nmp.name
            };
            match (luns.iter_mut().find(same), way.lun) {
                (Some(lun), _) => lun.paths += 1,
                (None, None) => {}
                (None, Some(number)) => luns.push(Lun {
                    target: way.target.clone(),
                    lun: number,
                    device: state.nmp.name.clone(),
                    size: state.size,
                    vendor: state.vendor.clone(),
                    model: state.model.clone(),
                    serial: state.serial.clone(),
                    paths: 1,
                }),
            }
        }
    }
    luns.sort();
    print(
        t,
        &args.list,
        &LUN_COLUMNS,
        &luns,
        "no LUNs; the storage must map units to this initiator: `sandstone initiator adapter get` shows its name",
    )
}

const LUN_COLUMNS: [Column<Lun>; 8] = [
    left("target", |l, _| l.target.clone()),
    right("lun", |l, _| l.lun.to_string()),
    left("device", |l, _| l.device.clone()),
    right("size", |l, n| n.size(l.size)),
    left("vendor", |l, _| or_dash(&l.vendor)),
    left("model", |l, _| or_dash(&l.model)),
    right("paths", |l, _| l.paths.to_string()),
    extra(left("serial", |l, _| {
        or_dash(l.serial.as_deref().unwrap_or_default())
    })),
];
