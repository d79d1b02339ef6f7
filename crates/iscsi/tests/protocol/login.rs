//! Tests of LOGIN at the target: logins of real initiators, each status of RFC 7143 §11.13.5, each
//! transition.

use crate::login_harness::*;
use iscsi::chap::{self, ChapAlgorithm};
use iscsi::negotiation::{DigestPolicy, SessionParameters, TargetLimits};
use iscsi::pdu::LoginStatus;
use iscsi::target::login::{Authorization, ExistingSession, LoginTerms, SessionKind};

#[test]
fn open_iscsi_without_authentication() {
    let mut client = Client::new(Policy::open());
    let reply = client.first(
        OPERATIONAL,
        Some(FULL_FEATURE),
        &[
            "InitiatorAlias=host",
            "HeaderDigest=None",
            "DataDigest=None",
            "DefaultTime2Wait=2",
            "DefaultTime2Retain=0",
            "IFMarker=No",
            "OFMarker=No",
            "ErrorRecoveryLevel=0",
            "InitialR2T=No",
            "ImmediateData=Yes",
            "MaxBurstLength=16776192",
            "FirstBurstLength=262144",
            "MaxOutstandingR2T=1",
            "MaxConnections=1",
            "DataPDUInOrder=Yes",
            "DataSequenceInOrder=Yes",
            "MaxRecvDataSegmentLength=262144",
        ],
    );
    let result = reply.connected();
    assert_eq!(
        (reply.header.transit, reply.header.csg, reply.header.nsg),
        (true, 1, 3)
    );
    assert_eq!((reply.header.tsih, result.tsih), (7, 7));
    assert_eq!((reply.header.stat_sn, result.stat_sn), (50, 51));
    assert_eq!(
        (reply.header.exp_cmd_sn, reply.header.max_cmd_sn),
        (100, 227)
    );
    assert_eq!((result.exp_cmd_sn, result.max_cmd_sn), (100, 227));
    assert_eq!(result.identity.initiator_alias.as_deref(), Some("host"));
    assert_eq!(result.identity.session_kind, SessionKind::Normal);
    assert_eq!(result.session.max_burst_length, 1_048_576);
    assert_eq!(result.connection.peer_max_recv_data_segment_length, 262_144);
    assert_eq!(result.connection.our_max_recv_data_segment_length, 262_144);
    // open-iscsi gives up on any key that it does not know.
    let keys: Vec<_> = reply.text.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "TargetPortalGroupTag",
            "TargetAlias",
            "HeaderDigest",
            "DataDigest",
            "DefaultTime2Wait",
            "DefaultTime2Retain",
            "IFMarker",
            "OFMarker",
            "ErrorRecoveryLevel",
            "InitialR2T",
            "ImmediateData",
            "MaxBurstLength",
            "FirstBurstLength",
            "MaxOutstandingR2T",
            "MaxConnections",
            "DataPDUInOrder",
            "DataSequenceInOrder",
            "MaxRecvDataSegmentLength",
        ]
    );
    assert_eq!(reply.get("ErrorRecoveryLevel"), Some("0"));
    assert_eq!(reply.get("MaxConnections"), Some("1"));
}

#[test]
fn libiscsi_without_authentication() {
    let mut client = Client::new(Policy::open());
    let reply = client
        .first(SECURITY, Some(OPERATIONAL), &["AuthMethod=CHAP,None"])
        .pending();
    assert_eq!(
        (reply.header.transit, reply.header.csg, reply.header.nsg),
        (true, 0, 1)
    );
    assert_eq!(reply.get("AuthMethod"), Some("None"));
    assert_eq!(reply.get("TargetPortalGroupTag"), Some("1"));
    let reply = client.pairs(
        OPERATIONAL,
        Some(FULL_FEATURE),
        &["HeaderDigest=CRC32C", "InitialR2T=No"],
    );
    assert!(reply.connected().connection.header_digest);
    assert_eq!((reply.header.stat_sn, reply.connected().stat_sn), (51, 52));
    assert!(!reply.connected().session.initial_r2t);
}

#[test]
fn windows_offers_auth_method_none_when_none_is_required() {
    let mut client = Client::new(Policy::open());
    let reply = client
        .first(SECURITY, Some(OPERATIONAL), &["AuthMethod=None"])
        .pending();
    assert_eq!(
        (reply.get("AuthMethod"), reply.header.nsg),
        (Some("None"), 1)
    );
}

#[test]
fn security_stage_straight_to_full_feature() {
    let mut client = Client::new(Policy::open());
    let reply = client.first(SECURITY, Some(FULL_FEATURE), &["AuthMethod=None"]);
    // Nothing was negotiated, so every default of the RFC holds.
    assert_eq!(reply.connected().session, SessionParameters::default());
    assert_eq!(
        reply
            .connected()
            .connection
            .our_max_recv_data_segment_length,
        8192
    );
}

#[test]
fn discovery_session() {
    let mut client = Client::new(Policy::open());
    let names = [
        "InitiatorName=iqn.2026-01.org.example:host",
        "SessionType=Discovery",
    ];
    let reply = client
        .pairs(
            SECURITY,
            Some(OPERATIONAL),
            &[&names[..], &["AuthMethod=None"]].concat(),
        )
        .pending();
    assert_eq!(reply.get("TargetPortalGroupTag"), None);
    let reply = client.pairs(
        OPERATIONAL,
        Some(FULL_FEATURE),
        &["InitialR2T=No", "MaxRecvDataSegmentLength=32768"],
    );
    assert_eq!(
        reply.connected().identity.session_kind,
        SessionKind::Discovery
    );
    assert_eq!(reply.connected().identity.target_name, None);
    assert_eq!(reply.get("InitialR2T"), Some("Irrelevant"));
}

/// Runs CHAP up to the challenge, and returns the identifier and the challenge.
fn challenge(client: &mut Client, algorithms: &str) -> (String, String) {
    let reply = client
        .first(SECURITY, Some(OPERATIONAL), &["AuthMethod=CHAP,None"])
        .pending();
    assert_eq!(
        (reply.get("AuthMethod"), reply.header.transit),
        (Some("CHAP"), false)
    );
    let reply = client
        .pairs(SECURITY, None, &[&format!("CHAP_A={algorithms}")])
        .pending();
    let get = |key| reply.get(key).unwrap().to_owned();
    (get("CHAP_I"), get("CHAP_C"))
}

fn respond(
    algorithm: ChapAlgorithm,
    secret: &str,
    (identifier, challenge): &(String, String),
) -> String {
    chap::answer(
        algorithm,
        identifier,
        challenge,
        &credential("", secret),
        None,
    )
    .unwrap()
}

#[test]
fn chap_with_every_hash_one_way_and_mutual() {
    for algorithm in ChapAlgorithm::ALL {
        for mutual in [false, true] {
            let mut client = Client::new(Policy::chap(Some(credential("target", "target-secret"))));
            let question = challenge(&mut client, &format!("99,{}", algorithm as u8));
            let response = format!(
                "CHAP_R={}",
                respond(algorithm, "initiator-secret", &question)
            );
            let mut pairs = vec!["CHAP_N=host", response.as_str()];
            if mutual {
                pairs.extend(["CHAP_I=5", "CHAP_C=0x00112233445566778899aabbccddeeff"]);
            }
            let reply = client.pairs(SECURITY, Some(OPERATIONAL), &pairs).pending();
            assert!(reply.header.transit);
            let proof = mutual.then(|| {
                let theirs = (
                    "5".to_owned(),
                    "0x00112233445566778899aabbccddeeff".to_owned(),
                );
                respond(algorithm, "target-secret", &theirs)
            });
            assert_eq!(reply.get("CHAP_R"), proof.as_deref());
            assert_eq!(reply.get("CHAP_N"), mutual.then_some("target"));
            let reply = client.pairs(OPERATIONAL, Some(FULL_FEATURE), &[]);
            assert_eq!(reply.connected().authenticated_as.as_deref(), Some("host"));
        }
    }
}

#[test]
fn chap_without_transit_bit_leaves_later() {
    let mut client = Client::new(Policy::chap(None));
    let question = challenge(&mut client, "5");
    let response = format!(
        "CHAP_R={}",
        respond(ChapAlgorithm::Md5, "initiator-secret", &question)
    );
    let reply = client
        .pairs(SECURITY, None, &["CHAP_N=host", &response])
        .pending();
    assert!(!reply.header.transit);
    let reply = client.pairs(SECURITY, Some(FULL_FEATURE), &[]);
    assert_eq!(reply.connected().authenticated_as.as_deref(), Some("host"));
}

#[test]
fn authentication_failures() {
    let failure = LoginStatus::AUTHENTICATION_FAILURE;
    let refused = |reply: Reply| {
        assert_eq!(
            reply.refused().status,
            failure,
            "{}",
            reply.refused().reason
        )
    };
    // The cases are: stage 1 first, None only, silence, and leaving without proof.
    refused(Client::new(Policy::chap(None)).first(OPERATIONAL, Some(FULL_FEATURE), &[]));
    refused(Client::new(Policy::chap(None)).first(
        SECURITY,
        Some(OPERATIONAL),
        &["AuthMethod=None"],
    ));
    refused(Client::new(Policy::chap(None)).first(SECURITY, Some(FULL_FEATURE), &[]));
    refused(Client::new(Policy::open()).first(SECURITY, Some(OPERATIONAL), &["AuthMethod=CHAP"]));
    for (name, secret) in [("host", "wrong"), ("somebody", "initiator-secret")] {
        let mut client = Client::new(Policy::chap(None));
        let question = challenge(&mut client, "7");
        let response = format!(
            "CHAP_R={}",
            respond(ChapAlgorithm::Sha256, secret, &question)
        );
        refused(client.pairs(
            SECURITY,
            Some(OPERATIONAL),
            &[&format!("CHAP_N={name}"), &response],
        ));
        assert!(client.policy.admitted.is_empty());
    }
    // The initiator asks for mutual CHAP, but the target has no secret to prove.
    let mut client = Client::new(Policy::chap(None));
    let question = challenge(&mut client, "7");
    let response = format!(
        "CHAP_R={}",
        respond(ChapAlgorithm::Sha256, "initiator-secret", &question)
    );
    refused(client.pairs(
        SECURITY,
        Some(OPERATIONAL),
        &["CHAP_N=host", &response, "CHAP_I=1", "CHAP_C=0x00ff"],
    ));
}

#[test]
fn a_refused_initiator_is_told_why() {
    for status in [
        LoginStatus::NOT_FOUND,
        LoginStatus::AUTHORIZATION_FAILURE,
        LoginStatus::TARGET_REMOVED,
        LoginStatus::SERVICE_UNAVAILABLE,
        LoginStatus::OUT_OF_RESOURCES,
    ] {
        let reason = "the door is shut".to_owned();
        let refused = Authorization::Refused { status, reason };
        let mut client = Client::new(Policy::with(refused));
        let reply = client.first(SECURITY, Some(OPERATIONAL), &["AuthMethod=None"]);
        assert_eq!(reply.refused().status, status);
        assert_eq!(reply.refused().initiator_name.as_deref(), Some(INITIATOR));
        assert_eq!(reply.refused().target_name.as_deref(), Some(TARGET));
        assert!(reply.refused().to_string().contains("the door is shut"));
    }
}

#[test]
fn redirects() {
    for (permanent, status) in [
        (false, LoginStatus::TARGET_MOVED_TEMPORARILY),
        (true, LoginStatus::TARGET_MOVED_PERMANENTLY),
    ] {
        let told = |address: &str| {
            let redirect = Authorization::Redirect {
                address: address.into(),
                permanent,
            };
            let reply = Client::new(Policy::with(redirect)).first(SECURITY, Some(OPERATIONAL), &[]);
            assert_eq!(reply.refused().status, status);
            reply.get("TargetAddress").map(str::to_owned)
        };
        let address = "[2001:db8::1]:3260";
        assert_eq!(told(address).as_deref(), Some(address));
        // RFC 7143 §13.8: the address has no comma and no portal group tag, which belong to
        // SendTargets.
        assert_eq!(told("[2001:db8::1]:3260,2").as_deref(), Some(address));
    }
}

#[test]
fn missing_and_wrong_names() {
    let send =
        |pairs: &[&str]| Client::new(Policy::open()).pairs(OPERATIONAL, Some(FULL_FEATURE), pairs);
    let initiator = format!("InitiatorName={INITIATOR}");
    let target = format!("TargetName={TARGET}");
    let cases: [(&[&str], _); 7] = [
        (&[&target], LoginStatus::MISSING_PARAMETER),
        (&[&initiator], LoginStatus::MISSING_PARAMETER),
        (&[], LoginStatus::MISSING_PARAMETER),
        (
            &[&initiator, &target, "SessionType=Other"],
            LoginStatus::SESSION_TYPE_NOT_SUPPORTED,
        ),
        (
            &["InitiatorName=bad,name", &target],
            LoginStatus::INITIATOR_ERROR,
        ),
        (&[&initiator, "TargetName=x,y"], LoginStatus::NOT_FOUND),
        (
            &[&initiator, &initiator, &target],
            LoginStatus::INITIATOR_ERROR,
        ),
    ];
    for (pairs, status) in cases {
        assert_eq!(send(pairs).refused().status, status, "{pairs:?}");
    }
}

#[test]
fn invalid_stages_and_transitions() {
    for (csg, next) in [
        (2, None),
        (3, None),
        (SECURITY, Some(SECURITY)),
        (SECURITY, Some(2)),
        (OPERATIONAL, Some(OPERATIONAL)),
        (OPERATIONAL, Some(SECURITY)),
    ] {
        let reply = Client::new(Policy::open()).first(csg, next, &[]);
        assert_eq!(
            reply.refused().status,
            LoginStatus::INITIATOR_ERROR,
            "{csg} {next:?}"
        );
    }
    // The cases are: back to an earlier stage, and T together with C.
    let mut client = Client::new(Policy::open());
    client.first(OPERATIONAL, None, &[]).pending();
    assert_eq!(
        client.pairs(SECURITY, None, &[]).refused().status,
        LoginStatus::INITIATOR_ERROR
    );
    let mut client = Client::new(Policy::open());
    client.header.continues = true;
    assert_eq!(
        client
            .first(OPERATIONAL, Some(FULL_FEATURE), &[])
            .refused()
            .status,
        LoginStatus::INITIATOR_ERROR
    );
}

#[test]
fn version_and_identity_must_hold() {
    let mut client = Client::new(Policy::open());
    (client.header.version_min, client.header.version_max) = (1, 1);
    assert_eq!(
        client.first(OPERATIONAL, None, &[]).refused().status,
        LoginStatus::UNSUPPORTED_VERSION
    );
    let changes: [fn(&mut Client); 3] = [
        |c| c.header.cid = 1,
        |c| c.header.isid.0[5] = 0,
        |c| c.header.tsih = 3,
    ];
    for change in changes {
        let mut client = Client::new(Policy::open());
        client.first(OPERATIONAL, None, &[]).pending();
        change(&mut client);
        let reply = client.pairs(OPERATIONAL, Some(FULL_FEATURE), &[]);
        assert_eq!(reply.refused().status, LoginStatus::INITIATOR_ERROR);
    }
    let mut client = Client::new(Policy::open());
    client.first(OPERATIONAL, None, &[]).pending();
    let reply = client.pairs(
        OPERATIONAL,
        Some(FULL_FEATURE),
        &["InitiatorName=iqn.2026-01.org.example:other"],
    );
    assert_eq!(reply.refused().status, LoginStatus::INITIATOR_ERROR);
    // Repeated names do no harm if they are equal.
    let mut client = Client::new(Policy::open());
    client.first(OPERATIONAL, None, &[]).pending();
    client
        .first(OPERATIONAL, Some(FULL_FEATURE), &[])
        .connected();
}

fn existing(connections: u16, max_connections: u16, has_cid: bool) -> ExistingSession {
    let parameters = SessionParameters {
        max_connections,
        max_burst_length: 4096,
        ..SessionParameters::default()
    };
    ExistingSession {
        parameters,
        connections,
        has_cid,
        exp_cmd_sn: 500,
        max_cmd_sn: 510,
    }
}

#[test]
fn further_connections_join_their_session() {
    let mut client = Client::new(Policy {
        existing: Some(existing(1, 2, false)),
        ..Policy::open()
    });
    client.header.tsih = 7;
    let reply = client.first(
        OPERATIONAL,
        Some(FULL_FEATURE),
        &["MaxBurstLength=512", "DataDigest=CRC32C"],
    );
    assert_eq!(reply.get("MaxBurstLength"), Some("Irrelevant"));
    let result = reply.connected();
    assert_eq!(
        (result.identity.tsih, result.tsih, reply.header.tsih),
        (7, 7, 7)
    );
    assert_eq!(
        (
            result.session.max_burst_length,
            result.session.max_connections
        ),
        (4096, 2)
    );
    assert!(result.connection.data_digest);
    assert_eq!(
        (reply.header.exp_cmd_sn, reply.header.max_cmd_sn),
        (500, 510)
    );
}

#[test]
fn sessions_that_cannot_be_joined() {
    let refused = |session, discovery: bool| {
        let mut client = Client::new(Policy {
            existing: session,
            ..Policy::open()
        });
        client.header.tsih = 7;
        let kind = if discovery {
            "SessionType=Discovery"
        } else {
            "SessionType=Normal"
        };
        let names = [
            format!("InitiatorName={INITIATOR}"),
            format!("TargetName={TARGET}"),
        ];
        let reply = client.pairs(
            OPERATIONAL,
            Some(FULL_FEATURE),
            &[&names[0], &names[1], kind],
        );
        reply.refused().status
    };
    assert_eq!(refused(None, false), LoginStatus::SESSION_DOES_NOT_EXIST);
    assert_eq!(
        refused(Some(existing(2, 2, false)), false),
        LoginStatus::TOO_MANY_CONNECTIONS
    );
    assert_eq!(
        refused(Some(existing(1, 2, false)), true),
        LoginStatus::CANNOT_INCLUDE_IN_SESSION
    );
    // A reinstated connection needs no free place.
    let mut client = Client::new(Policy {
        existing: Some(existing(2, 2, true)),
        ..Policy::open()
    });
    client.header.tsih = 7;
    client
        .first(OPERATIONAL, Some(FULL_FEATURE), &[])
        .connected();
}

#[test]
fn admission_may_fail_at_the_last_moment() {
    let mut client = Client::new(Policy {
        admit: Err(LoginStatus::OUT_OF_RESOURCES),
        ..Policy::open()
    });
    let reply = client.first(OPERATIONAL, Some(FULL_FEATURE), &[]);
    assert_eq!(reply.refused().status, LoginStatus::OUT_OF_RESOURCES);
    assert!(!reply.header.transit);
}

#[test]
fn stricter_limits_are_offered_and_must_be_answered() {
    let limits = TargetLimits {
        immediate_data: false,
        header_digest: DigestPolicy::Require,
        ..TargetLimits::default()
    };
    let policy = || {
        Policy::with(Authorization::Allowed(LoginTerms {
            limits: limits.clone(),
            ..terms()
        }))
    };
    let mut client = Client::new(policy());
    let reply = client.first(OPERATIONAL, Some(FULL_FEATURE), &[]).pending();
    assert_eq!(
        (reply.get("ImmediateData"), reply.get("HeaderDigest")),
        (Some("No"), Some("CRC32C"))
    );
    assert!(!reply.header.transit);
    let reply = client.pairs(
        OPERATIONAL,
        Some(FULL_FEATURE),
        &["ImmediateData=No", "HeaderDigest=CRC32C"],
    );
    assert!(
        reply.connected().connection.header_digest && !reply.connected().session.immediate_data
    );

    let mut client = Client::new(policy());
    client.first(OPERATIONAL, Some(FULL_FEATURE), &[]).pending();
    let reply = client.pairs(OPERATIONAL, Some(FULL_FEATURE), &[]);
    assert_eq!(reply.refused().status, LoginStatus::INITIATOR_ERROR);
    // An initiator without digests cannot log in.
    let mut client = Client::new(policy());
    let reply = client.first(
        OPERATIONAL,
        Some(FULL_FEATURE),
        &["HeaderDigest=None", "ImmediateData=No"],
    );
    assert_eq!(reply.refused().status, LoginStatus::INITIATOR_ERROR);
}

#[test]
fn operational_keys_wait_for_their_stage() {
    let mut client = Client::new(Policy::open());
    let reply = client
        .first(SECURITY, None, &["AuthMethod=None", "MaxBurstLength=4096"])
        .pending();
    assert_eq!(reply.get("MaxBurstLength"), Some("Reject"));
    client.pairs(SECURITY, Some(OPERATIONAL), &[]).pending();
    let reply = client.pairs(
        OPERATIONAL,
        Some(FULL_FEATURE),
        &["MaxBurstLength=4096", "AuthMethod=None"],
    );
    assert_eq!(
        (reply.get("MaxBurstLength"), reply.get("AuthMethod")),
        (Some("4096"), Some("Reject"))
    );
    assert_eq!(reply.connected().session.max_burst_length, 4096);
}

#[test]
fn text_cut_at_every_byte_is_joined_by_the_c_bit() {
    let whole = text(&[
        &format!("InitiatorName={INITIATOR}"),
        &format!("TargetName={TARGET}"),
        "HeaderDigest=CRC32C",
        "X-odd=1",
    ]);
    for cut in 0..=whole.len() {
        let mut client = Client::new(Policy::open());
        client.header.continues = true;
        let reply = client.send(OPERATIONAL, None, &whole[..cut]).pending();
        assert_eq!(
            (reply.header.data_segment_length, reply.header.transit),
            (0, false)
        );
        client.header.continues = false;
        let reply = client.send(OPERATIONAL, Some(FULL_FEATURE), &whole[cut..]);
        assert_eq!(reply.get("X-odd"), Some("NotUnderstood"));
        assert!(reply.connected().connection.header_digest);
    }
}
