//! Headers and additional header segments. Parsing never panics, and a parsed header keeps its
//! meaning when it is written and read again.
//!
//! Input: 48 bytes of header, then the additional header segments.

use iscsi::pdu::{
    AhsIter, AsyncMessage, BHS_LENGTH, Bhs, DataIn, DataOut, LoginRequest, LoginResponse,
    LogoutRequest, LogoutResponse, NopIn, NopOut, Opcode, RawBhs, ReadyToTransfer, Reject,
    ScsiCommand, ScsiResponse, SnackRequest, TaskManagementRequest, TaskManagementResponse,
    TextRequest, TextResponse, padded,
};

use crate::input::Bytes;

/// Parses the header as the type that it names.
macro_rules! round_trip {
    ($type:ty, $raw:expr) => {
        if let Ok(first) = <$type>::parse($raw) {
            let mut written = [0xa5; BHS_LENGTH];
            first.encode(&mut written);
            assert_eq!(
                <$type>::parse(&written),
                Ok(first),
                "another meaning after writing"
            );
            let mut again = [0x5a; BHS_LENGTH];
            first.encode(&mut again);
            assert_eq!(written, again, "writing depends on what was in the buffer");
        }
    };
}

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let raw: RawBhs = bytes.array();
    let bhs = Bhs::new(&raw);
    let whole = BHS_LENGTH + bhs.total_ahs_length() + padded(bhs.data_segment_length());
    assert_eq!(bhs.pdu_length(false, false), whole);
    if let Ok(opcode) = bhs.opcode() {
        one(opcode, &raw);
    }
    let segments = bytes.take(bhs.total_ahs_length());
    let mut total = 0;
    for segment in AhsIter::new(segments) {
        let Ok(segment) = segment else { break };
        let mut written = Vec::new();
        if segment.encode(&mut written) {
            assert_eq!(AhsIter::new(&written).next(), Some(Ok(segment)));
            total += written.len();
        }
    }
    assert!(total <= segments.len().next_multiple_of(4), "segments grew");
}

fn one(opcode: Opcode, raw: &RawBhs) {
    match opcode {
        Opcode::NopOut => round_trip!(NopOut, raw),
        Opcode::ScsiCommand => round_trip!(ScsiCommand, raw),
        Opcode::TaskManagementRequest => round_trip!(TaskManagementRequest, raw),
        Opcode::LoginRequest => round_trip!(LoginRequest, raw),
        Opcode::TextRequest => round_trip!(TextRequest, raw),
        Opcode::DataOut => round_trip!(DataOut, raw),
        Opcode::LogoutRequest => round_trip!(LogoutRequest, raw),
        Opcode::SnackRequest => round_trip!(SnackRequest, raw),
        Opcode::NopIn => round_trip!(NopIn, raw),
        Opcode::ScsiResponse => round_trip!(ScsiResponse, raw),
        Opcode::TaskManagementResponse => round_trip!(TaskManagementResponse, raw),
        Opcode::LoginResponse => round_trip!(LoginResponse, raw),
        Opcode::TextResponse => round_trip!(TextResponse, raw),
        Opcode::DataIn => round_trip!(DataIn, raw),
        Opcode::LogoutResponse => round_trip!(LogoutResponse, raw),
        Opcode::ReadyToTransfer => round_trip!(ReadyToTransfer, raw),
        Opcode::AsyncMessage => round_trip!(AsyncMessage, raw),
        Opcode::Reject => round_trip!(Reject, raw),
    }
}
