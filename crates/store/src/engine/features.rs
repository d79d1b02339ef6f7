//! Format features: each change of the format has a name, and labels say which names a pool needs.
//!
//! A feature is *enabled* when the pool may begin to use it. It is *active* from its first use on:
//! structures of it may lie on the disks. A program needs to know an active feature to read the
//! pool, or only to write to it. Labels that name an active feature are durable before its first
//! structure is written. So a program that lacks the feature always learns its name, instead of
//! meeting bytes that it cannot explain.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::open::error::{OpenError, OpenErrorKind};

/// Part of the format that not every program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Records of the log lie twice if the log continues far away.
    Signposts,
    /// Labels say which host has the pool open.
    Multihost,
    /// The pool was a copy of another pool, and has an identity of its own. Keyed structures still
    /// have the guid of the other pool.
    Reguid,
    /// Blocks may lie in two places: blocks that lead to others, on vdevs without redundancy; and
    /// blocks of volumes that want two copies.
    TwoCopies,
    /// Two more labels lie inside the data area of each leaf.
    InnerLabels,
}

/// Task for which a program must know a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Reading the pool needs the feature.
    Read,
    /// Writing to the pool needs the feature; to a reader it makes no difference.
    Write,
}

impl Feature {
    /// All features that this program knows.
    pub const ALL: [Self; 5] = [
        Self::Signposts,
        Self::Multihost,
        Self::Reguid,
        Self::TwoCopies,
        Self::InnerLabels,
    ];

    /// Returns the feature's name in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Signposts => "signposts",
            Self::Multihost => "multihost",
            Self::Reguid => "reguid",
            Self::TwoCopies => "two_copies",
            Self::InnerLabels => "inner_labels",
        }
    }

    /// Returns a text for users that says what the feature gives.
    pub fn description(self) -> &'static str {
        match self {
            Self::Signposts => {
                "the pool notices a damaged log record from the records that follow it"
            }
            Self::Multihost => "a pool that several hosts can reach is open on only one of them",
            Self::Reguid => "a copy of a pool can get its own number",
            Self::TwoCopies => {
                "metadata is stored twice where a vdev has no redundancy, and data with copies=2"
            }
            Self::InnerLabels => "the pool recognises a device that lost all labels at both ends",
        }
    }

    /// Returns the task that needs the feature.
    pub fn need(self) -> Need {
        match self {
            Self::Signposts | Self::Reguid | Self::TwoCopies | Self::InnerLabels => Need::Read,
            Self::Multihost => Need::Write,
        }
    }

    /// Reports whether a new pool uses the feature from its first checkpoint on.
    fn is_active_from_the_start(self) -> bool {
        match self {
            Self::Signposts => true,
            Self::Multihost | Self::Reguid => false,
            // A pool of mirrors has no second copies until a user asks for them.
            Self::TwoCopies => false,
            // The maker of the vdevs decides.
            Self::InnerLabels => false,
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.name() == name)
    }
}

/// Features of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    active: BTreeSet<Feature>,
    enabled: BTreeSet<Feature>,
    /// Enabled features that this program does not know. They are kept for the programs that know
    /// them.
    unknown_enabled: BTreeSet<String>,
    /// Active features that this program does not know, and that writing needs.
    unknown_to_write: BTreeSet<String>,
}

/// Degree to which a pool uses a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureState {
    /// The feature is not used, and will not be.
    Disabled,
    /// The feature will be used when something needs it.
    Enabled,
    /// The feature is used: programs that lack it cannot use the pool.
    Active,
}

impl Features {
    /// Returns the features of a new pool: all that this program knows.
    pub fn of_new_pool() -> Self {
        let (active, enabled) = Feature::ALL
            .into_iter()
            .partition(|feature| feature.is_active_from_the_start());
        Self {
            active,
            enabled,
            ..Self::default()
        }
    }

    /// Returns the degree to which the pool uses a feature.
    pub fn state(&self, feature: Feature) -> FeatureState {
        match (
            self.active.contains(&feature),
            self.enabled.contains(&feature),
        ) {
            (true, _) => FeatureState::Active,
            (false, true) => FeatureState::Enabled,
            (false, false) => FeatureState::Disabled,
        }
    }

    /// Reports whether structures of the feature may be written now.
    pub fn is_active(&self, feature: Feature) -> bool {
        self.active.contains(&feature)
    }

    /// Enables all features that this program knows. Returns whether that changed anything.
    pub fn enable_all(&mut self) -> bool {
        let missing = Feature::ALL.into_iter();
        let missing = missing.filter(|feature| self.state(*feature) == FeatureState::Disabled);
        let missing: Vec<Feature> = missing.collect();
        self.enabled.extend(&missing);
        !missing.is_empty()
    }

    /// Begins to use an enabled feature. Returns whether the labels have to say so first; until
    /// they do, no structure of the feature may be written.
    pub fn activate(&mut self, feature: Feature) -> bool {
        self.enabled.remove(&feature) && self.active.insert(feature)
    }

    /// Ends the use of a feature that has no structures left on the disks. Returns whether the
    /// labels have to say so.
    pub fn deactivate(&mut self, feature: Feature) -> bool {
        self.active.remove(&feature) && self.enabled.insert(feature)
    }

    /// Uses a feature from now on, even if it is not enabled: the user asked for something that
    /// needs it.
    pub(super) fn require(&mut self, feature: Feature) {
        self.enabled.remove(&feature);
        self.active.insert(feature);
    }

    /// Returns the names of features that this program lacks and that writing to the pool needs.
    pub fn unknown_to_write(&self) -> impl Iterator<Item = &str> {
        self.unknown_to_write.iter().map(String::as_str)
    }

    /// Returns the names of enabled features that this program lacks.
    pub fn unknown_enabled(&self) -> impl Iterator<Item = &str> {
        self.unknown_enabled.iter().map(String::as_str)
    }
}

/// Features as labels name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredFeatures {
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    read: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    write: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    enabled: BTreeSet<String>,
}

impl StoredFeatures {
    /// Reports whether the pool has no features.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the features that the stored names mean.
    ///
    /// # Errors
    /// The pool cannot be read without a feature that this program lacks.
    pub(super) fn open(self, pool: &str) -> Result<Features, OpenError> {
        let is_unknown = |name: &&String| Feature::of_name(name).is_none();
        let lacking: Vec<&str> = self
            .read
            .iter()
            .filter(is_unknown)
            .map(String::as_str)
            .collect();
        if !lacking.is_empty() {
            return Err(lacks(pool, &lacking, "read"));
        }
        let known = |names: &BTreeSet<String>| -> BTreeSet<Feature> {
            names
                .iter()
                .filter_map(|name| Feature::of_name(name))
                .collect()
        };
        let unknown = |names: &BTreeSet<String>| -> BTreeSet<String> {
            names.iter().filter(is_unknown).cloned().collect()
        };
        let mut active = known(&self.read);
        active.append(&mut known(&self.write));
        Ok(Features {
            active,
            enabled: known(&self.enabled),
            unknown_enabled: unknown(&self.enabled),
            unknown_to_write: unknown(&self.write),
        })
    }
}

impl From<&Features> for StoredFeatures {
    fn from(features: &Features) -> Self {
        let names = |need: Need| {
            let active = features.active.iter().filter(move |of| of.need() == need);
            active.map(|feature| feature.name().to_owned())
        };
        let enabled = features.enabled.iter().map(|of| of.name().to_owned());
        Self {
            read: names(Need::Read).collect(),
            write: names(Need::Write)
                .chain(features.unknown_to_write.iter().cloned())
                .collect(),
            enabled: enabled
                .chain(features.unknown_enabled.iter().cloned())
                .collect(),
        }
    }
}

impl Features {
    /// Refuses to write to a pool if writing needs features that this program lacks.
    ///
    /// # Errors
    /// The error names the features that the program lacks.
    pub(super) fn require_writable(&self, pool: &str) -> Result<(), OpenError> {
        let lacking: Vec<&str> = self.unknown_to_write().collect();
        match lacking.is_empty() {
            true => Ok(()),
            false => Err(OpenError {
                kind: OpenErrorKind::ReadOnlyVersion,
                ..lacks(pool, &lacking, "write to")
            }),
        }
    }
}

fn lacks(pool: &str, names: &[&str], to: &str) -> OpenError {
    let (features, it) = match names.len() {
        1 => ("feature", "it"),
        _ => ("features", "them"),
    };
    let context = format!(
        "pool {pool} uses the format {features} {}, and this program does not know {it}: a newer program is needed to \
         {to} the pool. Nothing was changed",
        names.join(", ")
    );
    OpenError::new(OpenErrorKind::Version, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(read: &[&str], write: &[&str], enabled: &[&str]) -> StoredFeatures {
        let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect();
        StoredFeatures {
            read: names(read),
            write: names(write),
            enabled: names(enabled),
        }
    }

    #[test]
    fn each_feature_has_a_name_of_its_own_and_is_found_by_it() {
        for feature in Feature::ALL {
            assert_eq!(Feature::of_name(feature.name()), Some(feature));
            assert!(!feature.description().is_empty());
        }
    }

    #[test]
    fn features_survive_the_disk() {
        let features = stored(&["signposts"], &["later"], &["latest"]);
        let open = features.clone().open("tank").expect("they are known");
        assert_eq!(StoredFeatures::from(&open), features);
        assert!(open.is_active(Feature::Signposts));
        let new = Features::of_new_pool();
        let again = StoredFeatures::from(&new).open("tank");
        assert_eq!(again.expect("its own"), new);
    }

    #[test]
    fn a_feature_that_reading_needs_is_named() {
        let error = stored(&["signposts", "telepathy"], &[], &[]).open("tank");
        let error = error.expect_err("it is not known");
        assert_eq!(error.kind, OpenErrorKind::Version);
        assert!(error.context.contains("feature telepathy"), "{error}");
        assert!(!error.context.contains("signposts"), "{error}");
    }

    #[test]
    fn a_feature_that_writing_needs_leaves_the_pool_readable() {
        let features = stored(&[], &["clairvoyance", "telepathy"], &[]).open("tank");
        let features = features.expect("it can be read");
        let error = features.require_writable("tank").expect_err("not written");
        assert_eq!(error.kind, OpenErrorKind::ReadOnlyVersion);
        assert!(
            error.context.contains("features clairvoyance, telepathy"),
            "{error}"
        );
    }

    #[test]
    fn a_feature_is_enabled_before_it_is_active() {
        let mut features = Features::default();
        assert_eq!(features.state(Feature::Signposts), FeatureState::Disabled);
        assert!(!features.activate(Feature::Signposts));
        assert!(features.enable_all());
        assert!(!features.enable_all());
        assert_eq!(features.state(Feature::Signposts), FeatureState::Enabled);
        assert!(features.activate(Feature::Signposts));
        assert!(!features.activate(Feature::Signposts));
        assert_eq!(features.state(Feature::Signposts), FeatureState::Active);
    }
}
