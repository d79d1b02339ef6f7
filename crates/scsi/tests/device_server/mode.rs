//! Tests of MODE SENSE and MODE SELECT, and that the unit behaves as the pages say.

use scsi::logical_unit::{LogicalUnit, Reset, RestoreError, UnitConfig};
use scsi::{BlockError, image};

use crate::harness::*;

/// Sends a MODE SENSE(6) of one page without block descriptors, and returns the page alone.
fn page(
    bench: &Harness,
    nexus: &std::sync::Arc<scsi::itl_nexus::ItlNexus>,
    control: u8,
    page: u8,
) -> Vec<u8> {
    let cdb = [0x1a, 0x08, control << 6 | page, 0, 255, 0];
    let data = assert_good(bench.run(nexus, &cdb, &[]));
    assert_eq!(usize::from(data[0]) + 1, data.len());
    data[4..].to_vec()
}

/// Builds a MODE SELECT(6) list around a page.
fn list(page: &[u8]) -> Vec<u8> {
    [&[0; 4], page].concat()
}

fn select(save: bool, len: usize) -> [u8; 6] {
    [0x15, 0x10 | u8::from(save), 0, 0, len as u8, 0]
}

/// Returns the current page with one byte changed, as a list and its CDB.
fn changed(
    bench: &Harness,
    nexus: &std::sync::Arc<scsi::itl_nexus::ItlNexus>,
    code: u8,
    at: usize,
    flip: u8,
    save: bool,
) -> ([u8; 6], Vec<u8>) {
    let mut body = page(bench, nexus, 0, code);
    body[at] ^= flip;
    let list = list(&body);
    (select(save, list.len()), list)
}

#[test]
fn all_pages_are_well_formed_in_every_page_control() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for control in 0..4 {
        for subpage in [0, 0xff] {
            let cdb = [0x1a, 0x08, control << 6 | 0x3f, subpage, 255, 0];
            let data = assert_good(bench.run(&nexus, &cdb, &[]));
            let mut rest = &data[4..];
            let mut codes = Vec::new();
            while !rest.is_empty() {
                let long = rest[0] & 0x40 != 0;
                let len = if long {
                    4 + usize::from(rest[3])
                } else {
                    2 + usize::from(rest[1])
                };
                codes.push(rest[0] & 0x3f);
                rest = &rest[len..];
            }
            assert!(codes.is_sorted());
            let with_subpage = if subpage == 0 { 5 } else { 7 };
            assert_eq!(codes.len(), with_subpage);
        }
    }
}

#[test]
fn mode_sense_headers_and_block_descriptors() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let short = assert_good(bench.run(&nexus, &[0x1a, 0, 0x08, 0, 255, 0], &[]));
    assert_eq!(short[1..4], [0, 0x10, 8]);
    assert_eq!(short[4..12], [0, 0, 8, 0, 0, 0, 2, 0]);
    let long = assert_good(bench.run(&nexus, &[0x5a, 0x10, 0x08, 0, 0, 0, 0, 0, 255, 0], &[]));
    assert_eq!(
        usize::from(u16::from_be_bytes([long[0], long[1]])) + 2,
        long.len()
    );
    assert_eq!(long[2..8], [0, 0x10, 1, 0, 0, 16]);
    assert_eq!(
        long[8..24],
        [0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0]
    );
    let cut = assert_good(bench.run(&nexus, &[0x1a, 0, 0x3f, 0, 4, 0], &[]));
    assert_eq!(cut.len(), 4);
}

#[test]
fn mode_sense_refuses_unknown_pages_and_subpages() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let unknown = bench.run(&nexus, &[0x1a, 0, 0x2a, 0, 255, 0], &[]);
    assert_sense(&unknown, 5, 0x24, 0x00);
    assert_eq!(unknown.sense[16..18], [0, 2]);
    let subpage = bench.run(&nexus, &[0x1a, 0, 0x08, 7, 255, 0], &[]);
    assert_sense(&subpage, 5, 0x24, 0x00);
    assert_eq!(subpage.sense[16..18], [0, 3]);
}

/// Tests SPC-4 6.11: with the page code for all pages, only the subpage codes 00h and FFh have a
/// meaning.
#[test]
fn all_pages_of_one_subpage_code_cannot_be_asked_for() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for subpage in [0x01, 0x02, 0x7f, 0xfe] {
        let refused = bench.run(&nexus, &[0x1a, 0, 0x3f, subpage, 255, 0], &[]);
        assert_sense(&refused, 5, 0x24, 0x00);
        assert_eq!(refused.sense[15..18], [0xc0, 0, 3]);
    }
}

/// Tests SPC-4 4.5.2.4.2: the sense data points to a wrong field of several bytes by its first
/// byte.
#[test]
fn mode_select_points_to_the_first_byte_of_what_is_wrong() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let select = |list: &[u8]| {
        let cdb = [0x55, 0x10, 0, 0, 0, 0, 0, 0, list.len() as u8, 0];
        bench.run(&nexus, &cdb, list)
    };
    let points_to = |list: &[u8], at: u8| {
        let refused = select(list);
        assert_sense(&refused, 5, 0x26, 0x00);
        assert_eq!(refused.sense[15..18], [0x80, 0, at], "{list:02x?}");
    };
    points_to(&[0, 0, 0, 0, 0, 0, 0, 9], 6);
    points_to(&[0, 0, 0, 0, 0, 0, 1, 8], 6);
    let long = [0, 0, 0, 0, 1, 0, 0, 16];
    let blocks = [0; 8];
    assert_good(select(
        &[&long[..], &blocks, &[0; 4], &[0, 0, 2, 0]].concat(),
    ));
    // LOGICAL BLOCK LENGTH of the long descriptor has four bytes.
    for length in [[0, 0, 4, 0], [1, 0, 2, 0]] {
        points_to(&[&long[..], &blocks, &[0; 4], &length].concat(), 20);
    }
    let short = [0, 0, 0, 0, 0, 0, 0, 8];
    points_to(&[&short[..], &[0; 4], &[0, 0, 4, 0]].concat(), 13);
    points_to(&[&short[..], &[0, 0, 0, 1], &[0, 0, 2, 0]].concat(), 8);
}

#[test]
fn wce_changes_is_obeyed_flushes_and_is_told_to_the_others() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let other = bench.login(2);
    assert!(bench.unit().write_cache_enabled());
    let (cdb, list) = changed(&bench, &nexus, 0x08, 2, 0x04, false);
    assert_good(bench.run(&nexus, &cdb, &list));
    assert!(!bench.unit().write_cache_enabled());
    assert_eq!(
        bench.disk().flushes.get(),
        1,
        "what was cached becomes durable"
    );
    assert_sense(&bench.run(&other, &[0; 6], &[]), 6, 0x2a, 0x01);
    assert_good(bench.run(&nexus, &[0; 6], &[]));
    assert_eq!(page(&bench, &nexus, 0, 0x08)[2], 0x00);
    assert_eq!(page(&bench, &nexus, 2, 0x08)[2], 0x04, "the default stays");
    assert_eq!(page(&bench, &nexus, 3, 0x08)[2], 0x04, "nothing was saved");
    let _ = bench.unit().reset(Reset::LogicalUnit);
    assert!(bench.unit().write_cache_enabled());
}

/// Tests WCE that was switched on for the moment, without saving the change. The transport must
/// hear that it is off again.
#[test]
fn a_reset_tells_that_it_switched_the_write_cache_off() {
    let bench = Harness::new(UnitConfig {
        write_cache: false,
        ..config()
    });
    let nexus = bench.login(1);
    let (cdb, list) = changed(&bench, &nexus, 0x08, 2, 0x04, false);
    assert_good(bench.run(&nexus, &cdb, &list));
    assert!(bench.unit().write_cache_enabled());
    assert!(bench.unit().reset(Reset::LogicalUnit));
    assert!(!bench.unit().write_cache_enabled());
    assert!(!bench.unit().reset(Reset::LogicalUnit));
}

#[test]
fn wce_that_is_not_changeable_stays() {
    let bench = Harness::new(UnitConfig {
        write_cache_changeable: false,
        ..config()
    });
    let nexus = bench.login(1);
    assert_eq!(page(&bench, &nexus, 1, 0x08)[2], 0x00);
    let (cdb, list) = changed(&bench, &nexus, 0x08, 2, 0x04, false);
    let response = bench.run(&nexus, &cdb, &list);
    assert_sense(&response, 5, 0x26, 0x00);
    assert_eq!(response.sense[15..18], [0x80, 0, 6], "points at the byte");
}

#[test]
fn d_sense_switches_the_format() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert_eq!(
        bench.run(&nexus, &cdb_10(0x28, 0, 2048, 1), &[]).sense[0],
        0x70
    );
    let (cdb, list) = changed(&bench, &nexus, 0x0a, 2, 0x04, false);
    assert_good(bench.run(&nexus, &cdb, &list));
    let response = bench.run(&nexus, &cdb_10(0x28, 0, 2048, 1), &[]);
    assert_eq!(response.sense[0], 0x72);
    assert_sense(&response, 5, 0x21, 0x00);
}

#[test]
fn swp_protects_and_shows_as_wp() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let (cdb, list) = changed(&bench, &nexus, 0x0a, 4, 0x08, false);
    assert_good(bench.run(&nexus, &cdb, &list));
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x2a, 0, 0, 1), &[0; 512]),
        7,
        0x27,
        0x02,
    );
    assert_good(bench.run(&nexus, &cdb_10(0x28, 0, 0, 1), &[]));
    let data = assert_good(bench.run(&nexus, &[0x1a, 8, 0x0a, 0, 255, 0], &[]));
    assert_eq!(data[2], 0x90);
    let (cdb, list) = changed(&bench, &nexus, 0x0a, 4, 0x08, false);
    assert_good(bench.run(&nexus, &cdb, &list));
    assert_good(bench.run(&nexus, &cdb_10(0x2a, 0, 0, 1), &[0; 512]));
}

#[test]
fn tas_is_readable() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert!(!bench.unit().task_aborted_status());
    let (cdb, list) = changed(&bench, &nexus, 0x0a, 5, 0x40, false);
    assert_good(bench.run(&nexus, &cdb, &list));
    assert!(bench.unit().task_aborted_status());
}

#[test]
fn saved_values_survive_a_reset_and_a_restart() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let (cdb, list) = changed(&bench, &nexus, 0x08, 2, 0x04, true);
    assert_good(bench.run(&nexus, &cdb, &list));
    assert!(!bench.unit().reset(Reset::LogicalUnit), "it was off before");
    assert!(!bench.unit().write_cache_enabled());
    let saved = bench.saved.borrow().clone().expect("an image was saved");
    let again = Harness::new(config());
    assert_eq!(again.unit().restore(&saved), Ok(()));
    assert!(!again.unit().write_cache_enabled());
    // If the administrator alone decides WCE, an old image does not overrule the configuration.
    let fixed = Harness::new(UnitConfig {
        write_cache_changeable: false,
        ..config()
    });
    assert_eq!(fixed.unit().restore(&saved), Ok(()));
    assert!(fixed.unit().write_cache_enabled());
}

/// Reports whether the cache is on after a restart with that configuration.
fn after_restart(image: &[u8], write_cache: bool) -> bool {
    let bench = Harness::new(scsi::logical_unit::UnitConfig {
        write_cache,
        ..config()
    });
    assert_eq!(bench.unit().restore(image), Ok(()));
    bench.unit().write_cache_enabled()
}

#[test]
fn a_saved_wce_does_not_outlive_the_configuration_it_was_saved_under() {
    let of_unit = |write_cache, is_turned: bool| {
        let bench = Harness::new(scsi::logical_unit::UnitConfig {
            write_cache,
            ..config()
        });
        if is_turned {
            let nexus = bench.login(1);
            let (cdb, list) = changed(&bench, &nexus, 0x08, 2, 0x04, true);
            assert_good(bench.run(&nexus, &cdb, &list));
        }
        bench.unit().image_to_save()
    };
    // No initiator selected anything, so the configuration holds, whatever was stored.
    for (stored, configured) in [(true, false), (false, true), (true, true), (false, false)] {
        let image = of_unit(stored, false);
        assert_eq!(after_restart(&image, configured), configured);
    }
    // A value that an initiator saved holds until the administrator decides anew.
    for default in [true, false] {
        let image = of_unit(default, true);
        assert_eq!(after_restart(&image, default), !default);
        assert_eq!(after_restart(&image, !default), !default);
    }
}

#[test]
fn of_an_older_image_only_a_cache_that_is_off_is_believed() {
    let older = |bits: u8| {
        let header = [&b"SLUIMG\0\x01"[..], &7u64.to_be_bytes()].concat();
        [&header[..], &[0, 1, 0, 0, 0, 1, bits]].concat()
    };
    for (saved, configured) in [(true, false), (false, true), (true, true), (false, false)] {
        let is_on = after_restart(&older(u8::from(saved)), configured);
        assert_eq!(is_on, saved && configured);
    }
    let bench = Harness::new(config());
    let unknown = [&older(0)[..16], &[0, 1, 0, 0, 0, 2, 0, 2]].concat();
    assert_eq!(
        bench.unit().restore(&unknown),
        Err(RestoreError::Damaged(1))
    );
}

#[test]
fn a_failed_save_takes_the_change_back() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let (cdb, list) = changed(&bench, &nexus, 0x0a, 5, 0x40, true);
    bench.disk().fail.set(Some(BlockError::Gone));
    assert_sense(&bench.run(&nexus, &cdb, &list), 4, 0x44, 0x00);
    assert!(!bench.unit().task_aborted_status());
    assert_eq!(page(&bench, &nexus, 3, 0x0a)[5], 0);
}

#[test]
fn images_are_numbered_and_damaged_ones_refused() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let (cdb, list) = changed(&bench, &nexus, 0x0a, 5, 0x40, true);
        assert_good(bench.run(&nexus, &cdb, &list));
        numbers.push(image::generation(bench.saved.borrow().as_ref().unwrap()).unwrap());
    }
    assert!(numbers[0] < numbers[1]);
    let good = bench.saved.borrow().clone().unwrap();
    let unit: &LogicalUnit = bench.unit();
    assert_eq!(unit.restore(&[]), Err(RestoreError::NotAnImage));
    assert!(unit.restore(&good[..good.len() - 1]).is_err());
    for cut in 17..good.len() {
        let result = unit.restore(&good[..cut]);
        let at_section_end = result.is_ok();
        assert!(
            at_section_end || matches!(result, Err(RestoreError::Truncated)),
            "{cut}"
        );
    }
    let mut unknown = good.clone();
    unknown[16] = 0x7f;
    assert!(matches!(
        unit.restore(&unknown),
        Err(RestoreError::UnknownSection(_))
    ));
    let mut damaged = good;
    damaged[22] = 0xff;
    assert_eq!(unit.restore(&damaged), Err(RestoreError::Damaged(1)));
}

#[test]
fn mode_select_refuses_bad_lists_exactly() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let caching = page(&bench, &nexus, 0, 0x08);
    let good = list(&caching);
    let run = |cdb: [u8; 6], list: &[u8]| bench.run(&nexus, &cdb, list);
    assert_good(run(select(false, good.len()), &good));
    assert_good(run(select(false, 0), &[]));
    assert_sense(&run([0x15, 0, 0, 0, 24, 0], &good), 5, 0x24, 0x00);
    assert_sense(&run([0x15, 0x12, 0, 0, 24, 0], &good), 5, 0x24, 0x00);
    assert_sense(&run(select(false, 3), &good[..3]), 5, 0x1a, 0x00);
    assert_sense(&run(select(false, good.len()), &good[..10]), 5, 0x0e, 0x03);
    let cut = &good[..good.len() - 1];
    assert_sense(&run(select(false, cut.len()), cut), 5, 0x1a, 0x00);
    let unknown = list(&[0x2a, 0]);
    assert_sense(&run(select(false, unknown.len()), &unknown), 5, 0x26, 0x00);
    let mut wrong_length = good.clone();
    wrong_length[5] = 0x11;
    assert_sense(
        &run(select(false, good.len()), &wrong_length),
        5,
        0x26,
        0x00,
    );
    let mut medium_type = good.clone();
    medium_type[1] = 1;
    assert_sense(&run(select(false, good.len()), &medium_type), 5, 0x26, 0x00);
    let mut descriptor_length = good.clone();
    descriptor_length[3] = 7;
    assert_sense(
        &run(select(false, good.len()), &descriptor_length),
        5,
        0x26,
        0x00,
    );
}

#[test]
fn mode_select_applies_all_pages_or_none() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let mut caching = page(&bench, &nexus, 0, 0x08);
    caching[2] ^= 0x04;
    let mut recovery = page(&bench, &nexus, 0, 0x01);
    recovery[3] ^= 0x01;
    let both = list(&[caching, recovery].concat());
    assert_sense(
        &bench.run(&nexus, &select(false, both.len()), &both),
        5,
        0x26,
        0x00,
    );
    assert!(bench.unit().write_cache_enabled());
}

#[test]
fn mode_select_checks_block_descriptors() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let caching = page(&bench, &nexus, 0, 0x08);
    for (blocks, block_len, good) in [
        (2048, 512, true),
        (0, 512, true),
        (2047, 512, false),
        (0, 4096, false),
    ] {
        let blocks: u32 = blocks;
        let block_len: u32 = block_len;
        let list = [
            &[0, 0, 0, 8][..],
            &blocks.to_be_bytes(),
            &block_len.to_be_bytes(),
            &caching,
        ]
        .concat();
        let response = bench.run(&nexus, &select(false, list.len()), &list);
        if good {
            assert_good(response);
        } else {
            assert_sense(&response, 5, 0x26, 0x00);
        }
    }
}

#[test]
fn mode_select_10_with_a_long_block_descriptor() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let mut caching = page(&bench, &nexus, 0, 0x08);
    caching[2] ^= 0x04;
    let mut list = vec![0, 0, 0, 0, 1, 0, 0, 16];
    list.extend_from_slice(&2048_u64.to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    list.extend_from_slice(&512_u32.to_be_bytes());
    list.extend_from_slice(&caching);
    let cdb = [0x55, 0x10, 0, 0, 0, 0, 0, 0, list.len() as u8, 0];
    assert_good(bench.run(&nexus, &cdb, &list));
    assert!(!bench.unit().write_cache_enabled());
}

#[test]
fn the_administrator_changes_wce_live() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    bench.unit().set_write_cache(false);
    assert!(!bench.unit().write_cache_enabled());
    assert_sense(&bench.run(&nexus, &[0; 6], &[]), 6, 0x2a, 0x01);
    bench.unit().set_write_cache(false);
    assert_good(bench.run(&nexus, &[0; 6], &[]));
    assert_eq!(page(&bench, &nexus, 2, 0x08)[2], 0);
}

#[test]
fn what_the_backend_does_anyway_is_told_and_cannot_be_changed() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let wce = |control| page(&bench, &nexus, control, 0x08)[2];
    assert!(bench.unit().write_cache_enabled());
    bench.unit().fix_write_cache(Some(false));
    assert!(!bench.unit().write_cache_enabled());
    assert_sense(&bench.run(&nexus, &[0; 6], &[]), 6, 0x2a, 0x01);
    assert_eq!([0, 1, 2, 3].map(wce), [0; 4]);
    let (cdb, list) = changed(&bench, &nexus, 0x08, 2, 0x04, true);
    let refused = bench.run(&nexus, &cdb, &list);
    assert_sense(&refused, 5, 0x26, 0x00);
    // The administrator's own choice is kept for later, and no initiator sees it now.
    bench.unit().set_write_cache(false);
    bench.unit().set_write_cache(true);
    bench.unit().fix_write_cache(Some(false));
    assert_good(bench.run(&nexus, &[0; 6], &[]));
    bench.unit().fix_write_cache(Some(true));
    assert!(bench.unit().write_cache_enabled());
    assert_sense(&bench.run(&nexus, &[0; 6], &[]), 6, 0x2a, 0x01);
    assert_eq!([0, 1, 2, 3].map(wce), [4, 0, 4, 4]);
    let _ = bench.unit().reset(Reset::LogicalUnit);
    assert_sense(&bench.run(&nexus, &[0; 6], &[]), 6, 0x29, 0x03);
    assert_eq!(wce(0), 4);
    bench.unit().fix_write_cache(None);
    assert_sense(&bench.run(&nexus, &[0; 6], &[]), 6, 0x2a, 0x01);
    assert_eq!([0, 1, 2, 3].map(wce), [4; 4]);
}

#[test]
fn qerr_changes_is_saved_and_keeps_its_reserved_value_out() {
    use scsi::logical_unit::QueueErrorPolicy::{AbortAll, AbortOfNexus, LeaveOthers};
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let byte = |control| page(&bench, &nexus, control, 0x0a)[3];
    assert_eq!((byte(0), byte(1)), (0x10, 0x06), "QAM stays");
    assert_eq!(bench.unit().queue_error_policy(), LeaveOthers);
    let set = |bits: u8, save| {
        let (cdb, list) = changed(&bench, &nexus, 0x0a, 3, bits, save);
        bench.run(&nexus, &cdb, &list)
    };
    assert_good(set(0x02, true));
    assert_eq!(bench.unit().queue_error_policy(), AbortAll);
    assert_good(set(0x04, false));
    assert_eq!(bench.unit().queue_error_policy(), AbortOfNexus);
    assert_eq!((byte(0), byte(2), byte(3)), (0x16, 0x10, 0x12));
    let reserved = set(0x02, false);
    assert_sense(&reserved, 5, 0x26, 0x00);
    assert_eq!(reserved.sense[15..18], [0x80, 0, 7]);
    // Saved values outlive a reset and a restart.
    let _ = bench.unit().reset(Reset::LogicalUnit);
    assert_eq!(bench.unit().queue_error_policy(), AbortAll);
    let restarted = Harness::new(config());
    let saved = bench.saved.borrow().clone().expect("saved");
    restarted.unit().restore(&saved).expect("its own image");
    assert_eq!(restarted.unit().queue_error_policy(), AbortAll);
}

#[test]
fn tst_changes_is_saved_told_and_keeps_its_reserved_values_out() {
    use scsi::task_set::TaskSetType::{PerNexus, Shared};
    let bench = Harness::new(config());
    let (nexus, other) = (bench.login(1), bench.login(2));
    let byte = |control| page(&bench, &nexus, control, 0x0a)[2];
    assert_eq!((byte(0), byte(2), byte(3)), (0x02, 0x02, 0x02));
    assert_eq!(byte(1), 0xe0 | 0x04, "all of the field and D_SENSE");
    assert_eq!(bench.unit().task_set_type(), Shared);
    let set = |bits: u8, save| {
        let (cdb, list) = changed(&bench, &nexus, 0x0a, 2, bits, save);
        bench.run(&nexus, &cdb, &list)
    };
    for reserved in 0b010..=0b111 {
        let refused = set(reserved << 5, false);
        assert_sense(&refused, 5, 0x26, 0x00);
        assert_eq!(refused.sense[15..18], [0x80, 0, 6], "{reserved:03b}");
    }
    assert_eq!(bench.unit().task_set_type(), Shared);
    assert_good(bench.run(&other, &[0; 6], &[]));
    // The other initiators are told, and only if the value changed.
    assert_good(set(0x20, false));
    assert_eq!(bench.unit().task_set_type(), PerNexus);
    assert_eq!((byte(0), byte(2), byte(3)), (0x22, 0x02, 0x02));
    assert_good(bench.run(&nexus, &[0; 6], &[]));
    assert_sense(&bench.run(&other, &[0; 6], &[]), 6, 0x2a, 0x01);
    assert_good(set(0, false));
    assert_good(bench.run(&other, &[0; 6], &[]));
    // A value that was not saved ends with a reset. A saved one outlives a reset and a restart.
    let _ = bench.unit().reset(Reset::LogicalUnit);
    assert_eq!(bench.unit().task_set_type(), Shared);
    assert_sense(&bench.run(&nexus, &[0; 6], &[]), 6, 0x29, 0x03);
    assert_good(set(0x20, true));
    assert_eq!((byte(0), byte(2), byte(3)), (0x22, 0x02, 0x22));
    assert_good(set(0x20, false));
    assert_eq!(bench.unit().task_set_type(), Shared);
    let _ = bench.unit().reset(Reset::LogicalUnit);
    assert_eq!(bench.unit().task_set_type(), PerNexus);
    let restarted = Harness::new(config());
    let saved = bench.saved.borrow().clone().expect("saved");
    restarted.unit().restore(&saved).expect("its own image");
    assert_eq!(restarted.unit().task_set_type(), PerNexus);
}

#[test]
fn tst_that_could_not_be_saved_is_taken_back() {
    use scsi::task_set::TaskSetType::Shared;
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let (cdb, list) = changed(&bench, &nexus, 0x0a, 2, 0x20, true);
    bench.disk().fail.set(Some(BlockError::Gone));
    assert_sense(&bench.run(&nexus, &cdb, &list), 4, 0x44, 0x00);
    assert_eq!(bench.unit().task_set_type(), Shared);
    assert_eq!(page(&bench, &nexus, 3, 0x0a)[2], 0x02);
}

#[test]
fn with_a_task_set_for_each_nexus_qerr_01b_reaches_its_own_only() {
    use scsi::logical_unit::QueueErrorPolicy::{AbortAll, AbortOfNexus, LeaveOthers};
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let set = |at, bits: u8| {
        let (cdb, list) = changed(&bench, &nexus, 0x0a, at, bits, false);
        assert_good(bench.run(&nexus, &cdb, &list));
        bench.unit().queue_error_policy()
    };
    assert_eq!(set(2, 0x20), LeaveOthers);
    assert_eq!(set(3, 0x02), AbortOfNexus);
    assert_eq!(set(3, 0x04), AbortOfNexus);
    assert_eq!(set(2, 0x20), AbortOfNexus);
    assert_eq!(set(3, 0x04), AbortAll);
}
