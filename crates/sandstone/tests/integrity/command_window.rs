//! Back-pressure: while memory for data in flight is short, the command windows are narrow.
//!
//! They widen when memory is not short, and no sent command is lost by it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use iscsi::initiator::LoginSettings;
use iscsi::negotiation::Limits;
use iscsi::pdu::Isid;
use testing::wait;

use crate::rig::process::{Process, TARGET, file_unit, free_portal, target};
use crate::rig::session::{PATIENCE, PipelinedSession};

const MIB: u64 = 1 << 20;
const CAP: u64 = 64 * MIB;
/// Memory that is not data in flight: sessions, sockets, stacks of threads, allocators.
const OVERHEAD: u64 = 40 * MIB;
/// Bytes of a write, all of which are asked for at once.
const WRITE: usize = 512 << 10;
/// Bytes of a Data-Out PDU; any target takes as many.
const SEGMENT: usize = 8 << 10;
const BLOCK: usize = 4096;
/// Number of blocks of a write.
const BLOCKS: u32 = (WRITE / BLOCK) as u32;
/// Number of commands that a session may have in flight, normally and while memory is short.
const WIDE: u32 = 128;
const NARROW: u32 = 16;

/// Initiator that answers R2Ts when it is told to, and looks at the command window of each PDU.
struct Initiator {
    stream: TcpStream,
    cmd_sn: u32,
    exp_stat_sn: u32,
    /// Last ExpCmdSN and MaxCmdSN.
    window: (u32, u32),
    number: u8,
    next_tag: u32,
    /// R2Ts that are not answered: tags, offset and length.
    asked: VecDeque<(u32, [u8; 4], usize, usize)>,
    /// Statuses of commands that ended, by tag.
    ended: BTreeMap<u32, u8>,
}

impl Initiator {
    fn log_in(portal: SocketAddr, number: u8) -> Self {
        let settings = LoginSettings::new(
            format!("iqn.2026-01.io.sandstone:patient-{number}"),
            Some(TARGET.into()),
            Isid([0x80, 0, 0, 0, 2, number]),
        );
        let limits = Limits {
            initial_r2t: true,
            immediate_data: false,
            max_burst_length: WRITE as u32,
            ..settings.limits.clone()
        };
        let mut session = PipelinedSession::new(portal, LoginSettings { limits, ..settings });
        session.log_in();
        session.wait_until_ready(0);
        let (stream, cmd_sn) = session.into_stream();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut initiator = Self {
            stream,
            cmd_sn,
            exp_stat_sn: 0,
            // Not known yet; one command may always be sent where none is in flight.
            window: (cmd_sn, cmd_sn),
            number,
            next_tag: 1,
            asked: VecDeque::new(),
            ended: BTreeMap::new(),
        };
        initiator.ask();
        initiator
    }

    /// Returns the number of commands that the target takes now: MaxCmdSN - ExpCmdSN + 1.
    fn width(&self) -> u32 {
        self.window.1.wrapping_sub(self.window.0).wrapping_add(1)
    }

    /// Sends a command, which must be within the window.
    fn send(&mut self, flags: u8, cdb: &[u8], length: usize) -> u32 {
        let room = self.window.1.wrapping_sub(self.cmd_sn).wrapping_add(1);
        assert!((1..=WIDE).contains(&room), "the window is closed");
        let tag = self.next_tag;
        self.next_tag += 1;
        let mut pdu = [0; 48];
        (pdu[0], pdu[1]) = (0x01, 0x80 | flags);
        pdu[16..20].copy_from_slice(&tag.to_be_bytes());
        pdu[20..24].copy_from_slice(&(length as u32).to_be_bytes());
        pdu[24..28].copy_from_slice(&self.cmd_sn.to_be_bytes());
        pdu[28..32].copy_from_slice(&self.exp_stat_sn.to_be_bytes());
        pdu[32..32 + cdb.len()].copy_from_slice(cdb);
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        self.stream.write_all(&pdu).unwrap();
        tag
    }

    /// Starts the write with this number of this initiator.
    fn write(&mut self, count: u32) -> u32 {
        let mut cdb = [0; 16];
        cdb[0] = 0x8a;
        cdb[2..10].copy_from_slice(&self.block(count).to_be_bytes());
        cdb[10..14].copy_from_slice(&BLOCKS.to_be_bytes());
        self.send(0x21, &cdb, WRITE)
    }

    fn block(&self, count: u32) -> u64 {
        u64::from(u32::from(self.number) * 32 + count) * u64::from(BLOCKS)
    }

    /// Takes one PDU, and sends at most the answer to a ping.
    fn receive(&mut self) {
        let mut bhs = [0; 48];
        self.stream.read_exact(&mut bhs).unwrap();
        let word = |at: usize| u32::from_be_bytes(bhs[at..at + 4].try_into().unwrap());
        let length = (word(4) & 0xff_ffff) as usize;
        let mut data = vec![0; length.next_multiple_of(4)];
        self.stream.read_exact(&mut data).unwrap();
        let before = self.window;
        self.window = (word(28), word(32));
        // RFC 7143 §4.2.2.1: MaxCmdSN never goes back, and is at least ExpCmdSN - 1.
        let ahead = self.window.1.wrapping_sub(before.1);
        assert!(ahead <= WIDE, "{before:?} {:?}", self.window);
        assert!(self.width() <= WIDE, "{:?}", self.window);
        let tag = word(16);
        match bhs[0] & 0x3f {
            0x31 => {
                let transfer = bhs[20..24].try_into().unwrap();
                let (offset, length) = (word(40) as usize, word(44) as usize);
                self.asked.push_back((tag, transfer, offset, length));
            }
            0x21 => {
                self.exp_stat_sn = word(24).wrapping_add(1);
                assert_eq!(self.ended.insert(tag, bhs[3]), None, "answered twice");
            }
            // A ping, or only news of the window.
            0x20 if word(20) != u32::MAX => {
                let mut pong = [0; 48];
                (pong[0], pong[1]) = (0x40, 0x80);
                pong[8..16].copy_from_slice(&bhs[8..16]);
                pong[16..20].fill(0xff);
                pong[20..24].copy_from_slice(&bhs[20..24]);
                pong[24..28].copy_from_slice(&self.cmd_sn.to_be_bytes());
                pong[28..32].copy_from_slice(&self.exp_stat_sn.to_be_bytes());
                self.stream.write_all(&pong).unwrap();
            }
            0x20 => {}
            other => panic!("opcode {other:#04x}"),
        }
    }

    /// Sends TEST UNIT READY, which takes no memory: it uses up one number of the window.
    fn ask(&mut self) {
        let tag = self.send(0, &[0; 6], 0);
        while !self.ended.contains_key(&tag) {
            self.receive();
        }
        assert_eq!(self.ended.remove(&tag), Some(0));
    }

    /// Asks until the window has this width, or is closed.
    fn ask_until(&mut self, width: u32) {
        let ask = || {
            if self.width() != width {
                self.ask();
            }
            self.width()
        };
        wait::until_seen(&format!("a width of {width}"), ask, |now| *now == width);
    }

    /// Sends the data that the target asked for.
    fn answer(&mut self) {
        while let Some((tag, transfer, offset, length)) = self.asked.pop_front() {
            let count = tag as u8;
            for (number, at) in (offset..offset + length).step_by(SEGMENT).enumerate() {
                let len = SEGMENT.min(offset + length - at);
                let mut pdu = vec![count; 48 + len];
                pdu[..48].fill(0);
                pdu[0] = 0x05;
                pdu[1] = if at + len == offset + length { 0x80 } else { 0 };
                pdu[4..8].copy_from_slice(&(len as u32).to_be_bytes());
                pdu[16..20].copy_from_slice(&tag.to_be_bytes());
                pdu[20..24].copy_from_slice(&transfer);
                pdu[28..32].copy_from_slice(&self.exp_stat_sn.to_be_bytes());
                pdu[36..40].copy_from_slice(&(number as u32).to_be_bytes());
                pdu[40..44].copy_from_slice(&(at as u32).to_be_bytes());
                self.stream.write_all(&pdu).unwrap();
            }
        }
    }
}

#[test]
fn command_windows_narrow_while_memory_is_short_and_nothing_is_lost() {
    let portal = free_portal();
    let cap = format!("{}M", CAP / MIB);
    let process = Process::start(&["--threads", "2", "--memory-cap", &cap], |config| {
        let (unit, map) = file_unit(0, 256 * MIB / BLOCK as u64, BLOCK as u32, true);
        config.targets.push(target(&[portal]));
        config.units.push(unit);
        config.maps.push(map);
    });
    let mut initiators: Vec<Initiator> = (0..4)
        .map(|number| Initiator::log_in(portal, number))
        .collect();
    let before = process.memory("VmRSS");
    // One has more in flight than a narrow window takes, the others less. All data is asked for.
    let mut writes = Vec::new();
    for initiator in &mut initiators {
        let count = if initiator.number == 0 { 24 } else { 8 };
        let tags: Vec<u32> = (0..count).map(|count| initiator.write(count)).collect();
        while initiator.asked.len() < tags.len() {
            initiator.receive();
        }
        assert!(initiator.ended.is_empty(), "{:?}", initiator.ended);
        writes.push(tags);
    }
    let is_narrow = |initiator: &mut Initiator, in_flight: usize| {
        let narrow = NARROW.saturating_sub(in_flight as u32);
        initiator.ask_until(narrow);
        // The window stays narrow: an initiator that keeps to it goes on.
        for _ in 0..if narrow > 0 { 100 } else { 0 } {
            initiator.ask();
            assert_eq!(initiator.width(), narrow);
        }
    };
    for (initiator, writes) in initiators.iter_mut().zip(&writes) {
        is_narrow(initiator, writes.len());
    }
    // Sessions that begin now, on either loop, are no better off.
    for number in [4, 5] {
        let mut late = Initiator::log_in(portal, number);
        is_narrow(&mut late, 0);
        initiators.push(late);
        writes.push(Vec::new());
    }
    let most = process.memory("VmHWM");
    assert!(
        most < before + CAP + OVERHEAD,
        "{} MiB",
        (most - before) / MIB
    );
    // The data comes: every write ends well, once. If a window was closed, the target tells that it
    // opens.
    for (initiator, tags) in initiators.iter_mut().zip(&writes) {
        initiator.answer();
        while initiator.ended.len() < tags.len() {
            initiator.receive();
        }
        for tag in tags {
            assert_eq!(initiator.ended.remove(tag), Some(0), "write {tag}");
        }
    }
    for initiator in &mut initiators {
        initiator.ask_until(WIDE);
    }
    let mut reader = PipelinedSession::new(
        portal,
        LoginSettings::new(
            "iqn.2026-01.io.sandstone:reader",
            Some(TARGET.to_owned()),
            Isid([0x80, 0, 0, 0, 3, 0]),
        ),
    );
    reader.log_in();
    reader.wait_until_ready(0);
    for (initiator, tags) in initiators.iter().zip(&writes) {
        for (count, tag) in (0..).zip(tags) {
            let mut cdb = [0; 16];
            cdb[0] = 0x88;
            cdb[2..10].copy_from_slice(&initiator.block(count).to_be_bytes());
            cdb[10..14].copy_from_slice(&BLOCKS.to_be_bytes());
            let found = reader.run(0, cdb, WRITE, Vec::new());
            let whole = found.data_in.len() == WRITE;
            assert!(whole && found.data_in.iter().all(|byte| *byte == *tag as u8));
        }
    }
    reader.cut();
}
