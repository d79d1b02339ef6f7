//! `bench profiles`: lists the built-in profiles.

use clap::Args as ClapArgs;
use serde::Serialize;

use crate::print::table::{self, Column, ListArgs, left, right};
use crate::{Done, Terminal};
use bench::profile;
use iometer::access::AccessLine;
use model::Error;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Profile to list; without a name, all
    name: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

/// One line of an access specification, with its profile and workload.
#[derive(Debug, Serialize)]
struct Row {
    profile: String,
    workload: String,
    specification: String,
    line: AccessLine,
    outstanding: Option<u32>,
    workers: Option<u32>,
}

pub(super) fn run(args: &Args, t: &mut Terminal<'_>) -> Done {
    let wanted = |name: &str| {
        args.name
            .as_ref()
            .is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
    };
    let profiles = profile::built_in();
    let profiles: Vec<_> = profiles
        .into_iter()
        .filter(|profile| wanted(&profile.name))
        .collect();
    if profiles.is_empty() {
        let name = args.name.as_deref().unwrap_or_default();
        return Err(Error::not_found(
            format!("there is no profile {name}"),
            "leave the name out to see all profiles",
        )
        .into());
    }
    if args.list.json {
        return table::json(t, &profiles);
    }
    let mut rows = Vec::new();
    for profile in profiles {
        for workload in profile.workloads {
            for stream in workload.streams {
                rows.extend(stream.specification.lines.iter().map(|line| Row {
                    profile: profile.name.clone(),
                    workload: workload.name.clone(),
                    specification: stream.specification.name.clone(),
                    line: *line,
                    outstanding: stream.outstanding,
                    workers: stream.workers,
                }));
            }
        }
    }
    table::print(t, &args.list, COLUMNS, &rows, "there are no profiles")
}

fn or_run(number: Option<u32>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

const COLUMNS: &[Column<Row>] = &[
    left("profile", |row, _| row.profile.clone()),
    left("workload", |row, _| row.workload.clone()),
    table::extra(left("specification", |row, _| row.specification.clone())),
    right("size", |row, n| n.size(u64::from(row.line.size))),
    right("share%", |row, _| row.line.of_size_percent.to_string()),
    right("read%", |row, _| row.line.reads_percent.to_string()),
    right("random%", |row, _| row.line.random_percent.to_string()),
    table::extra(right("align", |row, n| n.size(u64::from(row.line.align)))),
    right("outstanding", |row, _| or_run(row.outstanding)),
    right("workers", |row, _| or_run(row.workers)),
];
