//! Commands that hosts make, and the bytes that they write.
//!
//! Each time that a command is sent, it gets a stamp of its own, which all of its blocks hold. So a
//! block on a disk tells which sending of which command wrote it.

use std::ops::Range;
use std::time::Duration;

use super::{BLOCKS, OWN, Port, SCRATCH, SHARED, World};
use crate::drive::BLOCK;
use crate::initiator::Job;

/// Blocks of the shared unit that atomic commands change.
const COUNTERS: u64 = 4;
/// Type of the persistent reservation: Write Exclusive, All Registrants.
const WRITE_EXCLUSIVE_ALL_REGISTRANTS: u8 = 7;

/// Purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Write,
    WriteSame,
    Unmap,
    /// COMPARE AND WRITE.
    Swap,
    /// REGISTER AND IGNORE EXISTING KEY.
    Register,
    /// Persistent RESERVE.
    Reserve,
    /// PREEMPT AND ABORT of another host.
    Preempt(usize),
    /// RESERVE(6).
    Reserve6,
    /// RELEASE(6).
    Release6,
}

/// Meaning of a command, for the model.
#[derive(Debug)]
pub(super) struct Meant {
    pub host: usize,
    pub lun: u16,
    pub blocks: Range<u64>,
    pub purpose: Purpose,
    /// Stamp of the latest sending.
    pub stamp: u64,
    /// Time of the latest sending.
    pub issued: Duration,
    /// Whether an abort was asked for since.
    pub is_aborting: bool,
    /// Whether it was sent by another path before. That sending may still take place, before any
    /// later write, also if this one is aborted.
    pub is_moved: bool,
    /// Bytes that will be there after the latest sending; `None` if it changes none.
    pub bytes: Option<Vec<u8>>,
}

impl World {
    /// Makes a command of a host. Returns its number, or `None` if its blocks are in use.
    pub(super) fn new_command(&mut self, host: usize) -> Option<(u64, Job)> {
        let (lun, purpose, blocks) = self.choose(host)?;
        self.last_command += 1;
        let number = self.last_command;
        let meant = Meant {
            host,
            lun,
            blocks,
            purpose,
            stamp: 0,
            issued: Duration::ZERO,
            is_aborting: false,
            is_moved: false,
            bytes: None,
        };
        let job = Job {
            lun,
            cdb: cdb(&meant),
            data_out: Vec::new(),
            length_in: match purpose {
                Purpose::Read => length(&meant.blocks),
                _ => 0,
            },
            data_in: Vec::new(),
        };
        self.meant.insert(number, meant);
        Some((number, job))
    }

    fn choose(&mut self, host: usize) -> Option<(u16, Purpose, Range<u64>)> {
        let climate = self.climate;
        if host >= super::HOSTS {
            // The smaller ones take what is left by the larger ones.
            let count = self.random.one_of(&[60, 16, 8]);
            let start = self.random.within(0..BLOCKS[usize::from(SCRATCH)] - count);
            return Some((SCRATCH, Purpose::Write, start..start + count));
        }
        if self.random.per_mille(climate.counters_per_mille) {
            let block = self.random.within(0..COUNTERS);
            let purpose = self.random.one_of(&[Purpose::Swap, Purpose::Write]);
            return Some((SHARED, purpose, block..block + 1));
        }
        if self.random.per_mille(climate.fences_per_mille) {
            let other = (host + self.random.within(1..super::HOSTS as u64) as usize) % super::HOSTS;
            let block = self.random.within(64..BLOCKS[usize::from(SHARED)]);
            let purpose = match self.random.within(0..16) {
                0..2 => Purpose::Register,
                2 => Purpose::Reserve,
                3 => Purpose::Preempt(other),
                _ => Purpose::Write,
            };
            return Some((SHARED, purpose, block..block + 1));
        }
        if self.random.per_mille(climate.scratch_per_mille) {
            let start = self.random.within(0..BLOCKS[usize::from(SCRATCH)] - 8);
            let purpose = self.random.one_of(&[
                Purpose::Read,
                Purpose::Write,
                Purpose::Write,
                Purpose::Reserve6,
                Purpose::Release6,
            ]);
            return Some((SCRATCH, purpose, start..start + 8));
        }
        // A command on blocks that no other command uses: the model knows its result.
        let counts: &[u64] = match climate.hogs > 0 {
            true => &[1, 2, 8],
            false => &[1, 2, 8, 60],
        };
        let count = self.random.one_of(counts);
        let start = self.random.within(0..BLOCKS[usize::from(OWN)] - count);
        let blocks = start..start + count;
        if blocks.clone().any(|lba| self.busy[lba as usize]) {
            return None;
        }
        blocks
            .clone()
            .for_each(|lba| self.busy[lba as usize] = true);
        let purpose = match self.random.within(0..10) {
            0..4 => Purpose::Read,
            4..8 => Purpose::Write,
            8 => Purpose::WriteSame,
            _ => Purpose::Unmap,
        };
        Some((OWN, purpose, blocks))
    }

    /// Gives all commands that wait at a port to its session, each with a new stamp.
    pub(super) fn start_commands(&mut self, port: usize) {
        let now = self.schedule.now();
        let Some(connection) = self.ports[port].initiator.connection() else {
            return;
        };
        let (landings, meant, drives) = (&mut self.landings, &mut self.meant, &self.target.drives);
        let Port {
            initiator,
            first_issued,
            ..
        } = &mut self.ports[port];
        let out = initiator.start_commands(|number, job| {
            let meant = meant.get_mut(&number).expect("it has not ended");
            first_issued.entry(meant.lun).or_insert(number);
            (meant.issued, meant.is_aborting) = (now, false);
            let lba = meant.blocks.start as usize * BLOCK;
            let expected = match meant.purpose {
                Purpose::Swap => Some(drives[usize::from(meant.lun)].bytes(lba, BLOCK)),
                _ => None,
            };
            meant.stamp = landings.stamp(port, connection, meant, expected.clone());
            (job.data_out, meant.bytes) = content(meant, expected);
        });
        self.send(connection, crate::network::End::Target, &out);
        self.take_ended(port);
    }
}

/// Returns the data-out of a command, and the bytes that will be there after it.
fn content(meant: &Meant, expected: Option<Vec<u8>>) -> (Vec<u8>, Option<Vec<u8>>) {
    let stamp = meant.stamp;
    match meant.purpose {
        Purpose::Read | Purpose::Reserve6 | Purpose::Release6 => (Vec::new(), None),
        Purpose::Write => {
            let blocks = meant.blocks.clone().map(|lba| block(stamp, lba));
            let bytes: Vec<u8> = blocks.flatten().collect();
            (bytes.clone(), Some(bytes))
        }
        Purpose::WriteSame => {
            let block = block(stamp, 0);
            let count = (meant.blocks.end - meant.blocks.start) as usize;
            (block.clone(), Some(block.repeat(count)))
        }
        Purpose::Unmap => {
            let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
            list.extend_from_slice(&meant.blocks.start.to_be_bytes());
            let count = meant.blocks.end - meant.blocks.start;
            list.extend_from_slice(&(count as u32).to_be_bytes());
            list.extend_from_slice(&[0; 4]);
            (list, Some(vec![0; length(&meant.blocks)]))
        }
        Purpose::Swap => {
            let mut both = expected.unwrap_or_default();
            both.extend(block(stamp, meant.blocks.start));
            (both, None)
        }
        Purpose::Register => (keys(0, key(meant.host)), None),
        Purpose::Reserve => (keys(key(meant.host), 0), None),
        Purpose::Preempt(other) => (keys(key(meant.host), key(other)), None),
    }
}

fn length(blocks: &Range<u64>) -> usize {
    (blocks.end - blocks.start) as usize * BLOCK
}

/// Returns the content of a block: its stamp, and what follows from it.
fn block(stamp: u64, lba: u64) -> Vec<u8> {
    let hash = (stamp ^ lba << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let at = |at: u64| (hash >> (8 * (at % 8))) as u8 ^ (at / 8) as u8;
    let mut bytes: Vec<u8> = (0..BLOCK as u64).map(at).collect();
    bytes[..8].copy_from_slice(&stamp.to_le_bytes());
    bytes
}

/// Returns the stamp of a block; 0 if it was never written.
pub(super) fn stamp_of(block: &[u8]) -> u64 {
    u64::from_le_bytes(*block.first_chunk().expect("a block"))
}

fn key(host: usize) -> u64 {
    0x1000 + host as u64
}

/// Returns the parameter list of PERSISTENT RESERVE OUT.
fn keys(own: u64, other: u64) -> Vec<u8> {
    let mut list = [own.to_be_bytes(), other.to_be_bytes()].concat();
    list.extend_from_slice(&[0; 8]);
    list
}

fn cdb(meant: &Meant) -> [u8; 16] {
    let mut cdb = [0; 16];
    let count = (meant.blocks.end - meant.blocks.start) as u32;
    let mut on_blocks = |operation: u8| {
        cdb[0] = operation;
        cdb[2..10].copy_from_slice(&meant.blocks.start.to_be_bytes());
        cdb[10..14].copy_from_slice(&count.to_be_bytes());
    };
    match meant.purpose {
        Purpose::Read => on_blocks(0x88),
        // The field of COMPARE AND WRITE is the last byte of the others'.
        Purpose::Swap => on_blocks(0x89),
        Purpose::Write => on_blocks(0x8a),
        Purpose::WriteSame => on_blocks(0x93),
        Purpose::Unmap => (cdb[0], cdb[8]) = (0x42, 24),
        Purpose::Register => (cdb[0], cdb[1], cdb[8]) = (0x5f, 6, 24),
        Purpose::Reserve => {
            (cdb[0], cdb[1], cdb[8]) = (0x5f, 1, 24);
            cdb[2] = WRITE_EXCLUSIVE_ALL_REGISTRANTS;
        }
        Purpose::Preempt(_) => {
            (cdb[0], cdb[1], cdb[8]) = (0x5f, 5, 24);
            cdb[2] = WRITE_EXCLUSIVE_ALL_REGISTRANTS;
        }
        Purpose::Reserve6 => cdb[0] = 0x16,
        Purpose::Release6 => cdb[0] = 0x17,
    }
    cdb
}
