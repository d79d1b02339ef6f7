//! Attack 4: text that continues for ever without saying anything, and text cut at every byte. (Text
//! requests after login: `target::discovery`; splits of the byte stream: `target::receive`.)

mod login_harness;

use iscsi::target::login::{LoginOutcome, MAX_REQUESTS};
use login_harness::*;

#[test]
fn empty_requests_with_the_c_bit_are_bounded() {
    let mut client = Client::new(Policy::open());
    client.header.continues = true;
    let answered = (0..10_000)
        .take_while(|_| {
            let reply = client.send(OPERATIONAL, None, &[]);
            assert_eq!(reply.header.data_segment_length, 0);
            assert!(!reply.header.continues);
            matches!(reply.outcome, LoginOutcome::Pending)
        })
        .count();
    assert_eq!(answered as u32, MAX_REQUESTS);
}

#[test]
fn a_chap_login_cut_into_single_bytes_where_the_bound_allows() {
    // 60 pieces of one text: the bound on requests is no obstacle to honest initiators.
    let whole = text(&[
        &format!("InitiatorName={INITIATOR}"),
        &format!("TargetName={TARGET}"),
        "AuthMethod=None",
    ]);
    let size = whole.len().div_ceil(60);
    let pieces: Vec<&[u8]> = whole.chunks(size).collect();
    let (last, head) = pieces.split_last().unwrap();
    let mut client = Client::new(Policy::open());
    client.header.continues = true;
    for piece in head {
        client.send(SECURITY, None, piece).pending();
    }
    client.header.continues = false;
    client.send(SECURITY, Some(FULL_FEATURE), last).connected();
}
