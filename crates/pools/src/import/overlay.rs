//! Writes that stay in memory, for a pool on devices that are only read.
//!
//! An opening may want to bring the end of the log onto all leaves, and to repair damage. Here
//! these writes stay in memory, and later reads return them from there.

use std::collections::HashMap;

use pages::Pages;
use store::engine::is_cache_io;
use store::format::SECTOR_SIZE;
use store::vdev::{
    DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome, DeviceRequest, IoId, LeafId,
};

/// Most sectors that are kept: 512 MiB. An opening writes far less, unless log vdevs held much data
/// that must go among the blocks, on each leaf of its vdev. Beyond this limit writes fail, and so
/// does the opening: a forgotten write would be read as something else.
const MOST: usize = 128 << 10;

/// Reason why an opening beyond the limit fails.
const TOO_MUCH: &str = "opening the pool without writing to its devices needs more than 512 MiB of memory \
                        for the writes: import the pool so that it can be changed";

/// Writes that are kept in memory instead of on the devices.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Written sectors, by leaf and sector number.
    written: HashMap<(LeafId, u64), Pages>,
    /// Leaf and first sector of each read under way.
    reading: HashMap<IoId, (LeafId, u64)>,
}

impl Overlay {
    /// Answers every request but a read without the device. A read is noted and returned, for the
    /// device to answer.
    pub(crate) fn take(&mut self, request: DeviceRequest) -> Result<DeviceRequest, DeviceOutcome> {
        let sector = |byte: u64| byte / SECTOR_SIZE as u64;
        match &request.op {
            DeviceOp::Read { offset, .. } => {
                let from = (request.leaf, sector(*offset));
                self.reading.insert(request.io, from);
                Ok(request)
            }
            // Blocks on cache vdevs are verified when they are read. A block that is not there does
            // no harm.
            DeviceOp::Write { .. } if is_cache_io(request.io) => Err(Ok(Pages::new())),
            DeviceOp::Write { offset, data, .. } => {
                for at in (0..data.len()).step_by(SECTOR_SIZE) {
                    let place = (request.leaf, sector(*offset + at as u64));
                    if self.written.len() == MOST && !self.written.contains_key(&place) {
                        return Err(Err(DeviceError::new(DeviceErrorKind::NoSpace, TOO_MUCH)));
                    }
                    let end = data.len().min(at + SECTOR_SIZE);
                    self.written.insert(place, data.slice(at..end));
                }
                Err(Ok(Pages::new()))
            }
            DeviceOp::Flush | DeviceOp::Trim { .. } => Err(Ok(Pages::new())),
        }
    }

    /// Returns the outcome of a read, with the kept writes in place of the device's bytes.
    pub(crate) fn overlaid(&mut self, io: IoId, outcome: DeviceOutcome) -> DeviceOutcome {
        let (Some((leaf, first)), Ok(data)) = (self.reading.remove(&io), &outcome) else {
            return outcome;
        };
        let sectors = (data.len() / SECTOR_SIZE) as u64;
        let is_written = |at| self.written.contains_key(&(leaf, at));
        if self.written.is_empty() || !(first..first + sectors).any(is_written) {
            return outcome;
        }
        let mut bytes = data.to_vec();
        for (at, part) in (first..).zip(bytes.chunks_mut(SECTOR_SIZE)) {
            if let Some(written) = self.written.get(&(leaf, at)) {
                written.copy_to(part);
            }
        }
        Ok(Pages::from_bytes(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(io: u64, leaf: u32, offset: u64, data: &Pages) -> DeviceRequest {
        DeviceRequest {
            io: IoId(io),
            leaf: LeafId(leaf),
            op: DeviceOp::Write {
                offset,
                data: data.clone(),
                durable: false,
            },
        }
    }

    #[test]
    fn what_is_written_is_read_whatever_cache_vdevs_are_given_meanwhile() {
        /// First number of the requests of cache vdevs.
        const CACHE: u64 = 1 << 63;
        let mut overlay = Overlay::default();
        let data = Pages::from_bytes(&vec![7; 1 << 20]);
        for number in 0..(2 * MOST * SECTOR_SIZE) as u64 / (1 << 20) {
            let request = write(CACHE + number, 9, number << 20, &data);
            assert!(matches!(overlay.take(request), Err(Ok(_))));
        }
        assert!(matches!(overlay.take(write(1, 2, 4096, &data)), Err(Ok(_))));
        let read = DeviceRequest {
            io: IoId(2),
            leaf: LeafId(2),
            op: DeviceOp::Read {
                offset: 0,
                len: 12_288,
            },
        };
        overlay.take(read).expect("the device is asked");
        let outcome = overlay.overlaid(IoId(2), Ok(Pages::zeroes(12_288)));
        let bytes = outcome.expect("read").to_vec();
        let sums = bytes
            .chunks(4096)
            .map(|of| of.iter().map(|byte| u32::from(*byte)).sum());
        assert_eq!(sums.collect::<Vec<u32>>(), [0, 7 * 4096, 7 * 4096]);
    }

    #[test]
    fn what_is_too_much_to_keep_is_an_error_and_not_forgotten() {
        let mut overlay = Overlay::default();
        let data = Pages::from_bytes(&vec![7; 1 << 20]);
        let most = (MOST * SECTOR_SIZE) as u64;
        for at in (0..most).step_by(1 << 20) {
            assert!(matches!(overlay.take(write(at, 1, at, &data)), Err(Ok(_))));
        }
        let refused = overlay.take(write(1, 1, most, &data));
        let Err(Err(error)) = refused else {
            panic!("{refused:?}");
        };
        assert!(error.to_string().contains("512 MiB"), "{error}");
        // A sector that is already kept can be written again.
        assert!(matches!(overlay.take(write(2, 1, 0, &data)), Err(Ok(_))));
    }
}
