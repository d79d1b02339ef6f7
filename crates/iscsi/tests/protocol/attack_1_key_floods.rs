//! Tests of attack 1: login key floods, overlong keys and values, text without NUL. Each is refused
//! in bounded memory, and never answered at length.

use crate::login_harness::*;
use iscsi::pdu::LoginStatus;
use iscsi::target::login::{LoginOutcome, MAX_REQUESTS, MAX_TEXT};

#[test]
fn two_thousand_unknown_keys_are_not_answered_by_32_kib() {
    let flood = "a=b\0".repeat(2048);
    let mut client = Client::new(Policy::open());
    client.first(OPERATIONAL, None, &[]).pending();
    let reply = client.send(OPERATIONAL, Some(FULL_FEATURE), flood.as_bytes());
    assert_eq!(reply.refused().status, LoginStatus::INITIATOR_ERROR);
    assert!(reply.refused().reason.contains("unknown keys"));
    assert_eq!(reply.header.data_segment_length, 0);
}

#[test]
fn unknown_keys_spread_over_many_requests_are_counted_together() {
    let mut client = Client::new(Policy::open());
    client.first(OPERATIONAL, None, &[]).pending();
    let answered = (0..100)
        .take_while(|i| {
            let reply = client.pairs(OPERATIONAL, None, &[&format!("X-{i}=1")]);
            matches!(reply.outcome, LoginOutcome::Pending)
        })
        .count();
    assert_eq!(answered, 32);
}

#[test]
fn text_is_bounded_over_the_whole_login() {
    let mut client = Client::new(Policy::open());
    client.header.continues = true;
    let accepted = (0..MAX_REQUESTS)
        .take_while(|_| {
            matches!(
                client.send(OPERATIONAL, None, &[b'a'; 8192]).outcome,
                LoginOutcome::Pending
            )
        })
        .count();
    assert_eq!(accepted * 8192, MAX_TEXT);
}

#[test]
fn requests_are_bounded() {
    let mut client = Client::new(Policy::open());
    client.first(OPERATIONAL, None, &[]).pending();
    let accepted = (0..1000)
        .take_while(|_| {
            matches!(
                client.pairs(OPERATIONAL, None, &[]).outcome,
                LoginOutcome::Pending
            )
        })
        .count();
    assert_eq!(accepted as u32, MAX_REQUESTS - 1);
}

#[test]
fn overlong_keys_values_and_segments_are_refused() {
    let long_key = format!("{}=1", "K".repeat(64));
    let long_value = format!("K={}", "v".repeat(256));
    let long_name = format!("InitiatorName=iqn.{}", "a".repeat(220));
    let target = format!("TargetName={TARGET}");
    for pairs in [
        vec![&*long_key],
        vec![&*long_value],
        vec![&*long_name, &*target],
    ] {
        let reply = if pairs.len() == 1 {
            Client::new(Policy::open()).first(OPERATIONAL, Some(FULL_FEATURE), &pairs)
        } else {
            Client::new(Policy::open()).pairs(OPERATIONAL, Some(FULL_FEATURE), &pairs)
        };
        assert_eq!(reply.refused().status, LoginStatus::INITIATOR_ERROR);
    }
    let reply = Client::new(Policy::open()).send(OPERATIONAL, None, &[0; 8193]);
    assert_eq!(reply.refused().status, LoginStatus::INITIATOR_ERROR);
}

#[test]
fn text_without_nul_is_refused() {
    let whole = text(&[
        &format!("InitiatorName={INITIATOR}"),
        &format!("TargetName={TARGET}"),
    ]);
    let reply = Client::new(Policy::open()).send(
        OPERATIONAL,
        Some(FULL_FEATURE),
        &whole[..whole.len() - 1],
    );
    assert_eq!(reply.refused().status, LoginStatus::INITIATOR_ERROR);
    assert!(reply.refused().reason.contains("NUL"));
}

#[test]
fn the_same_key_again_and_again_is_refused() {
    let pairs = vec!["MaxBurstLength=512"; 300];
    let reply = Client::new(Policy::open()).first(OPERATIONAL, Some(FULL_FEATURE), &pairs);
    assert_eq!(reply.refused().status, LoginStatus::INITIATOR_ERROR);
    assert_eq!(reply.header.data_segment_length, 0);
}

#[test]
fn rejected_keys_cannot_flood_either() {
    // Answers are at most a few times as long as questions, and text is bounded. Text that does not
    // fit into one response waits for the initiator to fetch it.
    let mut client = Client::new(Policy::open());
    client.first(SECURITY, None, &[]).pending();
    let flood = "SendTargets=\0".repeat(600);
    let mut reply = client.send(SECURITY, None, flood.as_bytes()).pending();
    let mut bytes = reply.header.data_segment_length;
    while reply.header.continues {
        assert!(reply.header.data_segment_length <= 8192);
        reply = client.pairs(SECURITY, None, &[]).pending();
        bytes += reply.header.data_segment_length;
    }
    assert_eq!(bytes, 600 * "SendTargets=Reject\0".len() as u32);
}
