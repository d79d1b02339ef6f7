//! Volumes, snapshots and folders of pools as administrators see them, and the changes that they make.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use store::catalog::request::{
    CloneSnapshot, CreateFolder, CreateVolume, Destroy, Inherit, Rename, Resize, Rollback,
    SetProperties, Stamp, TakeSnapshots, Texts,
};
use store::catalog::size::{parse_size, print_size};
use store::catalog::{
    Catalog, CatalogError, Dataset, ErrorKind as Refusal, Kind, Operation, PROPERTIES, Property,
    Source,
};
use store::pool::{BlockBytes, DatasetUsage, Plan, Pool, PoolError, PoolErrorKind};
use utoipa::ToSchema;

use super::registry::{OpenPool, Pools};
use super::served::Served;
use crate::config::{Error, ErrorKind};

/// Bytes of a volume's block where nothing is said; zfs's.
pub const DEFAULT_BLOCK_SIZE: u32 = 16 << 10;

/// A change of datasets. Names begin with the pool's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
pub enum DatasetChange {
    /// A volume, or without a size a folder.
    Create {
        /// Its name.
        name: String,
        /// Bytes; `None` makes a folder.
        #[serde(default)]
        size: Option<u64>,
        /// volblocksize in bytes.
        #[serde(default)]
        block_size: Option<u32>,
        /// Reserve nothing.
        #[serde(default)]
        sparse: bool,
        /// Make missing folders above it.
        #[serde(default)]
        parents: bool,
        /// Properties that are set.
        #[serde(default)]
        properties: BTreeMap<String, String>,
    },
    /// Datasets and all that is in them go.
    Destroy {
        /// Which.
        names: Vec<String>,
        /// All below too.
        #[serde(default)]
        recursive: bool,
        /// Clones too, wherever they are.
        #[serde(default)]
        clones: bool,
    },
    /// Snapshots, all of the same moment.
    Snapshot {
        /// `pool/volume@name`
        names: Vec<String>,
        /// Of all volumes below too.
        #[serde(default)]
        recursive: bool,
        /// Properties of users.
        #[serde(default)]
        properties: BTreeMap<String, String>,
    },
    /// A volume becomes again what it was.
    Rollback {
        /// The snapshot.
        snapshot: String,
        /// Newer snapshots are destroyed.
        #[serde(default)]
        recursive: bool,
        /// Clones of these too.
        #[serde(default)]
        clones: bool,
    },
    /// A volume that begins as a snapshot is.
    Clone {
        /// The snapshot.
        snapshot: String,
        /// The volume.
        name: String,
        /// Make missing folders above it.
        #[serde(default)]
        parents: bool,
        /// Properties that are set.
        #[serde(default)]
        properties: BTreeMap<String, String>,
    },
    /// A clone takes over the snapshots that it depends on.
    Promote {
        /// The clone.
        name: String,
    },
    /// Another name.
    Rename {
        /// Its name.
        from: String,
        /// Its name from now on.
        to: String,
        /// Make missing folders above it.
        #[serde(default)]
        parents: bool,
        /// Of a snapshot: all of its name below too.
        #[serde(default)]
        recursive: bool,
    },
    /// Properties are set.
    Set {
        /// Of which.
        name: String,
        /// Name and value of each; `volsize` resizes.
        properties: BTreeMap<String, String>,
        /// What lies beyond a smaller volsize may be lost.
        #[serde(default)]
        shrink: bool,
    },
    /// A property is what it is above, or by default.
    Inherit {
        /// Of which.
        name: String,
        /// Its name.
        property: String,
        /// Of all below too.
        #[serde(default)]
        recursive: bool,
    },
}

/// A folder, volume or snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetView {
    /// With the pool's name.
    pub name: String,
    /// `folder`, `volume` or `snapshot`.
    pub kind: String,
    /// When it was made, in seconds since 1970.
    pub created_s: u64,
    /// Bytes that clients see.
    pub size: Option<u64>,
    /// volblocksize in bytes.
    pub block_size: Option<u32>,
    /// Bytes that it, its snapshots and all below it take, and what is kept for it; of a snapshot what only it
    /// has. As of the last checkpoint, parity not counted.
    #[serde(default)]
    pub used: u64,
    /// Bytes of its blocks as of the last checkpoint, parity not counted.
    pub referenced: Option<u64>,
    /// Bytes that its data may still take.
    pub available: Option<u64>,
    /// The snapshot that it was cloned of.
    pub origin: Option<String>,
    /// What holds for it.
    pub properties: Vec<PropertyView>,
}

/// A property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PropertyView {
    /// Its name.
    pub name: String,
    /// Its exact value.
    pub value: String,
    /// Its value for people.
    pub rounded: String,
    /// `local`, `default`, `inherited from …`, `received` or `-`.
    pub source: String,
}

impl DatasetChange {
    /// Whether a unit may find its volume now, in another size, or with properties that it tells of: asking costs
    /// something for each unit.
    pub fn is_seen_by_units(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Clone { .. } | Self::Rename { .. } => true,
            Self::Set { .. } | Self::Inherit { .. } | Self::Rollback { .. } => true,
            Self::Destroy { .. } | Self::Snapshot { .. } => false,
            Self::Promote { .. } => false,
        }
    }

    /// Whether it may take datasets away, or give them another name or content.
    pub fn may_disturb(&self) -> bool {
        match self {
            Self::Destroy { .. } | Self::Rollback { .. } => true,
            Self::Promote { .. } | Self::Rename { .. } => true,
            Self::Create { .. } | Self::Clone { .. } | Self::Snapshot { .. } => false,
            Self::Set { .. } | Self::Inherit { .. } => false,
        }
    }

    fn names(&self) -> Vec<&str> {
        match self {
            Self::Create { name, .. }
            | Self::Promote { name }
            | Self::Set { name, .. }
            | Self::Inherit { name, .. } => vec![name],
            Self::Destroy { names, .. } | Self::Snapshot { names, .. } => {
                names.iter().map(String::as_str).collect()
            }
            Self::Rollback { snapshot, .. } => vec![snapshot],
            Self::Clone { snapshot, name, .. } => vec![snapshot, name],
            Self::Rename { from, to, .. } => vec![from, to],
        }
    }

    /// The pool of all names.
    ///
    /// # Errors
    /// They are several pools'.
    pub fn pool(&self) -> Result<&str, Error> {
        let names = self.names();
        let mut pools = names.iter().map(|name| split(name).0);
        // A snapshot's new name may be told by itself.
        let first = pools.next().unwrap_or_default();
        match pools.find(|pool| *pool != first && !pool.is_empty()) {
            None => Ok(first),
            Some(other) => Err(Error::invalid(
                format!("{first} and {other} are two pools"),
                "name datasets of one pool at a time",
            )),
        }
    }

    /// What the catalogue is asked, one after the other.
    pub(super) fn steps(&self) -> Result<Vec<Step>, Error> {
        let local = |name: &str| split(name).1.to_owned();
        let all = |names: &[String]| names.iter().map(|name| local(name)).collect();
        Ok(match self.clone() {
            Self::Create { .. } => self.create_step(),
            Self::Snapshot { .. } | Self::Rollback { .. } | Self::Clone { .. } => {
                self.snapshot_step()
            }
            Self::Destroy {
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
            Self::Promote { name } => {
                let name = local(&name);
                step(move |catalog, _| catalog.plan_promote(&name))
            }
            Self::Rename {
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
            Self::Set {
                name,
                properties,
                shrink,
            } => set(&local(&name), properties, shrink)?,
            Self::Inherit {
                name,
                property,
                recursive,
            } => {
                let request = Inherit {
                    name: local(&name),
                    property,
                    is_recursive: recursive,
                    to_received: false,
                };
                step(move |catalog, _| catalog.plan_inherit(&request))
            }
        })
    }

    /// A folder or volume is made.
    fn create_step(&self) -> Vec<Step> {
        let local = |name: &str| split(name).1.to_owned();
        match self.clone() {
            Self::Create {
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
            Self::Create {
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
    fn snapshot_step(&self) -> Vec<Step> {
        let local = |name: &str| split(name).1.to_owned();
        let all = |names: &[String]| names.iter().map(|name| local(name)).collect();
        match self.clone() {
            Self::Snapshot {
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
            Self::Rollback {
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
            Self::Clone {
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
}

/// One question to the catalogue.
pub(super) type Step = Box<dyn FnOnce(&Catalog, Stamp) -> Result<Operation, CatalogError> + Send>;

fn step(
    plan: impl FnOnce(&Catalog, Stamp) -> Result<Operation, CatalogError> + Send + 'static,
) -> Vec<Step> {
    vec![Box::new(plan)]
}

/// Setting properties; volsize is one that resizes.
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

/// A pool's name, and the rest of a dataset's.
pub(crate) fn split(name: &str) -> (&str, &str) {
    match name.find(['/', '@']) {
        Some(at) if name[at..].starts_with('/') => (&name[..at], &name[at + 1..]),
        Some(at) => (&name[..at], &name[at..]),
        None => (name, ""),
    }
}

impl Pools {
    /// Makes a change; it outlives a power cut when this returns.
    ///
    /// # Errors
    /// What was wrong, and what to do.
    pub fn change(&self, change: &DatasetChange) -> Result<(), Error> {
        self.change_beneath(change, &Served::default())
    }

    /// Makes a change that disturbs nothing of what is served. That is asked when the change is decided on, so that nothing
    /// comes between.
    ///
    /// # Errors
    /// What was wrong, and what to do; or who serves something of it.
    pub fn change_beneath(&self, change: &DatasetChange, served: &Served) -> Result<(), Error> {
        let pool = self.get(change.pool()?)?;
        for step in change.steps()? {
            let served = served.clone();
            let allowed = move |catalog: &Catalog, stamp: Stamp| {
                let operation = step(catalog, stamp)?;
                served.refuse_operation(catalog, &operation)?;
                Ok(operation)
            };
            administer(&pool, Box::new(allowed))?;
        }
        Ok(())
    }

    /// All datasets of all open pools, each after the one that it lies in.
    pub fn datasets(&self) -> Vec<DatasetView> {
        let pools = self.all();
        // A pool that does not answer shows that in its own status.
        let asked = pools.iter().map(|(_, pool)| pool.host.ask(views));
        asked.flat_map(Result::unwrap_or_default).collect()
    }
}

pub(super) fn administer(pool: &OpenPool, step: Step) -> Result<(), Error> {
    pool.require_writable()?;
    // The refusal itself says more than the pool's error that comes of it.
    let refusal: Arc<Mutex<Option<CatalogError>>> = Arc::default();
    let seen = Arc::clone(&refusal);
    let plan: Plan = Box::new(move |catalog, stamp| {
        step(catalog, stamp).inspect_err(|error| {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        })
    });
    let done = pool.host.administer(plan);
    let refusal = refusal
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    done.map_err(|error| refusal.map_or_else(|| failed(&error), refused))
}

pub(super) fn refused(error: CatalogError) -> Error {
    let kind = match error.kind {
        Refusal::Exists => ErrorKind::Exists,
        Refusal::NotFound => ErrorKind::NotFound,
        Refusal::HasSnapshots
        | Refusal::HasClones
        | Refusal::Held
        | Refusal::NotEmpty
        | Refusal::Busy => ErrorKind::InUse,
        Refusal::InvalidName
        | Refusal::InvalidValue
        | Refusal::LimitReached
        | Refusal::ReadOnly
        | Refusal::Mismatch => ErrorKind::Invalid,
    };
    let next = if error.next.is_empty() {
        "see `sandstone volume list -t all`".to_owned()
    } else {
        error.next
    };
    Error::new(kind, error.problem, next)
}

pub(super) fn failed(error: &PoolError) -> Error {
    if error.kind == PoolErrorKind::Modified {
        return Error::new(
            ErrorKind::InUse,
            error.to_string(),
            "keep it as a clone of a new snapshot, or let -F roll it back",
        );
    }
    Error::new(
        ErrorKind::Refused,
        error.to_string(),
        "see `sandstone pool status`",
    )
}

/// All datasets of a pool.
fn views(pool: &Pool) -> Vec<DatasetView> {
    let catalog = pool.catalog();
    let usage = pool.usage();
    let all = catalog.subtree(store::catalog::ROOT);
    all.into_iter()
        .map(|dataset| {
            let usage = usage.get(&dataset.id).copied().unwrap_or_default();
            view(pool, catalog, dataset, usage)
        })
        .collect()
}

/// What a dataset takes, by the names of zfs's properties.
fn figures(kind: &Kind, usage: DatasetUsage, available: Option<u64>) -> Vec<PropertyView> {
    let mut figures = vec![("used", usage.used)];
    match kind {
        Kind::Folder => figures.push(("usedbychildren", usage.by_children)),
        Kind::Volume(_) => figures.extend([
            ("referenced", usage.referenced),
            ("usedbydataset", usage.by_dataset),
            ("usedbysnapshots", usage.by_snapshots),
            ("usedbyrefreservation", usage.by_refreservation),
            ("written", usage.written),
        ]),
        Kind::Snapshot(_) => {
            figures.extend([("referenced", usage.referenced), ("written", usage.written)])
        }
    }
    if let Some(available) = available.filter(|_| !matches!(kind, Kind::Snapshot(_))) {
        figures.push(("available", available));
    }
    let figures = figures.into_iter();
    let figures = figures.map(|(name, bytes)| computed(name, bytes.to_string(), print_size(bytes)));
    figures.chain(compression_figures(kind, usage)).collect()
}

/// What compression saves. Figures that are not known of what an older program wrote are `-`.
fn compression_figures(kind: &Kind, usage: DatasetUsage) -> Vec<PropertyView> {
    let (used, referenced) = (usage.used_blocks, usage.referenced_blocks);
    let unknown = |name| computed(name, "-".to_owned(), "-".to_owned());
    let logical = |name, of: Option<BlockBytes>| match of {
        Some(of) => computed(name, of.logical.to_string(), print_size(of.logical)),
        None => unknown(name),
    };
    let ratio = |name, of: Option<BlockBytes>| match of.map(|of| of.ratio_percent()) {
        Some(percent) => {
            let value = format!("{}.{:02}", percent / 100, percent % 100);
            computed(name, value.clone(), value + "x")
        }
        None => unknown(name),
    };
    match kind {
        Kind::Folder => vec![logical("logicalused", used), ratio("compressratio", used)],
        Kind::Volume(_) => vec![
            logical("logicalused", used),
            logical("logicalreferenced", referenced),
            ratio("compressratio", used),
            ratio("refcompressratio", referenced),
        ],
        // As in zfs, what a snapshot can reach counts for both.
        Kind::Snapshot(_) => vec![
            logical("logicalreferenced", referenced),
            ratio("compressratio", referenced),
            ratio("refcompressratio", referenced),
        ],
    }
}

fn computed(name: &str, value: String, rounded: String) -> PropertyView {
    PropertyView {
        name: name.to_owned(),
        value,
        rounded,
        source: "-".to_owned(),
    }
}

fn view(pool: &Pool, catalog: &Catalog, dataset: &Dataset, usage: DatasetUsage) -> DatasetView {
    let space = pool.dataset_space(dataset.id);
    let geometry = dataset.geometry();
    let table = PROPERTIES.iter().filter_map(|info| {
        let effective = catalog.property(dataset.id, &Property::Native(info.native))?;
        Some((info.name.to_owned(), effective))
    });
    let all = table.chain(catalog.user_properties(dataset.id));
    let properties = all.map(|(name, effective)| PropertyView {
        name,
        value: effective.value.to_string(),
        rounded: effective.value.print_rounded(),
        source: match effective.source {
            Source::Local => "local".to_owned(),
            Source::Received => "received".to_owned(),
            Source::Default => "default".to_owned(),
            Source::Inherited(from) => format!("inherited from {}", catalog.full_name(from)),
            Source::None => "-".to_owned(),
        },
    });
    let available = space.map(|space| space.available);
    let mut properties: Vec<PropertyView> = properties.collect();
    let figures = figures(&dataset.kind, usage, available);
    properties.retain(|known| figures.iter().all(|figure| figure.name != known.name));
    properties.extend(figures);
    DatasetView {
        name: catalog.full_name(dataset.id),
        kind: dataset.kind.as_str().to_owned(),
        created_s: dataset.created_s,
        size: geometry.map(|(size, _)| size),
        block_size: geometry.map(|(_, block_size)| block_size),
        referenced: space.map(|space| space.referenced),
        available,
        used: usage.used,
        origin: catalog.origin(dataset.id).map(|id| catalog.full_name(id)),
        properties,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_the_pool() {
        assert_eq!(split("tank"), ("tank", ""));
        assert_eq!(split("tank/a/b@c"), ("tank", "a/b@c"));
        assert_eq!(split("tank@all"), ("tank", "@all"));
        assert_eq!(split("@b"), ("", "@b"));
    }

    #[test]
    fn one_change_is_of_one_pool() {
        let rename = |from: &str, to: &str| DatasetChange::Rename {
            from: from.into(),
            to: to.into(),
            parents: false,
            recursive: false,
        };
        assert_eq!(rename("tank/a", "tank/b").pool().expect("one"), "tank");
        assert_eq!(rename("tank/a@x", "@y").pool().expect("one"), "tank");
        let error = rename("tank/a", "pond/a").pool().expect_err("two");
        assert!(error.message.contains("two pools"), "{error}");
    }
}
