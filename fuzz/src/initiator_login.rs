//! Initiator's side of LOGIN. Any sequence of responses ends in bounded time, every request is one
//! whole PDU, and no secret is sent. An initiator that wants the target to prove itself is never
//! connected without the proof.
//!
//! Input: one byte that chooses the settings, then responses: a header of 48 bytes and the data
//! segment that it announces (or the rest of the input).

use iscsi::chap::{ChapCredential, Entropy};
use iscsi::initiator::{Login, LoginProgress, LoginSettings};
use iscsi::pdu::{BHS_LENGTH, Bhs, Isid, LoginRequest, RawBhs, padded};

use crate::input::Bytes;

const SECRET: &[u8] = b"a secret of some length";
/// Most responses that a login may take before it is over.
const MOST: u32 = 65;
/// Longest data segment that is accepted before another length was declared.
const MAX_DATA: usize = 8192;

/// Entropy without surprises, because runs must be repeatable.
struct Counter(u64);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = (self.0 >> 56) as u8;
        }
    }
}

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let kind = bytes.u8();
    let credential = |name: &str| ChapCredential {
        name: name.into(),
        secret: SECRET.to_vec(),
    };
    let (has_credential, is_mutual) = (kind & 3 != 0, kind & 3 == 3);
    let target = (kind & 4 == 0).then(|| "iqn.2026-01.org.example:disk".to_owned());
    let isid = Isid([0x80, 0, 0, 0, 0, 1]);
    let mut settings = LoginSettings::new("iqn.2026-01.org.example:host", target, isid);
    settings.credential = has_credential.then(|| credential("host"));
    settings.target_credential = is_mutual.then(|| credential("target"));
    let (mut login, first) = Login::start(settings);
    check(&first);
    let mut entropy = Counter(1);
    for response in 0.. {
        if bytes.is_empty() {
            return;
        }
        assert!(response <= MOST, "a login without end");
        let bhs: RawBhs = bytes.array();
        let segment = bytes.take(Bhs::new(&bhs).data_segment_length().min(MAX_DATA));
        bytes.take(padded(segment.len()) - segment.len());
        match login.receive(&bhs, segment, &mut entropy) {
            Ok(LoginProgress::Send(request)) => check(&request),
            Ok(LoginProgress::Connected(login)) => {
                assert!(!is_mutual, "connected to a target that proved nothing");
                let connection = &login.connection;
                assert!(connection.peer_max_recv_data_segment_length >= 512);
                assert!(login.session.first_burst_length <= login.session.max_burst_length);
                return;
            }
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
    }
}

/// Checks that a request is one whole PDU that gives no secret away.
fn check(pdu: &[u8]) {
    let Some(raw) = pdu.first_chunk::<BHS_LENGTH>() else {
        panic!("a request of {} bytes", pdu.len())
    };
    let Ok(header) = LoginRequest::parse(raw) else {
        panic!("not a login request: {raw:02x?}")
    };
    let length = header.data_segment_length as usize;
    assert_eq!(pdu.len(), BHS_LENGTH + padded(length));
    assert!(length <= MAX_DATA);
    let gives_away = |part: &[u8]| part == SECRET;
    assert!(!pdu.windows(SECRET.len()).any(gives_away), "the secret");
}
