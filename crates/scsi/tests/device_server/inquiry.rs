//! Tests of INQUIRY, VPD pages, READ CAPACITY, REPORT LUNS and the answers of an unmapped LUN.

use scsi::logical_unit::UnitConfig;
use scsi::{Command, Response, Start, TaskAttribute, start_without_unit};

use crate::harness::*;

fn vpd(bench: &Harness, page: u8) -> Vec<u8> {
    let nexus = bench.login(1);
    let data = assert_good(bench.run(&nexus, &[0x12, 1, page, 0x10, 0, 0], &[]));
    assert_eq!(data[1], page);
    assert_eq!(
        usize::from(u16::from_be_bytes([data[2], data[3]])) + 4,
        data.len()
    );
    data
}

#[test]
fn standard_data_names_the_unit_and_the_standards() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let data = assert_good(bench.run(&nexus, &[0x12, 0, 0, 1, 4, 0], &[]));
    assert_eq!(data.len(), 96);
    assert_eq!(usize::from(data[4]) + 5, data.len());
    assert_eq!(data[..3], [0x00, 0x00, 0x06]);
    assert_eq!(data[3] & 0x0f, 2, "response data format");
    assert_eq!(data[3] & 0x20, 0, "NORMACA");
    assert_eq!(data[7] & 0x02, 0x02, "CMDQUE");
    assert_eq!(data[8..36], *b"SANDSTNETest unit       0001");
    let versions: Vec<u16> = data[58..74]
        .chunks(2)
        .map(|two| u16::from_be_bytes([two[0], two[1]]))
        .collect();
    assert!(versions.contains(&0x0460) && versions.contains(&0x04c0));
}

#[test]
fn inquiry_is_cut_to_the_allocation_length() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for length in [0, 5, 36, 95] {
        let data = assert_good(bench.run(&nexus, &[0x12, 0, 0, 0, length, 0], &[]));
        assert_eq!(data.len(), usize::from(length));
    }
}

#[test]
fn inquiry_refuses_a_page_without_evpd_cmddt_and_unknown_pages() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for cdb in [
        [0x12, 0, 0x80, 0, 96, 0],
        [0x12, 2, 0, 0, 96, 0],
        [0x12, 1, 0x85, 0, 96, 0],
    ] {
        assert_sense(&bench.run(&nexus, &cdb, &[]), 5, 0x24, 0x00);
    }
}

#[test]
fn every_listed_page_exists_in_ascending_order() {
    let bench = Harness::new(config());
    let pages = vpd(&bench, 0x00)[4..].to_vec();
    assert!(pages.is_sorted());
    for needed in [0x00, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2] {
        assert!(pages.contains(&needed), "{needed:#x}");
    }
    for page in pages {
        vpd(&bench, page);
    }
}

#[test]
fn device_identification_names_unit_port_group_and_target() {
    let bench = Harness::new(config());
    let data = vpd(&bench, 0x83);
    let mut rest = &data[4..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let len = usize::from(rest[3]);
        found.push((rest[1] & 0x3f, rest[4..4 + len].to_vec()));
        rest = &rest[4 + len..];
    }
    assert_eq!(found[0], (0x03, config().naa));
    assert_eq!(found[1], (0x01, b"SANDSTNES0001".to_vec()));
    assert_eq!(found[2], (0x14, vec![0, 0, 0, 1]));
    assert_eq!(found[3], (0x15, vec![0, 0, 0, 1]));
    assert_eq!(found[4].0, 0x18);
    assert!(
        found[4]
            .1
            .starts_with(b"iqn.2026-01.test:target,t,0x0001\0")
    );
    assert_eq!(found[5].0, 0x28);
    assert!(
        found
            .iter()
            .all(|(kind, bytes)| kind & 0xf != 8 || bytes.len() % 4 == 0)
    );
}

#[test]
fn serial_number_page() {
    let bench = Harness::new(config());
    assert_eq!(vpd(&bench, 0x80)[4..], *b"S0001");
}

#[test]
fn block_limits_follow_the_configuration() {
    let bench = Harness::new(config());
    let data = vpd(&bench, 0xb0);
    let word = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
    assert_eq!(data.len(), 64);
    assert_eq!(data[4], 1, "WSNZ");
    assert_eq!(data[5], 128);
    assert_eq!(data[6..8], [0, 8]);
    assert_eq!((word(8), word(12)), (512, 128));
    assert!(word(20) > 0 && word(20) <= 1 << 20);
    assert_eq!((word(24), word(28)), (256, 8));
    assert_eq!(word(44), 256);
    let thick = Harness::new(UnitConfig {
        thin: false,
        ..config()
    });
    let data = vpd(&thick, 0xb0);
    assert_eq!(data[20..36], [0; 16]);
    assert_eq!(vpd(&thick, 0xb2)[4..], [0; 4]);
}

#[test]
fn provisioning_and_characteristics_pages() {
    let bench = Harness::new(config());
    assert_eq!(vpd(&bench, 0xb2)[5..8], [0xe4, 0x02, 0]);
    let characteristics = vpd(&bench, 0xb1);
    assert_eq!(characteristics.len(), 64);
    assert_eq!(characteristics[4..6], [0, 1]);
}

#[test]
fn read_capacity_10_and_16() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let short = assert_good(bench.run(&nexus, &cdb_10(0x25, 0, 0, 0), &[]));
    assert_eq!(short, [0, 0, 7, 0xff, 0, 0, 2, 0]);
    let long = assert_good(bench.run(&nexus, &cdb_16(0x9e, 0x10, 0, 32), &[]));
    assert_eq!(long[..12], [0, 0, 0, 0, 0, 0, 7, 0xff, 0, 0, 2, 0]);
    assert_eq!(long[12..16], [0, 3, 0xc0, 0]);
    assert_eq!(long.len(), 32);
    let cut = assert_good(bench.run(&nexus, &cdb_16(0x9e, 0x10, 0, 12), &[]));
    assert_eq!(cut.len(), 12);
}

#[test]
fn read_capacity_10_sends_large_units_to_16() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    bench.unit().resize((1 << 32) + 1);
    assert_sense(&bench.run(&nexus, &[0; 6], &[]), 6, 0x2a, 0x09);
    let short = assert_good(bench.run(&nexus, &cdb_10(0x25, 0, 0, 0), &[]));
    assert_eq!(short[..4], [0xff; 4]);
    let long = assert_good(bench.run(&nexus, &cdb_16(0x9e, 0x10, 0, 32), &[]));
    assert_eq!(long[..8], (1_u64 << 32).to_be_bytes());
}

#[test]
fn an_unknown_service_action_is_an_invalid_field_and_an_unknown_opcode_unknown() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert_sense(
        &bench.run(&nexus, &cdb_16(0x9e, 0x1e, 0, 32), &[]),
        5,
        0x24,
        0x00,
    );
    assert_sense(&bench.run(&nexus, &[0xff; 6], &[]), 5, 0x20, 0x00);
}

#[test]
fn report_luns_tells_the_view_and_nothing_else() {
    let second = UnitConfig {
        naa: vec![0x52; 8],
        ..config()
    };
    let bench = Harness::with_groups(vec![config(), second], Default::default());
    let nexus = bench.login(1);
    let mut cdb = [0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    let data = assert_good(bench.run(&nexus, &cdb, &[]));
    assert_eq!(
        data,
        [
            0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0
        ]
    );
    cdb[2] = 1;
    assert_eq!(assert_good(bench.run(&nexus, &cdb, &[])), [0; 8]);
    cdb[2] = 0x20;
    assert_sense(&bench.run(&nexus, &cdb, &[]), 5, 0x24, 0x00);
    let too_short = [0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 15, 0, 0];
    assert_sense(&bench.run(&nexus, &too_short, &[]), 5, 0x24, 0x00);
}

fn without_unit(bench: &Harness, cdb: &[u8]) -> Response {
    let command = Command {
        cdb,
        attribute: TaskAttribute::Simple,
        data_out_len: Some(0),
        data_in_len: 255,
    };
    match start_without_unit(&command, &View(bench)) {
        Start::Respond(response) => response,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unmapped_lun_says_so() {
    let bench = Harness::new(config());
    let inquiry = assert_good(without_unit(&bench, &[0x12, 0, 0, 0, 96, 0]));
    assert_eq!(inquiry[0], 0x7f);
    assert_eq!(inquiry[8..], *b"VENDOR  PRODUCT         REV ");
    assert_eq!(usize::from(inquiry[4]) + 5, inquiry.len());
    let luns = assert_good(without_unit(
        &bench,
        &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
    ));
    assert_eq!(luns.len(), 16);
    let sense = assert_good(without_unit(&bench, &[0x03, 0, 0, 0, 18, 0]));
    assert_eq!((sense[2], sense[12], sense[13]), (5, 0x25, 0));
    for cdb in [
        &[0; 6][..],
        &cdb_10(0x28, 0, 0, 1),
        &[0x12, 1, 0x83, 0, 96, 0],
    ] {
        assert_sense(&without_unit(&bench, cdb), 5, 0x25, 0x00);
    }
}

#[test]
fn read_defect_data_is_empty() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let short = assert_good(bench.run(&nexus, &[0x37, 0, 0x1d, 0, 0, 0, 0, 0, 32, 0], &[]));
    assert_eq!(short, [0, 0x1d, 0, 0]);
    let long = assert_good(bench.run(&nexus, &[0xb7, 0x1d, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0], &[]));
    assert_eq!(long, [0, 0x1d, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn send_diagnostic_runs_the_default_self_test_only() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert_good(bench.run(&nexus, &[0x1d, 4, 0, 0, 0, 0], &[]));
    bench.disk().fail.set(Some(scsi::BlockError::Gone));
    assert_sense(
        &bench.run(&nexus, &[0x1d, 4, 0, 0, 0, 0], &[]),
        4,
        0x44,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &[0x1d, 0x20, 0, 0, 0, 0], &[]),
        5,
        0x24,
        0x00,
    );
    assert_sense(
        &bench.run(&nexus, &[0x1d, 0x10, 0, 0, 8, 0], &[0; 8]),
        5,
        0x24,
        0x00,
    );
}

#[test]
fn an_unmap_granularity_of_one_block_is_not_reported() {
    for (granularity, told) in [(1, [0, 0]), (8, [8, 0x8000_0000])] {
        let bench = Harness::new(UnitConfig {
            block_len: 4096,
            unmap_granularity: granularity,
            ..config()
        });
        let data = vpd(&bench, 0xb0);
        let word = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
        assert_eq!([word(28), word(32)], told);
    }
}

/// Returns a word of four bytes of the Block Limits page of a unit of this configuration.
fn limit(config: UnitConfig, at: usize) -> u32 {
    let page = vpd(&Harness::new(config), 0xb0);
    u32::from_be_bytes(*page[at..].first_chunk().expect("within the page"))
}

#[test]
fn the_lowest_aligned_block_is_told_within_a_physical_block() {
    let told = |exponent, lowest| {
        let bench = Harness::new(UnitConfig {
            physical_exponent: exponent,
            lowest_aligned: lowest,
            ..config()
        });
        let nexus = bench.login(1);
        let long = assert_good(bench.run(&nexus, &cdb_16(0x9e, 0x10, 0, 32), &[]));
        (
            long[13],
            u16::from_be_bytes([long[14], long[15]]) & 0x3fff,
            long[14] & 0xc0,
        )
    };
    // The bits of provisioning beside the field stay unchanged.
    assert_eq!(told(3, 7), (3, 7, 0xc0));
    assert_eq!(told(3, 15), (3, 7, 0xc0));
    assert_eq!(told(0, 7), (0, 0, 0xc0));
    // A value that does not fit into 14 bits is not cut to them.
    assert_eq!(told(15, 0x4001), (15, 0, 0xc0));
}

#[test]
fn the_unmap_granularity_alignment_is_valid_where_it_is_known() {
    let told = |unmap_granularity, unmap_alignment| {
        let config = UnitConfig {
            unmap_granularity,
            unmap_alignment,
            ..config()
        };
        limit(config, 32)
    };
    assert_eq!(told(8, Some(0)), 0x8000_0000);
    assert_eq!(told(8, Some(7)), 0x8000_0007);
    assert_eq!(told(8, Some(9)), 0x8000_0001);
    assert_eq!(told(8, None), 0);
    assert_eq!(told(u32::MAX, Some(1 << 31)), 0);
}

#[test]
fn the_transfer_granularity_is_at_least_a_physical_block_and_divides_the_optimal_transfer() {
    let told = |transfer_granularity, optimal_transfer| {
        let config = UnitConfig {
            transfer_granularity,
            optimal_transfer,
            ..config()
        };
        (limit(config.clone(), 4) & 0xffff, limit(config, 12))
    };
    assert_eq!(told(128, 384), (128, 384));
    assert_eq!(told(1, 128), (8, 128));
    // One command moves at most 512 blocks, which hold five whole stripes.
    assert_eq!(told(96, 960), (96, 480));
    assert_eq!(told(128, 0), (128, 0));
    // No optimal transfer is shorter than the granularity, and no granularity is longer than the
    // largest transfer.
    assert_eq!(told(128, 64), (128, 128));
    assert_eq!(told(600, 100), (8, 96));
}

#[test]
fn the_medium_rotation_rate_is_told_as_it_is() {
    for rate in [0, 1, 7200] {
        let bench = Harness::new(UnitConfig {
            rotation_rate: rate,
            ..config()
        });
        assert_eq!(vpd(&bench, 0xb1)[4..6], rate.to_be_bytes());
    }
}

#[test]
fn contradictory_limits_are_narrowed_and_told_as_they_are_enforced() {
    let wild = UnitConfig {
        max_transfer: u32::MAX,
        optimal_transfer: u32::MAX,
        max_atomic_write: u32::MAX,
        unmap_granularity: 0,
        physical_exponent: 200,
        ..config()
    };
    let bench = Harness::new(wild);
    let data = vpd(&bench, 0xb0);
    let word = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
    let most = i32::MAX as u32 / 512;
    // The optimal transfer is one of whole physical blocks.
    let optimal = most - most % (1 << 15);
    assert_eq!((word(8), word(12), word(44)), (most, optimal, most));
    assert_eq!(word(28), 0);
    let nothing = Harness::new(UnitConfig {
        max_transfer: 0,
        ..config()
    });
    let nexus = nothing.login(1);
    assert_good(nothing.run(&nexus, &cdb_10(0x28, 0, 0, 1), &[]));
    assert_sense(
        &nothing.run(&nexus, &cdb_10(0x28, 0, 0, 2), &[]),
        5,
        0x24,
        0x00,
    );
}
