//! Translation of block requests into SCSI commands: the split of a request, and the command for
//! each part.

use iscsi::initiator::{Command, Direction};
use iscsi::pdu::TaskAttribute;
use scsi::application_client::cdb::{self, Cdb};
use scsi::application_client::probe::Portrait;

use block::{Geometry, Request};
use multipath::{self, IoShape};

/// Bytes of one command if neither the device nor the user names a limit.
const DEFAULT_MAX_IO: u32 = 1 << 20;
/// Most bytes of one command in any case; it bounds the buffers.
const LARGEST_IO: u32 = 8 << 20;
/// Blocks of one WRITE SAME if the device names no limit. A gibibyte takes long enough.
const DEFAULT_WRITE_SAME: u64 = 1 << 21;
/// Bytes of an answer to GET LBA STATUS: 512 extents.
pub(super) const STATUS_LENGTH: u32 = 8 + 16 * 512;

/// Limits of the commands to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommandLimits {
    /// Bytes of a logical block.
    pub(super) block: u32,
    /// Most bytes of one READ or WRITE.
    pub(super) max_io: u32,
    /// Most blocks of one WRITE SAME (16); 0 if the unit does not support the command.
    pub(super) write_same: u64,
    /// Whether WRITE SAME (16) may unmap.
    pub(super) unmaps: bool,
    /// Whether the unit obeys FUA; otherwise a flush follows.
    pub(super) force_unit_access: bool,
    /// Whether the unit may lose acknowledged data until it is flushed.
    pub(super) write_cache: bool,
    /// Whether GET LBA STATUS gives useful answers.
    pub(super) lba_status: bool,
}

/// One command of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    /// Offset of its data in the request's data.
    pub(super) at: u32,
    pub(super) command: Command,
    pub(super) shape: IoShape,
}

impl CommandLimits {
    /// Derives the limits of a unit from its portrait. `max_io` is the user's setting.
    pub(super) fn new(portrait: &Portrait, block: u32, max_io: Option<u32>) -> Self {
        let told = match portrait.limits.max_transfer {
            0 => None,
            blocks => Some(blocks.saturating_mul(block)),
        };
        // The smaller of the setting and the unit's limit counts.
        let least = max_io.into_iter().chain(told).min();
        let max_io = least.unwrap_or(DEFAULT_MAX_IO).min(LARGEST_IO);
        let capacity = portrait.capacity;
        let provisioned = capacity.is_some_and(|capacity| capacity.provisioned);
        Self {
            block,
            max_io: (max_io - max_io % block).max(block),
            write_same: match portrait.limits.max_write_same {
                0 => DEFAULT_WRITE_SAME,
                told => told.min(u64::from(u32::MAX)),
            },
            // Freed blocks must read as zeros (LBPRZ).
            unmaps: provisioned
                && portrait.write_same_unmaps
                && capacity.is_some_and(|capacity| capacity.reads_zeros),
            force_unit_access: portrait.force_unit_access,
            write_cache: portrait.write_cache,
            // The answer reports unmapped blocks as zeros.
            lba_status: capacity
                .is_some_and(|capacity| capacity.provisioned && capacity.reads_zeros),
        }
    }

    /// Passes the commands of a request to `each`, one by one. The range of the request was
    /// checked.
    pub(super) fn plan(&self, request: &Request, mut each: impl FnMut(Planned)) {
        match request {
            Request::Read { offset, len } => {
                self.transfers(*offset, u64::from(*len), |at, lba, blocks, length| {
                    let cdb = cdb::read_16(lba, blocks);
                    each(planned(at, cdb, Direction::Read, length, lba, blocks));
                });
            }
            Request::Write {
                offset,
                data,
                durable,
            } => {
                let fua = *durable && self.force_unit_access;
                self.transfers(*offset, data.len() as u64, |at, lba, blocks, length| {
                    let cdb = cdb::write_16(lba, blocks, fua);
                    each(self.write(at, cdb, fua, length, lba, blocks));
                });
            }
            Request::Discard { offset, len } => self.zeros(*offset, *len, true, false, each),
            Request::WriteZeroes {
                offset,
                len,
                unmap,
                durable,
            } => {
                let fua = *durable && self.force_unit_access;
                self.zeros(*offset, *len, *unmap, fua, each);
            }
            Request::Flush => each(flush()),
            Request::Extents { offset, .. } => {
                let lba = offset / u64::from(self.block);
                let cdb = cdb::get_lba_status(lba, STATUS_LENGTH);
                each(planned(0, cdb, Direction::Read, STATUS_LENGTH, lba, 0));
            }
        }
    }

    /// Writes zeros, by WRITE SAME (16) of one block if the unit supports it. WRITE SAME writes
    /// zeros whether it frees the blocks or not. UNMAP is only a hint that may be ignored.
    fn zeros(&self, offset: u64, len: u64, unmap: bool, fua: bool, mut each: impl FnMut(Planned)) {
        if self.write_same == 0 {
            return self.transfers(offset, len, |at, lba, blocks, length| {
                let cdb = cdb::write_16(lba, blocks, fua);
                each(self.write(at, cdb, fua, length, lba, blocks));
            });
        }
        let block = u64::from(self.block);
        let (mut lba, end) = (offset / block, (offset + len) / block);
        while lba < end {
            let blocks = (end - lba).min(self.write_same) as u32;
            let cdb = cdb::write_same_16(lba, blocks, unmap && self.unmaps);
            each(self.write(0, cdb, false, self.block, lba, blocks));
            lba += u64::from(blocks);
        }
    }

    /// Returns the bytes of zeros that one command writes.
    pub(super) fn zeros_per_command(&self) -> u64 {
        match self.write_same {
            0 => u64::from(self.max_io),
            blocks => blocks * u64::from(self.block),
        }
    }

    /// Cuts a range into parts that one command may move: `(at, lba, blocks, bytes)`.
    #[inline]
    fn transfers(&self, offset: u64, len: u64, mut each: impl FnMut(u32, u64, u32, u32)) {
        let shift = self.block.trailing_zeros();
        let mut done = 0;
        while done < len {
            let length = (len - done).min(u64::from(self.max_io)) as u32;
            each(
                done as u32,
                (offset + done) >> shift,
                length >> shift,
                length,
            );
            done += u64::from(length);
        }
    }

    #[inline]
    fn write(&self, at: u32, cdb: Cdb, fua: bool, length: u32, lba: u64, blocks: u32) -> Planned {
        let mut planned = planned(at, cdb, Direction::Write, length, lba, blocks);
        planned.shape.durable = fua || !self.write_cache;
        planned
    }
}

#[inline]
fn planned(at: u32, cdb: Cdb, direction: Direction, length: u32, lba: u64, blocks: u32) -> Planned {
    let kind = match direction {
        Direction::Write => multipath::Direction::Write,
        Direction::Read => multipath::Direction::Read,
        Direction::None => multipath::Direction::Other,
    };
    Planned {
        at,
        command: command(cdb, direction, length),
        shape: IoShape {
            direction: kind,
            bytes: length,
            range: Some((lba, u64::from(blocks))),
            durable: false,
        },
    }
}

/// Returns a SYNCHRONIZE CACHE of the whole unit.
pub(super) fn flush() -> Planned {
    Planned {
        at: 0,
        command: command(cdb::synchronize_cache_16(), Direction::None, 0),
        shape: IoShape {
            direction: multipath::Direction::Other,
            bytes: 0,
            range: Some((0, 0)),
            durable: true,
        },
    }
}

/// Creates a command that may be reordered. The LUN is filled in when the path is known.
#[inline]
pub(super) fn command(cdb: Cdb, direction: Direction, length: u32) -> Command {
    Command {
        lun: 0,
        cdb,
        attribute: TaskAttribute::Simple,
        direction,
        length,
    }
}

/// Returns the geometry of a device for its users; `None` while the capacity is not known.
pub(super) fn geometry(portrait: &Portrait) -> Option<Geometry> {
    let capacity = portrait.capacity?;
    let (block, limits) = (capacity.block_length, &portrait.limits);
    let in_bytes = |blocks: u32| blocks.saturating_mul(block);
    let physical = capacity.physical_length;
    let optimal = in_bytes(limits.optimal_transfer);
    let thin = capacity.provisioned;
    let discard = if thin {
        in_bytes(limits.unmap_granularity.max(1))
    } else {
        0
    };
    Some(Geometry {
        len: capacity.bytes()?,
        granularity: block,
        physical,
        alignment: in_bytes(capacity.lowest_aligned.into()) % physical,
        minimum: in_bytes(limits.transfer_granularity.into()).max(physical),
        optimal: if optimal == 0 { 256 << 10 } else { optimal },
        discard,
        discard_alignment: in_bytes(limits.unmap_alignment)
            .checked_rem(discard)
            .unwrap_or(0),
        atomic_write: 0,
        thin,
        volatile_cache: portrait.write_cache,
        rotation_rate: portrait.rotation_rate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::application_client::shape::{BlockLimits, Capacity};

    fn portrait(unmap_alignment: u32) -> Portrait {
        Portrait {
            capacity: Some(Capacity {
                blocks: 2048,
                block_length: 512,
                physical_length: 4096,
                lowest_aligned: 7,
                provisioned: true,
                reads_zeros: true,
            }),
            limits: BlockLimits {
                transfer_granularity: 128,
                optimal_transfer: 512,
                unmap_granularity: 64,
                unmap_alignment,
                ..BlockLimits::default()
            },
            rotation_rate: 7200,
            ..Portrait::default()
        }
    }

    #[test]
    fn policy_is_told_which_ends_promise_durability() {
        let promises = |write_cache: bool, request: &Request| {
            let portrait = Portrait {
                write_cache,
                force_unit_access: true,
                ..portrait(63)
            };
            let mut all = Vec::new();
            CommandLimits::new(&portrait, 512, None)
                .plan(request, |planned| all.push(planned.shape.durable));
            assert!(!all.is_empty());
            all.iter().all(|durable| *durable)
        };
        let write = |durable: bool| Request::Write {
            offset: 0,
            data: block::Pages::zeroes(512),
            durable,
        };
        let read = Request::Read {
            offset: 0,
            len: 512,
        };
        let discard = Request::Discard {
            offset: 0,
            len: 4096,
        };
        let cases = [
            (true, &write(false), false),
            (true, &write(true), true),
            (false, &write(false), true),
            (true, &discard, false),
            (false, &discard, true),
            (true, &Request::Flush, true),
            (false, &read, false),
        ];
        for (write_cache, request, expected) in cases {
            assert_eq!(promises(write_cache, request), expected, "{request:?}");
        }
    }

    #[test]
    fn a_unit_is_shaped_as_it_tells() {
        let shape = geometry(&portrait(63)).expect("its size is known");
        assert_eq!((shape.physical, shape.alignment), (4096, 3584));
        assert_eq!((shape.minimum, shape.optimal), (65536, 262_144));
        assert_eq!((shape.discard, shape.discard_alignment), (32768, 32256));
        assert_eq!(shape.rotation_rate, 7200);
        let wrapped = geometry(&portrait(65)).expect("its size is known");
        assert_eq!(wrapped.discard_alignment, 512);
    }

    #[test]
    fn a_unit_that_tells_nothing_has_no_alignments() {
        let mut silent = portrait(63);
        silent.limits = BlockLimits::default();
        if let Some(capacity) = &mut silent.capacity {
            (capacity.lowest_aligned, capacity.provisioned) = (0, false);
        }
        let shape = geometry(&silent).expect("its size is known");
        assert_eq!((shape.alignment, shape.minimum), (0, 4096));
        assert_eq!((shape.discard, shape.discard_alignment), (0, 0));
    }
}
