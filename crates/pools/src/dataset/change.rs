//! Requests for changes of datasets, and the questions to the catalogue that each request becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::catalog::request::{
    CloneSnapshot, CreateFolder, CreateVolume, Destroy, Holds, Inherit, Rename, Resize, Rollback,
    SetProperties, Stamp, TakeSnapshots, Texts,
};
use store::catalog::size::parse_size;
use store::catalog::{Catalog, CatalogError, Operation};

use super::refused;
use model::Error;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::name::split;

/// Bytes of a volume's block if neither the request nor the pool names a size, as in zfs.
const DEFAULT_BLOCK_SIZE: u32 = 16 << 10;

/// Returns the questions that the catalogue is asked, in their order.
pub(crate) fn steps(change: &DatasetChange) -> Result<Vec<Step>, Error> {
    let local = |name: &str| split(name).1.to_owned();
    let all = |names: &[String]| names.iter().map(|name| local(name)).collect();
    Ok(match change.clone() {
        DatasetChange::Create { .. } => create_step(change),
        DatasetChange::Snapshot { .. }
        | DatasetChange::Rollback { .. }
        | DatasetChange::Clone { .. } => snapshot_step(change),
        DatasetChange::Destroy {
            names,
            recursive,
            clones,
        } => {
            let request = Destroy {
                names: all(&names),
                is_recursive: recursive,
                with_clones: clones,
            };
            step(move |catalog, _| catalog.plan_destroy(&request))
        }
        DatasetChange::Promote { name } => {
            let name = local(&name);
            step(move |catalog, _| catalog.plan_promote(&name))
        }
        DatasetChange::Rename {
            from,
            to,
            parents,
            recursive,
        } => {
            let request = Rename {
                from: local(&from),
                to: if to.starts_with('@') { to } else { local(&to) },
                with_parents: parents,
                is_recursive: recursive,
            };
            step(move |catalog, stamp| catalog.plan_rename(&request, stamp))
        }
        DatasetChange::Set {
            names,
            properties,
            shrink,
        } => {
            let mut steps = Vec::new();
            for name in &names {
                steps.extend(set(&local(name), properties.clone(), shrink)?);
            }
            steps
        }
        DatasetChange::Inherit {
            name,
            property,
            recursive,
            received,
        } => {
            let request = Inherit {
                name: local(&name),
                property,
                is_recursive: recursive,
                to_received: received,
            };
            step(move |catalog, _| catalog.plan_inherit(&request))
        }
        DatasetChange::Hold {
            tag,
            names,
            recursive,
        } => {
            let request = holds(tag, all(&names), recursive)?;
            step(move |catalog, stamp| catalog.plan_hold(&request, stamp))
        }
        DatasetChange::Release {
            tag,
            names,
            recursive,
        } => {
            let request = holds(tag, all(&names), recursive)?;
            step(move |catalog, _| catalog.plan_release(&request))
        }
    })
}

/// A folder or volume is made.
fn create_step(change: &DatasetChange) -> Vec<Step> {
    let local = |name: &str| split(name).1.to_owned();
    match change.clone() {
        DatasetChange::Create {
            name,
            size: Some(size),
            block_size,
            sparse,
            parents,
            properties,
        } => {
            let request = CreateVolume {
                name: local(&name),
                size,
                block_size: block_size.unwrap_or(DEFAULT_BLOCK_SIZE),
                is_thick: !sparse,
                with_parents: parents,
                properties,
                received: Texts::new(),
            };
            step(move |catalog, stamp| catalog.plan_create_volume(&request, stamp))
        }
        DatasetChange::Create {
            name,
            parents,
            properties,
            ..
        } => {
            let request = CreateFolder {
                name: local(&name),
                with_parents: parents,
                properties,
                received: Texts::new(),
            };
            step(move |catalog, stamp| catalog.plan_create_folder(&request, stamp))
        }
        _ => Vec::new(),
    }
}

/// Snapshots are taken, or something is made of one.
fn snapshot_step(change: &DatasetChange) -> Vec<Step> {
    let local = |name: &str| split(name).1.to_owned();
    let all = |names: &[String]| names.iter().map(|name| local(name)).collect();
    match change.clone() {
        DatasetChange::Snapshot {
            names,
            recursive,
            properties,
        } => {
            let request = TakeSnapshots {
                names: all(&names),
                is_recursive: recursive,
                properties,
                guid: None,
            };
            step(move |catalog, stamp| catalog.plan_snapshot(&request, stamp))
        }
        DatasetChange::Rollback {
            snapshot,
            recursive,
            clones,
        } => {
            let request = Rollback {
                snapshot: local(&snapshot),
                destroy_newer: recursive,
                with_clones: clones,
            };
            step(move |catalog, _| catalog.plan_rollback(&request))
        }
        DatasetChange::Clone {
            snapshot,
            name,
            parents,
            properties,
        } => {
            let request = CloneSnapshot {
                snapshot: local(&snapshot),
                name: local(&name),
                with_parents: parents,
                properties,
            };
            step(move |catalog, stamp| catalog.plan_clone(&request, stamp))
        }
        _ => Vec::new(),
    }
}

/// Question to the catalogue. It may be repeated before anything is changed.
pub(crate) type Step =
    Arc<dyn Fn(&Catalog, Stamp) -> Result<Operation, CatalogError> + Send + Sync>;

fn step(
    plan: impl Fn(&Catalog, Stamp) -> Result<Operation, CatalogError> + Send + Sync + 'static,
) -> Vec<Step> {
    vec![Arc::new(plan)]
}

/// Returns the requested change of holds. Tags that begin with a dot belong to streams that are
/// being sent; only a stream may set and release them.
fn holds(tag: String, snapshots: Vec<String>, is_recursive: bool) -> Result<Holds, Error> {
    if tag.starts_with('.') {
        return Err(Error::invalid(
            format!(
                "'{tag}' begins with a dot; such tags are reserved for streams that are being sent"
            ),
            "choose another tag; the hold of a stream ends with the stream",
        ));
    }
    Ok(Holds {
        tag,
        snapshots,
        is_recursive,
    })
}

/// Sets properties. Setting `volsize` resizes the volume.
fn set(
    name: &str,
    mut properties: BTreeMap<String, String>,
    may_shrink: bool,
) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    if let Some(size) = properties.remove("volsize") {
        let request = Resize {
            name: name.to_owned(),
            size: parse_size(&size).map_err(refused)?,
            may_shrink,
        };
        steps.extend(step(move |catalog, _| catalog.plan_resize(&request)));
    }
    if !properties.is_empty() {
        let request = SetProperties {
            name: name.to_owned(),
            properties,
            is_received: false,
        };
        steps.extend(step(move |catalog, _| catalog.plan_set(&request)));
    }
    Ok(steps)
}
