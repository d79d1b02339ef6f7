//! `volume`: volumes, snapshots and folders of pools, in zfs's manner.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use hyper::Method;
use serde::Serialize;

use self::sort::Sort;
use super::completion::size;
use super::pool::confirm;
use super::stream;
use super::table::{Column, ListArgs, Numbers, extra, left, print, right};
use super::{Connection, Done, Terminal};
use crate::config::Error;
use crate::pool::dataset::{DatasetChange, DatasetView};

mod sort;

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a volume, or without -V a folder
    #[command(disable_version_flag = true)]
    Create(Create),
    /// List datasets
    List(List),
    /// Destroy datasets and everything in them
    Destroy(Destroy),
    /// Take snapshots, all of the same moment
    #[command(visible_alias = "snap")]
    Snapshot(Snapshot),
    /// Make a volume again what it was
    Rollback(Rollback),
    /// Make a volume that begins as a snapshot is
    Clone(CloneArgs),
    /// Let a clone take over the snapshots that it depends on
    Promote(Named),
    /// Give a dataset another name
    #[command(visible_alias = "mv")]
    Rename(Rename),
    /// Show properties and where their values come from
    Get(Get),
    /// Set properties
    Set(Set),
    /// Let a property be what it is above, or by default
    Inherit(Inherit),
    /// Write a snapshot, or what changed since another one, as a stream
    Send(stream::Send),
    /// Make a volume and its snapshots of a stream
    #[command(visible_alias = "recv")]
    Receive(stream::Receive),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// A volume of this size, as in 750G
    #[arg(short = 'V', value_name = "SIZE", value_parser = size)]
    volume: Option<u64>,
    /// Sparse: reserve no space for it
    #[arg(short = 's', requires = "volume")]
    sparse: bool,
    /// volblocksize: the size that it is stored and checked by [default: 16K]
    #[arg(short = 'b', value_name = "SIZE", value_parser = size, requires = "volume")]
    block_size: Option<u64>,
    /// Make missing folders above it
    #[arg(short = 'p')]
    parents: bool,
    /// Set a property; may be given several times
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = assignment)]
    properties: Vec<(String, String)>,
    /// Its name with the pool's, as in tank/vm1
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Kinds, comma-separated: folder, volume, snapshot, all
    #[arg(short = 't', value_name = "KIND", value_delimiter = ',', default_values = ["folder", "volume"], value_parser = ["all", "folder", "filesystem", "volume", "snapshot", "snap"])]
    kinds: Vec<String>,
    /// Those below the named ones too
    #[arg(short = 'r')]
    recursive: bool,
    /// Only these
    names: Vec<String>,
    #[command(flatten)]
    sort: Sort,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
pub(super) struct Destroy {
    /// All below too; of a snapshot those of its name below its folder or volume
    #[arg(short = 'r')]
    recursive: bool,
    /// Clones too, wherever they are
    #[arg(short = 'R')]
    clones: bool,
    /// Do not ask
    #[arg(short = 'y', long, visible_short_alias = 'f', visible_alias = "force")]
    yes: bool,
    /// Which; snapshots of a volume also as tank/vm1@a,b or tank/vm1@first%last
    #[arg(required = true)]
    names: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Snapshot {
    /// Of all volumes below too
    #[arg(short = 'r')]
    recursive: bool,
    /// Set a property of your own (with a colon in its name)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = assignment)]
    properties: Vec<(String, String)>,
    /// tank/vm1@monday
    #[arg(required = true)]
    names: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Rollback {
    /// Destroy newer snapshots
    #[arg(short = 'r')]
    recursive: bool,
    /// Destroy newer snapshots and their clones
    #[arg(short = 'R')]
    clones: bool,
    /// The snapshot
    snapshot: String,
}

#[derive(Debug, Args)]
pub(super) struct CloneArgs {
    /// Make missing folders above it
    #[arg(short = 'p')]
    parents: bool,
    /// Set a property; may be given several times
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = assignment)]
    properties: Vec<(String, String)>,
    /// The snapshot
    snapshot: String,
    /// The volume
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The clone
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Rename {
    /// Make missing folders above it
    #[arg(short = 'p')]
    parents: bool,
    /// Of a snapshot: all of its name below too
    #[arg(short = 'r')]
    recursive: bool,
    /// Its name
    from: String,
    /// Its name from now on, in full
    to: String,
}

#[derive(Debug, Args)]
pub(super) struct Get {
    /// Kinds, comma-separated
    #[arg(short = 't', value_name = "KIND", value_delimiter = ',', default_values = ["all"], value_parser = ["all", "folder", "filesystem", "volume", "snapshot", "snap"])]
    kinds: Vec<String>,
    /// Those below the named ones too
    #[arg(short = 'r')]
    recursive: bool,
    /// Only values from these sources, comma-separated: local, default, inherited, received, none
    #[arg(short = 's', value_name = "SOURCE", value_delimiter = ',', value_parser = ["local", "default", "inherited", "received", "none"])]
    sources: Vec<String>,
    /// Properties, comma-separated, or all
    properties: String,
    /// Of these datasets [default: all]
    names: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
pub(super) struct Set {
    /// A smaller volsize may cut off what lies beyond it
    #[arg(long)]
    shrink: bool,
    /// PROPERTY=VALUE …, then the dataset
    #[arg(required = true, num_args = 2.., value_name = "PROPERTY=VALUE… NAME")]
    words: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Inherit {
    /// Of all below too
    #[arg(short = 'r')]
    recursive: bool,
    /// The property
    property: String,
    /// The dataset
    name: String,
}

/// Reads `property=value`.
fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write PROPERTY=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(verb: Verb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let change = match verb {
        Verb::List(args) => return list(t, connection, &args),
        Verb::Get(args) => return get(t, connection, &args),
        Verb::Send(args) => return stream::send(args, connection, t),
        Verb::Receive(args) => return stream::receive(&args, connection, t),
        Verb::Destroy(args) => {
            if !args.yes {
                let all = args.names.join(" ");
                let question = format!("Everything in {all} is lost. Destroy it? [y/N] ");
                confirm(t, &question, &format!("sandstone volume destroy -y {all}"))?;
            }
            DatasetChange::Destroy {
                names: args.names,
                recursive: args.recursive,
                clones: args.clones,
            }
        }
        Verb::Create(args) => create(args)?,
        Verb::Snapshot(args) => DatasetChange::Snapshot {
            names: args.names,
            recursive: args.recursive,
            properties: args.properties.into_iter().collect(),
        },
        Verb::Rollback(args) => DatasetChange::Rollback {
            snapshot: args.snapshot,
            recursive: args.recursive,
            clones: args.clones,
        },
        Verb::Clone(args) => DatasetChange::Clone {
            snapshot: args.snapshot,
            name: args.name,
            parents: args.parents,
            properties: args.properties.into_iter().collect(),
        },
        Verb::Promote(args) => DatasetChange::Promote { name: args.name },
        Verb::Rename(args) => DatasetChange::Rename {
            from: args.from,
            to: args.to,
            parents: args.parents,
            recursive: args.recursive,
        },
        Verb::Set(args) => set(args)?,
        Verb::Inherit(args) => DatasetChange::Inherit {
            name: args.name,
            property: args.property,
            recursive: args.recursive,
        },
    };
    let client = connection.client();
    let () = client.send(&Method::POST, "/v1/volumes", &change)?;
    Ok(())
}

fn create(args: Create) -> Result<DatasetChange, Error> {
    let block_size = args.block_size.map(|bytes| {
        u32::try_from(bytes).map_err(|_| {
            Error::invalid(
                format!("blocks of {bytes} bytes are too large"),
                "use 4K to 128K",
            )
        })
    });
    Ok(DatasetChange::Create {
        name: args.name,
        size: args.volume,
        block_size: block_size.transpose()?,
        sparse: args.sparse,
        parents: args.parents,
        properties: args.properties.into_iter().collect(),
    })
}

fn set(mut args: Set) -> Result<DatasetChange, Error> {
    let name = args.words.pop().unwrap_or_default();
    let properties: Result<BTreeMap<_, _>, String> =
        args.words.iter().map(|word| assignment(word)).collect();
    let next = "sandstone volume set compression=lz4 tank/vm1";
    if name.contains('=') {
        return Err(Error::invalid("no dataset is named", next));
    }
    Ok(DatasetChange::Set {
        name,
        properties: properties.map_err(|error| Error::invalid(error, next))?,
        shrink: args.shrink,
    })
}

/// The datasets that a command line means.
fn selected(
    connection: &Connection,
    names: &[String],
    kinds: &[String],
    recursive: bool,
) -> Result<Vec<DatasetView>, Error> {
    let mut all: Vec<DatasetView> = connection.client().get("/v1/volumes")?;
    if let Some(missing) = names
        .iter()
        .find(|name| !all.iter().any(|d| d.name == **name))
    {
        return Err(Error::not_found(
            format!("'{missing}' does not exist"),
            "see which datasets there are with `sandstone volume list -t all`",
        ));
    }
    let is_below = |dataset: &str, name: &str| {
        let rest = dataset.strip_prefix(name);
        rest.is_some_and(|rest| recursive && rest.starts_with(['/', '@']))
    };
    all.retain(|dataset| {
        let is_kind = kinds.iter().any(|kind| match kind.as_str() {
            "all" => true,
            "filesystem" => dataset.kind == "folder",
            "snap" => dataset.kind == "snapshot",
            kind => dataset.kind == kind,
        });
        let is_named = names.is_empty()
            || names
                .iter()
                .any(|name| dataset.name == *name || is_below(&dataset.name, name));
        // What is named is meant, whatever its kind.
        is_named && (is_kind || names.contains(&dataset.name))
    });
    Ok(all)
}

fn list(t: &mut Terminal<'_>, connection: &Connection, args: &List) -> Done {
    let mut rows = selected(connection, &args.names, &args.kinds, args.recursive)?;
    args.sort.sort(&mut rows)?;
    print(t, &args.list, &COLUMNS, &rows, "no datasets available")
}

const COLUMNS: [Column<DatasetView>; 24] = [
    left("name", |d, _| d.name.clone()),
    right("used", |d, n| n.size(d.used)),
    right("avail", |d, n| match d.kind.as_str() {
        "volume" => d.available.map_or("-".into(), |b| n.size(b)),
        _ => "-".into(),
    }),
    right("refer", |d, n| {
        d.referenced.map_or("-".into(), |b| n.size(b))
    }),
    right("volsize", |d, n| d.size.map_or("-".into(), |b| n.size(b))),
    right("volblock", |d, n| {
        d.block_size.map_or("-".into(), |b| n.size(b.into()))
    }),
    left("type", |d, _| d.kind.clone()),
    extra(left("origin", |d, _| {
        d.origin.clone().unwrap_or_else(|| "-".into())
    })),
    extra(right("creation", |d, _| d.created_s.to_string())),
    extra(left("guid", |d, _| property(d, "guid"))),
    extra(right("usedbydataset", |d, n| figure(d, n, "usedbydataset"))),
    extra(right("usedbysnapshots", |d, n| {
        figure(d, n, "usedbysnapshots")
    })),
    extra(right("usedbyrefreservation", |d, n| {
        figure(d, n, "usedbyrefreservation")
    })),
    extra(right("refreservation", |d, n| {
        figure(d, n, "refreservation")
    })),
    extra(right("written", |d, n| figure(d, n, "written"))),
    extra(right("logicalused", |d, n| figure(d, n, "logicalused"))),
    extra(right("logicalreferenced", |d, n| {
        figure(d, n, "logicalreferenced")
    })),
    extra(right("compressratio", |d, n| figure(d, n, "compressratio"))),
    extra(right("refcompressratio", |d, n| {
        figure(d, n, "refcompressratio")
    })),
    extra(left("compression", |d, _| property(d, "compression"))),
    extra(left("checksum", |d, _| property(d, "checksum"))),
    extra(left("sync", |d, _| property(d, "sync"))),
    extra(left("primarycache", |d, _| property(d, "primarycache"))),
    extra(left("readonly", |d, _| property(d, "readonly"))),
];

/// A property that is a number.
fn figure(dataset: &DatasetView, numbers: Numbers, name: &str) -> String {
    let found = dataset.properties.iter().find(|p| p.name == name);
    found.map_or_else(
        || "-".to_owned(),
        |property| match numbers {
            Numbers::Short => property.rounded.clone(),
            Numbers::Exact => property.value.clone(),
        },
    )
}

fn property(dataset: &DatasetView, name: &str) -> String {
    let found = dataset.properties.iter().find(|p| p.name == name);
    found.map_or_else(|| "-".to_owned(), |property| property.value.clone())
}

/// A property of a dataset, as `get` shows it.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    property: String,
    value: String,
    #[serde(skip)]
    rounded: String,
    source: String,
}

fn get(t: &mut Terminal<'_>, connection: &Connection, args: &Get) -> Done {
    let datasets = selected(connection, &args.names, &args.kinds, args.recursive)?;
    let properties: Vec<&str> = args.properties.split(',').collect();
    let is_all = properties.contains(&"all");
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
    print(t, &args.list, &columns, &rows, "no datasets available")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_takes_the_dataset_last() {
        let words = |text: &str| Set {
            shrink: false,
            words: text.split(' ').map(str::to_owned).collect(),
        };
        let change = set(words("sync=always compression=off tank/a")).expect("two");
        let properties = [("compression", "off"), ("sync", "always")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected = DatasetChange::Set {
            name: "tank/a".to_owned(),
            properties: properties.into(),
            shrink: false,
        };
        assert_eq!(change, expected);
        for wrong in ["sync=always compression=off", "sync tank/a"] {
            set(words(wrong)).expect_err(wrong);
        }
    }
}
