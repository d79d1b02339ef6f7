//! Tests of negotiation: each key's function, and that both sides always agree.

use proptest::prelude::*;

use super::*;
use crate::text_keys::{TextInput, TextPairs};

fn target(limits: Limits) -> Negotiation {
    Negotiation::new(Scope::LeadingLogin, limits)
}

/// Returns the answer of `negotiation` to one pair.
fn answer(
    negotiation: &mut Negotiation,
    key: &str,
    value: &str,
) -> Result<String, NegotiationError> {
    let mut out = TextOutput::default();
    negotiation.receive(key, value, &mut out)?;
    let text = String::from_utf8(out.next_segment(usize::MAX / 2).to_vec()).unwrap();
    Ok(text.trim_end_matches('\0').to_owned())
}

#[test]
fn answers_of_a_target() {
    let cases = [
        ("HeaderDigest", "None,CRC32C", "None"),
        ("HeaderDigest", "CRC32C,None", "CRC32C"),
        ("HeaderDigest", "X-other", "Reject"),
        ("DataDigest", "X-other,CRC32C", "CRC32C"),
        ("MaxConnections", "8", "4"),
        ("MaxConnections", "0", "Reject"),
        ("MaxConnections", "65536", "Reject"),
        ("InitialR2T", "No", "No"),
        ("InitialR2T", "Yes", "Yes"),
        ("InitialR2T", "yes", "Reject"),
        ("ImmediateData", "No", "No"),
        ("MaxBurstLength", "0x40000", "262144"),
        ("MaxBurstLength", "16776192", "1048576"),
        ("MaxBurstLength", "511", "Reject"),
        ("FirstBurstLength", "16777216", "Reject"),
        ("FirstBurstLength", "65536", "65536"),
        ("DefaultTime2Wait", "0", "2"),
        ("DefaultTime2Retain", "60", "0"),
        ("DefaultTime2Retain", "3601", "Reject"),
        ("MaxOutstandingR2T", "16", "8"),
        ("DataPDUInOrder", "No", "Yes"),
        ("DataSequenceInOrder", "No", "Yes"),
        ("ErrorRecoveryLevel", "2", "0"),
        ("ErrorRecoveryLevel", "3", "Reject"),
        ("IFMarker", "Yes", "No"),
        ("OFMarker", "No", "No"),
        ("IFMarkInt", "1~2048", "Reject"),
        ("OFMarkInt", "1~2048", "Reject"),
        ("TaskReporting", "FastAbort,RFC3720", "RFC3720"),
        ("TaskReporting", "FastAbort", "Reject"),
        ("iSCSIProtocolLevel", "2", "1"),
        ("X-com.example.secret", "1", "NotUnderstood"),
        ("RDMAExtensions", "Yes", "NotUnderstood"),
    ];
    for (key, value, expected) in cases {
        let got = answer(&mut target(Limits::default()), key, value);
        assert_eq!(got, Ok(format!("{key}={expected}")), "{key}={value}");
    }
    for declared in [
        "MaxRecvDataSegmentLength=8192",
        "Unknown=NotUnderstood",
        "ImmediateData=Irrelevant",
    ] {
        let (key, value) = declared.split_once('=').unwrap();
        assert_eq!(
            answer(&mut target(Limits::default()), key, value),
            Ok(String::new()),
            "{declared}"
        );
    }
}

#[test]
fn declarations_out_of_range_and_repetitions_fail() {
    let key = Key::MaxRecvDataSegmentLength;
    for value in ["511", "16777216", "", "x", "-1"] {
        let got = answer(&mut target(Limits::default()), key.name(), value);
        assert_eq!(got, Err(NegotiationError::InvalidValue(key)));
    }
    let mut negotiation = target(Limits::default());
    answer(&mut negotiation, "MaxBurstLength", "4096").unwrap();
    let again = answer(&mut negotiation, "MaxBurstLength", "4096");
    assert_eq!(again, Err(NegotiationError::Repeated(Key::MaxBurstLength)));
}

#[test]
fn scopes_decide_what_matters() {
    let scoped = |scope| Negotiation::new(scope, Limits::default());
    let get = |scope, key, value| answer(&mut scoped(scope), key, value).unwrap();
    assert_eq!(
        get(Scope::DiscoveryLogin, "InitialR2T", "No"),
        "InitialR2T=Irrelevant"
    );
    assert_eq!(
        get(Scope::DiscoveryLogin, "HeaderDigest", "CRC32C"),
        "HeaderDigest=CRC32C"
    );
    assert_eq!(
        get(Scope::DiscoveryLogin, "ErrorRecoveryLevel", "0"),
        "ErrorRecoveryLevel=0"
    );
    assert_eq!(
        get(Scope::FurtherLogin, "MaxBurstLength", "512"),
        "MaxBurstLength=Irrelevant"
    );
    assert_eq!(
        get(Scope::FurtherLogin, "DataDigest", "CRC32C"),
        "DataDigest=CRC32C"
    );
    assert_eq!(
        get(Scope::FullFeature, "DataDigest", "CRC32C"),
        "DataDigest=Irrelevant"
    );
    assert_eq!(
        get(Scope::FullFeature, "MaxRecvDataSegmentLength", "65536"),
        ""
    );
}

#[test]
fn a_target_offers_only_what_is_stricter_than_the_default() {
    let offers = |limits| {
        let mut out = TextOutput::default();
        let mut negotiation = target(limits);
        negotiation.offer_what_is_missing(&mut out);
        negotiation.offer_what_is_missing(&mut out);
        let text = String::from_utf8(out.next_segment(10_000).to_vec()).unwrap();
        (text, negotiation.is_waiting())
    };
    assert_eq!(
        offers(Limits::default()),
        ("MaxRecvDataSegmentLength=262144\0".into(), false)
    );
    let strict = Limits {
        immediate_data: false,
        max_burst_length: 4096,
        ..Limits::default()
    };
    let expected = "MaxRecvDataSegmentLength=262144\0ImmediateData=No\0MaxBurstLength=4096\0";
    assert_eq!(offers(strict), (expected.into(), true));
}

#[test]
fn a_required_digest_is_required() {
    let limits = Limits {
        header_digest: DigestPolicy::Require,
        ..Limits::default()
    };
    let mut negotiation = target(limits);
    assert_eq!(
        answer(&mut negotiation, "HeaderDigest", "None"),
        Ok("HeaderDigest=Reject".into())
    );
    assert_eq!(
        negotiation.finish(),
        Err(NegotiationError::NotAgreed(Key::HeaderDigest))
    );
}

fn limits() -> impl Strategy<Value = Limits> {
    let digest = prop_oneof![
        Just(DigestPolicy::Forbid),
        Just(DigestPolicy::Allow),
        Just(DigestPolicy::Prefer),
        Just(DigestPolicy::Require)
    ];
    let length = || 512u32..=0x00ff_ffff;
    (
        (1u16.., any::<bool>(), any::<bool>(), length(), length()),
        (0u16..=3600, 0u16..=3600, 1u16.., 0u8..=31),
        (digest.clone(), digest, length()),
    )
        .prop_map(|(a, b, c)| Limits {
            max_connections: a.0,
            initial_r2t: a.1,
            immediate_data: a.2,
            max_burst_length: a.3,
            first_burst_length: a.4,
            default_time2wait_s: b.0,
            default_time2retain_s: b.1,
            max_outstanding_r2t: b.2,
            protocol_level: b.3,
            header_digest: c.0,
            data_digest: c.1,
            max_recv_data_segment_length: c.2,
        })
}

fn deliver(from: &mut TextOutput, to: &mut Negotiation) -> Result<TextOutput, NegotiationError> {
    let mut input = TextInput::new(1 << 20);
    input.push(from.next_segment(1 << 20)).unwrap();
    let text = input.take();
    let mut reply = TextOutput::default();
    for pair in TextPairs::new(&text) {
        let (key, value) = pair.unwrap();
        to.receive(key, value, &mut reply)?;
    }
    Ok(reply)
}

proptest! {
    #[test]
    fn negotiation_is_symmetric(i in limits(), t in limits(), scope in prop_oneof![Just(Scope::LeadingLogin), Just(Scope::FurtherLogin), Just(Scope::DiscoveryLogin)], silent: bool) {
        let mut initiator = Negotiation::new(scope, i.clone());
        let mut target = Negotiation::new(scope, t.clone());
        let mut out = TextOutput::default();
        // An initiator may also offer nothing and leave it to the target.
        if !silent { initiator.offer_all(&mut out); }
        for _ in 0..4 {
            let mut reply = deliver(&mut out, &mut target).unwrap();
            target.offer_what_is_missing(&mut reply);
            out = deliver(&mut reply, &mut initiator).unwrap();
        }
        prop_assert!(!initiator.is_waiting() && !target.is_waiting());
        match (initiator.finish(), target.finish()) {
            (Ok((ours, our_connection)), Ok((theirs, their_connection))) => {
                prop_assert_eq!(&ours, &theirs);
                prop_assert_eq!(our_connection.header_digest, their_connection.header_digest);
                prop_assert_eq!(our_connection.data_digest, their_connection.data_digest);
                prop_assert_eq!(our_connection.peer_max_recv_data_segment_length, their_connection.our_max_recv_data_segment_length);
                prop_assert_eq!(our_connection.our_max_recv_data_segment_length, their_connection.peer_max_recv_data_segment_length);
                prop_assert!(ours.first_burst_length <= ours.max_burst_length);
                if scope == Scope::LeadingLogin {
                    prop_assert!(ours.max_burst_length <= t.max_burst_length);
                    prop_assert!(t.immediate_data || !ours.immediate_data);
                    prop_assert!(!t.initial_r2t || ours.initial_r2t);
                }
            }
            // Only a digest can be required by one side and refused by the other.
            (a, b) => {
                let digest = |result: &Result<_, NegotiationError>| matches!(result, Err(NegotiationError::NotAgreed(Key::HeaderDigest | Key::DataDigest)));
                prop_assert!(digest(&a) || digest(&b), "{:?} {:?}", a.is_ok(), b.is_ok());
            }
        }
    }

    #[test]
    fn hostile_values_never_panic(pairs in proptest::collection::vec((0usize..Key::ALL.len(), ".{0,20}"), 0..40)) {
        let mut negotiation = target(Limits::default());
        let mut out = TextOutput::default();
        for (key, value) in pairs {
            let _ = negotiation.receive(Key::ALL[key].name(), &value, &mut out);
        }
        let _ = negotiation.finish();
    }
}
