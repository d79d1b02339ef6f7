//! Figures of the network interfaces of the daemon's machine.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rare::sums;

sums! {
    /// Packets and bytes of one interface since the machine started.
    InterfaceSums {
        /// Packets received.
        received_packets,
        /// Bytes received.
        received_bytes,
        /// Received packets that were dropped.
        received_dropped,
        /// Packets sent.
        sent_packets,
        /// Bytes sent.
        sent_bytes,
        /// Packets that were to be sent and were dropped.
        sent_dropped,
    }
}

/// Figures of one network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InterfaceFigures {
    /// Name of the interface.
    pub name: String,
    /// Number of the interface in the system.
    pub number: u32,
    /// Bond or team to which the interface belongs. `None` means that it belongs to none.
    pub team: Option<String>,
    /// Bridge to which the interface belongs. `None` means that it belongs to none.
    pub bridge: Option<String>,
    /// Addresses of the interface.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<std::net::IpAddr>,
    /// Portals at which targets listen on the interface, as address and port.
    pub portals: Vec<String>,
    /// Sums of the interface.
    #[serde(flatten)]
    pub sums: InterfaceSums,
}
