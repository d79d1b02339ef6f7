//! `pool disks`: the disks of this machine, from which pools are made.

use clap::Args;

use super::super::{Connection, Done, Terminal};
use crate::print::table::{Column, ListArgs, extra, left, print, right};
use control::endpoint::disk;
use model::disk::{DiskView, LocateDisk};

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

const COLUMNS: [Column<DiskView>; 9] = [
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
    extra(left("node", |disk, _| disk.node.clone())),
    extra(left("wwn", |disk, _| dash(disk.wwn.as_ref()))),
    extra(left("rotational", |disk, _| {
        if disk.is_rotational { "yes" } else { "no" }.to_owned()
    })),
];

fn dash(text: Option<&String>) -> String {
    text.map_or("-", String::as_str).to_owned()
}
