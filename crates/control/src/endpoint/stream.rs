//! Streams of snapshots, and salvage.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::description::queries;
use super::endpoints;
use model::pool::salvage::SalvageRequest;
use model::pool::stream::{PartView, ReceiveRequest, ReceiveView, SendRequest};

endpoints! {
    "volume":
    /// Sends snapshots. Errors on the way are reported in the stream itself.
    SEND = Admin POST "/v1/streams/send" "stream_send" ((), SendRequest) -> Octets;
    /// Copies the readable bytes of a volume, and reports the unreadable ranges. Each piece has a
    /// kind, an offset and a length. Pieces of data carry their bytes, unless these go into a new
    /// volume.
    SALVAGE = Admin POST "/v1/volumes/salvage" "volume_salvage" ((), SalvageRequest) -> Octets;
    /// Estimates the size of a stream.
    ESTIMATE = Viewer POST "/v1/streams/estimate" "stream_estimate" ((), SendRequest) -> Vec<PartView>;
    /// Receives snapshots. A snapshot is not visible before all of it has arrived. This is refused
    /// while logical units serve the volume.
    RECEIVE = Admin POST "/v1/streams/receive" "stream_receive" (ReceiveRequest, Octets)
        -> Vec<ReceiveView>;
    /// Gives up the data of a partial receive.
    ABORT = Admin POST "/v1/streams/abort" "stream_abort" ((), Abort) -> ();
}

queries!(ReceiveRequest);

/// Bytes of any length, as `docs/stream.md` describes them.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct Octets(#[expect(dead_code, reason = "it stands for a body")] Vec<u8>);

/// Partial receive to give up.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Abort {
    /// The volume.
    pub name: String,
}
