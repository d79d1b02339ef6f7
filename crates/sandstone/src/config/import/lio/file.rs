//! The parts of a saveconfig.json that mean something to us.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Attributes by name: targetcli writes numbers, others write strings or booleans.
pub(super) type Attributes = BTreeMap<String, Value>;

#[derive(Deserialize)]
pub(super) struct SaveConfig {
    #[serde(default)]
    pub(super) storage_objects: Vec<StorageObject>,
    #[serde(default)]
    pub(super) targets: Vec<Target>,
    #[serde(default)]
    pub(super) fabric_modules: Vec<FabricModule>,
}

/// What holds for the whole of a fabric: for iSCSI, how discovery sessions prove who they are.
#[derive(Deserialize)]
pub(super) struct FabricModule {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) discovery_enable_auth: Value,
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
    #[serde(default)]
    pub(super) write_back: Value,
    #[serde(default)]
    pub(super) readonly: Value,
    #[serde(default)]
    pub(super) attributes: Attributes,
}

#[derive(Deserialize)]
pub(super) struct Target {
    pub(super) fabric: String,
    pub(super) wwn: String,
    #[serde(default)]
    pub(super) tpgs: Vec<Tpg>,
}

#[derive(Deserialize)]
pub(super) struct Tpg {
    pub(super) tag: u16,
    #[serde(default = "yes")]
    pub(super) enable: Value,
    #[serde(default)]
    pub(super) attributes: Attributes,
    #[serde(default)]
    pub(super) parameters: Attributes,
    #[serde(default)]
    pub(super) luns: Vec<Lun>,
    #[serde(default)]
    pub(super) node_acls: Vec<NodeAcl>,
    #[serde(default)]
    pub(super) portals: Vec<Portal>,
    #[serde(flatten)]
    pub(super) chap: Chap,
}

fn yes() -> Value {
    Value::Bool(true)
}

/// Who is known, and what is answered: at an ACL, or at a portal group for whoever has none.
#[derive(Clone, Deserialize, PartialEq, Eq)]
pub(super) struct Chap {
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_userid: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_password: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_mutual_userid: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) chap_mutual_password: String,
}

#[derive(Deserialize)]
pub(super) struct Lun {
    pub(super) index: u64,
    pub(super) storage_object: String,
}

#[derive(Deserialize)]
pub(super) struct NodeAcl {
    pub(super) node_wwn: String,
    #[serde(default)]
    pub(super) attributes: Attributes,
    #[serde(flatten)]
    pub(super) chap: Chap,
    #[serde(default)]
    pub(super) mapped_luns: Vec<MappedLun>,
}

#[derive(Deserialize)]
pub(super) struct MappedLun {
    pub(super) index: u64,
    pub(super) tpg_lun: u64,
    #[serde(default)]
    pub(super) write_protect: Value,
}

#[derive(Deserialize)]
pub(super) struct Portal {
    pub(super) ip_address: String,
    pub(super) port: u16,
    #[serde(default)]
    pub(super) iser: Value,
}

/// Text that may be `null`.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

/// A value as a number; `None` where it is none.
pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(value) => Some((*value).into()),
        Value::Number(value) => value.as_i64(),
        Value::String(value) => value.trim().parse().ok(),
        _ => None,
    }
}

/// Whether a value says yes; `default` where there is none.
pub(super) fn on(value: Option<&Value>, default: bool) -> bool {
    value.and_then(number).map_or(default, |value| value != 0)
}

/// A value as it is written in a configuration.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
