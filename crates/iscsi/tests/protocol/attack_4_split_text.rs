//! Tests of attack 4: text that continues for ever without any content, and text cut at every byte.
//! `target::discovery` tests text requests after login, and `target::receive` tests splits of the
//! byte stream.

use std::cell::Cell;

use crate::login_harness::*;
use iscsi::chap::{self, ChapAlgorithm};
use iscsi::target::login::{LoginOutcome, MAX_REQUESTS};

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
fn text_in_fifty_pieces_is_put_together() {
    // The bound on requests does not hinder honest initiators.
    let whole = text(&[
        &format!("InitiatorName={INITIATOR}"),
        &format!("TargetName={TARGET}"),
        "AuthMethod=None",
    ]);
    let pieces: Vec<&[u8]> = whole.chunks(2).collect();
    assert!((50..MAX_REQUESTS as usize).contains(&pieces.len()));
    let mut client = Client::new(Policy::open());
    send_pieces(&mut client, Some(FULL_FEATURE), &pieces).connected();
}

/// Sends one text as several requests, and returns the answer to the last of them.
fn send_pieces(client: &mut Client, next: Option<u8>, pieces: &[&[u8]]) -> Reply {
    let (last, head) = pieces.split_last().unwrap();
    client.header.continues = true;
    for piece in head {
        let reply = client.send(SECURITY, None, piece).pending();
        assert!(reply.text.is_empty(), "nothing is said to half a text");
    }
    client.header.continues = false;
    client.send(SECURITY, next, last)
}

/// Runs a login with CHAP in which `cut` sends the initiator's algorithm and then its name and
/// response. The initiator's name is known at the end.
fn chap_login(cut: impl Fn(&mut Client, Option<u8>, &[u8]) -> Reply) {
    let mut client = Client::new(Policy::chap(None));
    client.first(SECURITY, None, &["AuthMethod=CHAP"]).pending();
    let asked = cut(&mut client, None, &text(&["CHAP_A=5"])).pending();
    let response = chap::answer(
        ChapAlgorithm::Md5,
        asked.get("CHAP_I").unwrap(),
        asked.get("CHAP_C").unwrap(),
        &credential("host", "initiator-secret"),
        None,
    );
    let proof = text(&["CHAP_N=host", &format!("CHAP_R={}", response.unwrap())]);
    let end = cut(&mut client, Some(FULL_FEATURE), &proof);
    assert_eq!(end.connected().authenticated_as.as_deref(), Some("host"));
}

#[test]
fn a_chap_login_cut_into_single_bytes_where_the_bound_allows() {
    // The names go in one request, and then 9 and 54 bytes go in one request each: the most that
    // are allowed.
    let sent = Cell::new(1);
    chap_login(|client, next, text| {
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        sent.set(sent.get() + bytes.len());
        send_pieces(client, next, &bytes)
    });
    assert_eq!(sent.get(), MAX_REQUESTS as usize);
}

#[test]
fn a_chap_login_cut_in_two_at_every_byte() {
    for at in 0..=54 {
        chap_login(|client, next, text| {
            let (head, tail) = text.split_at(at.min(text.len()));
            send_pieces(client, next, &[head, tail])
        });
    }
}
