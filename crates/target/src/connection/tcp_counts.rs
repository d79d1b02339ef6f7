//! Segments and retransmits of TCP, summed for each portal.
//!
//! The kernel counts for each connection. A system call reads its counts, so loops read them only
//! when somebody asks for sessions, and once more when a connection ends.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::data_plane::PortalTcp;
use net::tcp_info::TcpInfo;

/// Sums of all portals that had sessions.
#[derive(Debug, Default)]
pub(crate) struct PortalCounts(Mutex<BTreeMap<SocketAddr, PortalTcp>>);

/// Counts of one connection that are in the sums of its portal already. They wrap as the kernel's
/// do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    segments: u32,
    retransmits: u32,
}

impl PortalCounts {
    /// Adds what the kernel has counted for a connection since the last call.
    pub(crate) fn add(&self, portal: SocketAddr, socket: impl AsFd, counted: &mut Counted) {
        // A socket whose state cannot be read has nothing to add.
        let Ok(info) = TcpInfo::of(socket) else {
            return;
        };
        self.add_up_to(portal, &info, counted);
    }

    fn add_up_to(&self, portal: SocketAddr, info: &TcpInfo, counted: &mut Counted) {
        let now = Counted {
            segments: info.data_segs_out,
            retransmits: info.total_retrans,
        };
        let segments = now.segments.wrapping_sub(counted.segments);
        let retransmits = now.retransmits.wrapping_sub(counted.retransmits);
        let mut portals = self.locked();
        let sums = portals.entry(portal).or_insert(PortalTcp {
            address: portal,
            segments: 0,
            retransmits: 0,
        });
        sums.segments += u64::from(segments);
        sums.retransmits += u64::from(retransmits);
        *counted = now;
    }

    /// Returns the sums, by address.
    pub(crate) fn all(&self) -> Vec<PortalTcp> {
        self.locked().values().copied().collect()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, PortalTcp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_connections_add_up_and_survive_a_wrap() {
        let portal: SocketAddr = "192.0.2.1:3260".parse().unwrap();
        let counts = PortalCounts::default();
        let told = |data_segs_out, total_retrans| TcpInfo {
            data_segs_out,
            total_retrans,
            ..TcpInfo::default()
        };
        let (mut first, mut second) = (Counted::default(), Counted::default());
        counts.add_up_to(portal, &told(u32::MAX, 3), &mut first);
        counts.add_up_to(portal, &told(10, 1), &mut second);
        counts.add_up_to(portal, &told(4, 3), &mut first);
        counts.add_up_to(portal, &told(10, 2), &mut second);
        let expected = PortalTcp {
            address: portal,
            segments: u64::from(u32::MAX) + 5 + 10,
            retransmits: 5,
        };
        assert_eq!(counts.all(), [expected]);
    }
}
