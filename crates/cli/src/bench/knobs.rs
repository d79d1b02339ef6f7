//! `bench knobs`: lists the knobs that a sweep can turn, so that nobody has to guess names.

use clap::Args as ClapArgs;
use serde::Serialize;

use crate::print::table::{self, Column, ListArgs, left};
use crate::{Done, Terminal};
use bench::sweep::knob::{Knob, Registry};
use bench::sweep::session_knobs::session_knobs;
use bench::sweep::volume_knobs::volume_knobs;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    list: ListArgs,
}

/// Knob of a sweep.
#[derive(Debug, Serialize)]
struct Row {
    knob: String,
    of: &'static str,
    values: Vec<String>,
    about: String,
}

pub(super) fn run(args: &Args, t: &mut Terminal<'_>) -> Done {
    let mut registry = Registry::of_every_target();
    let of_all: Vec<String> = registry.iter().map(|knob| knob.name().to_owned()).collect();
    let of_volumes: Vec<String> = volume_knobs().map(|knob| knob.name().to_owned()).collect();
    session_knobs().for_each(|knob| registry.add(knob));
    let row = |knob: &dyn Knob| Row {
        knob: knob.name().to_owned(),
        of: match knob.name() {
            name if of_all.iter().any(|of_all| of_all == name) => "any target",
            name if of_volumes.iter().any(|of_volumes| of_volumes == name) => "Sandstone volumes",
            _ => "logical units",
        },
        values: knob.values(),
        about: knob.about().to_owned(),
    };
    let rows: Vec<Row> = registry.iter().map(row).collect();
    if args.list.json {
        return table::json(t, &rows);
    }
    table::print(t, &args.list, COLUMNS, &rows, "there are no knobs")
}

const COLUMNS: &[Column<Row>] = &[
    left("knob", |row, _| row.knob.clone()),
    left("of", |row, _| row.of.to_owned()),
    left("values", |row, _| row.values.join(",")),
    left("about", |row, _| row.about.clone()),
];
