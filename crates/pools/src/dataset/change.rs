//! What may be asked of datasets, and the questions to the catalogue that it comes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use store::catalog::request::{
    CloneSnapshot, CreateFolder, CreateVolume, Destroy, Holds, Inherit, Rename, Resize, Rollback,
    SetProperties, Stamp, TakeSnapshots, Texts,
};
use store::catalog::size::parse_size;
use store::catalog::{Catalog, CatalogError, Operation};
use utoipa::ToSchema;

use super::{refused, require_whole, split};
use model::Error;

/// Bytes of a volume's block where neither the request nor the pool says how many; zfs's.
const DEFAULT_BLOCK_SIZE: u32 = 16 << 10;

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
        /// Make missing folders above it; and nothing, where it is there already as it is asked for.
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
        /// Make missing folders above it; and nothing, where it is there already as a clone of that snapshot.
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
        /// Of which; one may also be given as `name`.
        #[serde(alias = "name", deserialize_with = "one_or_several")]
        names: Vec<String>,
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
        /// A value that came with a stream holds again.
        #[serde(default)]
        received: bool,
    },
    /// Snapshots are kept from being destroyed.
    Hold {
        /// By whom.
        tag: String,
        /// `pool/volume@name`
        names: Vec<String>,
        /// Of all volumes below too.
        #[serde(default)]
        recursive: bool,
    },
    /// A hold ends.
    Release {
        /// Whose.
        tag: String,
        /// `pool/volume@name`
        names: Vec<String>,
        /// Of all volumes below too.
        #[serde(default)]
        recursive: bool,
    },
}

/// A name, or several.
fn one_or_several<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Names::deserialize(from)? {
        Names::One(name) => vec![name],
        Names::Several(names) => names,
    })
}

impl DatasetChange {
    /// Whether a unit may find its volume now, in another size, or with properties that it tells of: asking costs
    /// something for each unit.
    pub fn is_seen_by_units(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Clone { .. } | Self::Rename { .. } => true,
            Self::Set { .. } | Self::Inherit { .. } | Self::Rollback { .. } => true,
            Self::Destroy { .. } | Self::Snapshot { .. } => false,
            Self::Promote { .. } | Self::Hold { .. } | Self::Release { .. } => false,
        }
    }

    /// Whether it may take datasets away, or give them another name or content.
    pub fn may_disturb(&self) -> bool {
        match self {
            Self::Destroy { .. } | Self::Rollback { .. } => true,
            Self::Promote { .. } | Self::Rename { .. } => true,
            Self::Create { .. } | Self::Clone { .. } | Self::Snapshot { .. } => false,
            Self::Set { .. } | Self::Inherit { .. } => false,
            Self::Hold { .. } | Self::Release { .. } => false,
        }
    }

    /// The volume that becomes again what it was.
    pub fn rolled_back(&self) -> Option<&str> {
        match self {
            Self::Rollback { snapshot, .. } => snapshot.split_once('@').map(|(volume, _)| volume),
            _ => None,
        }
    }

    fn names(&self) -> Vec<&str> {
        match self {
            Self::Create { name, .. } | Self::Promote { name } | Self::Inherit { name, .. } => {
                vec![name]
            }
            Self::Destroy { names, .. }
            | Self::Snapshot { names, .. }
            | Self::Set { names, .. }
            | Self::Hold { names, .. }
            | Self::Release { names, .. } => names.iter().map(String::as_str).collect(),
            Self::Rollback { snapshot, .. } => vec![snapshot],
            Self::Clone { snapshot, name, .. } => vec![snapshot, name],
            Self::Rename { from, to, .. } => vec![from, to],
        }
    }

    /// The pool of all names.
    ///
    /// # Errors
    /// They are several pools', or one of them has an empty part.
    pub fn pool(&self) -> Result<&str, Error> {
        let names = self.names();
        names.iter().try_for_each(|name| require_whole(name))?;
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
    pub fn steps(&self) -> Result<Vec<Step>, Error> {
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
            Self::Inherit {
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
            Self::Hold {
                tag,
                names,
                recursive,
            } => {
                let request = holds(tag, all(&names), recursive)?;
                step(move |catalog, stamp| catalog.plan_hold(&request, stamp))
            }
            Self::Release {
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

/// One question to the catalogue. It may be asked again, before anything is changed.
pub(crate) type Step =
    Arc<dyn Fn(&Catalog, Stamp) -> Result<Operation, CatalogError> + Send + Sync>;

fn step(
    plan: impl Fn(&Catalog, Stamp) -> Result<Operation, CatalogError> + Send + Sync + 'static,
) -> Vec<Step> {
    vec![Arc::new(plan)]
}

/// What is asked of holds. Those of a stream that is being sent begin with a dot: it alone may make and end them.
fn holds(tag: String, snapshots: Vec<String>, is_recursive: bool) -> Result<Holds, Error> {
    if tag.starts_with('.') {
        return Err(Error::invalid(
            format!("'{tag}' begins with a dot, as holds of streams do that are being sent"),
            "choose another tag; a hold of a stream ends with the stream",
        ));
    }
    Ok(Holds {
        tag,
        snapshots,
        is_recursive,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_set_names_one_dataset_or_several() {
        for (names, expected) in [
            (r#""name":"tank/a""#, vec!["tank/a"]),
            (r#""names":["tank/a","tank/b"]"#, vec!["tank/a", "tank/b"]),
        ] {
            let text = format!(r#"{{"verb":"set",{names},"properties":{{}}}}"#);
            let change: DatasetChange = serde_json::from_str(&text).expect(&text);
            assert_eq!(change.names(), expected);
        }
    }
}
