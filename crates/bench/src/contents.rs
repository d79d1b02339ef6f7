//! Describes a target's content: data that a writing benchmark would destroy.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::run::environment::{Environment, LaneEnvironment};
use block::lane::Outcome;
use block::{BlockDevice, Done, Lane, Request};
use model::quantity::format_size;

/// Bytes that are read: they hold all signatures below, and the beginnings of file systems.
const LOOKED_AT: u64 = 1 << 20;

/// Time for which a target without an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Signatures: place, bytes, and name of the format.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (1080, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (65_600, b"_BHRfS_M", "a Btrfs file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (1 << 20, &[0x0d, 0xd0, 0x01, 0xc0], "a VMFS volume"),
    (536, b"LVM2 001", "an LVM physical volume"),
    (0, b"LUKS\xba\xbe", "an encrypted LUKS volume"),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a Linux RAID"),
    (512, b"EFI PART", "a GPT partition table"),
    (4096, b"EFI PART", "a GPT partition table"),
    (4086, b"SWAPSPACE2", "Linux swap space"),
    (510, &[0x55, 0xaa], "a boot sector or MBR partition table"),
];

/// Describes in words what the target holds.
///
/// # Errors
/// The target cannot be read.
pub fn describe(device: &Arc<dyn BlockDevice>, lane: &mut Lane) -> io::Result<String> {
    let geometry = device.geometry();
    let len = geometry.len.min(LOOKED_AT + 4096) as u32;
    let request = Request::Read { offset: 0, len };
    let bytes = match ask(device, lane, request)? {
        Ok(Done::Pages(pages)) => pages.to_vec(),
        Ok(_) => Vec::new(),
        Err(error) => return Err(io::Error::other(error)),
    };
    Ok(name(&bytes).to_owned())
}

/// Reports whether the target holds no data at all: no part of it was ever written, or all of it
/// was discarded. A target that cannot tell counts as one with data.
pub fn is_empty(device: &Arc<dyn BlockDevice>, lane: &mut Lane) -> bool {
    let end = device.geometry().len;
    let mut offset = 0;
    while offset < end {
        let len = end - offset;
        let Ok(Ok(Done::Extents(runs))) = ask(device, lane, Request::Extents { offset, len })
        else {
            return false;
        };
        let seen: u64 = runs.iter().map(|(len, _)| len).sum();
        if seen == 0 || runs.iter().any(|(_, holds_data)| *holds_data) {
            return false;
        }
        offset += seen;
    }
    true
}

/// Returns the words by which a run that writes is refused, for a target of `len` bytes that holds
/// this.
pub fn would_destroy(name: &str, len: u64, holds: &str) -> String {
    let len = format_size(len);
    format!("this run writes, and would destroy the contents of {name}: {len}, with {holds}")
}

fn name(bytes: &[u8]) -> &'static str {
    let there = |(at, signature, _): &&(usize, &[u8], &str)| {
        bytes.get(*at..*at + signature.len()) == Some(*signature)
    };
    match SIGNATURES.iter().find(there) {
        Some((_, _, name)) => name,
        None if bytes.iter().all(|byte| *byte == 0) => "zeros at its start",
        None => "data of an unknown kind",
    }
}

/// Runs one request to its end.
fn ask(device: &Arc<dyn BlockDevice>, lane: &mut Lane, request: Request) -> io::Result<Outcome> {
    let mut environment = LaneEnvironment::new(Arc::clone(device), lane, Instant::now());
    if let Some(outcome) = environment.submit(request, 0) {
        return Ok(outcome);
    }
    let mut completions = Vec::new();
    while environment.now_ns() < PATIENCE.as_nanos() as u64 {
        environment.wait(PATIENCE.as_nanos() as u64, &mut completions)?;
        if let Some((_, outcome)) = completions.pop() {
            return Ok(outcome);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::Pages;
    use block::memory::MemoryDevice;

    #[test]
    fn a_target_is_empty_until_it_is_written() {
        let device = MemoryDevice::new(512 << 20, 512, 1 << 20).expect("memory");
        let device: Arc<dyn BlockDevice> = Arc::new(device);
        let mut lane = Lane::standing_with(false).expect("a lane");
        assert!(is_empty(&device, &mut lane));
        let data = Pages::from_bytes(&[1; 512]);
        let (offset, durable) = (300 << 20, false);
        let write = Request::Write {
            offset,
            data,
            durable,
        };
        assert!(matches!(ask(&device, &mut lane, write), Ok(Ok(_))));
        assert!(!is_empty(&device, &mut lane));
    }

    #[test]
    fn signatures_are_known_where_they_stand() {
        assert_eq!(name(&[0; 8192]), "zeros at its start");
        assert_eq!(name(&[7; 8192]), "data of an unknown kind");
        for (at, signature, words) in SIGNATURES {
            let mut bytes = vec![0; LOOKED_AT as usize + 4096];
            bytes[*at..*at + signature.len()].copy_from_slice(signature);
            assert_eq!(name(&bytes), *words);
        }
    }
}
