//! `pool disks`: the disks of this machine, from which pools are made.

use clap::Args;

use super::super::{Connection, Done, Terminal};
use crate::print::table::{Column, ListArgs, extra, left, print, right};
use control::endpoint::disk;
use model::disk::{DiskHealth, DiskView, LocateDisk};

#[derive(Debug, Args)]
pub(in super::super) struct Disks {
    /// Light the lamp of the slot that this disk is in, named by path or serial number
    #[arg(long, value_name = "DISK")]
    locate: Option<String>,
    /// Put the lamp out
    #[arg(long, requires = "locate")]
    off: bool,
    #[command(flatten)]
    list: ListArgs,
}

pub(super) fn run(t: &mut Terminal<'_>, connection: &Connection, args: &Disks) -> Done {
    let client = connection.client();
    if let Some(disk) = &args.locate {
        let body = LocateDisk {
            disk: disk.clone(),
            on: !args.off,
        };
        return Ok(client.ask(&disk::LOCATE, &[], &(), &body)?);
    }
    let disks = client.call(&disk::LIST, &[])?;
    print(t, &args.list, &COLUMNS, &disks, "this machine has no disks")
}

const COLUMNS: [Column<DiskView>; 13] = [
    left("path", |disk, _| disk.path.clone()),
    right("size", |disk, numbers| numbers.size(disk.size)),
    left("model", |disk, _| dash(disk.model.as_ref())),
    left("serial", |disk, _| {
        dash(disk.serial.as_ref().or(disk.wwn.as_ref()))
    }),
    left("slot", |disk, _| dash(disk.slot.as_ref())),
    left("use", |disk, _| match (&disk.in_use, &disk.holds) {
        (Some(why), _) => why.clone(),
        (None, Some(holds)) => format!("free; holds {holds}"),
        (None, None) => "free".to_owned(),
    }),
    left("health", |disk, _| match &disk.health {
        Some(health) => health.verdict.word().to_owned(),
        None => "-".to_owned(),
    }),
    extra(left("reasons", |disk, _| match &disk.health {
        Some(health) if !health.reasons.is_empty() => health.reasons.join("; "),
        _ => "-".to_owned(),
    })),
    extra(right("temperature", |disk, _| {
        of_health(disk, |of| {
            of.temperature_c.map(|degrees| format!("{degrees}C"))
        })
    })),
    extra(right("hours", |disk, _| {
        of_health(disk, |of| of.power_on_hours.map(|hours| hours.to_string()))
    })),
    extra(left("node", |disk, _| disk.node.clone())),
    extra(left("wwn", |disk, _| dash(disk.wwn.as_ref()))),
    extra(left("rotational", |disk, _| {
        if disk.is_rotational { "yes" } else { "no" }.to_owned()
    })),
];

fn of_health(disk: &DiskView, figure: impl Fn(&DiskHealth) -> Option<String>) -> String {
    dash(disk.health.as_ref().and_then(figure).as_ref())
}

fn dash(text: Option<&String>) -> String {
    text.map_or("-", String::as_str).to_owned()
}
