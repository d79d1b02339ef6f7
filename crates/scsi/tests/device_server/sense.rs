//! Tests of sense data in both formats, byte for byte.

use scsi::sense::{Asc, FieldPointer, Sense, SenseFormat, SenseKey};

#[test]
fn fixed_format() {
    let sense = Sense::miscompare().with_information(0x1234_5678);
    assert_eq!(
        sense.encode(SenseFormat::Fixed),
        [
            0xf0, 0, 0x0e, 0x12, 0x34, 0x56, 0x78, 10, 0, 0, 0, 0, 0x1d, 0, 0, 0, 0, 0
        ]
    );
    assert_eq!(
        Sense::invalid_bit_in_cdb(0x102, 5).encode(SenseFormat::Fixed)[12..],
        [0x24, 0, 0, 0xcd, 1, 2]
    );
    assert_eq!(
        Sense::invalid_field_in_parameter_list(9).encode(SenseFormat::Fixed)[12..],
        [0x26, 0, 0, 0x80, 0, 9]
    );
}

#[test]
fn a_value_too_large_for_the_fixed_format_is_left_out() {
    let sense = Sense::lba_out_of_range().with_information(1 << 32);
    let fixed = sense.encode(SenseFormat::Fixed);
    assert_eq!((fixed[0], &fixed[3..7]), (0x70, &[0; 4][..]));
    let descriptor = sense.encode(SenseFormat::Descriptor);
    assert_eq!(descriptor[8..20], [0, 10, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn descriptor_format_lists_its_descriptors() {
    let mut sense = Sense::new(SenseKey::CopyAborted, Asc(0x0d, 0x01));
    assert_eq!(
        sense.encode(SenseFormat::Descriptor),
        [0x72, 0x0a, 0x0d, 0x01, 0, 0, 0, 0]
    );
    sense = sense.with_information(1).with_command_specific(2);
    sense.field = Some(FieldPointer {
        in_cdb: false,
        byte: 3,
        bit: None,
    });
    let bytes = sense.encode(SenseFormat::Descriptor);
    assert_eq!(usize::from(bytes[7]) + 8, bytes.len());
    assert_eq!((bytes[8], bytes[20], bytes[32]), (0, 1, 2));
    assert_eq!(bytes[36..39], [0x80, 0, 3]);
}

#[test]
fn progress_is_in_the_sense_key_specific_field() {
    let sense = Sense::not_ready(Asc::SANITIZE_IN_PROGRESS).with_progress(0x8000);
    assert_eq!(sense.encode(SenseFormat::Fixed)[15..], [0x80, 0x80, 0]);
    assert_eq!(
        sense.encode(SenseFormat::Descriptor)[8..],
        [2, 6, 0, 0, 0x80, 0x80, 0, 0]
    );
}
