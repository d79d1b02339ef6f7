//! Tests of attack 11: a hostile target. Whatever it sends, our initiator does not panic, and
//! touches no bytes outside a command's data. It ends no command twice, and does not go on asking
//! for ever.

use std::collections::HashMap;

use crate::login_harness::{Counter, credential};
use iscsi::initiator::{
    Command, CommandEnd, Direction, LoggedIn, Login, LoginError, LoginProgress, LoginSettings,
    Session, SessionError, SessionEvent, SessionUser, StreamError,
};
use iscsi::negotiation::{ConnectionParameters, SessionParameters};
use iscsi::pdu::{
    BHS_LENGTH, DataIn, Isid, LoginResponse, LoginStatus, NopIn, RESERVED_TAG, RawBhs,
    ReadyToTransfer, Reject, RejectReason, ScsiCommand, ScsiResponse, ServiceResponse,
    TaskAttribute, TextResponse, padded,
};
use proptest::prelude::*;

const READ: u64 = 1;
const WRITE: u64 = 2;
const LENGTH: u32 = 4096;

#[derive(Default)]
struct User {
    ended: HashMap<u64, usize>,
    rejected: usize,
    events: Vec<SessionEvent>,
}

impl SessionUser for User {
    fn data_out(&mut self, cookie: u64, offset: u32, length: u32, out: &mut Vec<u8>) {
        assert!(cookie == WRITE && offset.checked_add(length).unwrap() <= LENGTH);
        out.resize(out.len() + length as usize, 0x55);
    }

    fn data_in(&mut self, cookie: u64, offset: u32, bytes: &[u8]) {
        assert!(cookie == READ && offset.checked_add(bytes.len() as u32).unwrap() <= LENGTH);
    }

    fn ended(&mut self, cookie: u64, end: CommandEnd<'_>) {
        let times = self.ended.entry(cookie).or_default();
        *times += 1;
        assert_eq!(*times, 1, "a command ends once");
        self.rejected += usize::from(matches!(end, CommandEnd::Rejected(_)));
    }

    fn event(&mut self, event: SessionEvent) {
        self.events.push(event);
    }
}

/// Session with one read and one write outstanding.
struct Victim {
    session: Session,
    user: User,
    read: u32,
    write: u32,
}

fn command(direction: Direction) -> Command {
    Command {
        lun: 0,
        cdb: [0; 16],
        attribute: TaskAttribute::Simple,
        direction,
        length: LENGTH,
    }
}

impl Victim {
    fn new() -> Self {
        let mut session = Session::new(&LoggedIn {
            tsih: 1,
            isid: Isid::default(),
            cid: 0,
            portal_group_tag: None,
            target_alias: None,
            session: SessionParameters {
                max_burst_length: 2048,
                immediate_data: false,
                ..SessionParameters::default()
            },
            connection: ConnectionParameters::default(),
            cmd_sn: 1,
            max_cmd_sn: 10,
            exp_stat_sn: 1,
        });
        let (mut user, mut out) = (User::default(), Vec::new());
        session.command(READ, &command(Direction::Read), &mut user, &mut out);
        session.command(WRITE, &command(Direction::Write), &mut user, &mut out);
        let tag = |at: usize| {
            let bhs: &RawBhs = out[at..].first_chunk().unwrap();
            ScsiCommand::parse(bhs).unwrap().itt
        };
        let (read, write) = (tag(0), tag(BHS_LENGTH));
        Self {
            session,
            user,
            read,
            write,
        }
    }

    fn take(&mut self, bhs: RawBhs, data: &[u8]) -> Result<Vec<u8>, SessionError> {
        let mut pdu = bhs.to_vec();
        pdu[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        pdu.extend_from_slice(data);
        pdu.resize(BHS_LENGTH + padded(data.len()), 0);
        let mut out = Vec::new();
        self.session.receive(&pdu, &mut self.user, &mut out)?;
        Ok(out)
    }

    fn data_in(&self) -> DataIn {
        DataIn {
            is_final: true,
            acknowledge: false,
            overflow: false,
            underflow: false,
            status_present: false,
            status: 0,
            data_segment_length: 0,
            lun: 0,
            itt: self.read,
            ttt: RESERVED_TAG,
            stat_sn: 1,
            exp_cmd_sn: 3,
            max_cmd_sn: 10,
            data_sn: 0,
            buffer_offset: 0,
            residual_count: 0,
        }
    }

    fn r2t(&self) -> ReadyToTransfer {
        ReadyToTransfer {
            lun: 0,
            itt: self.write,
            ttt: 7,
            stat_sn: 1,
            exp_cmd_sn: 3,
            max_cmd_sn: 10,
            r2t_sn: 0,
            buffer_offset: 0,
            desired_data_transfer_length: 2048,
        }
    }

    fn response(&self, itt: u32) -> ScsiResponse {
        ScsiResponse {
            bidirectional_read_overflow: false,
            bidirectional_read_underflow: false,
            overflow: false,
            underflow: false,
            response: ServiceResponse::Completed,
            status: 0,
            data_segment_length: 0,
            itt,
            snack_tag: 0,
            stat_sn: 1,
            exp_cmd_sn: 3,
            max_cmd_sn: 10,
            exp_data_sn: 0,
            bidirectional_read_residual_count: 0,
            residual_count: 0,
        }
    }
}

macro_rules! raw {
    ($pdu:expr) => {{
        let mut raw = [0; BHS_LENGTH];
        $pdu.encode(&mut raw);
        raw
    }};
}

#[track_caller]
fn protocol_error(result: Result<Vec<u8>, SessionError>) {
    assert!(
        matches!(result, Err(SessionError::Protocol(_))),
        "{result:?}"
    );
}

#[test]
fn data_in_stays_within_the_command() {
    let check = |change: fn(&mut DataIn, &Victim), length: usize| {
        let mut victim = Victim::new();
        let mut header = victim.data_in();
        change(&mut header, &victim);
        victim.take(raw!(header), &vec![0; length])
    };
    assert!(check(|_, _| {}, 4096).is_ok());
    protocol_error(check(|_, _| {}, 4097));
    protocol_error(check(|h, _| h.buffer_offset = 4095, 2));
    protocol_error(check(|h, _| h.buffer_offset = u32::MAX, 4));
    protocol_error(check(|h, _| h.data_sn = 1, 4));
    protocol_error(check(|h, v| h.itt = v.write, 4));
    protocol_error(check(|h, _| h.itt = 77, 4));
    protocol_error(check(|h, v| h.itt = v.read + 0x1_0000, 4));
    protocol_error(check(|h, _| (h.status_present, h.stat_sn) = (true, 2), 4));
    protocol_error(check(
        |h, _| (h.status_present, h.underflow, h.residual_count) = (true, true, 4097),
        4,
    ));
    protocol_error(check(
        |h, _| (h.status_present, h.underflow, h.overflow) = (true, true, true),
        4,
    ));
}

#[test]
fn a_command_with_an_impossible_end_is_given_back() {
    let mut victim = Victim::new();
    let header = DataIn {
        status_present: true,
        underflow: true,
        residual_count: 4097,
        ..victim.data_in()
    };
    protocol_error(victim.take(raw!(header), &[]));
    assert_eq!(victim.session.abandon(), [READ, WRITE]);
    let mut victim = Victim::new();
    let response = ScsiResponse {
        overflow: true,
        underflow: true,
        ..victim.response(victim.write)
    };
    protocol_error(victim.take(raw!(response), &[]));
    assert_eq!(victim.session.abandon(), [READ, WRITE]);
}

#[test]
fn r2t_gets_only_the_commands_data() {
    let check = |change: fn(&mut ReadyToTransfer, &Victim)| {
        let mut victim = Victim::new();
        let mut header = victim.r2t();
        change(&mut header, &victim);
        victim.take(raw!(header), &[])
    };
    assert_eq!(check(|_, _| {}).unwrap().len(), BHS_LENGTH + 2048);
    protocol_error(check(|h, _| h.desired_data_transfer_length = 0));
    protocol_error(check(|h, _| h.desired_data_transfer_length = 2049));
    protocol_error(check(|h, _| h.buffer_offset = 2049));
    protocol_error(check(|h, _| h.buffer_offset = u32::MAX));
    protocol_error(check(|h, _| h.r2t_sn = 1));
    protocol_error(check(|h, _| h.ttt = RESERVED_TAG));
    protocol_error(check(|h, v| h.itt = v.read));
    protocol_error(check(|h, _| h.itt = RESERVED_TAG));
}

#[test]
fn what_r2ts_ask_for_adds_up_to_the_commands_data_at_most() {
    let mut victim = Victim::new();
    for (r2t_sn, expected) in [(0, true), (1, true), (2, false)] {
        let header = ReadyToTransfer {
            r2t_sn,
            ..victim.r2t()
        };
        let result = victim.take(raw!(header), &[]);
        assert_eq!(result.is_ok(), expected, "{result:?}");
    }
}

#[test]
fn data_in_comes_without_gaps_and_once() {
    for offset in [0, 100, 3000] {
        let mut victim = Victim::new();
        victim.take(raw!(victim.data_in()), &[0; 2048]).unwrap();
        let header = DataIn {
            buffer_offset: offset,
            data_sn: 1,
            ..victim.data_in()
        };
        protocol_error(victim.take(raw!(header), &[0; 512]));
    }
}

#[test]
fn pings_whose_answers_are_never_taken_end_the_session() {
    let ping = NopIn {
        data_segment_length: 0,
        lun: 0,
        itt: RESERVED_TAG,
        ttt: 7,
        stat_sn: 1,
        exp_cmd_sn: 1,
        max_cmd_sn: 10,
    };
    let mut victim = Victim::new();
    for _ in 0..20_000 {
        assert_eq!(victim.take(raw!(ping), &[]).unwrap().len(), BHS_LENGTH);
        victim.session.output_taken();
    }
    let mut answers = 0;
    while victim.take(raw!(ping), &[]).is_ok() {
        answers += 1;
    }
    assert_eq!(answers, 4096);
}

#[test]
fn answers_to_nothing_are_refused() {
    for itt in [0x99, RESERVED_TAG, 0xffff_0000, 0xffff_0001, 0xffff_0002] {
        let mut victim = Victim::new();
        let response = victim.response(itt);
        protocol_error(victim.take(raw!(response), &[]));
    }
    let mut victim = Victim::new();
    let response = victim.response(victim.write);
    victim.take(raw!(response), &[]).unwrap();
    let again = ScsiResponse {
        stat_sn: 2,
        ..response
    };
    protocol_error(victim.take(raw!(again), &[]));
    let nop = NopIn {
        data_segment_length: 0,
        lun: 0,
        itt: 0xffff_0000,
        ttt: 1,
        stat_sn: 1,
        exp_cmd_sn: 3,
        max_cmd_sn: 10,
    };
    protocol_error(Victim::new().take(raw!(nop), &[]));
    let text = TextResponse {
        is_final: true,
        continues: false,
        data_segment_length: 0,
        lun: 0,
        itt: 0xffff_0001,
        ttt: RESERVED_TAG,
        stat_sn: 1,
        exp_cmd_sn: 3,
        max_cmd_sn: 10,
    };
    protocol_error(Victim::new().take(raw!(text), b"A=1\0"));
}

#[test]
fn rejects_with_bogus_contents_end_nothing() {
    let reject = |stat_sn| Reject {
        reason: RejectReason::ProtocolError,
        data_segment_length: 0,
        stat_sn,
        exp_cmd_sn: 3,
        max_cmd_sn: 10,
        data_sn: 0,
    };
    let mut victim = Victim::new();
    let mut header = [0; BHS_LENGTH];
    header[0] = 0x01;
    header[16..20].copy_from_slice(&0x7777_u32.to_be_bytes());
    let bodies: [&[u8]; 4] = [&[], &[1; 47], &[0xff; 48], &header];
    for (stat_sn, body) in bodies.into_iter().enumerate() {
        victim.take(raw!(reject(1 + stat_sn as u32)), body).unwrap();
    }
    assert_eq!((victim.user.ended.len(), victim.user.events.len()), (0, 4));
    // A reject that names a command of ours ends the command, once.
    header[16..20].copy_from_slice(&victim.write.to_be_bytes());
    victim.take(raw!(reject(5)), &header).unwrap();
    victim.take(raw!(reject(6)), &header).unwrap();
    assert_eq!((victim.user.rejected, victim.user.ended.len()), (1, 1));
    assert_eq!(victim.session.outstanding(), 1);
}

#[test]
fn long_data_segments_are_refused_before_they_arrive() {
    let mut victim = Victim::new();
    let mut bhs = raw!(victim.data_in());
    bhs[5..8].copy_from_slice(&[0xff; 3]);
    let result = victim
        .session
        .receive(&bhs, &mut victim.user, &mut Vec::new());
    assert_eq!(result, Err(SessionError::Stream(StreamError::DataTooLong)));
}

#[test]
fn text_that_leads_nowhere_is_cut_off() {
    let mut victim = Victim::new();
    let mut out = Vec::new();
    victim.session.send_targets("All", &mut out);
    let text = TextResponse {
        is_final: false,
        continues: true,
        data_segment_length: 0,
        lun: 0,
        itt: 0xffff_0001,
        ttt: 5,
        stat_sn: 1,
        exp_cmd_sn: 3,
        max_cmd_sn: 10,
    };
    assert_eq!(
        victim.take(raw!(text), b"TargetName=").unwrap().len(),
        BHS_LENGTH
    );
    protocol_error(victim.take(raw!(TextResponse { stat_sn: 2, ..text }), &[]));
}

#[test]
fn a_window_that_shrinks_or_jumps_is_ignored_or_bounded() {
    let mut victim = Victim::new();
    let nop = NopIn {
        data_segment_length: 0,
        lun: 0,
        itt: RESERVED_TAG,
        ttt: RESERVED_TAG,
        stat_sn: 1,
        exp_cmd_sn: 3,
        max_cmd_sn: 2,
    };
    victim.take(raw!(nop), &[]).unwrap();
    let mut out = Vec::new();
    for cookie in 10..30 {
        victim.session.command(
            cookie,
            &command(Direction::None),
            &mut victim.user,
            &mut out,
        );
    }
    // The login allowed CmdSN 1 to 10, of which 1 and 2 are used.
    assert_eq!(
        (victim.session.outstanding(), victim.session.waiting()),
        (10, 12)
    );
    // A window of 2^31 and more is no window.
    victim
        .take(
            raw!(NopIn {
                max_cmd_sn: 3u32.wrapping_add(1 << 31),
                ..nop
            }),
            &[],
        )
        .unwrap();
    assert_eq!(victim.session.outstanding(), 10);
}

fn login_response() -> LoginResponse {
    LoginResponse {
        transit: false,
        continues: false,
        csg: 0,
        nsg: 0,
        version_max: 0,
        version_active: 0,
        data_segment_length: 0,
        isid: Isid::default(),
        tsih: 0,
        itt: 0,
        stat_sn: 0,
        exp_cmd_sn: 1,
        max_cmd_sn: 1,
        status: LoginStatus::SUCCESS,
    }
}

fn login(mutual: bool) -> Login {
    let mut settings = LoginSettings::new(
        "iqn.2026-01.org.example:host",
        Some("iqn.2026-01.org.example:t".into()),
        Isid::default(),
    );
    settings.credential = Some(credential("host", "initiator-secret"));
    settings.target_credential = mutual.then(|| credential("target", "target-secret"));
    Login::start(settings).0
}

/// Tests the place of 7 in the offer: tgt takes the first number that it knows, and takes 7 for
/// SHA-1.
#[test]
fn the_number_that_targets_disagree_on_is_offered_last() {
    let mut login = login(false);
    let LoginProgress::Send(request) = login
        .receive(
            &raw!(login_response()),
            b"AuthMethod=CHAP\0",
            &mut Counter(1),
        )
        .unwrap()
    else {
        panic!("connected without proof");
    };
    let text = String::from_utf8_lossy(&request[BHS_LENGTH..]);
    assert!(text.contains("CHAP_A=8,6,5,7\0"), "{text}");
}

#[test]
fn a_login_that_never_ends_is_ended() {
    for (continues, text) in [(true, &b""[..]), (true, b"a"), (false, b"")] {
        let mut login = login(false);
        login
            .receive(
                &raw!(login_response()),
                b"AuthMethod=None\0",
                &mut Counter(1),
            )
            .unwrap();
        let response = LoginResponse {
            continues,
            ..login_response()
        };
        let answered = (0..10_000)
            .take_while(|_| {
                login
                    .receive(&raw!(response), text, &mut Counter(1))
                    .is_ok()
            })
            .count();
        assert!(answered < 64, "{answered}");
    }
    let mut login = login(false);
    let response = LoginResponse {
        continues: true,
        ..login_response()
    };
    let taken = (0..64)
        .take_while(|_| {
            login
                .receive(&raw!(response), &[b'a'; 8192], &mut Counter(1))
                .is_ok()
        })
        .count();
    assert_eq!(taken * 8192, 64 << 10);
}

#[test]
fn a_target_cannot_skip_its_proof() {
    let transit = LoginResponse {
        transit: true,
        nsg: 1,
        ..login_response()
    };
    let step = |login: &mut Login, header: LoginResponse, text: &str| {
        login.receive(&raw!(header), text.as_bytes(), &mut Counter(1))
    };
    // The cases are: no method, another method, CHAP and goodbye, straight to the end.
    assert!(step(&mut login(true), transit, "").is_err());
    assert!(step(&mut login(true), transit, "AuthMethod=None\0").is_err());
    assert!(step(&mut login(true), transit, "AuthMethod=CHAP\0").is_err());
    assert!(
        step(
            &mut login(false),
            LoginResponse { nsg: 3, ..transit },
            "AuthMethod=None\0"
        )
        .is_err()
    );
    assert!(
        step(
            &mut login(false),
            LoginResponse {
                csg: 1,
                nsg: 3,
                ..transit
            },
            ""
        )
        .is_err()
    );
    let challenge = "CHAP_A=7\0CHAP_I=1\0CHAP_C=0x00112233\0";
    let challenged = |text: &str| {
        let mut login = login(true);
        step(&mut login, login_response(), "AuthMethod=CHAP\0").unwrap();
        step(&mut login, login_response(), text).map(|_| login)
    };
    let proofs = [
        "",
        "CHAP_N=target\0",
        "CHAP_R=0x00\0",
        "CHAP_N=target\0CHAP_R=0x00\0",
    ];
    for proof in proofs {
        assert!(
            step(&mut challenged(challenge).unwrap(), transit, proof).is_err(),
            "{proof}"
        );
    }
    // The challenges are oversized, unknown and missing.
    let huge = format!("CHAP_A=7\0CHAP_I=1\0CHAP_C=0x{}\0", "00".repeat(1025));
    for bad in [
        &huge,
        "CHAP_A=99\0CHAP_I=1\0CHAP_C=0x00\0",
        "CHAP_A=7\0CHAP_I=256\0CHAP_C=0x00\0",
        "CHAP_A=7\0",
    ] {
        assert!(matches!(challenged(bad).unwrap_err(), LoginError::Chap(_)));
    }
}

fn field() -> impl Strategy<Value = u32> {
    prop_oneof![
        0u32..8,
        any::<u32>(),
        Just(RESERVED_TAG),
        Just(LENGTH),
        0xffff_0000u32..=0xffff_ffff
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..10)) {
        let mut victim = Victim::new();
        for chunk in chunks {
            if victim.session.receive(&chunk, &mut victim.user, &mut Vec::new()).is_err() { break; }
        }
    }

    /// Tests well-formed headers with hostile fields. The assertions in `User` hold.
    #[test]
    fn hostile_fields_do_no_harm(pdus in proptest::collection::vec((
        prop_oneof![Just(0x20u8), Just(0x21), Just(0x22), Just(0x24), Just(0x25), Just(0x25), Just(0x26), Just(0x31), Just(0x31), Just(0x32), Just(0x3f)],
        any::<[u8; 3]>(), proptest::array::uniform8(field()), any::<bool>(), 0usize..4200,
    ), 1..20)) {
        let mut victim = Victim::new();
        for (stat_sn, (opcode, flags, words, ours, length)) in (1u32..).zip(pdus) {
            let mut bhs = [0; BHS_LENGTH];
            bhs[0] = opcode;
            bhs[1..4].copy_from_slice(&flags);
            for (i, word) in words.iter().enumerate() {
                bhs[16 + 4 * i..20 + 4 * i].copy_from_slice(&word.to_be_bytes());
            }
            if ours {
                let itt = if opcode == 0x31 { victim.write } else { victim.read };
                bhs[16..20].copy_from_slice(&itt.to_be_bytes());
                bhs[24..28].copy_from_slice(&stat_sn.to_be_bytes());
            }
            let length = if opcode == 0x31 { 0 } else { length };
            if victim.take(bhs, &vec![0; length]).is_err() { break; }
        }
    }

    #[test]
    fn hostile_logins_never_panic(responses in proptest::collection::vec((any::<[u8; 4]>(), 0u8..2, proptest::collection::vec(0usize..10, 0..5), proptest::collection::vec(any::<u8>(), 0..20)), 1..10), mutual: bool) {
        const PAIRS: [&str; 10] = [
            "AuthMethod=CHAP", "AuthMethod=None", "CHAP_A=7", "CHAP_I=1", "CHAP_C=0x0011", "CHAP_N=target", "CHAP_R=0x00",
            "MaxBurstLength=0", "HeaderDigest=CRC32C", "TargetAddress=x",
        ];
        let mut login = login(mutual);
        for (flags, garbage, keys, bytes) in responses {
            let mut bhs = raw!(login_response());
            if garbage == 0 { bhs[1] = flags[0]; bhs[36] = flags[1] & 3; }
            let mut text: Vec<u8> = keys.iter().flat_map(|key| PAIRS[*key].bytes().chain([0])).collect();
            if garbage == 1 { text.extend_from_slice(&bytes); }
            match login.receive(&bhs, &text, &mut Counter(1)) {
                Ok(LoginProgress::Connected(_)) => prop_assert!(!mutual, "a target that proved nothing was believed"),
                Ok(LoginProgress::Send(_)) => {}
                Err(_) => break,
            }
        }
    }
}
