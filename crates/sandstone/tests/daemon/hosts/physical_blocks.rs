//! Properties of the disk beneath a unit that initiators see: physical blocks, limits, medium.

use std::path::Path;

use super::{DEVICE, SIZE, front, log_in, run};
use crate::served::{Served, log_in as session, settings, unit};
use initiator::connection::Connection;
use model::config::{BackendSpec, UnitSpec};
use testing::loop_device::Loop;

/// Content of READ CAPACITY(16) and of pages B0h and B1h for a unit.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    block_len: u32,
    exponent: u8,
    lowest_aligned: u16,
    transfer_granularity: u16,
    rotation_rate: u16,
}

fn ask(session: &mut Connection, cdb: &[u8]) -> Vec<u8> {
    let outcome = session.read(0, cdb, 255).unwrap();
    assert_eq!(outcome.status, Some(0), "{outcome:?}");
    outcome.data_in
}

/// Returns this content for LUN 0.
fn told(served: &Served) -> Told {
    let mut session = session(served.portal, settings(9));
    let mut cdb = crate::served::cdb(0x9e, 0, 32);
    cdb[1] = 0x10;
    let capacity = ask(&mut session, &cdb);
    let mut page = |page| ask(&mut session, &[0x12, 1, page, 0, 64, 0]);
    let (limits, characteristics) = (page(0xb0), page(0xb1));
    let short = |bytes: &[u8]| u16::from_be_bytes(bytes.try_into().unwrap());
    Told {
        block_len: u32::from_be_bytes(capacity[8..12].try_into().unwrap()),
        exponent: capacity[13] & 0xf,
        lowest_aligned: short(&capacity[14..16]) & 0x3fff,
        transfer_granularity: short(&limits[6..8]),
        rotation_rate: short(&characteristics[4..6]),
    }
}

/// Creates a disk with sectors of this size in bytes.
fn disk(image: &Path, sector: u32) -> Option<Loop> {
    Loop::attach(image, &["--sector-size", &sector.to_string()])
}

#[test]
fn a_unit_on_a_device_has_the_physical_blocks_of_the_device() {
    for sector in [512, 4096] {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        std::fs::File::create(&image)
            .unwrap()
            .set_len(SIZE)
            .unwrap();
        let Some(disk) = disk(&image, sector) else {
            return;
        };
        let served = front();
        let state = served.folder();
        let create = format!(
            "lu create a --device {} --block-size {sector}",
            disk.node().display()
        );
        run(state, &create).good();
        run(state, "map add a --every-host --lun 0").good();
        let listed = run(state, "lu list -H -p -o physical").good();
        assert_eq!(listed, format!("{sector}\n"));
        let rotational = disk.told("queue/rotational");
        let whole = Told {
            block_len: sector,
            exponent: 0,
            lowest_aligned: 0,
            transfer_granularity: 1,
            rotation_rate: u16::from(rotational.trim() == "0"),
        };
        assert_eq!(told(&served), whole);
    }
}

#[test]
fn what_the_administrator_says_of_a_device_counts() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    let Some(disk) = disk(&image, 512) else {
        return;
    };
    let served = front();
    let state = served.folder();
    let create = format!(
        "lu create a --device {} --physical-block-size 64K",
        disk.node().display()
    );
    run(state, &create).good();
    run(state, "map add a --every-host --lun 0").good();
    assert_eq!(told(&served).exponent, 7);
}

#[test]
fn a_disk_that_is_served_on_is_told_as_its_own_target_tells_it() {
    for (physical, exponent) in [(512, 0), (4096, 3)] {
        let origin = UnitSpec {
            physical_block_size: physical,
            ..unit("vol", 1, BackendSpec::Memory { size: SIZE })
        };
        let back = Served::start(vec![origin]);
        let whole = Told {
            block_len: 512,
            exponent,
            lowest_aligned: 0,
            // Memory has 4 KiB pages, whatever physical block size the unit reports.
            transfer_granularity: 8,
            rotation_rate: 1,
        };
        assert_eq!(told(&back), whole);
        let front = front();
        log_in(&front, &back, 1);
        run(front.folder(), &format!("lu create gw --backend {DEVICE}")).good();
        run(front.folder(), "map add gw --every-host --lun 0").good();
        let listed = run(front.folder(), "lu list -H -p -o physical").good();
        assert_eq!(listed, format!("{physical}\n"));
        assert_eq!(told(&front), whole);
    }
}

#[test]
fn no_physical_blocks_are_told_that_are_smaller_than_the_disks() {
    let origin = UnitSpec {
        physical_block_size: 4096,
        ..unit("vol", 1, BackendSpec::Memory { size: SIZE })
    };
    let (back, front) = (Served::start(vec![origin]), front());
    log_in(&front, &back, 1);
    let create = format!("lu create gw --backend {DEVICE} --physical-block-size 512");
    run(front.folder(), &create).good();
    run(front.folder(), "map add gw --every-host --lun 0").good();
    assert_eq!(told(&front).exponent, 3);
    let listed = run(front.folder(), "lu list -H -p -o physical").good();
    assert_eq!(listed, "4096\n", "what is told is listed");
}
