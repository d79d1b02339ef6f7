//! Text: pairs, values and the negotiation over them, in every scope.
//!
//! Input: one byte that chooses the scope, then text as login and text PDUs carry it.

use iscsi::negotiation::{Negotiation, Scope, TargetLimits};
use iscsi::text_keys::{
    MAX_KEY_LENGTH, MAX_LONG_VALUE_LENGTH, TextOutput, TextPairs, hex, parse_binary, parse_boolean,
    parse_list, parse_number, parse_range,
};

use crate::input::Bytes;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let scopes = [
        Scope::LeadingLogin,
        Scope::FurtherLogin,
        Scope::DiscoveryLogin,
        Scope::FullFeature,
    ];
    let mut negotiation =
        Negotiation::new(scopes[usize::from(bytes.u8() & 3)], TargetLimits::default());
    let text = bytes.take(64 << 10);
    let mut answers = TextOutput::new();
    let mut copy = TextOutput::new();
    let mut pairs = Vec::new();
    let mut whole = true;
    for pair in TextPairs::new(text) {
        let Ok((key, value)) = pair else {
            whole = false;
            break;
        };
        assert!((1..=MAX_KEY_LENGTH).contains(&key.len()));
        assert!(value.len() <= MAX_LONG_VALUE_LENGTH);
        values(value);
        copy.push(key, value);
        pairs.push((key, value));
        if negotiation.receive(key, value, &mut answers).is_err() {
            break;
        }
    }
    let written = copy.next_segment(usize::MAX).to_vec();
    assert!(
        TextPairs::new(&written).eq(pairs.iter().map(|pair| Ok(*pair))),
        "pairs changed by writing them"
    );
    answered(negotiation, answers, whole);
}

fn values(value: &str) {
    let _ = (
        parse_boolean(value),
        iscsi::name::check(value),
        parse_list(value).count(),
    );
    if let Some((low, high)) = parse_range(value) {
        assert!(low <= high);
    }
    if let Some(number) = parse_number(value) {
        assert_eq!(parse_number(&number.to_string()), Some(number));
    }
    if let Some(binary) = parse_binary(value, 1024) {
        assert!((1..=1024).contains(&binary.len()));
        assert_eq!(parse_binary(&hex(&binary), 1024), Some(binary));
    }
}

/// Checks that our own answers are text that we understand, and that the agreed values lie within
/// the limits.
fn answered(mut negotiation: Negotiation, mut answers: TextOutput, whole: bool) {
    if whole {
        negotiation.offer_what_is_missing(&mut answers);
    }
    let text = answers.next_segment(usize::MAX).to_vec();
    assert!(
        TextPairs::new(&text).all(|pair| pair.is_ok()),
        "we wrote text that we do not take"
    );
    if let Ok((session, _)) = negotiation.finish() {
        assert!(session.first_burst_length <= session.max_burst_length);
        assert!(
            (512..=TargetLimits::default().max_burst_length).contains(&session.max_burst_length)
        );
    }
}
