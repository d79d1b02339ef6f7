//! Volume whose sectors all differ, so that a test finds each of them in a pool's files.
//!
//! A test can then spoil exactly the sectors that it means.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::served::{self, BLOCK, read, sense, settings, write};

/// Unit of allocation of pools, and of requests to devices, in bytes.
pub(crate) const SECTOR: usize = 4096;
/// Byte of a device at which the pool's sector count begins.
pub(crate) const DATA: u64 = 1 << 20;
/// Sectors of one request.
const AT_ONCE: u64 = 64;
/// Logical blocks of a sector.
const LOGICAL: u64 = (SECTOR / BLOCK) as u64;

/// Returns the unique content of this sector: its number, and bytes that do not compress.
pub(crate) fn content(sector: u64) -> Vec<u8> {
    let mut state = sector;
    let mut bytes = b"sector ".to_vec();
    bytes.push(0);
    bytes.extend(sector.to_le_bytes());
    while bytes.len() < SECTOR {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        bytes.extend((state ^ state >> 33).to_le_bytes());
    }
    bytes
}

fn pieces(sectors: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = sectors.end;
    sectors
        .clone()
        .step_by(AT_ONCE as usize)
        .map(move |first| first..end.min(first + AT_ONCE))
}

fn contents(sectors: Range<u64>) -> Vec<u8> {
    sectors.flat_map(content).collect()
}

/// Writes these sectors of LUN 0.
pub(crate) fn write_sectors(portal: SocketAddr, sectors: Range<u64>) {
    let mut session = served::log_in(portal, settings(1));
    for piece in pieces(&sectors) {
        let told = write(
            &mut session,
            piece.start * LOGICAL,
            &contents(piece.clone()),
        );
        assert_eq!(sense(&told), None, "{piece:?}");
    }
}

/// Checks that all of these sectors have their content.
pub(crate) fn verify_sectors(portal: SocketAddr, sectors: Range<u64>) {
    let mut session = served::log_in(portal, settings(2));
    for piece in pieces(&sectors) {
        let blocks = (piece.end - piece.start) * LOGICAL;
        let data = read(&mut session, piece.start * LOGICAL, blocks as u32);
        assert!(data == contents(piece.clone()), "{piece:?}");
    }
}

/// Returns the byte of a device at which each of these sectors of the volume lies; each lies there
/// exactly once.
pub(crate) fn places(path: &Path, sectors: &Range<u64>) -> BTreeMap<u64, u64> {
    let disk = std::fs::read(path).unwrap();
    let mut places = BTreeMap::new();
    for (at, found) in disk.chunks_exact(SECTOR).enumerate() {
        if !found.starts_with(b"sector \0") {
            continue;
        }
        let number = u64::from_le_bytes(found[8..16].try_into().unwrap());
        if sectors.contains(&number) && found == content(number) {
            let before = places.insert(number, (at * SECTOR) as u64);
            assert_eq!(before, None, "sector {number} lies there twice");
        }
    }
    let expected: Vec<u64> = sectors.clone().collect();
    assert_eq!(places.keys().copied().collect::<Vec<_>>(), expected);
    places
}

/// Overwrites the sectors at these bytes of a device with rubbish.
pub(crate) fn spoil(path: &Path, places: impl IntoIterator<Item = u64>) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for at in places {
        let rubbish: Vec<u8> = (0..SECTOR as u64)
            .map(|byte| (byte * 31 + at) as u8)
            .collect();
        file.write_all_at(&rubbish, at).unwrap();
    }
}

/// Returns the sectors of a device that begin with `start`, behind its labels, as bytes from its
/// beginning.
pub(crate) fn beginning_with(path: &Path, start: &[u8]) -> Vec<u64> {
    let disk = std::fs::read(path).unwrap();
    let sectors = disk.chunks_exact(SECTOR).enumerate();
    sectors
        .filter(|(at, found)| (at * SECTOR) as u64 >= DATA && found.starts_with(start))
        .map(|(at, _)| (at * SECTOR) as u64)
        .collect()
}
