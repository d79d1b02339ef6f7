//! The parts of a saveconfig.json that matter here, and the names of all other parts.
//!
//! Values are read strictly: a malformed `write_protect` must not become a writable unit. Errors
//! are raised while reading, because the line is known then.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Attributes of 0 or 1 that decide who sees which unit, or how.
const SWITCHES: [&str; 7] = [
    "cache_dynamic_acls",
    "demo_mode_write_protect",
    "emulate_tpu",
    "emulate_tpws",
    "emulate_write_cache",
    "generate_node_acls",
    "prod_mode_write_protect",
];

/// Fields that are not read here, by name.
pub(super) type Rest = BTreeMap<String, Value>;

/// Attributes by name. targetcli writes numbers; other programs write strings of digits, or
/// booleans.
pub(super) type Attributes = BTreeMap<String, i64>;

/// Session parameters, by the names of the standard.
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

/// Settings of a whole fabric. For iSCSI they say how discovery sessions authenticate.
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
    #[serde(default, deserialize_with = "flag")]
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
    // Users are separate fields, here and at ACLs: a flattened structure would lose the line of a
    // wrong value.
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

/// Reads a text that may be `null`.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a switch that may be `null`.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    deserializer.deserialize_any(Flag)
}

// Visitors of the values themselves refuse bad values, because the line is known there.
struct Flag;

impl Visitor<'_> for Flag {
    type Value = Option<bool>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        match value {
            0 => Ok(Some(false)),
            1 => Ok(Some(true)),
            other => Err(E::invalid_value(Unexpected::Unsigned(other), &self)),
        }
    }
}

fn attributes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attributes, D::Error> {
    deserializer.deserialize_map(AllAttributes)
}

struct AllAttributes;

impl<'de> Visitor<'de> for AllAttributes {
    type Value = Attributes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("attributes with values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<Attributes, A::Error> {
        let mut map = Attributes::new();
        while let Some(key) = given.next_key::<String>()? {
            let value = given.next_value_seed(Attribute(&key))?;
            map.insert(key, value);
        }
        Ok(map)
    }
}

/// Value of the attribute with this name.
struct Attribute<'a>(&'a str);

impl Attribute<'_> {
    /// Checks a value. LIO refuses other values, and goes on with its old value.
    fn checked<E: de::Error>(self, value: i64) -> Result<i64, E> {
        let is_valid = match self.0 {
            "authentication" => (-1..=1).contains(&value),
            key => !SWITCHES.contains(&key) || (0..=1).contains(&value),
        };
        match is_valid {
            true => Ok(value),
            false => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Attribute<'_> {
    type Value = i64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<i64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Attribute<'_> {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a valid number for {}", self.0)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<i64, E> {
        self.checked(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<i64, E> {
        self.checked(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<i64, E> {
        match i64::try_from(value) {
            Ok(value) => self.checked(value),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(value), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<i64, E> {
        match value.trim().parse() {
            Ok(value) => self.checked(value),
            Err(_) => Err(E::invalid_value(Unexpected::Str(value), &self)),
        }
    }
}

fn parameters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Parameters, D::Error> {
    let given = BTreeMap::<String, Parameter>::deserialize(deserializer)?;
    Ok(given
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect())
}

/// Value of a session parameter: text, or a number that stands for its digits.
struct Parameter(String);

impl<'de> Deserialize<'de> for Parameter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Parameter;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the value of a session parameter")
            }

            fn visit_str<E>(self, value: &str) -> Result<Parameter, E> {
                Ok(Parameter(value.to_owned()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Parameter, E> {
                Ok(Parameter(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Parameter, E> {
                Ok(Parameter(value.to_string()))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Formats a value as in a configuration.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
