//! Each code of the table with its reaction, and both encodings as the device server writes them.

use proptest::prelude::*;

use super::super::target_port_groups::AccessState as State;
use super::*;
use crate::sense::SenseFormat;
use crate::{Asc, Sense, SenseKey};

fn reaction(key: u8, asc: u8, ascq: u8) -> Reaction {
    SenseCode {
        key,
        asc,
        ascq,
        information: None,
        deferred: false,
    }
    .reaction()
}

#[test]
fn every_code_has_its_reaction() {
    use Reaction::*;
    for (key, asc, ascq, expected) in [
        (0x0, 0x00, 0x00, Succeeded),
        (0x1, 0x18, 0x02, Succeeded),
        (0xf, 0x00, 0x00, Succeeded),
        (0x2, 0x04, 0x00, NotReady),
        (0x2, 0x04, 0x01, Later),
        (0x2, 0x04, 0x02, NotReady),
        (0x2, 0x04, 0x07, Later),
        (0x2, 0x04, 0x0a, AccessState(State::Transitioning)),
        (0x2, 0x04, 0x0b, AccessState(State::Standby)),
        (0x2, 0x04, 0x0c, AccessState(State::Unavailable)),
        (0x2, 0x04, 0x12, NotReady),
        (0x2, 0x04, 0x14, Later),
        (0x2, 0x3a, 0x00, NotReady),
        (0x3, 0x11, 0x00, MediumError),
        (0x3, 0x0c, 0x00, MediumError),
        (0x4, 0x44, 0x00, HardwareError),
        (0x5, 0x20, 0x00, IllegalRequest),
        (0x5, 0x21, 0x00, IllegalRequest),
        (0x5, 0x25, 0x00, UnitGone),
        (0x6, 0x29, 0x00, UnitAttention),
        (0x6, 0x29, 0x07, UnitAttention),
        (0x6, 0x2a, 0x01, UnitAttention),
        (0x6, 0x2a, 0x03, ReservationsChanged),
        (0x6, 0x2a, 0x04, ReservationsChanged),
        (0x6, 0x2a, 0x05, ReservationsChanged),
        (0x6, 0x2a, 0x06, AccessStateChanged),
        (0x6, 0x2a, 0x07, AccessStateChanged),
        (0x6, 0x2a, 0x09, CapacityChanged),
        (0x6, 0x3f, 0x03, IdentityChanged),
        (0x6, 0x3f, 0x0e, LunsChanged),
        (0x7, 0x27, 0x00, WriteProtected),
        (0x7, 0x27, 0x07, NoSpace),
        (0xb, 0x00, 0x00, Aborted),
        (0xb, 0x47, 0x03, Aborted),
        (0xe, 0x1d, 0x00, Miscompare),
        (0x8, 0x00, 0x00, Other),
        (0xd, 0x00, 0x00, Other),
    ] {
        assert_eq!(
            reaction(key, asc, ascq),
            expected,
            "{key:x}/{asc:02x}/{ascq:02x}"
        );
    }
}

#[test]
fn a_deferred_error_is_not_taken_for_an_error_of_this_command() {
    let mut bytes = Sense::new(SenseKey::MediumError, Asc::WRITE_ERROR).encode(SenseFormat::Fixed);
    bytes[0] |= 1;
    let code = SenseCode::decode(&bytes).unwrap();
    assert!(code.deferred);
    // No repetition of this command repairs the data that an earlier command lost.
    assert_eq!(code.reaction(), Reaction::MediumError);
    assert!(code.tells_of_lost_writes(false));
}

#[test]
fn a_failed_flush_tells_of_lost_writes_and_one_that_was_not_performed_does_not() {
    let tells = |key, asc, ascq, is_flush| {
        let bytes = [0x72, key, asc, ascq, 0, 0, 0, 0];
        let code = SenseCode::decode(&bytes).unwrap();
        code.tells_of_lost_writes(is_flush)
    };
    assert!(tells(0x2, 0x08, 0x00, true));
    assert!(tells(0x3, 0x0c, 0x00, true));
    assert!(tells(0x4, 0x44, 0x00, true));
    assert!(!tells(0x3, 0x11, 0x00, false), "a read's own error");
    assert!(!tells(0x2, 0x04, 0x01, true), "becoming ready");
    assert!(!tells(0x6, 0x29, 0x00, true), "a unit attention");
    assert!(!tells(0x5, 0x20, 0x00, true), "unknown to the unit");
}

#[test]
fn what_the_device_server_encodes_is_read_back_in_both_formats() {
    let sense = Sense::new(SenseKey::MediumError, Asc::UNRECOVERED_READ_ERROR)
        .with_information(0x1234_5678);
    for format in [SenseFormat::Fixed, SenseFormat::Descriptor] {
        let code = SenseCode::decode(&sense.encode(format)).unwrap();
        assert_eq!(
            code,
            SenseCode {
                key: 3,
                asc: 0x11,
                ascq: 0,
                information: Some(0x1234_5678),
                deferred: false
            }
        );
        assert_eq!(code.to_string(), "MEDIUM ERROR 3/11/00");
    }
}

#[test]
fn sense_cut_short_after_the_key_is_still_an_answer() {
    let code = SenseCode::decode(&[0x70, 0, 0x06]).unwrap();
    assert_eq!((code.key, code.asc, code.information), (6, 0, None));
    assert_eq!(SenseCode::decode(&[0x72, 0x05]).unwrap().key, 5);
    assert_eq!(SenseCode::decode(&[0x70, 0]), None);
    assert_eq!(SenseCode::decode(&[]), None);
    assert_eq!(SenseCode::decode(&[0x7f, 0, 6, 0]), None);
}

#[test]
fn codes_beyond_the_additional_length_do_not_count() {
    let mut bytes = [0; 18];
    bytes[0] = 0x70;
    bytes[2] = 5;
    bytes[7] = 4;
    bytes[12] = 0x25;
    assert_eq!(
        SenseCode::decode(&bytes).unwrap().reaction(),
        Reaction::IllegalRequest
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Some(code) = SenseCode::decode(&bytes) {
            let _ = (code.reaction(), code.to_string());
        }
    }
}
