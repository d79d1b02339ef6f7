//! Tests of clients that lie, flood or smuggle, with each attack by name.
use crate::harness::*;
use nbd::Export;
use nbd::handshake::{Agreed, End, HeaderStyle, Progress, TlsMode};
use nbd::wire::*;
use proptest::prelude::*;

fn greeted(tls: TlsMode) -> Server {
    let mut server = Server::new(Export::new(1 << 20, 512), tls);
    server.greet();
    server
}

fn serving(style: HeaderStyle) -> Server {
    let agreed = Agreed {
        style,
        allocation: style != HeaderStyle::Simple,
    };
    Server::serving(Export::new(1 << 20, 512), agreed)
}

fn violation(progress: Progress) -> bool {
    matches!(progress, Progress::Ended(End::Violation(_)))
}

#[test]
fn plaintext_behind_starttls_is_never_believed() {
    let mut server = greeted(TlsMode::Allow);
    // An option chosen before TLS is forgotten with TLS.
    server.option(option_code::STRUCTURED_REPLY, b"");
    server.option(
        option_code::SET_META_CONTEXT,
        &context_data("", &["base:allocation"]),
    );
    let (_, progress) = server.option(option_code::STARTTLS, b"");
    assert_eq!(progress, Progress::StartTls);
    let (_, progress) = server.option(option_code::GO, &info_data("", &[]));
    assert_eq!(progress, Progress::Transmission(Agreed::default()));
    // Bytes smuggled in one segment with STARTTLS end the connection.
    let mut server = greeted(TlsMode::Allow);
    let smuggled = [
        option(option_code::STARTTLS, b""),
        option(option_code::STRUCTURED_REPLY, b""),
    ];
    assert!(violation(server.shake(&smuggled.concat()).1));
}

#[test]
fn unknown_client_flags_end_the_connection() {
    for flags in [[0, 0, 0, 4], [0x80, 0, 0, 3], [0xff; 4]] {
        let mut server = Server::new(Export::new(512, 512), TlsMode::None);
        assert!(violation(server.shake(&flags).1));
    }
}

#[test]
fn options_without_end_are_bounded() {
    let mut server = greeted(TlsMode::None);
    let count = (1..).find(|_| violation(server.shake(&option(77, b"")).1));
    assert!(count.unwrap() < 5000);
    // A false length of gigabytes is not waited for.
    let mut endless = option(77, b"");
    endless[12..16].fill(0xff);
    let mut server = greeted(TlsMode::None);
    assert!(violation(server.shake(&endless).1));
}

#[test]
fn something_else_than_nbd_ends_the_connection() {
    let mut server = Server::new(Export::new(512, 512), TlsMode::None);
    assert!(violation(server.shake(b"GET / HTTP/1.1\r\n\r\n").1));
    let mut server = greeted(TlsMode::None);
    assert!(violation(server.shake(&[0x16; 64]).1));
    let mut server = serving(HeaderStyle::Simple);
    server.send(&[0x25; 64]);
    assert!(matches!(server.end, Some(Err(_))));
    assert!(server.send(&[0; 64]).is_empty(), "nothing more is heard");
}

#[test]
fn options_without_fixed_newstyle_are_refused() {
    let mut server = Server::new(Export::new(512, 512), TlsMode::Allow);
    server.shake(&[0; 4]);
    let (_, progress) = server.shake(&option(option_code::STARTTLS, b""));
    assert!(matches!(progress, Progress::Ended(End::Refused(_))));
}

#[test]
fn ranges_that_wrap_or_leave_the_export_are_refused() {
    for style in [HeaderStyle::Simple, HeaderStyle::Extended] {
        for (offset, len) in [
            (1 << 20, 512),
            (u64::MAX - 511, 512),
            (!511, 1024),
            ((1 << 20) - 512, 1024),
        ] {
            let mut server = serving(style);
            for (kind, error) in [
                (command::READ, ErrorCode::Inval),
                (command::TRIM, ErrorCode::Inval),
                (command::CACHE, ErrorCode::Inval),
                (command::WRITE_ZEROES, ErrorCode::NoSpc),
            ] {
                let out = server.send(&request(style, 0, kind, 1, offset, len));
                let answer = &answers(style, &out, |_| 0)[0];
                assert_eq!(answer.error, error as u32, "{kind} {offset} {len}");
            }
            assert!(server.seen.is_empty());
        }
    }
}

#[test]
fn a_write_that_is_refused_does_not_lose_the_stream() {
    let style = HeaderStyle::Structured;
    let mut server = serving(style);
    let mut bytes = request(style, 0, command::WRITE, 1, 1 << 20, 4096);
    // The payload looks like requests.
    let fake = request(style, 0, command::TRIM, 9, 0, 1 << 20);
    bytes.extend(fake.iter().cycle().take(4096));
    bytes.extend(request(style, 0, command::FLUSH, 2, 0, 0));
    let out = server.send(&bytes);
    let found: Vec<_> = answers(style, &out, |_| 0)
        .iter()
        .map(|answer| (answer.cookie, answer.error))
        .collect();
    assert_eq!(found, [(1, ErrorCode::NoSpc as u32), (2, 0)]);
}

#[test]
fn payloads_beyond_all_bounds_end_the_connection() {
    for (style, len) in [
        (HeaderStyle::Simple, u64::from(u32::MAX)),
        (HeaderStyle::Extended, 1 << 40),
        (HeaderStyle::Extended, (32 << 20) + 1),
    ] {
        let mut server = serving(style);
        let flags = match style {
            HeaderStyle::Extended => command_flag::PAYLOAD_LEN,
            _ => 0,
        };
        server.send(&request(style, flags, command::WRITE, 1, 0, len));
        assert!(matches!(server.end, Some(Err(_))), "{style:?} {len}");
    }
}

#[test]
fn flags_that_mean_nothing_are_refused() {
    let style = HeaderStyle::Structured;
    let mut server = serving(style);
    for kind in 0..12 {
        for bit in 1..16 {
            if kind == command::DISC || kind == command::WRITE {
                continue;
            }
            let allowed = match kind {
                command::READ => command_flag::DF,
                command::WRITE_ZEROES => command_flag::NO_HOLE | command_flag::FAST_ZERO,
                command::BLOCK_STATUS => command_flag::REQ_ONE,
                _ => 0,
            };
            let len = if kind == command::FLUSH { 0 } else { 512 };
            let out = server.send(&request(style, 1 << bit, kind, 1, 0, len));
            let answer = &answers(style, &out, |_| 0)[0];
            let wanted = if allowed & 1 << bit != 0 { 0 } else { 22 };
            assert_eq!(answer.error, wanted, "{kind} {bit}");
        }
    }
}

#[test]
fn nothing_is_written_to_a_read_only_export() {
    let style = HeaderStyle::Structured;
    let export = Export {
        read_only: true,
        ..Export::new(1 << 20, 512)
    };
    let agreed = Agreed {
        style,
        allocation: false,
    };
    let mut server = Server::serving(export, agreed);
    for kind in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        let mut bytes = request(style, 0, kind, 1, 0, 512);
        if kind == command::WRITE {
            bytes.extend([0xaa; 512]);
        }
        let answer = &answers(style, &server.send(&bytes), |_| 0)[0];
        assert_eq!(answer.error, ErrorCode::Perm as u32);
    }
    assert!(server.seen.is_empty());
}

proptest! {
    /// Tests that the meaning of any bytes does not depend on their pieces, and that nothing
    /// panics.
    #[test]
    fn arbitrary_handshakes_never_panic_and_mean_the_same_in_pieces(
        options in prop::collection::vec((0u32..13, prop::collection::vec(any::<u8>(), 0..40)), 0..8),
        tail in prop::collection::vec(any::<u8>(), 0..40),
        piece in 1usize..50,
        mode in 0usize..3,
    ) {
        let tls = [TlsMode::None, TlsMode::Allow, TlsMode::Require][mode];
        let mut bytes = vec![0, 0, 0, 3];
        options.iter().for_each(|(code, data)| bytes.extend(option(*code, data)));
        bytes.extend(tail);
        let run = |piece: usize| {
            let mut server = Server::new(Export::new(1 << 20, 512), tls);
            let mut used = 0;
            for part in bytes.chunks(piece) {
                let (count, progress) = server.handshake.receive(part, &server.export, &mut server.out);
                used += count;
                if progress != Progress::Pending && progress != Progress::StartTls {
                    return (used, Some(progress), server.out);
                }
            }
            (used, None, server.out)
        };
        // Bytes behind STARTTLS are seen only if they come with it.
        if tls == TlsMode::None {
            prop_assert_eq!(run(bytes.len()), run(piece));
        } else {
            run(bytes.len());
            run(piece);
        }
    }

    #[test]
    fn arbitrary_requests_never_panic_and_mean_the_same_in_pieces(
        requests in prop::collection::vec(
            (any::<u16>(), 0u16..10, 0u64..5, 0u64..6, prop::collection::vec(any::<u8>(), 0..30)),
            0..12,
        ),
        piece in 1usize..70,
        index in 0usize..3,
    ) {
        let style = [HeaderStyle::Simple, HeaderStyle::Structured, HeaderStyle::Extended][index];
        let mut bytes = Vec::new();
        for (flags, kind, offset, len, noise) in requests {
            bytes.extend(request(style, flags & 0x3f, kind, 7, offset * 256, len * 256));
            if kind == command::WRITE {
                bytes.extend(vec![1; len as usize * 256]);
            }
            if noise.len() > 25 {
                bytes.extend(noise);
            }
        }
        let run = |piece: usize| {
            let mut server = serving(style);
            let out: Vec<u8> = bytes.chunks(piece).flat_map(|part| server.send(part)).collect();
            (out, server.end, server.device, server.seen)
        };
        prop_assert!(run(bytes.len().max(1)) == run(piece));
    }
}
