//! Login state machine of the target. Any sequence of PDUs ends in bounded time, with well-formed
//! responses. Nobody gets in without the proof that the target asks for.
//!
//! Input: one byte that chooses the policy, then PDUs: a header of 48 bytes and the data segment
//! that it announces (or the rest of the input).

use iscsi::chap::{ChapCredential, Entropy};
use iscsi::negotiation::{SessionParameters, TargetLimits};
use iscsi::pdu::{BHS_LENGTH, Bhs, LoginResponse, LoginStatus, RawBhs, padded};
use iscsi::target::login::{
    Authentication, Authorization, ExistingSession, Login, LoginIdentity, LoginOutcome,
    LoginPolicy, LoginResult, LoginTerms, MAX_DATA_SEGMENT, MAX_REQUESTS,
};
use iscsi::text_keys::TextPairs;

use crate::input::Bytes;

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

struct Policy {
    authorization: Authorization,
    session: Option<ExistingSession>,
    admitted: u32,
}

impl Policy {
    /// Chooses a policy by the low three bits. Bit 3: a session exists that can be joined.
    fn choose(kind: u8) -> Self {
        let credential = |name: &str| ChapCredential {
            name: name.into(),
            secret: "a secret of some length".into(),
        };
        let allowed = |authentication| {
            Authorization::Allowed(LoginTerms {
                authentication,
                limits: TargetLimits::default(),
                portal_group_tag: 1,
                target_alias: "a disk".into(),
                command_window: 128,
            })
        };
        let chap = |target| Authentication::Chap {
            initiator: credential("host"),
            target,
        };
        let authorization = match kind & 7 {
            0 | 1 => allowed(Authentication::None),
            2 | 3 => allowed(chap(None)),
            4 => allowed(chap(Some(credential("target")))),
            5 => Authorization::Redirect {
                address: "[::1]:3260,1".into(),
                permanent: false,
            },
            6 => Authorization::Redirect {
                address: "192.0.2.1:3260".into(),
                permanent: true,
            },
            _ => Authorization::Refused {
                status: LoginStatus::NOT_FOUND,
                reason: String::new(),
            },
        };
        let session = (kind & 8 != 0).then(|| ExistingSession {
            parameters: SessionParameters::default(),
            connections: 1,
            has_cid: false,
            exp_cmd_sn: 5,
            max_cmd_sn: 132,
        });
        Self {
            authorization,
            session,
            admitted: 0,
        }
    }

    fn must_prove(&self) -> bool {
        matches!(
            &self.authorization,
            Authorization::Allowed(LoginTerms {
                authentication: Authentication::Chap { .. },
                ..
            })
        )
    }
}

impl LoginPolicy for Policy {
    fn authorize(&mut self, _: &LoginIdentity) -> Authorization {
        self.authorization.clone()
    }

    fn existing_session(&mut self, identity: &LoginIdentity) -> Option<ExistingSession> {
        assert_ne!(identity.tsih, 0, "asked for a session that nobody named");
        self.session.clone()
    }

    fn admit(&mut self, login: &LoginResult) -> Result<u16, LoginStatus> {
        self.admitted += 1;
        if self.must_prove() {
            assert_eq!(
                login.authenticated_as.as_deref(),
                Some("host"),
                "let in without proof"
            );
        }
        Ok(if login.identity.tsih == 0 {
            7
        } else {
            login.identity.tsih
        })
    }
}

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut policy = Policy::choose(bytes.u8());
    let mut entropy = Counter(1);
    let mut login = Login::new();
    for request in 0.. {
        if bytes.is_empty() {
            return;
        }
        assert!(request <= MAX_REQUESTS, "a login without end");
        let bhs: RawBhs = bytes.array();
        let len = Bhs::new(&bhs).data_segment_length();
        let segment = bytes.take(len.min(MAX_DATA_SEGMENT));
        bytes.take(padded(segment.len()) - segment.len());
        let reply = login.receive(&bhs, segment, &mut policy, &mut entropy);
        let header = check(&reply.pdu);
        match reply.outcome {
            LoginOutcome::Pending => {
                assert_eq!((header.status, policy.admitted), (LoginStatus::SUCCESS, 0))
            }
            LoginOutcome::Connected(result) => {
                assert_eq!((header.status, policy.admitted), (LoginStatus::SUCCESS, 1));
                assert_eq!(header.tsih, result.tsih);
                assert!(
                    matches!(policy.authorization, Authorization::Allowed(_)),
                    "let in without permission"
                );
                return;
            }
            LoginOutcome::Refused(refusal) => {
                assert_ne!(header.status, LoginStatus::SUCCESS);
                assert_eq!((header.status, policy.admitted), (refusal.status, 0));
                return;
            }
        }
    }
}

/// Checks that a response is one whole PDU with text that we would understand.
fn check(pdu: &[u8]) -> LoginResponse {
    let Some(raw) = pdu.first_chunk::<BHS_LENGTH>() else {
        panic!("a response of {} bytes", pdu.len())
    };
    let Ok(header) = LoginResponse::parse(raw) else {
        panic!("not a login response: {raw:02x?}")
    };
    let len = header.data_segment_length as usize;
    assert_eq!(pdu.len(), BHS_LENGTH + padded(len));
    assert!(len <= MAX_DATA_SEGMENT);
    if !header.continues {
        // Text that an earlier response began is not here, so only the last pairs are checked.
        assert!(
            len == 0 || pdu[BHS_LENGTH + len - 1] == 0,
            "text without NUL at its end"
        );
    }
    let _ = TextPairs::new(&pdu[BHS_LENGTH..BHS_LENGTH + len]).count();
    header
}
