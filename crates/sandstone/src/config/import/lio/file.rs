//! The parts of a saveconfig.json that mean something to us, and the names of the others.
//!
//! Values are read strictly: a `write_protect` that is not understood must not become a writable unit. What is wrong is
//! refused while it is read, which is when its line is known.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Attributes that are 0 or 1 and decide who sees what, or how.
const SWITCHES: [&str; 7] = [
    "cache_dynamic_acls",
    "demo_mode_write_protect",
    "emulate_tpu",
    "emulate_tpws",
    "emulate_write_cache",
    "generate_node_acls",
    "prod_mode_write_protect",
];

/// What is not read here, by name.
pub(super) type Rest = BTreeMap<String, Value>;

/// Attributes by name: targetcli writes numbers, others write strings of digits or booleans.
pub(super) type Attributes = BTreeMap<String, i64>;

/// Session parameters by the names of the standard.
pub(super) type Parameters = BTreeMap<String, String>;

#[derive(Deserialize)]
pub(super) struct SaveConfig {
    #[serde(default)]
    pub(super) storage_objects: Vec<StorageObject>,
    #[serde(default)]
    pub(super) targets: Vec<Target>,
    #[serde(default)]
    pub(super) fabric_modules: Vec<FabricModule>,
    #[serde(flatten)]
    pub(super) rest: Rest,
}

/// What holds for the whole of a fabric: for iSCSI, how discovery sessions prove who they are.
#[derive(Deserialize)]
pub(super) struct FabricModule {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default, deserialize_with = "flag")]
    pub(super) discovery_enable_auth: Option<bool>,
    #[serde(default, deserialize_with = "text")]
    pub(super) discovery_userid: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) discovery_password: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) discovery_mutual_userid: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) discovery_mutual_password: String,
}

#[derive(Deserialize)]
pub(super) struct StorageObject {
    pub(super) name: String,
    pub(super) plugin: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) dev: String,
    #[serde(default)]
    pub(super) size: u64,
    #[serde(default, deserialize_with = "text")]
    pub(super) wwn: String,
    /// Old files call it by the other name.
    #[serde(default, alias = "buffered_mode", deserialize_with = "flag")]
    pub(super) write_back: Option<bool>,
    #[serde(default, deserialize_with = "flag")]
    pub(super) readonly: Option<bool>,
    #[serde(default, deserialize_with = "attributes")]
    pub(super) attributes: Attributes,
    #[serde(flatten)]
    pub(super) rest: Rest,
}

#[derive(Deserialize)]
pub(super) struct Target {
    pub(super) fabric: String,
    pub(super) wwn: String,
    #[serde(default)]
    pub(super) tpgs: Vec<Tpg>,
    #[serde(flatten)]
    pub(super) rest: Rest,
}

#[derive(Deserialize)]
pub(super) struct Tpg {
    pub(super) tag: u16,
    #[serde(default, deserialize_with = "flag")]
    pub(super) enable: Option<bool>,
    #[serde(default, deserialize_with = "attributes")]
    pub(super) attributes: Attributes,
    #[serde(default, deserialize_with = "parameters")]
    pub(super) parameters: Parameters,
    #[serde(default)]
    pub(super) luns: Vec<Lun>,
    #[serde(default)]
    pub(super) node_acls: Vec<NodeAcl>,
    #[serde(default)]
    pub(super) portals: Vec<Portal>,
    // Users are fields of their own, here and at ACLs: a flattened structure would lose the line of a wrong value.
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_userid: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_password: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_mutual_userid: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_mutual_password: String,
    #[serde(flatten)]
    pub(super) rest: Rest,
}

#[derive(Deserialize)]
pub(super) struct Lun {
    pub(super) index: u64,
    pub(super) storage_object: String,
    #[serde(flatten)]
    pub(super) rest: Rest,
}

#[derive(Deserialize)]
pub(super) struct NodeAcl {
    pub(super) node_wwn: String,
    #[serde(default, deserialize_with = "attributes")]
    pub(super) attributes: Attributes,
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_userid: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_password: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_mutual_userid: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_mutual_password: String,
    #[serde(default)]
    pub(super) mapped_luns: Vec<MappedLun>,
    #[serde(flatten)]
    pub(super) rest: Rest,
}

#[derive(Deserialize)]
pub(super) struct MappedLun {
    pub(super) index: u64,
    pub(super) tpg_lun: u64,
    #[serde(default, deserialize_with = "flag")]
    pub(super) write_protect: Option<bool>,
    #[serde(flatten)]
    pub(super) rest: Rest,
}

#[derive(Deserialize)]
pub(super) struct Portal {
    pub(super) ip_address: String,
    pub(super) port: u16,
    #[serde(default, deserialize_with = "flag")]
    pub(super) iser: Option<bool>,
    #[serde(flatten)]
    pub(super) rest: Rest,
}

/// Text that may be `null`.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

/// A switch that may be `null`.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(value)),
        Value::Number(value) if value.as_u64() == Some(0) => Ok(Some(false)),
        Value::Number(value) if value.as_u64() == Some(1) => Ok(Some(true)),
        other => Err(D::Error::custom(format!(
            "{other} is neither true nor false"
        ))),
    }
}

fn attributes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attributes, D::Error> {
    deserializer.deserialize_map(Each(|key: &str, value: &Value| {
        let number = match value {
            Value::Bool(value) => Some((*value).into()),
            Value::Number(value) => value.as_i64(),
            Value::String(value) => value.trim().parse().ok(),
            _ => None,
        };
        // LIO refuses other values, and goes on with what it had.
        let is_valid = |number: &i64| match key {
            "authentication" => (-1..=1).contains(number),
            key => !SWITCHES.contains(&key) || (0..=1).contains(number),
        };
        number.filter(is_valid)
    }))
}

fn parameters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Parameters, D::Error> {
    deserializer.deserialize_map(Each(|_: &str, value: &Value| match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Some(shown(value)),
        _ => None,
    }))
}

/// A map whose values are read by a function, which understands them or not.
struct Each<F>(F);

impl<'de, T, F: Fn(&str, &Value) -> Option<T>> Visitor<'de> for Each<F> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names with values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((key, value)) = given.next_entry::<String, Value>()? {
            let understood = (self.0)(&key, &value)
                .ok_or_else(|| A::Error::custom(format!("{value} is no value of {key}")))?;
            map.insert(key, understood);
        }
        Ok(map)
    }
}

/// A value as it is written in a configuration.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
