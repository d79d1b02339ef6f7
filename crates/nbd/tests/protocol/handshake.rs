//! Tests of the handshake, option by option.
use crate::harness::*;
use nbd::Export;
use nbd::handshake::{Agreed, End, HeaderStyle, Progress, TlsMode};
use nbd::wire::*;

fn export() -> Export {
    Export {
        name: "disk".into(),
        description: "a disk".into(),
        ..Export::new(1 << 20, 4096)
    }
}

fn greeted(tls: TlsMode) -> Server {
    let mut server = Server::new(export(), tls);
    server.greet();
    server
}

/// Returns the kind of the last reply.
fn outcome(server: &mut Server, code: u32, data: &[u8]) -> u32 {
    server.option(code, data).0.last().unwrap().0
}

#[test]
fn export_name_begins_transmission_with_or_without_zeros() {
    for (flags, len) in [(3u8, 10), (1, 134), (0, 134)] {
        let mut server = Server::new(export(), TlsMode::None);
        server.out.clear();
        server.shake(&[0, 0, 0, flags]);
        let (out, progress) = server.shake(&option(option_code::EXPORT_NAME, b"disk"));
        assert_eq!(progress, Progress::Transmission(Agreed::default()));
        assert_eq!(out.len(), len);
        assert_eq!(number(&out, 0, 8), 1 << 20);
        let flags = number(&out, 8, 2) as u16;
        assert_eq!(flags & transmission_flag::HAS_FLAGS, 1);
        assert_eq!(flags & transmission_flag::SEND_DF, 0);
    }
    let mut server = greeted(TlsMode::None);
    let (_, progress) = server.shake(&option(option_code::EXPORT_NAME, b"other"));
    assert!(matches!(progress, Progress::Ended(End::Refused(_))));
}

#[test]
fn go_tells_the_truth_about_the_export() {
    let mut server = greeted(TlsMode::None);
    let wanted = [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE, 99];
    let data = info_data("", &wanted);
    let (described, progress) = server.option(option_code::INFO, &data);
    assert_eq!(progress, Progress::Pending);
    let (replies, progress) = server.option(option_code::GO, &data);
    assert_eq!(progress, Progress::Transmission(Agreed::default()));
    assert_eq!(replies, described, "INFO promises what GO gives");
    let kinds: Vec<u32> = replies.iter().map(|reply| reply.0).collect();
    assert_eq!(kinds, [3, 3, 3, 3, option_reply::ACK]);
    assert_eq!(replies[0].1.len(), 12);
    assert_eq!(&replies[1].1[2..], b"disk");
    assert_eq!(&replies[2].1[2..], b"a disk");
    let sizes = &replies[3].1;
    assert_eq!(number(sizes, 0, 2) as u16, info::BLOCK_SIZE);
    assert_eq!(number(sizes, 2, 4), 4096);
    assert_eq!(number(sizes, 6, 4), 4096);
    assert_eq!(number(sizes, 10, 4), 32 << 20);
}

#[test]
fn a_read_only_export_offers_nothing_that_writes() {
    let mut server = Server::new(
        Export {
            read_only: true,
            ..export()
        },
        TlsMode::None,
    );
    server.greet();
    let (replies, _) = server.option(option_code::GO, &info_data("disk", &[]));
    let flags = number(&replies[0].1, 10, 2) as u16;
    use transmission_flag::*;
    assert_ne!(flags & READ_ONLY, 0);
    assert_eq!(flags & (SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO), 0);
}

#[test]
fn unknown_exports_and_options_are_refused_politely() {
    let mut server = greeted(TlsMode::None);
    use option_code as code;
    use option_reply as reply;
    let other = info_data("other", &[]);
    assert_eq!(outcome(&mut server, code::GO, &other), reply::ERR_UNKNOWN);
    assert_eq!(outcome(&mut server, code::INFO, &other), reply::ERR_UNKNOWN);
    assert_eq!(outcome(&mut server, 4, b"peek"), reply::ERR_UNSUP);
    assert_eq!(outcome(&mut server, 77, &[1; 5000]), reply::ERR_UNSUP);
    assert_eq!(outcome(&mut server, code::LIST, b"x"), reply::ERR_INVALID);
    let (list, _) = server.option(code::LIST, b"");
    assert_eq!(list[0], (reply::SERVER, b"\0\0\0\x04diska disk".to_vec()));
    assert_eq!(list[1].0, reply::ACK);
    let long = vec![0; 100_000];
    assert_eq!(outcome(&mut server, code::GO, &long), reply::ERR_TOO_BIG);
    let (replies, progress) = server.option(code::ABORT, b"why not");
    assert_eq!(replies, [(reply::ACK, Vec::new())]);
    assert_eq!(progress, Progress::Ended(End::Aborted));
}

#[test]
fn contexts_are_listed_and_chosen() {
    let mut server = greeted(TlsMode::None);
    use option_code::{LIST_META_CONTEXT as LIST, SET_META_CONTEXT as SET};
    use option_reply::{ACK, ERR_INVALID, ERR_UNKNOWN, META_CONTEXT};
    let all = context_data("", &[]);
    assert_eq!(outcome(&mut server, LIST, &all), ERR_INVALID);
    assert_eq!(
        outcome(&mut server, option_code::STRUCTURED_REPLY, &[]),
        ACK
    );
    for queries in [&[][..], &["base:"], &["base:allocation"], &["x:y", "base:"]] {
        let (replies, _) = server.option(LIST, &context_data("disk", queries));
        assert_eq!(
            replies[0],
            (META_CONTEXT, b"\0\0\0\0base:allocation".to_vec())
        );
        assert_eq!(replies[1].0, ACK);
    }
    let (replies, _) = server.option(LIST, &context_data("disk", &["x-y:"]));
    assert_eq!(replies, [(ACK, Vec::new())]);
    assert_eq!(
        outcome(&mut server, SET, &context_data("other", &[])),
        ERR_UNKNOWN
    );
    for (queries, chosen) in [
        (&["base:allocation"][..], true),
        (&["base:"], false),
        (&["base:allocation", "base:allocation", "qemu:x"], true),
        (&[], false),
        (&["base:allocation"], true),
    ] {
        let (replies, _) = server.option(SET, &context_data("", queries));
        assert_eq!(replies.len(), 1 + usize::from(chosen), "{queries:?}");
        if chosen {
            assert_eq!(
                replies[0],
                (META_CONTEXT, b"\0\0\0\x01base:allocation".to_vec())
            );
        }
    }
    // A choice that fails chooses nothing.
    assert_eq!(
        outcome(&mut server, SET, &context_data("other", &[])),
        ERR_UNKNOWN
    );
    let (_, progress) = server.option(option_code::GO, &info_data("", &[]));
    let agreed = Agreed {
        style: HeaderStyle::Structured,
        allocation: false,
    };
    assert_eq!(progress, Progress::Transmission(agreed));
}

#[test]
fn extended_headers_win_over_structured_replies_and_end_export_name() {
    let mut server = greeted(TlsMode::None);
    use option_reply::*;
    assert_eq!(
        outcome(&mut server, option_code::EXTENDED_HEADERS, b"x"),
        ERR_INVALID
    );
    assert_eq!(
        outcome(&mut server, option_code::EXTENDED_HEADERS, b""),
        ACK
    );
    let kind = outcome(&mut server, option_code::STRUCTURED_REPLY, b"");
    assert_eq!(kind, ERR_EXT_HEADER_REQD);
    let data = context_data("", &["base:allocation"]);
    assert_eq!(
        outcome(&mut server, option_code::SET_META_CONTEXT, &data),
        ACK
    );
    let (replies, _) = server.option(option_code::INFO, &info_data("", &[]));
    let flags = number(&replies[0].1, 10, 2) as u16;
    assert_ne!(flags & transmission_flag::BLOCK_STATUS_PAYLOAD, 0);
    let (_, progress) = server.shake(&option(option_code::EXPORT_NAME, b""));
    assert!(matches!(progress, Progress::Ended(End::Violation(_))));
}

#[test]
fn tls_that_is_required_comes_before_everything_else() {
    let mut server = greeted(TlsMode::Require);
    use option_code as code;
    use option_reply as reply;
    for code in [code::LIST, code::GO, code::INFO, code::STRUCTURED_REPLY, 77] {
        assert_eq!(outcome(&mut server, code, b"data"), reply::ERR_TLS_REQD);
    }
    assert_eq!(
        outcome(&mut server, code::STARTTLS, b"x"),
        reply::ERR_INVALID
    );
    let (replies, progress) = server.option(code::STARTTLS, b"");
    assert_eq!(replies, [(reply::ACK, Vec::new())]);
    assert_eq!(progress, Progress::StartTls);
    assert_eq!(
        outcome(&mut server, code::STARTTLS, b""),
        reply::ERR_INVALID
    );
    assert_eq!(outcome(&mut server, code::LIST, b""), reply::ACK);
    let mut server = greeted(TlsMode::Require);
    let (_, progress) = server.shake(&option(code::EXPORT_NAME, b""));
    assert!(matches!(progress, Progress::Ended(End::Refused(_))));
    let mut server = greeted(TlsMode::None);
    assert_eq!(outcome(&mut server, code::STARTTLS, b""), reply::ERR_POLICY);
}
