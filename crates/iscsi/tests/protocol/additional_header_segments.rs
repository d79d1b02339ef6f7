//! Tests of additional header segments: SCSI commands alone have them, of two types and their
//! lengths. Anything else is a format error and ends all connections of the session (RFC 7143 §7.7,
//! §11.2.2).

use std::time::Duration;

use iscsi::pdu::{Ahs, BHS_LENGTH, RawBhs, ScsiResponse};
use iscsi::target::ConnectionError;

use crate::data_out_harness::{Target, command};

/// Builds a PDU of this header and segments.
fn with_ahs(mut bhs: RawBhs, ahs: &[u8]) -> Vec<u8> {
    bhs[4] = (ahs.len() / 4) as u8;
    [&bhs[..], ahs].concat()
}

fn read() -> RawBhs {
    command(0x28, 512, 0, true)
}

#[test]
fn segments_of_illegal_type_or_length_end_the_session() {
    let segments: [&[u8]; 11] = [
        // These types do not exist.
        &[0, 1, 0, 0],
        &[0, 1, 3, 0],
        &[0, 5, 0x3f, 0, 1, 2, 3, 4],
        // One extended CDB has no bytes, and one ends behind its header.
        &[0, 1, 1, 0],
        &[0, 0, 1, 0],
        &[0, 17, 1, 0],
        &[0xff, 0xff, 1, 0],
        // A bidirectional read length must have five bytes, and these have another length.
        &[0, 4, 2, 0, 1, 2, 3, 0],
        &[0, 6, 2, 0, 1, 2, 3, 4, 5, 0, 0, 0],
        // Two segments are of one type, or a right one comes before a wrong one.
        &[0, 5, 2, 0, 1, 2, 3, 4, 0, 5, 2, 0, 1, 2, 3, 4],
        &[0, 2, 1, 0, 9, 0, 0, 0, 0, 1, 9, 0],
    ];
    for ahs in segments {
        let mut target = Target::new(512, true, false);
        let outcome = target.receive(&with_ahs(read(), ahs));
        let Err(why @ ConnectionError::Format(_)) = outcome else {
            panic!("{ahs:02x?}: {outcome:?}");
        };
        assert_eq!(target.router.begun, [], "{ahs:02x?}: nothing is begun");
        assert_eq!(target.sent.len(), 0);
        // The other connection ends, too.
        target.change_connection();
        assert_eq!(target.receive(&[]), Err(why));
        let (one, two) = target.indices();
        let dead = target.session.tick(Duration::ZERO);
        assert_eq!(dead.len(), 2);
        assert!(dead.contains(&(one, why)) && dead.contains(&(two, why)));
    }
}

#[test]
fn pdus_that_are_no_commands_have_no_segments() {
    let mut ahs = Vec::new();
    assert!(Ahs::ExtendedCdb(&[0; 16]).encode(&mut ahs));
    for opcode in [0x00, 0x40, 0x02, 0x42, 0x04, 0x05, 0x06, 0x10] {
        let mut bhs = [0; BHS_LENGTH];
        (bhs[0], bhs[1], bhs[27]) = (opcode, 0x80, 1);
        let mut target = Target::new(512, true, false);
        let outcome = target.receive(&with_ahs(bhs, &ahs));
        assert!(
            matches!(outcome, Err(ConnectionError::Format(_))),
            "{opcode:02x}"
        );
    }
}

#[test]
fn right_segments_are_taken_in_any_order() {
    let (mut long, mut both) = (Vec::new(), Vec::new());
    assert!(Ahs::ExtendedCdb(&[0; 16]).encode(&mut long));
    assert!(Ahs::BidirectionalReadLength(0).encode(&mut both));
    for ahs in [
        &long[..],
        &both,
        &[&long[..], &both].concat(),
        &[&both[..], &long].concat(),
    ] {
        let mut target = Target::new(512, true, false);
        target.receive(&with_ahs(read(), ahs)).unwrap();
        assert_eq!(target.router.begun.len(), 1);
        assert!(ScsiResponse::parse(target.last()).is_ok() || target.sent.len() == 1);
    }
}
