//! `volume hold`, `release` and `holds`: names under which snapshots are kept from being destroyed.

use clap::Args;
use serde::Serialize;

use crate::grammar::completion::snapshot_names;
use crate::print::table::{ListArgs, Numbers, left, print};
use crate::{Connection, Done, Terminal};
use model::date;
use model::pool::dataset::change::DatasetChange;

#[derive(Debug, Args)]
pub(crate) struct Hold {
    /// Include snapshots of all volumes below
    #[arg(short = 'r')]
    recursive: bool,
    /// Name of the hold, which tells who keeps the snapshots
    tag: String,
    /// tank/vm1@monday
    #[arg(required = true, value_name = "SNAPSHOT", add = snapshot_names())]
    names: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Holds {
    /// Show holds of snapshots of that name of all volumes below too
    #[arg(short = 'r')]
    recursive: bool,
    /// tank/vm1@monday
    #[arg(required = true, value_name = "SNAPSHOT", add = snapshot_names())]
    names: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

/// Hold, as it is listed.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    tag: String,
    created_s: u64,
}

impl Hold {
    pub(super) fn hold(self) -> DatasetChange {
        DatasetChange::Hold {
            tag: self.tag,
            names: self.names,
            recursive: self.recursive,
        }
    }

    pub(super) fn release(self) -> DatasetChange {
        DatasetChange::Release {
            tag: self.tag,
            names: self.names,
            recursive: self.recursive,
        }
    }
}

pub(super) fn holds(t: &mut Terminal<'_>, connection: &Connection, args: &Holds) -> Done {
    let snapshots = super::list::snapshots(t, connection, &args.names, args.recursive)?;
    let mut rows = Vec::new();
    for snapshot in snapshots {
        rows.extend(snapshot.holds.into_iter().map(|hold| Row {
            name: snapshot.name.clone(),
            tag: hold.tag,
            created_s: hold.created_s,
        }));
    }
    let columns = [
        left("name", |r: &Row, _| r.name.clone()),
        left("tag", |r: &Row, _| r.tag.clone()),
        left("timestamp", |r: &Row, n| match n {
            Numbers::Short => date::utc_minute(r.created_s),
            Numbers::Exact => r.created_s.to_string(),
        }),
    ];
    print(t, &args.list, &columns, &rows, "no holds")
}
