//! The values that were set on one dataset, and where an effective value comes from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::CatalogError;
use super::property::Property;
use super::value::Value;
use crate::format::DatasetId;

/// Properties and their values. On disks an object of texts: `{"compression": "zstd-3"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<String, String>",
    into = "BTreeMap<String, String>"
)]
pub struct Properties(pub BTreeMap<Property, Value>);

impl Properties {
    /// Whether nothing was set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of one, where it was set.
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

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It was set here.
    Local,
    /// It came with a stream.
    Received,
    /// It was set there.
    Inherited(DatasetId),
    /// Nobody set it.
    Default,
    /// It belongs to the dataset by nature, or is computed; zfs prints `-`.
    None,
}

/// What holds for a dataset, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
}
