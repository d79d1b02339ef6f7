//! Test that every log, mode and VPD page of a unit has the parts that its standard makes
//! mandatory. A page that this test does not know fails it.

use scsi::logical_unit::UnitConfig;
use scsi::medium::thin_provisioning::Space;

use crate::harness::{Harness, assert_good, config};

/// Makes units of each kind, each with its backend's report of its space.
fn units() -> Vec<Harness> {
    let thick = UnitConfig {
        thin: false,
        ..config()
    };
    let plain = UnitConfig {
        max_atomic_write: 0,
        sanitize: false,
        write_cache_changeable: false,
        block_len: 4096,
        blocks: 2048,
        ..config()
    };
    let told = Harness::new(config());
    told.unit().note_space(Space {
        available: 900,
        used: 100,
        capacity: 1000,
    });
    vec![
        told,
        Harness::new(config()),
        Harness::new(thick),
        Harness::new(plain),
    ]
}

/// Returns the parameter codes that a log page must have, and the lengths of their values.
fn mandatory_parameters(page: u8) -> &'static [(u16, u8)] {
    match page {
        // SBC-4 6.4.5: counts of the resources to which thresholds apply.
        0x0c => &[(0x0001, 8), (0x0002, 8)],
        // SPC-4 table 374: access statistics, idle time, time interval.
        0x19 => &[(0x0001, 64), (0x0002, 8), (0x0003, 8)],
        // SPC-4 table 379.
        0x2f => &[(0x0000, 4)],
        other => panic!("log page {other:02x}h: what is mandatory in it?"),
    }
}

#[test]
fn every_listed_log_page_has_its_mandatory_parameters() {
    for bench in units() {
        let nexus = bench.login(1);
        let log = |page: u8, subpage: u8| {
            let cdb = [0x4d, 0, 0x40 | page, subpage, 0, 0, 0, 0x10, 0, 0];
            let data = assert_good(bench.run(&nexus, &cdb, &[]));
            assert_eq!(
                data[..2],
                [if subpage == 0 { page } else { 0x40 | page }, subpage]
            );
            assert_eq!(
                usize::from(data[2]) << 8 | usize::from(data[3]),
                data.len() - 4
            );
            data[4..].to_vec()
        };
        let listed = log(0, 0);
        let with_subpages = log(0, 0xff);
        assert!(listed.is_sorted() && listed.contains(&0));
        let whole_pages = with_subpages.chunks(2).filter(|id| id[1] == 0);
        assert!(
            whole_pages.map(|id| id[0]).eq(listed.iter().copied()),
            "the lists agree"
        );
        for page in listed.into_iter().filter(|page| *page != 0) {
            let mut body = &log(page, 0)[..];
            let mut found = Vec::new();
            while let [high, low, control, len, rest @ ..] = body {
                assert_eq!(
                    control & 3,
                    3,
                    "page {page:02x}h: a bounded list of binary values"
                );
                found.push((u16::from_be_bytes([*high, *low]), *len));
                body = &rest[usize::from(*len)..];
            }
            assert!(body.is_empty() && found.is_sorted());
            for mandatory in mandatory_parameters(page) {
                assert!(found.contains(mandatory), "page {page:02x}h: {found:?}");
            }
        }
    }
}

/// Returns the length of a mode page behind its header (SPC-4 7.5, SBC-4 6.5).
fn mode_page_len(page: u8, subpage: u8) -> usize {
    match (page, subpage) {
        (0x01 | 0x0a | 0x1c, 0) => 0x0a,
        (0x02, 0) => 0x0e,
        (0x08, 0) => 0x12,
        (0x0a, 0x01) => 0x1c,
        // The page has twelve bytes, and threshold descriptors of eight.
        (0x1c, 0x02) => 12 + 8,
        other => panic!("mode page {other:02x?}: how long is it?"),
    }
}

#[test]
fn every_mode_page_has_its_length_under_every_page_control() {
    for bench in units() {
        let nexus = bench.login(1);
        let sense = |control: u8, page: u8, subpage: u8| {
            let cdb = [0x5a, 8, control << 6 | page, subpage, 0, 0, 0, 0x10, 0, 0];
            assert_good(bench.run(&nexus, &cdb, &[]))[8..].to_vec()
        };
        let mut ids = Vec::new();
        for control in 0..4 {
            let all = sense(control, 0x3f, 0xff);
            let (mut rest, mut found) = (&all[..], Vec::new());
            while !rest.is_empty() {
                let (page, has_subpage) = (rest[0] & 0x3f, rest[0] & 0x40 != 0);
                let (subpage, header) = if has_subpage { (rest[1], 4) } else { (0, 2) };
                let len = header + mode_page_len(page, subpage);
                let told = usize::from(rest[header - 1]) + header;
                assert_eq!(told, len, "page {page:02x}h/{subpage:02x}h");
                assert_eq!(
                    sense(control, page, subpage),
                    rest[..len],
                    "alone and among all"
                );
                found.push((page, subpage));
                rest = &rest[len..];
            }
            assert!(found.is_sorted());
            if control == 0 {
                ids = found;
            } else {
                assert_eq!(found, ids, "page control {control}");
            }
        }
        // SBC-4 table 205: every direct access device has these pages.
        for mandatory in [(0x01, 0), (0x08, 0), (0x0a, 0), (0x1c, 0)] {
            assert!(ids.contains(&mandatory));
        }
    }
}

/// Checks a VPD page without its header.
fn check_vpd(page: u8, body: &[u8], listed: &[u8]) {
    match page {
        0x00 => assert_eq!(body, listed),
        0x80 => assert!(!body.is_empty() && body.iter().all(|byte| (0x20..0x7f).contains(byte))),
        0x83 => check_designators(body),
        // SPC-4 7.8.8, 7.8.12, SBC-4 6.6.
        0x86 | 0xb0 | 0xb1 => assert_eq!(body.len(), 0x3c),
        0x87 => assert!(!body.is_empty() && body.len().is_multiple_of(4)),
        0x8f => check_third_party_copy(body),
        0xb2 => assert_eq!(body.len(), 4, "without a provisioning group"),
        other => panic!("VPD page {other:02x}h: what is mandatory in it?"),
    }
}

/// Checks SPC-4 7.8.6.2: the unit by NAA, EUI-64 or name, and the target port and the target device
/// for a port that is not a relative number alone.
fn check_designators(mut body: &[u8]) {
    let mut found = Vec::new();
    while let [_, kind, _, len, rest @ ..] = body {
        found.push((kind >> 4 & 3, kind & 0x0f));
        body = &rest[usize::from(*len)..];
    }
    assert!(body.is_empty());
    for mandatory in [(0, 3), (1, 4), (1, 5), (1, 8), (2, 8)] {
        assert!(found.contains(&mandatory), "{found:?}");
    }
}

/// Checks SPC-4 table 632: supported commands, parameter data, supported descriptors, CSCD IDs,
/// general copy operations.
fn check_third_party_copy(mut body: &[u8]) {
    let mut found = Vec::new();
    while let [a, b, c, d, rest @ ..] = body {
        found.push(u16::from_be_bytes([*a, *b]));
        let len = usize::from(u16::from_be_bytes([*c, *d]));
        assert!(len.is_multiple_of(4));
        body = &rest[len..];
    }
    assert!(body.is_empty() && found.is_sorted());
    for mandatory in [0x0001, 0x0004, 0x0008, 0x000c, 0x8001] {
        assert!(found.contains(&mandatory), "{found:04x?}");
    }
    let of_tokens = [0x0000, 0x0106, 0x0108].map(|kind| found.contains(&kind));
    assert!(of_tokens == [true; 3] || of_tokens == [false; 3]);
}

#[test]
fn every_listed_vpd_page_has_its_mandatory_parts() {
    for bench in units() {
        let nexus = bench.login(1);
        let vpd = |page: u8| {
            let data = assert_good(bench.run(&nexus, &[0x12, 1, page, 0x10, 0, 0], &[]));
            assert_eq!(data[..2], [0, page]);
            assert_eq!(
                usize::from(data[2]) << 8 | usize::from(data[3]),
                data.len() - 4
            );
            data[4..].to_vec()
        };
        let listed = vpd(0);
        assert!(listed.is_sorted());
        for mandatory in [0x00, 0x83] {
            assert!(listed.contains(&mandatory));
        }
        for page in &listed {
            check_vpd(*page, &vpd(*page), &listed);
        }
    }
}
