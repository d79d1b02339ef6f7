//! Tests of properties of every PDU type: encoded PDUs are parsed back, no bytes make a parser
//! panic, and the fields lie where RFC 7143 draws them.

use proptest::prelude::*;

use super::*;

/// Encodes, parses, compares, and checks the fields that all headers share.
macro_rules! round_trip {
    ($name:ident, $type:ident, $opcode:ident, [$($arg:ident : $strategy:expr),+] => $make:expr) => {
        proptest! {
            #[test]
            fn $name($($arg in $strategy),+) {
                let pdu: $type = $make;
                let mut raw = [0xa5; BHS_LENGTH];
                pdu.encode(&mut raw);
                prop_assert_eq!($type::parse(&raw), Ok(pdu));
                prop_assert_eq!(Bhs::new(&raw).opcode(), Ok(Opcode::$opcode));
                let mut other = raw;
                other[0] ^= 1;
                let refused = matches!($type::parse(&other), Err(PduError::WrongOpcode { .. }));
                prop_assert!(refused);
            }
        }
    };
}

fn length() -> impl Strategy<Value = u32> {
    0..=MAX_DATA_SEGMENT_LENGTH
}

fn words<const N: usize>() -> impl Strategy<Value = [u32; N]> {
    any::<[u32; N]>()
}

fn attribute() -> impl Strategy<Value = TaskAttribute> {
    (0u8..5).prop_map(|code| TaskAttribute::from_code(code).unwrap())
}

round_trip!(scsi_command, ScsiCommand, ScsiCommand, [b: any::<[bool; 4]>(), a: attribute(), ahs: any::<u8>(), l: length(), lun: any::<u64>(), w: words::<4>(), cdb: any::<[u8; 16]>()] => ScsiCommand {
    immediate: b[0], is_final: b[1], read: b[2], write: b[3], attribute: a, total_ahs_length: ahs,
    data_segment_length: l, lun, itt: w[0], expected_data_transfer_length: w[1], cmd_sn: w[2], exp_stat_sn: w[3], cdb,
});
round_trip!(scsi_response, ScsiResponse, ScsiResponse, [b: any::<[bool; 4]>(), c: any::<[u8; 2]>(), l: length(), w: words::<8>()] => ScsiResponse {
    bidirectional_read_overflow: b[0], bidirectional_read_underflow: b[1], overflow: b[2], underflow: b[3],
    response: ServiceResponse::from_code(c[0]), status: c[1], data_segment_length: l, itt: w[0], snack_tag: w[1],
    stat_sn: w[2], exp_cmd_sn: w[3], max_cmd_sn: w[4], exp_data_sn: w[5], bidirectional_read_residual_count: w[6], residual_count: w[7],
});
round_trip!(data_out, DataOut, DataOut, [f: any::<bool>(), l: length(), lun: any::<u64>(), w: words::<5>()] => DataOut {
    is_final: f, data_segment_length: l, lun, itt: w[0], ttt: w[1], exp_stat_sn: w[2], data_sn: w[3], buffer_offset: w[4],
});
round_trip!(data_in, DataIn, DataIn, [b: any::<[bool; 5]>(), status: any::<u8>(), l: length(), lun: any::<u64>(), w: words::<8>()] => DataIn {
    is_final: b[0], acknowledge: b[1], overflow: b[2], underflow: b[3], status_present: b[4], status,
    data_segment_length: l, lun, itt: w[0], ttt: w[1], stat_sn: w[2], exp_cmd_sn: w[3], max_cmd_sn: w[4],
    data_sn: w[5], buffer_offset: w[6], residual_count: w[7],
});
round_trip!(r2t, ReadyToTransfer, ReadyToTransfer, [lun: any::<u64>(), w: words::<8>()] => ReadyToTransfer {
    lun, itt: w[0], ttt: w[1], stat_sn: w[2], exp_cmd_sn: w[3], max_cmd_sn: w[4], r2t_sn: w[5],
    buffer_offset: w[6], desired_data_transfer_length: w[7],
});
round_trip!(text_request, TextRequest, TextRequest, [b: any::<[bool; 3]>(), l: length(), lun: any::<u64>(), w: words::<4>()] => TextRequest {
    immediate: b[0], is_final: b[1], continues: b[2], data_segment_length: l, lun, itt: w[0], ttt: w[1], cmd_sn: w[2], exp_stat_sn: w[3],
});
round_trip!(text_response, TextResponse, TextResponse, [b: any::<[bool; 2]>(), l: length(), lun: any::<u64>(), w: words::<5>()] => TextResponse {
    is_final: b[0], continues: b[1], data_segment_length: l, lun, itt: w[0], ttt: w[1], stat_sn: w[2], exp_cmd_sn: w[3], max_cmd_sn: w[4],
});
round_trip!(task_management_request, TaskManagementRequest, TaskManagementRequest, [i: any::<bool>(), f: 0u8..128, ahs: any::<u8>(), l: length(), lun: any::<u64>(), w: words::<6>()] => TaskManagementRequest {
    immediate: i, function: TaskManagementFunction::from_code(f), total_ahs_length: ahs, data_segment_length: l, lun,
    itt: w[0], referenced_task_tag: w[1], cmd_sn: w[2], exp_stat_sn: w[3], ref_cmd_sn: w[4], exp_data_sn: w[5],
});
round_trip!(task_management_response, TaskManagementResponse, TaskManagementResponse, [r: any::<u8>(), info: any::<[u8; 3]>(), w: words::<4>()] => TaskManagementResponse {
    response: TaskManagementResult::from_code(r), additional_response_information: info,
    itt: w[0], stat_sn: w[1], exp_cmd_sn: w[2], max_cmd_sn: w[3],
});
round_trip!(nop_out, NopOut, NopOut, [i: any::<bool>(), l: length(), lun: any::<u64>(), w: words::<4>()] => NopOut {
    immediate: i, data_segment_length: l, lun, itt: w[0], ttt: w[1], cmd_sn: w[2], exp_stat_sn: w[3],
});
round_trip!(nop_in, NopIn, NopIn, [l: length(), lun: any::<u64>(), w: words::<5>()] => NopIn {
    data_segment_length: l, lun, itt: w[0], ttt: w[1], stat_sn: w[2], exp_cmd_sn: w[3], max_cmd_sn: w[4],
});
round_trip!(logout_request, LogoutRequest, LogoutRequest, [i: any::<bool>(), r: 0u8..128, cid: any::<u16>(), w: words::<3>()] => LogoutRequest {
    immediate: i, reason: LogoutReason::from_code(r), itt: w[0], cid, cmd_sn: w[1], exp_stat_sn: w[2],
});
round_trip!(logout_response, LogoutResponse, LogoutResponse, [r: any::<u8>(), t: any::<[u16; 2]>(), w: words::<4>()] => LogoutResponse {
    response: LogoutResult::from_code(r), itt: w[0], stat_sn: w[1], exp_cmd_sn: w[2], max_cmd_sn: w[3], time2wait_s: t[0], time2retain_s: t[1],
});
round_trip!(async_message, AsyncMessage, AsyncMessage, [l: length(), lun: any::<u64>(), c: any::<[u8; 2]>(), p: any::<[u16; 3]>(), w: words::<3>()] => AsyncMessage {
    data_segment_length: l, lun, stat_sn: w[0], exp_cmd_sn: w[1], max_cmd_sn: w[2], async_event: AsyncEvent::from_code(c[0]),
    async_vcode: c[1], parameter1: p[0], parameter2: p[1], parameter3: p[2],
});
round_trip!(reject, Reject, Reject, [r: any::<u8>(), l: length(), w: words::<4>()] => Reject {
    reason: RejectReason::from_code(r), data_segment_length: l, stat_sn: w[0], exp_cmd_sn: w[1], max_cmd_sn: w[2], data_sn: w[3],
});
round_trip!(snack, SnackRequest, SnackRequest, [t: 0u8..16, lun: any::<u64>(), w: words::<5>()] => SnackRequest {
    snack_type: SnackType::from_code(t), lun, itt: w[0], ttt_or_snack_tag: w[1], exp_stat_sn: w[2], beg_run: w[3], run_length: w[4],
});
round_trip!(login_request, LoginRequest, LoginRequest, [b: any::<[bool; 3]>(), s: [0u8..4, 0u8..4], v: any::<[u8; 3]>(), l: length(), isid: any::<[u8; 6]>(), h: any::<[u16; 2]>(), w: words::<3>()] => LoginRequest {
    immediate: b[0], transit: b[1], continues: b[2], csg: s[0], nsg: s[1], version_max: v[0], version_min: v[1], total_ahs_length: v[2],
    data_segment_length: l, isid: Isid(isid), tsih: h[0], itt: w[0], cid: h[1], cmd_sn: w[1], exp_stat_sn: w[2],
});
round_trip!(login_response, LoginResponse, LoginResponse, [b: any::<[bool; 2]>(), s: [0u8..4, 0u8..4], v: any::<[u8; 2]>(), l: length(), isid: any::<[u8; 6]>(), h: any::<[u16; 2]>(), w: words::<4>()] => LoginResponse {
    transit: b[0], continues: b[1], csg: s[0], nsg: s[1], version_max: v[0], version_active: v[1], data_segment_length: l,
    isid: Isid(isid), tsih: h[0], itt: w[0], stat_sn: w[1], exp_cmd_sn: w[2], max_cmd_sn: w[3], status: LoginStatus(h[1]),
});

/// Runs every parser on the bytes, and returns the number that accepted them.
fn parse_all(raw: &RawBhs) -> usize {
    [
        ScsiCommand::parse(raw).is_ok(),
        ScsiResponse::parse(raw).is_ok(),
        DataOut::parse(raw).is_ok(),
        DataIn::parse(raw).is_ok(),
        ReadyToTransfer::parse(raw).is_ok(),
        TextRequest::parse(raw).is_ok(),
        TextResponse::parse(raw).is_ok(),
        TaskManagementRequest::parse(raw).is_ok(),
        TaskManagementResponse::parse(raw).is_ok(),
        NopOut::parse(raw).is_ok(),
        NopIn::parse(raw).is_ok(),
        LogoutRequest::parse(raw).is_ok(),
        LogoutResponse::parse(raw).is_ok(),
        AsyncMessage::parse(raw).is_ok(),
        Reject::parse(raw).is_ok(),
        SnackRequest::parse(raw).is_ok(),
        LoginRequest::parse(raw).is_ok(),
        LoginResponse::parse(raw).is_ok(),
    ]
    .into_iter()
    .filter(|ok| *ok)
    .count()
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(head: [u8; 32], tail: [u8; 16], ahs: Vec<u8>) {
        let mut raw = [0; BHS_LENGTH];
        raw[..32].copy_from_slice(&head);
        raw[32..].copy_from_slice(&tail);
        let bhs = Bhs::new(&raw);
        let accepted = parse_all(&raw);
        prop_assert!(accepted <= 1, "opcodes are distinct");
        if bhs.opcode().is_err() { prop_assert_eq!(accepted, 0); }
        prop_assert!(bhs.pdu_length(true, true) <= 48 + 1020 + 4 + (1 << 24) + 4);
        let segments = AhsIter::new(&ahs).count();
        prop_assert!(segments <= ahs.len() / 3 + 1);
    }

    #[test]
    fn ahs_round_trip(cdb in proptest::collection::vec(any::<u8>(), 1..240), read: u32, odd in proptest::collection::vec(any::<u8>(), 1..20)) {
        let list = [Ahs::ExtendedCdb(&cdb), Ahs::BidirectionalReadLength(read), Ahs::Unknown { ahs_type: 0x2a, content: &odd }];
        let mut bytes = Vec::new();
        for ahs in &list { prop_assert!(ahs.encode(&mut bytes)); }
        prop_assert_eq!(bytes.len() % 4, 0);
        let parsed: Result<Vec<_>, _> = AhsIter::new(&bytes).collect();
        prop_assert_eq!(parsed.unwrap(), list.to_vec());
        // If the bytes are cut anywhere inside the last segment, the walk ends with an error and
        // not with a guess.
        let cut = AhsIter::new(&bytes[..bytes.len() - 1]).last().unwrap();
        prop_assert_eq!(cut, Err(PduError::TruncatedAhs));
    }
}

#[test]
fn a_read_10_lies_where_the_rfc_draws_it() {
    let command = ScsiCommand {
        immediate: false,
        is_final: true,
        read: true,
        write: false,
        attribute: TaskAttribute::Simple,
        total_ahs_length: 0,
        data_segment_length: 0,
        lun: 0x0001_0000_0000_0000,
        itt: 0x0102_0304,
        expected_data_transfer_length: 4096,
        cmd_sn: 7,
        exp_stat_sn: 9,
        cdb: [0x28, 0, 0, 0, 0, 8, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0],
    };
    let mut raw = [0; 48];
    command.encode(&mut raw);
    let expected = [
        0x01, 0xc1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0x10, 0, 0, 0, 0,
        7, 0, 0, 0, 9, 0x28, 0, 0, 0, 0, 8, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(raw, expected);
}

#[test]
fn reserved_task_attributes_are_refused() {
    let mut raw = [0; 48];
    raw[0] = 0x01;
    for code in 5..8 {
        raw[1] = code;
        assert_eq!(ScsiCommand::parse(&raw), Err(PduError::Invalid("ATTR")));
    }
}

#[test]
fn immediate_bit_is_not_part_of_the_opcode() {
    let mut raw = [0; 48];
    raw[0] = 0x43;
    assert_eq!(Bhs::new(&raw).opcode(), Ok(Opcode::LoginRequest));
    assert!(Bhs::new(&raw).immediate());
    assert_eq!(Opcode::from_byte(0x07), None);
}

#[test]
fn sense_length_that_lies_yields_what_is_there() {
    assert_eq!(
        scsi_response::sense_data(&[0, 2, 0x70, 0, 9, 9]),
        &[0x70, 0]
    );
    assert_eq!(scsi_response::sense_data(&[0xff, 0xff, 0x70]), &[0x70]);
    assert_eq!(scsi_response::sense_data(&[0]), &[] as &[u8]);
}
