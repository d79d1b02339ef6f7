//! Tests of each lie by its name, and of no false alarm.

use super::*;

const PART: Part = Part {
    start: 8192,
    len: 64 << 10,
};

fn operation(offset: u64, len: u32) -> Operation {
    Operation {
        offset,
        len,
        read: false,
        pause_ms: 0,
    }
}

fn written(verifier: &mut Verifier, offset: u64, len: u32) -> Pages {
    let bytes = verifier.stamp(&operation(offset, len));
    verifier.written(&operation(offset, len), true);
    bytes
}

fn only(verifier: &Verifier) -> &WrongContent {
    assert_eq!(verifier.report().mismatches, 1, "{:?}", verifier.report());
    &verifier.report().details[0].found
}

#[test]
fn what_was_written_last_is_right() {
    for block in [512, 4096] {
        let mut verifier = Verifier::new(PART, block, 1);
        written(&mut verifier, 8192, 16_384);
        let bytes = written(&mut verifier, 8192, 16_384);
        verifier.check(8192, &bytes);
        verifier.check(12_288, &bytes.slice(4096..8192));
        let report = verifier.report();
        assert_eq!(
            (report.mismatches, report.checked),
            (0, 20_480 / u64::from(block))
        );
    }
}

#[test]
fn a_lost_write_is_stale() {
    let mut verifier = Verifier::new(PART, 512, 1);
    let old = written(&mut verifier, 8192, 512);
    written(&mut verifier, 8192, 512);
    verifier.check(8192, &old);
    assert_eq!(only(&verifier), &WrongContent::Stale { generation: 1 });
    let words = verifier.report().details[0].to_string();
    assert_eq!(
        words,
        "LBA 16: expected generation 2, found stale: generation 1"
    );
}

#[test]
fn a_first_write_that_was_lost_leaves_what_was_there() {
    for (there, found) in [
        (vec![0; 512], WrongContent::Zeros),
        (vec![9; 512], WrongContent::Foreign),
    ] {
        let mut verifier = Verifier::new(PART, 512, 1);
        written(&mut verifier, 8192, 512);
        verifier.check(8192, &Pages::from_bytes(&there));
        assert_eq!(only(&verifier), &found);
    }
}

#[test]
fn a_block_from_elsewhere_is_known() {
    let mut verifier = Verifier::new(PART, 512, 1);
    let bytes = written(&mut verifier, 8192, 1024);
    verifier.check(8192, &bytes.slice(512..1024));
    let found = WrongContent::WrongPlace {
        lba: 17,
        generation: 1,
    };
    assert_eq!(only(&verifier), &found);
}

#[test]
fn a_torn_block_is_known() {
    let mut verifier = Verifier::new(PART, 4096, 1);
    let old = written(&mut verifier, 8192, 4096);
    let new = written(&mut verifier, 8192, 4096);
    let torn = [&new.to_vec()[..2048], &old.to_vec()[2048..]].concat();
    verifier.check(8192, &Pages::from_bytes(&torn));
    assert_eq!(only(&verifier), &WrongContent::Torn);
}

#[test]
fn blocks_of_another_run_are_known() {
    let bytes = written(&mut Verifier::new(PART, 512, 1), 8192, 512);
    let mut verifier = Verifier::new(PART, 512, 2);
    written(&mut verifier, 8192, 512);
    verifier.check(8192, &bytes);
    assert_eq!(only(&verifier), &WrongContent::OtherRun);
}

#[test]
fn what_was_never_written_is_not_judged() {
    let mut verifier = Verifier::new(PART, 512, 1);
    verifier.check(8192, &Pages::from_bytes(&[5; 1024]));
    assert_eq!(
        (verifier.report().unknown, verifier.report().mismatches),
        (2, 0)
    );
}

#[test]
fn after_a_failed_write_old_and_new_are_right_until_it_is_written_again() {
    let mut verifier = Verifier::new(PART, 512, 1);
    let first = written(&mut verifier, 8192, 512);
    let second = verifier.stamp(&operation(8192, 512));
    verifier.written(&operation(8192, 512), false);
    verifier.check(8192, &first);
    verifier.check(8192, &second);
    assert_eq!(verifier.report().mismatches, 0);
    let third = written(&mut verifier, 8192, 512);
    verifier.check(8192, &third);
    assert_eq!(verifier.report().mismatches, 0);
    verifier.check(8192, &second);
    assert_eq!(only(&verifier), &WrongContent::Stale { generation: 2 });
}

#[test]
fn what_was_not_compared_at_the_end_is_unread() {
    let mut verifier = Verifier::new(PART, 512, 1);
    let bytes = written(&mut verifier, 8192, 2048);
    verifier.check(8192, &bytes);
    written(&mut verifier, 9216, 512);
    assert_eq!(verifier.report().unread, 4, "it is not the end");
    let bytes = written(&mut verifier, 8192, 1024);
    verifier.begin_read_back();
    verifier.check(8192, &bytes);
    verifier.check(16_384, &Pages::zeroes(512));
    assert_eq!(verifier.report().unread, 2);
    assert!(!verifier.report().is_proof());
}

#[test]
fn only_all_of_it_is_a_proof() {
    let proof = VerifyReport {
        written: 7,
        checked: 7,
        unknown: 1,
        ..VerifyReport::default()
    };
    assert!(proof.is_proof());
    let spoilt: [fn(&mut VerifyReport); 4] = [
        |report| report.mismatches = 1,
        |report| report.unread = 1,
        |report| report.short_reads = 1,
        |report| report.flush_failed = true,
    ];
    for spoil in spoilt {
        let mut report = proof.clone();
        spoil(&mut report);
        assert!(!report.is_proof(), "{report:?}");
        let mut sum = proof.clone();
        sum.add(report);
        assert!(!sum.is_proof(), "{sum:?}");
    }
}

#[test]
fn many_mismatches_are_counted_and_the_first_are_kept() {
    let mut verifier = Verifier::new(PART, 512, 1);
    written(&mut verifier, 8192, 64 << 10);
    verifier.check(8192, &Pages::zeroes(64 << 10));
    assert_eq!(
        (
            verifier.report().mismatches,
            verifier.report().details.len()
        ),
        (128, DETAILED)
    );
}
