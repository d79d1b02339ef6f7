//! `volume list` and `volume get`: datasets, and any of their properties.

use std::collections::BTreeSet;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use serde::Serialize;
use store::catalog::Property;

use super::sort::Sort;
use crate::grammar::completion::{dataset_names, properties};
use crate::print::table::{self, ListArgs, Numbers, left, print, print_cells};
use crate::{Connection, Done, Failure, Terminal};
use control::endpoint::volume::Listed;
use control::endpoint::{pool, volume};
use model::Error;
use model::pool::dataset::DatasetView;
use model::pool::dataset::name::split;
use model::pool::status::PoolView;
use shown::plain;

/// Message to people if there is nothing to list.
const NONE: &str = "no datasets available";
/// Columns of a listing if none are named.
const COLUMNS: [&str; 7] = [
    "name", "used", "avail", "refer", "volsize", "volblock", "type",
];

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Kinds, comma-separated; filesystem and snap mean folder and snapshot
    #[arg(short = 't', value_name = "KIND", value_delimiter = ',', default_values = ["folder", "volume"], value_parser = kinds())]
    kinds: Vec<String>,
    /// Show also the datasets below the named ones
    #[arg(short = 'r')]
    recursive: bool,
    /// Datasets to list [default: all]
    #[arg(add = dataset_names())]
    names: Vec<String>,
    #[command(flatten)]
    sort: Sort,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Kinds, comma-separated
    #[arg(short = 't', value_name = "KIND", value_delimiter = ',', default_values = ["all"], value_parser = kinds())]
    kinds: Vec<String>,
    /// Show also the datasets below the named ones
    #[arg(short = 'r')]
    recursive: bool,
    /// Show only values from these sources, comma-separated: local, default, inherited, received,
    /// none
    #[arg(short = 's', value_name = "SOURCE", value_delimiter = ',', value_parser = ["local", "default", "inherited", "received", "none"])]
    sources: Vec<String>,
    /// Properties, comma-separated, or all
    #[arg(add = properties())]
    properties: String,
    /// Datasets to show [default: all]
    #[arg(add = dataset_names())]
    names: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

/// Returns the kinds of datasets, also in zfs's words.
fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new([
        PossibleValue::new("all"),
        PossibleValue::new("folder").alias("filesystem"),
        PossibleValue::new("volume"),
        PossibleValue::new("snapshot").alias("snap"),
    ])
}

/// Returns the kind that a word means.
fn kind_of(word: &str) -> &str {
    match word {
        "filesystem" => "folder",
        "snap" => "snapshot",
        word => word,
    }
}

/// Returns the question to the daemon for datasets of some kinds, with some of their properties.
fn wanted(kinds: Option<&[&str]>, properties: Option<&[&str]>) -> Listed {
    Listed {
        pool: None,
        kinds: kinds.map(|words| words.join(",")),
        properties: properties.map(|words| words.join(",")),
        ..Listed::default()
    }
}

/// Returns the datasets that a command line means, with the given properties or all.
fn selected(
    t: &mut Terminal<'_>,
    connection: &Connection,
    names: &[String],
    kinds: &[String],
    recursive: bool,
    properties: Option<&[&str]>,
) -> Result<Vec<DatasetView>, Failure> {
    // A dataset that the user names is meant, whatever its kind.
    let asked: Vec<&str> = kinds.iter().map(|kind| kind_of(kind)).collect();
    let asked = Some(&*asked).filter(|kinds| names.is_empty() && !kinds.contains(&"all"));
    let mut all = found(t, connection, names, &wanted(asked, properties))?;
    if let Some(missing) = names
        .iter()
        .find(|name| !all.iter().any(|d| d.name == **name))
    {
        let message = format!("'{missing}' does not exist");
        let next = "list the datasets with `sandstone volume list -t all`";
        return Err(Error::not_found(message, next).into());
    }
    let is_below = |dataset: &str, name: &str| {
        let rest = dataset.strip_prefix(name);
        rest.is_some_and(|rest| recursive && rest.starts_with(['/', '@']))
    };
    all.retain(|dataset| {
        let mut of_kinds = kinds.iter().map(|kind| kind_of(kind));
        let is_kind = of_kinds.any(|kind| kind == "all" || kind == dataset.kind);
        let is_named = names.is_empty()
            || names
                .iter()
                .any(|name| dataset.name == *name || is_below(&dataset.name, name));
        is_named && (is_kind || names.contains(&dataset.name))
    });
    Ok(all)
}

/// Returns the snapshots of these names. With `is_recursive`, returns those of all volumes below
/// too.
pub(super) fn snapshots(
    t: &mut Terminal<'_>,
    connection: &Connection,
    names: &[String],
    is_recursive: bool,
) -> Result<Vec<DatasetView>, Failure> {
    let wanted = wanted(Some(&["snapshot"]), Some(&[]));
    let mut all = found(t, connection, names, &wanted)?;
    let is_meant = |name: &str, wanted: &str| {
        let below = name.rsplit_once('@').zip(wanted.rsplit_once('@'));
        name == wanted
            || below.is_some_and(|((volume, own), (above, snapshot))| {
                let rest = volume.strip_prefix(above);
                is_recursive && own == snapshot && rest.is_some_and(|rest| rest.starts_with('/'))
            })
    };
    for wanted in names {
        if !all.iter().any(|found| is_meant(&found.name, wanted)) {
            let message = format!("there is no snapshot '{wanted}'");
            let next = "list the snapshots with `sandstone volume list -t snapshot`";
            return Err(Error::not_found(message, next).into());
        }
    }
    all.retain(|found| names.iter().any(|wanted| is_meant(&found.name, wanted)));
    Ok(all)
}

/// Returns the datasets of the named pools, or of all pools. Prints the reason for each pool that
/// does not answer.
fn found(
    t: &mut Terminal<'_>,
    connection: &Connection,
    names: &[String],
    wanted: &Listed,
) -> Result<Vec<DatasetView>, Failure> {
    let client = connection.client();
    let of_pool = |pool: &str| -> Result<Vec<DatasetView>, Error> {
        let of_pool = Listed {
            pool: Some(pool.to_owned()),
            ..wanted.clone()
        };
        client.ask(&volume::LIST, &[], &of_pool, &())
    };
    if !names.is_empty() {
        let pools: BTreeSet<&str> = names.iter().map(|name| split(name).0).collect();
        let all: Result<Vec<_>, Error> = pools.into_iter().map(of_pool).collect();
        return Ok(all?.concat());
    }
    let all: Vec<DatasetView> = client.ask(&volume::LIST, &[], wanted, &())?;
    let pools: Vec<PoolView> = client.call(&pool::LIST, &[])?;
    for PoolView { name, .. } in &pools {
        if all.iter().any(|dataset| dataset.name == *name) {
            continue;
        }
        if let Err(error) = of_pool(name) {
            writeln!(
                t.err,
                "the datasets of {name} are not listed: {}",
                error.message
            )?;
        }
    }
    Ok(all)
}

/// Columns for which zfs has a shorthand: the use of space.
const SPACE: [&str; 7] = [
    "name",
    "available",
    "used",
    "usedbysnapshots",
    "usedbydataset",
    "usedbyrefreservation",
    "usedbychildren",
];

pub(super) fn list(t: &mut Terminal<'_>, connection: &Connection, args: &List) -> Done {
    let named = args.list.named_columns().iter();
    let mut columns: Vec<&str> = named.map(|name| name.trim()).collect();
    if columns.is_empty() {
        columns.extend(COLUMNS);
    }
    if columns == ["space"] {
        columns = SPACE.to_vec();
    }
    columns
        .iter()
        .map(|name| full_name(name))
        .try_for_each(known)?;
    let shown = columns.iter().map(|name| full_name(name));
    let shown: Vec<&str> = shown.chain(args.sort.properties()).collect();
    // JSON has all of them.
    let shown = Some(&*shown).filter(|_| !args.list.json);
    let (names, kinds) = (&args.names, &args.kinds);
    let mut rows = selected(t, connection, names, kinds, args.recursive, shown)?;
    args.sort.sort(&mut rows)?;
    if args.list.json {
        return table::json(t, &rows);
    }
    let numbers = args.list.numbers();
    let line = |row: &DatasetView| -> Vec<String> {
        let cells = columns.iter();
        cells
            .map(|name| plain(&cell(row, full_name(name), numbers)))
            .collect()
    };
    let cells: Vec<Vec<String>> = rows.iter().map(line).collect();
    let is_number = |text: &String| text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let columns: Vec<(&str, bool)> = columns
        .iter()
        .enumerate()
        .map(|(at, name)| (*name, cells.iter().all(|row| is_number(&row[at]))))
        .collect();
    print_cells(t, &args.list, &columns, &cells, NONE)
}

/// Returns a property's full name, if a shorter one is given.
fn full_name(name: &str) -> &str {
    match name {
        "avail" => "available",
        "refer" => "referenced",
        "volblock" => "volblocksize",
        "refreserv" => "refreservation",
        "compress" => "compression",
        "lused" => "logicalused",
        "lrefer" => "logicalreferenced",
        "ratio" => "compressratio",
        "refratio" => "refcompressratio",
        name => name,
    }
}

/// Refuses a property that no dataset can have.
fn known(name: &str) -> Result<(), Error> {
    if name == "name" {
        return Ok(());
    }
    Property::parse(name)
        .map(drop)
        .map_err(|error| Error::invalid(error.message, error.next))
}

fn cell(dataset: &DatasetView, property: &str, numbers: Numbers) -> String {
    if property == "name" {
        return dataset.name.clone();
    }
    let found = dataset.properties.iter().find(|p| p.name == property);
    let value = found.map(|found| match numbers {
        Numbers::Short => &found.rounded,
        Numbers::Exact => &found.value,
    });
    let value = value.filter(|value| !value.is_empty());
    value.cloned().unwrap_or_else(|| "-".to_owned())
}

/// Property of a dataset, as `get` shows it.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    property: String,
    value: String,
    #[serde(skip)]
    rounded: String,
    source: String,
}

pub(super) fn get(t: &mut Terminal<'_>, connection: &Connection, args: &Get) -> Done {
    let properties: Vec<&str> = args.properties.split(',').map(full_name).collect();
    let is_all = properties.contains(&"all");
    let named = properties.iter().filter(|name| **name != "all");
    named.copied().try_for_each(known)?;
    let (names, kinds) = (&args.names, &args.kinds);
    let asked = Some(&*properties).filter(|_| !is_all);
    let datasets = selected(t, connection, names, kinds, args.recursive, asked)?;
    let mut rows = Vec::new();
    for dataset in &datasets {
        if is_all {
            let all = dataset.properties.iter().map(|p| p.name.as_str());
            rows.extend(all.map(|name| row(dataset, name)));
        } else {
            rows.extend(properties.iter().map(|name| row(dataset, name)));
        }
    }
    rows.retain(|row: &Row| {
        args.sources.is_empty()
            || args.sources.iter().any(|source| match source.as_str() {
                "none" => row.source == "-",
                source => row.source.starts_with(source),
            })
    });
    let columns = [
        left("name", |r: &Row, _| r.name.clone()),
        left("property", |r: &Row, _| r.property.clone()),
        left("value", |r: &Row, n| match n {
            Numbers::Short => r.rounded.clone(),
            Numbers::Exact => r.value.clone(),
        }),
        left("source", |r: &Row, _| r.source.clone()),
    ];
    print(t, &args.list, &columns, &rows, NONE)
}

fn row(dataset: &DatasetView, name: &str) -> Row {
    let found = dataset.properties.iter().find(|p| p.name == name);
    let dash = || "-".to_owned();
    Row {
        name: dataset.name.clone(),
        property: name.to_owned(),
        value: found.map_or_else(dash, |p| p.value.clone()),
        rounded: found.map_or_else(dash, |p| p.rounded.clone()),
        source: found.map_or_else(dash, |p| p.source.clone()),
    }
}
