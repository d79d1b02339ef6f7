//! Tests of attack 2: CHAP with oversized, reflected, out-of-turn or unsupported keys. All end in
//! "authentication failure" and reveal nothing.

use std::collections::HashSet;

use crate::login_harness::*;
use iscsi::chap::{self, ChapAlgorithm};
use iscsi::pdu::LoginStatus;

fn challenged(algorithm: u8) -> (Client, String, String) {
    let mut client = Client::new(Policy::chap(Some(credential("target", "target-secret"))));
    client.first(SECURITY, None, &["AuthMethod=CHAP"]).pending();
    let reply = client
        .pairs(SECURITY, None, &[&format!("CHAP_A={algorithm}")])
        .pending();
    let get = |key| reply.get(key).unwrap().to_owned();
    let (identifier, challenge) = (get("CHAP_I"), get("CHAP_C"));
    (client, identifier, challenge)
}

#[track_caller]
fn refused(reply: &Reply) {
    assert_eq!(
        reply.refused().status,
        LoginStatus::AUTHENTICATION_FAILURE,
        "{}",
        reply.refused().reason
    );
    assert!(reply.text.is_empty(), "a stranger is told nothing");
}

#[test]
fn unsupported_algorithms() {
    for list in ["1", "0", "99", "", "x", "0x", "5.0", "18446744073709551621"] {
        let mut client = Client::new(Policy::chap(None));
        client.first(SECURITY, None, &["AuthMethod=CHAP"]).pending();
        refused(&client.pairs(SECURITY, None, &[&format!("CHAP_A={list}")]));
    }
}

#[test]
fn oversized_and_malformed_responses() {
    let digits = |n: usize| format!("CHAP_R=0x{}", "0".repeat(n));
    let responses = [
        digits(0),
        digits(1),
        digits(30),
        digits(34),
        digits(8000),
        "CHAP_R=".into(),
        "CHAP_R=0".into(),
        "CHAP_R=0x000000000000000000000000000000zz".into(),
        format!("CHAP_R=0b{}", "A".repeat(8000)),
        "CHAP_R=0bAAAAAAAAAAAAAAAAAAAAAA=".into(),
        "CHAP_R=12345".into(),
    ];
    for response in responses {
        let (mut client, ..) = challenged(5);
        refused(&client.pairs(SECURITY, Some(OPERATIONAL), &["CHAP_N=host", &response]));
    }
    // Beyond the longest value, it is not even text.
    let (mut client, ..) = challenged(5);
    let reply = client.send(
        SECURITY,
        None,
        format!("CHAP_R=0x{}\0", "0".repeat(8180)).as_bytes(),
    );
    refused(&reply);
}

#[test]
fn oversized_challenges() {
    for challenge in [
        format!("0x{}", "00".repeat(1025)),
        format!("0b{}", "AAAA".repeat(342)),
        format!("0b{}", "A".repeat(8000)),
        "0x".into(),
        "0b".into(),
        String::new(),
    ] {
        let (mut client, identifier, question) = challenged(7);
        let credential = credential("host", "initiator-secret");
        let response = chap::answer(
            ChapAlgorithm::Sha256,
            &identifier,
            &question,
            &credential,
            None,
        )
        .unwrap();
        let pairs = [
            "CHAP_N=host",
            &format!("CHAP_R={response}"),
            "CHAP_I=1",
            &format!("CHAP_C={challenge}"),
        ]
        .map(String::from);
        let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
        refused(&client.pairs(SECURITY, Some(OPERATIONAL), &pairs));
    }
}

#[test]
fn reflected_challenges() {
    // The initiator lets the target answer the target's own question, on a second connection or on
    // this one. On this one it is caught even with the right response.
    let (mut client, identifier, question) = challenged(7);
    let credential = credential("host", "initiator-secret");
    let response = chap::answer(
        ChapAlgorithm::Sha256,
        &identifier,
        &question,
        &credential,
        None,
    )
    .unwrap();
    let pairs = [
        "CHAP_N=host".into(),
        format!("CHAP_R={response}"),
        format!("CHAP_I={identifier}"),
        format!("CHAP_C={question}"),
    ];
    let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
    refused(&client.pairs(SECURITY, Some(OPERATIONAL), &pairs));
    // A stranger gets no proof from us, because its own proof comes first.
    let (mut client, identifier, question) = challenged(7);
    let zeros = format!("CHAP_R=0x{}", "00".repeat(32));
    let pairs = [
        "CHAP_N=host".into(),
        zeros,
        format!("CHAP_I={identifier}"),
        format!("CHAP_C={question}"),
    ];
    let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
    refused(&client.pairs(SECURITY, Some(OPERATIONAL), &pairs));
}

#[test]
fn challenges_never_repeat() {
    let mut entropy = Counter(99);
    let mut seen = HashSet::new();
    for _ in 0..1000 {
        let challenge = chap::ChapChallenge::new(ChapAlgorithm::Md5, &mut entropy);
        assert!(seen.insert(challenge.challenge_text()));
    }
}

#[test]
fn keys_out_of_turn() {
    let first =
        |pairs: &[&str]| Client::new(Policy::chap(None)).first(SECURITY, Some(OPERATIONAL), pairs);
    refused(&first(&["CHAP_A=5"]));
    refused(&first(&["CHAP_N=host", "CHAP_R=0x00"]));
    refused(&first(&[
        "AuthMethod=CHAP",
        "CHAP_A=5",
        "CHAP_N=host",
        "CHAP_R=0x00",
    ]));
    for pairs in [
        &["AuthMethod=None"][..],
        &["AuthMethod=CHAP"],
        &["CHAP_A=5"],
        &["CHAP_N=host"],
        &["CHAP_R=0x00"],
        &[],
    ] {
        let (mut client, ..) = challenged(5);
        refused(&client.pairs(SECURITY, Some(FULL_FEATURE), pairs));
        assert!(client.policy.admitted.is_empty());
    }
}

#[test]
fn a_failed_login_cannot_be_tried_again_on_the_connection() {
    let (mut client, identifier, question) = challenged(5);
    refused(&client.pairs(SECURITY, None, &["CHAP_N=host", "CHAP_R=0x00"]));
    let credential = credential("host", "initiator-secret");
    let response = chap::answer(
        ChapAlgorithm::Md5,
        &identifier,
        &question,
        &credential,
        None,
    )
    .unwrap();
    let reply = client.pairs(
        SECURITY,
        Some(FULL_FEATURE),
        &["CHAP_N=host", &format!("CHAP_R={response}")],
    );
    assert_eq!(reply.refused().status, LoginStatus::INVALID_DURING_LOGIN);
    assert!(client.policy.admitted.is_empty());
}
