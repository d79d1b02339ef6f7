//! The capacity of a link: Ethernet, IP and TCP take their part of every frame.

use serde::{Deserialize, Serialize};

/// Bytes that a frame takes on the wire besides its payload: preamble 8, header 14, check sequence
/// 4, gap 12.
pub const ETHERNET: u32 = 38;

/// Part of `ETHERNET` that Linux counts when it shapes: the header.
pub const ETHERNET_HEADER: u32 = 14;

/// Packing of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// Bytes of an IP packet.
    pub mtu: u32,
    /// Whether packets are IPv6, whose header is 20 bytes longer.
    pub ipv6: bool,
    /// Whether segments have TCP's time stamps, 12 bytes.
    pub timestamps: bool,
}

impl Packing {
    /// Returns the bytes of payload in a full frame.
    pub fn payload(self) -> u32 {
        let ip = if self.ipv6 { 40 } else { 20 };
        let tcp = if self.timestamps { 32 } else { 20 };
        self.mtu.saturating_sub(ip + tcp)
    }

    /// Returns the bytes of payload per second that a link of `bits_per_s` carries when its wire is
    /// full.
    pub fn bytes_per_s(self, bits_per_s: f64) -> f64 {
        bits_per_s / 8.0 * f64::from(self.payload()) / f64::from(self.mtu + ETHERNET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_gigabit_is_117_megabytes() {
        let packing = Packing {
            mtu: 1500,
            ipv6: false,
            timestamps: true,
        };
        assert_eq!(packing.payload(), 1448);
        let megabytes = packing.bytes_per_s(1e9) / 1e6;
        assert!((117.6..117.8).contains(&megabytes), "{megabytes}");
        let jumbo = Packing {
            mtu: 9000,
            ..packing
        };
        let megabytes = jumbo.bytes_per_s(10e9) / 1e6;
        assert!((1236.0..1240.0).contains(&megabytes), "{megabytes}");
    }
}
