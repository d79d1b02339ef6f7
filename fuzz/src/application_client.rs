//! Answers of a target about its logical units. The probe ends, whatever it is told. The results of
//! the probe and of the other parsers keep within bounds for any bytes, and are fit for a terminal.
//!
//! Input: answers, each a status, the lengths of sense and data in one byte each (data in units of
//! four bytes), and those bytes. The other parsers read the whole input.

use scsi::application_client::identification::Identification;
use scsi::application_client::probe::{Portrait, Probe, ProbeProgress};
use scsi::application_client::sense::SenseCode;
use scsi::application_client::{report_luns, shape, target_port_groups};

use crate::input::Bytes;

/// Most commands of a probe: each is repeated a dozen times at most.
const MOST: u32 = 200;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    probe(data);
    parsers(data);
}

fn probe(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut probe = Probe::default();
    for answer in 0.. {
        assert!(answer <= MOST, "a probe without end");
        let (_, expected) = probe.next();
        let [status, sense, length] = bytes.array();
        let sense = bytes.take(sense.into());
        let data = bytes.take((usize::from(length) * 4).min(expected as usize));
        match probe.answer(status, sense, data) {
            Ok(ProbeProgress::Go { .. }) => {}
            Ok(ProbeProgress::Known(portrait)) => return check(&portrait),
            Err(error) => return printable(&error.to_string()),
        }
    }
}

fn check(portrait: &Portrait) {
    let inquiry = &portrait.inquiry;
    for text in [&inquiry.vendor, &inquiry.model, &inquiry.revision] {
        printable(text);
    }
    for text in portrait.serial.iter().chain(&portrait.identification.name) {
        assert!(!text.is_empty());
        printable(text);
    }
    if let Some(capacity) = portrait.capacity {
        let bytes = capacity.bytes().expect("a size that fits");
        assert!(i64::try_from(bytes).is_ok() && bytes > 0);
        assert!(capacity.block_length.is_power_of_two() && capacity.block_length >= 512);
        assert_eq!(capacity.physical_length % capacity.block_length, 0);
    }
}

fn parsers(data: &[u8]) {
    if let Some(list) = report_luns::parse(data) {
        assert!(list.luns.len() * 8 + 8 <= data.len());
        for lun in list.luns {
            if let Some(number) = report_luns::number(lun) {
                let again = report_luns::number(report_luns::from_number(number));
                assert_eq!(again, Some(number));
            }
        }
    }
    let groups = target_port_groups::parse(data);
    let length = |group: &target_port_groups::TargetPortGroup| 8 + 4 * group.ports.len();
    assert!(groups.iter().map(length).sum::<usize>() <= data.len());
    if let Some(code) = SenseCode::decode(data) {
        let _ = code.reaction();
        printable(&code.to_string());
    }
    if let Some(name) = Identification::parse(data).name {
        printable(&name);
    }
    let start = data.first().copied().map_or(0, u64::from);
    let mut next = start;
    for (blocks, _) in shape::lba_status(data, start) {
        assert!(blocks > 0);
        next = next.checked_add(blocks).expect("runs within 64 bits");
    }
    let _ = shape::BlockLimits::parse(data);
    let _ = shape::write_cache_enabled(data);
}

/// Checks that a device's text about itself is fit for terminals.
fn printable(text: &str) {
    let fit = |c: char| c == ' ' || c.is_ascii_graphic();
    assert!(text.chars().all(fit), "{text:?}");
}
