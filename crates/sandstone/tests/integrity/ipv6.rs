//! Target that is served over IPv6.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use block::memory::MemoryDevice;

use crate::losses::kill::settings;
use crate::losses::late_write::{BLOCK, write_cdb};
use crate::rig::served::{self, Served, limits};
use crate::rig::session::PipelinedSession;

#[test]
fn a_unit_is_written_and_read_over_ipv6() {
    let free = TcpListener::bind((Ipv6Addr::LOCALHOST, 0));
    let portal: SocketAddr = free.unwrap().local_addr().unwrap();
    let disk = Arc::new(MemoryDevice::new(64 * BLOCK as u64, BLOCK as u32, 1 << 20).unwrap());
    let units = vec![served::unit(0, 64, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, vec![disk], limits());
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    let written = session.run(0, write_cdb(), 0, vec![b'a'; BLOCK]);
    assert_eq!(written.status, 0);
    let mut read = write_cdb();
    read[0] = 0x88;
    let found = session.run(0, read, BLOCK, Vec::new());
    assert_eq!(found.data_in, [b'a'; BLOCK]);
    session.cut();
    served.stop();
}
