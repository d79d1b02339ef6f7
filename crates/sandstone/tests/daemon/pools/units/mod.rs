//! Logical units on volumes of a pool, as initiators see them.
//!
//! The tests use the real daemon, the real protocol, exact bytes and sense.

mod bench_sweep;
pub(crate) mod copies;
mod creation;
mod group_snapshots;
mod provisioning;
mod readonly;
mod snapshots;
mod space;
mod write_cache;

use std::net::SocketAddr;

use initiator::connection::{Connection, Outcome};

use crate::process::Process;
use crate::served::{BLOCK, TARGET, cdb, free_portal, sense, settings};

/// Session whose LUNs are numbers below 256.
pub(crate) struct Session(pub(crate) Connection);

impl Session {
    fn read(&mut self, lun: u64, cdb: &[u8], length: u32) -> std::io::Result<Outcome> {
        self.0.read(lun << 48, cdb, length)
    }

    fn write(&mut self, lun: u64, cdb: &[u8], data: Vec<u8>) -> std::io::Result<Outcome> {
        self.0.write(lun << 48, cdb, data)
    }
}

/// Daemon with a pool `tank` on files, and a target.
struct Bench {
    process: Process,
    portal: SocketAddr,
}

impl Bench {
    /// Starts the daemon; `pool` holds the options and devices of `tank`.
    fn new(pool: &str) -> Self {
        let process = Process::start();
        let portal = free_portal();
        process.done(&format!("pool create tank {pool}"));
        process.done(&format!("target create {TARGET} --portal {portal}"));
        Self { process, portal }
    }

    /// Creates a unit and maps it.
    fn unit(&self, lun: u16, line: &str) {
        self.process.done(&format!("lu create {line}"));
        let name = line.split(' ').next().unwrap();
        self.process.done(&format!(
            "map add {name} --every-host --target {TARGET} --lun {lun}"
        ));
    }

    /// Logs in initiator port `port`, and takes the first unit attentions of these LUNs.
    fn log_in(&self, port: u8, luns: u64) -> Session {
        let mut session = Session(Connection::open(self.portal, settings(port)).unwrap());
        for lun in 0..luns {
            let told = session.read(lun, &[0; 6], 0).unwrap();
            // POWER ON, or I_T NEXUS LOSS if the initiator port was logged in before.
            let told = sense(&told).expect("a unit attention");
            assert!(matches!(told, [6, 0x29, 0 | 7]), "{told:?}");
        }
        session
    }
}

/// Returns bytes that no compression makes smaller, different for each tag.
fn noise(blocks: usize, tag: u64) -> Vec<u8> {
    let mut state = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(blocks * BLOCK / 8).flatten().collect()
}

/// Sends WRITE(16).
fn write(session: &mut Session, lun: u64, lba: u64, data: &[u8]) -> Outcome {
    let blocks = (data.len() / BLOCK) as u32;
    session
        .write(lun, &cdb(0x8a, lba, blocks), data.to_vec())
        .unwrap()
}

/// Sends READ(16), which must end well, and returns the data.
fn read(session: &mut Session, lun: u64, lba: u64, blocks: u32) -> Vec<u8> {
    let told = session
        .read(lun, &cdb(0x88, lba, blocks), blocks * BLOCK as u32)
        .unwrap();
    assert_eq!(sense(&told), None, "{told:?}");
    told.data_in
}

/// Sends a command without data-out, which must end well, and returns the data.
fn ask(session: &mut Session, lun: u64, cdb: &[u8]) -> Vec<u8> {
    let told = session.read(lun, cdb, 512).unwrap();
    assert_eq!(sense(&told), None, "{told:?}");
    told.data_in
}

/// Returns a VPD page, header included.
fn vpd(session: &mut Session, lun: u64, page: u8) -> Vec<u8> {
    ask(session, lun, &[0x12, 1, page, 1, 0, 0])
}

/// Sends GET LBA STATUS from `lba` on; returns LBA, blocks and provisioning status of each
/// descriptor.
fn lba_status(session: &mut Session, lun: u64, lba: u64) -> Vec<(u64, u32, u8)> {
    let mut status = cdb(0x9e, lba, 512);
    status[1] = 0x12;
    let data = ask(session, lun, &status);
    let descriptors = data[8..].chunks_exact(16);
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    descriptors
        .map(|of| (number(&of[..8]), number(&of[8..12]) as u32, of[12]))
        .collect()
}

/// Sends UNMAP of one range.
fn unmap(session: &mut Session, lun: u64, lba: u64, blocks: u32) -> Outcome {
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend_from_slice(&lba.to_be_bytes());
    list.extend_from_slice(&blocks.to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    let cdb = [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    session.write(lun, &cdb, list).unwrap()
}

/// Sends MODE SENSE(6) for the caching page with this page control.
///
/// Returns byte 2 of the page, and the device-specific parameter.
fn caching(session: &mut Session, lun: u64, control: u8) -> (u8, u8) {
    let data = ask(session, lun, &[0x1a, 0x08, control << 6 | 0x08, 0, 255, 0]);
    (data[4 + 2], data[2])
}
