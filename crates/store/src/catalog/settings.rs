//! The effective settings of a dataset, from its own values, those above it, and defaults. They are
//! typed, for the engine.

use super::dataset::DatasetKind;
use super::properties::{Effective, Source};
use super::property::{Native, Property};
use super::value::{CachePolicy, ChecksumChoice, CompressionChoice, SyncPolicy, Value};
use super::{Catalog, Dataset};
use crate::format::DatasetId;
use crate::stream::ResumeToken;

/// Settings that the engine needs of a volume or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Compression of new blocks.
    pub compression: CompressionChoice,
    /// Checksum of new blocks.
    pub checksum: ChecksumChoice,
    /// Number of copies of new blocks: 1 or 2.
    pub copies: u8,
    /// Policy of the cache in memory.
    pub primary_cache: CachePolicy,
    /// Policy of cache devices.
    pub secondary_cache: CachePolicy,
    /// Policy of making writes durable.
    pub sync: SyncPolicy,
    /// Whether writes are refused. For snapshots this is always so.
    pub is_readonly: bool,
    /// Bytes that are reserved for the dataset; 0 is none.
    pub refreservation: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            compression: CompressionChoice::On,
            checksum: ChecksumChoice::On,
            copies: 1,
            primary_cache: CachePolicy::All,
            secondary_cache: CachePolicy::All,
            sync: SyncPolicy::Standard,
            is_readonly: false,
            refreservation: 0,
        }
    }
}

impl Catalog {
    /// Returns the settings of a dataset; the defaults if there is no such dataset.
    pub fn settings(&self, id: DatasetId) -> Settings {
        let mut settings = Settings::default();
        for native in [
            Native::Compression,
            Native::Checksum,
            Native::Copies,
            Native::Primarycache,
            Native::Secondarycache,
            Native::Sync,
            Native::Readonly,
            Native::Refreservation,
        ] {
            let value = self
                .property(id, &native.into())
                .map(|effective| effective.value);
            match value {
                Some(Value::Compression(choice)) => settings.compression = choice,
                Some(Value::Checksum(choice)) => settings.checksum = choice,
                Some(Value::Copies(copies)) => settings.copies = copies,
                Some(Value::Cache(policy)) if native == Native::Primarycache => {
                    settings.primary_cache = policy;
                }
                Some(Value::Cache(policy)) => settings.secondary_cache = policy,
                Some(Value::Sync(policy)) => settings.sync = policy,
                Some(Value::Switch(is_on)) => settings.is_readonly = is_on,
                Some(Value::Reservation(bytes)) => settings.refreservation = bytes.unwrap_or(0),
                _ => {}
            }
        }
        settings
    }

    /// Returns a property's value and source. Returns `None` if the dataset does not exist or has
    /// no such property, and for values that only the engine can compute (space and ratios).
    pub fn property(&self, id: DatasetId, property: &Property) -> Option<Effective> {
        let dataset = self.dataset(id)?;
        let Property::Native(native) = property else {
            return self.set_or_inherited(dataset, property);
        };
        let info = native.info();
        if !info.has_it.contains(dataset.kind.letter()) {
            return None;
        }
        if let Some(value) = self.value_by_nature(dataset, *native) {
            return Some(Effective {
                value,
                source: Source::None,
            });
        }
        if let Some(effective) = self.set_or_inherited(dataset, property) {
            return Some(effective);
        }
        Value::parse(property, info.default)
            .ok()
            .map(|value| Effective {
                value,
                source: Source::Default,
            })
    }

    /// Returns all effective user properties of a dataset, by name.
    pub fn user_properties(&self, id: DatasetId) -> Vec<(String, Effective)> {
        let mut names = std::collections::BTreeSet::new();
        for dataset in self.lineage(id) {
            let set = dataset.properties.0.keys().chain(dataset.received.0.keys());
            names.extend(set.filter(|property| matches!(property, Property::User(_))));
        }
        let with_values = names.into_iter().filter_map(|property| {
            let effective = self.property(id, property)?;
            Some((property.to_string(), effective))
        });
        with_values.collect()
    }

    fn set_or_inherited(&self, dataset: &Dataset, property: &Property) -> Option<Effective> {
        let own = [
            (dataset.properties.get(property), Source::Local),
            (dataset.received.get(property), Source::Received),
        ];
        for (value, source) in own {
            if let Some(value) = value.cloned() {
                return Some(Effective { value, source });
            }
        }
        if !property.is_inheritable() {
            return None;
        }
        self.lineage(dataset.id).skip(1).find_map(|above| {
            let set = above.properties.get(property);
            let value = set.or(above.received.get(property))?.clone();
            let source = Source::Inherited(above.id);
            Some(Effective { value, source })
        })
    }

    /// Returns the token with which an interrupted receive into a volume goes on.
    pub fn resume_token(&self, volume: DatasetId) -> Option<ResumeToken> {
        let receiving = self.receiving(volume)?;
        Some(ResumeToken {
            snapshot: receiving.snapshot,
            from: receiving.from,
            position: receiving.position,
            with_properties: receiving.with_properties,
            folders: receiving.folders,
        })
    }

    /// Returns the value that a dataset has by nature, whatever was set.
    fn value_by_nature(&self, dataset: &Dataset, native: Native) -> Option<Value> {
        let names = |ids: Vec<DatasetId>| {
            let names: Vec<_> = ids.into_iter().map(|id| self.full_name(id)).collect();
            Value::Text(names.join(","))
        };
        Some(match native {
            Native::Type => Value::Text(dataset.kind.as_str().to_owned()),
            Native::Creation => Value::Number(dataset.created_s),
            Native::Guid => Value::Number(dataset.guid),
            Native::Volsize => Value::Size(dataset.geometry()?.0),
            Native::Volblocksize => Value::Size(dataset.geometry()?.1.into()),
            Native::Origin => match self.origin(dataset.id) {
                Some(origin) => names(vec![origin]),
                None => Value::Text("-".to_owned()),
            },
            Native::Clones => names(self.clones(dataset.id)),
            Native::SnapshotCount => Value::Number(self.count_snapshots(dataset.id)),
            Native::Userrefs => Value::Number(dataset.as_snapshot()?.holds.len() as u64),
            Native::ReceiveResumeToken => {
                let token = self.resume_token(dataset.id);
                Value::Text(token.map_or_else(|| "-".to_owned(), |token| token.to_string()))
            }
            Native::Createtxg => Value::Number(dataset.as_snapshot()?.epoch.0),
            Native::Readonly if matches!(dataset.kind, DatasetKind::Snapshot(_)) => {
                Value::Switch(true)
            }
            _ => return None,
        })
    }
}
