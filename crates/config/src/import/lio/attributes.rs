//! The attributes of LIO's storage objects and portal groups, and their fate.

use serde_json::Value;

use super::Import;
use super::file::{Attributes, NodeAcl, Rest, StorageObject, Tpg, shown};
use crate::import::dropped::Reason;

/// Attributes of storage objects that are taken over.
const CARRIED: [&str; 4] = [
    "block_size",
    "emulate_tpu",
    "emulate_tpws",
    "emulate_write_cache",
];

/// Attributes that LIO reads from the device itself.
const OF_THE_DEVICE: [&str; 6] = [
    "hw_block_size",
    "hw_max_sectors",
    "hw_pi_prot_type",
    "hw_queue_depth",
    "optimal_sectors",
    "queue_depth",
];

/// An attribute, and the values that state what holds here anyway.
type Attribute = (&'static str, &'static [i64]);

/// All other attributes of storage objects.
const UNIT: &[(Reason, &[Attribute])] = &[
    (Reason::Identity, &[("emulate_model_alias", &[0])]),
    (
        Reason::Device,
        &[("is_nonrot", &[0]), ("unmap_zeroes_data", &[0])],
    ),
    (
        Reason::Limits,
        &[
            ("max_unmap_block_desc_count", &[0]),
            ("max_unmap_lba_count", &[0]),
            ("max_write_same_len", &[0, 4096]),
            ("unmap_granularity", &[0, 1]),
            ("unmap_granularity_alignment", &[0]),
        ],
    ),
    (
        Reason::Inner,
        &[("complete_type", &[0]), ("submit_type", &[0])],
    ),
    (
        Reason::Absent,
        &[
            ("alua_support", &[1]),
            ("emulate_3pc", &[1]),
            ("emulate_caw", &[1]),
            ("emulate_dpo", &[1]),
            ("emulate_fua_read", &[0, 1]),
            ("emulate_fua_write", &[1]),
            ("emulate_pr", &[1]),
            ("emulate_rest_reord", &[0]),
            ("emulate_rsoc", &[1]),
            ("emulate_tas", &[1]),
            ("emulate_ua_intlck_ctrl", &[0]),
            ("enforce_pr_isids", &[1]),
            ("force_pr_aptpl", &[0]),
            ("pgr_support", &[1]),
            ("pi_prot_format", &[0]),
            ("pi_prot_type", &[0]),
            ("pi_prot_verify", &[0]),
        ],
    ),
];

/// Attributes of portal groups and ACLs that are read elsewhere, or mean nothing without LIO's own
/// dynamic ACLs.
const READ_ELSEWHERE: [&str; 6] = [
    "authentication",
    "cache_dynamic_acls",
    "default_cmdsn_depth",
    "demo_mode_write_protect",
    "generate_node_acls",
    "prod_mode_write_protect",
];

/// All other attributes of portal groups and ACLs, each with the value that states what holds here
/// anyway.
const GROUP: [(&str, i64); 14] = [
    ("dataout_timeout", 3),
    ("dataout_timeout_retries", 5),
    ("default_erl", 0),
    ("demo_mode_discovery", 1),
    ("fabric_prot_type", 0),
    ("login_timeout", 15),
    ("netif_timeout", 2),
    ("nopin_response_timeout", 30),
    ("nopin_timeout", 15),
    ("random_datain_pdu_offsets", 0),
    ("random_datain_seq_offsets", 0),
    ("random_r2t_offsets", 0),
    ("t10_pi", 0),
    ("tpg_enabled_sendtargets", 1),
];

const DEFAULT_ALUA_GROUP: &str = "default_tg_pt_gp";

/// Fields that rtslib ignores or accepts, beside those that are read here. It makes no object that
/// has any other field.
const FIELDS: [&str; 6] = [
    "aio",
    "alua_tpgs",
    "buffered_mode",
    "exclusive",
    "exists",
    "nullio",
];

/// Returns a field for which rtslib refuses a storage object: it may be a misspelt `readonly`.
pub(super) fn unknown_field(object: &StorageObject) -> Option<&String> {
    let mut fields = object.rest.keys();
    fields.find(|field| !FIELDS.contains(&field.as_str()))
}

impl Import {
    /// Collects the attributes of a storage object that are not taken over.
    pub(super) fn drop_of_object(&mut self, object: &StorageObject) {
        for (attribute, value) in &object.attributes {
            let attribute = attribute.as_str();
            if CARRIED.contains(&attribute) || OF_THE_DEVICE.contains(&attribute) {
                continue;
            }
            let known = UNIT.iter().find_map(|(reason, attributes)| {
                let known = attributes.iter().find(|(name, _)| *name == attribute);
                known.map(|(_, ours)| (*reason, *ours))
            });
            let (reason, ours) = known.unwrap_or((Reason::Absent, &[]));
            if !ours.contains(value) {
                self.dropped
                    .add(reason, attribute, &value.to_string(), &object.name);
            }
        }
        let groups = object.rest.get("alua_tpgs").and_then(Value::as_array);
        for group in groups.into_iter().flatten() {
            let name = group.get("name").map(shown).unwrap_or_default();
            let state = group.get("alua_access_state");
            if name != DEFAULT_ALUA_GROUP || state.is_some_and(|state| state != 0) {
                let state = state.map(shown).unwrap_or_default();
                let what = format!(
                    "the ALUA group {name} (state {state}) of storage object {}",
                    object.name
                );
                let why = "set ALUA states with `sandstone target alua-state`";
                self.imported.leave_out(what, why);
            }
        }
        self.drop_rest(
            &object.name,
            &object.rest,
            &["alua_tpgs", "exclusive", "exists"],
        );
    }

    /// Names the attributes of a portal group that are not taken over.
    pub(super) fn drop_of_group(&mut self, iqn: &str, tpg: &Tpg) {
        let others = others(&tpg.attributes);
        if !others.is_empty() {
            self.imported.note(format!(
                "target {iqn} was imported without {}",
                others.join(", ")
            ));
        }
        self.drop_rest(iqn, &tpg.rest, &[]);
        for lun in &tpg.luns {
            let object = format!("LUN {} of {iqn}", lun.index);
            let group = lun.rest.get("alua_tg_pt_gp_name").map(shown);
            let known = ["alias", "alua_tg_pt_gp_name"];
            let known = &known[..1 + usize::from(group.as_deref() == Some(DEFAULT_ALUA_GROUP))];
            self.drop_rest(&object, &lun.rest, known);
        }
        for portal in &tpg.portals {
            let object = format!("{}:{} of {iqn}", portal.ip_address, portal.port);
            self.drop_rest(&object, &portal.rest, &[]);
        }
        for acl in &tpg.node_acls {
            self.drop_of_acl(iqn, acl);
        }
    }

    fn drop_of_acl(&mut self, iqn: &str, acl: &NodeAcl) {
        let others = others(&acl.attributes);
        let object = format!("the ACL of {} at {iqn}", acl.node_wwn);
        if !others.is_empty() {
            self.imported.note(format!(
                "{object} was imported without {}",
                others.join(", ")
            ));
        }
        // A tag names a group of ACLs in targetcli.
        self.drop_rest(&object, &acl.rest, &["tag"]);
        for mapped in &acl.mapped_luns {
            let object = format!("LUN {} of {object}", mapped.index);
            self.drop_rest(&object, &mapped.rest, &["alias"]);
        }
    }

    /// Collects fields that are not read here, except those without content.
    pub(super) fn drop_rest(&mut self, object: &str, rest: &Rest, known: &[&str]) {
        for (field, value) in rest {
            let value = match value {
                Value::Null | Value::Bool(false) => continue,
                Value::Array(list) if list.is_empty() => continue,
                Value::Object(map) if map.is_empty() => continue,
                Value::Array(_) | Value::Object(_) => "…".to_owned(),
                value => shown(value),
            };
            if value.is_empty() || known.contains(&field.as_str()) {
                continue;
            }
            let reason = match field.as_str() {
                "aio" | "offload" => Reason::Inner,
                _ => Reason::Absent,
            };
            self.dropped.add(reason, field, &value, object);
        }
    }
}

/// Lists the attributes of a portal group or an ACL that have no counterpart.
fn others(attributes: &Attributes) -> Vec<String> {
    let others = attributes.iter().filter(|(key, value)| {
        let key = key.as_str();
        !GROUP.contains(&(key, **value)) && !READ_ELSEWHERE.contains(&key)
    });
    others
        .map(|(key, value)| format!("{key} {value}"))
        .collect()
}
