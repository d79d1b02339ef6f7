//! `volume`: volumes, snapshots and folders of pools, in zfs's manner.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};

use super::{Connection, Done, Terminal};
use super::{salvage, stream};
use crate::grammar::completion::{
    assignments, assignments_and_datasets, dataset_names, properties, size, snapshot_names,
};
use control::endpoint::volume;
use control::endpoint::volume::How;
use model::Error;
use model::pool::dataset::Changed;
use model::pool::dataset::change::DatasetChange;

mod destroy;
mod holds;
mod list;
mod sort;

#[derive(Debug, Subcommand)]
pub(super) enum VolumeVerb {
    /// Make a volume, or without -V a folder
    #[command(disable_version_flag = true)]
    Create(Create),
    /// List datasets, and with -o any property of them
    List(list::List),
    /// Destroy datasets and everything in them
    Destroy(destroy::Destroy),
    /// Take snapshots, all at one moment
    #[command(visible_alias = "snap")]
    Snapshot(Snapshot),
    /// Return a volume to a snapshot
    Rollback(Rollback),
    /// Create a writable volume from a snapshot
    Clone(CloneArgs),
    /// Let a clone take over the snapshots that it depends on
    Promote(Named),
    /// Rename a dataset
    #[command(visible_alias = "mv")]
    Rename(Rename),
    /// Show properties and where their values come from
    Get(list::Get),
    /// Set properties
    Set(Set),
    /// Change the size of a volume
    Resize(Resize),
    /// Clear a property, so that it is inherited
    Inherit(Inherit),
    /// Keep snapshots from being destroyed
    Hold(holds::Hold),
    /// End a hold
    Release(holds::Hold),
    /// Show who keeps snapshots from being destroyed
    Holds(holds::Holds),
    /// Write a snapshot, or what changed since another one, as a stream
    Send(stream::Send),
    /// Make a volume and its snapshots from a stream
    #[command(visible_alias = "recv")]
    Receive(stream::Receive),
    /// Copy the readable parts of a volume that has lost blocks, and list the others
    Salvage(salvage::Salvage),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// A volume of this size, as in 750G
    #[arg(short = 'V', value_name = "SIZE", value_parser = size)]
    volume: Option<u64>,
    /// Sparse: reserve no space for it
    #[arg(short = 's', requires = "volume")]
    sparse: bool,
    /// volblocksize: size of the pieces that it is stored and checked in [default: 16K, on raidz
    /// 64K]
    #[arg(short = 'b', value_name = "SIZE", value_parser = size, requires = "volume")]
    block_size: Option<u64>,
    /// Make missing folders above it, and do nothing if it exists
    #[arg(short = 'p')]
    parents: bool,
    /// Set a property; may be given several times
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = assignment, add = assignments())]
    properties: Vec<(String, String)>,
    /// Name with the pool's, as in tank/vm1
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Snapshot {
    /// Include snapshots of all volumes below
    #[arg(short = 'r')]
    recursive: bool,
    /// Set a property of your own (with a colon in its name)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = assignment)]
    properties: Vec<(String, String)>,
    /// tank/vm1@monday
    #[arg(required = true, add = dataset_names())]
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
    /// Name of the snapshot
    #[arg(add = snapshot_names())]
    snapshot: String,
}

#[derive(Debug, Args)]
pub(super) struct CloneArgs {
    /// Make missing folders above it, and do nothing if it exists
    #[arg(short = 'p')]
    parents: bool,
    /// Set a property; may be given several times
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = assignment, add = assignments())]
    properties: Vec<(String, String)>,
    /// Name of the snapshot
    #[arg(add = snapshot_names())]
    snapshot: String,
    /// Name of the volume
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// Name of the clone
    #[arg(add = dataset_names())]
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Rename {
    /// Make missing folders above it
    #[arg(short = 'p')]
    parents: bool,
    /// Rename all snapshots of its name below too
    #[arg(short = 'r')]
    recursive: bool,
    /// Name of the dataset
    #[arg(add = dataset_names())]
    from: String,
    /// New name, in full
    to: String,
}

#[derive(Debug, Args)]
pub(super) struct Set {
    /// Allow a smaller volsize, which may cut off data beyond it
    #[arg(long)]
    shrink: bool,
    /// PROPERTY=VALUE …, then the datasets
    #[arg(required = true, num_args = 2.., value_names = ["PROPERTY=VALUE", "NAME"], add = assignments_and_datasets())]
    words: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Resize {
    /// Allow a smaller size, which may cut off data beyond it
    #[arg(long)]
    shrink: bool,
    /// Name of the volume
    #[arg(add = dataset_names())]
    name: String,
    /// New size, as in 750G
    size: String,
}

#[derive(Debug, Args)]
pub(super) struct Inherit {
    /// Clear the property of all datasets below too
    #[arg(short = 'r')]
    recursive: bool,
    /// Go back to the value that came with a stream, if one did
    #[arg(short = 'S')]
    received: bool,
    /// Name of the property
    #[arg(add = properties())]
    property: String,
    /// Name of the dataset
    #[arg(add = dataset_names())]
    name: String,
}

/// Reads `property=value`.
fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write PROPERTY=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(verb: VolumeVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let change = match verb {
        VolumeVerb::List(args) => return list::list(t, connection, &args),
        VolumeVerb::Get(args) => return list::get(t, connection, &args),
        VolumeVerb::Holds(args) => return holds::holds(t, connection, &args),
        VolumeVerb::Send(args) => return stream::send(args, connection, t),
        VolumeVerb::Receive(args) => return stream::receive(&args, connection, t),
        VolumeVerb::Salvage(args) => return salvage::salvage(&args, connection, t),
        VolumeVerb::Destroy(args) => return destroy::destroy(args, connection, t),
        VolumeVerb::Hold(args) => args.hold(),
        VolumeVerb::Release(args) => args.release(),
        VolumeVerb::Create(args) => create(args)?,
        VolumeVerb::Snapshot(args) => DatasetChange::Snapshot {
            names: args.names,
            recursive: args.recursive,
            properties: args.properties.into_iter().collect(),
        },
        VolumeVerb::Rollback(args) => DatasetChange::Rollback {
            snapshot: args.snapshot,
            recursive: args.recursive,
            clones: args.clones,
        },
        VolumeVerb::Clone(args) => DatasetChange::Clone {
            snapshot: args.snapshot,
            name: args.name,
            parents: args.parents,
            properties: args.properties.into_iter().collect(),
        },
        VolumeVerb::Promote(args) => DatasetChange::Promote { name: args.name },
        VolumeVerb::Rename(args) => DatasetChange::Rename {
            from: args.from,
            to: args.to,
            parents: args.parents,
            recursive: args.recursive,
        },
        VolumeVerb::Set(args) => set(args)?,
        VolumeVerb::Resize(args) => DatasetChange::Set {
            names: vec![args.name],
            properties: [("volsize".to_owned(), args.size)].into(),
            shrink: args.shrink,
        },
        VolumeVerb::Inherit(args) => DatasetChange::Inherit {
            name: args.name,
            property: args.property,
            recursive: args.recursive,
            received: args.received,
        },
    };
    let client = connection.client();
    // Changes that an operator may make have a path of their own.
    let endpoint = match change.only_adds() {
        true => &volume::SNAPSHOT,
        false => &volume::CHANGE,
    };
    let changed: Changed = client.ask(endpoint, &[], &How::default(), &change)?;
    for notice in &changed.notices {
        writeln!(t.err, "note: {notice}")?;
    }
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

fn set(args: Set) -> Result<DatasetChange, Error> {
    let mut words = args.words;
    let next = "sandstone volume set compression=lz4 tank/vm1";
    let count = words.iter().take_while(|word| word.contains('=')).count();
    let names = words.split_off(count);
    if names.is_empty() {
        return Err(Error::invalid("no dataset is named", next));
    }
    if let Some(word) = names.iter().find(|name| name.contains('=')) {
        let message = format!("'{word}' comes after the first dataset");
        return Err(Error::invalid(message, next));
    }
    if words.is_empty() {
        return Err(Error::invalid("no property is set", next));
    }
    let properties: Result<BTreeMap<_, _>, String> =
        words.iter().map(|word| assignment(word)).collect();
    Ok(DatasetChange::Set {
        names,
        properties: properties.map_err(|error| Error::invalid(error, next))?,
        shrink: args.shrink,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_takes_datasets_behind_properties() {
        let words = |text: &str| Set {
            shrink: false,
            words: text.split(' ').map(str::to_owned).collect(),
        };
        let change = set(words("sync=always compression=off tank/a tank/b")).expect("both");
        let properties = [("compression", "off"), ("sync", "always")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected = DatasetChange::Set {
            names: vec!["tank/a".to_owned(), "tank/b".to_owned()],
            properties: properties.into(),
            shrink: false,
        };
        assert_eq!(change, expected);
        for wrong in [
            "sync=always compression=off",
            "tank/a tank/b",
            "sync=always tank/a compression=off",
        ] {
            let _ = set(words(wrong)).expect_err(wrong);
        }
    }
}
