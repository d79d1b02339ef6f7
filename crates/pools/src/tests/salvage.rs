//! Tests of volumes that have lost blocks: the report and the copy.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::*;
use model::pool::import::ImportPool;
use model::pool::salvage::{Piece, PieceKind, SalvageRequest};
use model::pool::vdev_request::VdevKind;

const SIZE: u64 = 8 << 20;
const BLOCK: u64 = 16 << 10;
const SECTOR: usize = 4096;

/// Result of a salvage: the copy, and its missing ranges.
#[derive(Debug, Default)]
struct Salvaged {
    bytes: Vec<u8>,
    copied: u64,
    lost: Vec<Range<u64>>,
    is_over: bool,
}

fn salvage(pools: &Pools, to: Option<&str>) -> Salvaged {
    let request = SalvageRequest {
        name: "tank/a".to_owned(),
        to: to.map(str::to_owned),
    };
    let salvage = pools.salvage(&request).expect("there is such a volume");
    let mut salvaged = Salvaged::default();
    let mut sink = |bytes: Vec<u8>| {
        let piece = Piece::decode(bytes.first_chunk().expect("a piece")).expect("a piece");
        let range = piece.offset..piece.offset + piece.len;
        match piece.kind {
            PieceKind::Size => salvaged.bytes = vec![0; piece.len as usize],
            PieceKind::Data => {
                salvaged.copied += piece.len;
                let data = &bytes[Piece::SIZE..];
                if to.is_none() {
                    salvaged.bytes[range.start as usize..range.end as usize].copy_from_slice(data);
                }
            }
            PieceKind::Hole => {}
            PieceKind::Lost => match salvaged.lost.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => salvaged.lost.push(range),
            },
            PieceKind::End => salvaged.is_over = true,
            PieceKind::Failed => panic!("{bytes:?}"),
        }
        Ok(())
    };
    salvage.run(&mut sink).expect("to its end");
    assert!(salvaged.is_over);
    salvaged
}

/// Creates a closed pool of one disk with a volume, two parts of which hold data. Returns the data.
fn closed(folder: &Path) -> Vec<u8> {
    let (pools, volume) = with_volume(folder, (VdevKind::Disk, 1), SIZE, 4096);
    let mut lane = Lane::standing().expect("a lane");
    let mut bytes = vec![0; SIZE as usize];
    for (number, start) in [0, 3 << 20].into_iter().enumerate() {
        let part = super::administration::noise((256 << 10) + number);
        let part = &part[number..];
        write(&volume, &mut lane, start, part, true);
        bytes[start as usize..start as usize + part.len()].copy_from_slice(part);
    }
    drop(volume);
    pools.close();
    bytes
}

/// Spoils each chosen sector of the disk.
fn spoil(folder: &Path, is_chosen: impl Fn(&[u8]) -> bool) -> usize {
    let path = folder.join("d0");
    let mut image = fs::read(&path).expect("read");
    let mut count = 0;
    for sector in image.chunks_mut(SECTOR).filter(|sector| is_chosen(sector)) {
        sector[100] ^= 1;
        count += 1;
    }
    fs::write(&path, image).expect("written");
    count
}

fn opened(folder: &Path) -> Arc<Pools> {
    let pools = pools(folder);
    pools.view("tank").expect("it is open again");
    pools
}

#[test]
fn what_can_be_read_is_copied_and_what_cannot_is_told_and_zeros() {
    let folder = tempfile::tempdir().expect("a folder");
    let expected = closed(folder.path());
    let rotten = expected[BLOCK as usize..][..SECTOR].to_vec();
    assert_eq!(spoil(folder.path(), |sector| sector == rotten), 1);
    let pools = opened(folder.path());
    let copy = salvage(&pools, None);
    assert_eq!(copy.lost, std::slice::from_ref(&(BLOCK..2 * BLOCK)));
    assert_eq!(copy.copied, 2 * (256 << 10) - BLOCK);
    let mut known = expected;
    known[BLOCK as usize..2 * BLOCK as usize].fill(0);
    assert!(copy.bytes == known);
    let lost = pools.view("tank").expect("a pool").lost;
    let sums: Vec<_> = lost
        .iter()
        .map(|of| (of.dataset.as_str(), of.bytes, of.ranges))
        .collect();
    assert_eq!(sums, [("tank/a", BLOCK, 1)]);
    // The copy can go into a volume, but not into an existing one.
    let again = salvage(&pools, Some("tank/b"));
    assert_eq!(again.lost, copy.lost);
    let mut lane = Lane::standing().expect("a lane");
    let volume = pools.open_volume("tank/b", 4096).expect("opens");
    for at in (0..SIZE).step_by(1 << 20) {
        let there = read(&volume, &mut lane, at, 1 << 20);
        assert!(there == known[at as usize..][..1 << 20], "{at}");
    }
    drop(volume);
    let request = SalvageRequest {
        name: "tank/a".to_owned(),
        to: Some("tank/b".to_owned()),
    };
    let error = pools.salvage(&request).expect_err("it is there");
    assert_eq!(error.kind, ErrorKind::Exists);
    pools.close();
}

/// All nodes of a map lose both copies. Every byte of the volume is lost, and the status
/// says so.
#[test]
fn a_lost_map_is_told_as_all_the_bytes_that_it_led_to() {
    let folder = tempfile::tempdir().expect("a folder");
    closed(folder.path());
    let is_node = |sector: &[u8]| sector.starts_with(b"SANDNODE") && sector[19] == 0;
    assert!(spoil(folder.path(), is_node) >= 2);
    let pools = opened(folder.path());
    let copy = salvage(&pools, None);
    assert_eq!(copy.lost, std::slice::from_ref(&(0..SIZE)));
    assert_eq!(copy.copied, 0);
    let view = pools.view("tank").expect("a pool");
    let ranges: Vec<_> = view.damaged.iter().map(|of| (of.offset, of.len)).collect();
    assert_eq!(ranges, [(0, SIZE)]);
    assert_eq!(view.lost[0].bytes, SIZE);
    pools.close();
}

#[test]
fn a_pool_that_is_only_read_is_salvaged_and_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    closed(folder.path());
    let pools = opened(folder.path());
    pools.export("tank").expect("exported");
    let before = fs::read(folder.path().join("d0")).expect("read");
    let wanted = ImportPool {
        pool: Some("tank".to_owned()),
        paths: vec![folder.path().to_owned()],
        read_only: true,
        ..ImportPool::default()
    };
    pools.import(&wanted).expect("imported");
    let copy = salvage(&pools, None);
    assert_eq!((copy.copied, copy.lost.len()), (2 * (256 << 10), 0));
    pools.close();
    assert!(fs::read(folder.path().join("d0")).expect("read") == before);
}
