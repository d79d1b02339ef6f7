//! Foreign data on a device: file systems, volume managers, encryption, partition tables and disk
//! images. Each is known by the bytes at its start or end. A pool does not overwrite such a device
//! without being asked.
//!
//! The labels of a device are read anyway, and nearly all foreign marks lie within them. Apart from
//! the labels, only the very end is read.

use std::io;

use store::engine::LeafLabels;
use store::vdev::layout::label_offset;

use block::lane::ask;
use block::{BlockDevice, BlockError, Done, Request};

/// Bytes at the end that are read besides the labels.
const TAIL: u64 = 256 << 10;

/// Place at which a signature begins, on a device of `size` bytes.
#[derive(Clone, Copy)]
enum At {
    /// One of these bytes.
    Start(&'static [u64]),
    /// Distance from the end, which is first cut to whole units of the second number.
    End(&'static [(u64, u64)]),
    /// Any KiB of the ring in ZFS's labels.
    ZfsRing,
}

/// Signature of a kind of foreign data.
struct Signature {
    /// Kind of foreign data.
    name: &'static str,
    at: At,
    /// Bytes to find, each after an offset from the start of the signature.
    parts: &'static [(u64, &'static [u8])],
}

const fn at_start(
    name: &'static str,
    at: &'static [u64],
    parts: &'static [(u64, &'static [u8])],
) -> Signature {
    let at = At::Start(at);
    Signature { name, at, parts }
}

const fn at_end(
    name: &'static str,
    at: &'static [(u64, u64)],
    parts: &'static [(u64, &'static [u8])],
) -> Signature {
    let at = At::End(at);
    Signature { name, at, parts }
}

const ZFS: &str = "a ZFS label";
const EXT: &str = "an ext2, ext3 or ext4 file system";
const MD: &str = "a member of an md array";
const GPT: &str = "a GPT partition table";
const SWAP: &str = "swap space";
/// Ends of the header of swap space, by page size.
const SWAP_AT: &[u64] = &[
    (4 << 10) - 10,
    (8 << 10) - 10,
    (16 << 10) - 10,
    (64 << 10) - 10,
];
/// Magic number of md, followed by its major version.
const MD_1: &[(u64, &[u8])] = &[(0, b"\xfc\x4e\x2b\xa9\x01\0\0\0")];
const MD_0: &[(u64, &[u8])] = &[(0, b"\xfc\x4e\x2b\xa9\0\0\0\0")];

/// All signatures. A more telling one stands before a less telling one.
const SIGNATURES: [Signature; 28] = [
    at_start(EXT, &[1024], &[(0x38, b"\x53\xef"), (0x4c, b"\0\0\0\0")]),
    at_start(EXT, &[1024], &[(0x38, b"\x53\xef"), (0x4c, b"\x01\0\0\0")]),
    at_start("an XFS file system", &[0], &[(0, b"XFSB")]),
    at_start("a Btrfs file system", &[64 << 10], &[(64, b"_BHRfS_M")]),
    at_start("an F2FS file system", &[1024], &[(0, b"\x10\x20\xf5\xf2")]),
    at_start(
        "a bcachefs or bcache device",
        &[4096],
        &[(24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca")],
    ),
    at_start(
        "an LVM physical volume",
        &[0, 512, 1024, 1536],
        &[(0, b"LABELONE"), (24, b"LVM2 001")],
    ),
    Signature {
        name: ZFS,
        at: At::ZfsRing,
        parts: &[(0, b"\x0c\xb1\xba\0\0\0\0\0")],
    },
    Signature {
        name: ZFS,
        at: At::ZfsRing,
        parts: &[(0, b"\0\0\0\0\0\xba\xb1\x0c")],
    },
    at_start("LUKS encryption", &[0], &[(0, b"LUKS\xba\xbe")]),
    at_start("LUKS encryption", &[16 << 10], &[(0, b"SKUL\xba\xbe")]),
    at_start(SWAP, SWAP_AT, &[(0, b"SWAPSPACE2")]),
    at_start(SWAP, SWAP_AT, &[(0, b"SWAP-SPACE")]),
    at_start(MD, &[0, 4096], MD_1),
    // Format 1.0 lies 8 KiB before the end, at a multiple of 4 KiB.
    at_end(MD, &[(8 << 10, 4 << 10)], MD_1),
    // Format 0.90 lies in the last but one unit of 64 KiB.
    at_end(MD, &[(64 << 10, 64 << 10)], MD_0),
    at_start("Ceph's BlueStore", &[0], &[(0, b"bluestore block device")]),
    at_start("an NTFS file system", &[0], &[(3, b"NTFS    ")]),
    at_start("an exFAT file system", &[0], &[(3, b"EXFAT   ")]),
    at_start("an ISO 9660 file system", &[32 << 10], &[(1, b"CD001")]),
    at_start("a QCOW image", &[0], &[(0, b"QFI\xfb")]),
    at_start("a VMDK image", &[0], &[(0, b"KDMV")]),
    at_start("a VHDX image", &[0], &[(0, b"vhdxfile")]),
    at_start("a VHD image", &[0], &[(0, b"conectix")]),
    at_end("a VHD image", &[(512, 512)], &[(0, b"conectix")]),
    at_start(GPT, &[512, 4096], &[(0, b"EFI PART")]),
    at_end(GPT, &[(512, 512), (4096, 4096)], &[(0, b"EFI PART")]),
    // File systems from which firmware boots, for example FAT, also end their first sector with it.
    at_start(
        "a partition table (MBR) or a boot sector",
        &[0],
        &[(510, b"\x55\xaa")],
    ),
];

/// Returns the kind of foreign data on a device, or `None` if none is known. `labels` are the bytes
/// that were read at the places of a pool's labels.
///
/// # Errors
/// The end of the device cannot be read.
pub(crate) fn found(
    device: &dyn BlockDevice,
    labels: &LeafLabels,
) -> Result<Option<&'static str>, BlockError> {
    let geometry = device.geometry();
    let block = u64::from(geometry.granularity).max(1);
    let size = geometry.len;
    let offset = size.saturating_sub(TAIL) / block * block;
    let len = (size - offset) / block * block;
    if len == 0 {
        return Ok(None);
    }
    let request = Request::Read {
        offset,
        // At most TAIL and one block.
        len: len as u32,
    };
    let tail = match ask(device, request)? {
        Done::Pages(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    };
    Ok(in_labels_and_tail(size, labels, (offset, tail)))
}

/// Returns the kind of foreign data on a device of `size` bytes, of which `read` returns the bytes
/// at an offset.
///
/// # Errors
/// The end of the device cannot be read.
pub(crate) fn found_by(
    size: u64,
    labels: &LeafLabels,
    read: impl FnOnce(u64, usize) -> io::Result<Vec<u8>>,
) -> io::Result<Option<&'static str>> {
    let offset = size.saturating_sub(TAIL);
    // At most TAIL.
    let tail = read(offset, (size - offset) as usize)?;
    Ok(in_labels_and_tail(size, labels, (offset, tail)))
}

fn in_labels_and_tail(
    size: u64,
    labels: &LeafLabels,
    tail: (u64, Vec<u8>),
) -> Option<&'static str> {
    let mut known = vec![tail];
    for (copy, bytes) in (0..).zip(&labels.copies) {
        if let Some(offset) = label_offset(copy, size) {
            known.push((offset, bytes.to_vec()));
        }
    }
    recognized(size, &known)
}

/// Returns the kind of foreign data, if these bytes of a device of `size` bytes show one.
fn recognized(size: u64, known: &[(u64, Vec<u8>)]) -> Option<&'static str> {
    let is_there = |at: u64, bytes: &[u8]| {
        known.iter().any(|(start, region)| {
            let from = at
                .checked_sub(*start)
                .and_then(|from| usize::try_from(from).ok());
            let found = from.and_then(|from| region.get(from..from.checked_add(bytes.len())?));
            found == Some(bytes)
        })
    };
    let is_one = |signature: &&Signature| {
        let mut places = places(signature.at, size).into_iter();
        places.any(|place| {
            let mut parts = signature.parts.iter();
            parts.all(|(behind, bytes)| is_there(place + behind, bytes))
        })
    };
    SIGNATURES.iter().find(is_one).map(|found| found.name)
}

/// Returns the bytes of a device at which a signature may begin.
fn places(at: At, size: u64) -> Vec<u64> {
    match at {
        At::Start(all) => all.to_vec(),
        At::End(all) => {
            let place = |(before, unit): &(u64, u64)| (size - size % unit).checked_sub(*before);
            all.iter().filter_map(place).collect()
        }
        // The second half of each label is its ring. ZFS's labels lie at the places of the pool's
        // labels.
        At::ZfsRing => {
            let labels = (0..4).filter_map(|label| label_offset(label, size));
            let slots = |label| (128..256).map(move |kib| label + (kib << 10));
            labels.flat_map(slots).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = (100 << 20) + (13 << 10);

    /// Returns the bytes of a device that holds only this signature, at one of its places.
    fn holding(signature: &Signature, place: u64) -> Vec<(u64, Vec<u8>)> {
        let mut regions: Vec<(u64, Vec<u8>)> = (0..4)
            .filter_map(|copy| label_offset(copy, SIZE))
            .map(|offset| (offset, vec![0; 256 << 10]))
            .collect();
        regions.push((SIZE - TAIL, vec![0; TAIL as usize]));
        for (start, region) in &mut regions {
            for (behind, bytes) in signature.parts {
                let at = (place + behind).wrapping_sub(*start) as usize;
                if let Some(there) = region.get_mut(at..at.wrapping_add(bytes.len())) {
                    there.copy_from_slice(bytes);
                }
            }
        }
        regions
    }

    #[test]
    fn each_signature_is_recognized_at_each_of_its_places() {
        for signature in &SIGNATURES {
            for place in places(signature.at, SIZE) {
                let regions = holding(signature, place);
                let found = recognized(SIZE, &regions);
                assert_eq!(found, Some(signature.name), "at {place}");
            }
        }
    }

    #[test]
    fn half_of_a_signature_is_none() {
        let regions = |bytes: &[u8]| {
            let mut front = vec![0; 256 << 10];
            front[1080..1080 + bytes.len()].copy_from_slice(bytes);
            vec![(0, front)]
        };
        // The revision of an ext file system is 0 or 1.
        let mut bytes = [0; 24];
        bytes[..2].copy_from_slice(b"\x53\xef");
        assert_eq!(recognized(SIZE, &regions(&bytes)), Some(EXT));
        bytes[20] = 9;
        assert_eq!(recognized(SIZE, &regions(&bytes)), None);
        assert_eq!(recognized(SIZE, &[]), None);
    }
}
