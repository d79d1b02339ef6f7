//! Changes of datasets: `volume create`, `destroy`, `snapshot`, and the other verbs.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::name::{require_whole, split};
use crate::Error;

/// A change of datasets. All names begin with the pool's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
pub enum DatasetChange {
    /// Makes a volume, or a folder if no size is given.
    Create {
        /// Name of the pool.
        name: String,
        /// Size of the volume in bytes. `None` makes a folder.
        #[serde(default)]
        size: Option<u64>,
        /// Block size (volblocksize) in bytes.
        #[serde(default)]
        block_size: Option<u32>,
        /// Whether no space is reserved.
        #[serde(default)]
        sparse: bool,
        /// Whether missing folders above are made. If the dataset already exists as requested,
        /// nothing is made.
        #[serde(default)]
        parents: bool,
        /// Properties to set.
        #[serde(default)]
        properties: BTreeMap<String, String>,
    },
    /// Destroys datasets and everything in them.
    Destroy {
        /// Names of the datasets.
        names: Vec<String>,
        /// Whether all datasets below are destroyed too.
        #[serde(default)]
        recursive: bool,
        /// Whether clones are destroyed too, wherever they are.
        #[serde(default)]
        clones: bool,
    },
    /// Makes snapshots, all of one moment.
    Snapshot {
        /// Names as `pool/volume@name`.
        names: Vec<String>,
        /// Whether the snapshots of all volumes below are released too.
        #[serde(default)]
        recursive: bool,
        /// User properties to set.
        #[serde(default)]
        properties: BTreeMap<String, String>,
    },
    /// Returns a volume to the state of a snapshot.
    Rollback {
        /// Name of the snapshot.
        snapshot: String,
        /// Whether newer snapshots are destroyed.
        #[serde(default)]
        recursive: bool,
        /// Whether clones of newer snapshots are destroyed too.
        #[serde(default)]
        clones: bool,
    },
    /// Makes a volume that begins with the contents of a snapshot.
    Clone {
        /// Name of the snapshot.
        snapshot: String,
        /// The volume.
        name: String,
        /// Whether missing folders above are made. If the volume already exists as a clone of the
        /// snapshot, nothing is made.
        #[serde(default)]
        parents: bool,
        /// Properties to set.
        #[serde(default)]
        properties: BTreeMap<String, String>,
    },
    /// Gives a clone the snapshots that it depends on.
    Promote {
        /// Name of the clone.
        name: String,
    },
    /// Renames a dataset.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
        /// Make missing folders above it.
        #[serde(default)]
        parents: bool,
        /// Whether a snapshot's namesakes below are renamed too.
        #[serde(default)]
        recursive: bool,
    },
    /// Sets properties.
    Set {
        /// Names of the datasets. A single one may also be given as `name`.
        #[serde(alias = "name", deserialize_with = "one_or_several")]
        names: Vec<String>,
        /// Name and value of each property. `volsize` resizes a volume.
        properties: BTreeMap<String, String>,
        /// Whether data beyond a smaller volsize may be lost.
        #[serde(default)]
        shrink: bool,
    },
    /// Makes a property inherit its value from above, or take its default.
    Inherit {
        /// Name of the dataset.
        name: String,
        /// Name of the property.
        property: String,
        /// Whether all datasets below inherit too.
        #[serde(default)]
        recursive: bool,
        /// Whether a value that came with a stream holds again.
        #[serde(default)]
        received: bool,
    },
    /// Holds snapshots, so that they cannot be destroyed.
    Hold {
        /// Tag of the hold, which names the holder.
        tag: String,
        /// Names as `pool/volume@name`.
        names: Vec<String>,
        /// Whether the snapshots of all volumes below are released too.
        #[serde(default)]
        recursive: bool,
    },
    /// Releases holds of snapshots.
    Release {
        /// Tag of the hold, which names the holder.
        tag: String,
        /// Names as `pool/volume@name`.
        names: Vec<String>,
        /// Whether the snapshots of all volumes below are released too.
        #[serde(default)]
        recursive: bool,
    },
}

/// Reads one name, or a list of names.
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
    /// Reports whether units may notice the change: a new volume, a new size, or reported
    /// properties. The check of units costs time for each.
    pub fn is_seen_by_units(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Clone { .. } | Self::Rename { .. } => true,
            Self::Set { .. } | Self::Inherit { .. } | Self::Rollback { .. } => true,
            Self::Destroy { .. } | Self::Snapshot { .. } => false,
            Self::Promote { .. } | Self::Hold { .. } | Self::Release { .. } => false,
        }
    }

    /// Reports whether the change may remove datasets, or change their names or contents.
    pub fn may_disturb(&self) -> bool {
        match self {
            Self::Destroy { .. } | Self::Rollback { .. } => true,
            Self::Promote { .. } | Self::Rename { .. } => true,
            Self::Create { .. } | Self::Clone { .. } | Self::Snapshot { .. } => false,
            Self::Set { .. } | Self::Inherit { .. } => false,
            Self::Hold { .. } | Self::Release { .. } => false,
        }
    }

    /// Reports whether the change only keeps or copies what is there, so that an operator may make
    /// it.
    pub fn only_adds(&self) -> bool {
        matches!(
            self,
            Self::Snapshot { .. } | Self::Clone { .. } | Self::Hold { .. }
        )
    }

    /// Returns the volume that the change rolls back.
    pub fn rolled_back(&self) -> Option<&str> {
        match self {
            Self::Rollback { snapshot, .. } => snapshot.split_once('@').map(|(volume, _)| volume),
            _ => None,
        }
    }

    /// Returns the names of all datasets in the change.
    pub fn names(&self) -> Vec<&str> {
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

    /// Returns the pool to which all names belong.
    ///
    /// # Errors
    /// The names belong to several pools, or one of them has an empty part.
    pub fn pool(&self) -> Result<&str, Error> {
        let names = self.names();
        names.iter().try_for_each(|name| require_whole(name))?;
        let mut pools = names.iter().map(|name| split(name).0);
        // The new name of a snapshot may come without its volume.
        let first = pools.next().unwrap_or_default();
        match pools.find(|pool| *pool != first && !pool.is_empty()) {
            None => Ok(first),
            Some(other) => Err(Error::invalid(
                format!("{first} and {other} are different pools"),
                "name datasets of one pool at a time",
            )),
        }
    }
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
        assert!(error.message.contains("different pools"), "{error}");
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
