//! Disks behind a fake target, and the answers of honest ones.

use std::io;
use std::sync::Arc;

use super::{Command, Peer};

/// Logical unit of a fake target.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) data: Vec<u8>,
    pub(crate) naa: [u8; 8],
    /// Last LBA that READ CAPACITY (16) returns.
    pub(crate) last_lba: u64,
    pub(crate) block_length: u32,
    pub(crate) exponent: u8,
    /// Largest transfer that the Block Limits page names.
    pub(crate) max_transfer: u32,
    pub(crate) max_write_same: u64,
    /// Number of commands that wrote.
    pub(crate) writes: usize,
}

impl Disk {
    pub(crate) fn new(number: u8, size: usize) -> Self {
        Self {
            data: vec![number; size],
            naa: [0x50, 0, 0, 0, 0, 0, 0, number],
            last_lba: (size / 512 - 1) as u64,
            block_length: 512,
            exponent: 0,
            max_transfer: 0,
            max_write_same: 0,
            writes: 0,
        }
    }
}

/// Disks and LUNs behind the portals of a fake.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) disks: Vec<Disk>,
    /// LUN and index of the disk.
    pub(crate) luns: Vec<(u16, usize)>,
}

impl World {
    /// Returns a world with disks of these sizes as LUN 0, 1…; each is filled with its number, from
    /// 1 on.
    pub(crate) fn of(sizes: &[usize]) -> Self {
        let disks = sizes.iter().zip(1..);
        Self {
            disks: disks
                .map(|(size, number)| Disk::new(number, *size))
                .collect(),
            luns: (0..sizes.len()).map(|at| (at as u16, at)).collect(),
        }
    }
}

impl Peer {
    /// Answers as an honest disk does.
    pub(crate) fn perform(&mut self, command: &Command) -> io::Result<()> {
        let bytes = command.header.lun.to_be_bytes();
        let lun = u16::from_be_bytes([bytes[0] & 0x3f, bytes[1]]);
        let world = Arc::clone(&self.world);
        let mut world = world.lock().unwrap();
        if command.opcode() == 0xa0 {
            let mut list = (world.luns.len() as u32 * 8).to_be_bytes().to_vec();
            list.resize(8, 0);
            for (lun, _) in &world.luns {
                list.extend_from_slice(&(u64::from(*lun) << 48).to_be_bytes());
            }
            return self.answer(command, &list).map(drop);
        }
        let found = world.luns.iter().find(|(number, _)| *number == lun);
        let Some(&(_, index)) = found else {
            if command.is_inquiry(None) {
                let mut data = [0; 36];
                data[0] = 0x7f;
                return self.answer(command, &data).map(drop);
            }
            return self.sense(command, [5, 0x25, 0]).map(drop);
        };
        self.disk_command(command, &mut world.disks[index])
            .map(drop)
    }

    fn disk_command(&mut self, command: &Command, disk: &mut Disk) -> io::Result<bool> {
        let range = |disk: &Disk| {
            let block = u64::from(disk.block_length);
            let start = (command.field(2..10) * block) as usize;
            start..start + (command.field(10..14) * block) as usize
        };
        match command.opcode() {
            0x00 | 0x91 => self.status(command, 0),
            0x12 => match inquiry_data(command, disk) {
                Some(data) => self.answer(command, &data),
                None => self.sense(command, [5, 0x24, 0]),
            },
            0x1a => self.answer(command, &[23, 0, 0x10, 0, 8, 18, 4, 0, 0, 0, 0, 0]),
            0x9e if command.header.cdb[1] & 0x1f == 0x10 => {
                let mut data = disk.last_lba.to_be_bytes().to_vec();
                data.extend_from_slice(&disk.block_length.to_be_bytes());
                data.extend_from_slice(&[0, disk.exponent, 0xc0, 0]);
                data.resize(32, 0);
                self.answer(command, &data)
            }
            0x88 => match disk.data.get(range(disk)) {
                Some(data) => {
                    let data = data.to_vec();
                    self.answer(command, &data)
                }
                None => self.sense(command, [5, 0x21, 0]),
            },
            0x8a | 0x93 => {
                disk.writes += 1;
                let range = range(disk);
                let Some(blocks) = disk.data.get_mut(range) else {
                    return self.sense(command, [5, 0x21, 0]);
                };
                for block in blocks.chunks_mut(command.data.len()) {
                    block.copy_from_slice(&command.data);
                }
                self.status(command, 0)
            }
            _ => self.sense(command, [5, 0x20, 0]),
        }
    }
}

fn inquiry_data(command: &Command, disk: &Disk) -> Option<Vec<u8>> {
    if command.is_inquiry(None) {
        let mut data = vec![0, 0, 6, 2, 31, 0, 0, 2];
        data.extend_from_slice(b"FAKE    SCRIPTED DISK   1.0 ");
        return Some(data);
    }
    let page = command.header.cdb[2];
    let body = match page {
        0x00 => vec![0x00, 0x83, 0xb0, 0xb2],
        0x83 => [&[1, 3, 0, 8], &disk.naa[..]].concat(),
        0xb0 => {
            let mut body = vec![0; 60];
            body[4..8].copy_from_slice(&disk.max_transfer.to_be_bytes());
            body[32..40].copy_from_slice(&disk.max_write_same.to_be_bytes());
            body
        }
        0xb2 => vec![0, 0xc0, 2, 0],
        _ => return None,
    };
    let mut data = vec![0, page];
    data.extend_from_slice(&(body.len() as u16).to_be_bytes());
    data.extend_from_slice(&body);
    Some(data)
}
