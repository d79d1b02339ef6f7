//! Tests of the transmission phase: each command in each style, and a device against its model.
use crate::harness::*;
use nbd::Export;
use nbd::handshake::{Agreed, HeaderStyle};
use nbd::reply::{Extent, MAX_DESCRIPTORS, Replies};
use nbd::request::{Asked, Command};
use nbd::wire::*;
use proptest::prelude::*;

const STYLES: [HeaderStyle; 3] = [
    HeaderStyle::Simple,
    HeaderStyle::Structured,
    HeaderStyle::Extended,
];

fn agreed(style: HeaderStyle) -> Agreed {
    Agreed {
        style,
        allocation: style != HeaderStyle::Simple,
    }
}

fn server(style: HeaderStyle, export: Export) -> Server {
    Server::serving(export, agreed(style))
}

/// Returns the answer to one request without payload.
fn ask(
    server: &mut Server,
    style: HeaderStyle,
    flags: u16,
    kind: u16,
    at: u64,
    len: u64,
) -> Answer {
    let out = server.send(&request(style, flags, kind, 5, at, len));
    let read = if kind == command::READ {
        len as usize
    } else {
        0
    };
    let mut found = answers(style, &out, |_| read);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].cookie, 5);
    found.remove(0)
}

/// Returns the flags of a write in this style.
fn write_flags(style: HeaderStyle) -> u16 {
    match style {
        HeaderStyle::Extended => command_flag::PAYLOAD_LEN,
        _ => 0,
    }
}

#[test]
fn what_is_written_is_read_in_every_style() {
    for style in STYLES {
        let mut server = server(style, Export::new(1 << 20, 512));
        let flags = write_flags(style) | command_flag::FUA;
        let mut bytes = request(style, flags, command::WRITE, 5, 512, 1024);
        bytes.extend([7; 1024]);
        let out = server.send(&bytes);
        assert_eq!(answers(style, &out, |_| 0)[0].error, 0);
        let write = Command::Write {
            offset: 512,
            len: 1024,
            fua: true,
        };
        assert_eq!(server.seen, [write]);
        let read = ask(&mut server, style, 0, command::READ, 0, 2048);
        assert_eq!(read.data[..512], [0; 512]);
        assert_eq!(read.data[512..1536], [7; 1024]);
        assert_eq!(read.data[1536..], [0; 512]);
    }
}

#[test]
fn a_write_of_qemu_without_the_payload_flag_is_a_write() {
    let style = HeaderStyle::Extended;
    let mut server = server(style, Export::new(1 << 20, 512));
    let mut bytes = request(style, command_flag::FUA, command::WRITE, 5, 0, 512);
    bytes.extend([9; 512]);
    let out = server.send(&bytes);
    assert_eq!(answers(style, &out, |_| 0)[0].error, 0);
    assert_eq!(server.device[..512], [9; 512]);
}

#[test]
fn a_payload_may_be_read_straight_into_its_place() {
    let style = HeaderStyle::Structured;
    let export = Export::new(1 << 20, 512);
    let mut server = server(style, export.clone());
    server.send(&request(style, 0, command::WRITE, 5, 0, 4096));
    let (protocol, _) = server.serving.as_mut().unwrap();
    assert_eq!(protocol.payload_left(), 4096);
    protocol.placed(4000);
    assert_eq!(protocol.payload_left(), 96);
    protocol.placed(96);
    assert!(protocol.is_between_requests());
}

#[test]
fn nothing_at_all_succeeds_where_it_may() {
    for style in STYLES {
        let mut server = server(style, Export::new(1 << 20, 512));
        for kind in [
            command::READ,
            command::TRIM,
            command::CACHE,
            command::WRITE_ZEROES,
        ] {
            let answer = ask(&mut server, style, 0, kind, 512, 0);
            assert_eq!(
                (answer.error, answer.data.len()),
                (0, 0),
                "{style:?} {kind}"
            );
        }
        let flags = write_flags(style);
        assert_eq!(
            ask(&mut server, style, flags, command::WRITE, 0, 0).error,
            0
        );
        assert!(server.seen.is_empty());
    }
}

#[test]
fn requests_off_the_blocks_are_refused() {
    for style in STYLES {
        let mut server = server(style, Export::new(1 << 20, 4096));
        for (at, len) in [(512, 4096), (0, 512), (4095, 1), (4096, 4097)] {
            let answer = ask(&mut server, style, 0, command::READ, at, len);
            assert_eq!(answer.error, ErrorCode::Inval as u32);
        }
        assert_eq!(ask(&mut server, style, 0, command::FLUSH, 0, 1).error, 22);
        assert_eq!(ask(&mut server, style, 0, command::FLUSH, 0, 0).error, 0);
    }
}

#[test]
fn long_reads_are_refused_and_long_zeros_are_not() {
    let size = 1u64 << 40;
    for (style, error) in STYLES.into_iter().zip([22, 75, 75]) {
        // No vector is that long, so only the resulting request is checked.
        let mut server = server(style, Export::new(0, 512));
        server.export.size = size;
        let long = (32 << 20) + 512;
        assert_eq!(
            ask(&mut server, style, 0, command::READ, 0, long).error,
            error
        );
        assert_eq!(
            ask(&mut server, style, 0, command::CACHE, 0, long).error,
            75
        );
        let mut bytes = request(
            style,
            0,
            command::WRITE_ZEROES,
            1,
            0,
            u64::from(u32::MAX - 511),
        );
        let (protocol, _) = server.serving.as_mut().unwrap();
        let step = protocol.step(&mut &bytes[..], &server.export);
        assert!(
            matches!(step, nbd::transmission::Step::Request(_)),
            "{step:?}"
        );
        bytes.clear();
    }
}

#[test]
fn fast_zeros_are_fast_or_refused() {
    let style = HeaderStyle::Structured;
    use command_flag::{FAST_ZERO, NO_HOLE};
    let mut fast = server(style, Export::new(1 << 20, 512));
    let zero = |server: &mut Server, flags| {
        ask(server, style, flags, command::WRITE_ZEROES, 0, 4096).error
    };
    assert_eq!(zero(&mut fast, FAST_ZERO), 0);
    assert_eq!(
        zero(&mut fast, FAST_ZERO | NO_HOLE),
        ErrorCode::NotSup as u32
    );
    assert_eq!(zero(&mut fast, NO_HOLE), 0);
    let mut slow = server(
        style,
        Export {
            can_zero_fast: false,
            ..Export::new(1 << 20, 512)
        },
    );
    assert_eq!(zero(&mut slow, FAST_ZERO), ErrorCode::NotSup as u32);
    assert_eq!(zero(&mut slow, 0), 0);
    let may_unmap: Vec<bool> = fast
        .seen
        .iter()
        .map(|command| {
            matches!(
                command,
                Command::WriteZeroes {
                    may_unmap: true,
                    ..
                }
            )
        })
        .collect();
    assert_eq!(may_unmap, [true, false]);
}

#[test]
fn block_status_tells_holes_and_data() {
    for style in [HeaderStyle::Structured, HeaderStyle::Extended] {
        let mut server = server(style, Export::new(1 << 20, 512));
        server.device[4096..8192].fill(1);
        let status = ask(&mut server, style, 0, command::BLOCK_STATUS, 0, 1 << 20).status;
        assert_eq!(status, [(4096, 3), (4096, 0), ((1 << 20) - 8192, 3)]);
        let one = command_flag::REQ_ONE;
        let status = ask(&mut server, style, one, command::BLOCK_STATUS, 4096, 1024).status;
        assert_eq!(status, [(1024, 0)]);
        let none = ask(&mut server, style, 0, command::BLOCK_STATUS, 0, 0);
        assert_eq!(none.error, 22);
    }
    let mut server = server(HeaderStyle::Simple, Export::new(1 << 20, 512));
    let answer = ask(
        &mut server,
        HeaderStyle::Simple,
        0,
        command::BLOCK_STATUS,
        0,
        512,
    );
    assert_eq!(answer.error, 22, "no context was chosen");
}

#[test]
fn block_status_may_name_its_context() {
    let style = HeaderStyle::Extended;
    for (payload, error) in [
        (
            [&4096u64.to_be_bytes()[..], &1u32.to_be_bytes()].concat(),
            0,
        ),
        (
            [&4096u64.to_be_bytes()[..], &2u32.to_be_bytes()].concat(),
            22,
        ),
        (4096u64.to_be_bytes().to_vec(), 22),
        (vec![0; 16], 22),
    ] {
        let mut server = server(style, Export::new(1 << 20, 512));
        let flags = command_flag::PAYLOAD_LEN;
        let len = payload.len() as u64;
        let mut bytes = request(style, flags, command::BLOCK_STATUS, 5, 0, len);
        bytes.extend(&payload);
        bytes.extend(request(style, 0, command::FLUSH, 6, 0, 0));
        let found = answers(style, &server.send(&bytes), |_| 0);
        assert_eq!(found.len(), 2, "the stream goes on");
        assert_eq!(found[0].error, error);
        if error == 0 {
            assert_eq!(found[0].status, [(4096, 3)]);
        }
    }
}

#[test]
fn long_extents_are_cut_where_32_bits_end_and_descriptors_are_bounded() {
    let asked = Asked {
        cookie: 1,
        offset: 0,
        is_read: false,
    };
    let long = Extent {
        len: 10 << 30,
        data: true,
    };
    let compact = Replies::new(agreed(HeaderStyle::Structured), 4096);
    let mut out = Vec::new();
    assert!(compact.block_status(&asked, [long], None, &mut out));
    let status = &answers(HeaderStyle::Structured, &out, |_| 0)[0].status;
    assert_eq!(status.iter().map(|run| run.0).sum::<u64>(), 10 << 30);
    assert!(status.iter().all(|run| run.0 % 4096 == 0));
    let wide = Replies::new(agreed(HeaderStyle::Extended), 4096);
    out.clear();
    assert!(wide.block_status(&asked, [long], None, &mut out));
    let status = &answers(HeaderStyle::Extended, &out, |_| 0)[0].status;
    assert_eq!(*status, [(10 << 30, 0)]);
    out.clear();
    let many = (0..1_000_000u32).map(|index| Extent {
        len: 4096,
        data: index % 2 == 0,
    });
    assert!(wide.block_status(&asked, many, None, &mut out));
    let status = &answers(HeaderStyle::Extended, &out, |_| 0)[0].status;
    assert_eq!(status.len(), MAX_DESCRIPTORS);
    out.clear();
    assert!(!wide.block_status(&asked, [], None, &mut out));
    assert!(out.is_empty());
}

#[test]
fn a_server_that_ends_says_so_and_takes_what_was_begun() {
    let style = HeaderStyle::Structured;
    let mut server = server(style, Export::new(1 << 20, 512));
    server.send(&request(style, 0, command::WRITE, 1, 0, 512));
    server.serving.as_mut().unwrap().0.shut_down();
    let mut bytes = vec![3; 512];
    bytes.extend(request(style, 0, command::READ, 2, 0, 512));
    bytes.extend(request(style, 0, command::WRITE, 3, 0, 512));
    bytes.extend([4; 512]);
    bytes.extend(request(style, 0, command::DISC, 4, 0, 0));
    let found = answers(style, &server.send(&bytes), |_| 0);
    let errors: Vec<_> = found
        .iter()
        .map(|answer| (answer.cookie, answer.error))
        .collect();
    assert_eq!(errors, [(1, 0), (2, 108), (3, 108)]);
    assert_eq!(server.device[..512], [3; 512]);
    assert_eq!(server.end, Some(Ok(())));
}

#[test]
fn errors_carry_words_where_the_style_has_them() {
    let asked = Asked {
        cookie: 8,
        offset: 4096,
        is_read: true,
    };
    for style in STYLES {
        let replies = Replies::new(agreed(style), 512);
        let mut out = Vec::new();
        replies.error(&asked, ErrorCode::Io, "broken", Some(4608), &mut out);
        let answer = &answers(style, &out, |_| 0)[0];
        assert_eq!((answer.cookie, answer.error), (8, 5));
        if style == HeaderStyle::Simple {
            assert_eq!(out.len(), 16);
        } else {
            assert_eq!(answer.message, "broken");
            assert_eq!(number(&out, out.len() - 8, 8), 4608);
        }
    }
}

#[derive(Clone, Debug)]
enum Doing {
    Read(u64, u64),
    Write(u64, u64, u8),
    Zero(u64, u64),
    Trim(u64, u64),
    Status(u64, u64),
}

const BLOCKS: u64 = 16;

fn doing() -> impl Strategy<Value = Doing> {
    let range = || (0..BLOCKS).prop_flat_map(|at| (Just(at), 1..=BLOCKS - at));
    prop_oneof![
        range().prop_map(|(at, len)| Doing::Read(at, len)),
        (range(), any::<u8>()).prop_map(|((at, len), fill)| Doing::Write(at, len, fill)),
        range().prop_map(|(at, len)| Doing::Zero(at, len)),
        range().prop_map(|(at, len)| Doing::Trim(at, len)),
        range().prop_map(|(at, len)| Doing::Status(at, len)),
    ]
}

proptest! {
    /// Tests that all commands in all styles leave the bytes of a plain vector.
    #[test]
    fn a_device_behind_the_protocol_is_like_a_vector(
        steps in prop::collection::vec(doing(), 0..40),
        index in 0usize..3,
    ) {
        let style = STYLES[index];
        let mut server = server(style, Export::new(BLOCKS * 512, 512));
        let mut model = vec![0u8; (BLOCKS * 512) as usize];
        for step in steps {
            let range = |at: u64, len: u64| (at * 512) as usize..((at + len) * 512) as usize;
            match step {
                Doing::Read(at, len) => {
                    let found = ask(&mut server, style, 0, command::READ, at * 512, len * 512);
                    prop_assert_eq!(&found.data[..], &model[range(at, len)]);
                }
                Doing::Write(at, len, fill) => {
                    let flags = write_flags(style);
                    let mut bytes = request(style, flags, command::WRITE, 5, at * 512, len * 512);
                    bytes.extend(vec![fill; (len * 512) as usize]);
                    let out = server.send(&bytes);
                    prop_assert_eq!(answers(style, &out, |_| 0)[0].error, 0);
                    model[range(at, len)].fill(fill);
                }
                Doing::Zero(at, len) => {
                    let kind = command::WRITE_ZEROES;
                    prop_assert_eq!(ask(&mut server, style, 0, kind, at * 512, len * 512).error, 0);
                    model[range(at, len)].fill(0);
                }
                Doing::Trim(at, len) => {
                    let kind = command::TRIM;
                    prop_assert_eq!(ask(&mut server, style, 0, kind, at * 512, len * 512).error, 0);
                    model[range(at, len)].fill(0);
                }
                Doing::Status(at, len) => {
                    let kind = command::BLOCK_STATUS;
                    let found = ask(&mut server, style, 0, kind, at * 512, len * 512);
                    if style == HeaderStyle::Simple {
                        prop_assert_eq!(found.error, 22);
                        continue;
                    }
                    let mut place = (at * 512) as usize;
                    for (run, state) in found.status {
                        let bytes = &model[place..place + run as usize];
                        prop_assert!(state == 0 || bytes.iter().all(|byte| *byte == 0));
                        place += run as usize;
                    }
                    prop_assert_eq!(place as u64, (at + len) * 512);
                }
            }
        }
        prop_assert!(server.device == model);
    }
}
