//! Streams of snapshots: requests and answers of `volume send` and `volume receive`.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Request of `volume send`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// Name of the snapshot: `tank/vm1@monday`, or also `tank/vms@monday` with `recursive`. It is
    /// empty with a token.
    #[serde(default)]
    pub snapshot: String,
    /// Snapshot from which the changes are sent, `tank/vm1@sunday` or `@sunday`. `None` sends
    /// everything.
    #[serde(default)]
    pub from: Option<String>,
    /// Whether all snapshots in between are sent too.
    #[serde(default)]
    pub intermediate: bool,
    /// Whether all volumes below are sent too, with all their snapshots.
    #[serde(default)]
    pub recursive: bool,
    /// Whether properties that were set are sent too.
    #[serde(default)]
    pub properties: bool,
    /// Token of an interrupted receive, to send the rest. No other field may be set then.
    #[serde(default)]
    pub token: Option<String>,
}

/// A snapshot in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartView {
    /// Full name of the snapshot at its source.
    pub snapshot: String,
    /// Base of an incremental snapshot, as the part after `@`. A base of another volume has its
    /// full name, and makes the volume a clone of it.
    pub from: Option<String>,
    /// Origin of a clone that is sent whole. The stream does not contain the origin.
    #[serde(default)]
    pub left_out: Option<String>,
    /// Approximate bytes of the stream.
    pub bytes: u64,
}

/// Request of `volume receive`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReceiveRequest {
    /// Name of the volume. For a package, name of the folder that will hold its volumes.
    pub name: String,
    /// Naming of volumes if `name` is a folder: the part of the source's name that they keep.
    #[serde(default)]
    #[param(inline)]
    pub below: Option<Below>,
    /// Properties to set on the received datasets, as PROPERTY=VALUE, one a line. They override
    /// properties of the stream.
    #[serde(default)]
    pub set: String,
    /// Properties that are not taken from the stream, one a line.
    #[serde(default)]
    pub without: String,
    /// Whether the volume is first rolled back to its newest snapshot.
    #[serde(default)]
    pub rollback: bool,
    /// Whether an interrupted receive keeps its data, so that it can resume later.
    #[serde(default)]
    pub resumable: bool,
    /// Make missing folders above it.
    #[serde(default)]
    pub parents: bool,
    /// Whether the stream is only checked to be whole, without any change.
    #[serde(default)]
    pub dry_run: bool,
}

/// Part of the source's name that a received volume keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Below {
    /// The whole name without the pool's.
    Path,
    /// The last part of the sent name, and all parts below it.
    Last,
}

/// A snapshot that was received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiveView {
    /// Full name of the snapshot.
    pub snapshot: String,
    /// Full name of the snapshot at its source.
    pub source: String,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Whether the snapshot existed already, so that the one in the stream was skipped.
    #[serde(default)]
    pub was_there: bool,
}
