//! Login by hand: it builds requests key by key, so that tests can send bytes that no initiator
//! would send.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // Each test binary uses a part of it.

use iscsi::chap::{ChapCredential, Entropy};
use iscsi::negotiation::TargetLimits;
use iscsi::pdu::{BHS_LENGTH, Isid, LoginRequest, LoginResponse, LoginStatus, RawBhs};
use iscsi::target::login::{
    Authentication, Authorization, ExistingSession, Login, LoginIdentity, LoginOutcome,
    LoginPolicy, LoginRefusal, LoginResult, LoginTerms,
};
use iscsi::text_keys::TextPairs;

pub const INITIATOR: &str = "iqn.2026-01.org.example:host";
pub const TARGET: &str = "iqn.2026-01.org.example:disk";

/// Entropy for tests, which is never random.
pub struct Counter(pub u64);

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

pub fn credential(name: &str, secret: &str) -> ChapCredential {
    ChapCredential {
        name: name.into(),
        secret: secret.into(),
    }
}

/// Policy with one target and one portal.
pub struct Policy {
    pub authorization: Authorization,
    pub existing: Option<ExistingSession>,
    pub admit: Result<u16, LoginStatus>,
    pub admitted: Vec<LoginResult>,
    pub asked: Vec<LoginIdentity>,
}

pub fn terms() -> LoginTerms {
    LoginTerms {
        authentication: Authentication::None,
        limits: TargetLimits::default(),
        portal_group_tag: 1,
        target_alias: "a disk".into(),
        command_window: 128,
    }
}

impl Policy {
    pub fn with(authorization: Authorization) -> Self {
        Self {
            authorization,
            existing: None,
            admit: Ok(7),
            admitted: Vec::new(),
            asked: Vec::new(),
        }
    }

    pub fn open() -> Self {
        Self::with(Authorization::Allowed(terms()))
    }

    pub fn chap(target: Option<ChapCredential>) -> Self {
        let authentication = Authentication::Chap {
            initiator: credential("host", "initiator-secret"),
            target,
        };
        Self::with(Authorization::Allowed(LoginTerms {
            authentication,
            ..terms()
        }))
    }
}

impl LoginPolicy for Policy {
    fn authorize(&mut self, identity: &LoginIdentity) -> Authorization {
        self.asked.push(identity.clone());
        self.authorization.clone()
    }

    fn existing_session(&mut self, _: &LoginIdentity) -> Option<ExistingSession> {
        self.existing.clone()
    }

    fn admit(&mut self, login: &LoginResult) -> Result<u16, LoginStatus> {
        self.admitted.push(login.clone());
        self.admit
    }
}

/// Parsed response.
#[derive(Debug)]
pub struct Reply {
    pub header: LoginResponse,
    pub text: Vec<(String, String)>,
    pub outcome: LoginOutcome,
}

impl Reply {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.text
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn connected(&self) -> &LoginResult {
        match &self.outcome {
            LoginOutcome::Connected(result) => result,
            other => panic!("not connected: {other:?}"),
        }
    }

    #[track_caller]
    pub fn refused(&self) -> &LoginRefusal {
        match &self.outcome {
            LoginOutcome::Refused(refusal) => {
                assert_eq!(
                    refusal.status, self.header.status,
                    "the log and the wire agree"
                );
                refusal
            }
            other => panic!("not refused: {other:?}"),
        }
    }

    #[track_caller]
    pub fn pending(self) -> Self {
        assert!(
            matches!(self.outcome, LoginOutcome::Pending),
            "{:?}",
            self.outcome
        );
        self
    }
}

/// Login against a [`Policy`].
pub struct Client {
    pub login: Login,
    pub policy: Policy,
    pub entropy: Counter,
    pub header: LoginRequest,
}

pub const SECURITY: u8 = 0;
pub const OPERATIONAL: u8 = 1;
pub const FULL_FEATURE: u8 = 3;

impl Client {
    pub fn new(policy: Policy) -> Self {
        let header = LoginRequest {
            immediate: true,
            transit: false,
            continues: false,
            csg: 0,
            nsg: 0,
            version_max: 0,
            version_min: 0,
            total_ahs_length: 0,
            data_segment_length: 0,
            isid: Isid([0x40, 1, 2, 3, 4, 5]),
            tsih: 0,
            itt: 0x1234,
            cid: 9,
            cmd_sn: 100,
            exp_stat_sn: 50,
        };
        Self {
            login: Login::new(),
            policy,
            entropy: Counter(1),
            header,
        }
    }

    /// Sends raw text.
    pub fn send(&mut self, csg: u8, next: Option<u8>, text: &[u8]) -> Reply {
        self.header.csg = csg;
        self.header.transit = next.is_some();
        self.header.nsg = next.unwrap_or(0);
        self.header.data_segment_length = text.len() as u32;
        let mut bhs = [0; BHS_LENGTH];
        self.header.encode(&mut bhs);
        self.send_raw(&bhs, text)
    }

    pub fn send_raw(&mut self, bhs: &RawBhs, text: &[u8]) -> Reply {
        let reply = self
            .login
            .receive(bhs, text, &mut self.policy, &mut self.entropy);
        let (head, body) = reply.pdu.split_first_chunk::<BHS_LENGTH>().unwrap();
        let header = LoginResponse::parse(head).unwrap();
        assert_eq!(body.len() % 4, 0, "padded");
        let text = &body[..header.data_segment_length as usize];
        let pairs = TextPairs::new(text)
            .flatten()
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        Reply {
            header,
            text: pairs,
            outcome: reply.outcome,
        }
    }

    /// Sends pairs written as `key=value`.
    pub fn pairs(&mut self, csg: u8, next: Option<u8>, pairs: &[&str]) -> Reply {
        self.send(csg, next, &text(pairs))
    }

    /// Sends the names of a normal session, and more pairs.
    pub fn first(&mut self, csg: u8, next: Option<u8>, pairs: &[&str]) -> Reply {
        let initiator = format!("InitiatorName={INITIATOR}");
        let target = format!("TargetName={TARGET}");
        let mut all = vec![initiator.as_str(), target.as_str(), "SessionType=Normal"];
        all.extend_from_slice(pairs);
        self.pairs(csg, next, &all)
    }
}

pub fn text(pairs: &[&str]) -> Vec<u8> {
    pairs
        .iter()
        .flat_map(|pair| pair.bytes().chain([0]))
        .collect()
}
