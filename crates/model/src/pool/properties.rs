//! Properties and format features of a pool: `pool set`, `get` and `upgrade`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `pool set`: a property and its new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPoolProperty {
    /// autoexpand, autoreplace, autotrim or multihost.
    pub property: String,
    /// on or off; of multihost also auto.
    pub value: String,
}

/// A property of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolPropertyView {
    /// What it is called.
    pub name: String,
    /// on or off; of multihost also auto.
    pub value: String,
    /// `local` where somebody has set it, otherwise `default`.
    pub source: String,
}

/// Returns the place at which an administrator of zfs finds a property that pools do not have. The
/// caller knows whether the property is one of datasets.
pub fn elsewhere(property: &str, is_of_datasets: bool) -> Option<&'static str> {
    if is_of_datasets {
        return Some(
            "it is a property of datasets: `sandstone volume set NAME=VALUE POOL` sets it for all of the pool",
        );
    }
    Some(match property {
        "ashift" => {
            "leave it away: pools always write whole blocks of 4096 bytes, as zpool's ashift=12 does"
        }
        "readonly" => "it is chosen at import: `sandstone pool import -o readonly=on POOL`",
        "comment" => "keep it beside the pool's datasets: `sandstone volume set my:note=TEXT POOL`",
        "failmode" => {
            "leave it away: I/O waits while devices are away, and goes on by itself when they are back"
        }
        "cachefile" | "altroot" | "bootfs" | "delegation" | "listsnapshots" | "dedupditto" => {
            "leave it away: nothing is mounted or booted from a pool, and the state folder knows the pools"
        }
        "version" | "compatibility" => {
            "see `sandstone pool upgrade` for the features of the format"
        }
        _ => return None,
    })
}

/// A format feature, and how far a pool uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FeatureView {
    /// What it is called.
    pub name: String,
    /// `disabled`, `enabled` where the pool may use it, `active` where it does.
    pub state: String,
    /// What programs must know it for where it is active: `read` or `write`; empty where this
    /// program does not know it.
    pub needed_to: String,
    /// What it gives.
    pub description: String,
}
