//! The values that were set on one dataset, and the sources of effective values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::CatalogError;
use super::property::Property;
use super::value::Value;
use crate::format::DatasetId;

/// Properties and their values. On disks they are an object of texts: `{"compression": "zstd-3"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<String, String>",
    into = "BTreeMap<String, String>"
)]
pub struct Properties(pub BTreeMap<Property, Value>);

impl Properties {
    /// Reports whether no property was set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a property, if it was set.
    pub fn get(&self, property: &Property) -> Option<&Value> {
        self.0.get(property)
    }
}

impl TryFrom<BTreeMap<String, String>> for Properties {
    type Error = CatalogError;

    fn try_from(texts: BTreeMap<String, String>) -> Result<Self, CatalogError> {
        let parsed = texts.iter().map(|(name, text)| {
            let property = Property::parse(name)?;
            let value = Value::parse(&property, text)?;
            Ok((property, value))
        });
        parsed.collect::<Result<_, _>>().map(Self)
    }
}

impl From<Properties> for BTreeMap<String, String> {
    fn from(properties: Properties) -> Self {
        let entries = properties.0.into_iter();
        entries
            .map(|(property, value)| (property.to_string(), value.to_string()))
            .collect()
    }
}

/// Source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The value was set here.
    Local,
    /// The value came with a stream.
    Received,
    /// The value was set on that dataset above.
    Inherited(DatasetId),
    /// The value is the default: nobody set it.
    Default,
    /// The value belongs to the dataset by nature, or is computed. zfs prints `-`.
    None,
}

/// Effective value of a property on a dataset, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Effective value.
    pub value: Value,
    /// Source of the value.
    pub source: Source,
}
