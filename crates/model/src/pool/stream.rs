//! Streams of snapshots: requests and answers of `volume send` and `volume receive`.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// `tank/vm1@monday`; with `recursive` also `tank/vms@monday`. Empty with a token.
    #[serde(default)]
    pub snapshot: String,
    /// Only what changed since this one, `tank/vm1@sunday` or `@sunday`.
    #[serde(default)]
    pub from: Option<String>,
    /// All snapshots in between too.
    #[serde(default)]
    pub intermediate: bool,
    /// All volumes below too, with all their snapshots.
    #[serde(default)]
    pub recursive: bool,
    /// Properties that were set too.
    #[serde(default)]
    pub properties: bool,
    /// The rest of a receive that was interrupted; nothing else may be said then.
    #[serde(default)]
    pub token: Option<String>,
}

/// A snapshot that a stream carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartView {
    /// Its whole name where it comes from.
    pub snapshot: String,
    /// What stands behind `@` of the one that it is told relative to; the whole name of one of
    /// another volume: the volume is a clone of that.
    pub from: Option<String>,
    /// Of a clone that is sent whole: its origin, which the stream does not bring.
    #[serde(default)]
    pub left_out: Option<String>,
    /// Bytes of the stream, about.
    pub bytes: u64,
}

/// Where a stream goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReceiveRequest {
    /// The volume; of a package the folder that its volumes will lie in.
    pub name: String,
    /// It is a folder: volumes are called in it as they were where they come from.
    #[serde(default)]
    #[param(inline)]
    pub below: Option<Below>,
    /// PROPERTY=VALUE, one a line: set on what is received, whatever comes with the stream.
    #[serde(default)]
    pub set: String,
    /// Properties, one a line, that are not taken from the stream.
    #[serde(default)]
    pub without: String,
    /// Roll the volume back to its newest snapshot first.
    #[serde(default)]
    pub rollback: bool,
    /// Where it is interrupted, keep what is there, to go on another time.
    #[serde(default)]
    pub resumable: bool,
    /// Make missing folders above it.
    #[serde(default)]
    pub parents: bool,
    /// Only see whether the stream is whole; nothing is changed.
    #[serde(default)]
    pub dry_run: bool,
}

/// What of its name where it comes from a volume keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Below {
    /// All but the pool's.
    Path,
    /// The last part of what was sent, and all below it.
    Last,
}

/// A snapshot that was received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiveView {
    /// Its whole name.
    pub snapshot: String,
    /// Its whole name where it comes from.
    pub source: String,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// It was there already, and the stream's was passed over.
    #[serde(default)]
    pub was_there: bool,
}
