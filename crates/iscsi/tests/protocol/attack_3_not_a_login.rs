//! Tests of attack 3 (the protocol's part): bytes that are no login, and bytes that come after one.
//! The runtime has to ensure that a stalled login delays no one.

use crate::login_harness::*;
use iscsi::pdu::{BHS_LENGTH, DataOut, LoginStatus, RESERVED_TAG, TextRequest};
use iscsi::target::login::LoginOutcome;
use proptest::prelude::*;

#[test]
fn data_and_text_before_login_end_the_connection() {
    let mut data_out = [0; BHS_LENGTH];
    DataOut {
        is_final: true,
        data_segment_length: 4,
        lun: 0,
        itt: 1,
        ttt: RESERVED_TAG,
        exp_stat_sn: 0,
        data_sn: 0,
        buffer_offset: 0,
    }
    .encode(&mut data_out);
    let mut text = [0; BHS_LENGTH];
    TextRequest {
        immediate: true,
        is_final: true,
        continues: false,
        data_segment_length: 4,
        lun: 0,
        itt: 1,
        ttt: RESERVED_TAG,
        cmd_sn: 0,
        exp_stat_sn: 0,
    }
    .encode(&mut text);
    for bhs in [data_out, text] {
        let mut client = Client::new(Policy::open());
        let reply = client.send_raw(&bhs, b"data");
        assert_eq!(reply.refused().status, LoginStatus::INVALID_DURING_LOGIN);
        assert!(client.policy.asked.is_empty());
        // The login is interrupted in its middle, too.
        let mut client = Client::new(Policy::open());
        client.first(SECURITY, None, &["AuthMethod=None"]).pending();
        assert_eq!(
            client.send_raw(&bhs, b"data").refused().status,
            LoginStatus::INVALID_DURING_LOGIN
        );
        assert!(client.policy.admitted.is_empty());
    }
}

#[test]
fn a_second_login_after_the_first_is_refused() {
    let mut client = Client::new(Policy::open());
    client
        .first(OPERATIONAL, Some(FULL_FEATURE), &[])
        .connected();
    let reply = client.first(OPERATIONAL, Some(FULL_FEATURE), &[]);
    assert_eq!(reply.refused().status, LoginStatus::INVALID_DURING_LOGIN);
    assert_eq!(client.policy.admitted.len(), 1);
}

proptest! {
    /// Tests that a login answers each PDU with one Login Response, and admits no initiator that
    /// has not proved the secret.
    #[test]
    fn arbitrary_pdus_never_panic_and_never_get_in(
        pdus in proptest::collection::vec((any::<[u8; 16]>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 0..80)), 1..12),
        login in any::<bool>(),
    ) {
        let mut client = Client::new(Policy::chap(Some(credential("t", "s"))));
        for (head, flags, data) in pdus {
            let mut bhs = [0; BHS_LENGTH];
            bhs[..16].copy_from_slice(&head);
            if login { bhs[0] = 0x43; bhs[1] = flags; bhs[3] = 0; bhs[8..16].fill(0); }
            let reply = client.send_raw(&bhs, &data);
            let connected = matches!(reply.outcome, LoginOutcome::Connected(_));
            prop_assert!(!connected);
        }
        prop_assert!(client.policy.admitted.is_empty());
    }

    /// Tests pieces of real logins in any order.
    #[test]
    fn shuffled_keys_never_panic(
        requests in proptest::collection::vec((0u8..4, proptest::option::of(0u8..4), proptest::collection::vec(0usize..14, 0..6)), 1..8),
    ) {
        const PAIRS: [&str; 14] = [
            "InitiatorName=iqn.2026-01.org.example:host", "TargetName=iqn.2026-01.org.example:disk", "SessionType=Normal",
            "SessionType=Discovery", "AuthMethod=CHAP,None", "AuthMethod=None", "CHAP_A=5,7", "CHAP_N=host",
            "CHAP_R=0x00112233445566778899aabbccddeeff", "CHAP_I=1", "CHAP_C=0xff", "MaxBurstLength=512",
            "HeaderDigest=CRC32C,None", "X-a=b",
        ];
        let mut client = Client::new(Policy::chap(None));
        for (csg, next, keys) in requests {
            let pairs: Vec<&str> = keys.into_iter().map(|key| PAIRS[key]).collect();
            client.pairs(csg, next, &pairs);
        }
        prop_assert!(client.policy.admitted.is_empty());
    }
}
