//! Test that the data of a ping comes back as far as the initiator takes it (RFC 7143 §11.18,
//! §11.19).

use std::time::Duration;

use iscsi::pdu::{BHS_LENGTH, Bhs, NopIn, NopOut, RESERVED_TAG};
use iscsi::target::ConnectionSettings;

use crate::data_out_harness::Target;

/// Returns the answer to a ping of `sent` bytes, from a target with this MaxRecvDataSegmentLength,
/// if the initiator takes `taken`.
fn echoed(limit: u32, sent: usize, taken: u32) -> Vec<u8> {
    let mut target = Target::new(512, false, true);
    let settings = ConnectionSettings {
        cid: 7,
        header_digest: false,
        data_digest: false,
        max_recv_data_segment_length: limit,
        initiator_max_recv_data_segment_length: taken,
        stat_sn: 1,
    };
    let index = target.session.add_connection(&settings, Duration::ZERO);
    let ping = NopOut {
        immediate: true,
        data_segment_length: sent as u32,
        lun: 0,
        itt: 5,
        ttt: RESERVED_TAG,
        cmd_sn: 1,
        exp_stat_sn: 1,
    };
    let mut bhs = [0; BHS_LENGTH];
    ping.encode(&mut bhs);
    let data: Vec<u8> = (0..sent).map(|at| (at % 251) as u8).collect();
    let stream = [&bhs[..], &data].concat();
    for mut piece in stream.chunks(5000) {
        let event = target
            .session
            .receive(index, &mut piece, Duration::ZERO, &mut target.router);
        assert!(matches!(event, Ok(None)));
    }
    let mut answer = Vec::new();
    target.session.gather(index, |piece| {
        answer.extend_from_slice(piece);
        true
    });
    let (bhs, echo) = answer.split_first_chunk::<BHS_LENGTH>().unwrap();
    assert_eq!(NopIn::parse(bhs).unwrap().itt, 5);
    assert_eq!(Bhs::new(bhs).data_segment_length(), echo.len());
    assert_eq!(echo[..], data[..echo.len()]);
    echo.to_vec()
}

#[test]
fn a_ping_comes_back_whole_where_the_initiator_takes_it() {
    for sent in [4, 8192, 64 << 10, (64 << 10) + 4, 200_000] {
        assert_eq!(echoed(256 << 10, sent, 256 << 10).len(), sent);
    }
}

#[test]
fn no_more_comes_back_than_the_initiator_takes() {
    assert_eq!(echoed(256 << 10, 200_000, 512).len(), 512);
    assert_eq!(echoed(256 << 10, 200_000, 100_000).len(), 100_000);
}
