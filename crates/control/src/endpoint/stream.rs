//! Streams of snapshots, and salvage.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoints;
use model::pool::salvage::SalvageRequest;
use model::pool::stream::{PartView, ReceiveRequest, ReceiveView, SendRequest};

endpoints! {
    "volume":
    SEND = POST "/v1/streams/send" "stream_send" ((), SendRequest) -> Octets;
    SALVAGE = POST "/v1/volumes/salvage" "volume_salvage" ((), SalvageRequest) -> Octets;
    ESTIMATE = POST "/v1/streams/estimate" "stream_estimate" ((), SendRequest) -> Vec<PartView>;
    RECEIVE = POST "/v1/streams/receive" "stream_receive" (ReceiveRequest, Octets) -> Vec<ReceiveView>;
    ABORT = POST "/v1/streams/abort" "stream_abort" ((), Abort) -> ();
}

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
