//! Properties and format features of a pool: `pool set`, `get` and `upgrade`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Request of `pool set`: a property and its new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPoolProperty {
    /// Name of the property: autoexpand, autoreplace, autotrim or multihost.
    pub property: String,
    /// Value: on or off. multihost may also be auto.
    pub value: String,
}

/// A property of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolPropertyView {
    /// Name of the feature.
    pub name: String,
    /// Value: on or off. multihost may also be auto.
    pub value: String,
    /// Source of the value: `local` if the administrator set it, otherwise `default`.
    pub source: String,
}

/// Returns the place of a property that zfs administrators expect, but pools do not have. The
/// caller knows whether it is a property of datasets.
pub fn elsewhere(property: &str, is_of_datasets: bool) -> Option<&'static str> {
    if is_of_datasets {
        return Some(
            "it is a property of datasets: `sandstone volume set NAME=VALUE POOL` sets it for the whole pool",
        );
    }
    Some(match property {
        "ashift" => {
            "omit it: pools always write whole blocks of 4096 bytes, as zpool's ashift=12 does"
        }
        "readonly" => "it is chosen at import: `sandstone pool import -o readonly=on POOL`",
        "comment" => "keep it as a property of your own: `sandstone volume set my:note=TEXT POOL`",
        "failmode" => {
            "omit it: I/O waits while devices are away, and continues by itself when they are back"
        }
        "cachefile" | "altroot" | "bootfs" | "delegation" | "listsnapshots" | "dedupditto" => {
            "omit it: nothing is mounted or booted from a pool, and the state folder knows the pools"
        }
        "version" | "compatibility" => {
            "see `sandstone pool upgrade` for the features of the format"
        }
        _ => return None,
    })
}

/// A format feature, and the extent to which a pool uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FeatureView {
    /// Name of the feature.
    pub name: String,
    /// State of the feature: `disabled`, `enabled` if the pool may use it, `active` if the pool
    /// uses it.
    pub state: String,
    /// Access that needs a program to know an active feature: `read` or `write`. Empty if this
    /// program does not know the feature.
    pub needed_to: String,
    /// Benefit of the feature.
    pub description: String,
}
