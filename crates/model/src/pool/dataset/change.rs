//! Changes of datasets: `volume create`, `destroy`, `snapshot`, and the others.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::name::{require_whole, split};
use crate::Error;

/// A change of datasets. Names begin with the pool's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
pub enum DatasetChange {
    /// A volume, or without a size a folder.
    Create {
        /// Name of the pool.
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
        /// Make missing folders above it; and nothing, where it is there already as it is asked
        /// for.
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
        /// Make missing folders above it; and nothing, where it is there already as a clone of that
        /// snapshot.
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
    /// Reports whether units may notice the change: a volume that now exists, a new size, or
    /// reported properties. A check costs something for each unit.
    pub fn is_seen_by_units(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Clone { .. } | Self::Rename { .. } => true,
            Self::Set { .. } | Self::Inherit { .. } | Self::Rollback { .. } => true,
            Self::Destroy { .. } | Self::Snapshot { .. } => false,
            Self::Promote { .. } | Self::Hold { .. } | Self::Release { .. } => false,
        }
    }

    /// Reports whether the change may take datasets away, or change their name or content.
    pub fn may_disturb(&self) -> bool {
        match self {
            Self::Destroy { .. } | Self::Rollback { .. } => true,
            Self::Promote { .. } | Self::Rename { .. } => true,
            Self::Create { .. } | Self::Clone { .. } | Self::Snapshot { .. } => false,
            Self::Set { .. } | Self::Inherit { .. } => false,
            Self::Hold { .. } | Self::Release { .. } => false,
        }
    }

    /// Returns the volume that is to be rolled back.
    pub fn rolled_back(&self) -> Option<&str> {
        match self {
            Self::Rollback { snapshot, .. } => snapshot.split_once('@').map(|(volume, _)| volume),
            _ => None,
        }
    }

    /// Returns the names of all datasets that the change speaks of.
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

    /// Returns the pool of all names.
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
                format!("{first} and {other} are two pools"),
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
