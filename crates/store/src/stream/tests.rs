//! Tests of streams as bytes: what was written is read, in any pieces, and no damage is believed.

use pages::Pages;
use proptest::prelude::*;

use super::*;
use crate::compress;
use crate::format::{Algorithm, Compression};

const BLOCK: usize = 8192;

#[derive(Clone, Debug, PartialEq)]
enum Said {
    Begin(Begin),
    Data(u64, Vec<u8>),
    Free(u64, u64),
    End,
    Close,
}

fn begin(snapshot: u64, start: u64) -> Begin {
    Begin {
        pool: 77,
        volume: 5,
        snapshot,
        from: (snapshot > 1).then(|| snapshot - 1),
        origin: snapshot
            .is_multiple_of(3)
            .then(|| "tank/vms/b@o".to_owned()),
        source: "tank/a@s".to_owned(),
        path: "vms/a".to_owned(),
        name: "s".to_owned(),
        created_s: 1_700_000_000,
        size: 64 * BLOCK as u64,
        block_size: BLOCK as u32,
        start,
        properties: Some([("compression".to_owned(), "zstd-3".to_owned())].into()),
    }
}

/// Returns the bytes of a block that can, or cannot, be packed.
fn block(tag: u8, is_packable: bool) -> Vec<u8> {
    let mut state = u64::from(tag) | 1;
    (0..BLOCK)
        .map(|at| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(at as u64);
            if is_packable {
                tag
            } else {
                (state >> 56) as u8
            }
        })
        .collect()
}

/// Writes a part: pairs of a gap and the change behind it.
fn write_part(encoder: &mut Encoder, snapshot: u64, changes: &[(u64, u8)], said: &mut Vec<Said>) {
    let (mut at, blocks) = (changes.len() as u64 % 3, 64);
    let begin = begin(snapshot, at);
    assert!(encoder.begin(&begin));
    said.push(Said::Begin(begin));
    for (gap, tag) in changes {
        at += gap;
        if at >= blocks {
            break;
        }
        if tag.is_multiple_of(5) {
            let count = (1 + u64::from(*tag) / 20).min(blocks - at);
            encoder.free(at, count);
            said.push(Said::Free(at, count));
            at += count;
            continue;
        }
        let bytes = block(*tag, tag.is_multiple_of(2));
        let plain = Pages::from_bytes(&bytes);
        let how = [Compression::Lz4, Compression::Zstd][usize::from(*tag) % 3 % 2];
        match compress::pack(how, 3, Algorithm::Off, &plain).packed {
            Some(packed) => encoder.data(at, how, &packed),
            None => encoder.data(at, Compression::Off, &plain),
        }
        said.push(Said::Data(at, bytes));
        at += 1;
    }
    encoder.end();
    said.push(Said::End);
}

fn stream(parts: &[Vec<(u64, u8)>]) -> (Vec<u8>, Vec<Said>) {
    let (mut encoder, mut bytes, mut said) = (Encoder::new(), Vec::new(), Vec::new());
    for (number, changes) in parts.iter().enumerate() {
        write_part(&mut encoder, 1 + number as u64, changes, &mut said);
        bytes.extend(encoder.take());
    }
    encoder.close();
    said.push(Said::Close);
    bytes.extend(encoder.take());
    (bytes, said)
}

/// Returns all that the reader believes of a stream, and how the stream ends.
fn read(bytes: &[u8], piece: usize) -> (Vec<Said>, Result<(), StreamError>) {
    let (mut decoder, mut said) = (Decoder::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        loop {
            match decoder.next_item() {
                Ok(None) => break,
                Ok(Some(item)) => said.push(match item {
                    Item::Begin(begin) => Said::Begin(*begin),
                    Item::Data { block, packed } => {
                        Said::Data(block, packed.unpack().expect("a block").to_vec())
                    }
                    Item::Free { first, count } => Said::Free(first, count),
                    Item::End => Said::End,
                    Item::Close => Said::Close,
                }),
                Err(error) => return (said, Err(error)),
            }
        }
    }
    (said, decoder.finish())
}

fn parts() -> impl Strategy<Value = Vec<Vec<(u64, u8)>>> {
    prop::collection::vec(prop::collection::vec((0..6_u64, any::<u8>()), 0..12), 0..4)
}

fn small() -> (Vec<u8>, Vec<Said>) {
    stream(&[vec![(0, 2), (1, 5), (2, 4)], vec![(3, 10)], vec![]])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_in_any_pieces(parts in parts(), piece in 1..20_000_usize) {
        let (bytes, said) = stream(&parts);
        let (read, end) = read(&bytes, piece);
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(read, said);
    }

    /// The reader believes only the beginning of a damaged stream, whatever the damage is.
    #[test]
    fn damage_ends_what_is_believed(
        parts in parts(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        piece in 1..20_000_usize,
    ) {
        let (mut bytes, said) = stream(&parts);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let (read, end) = read(&bytes, piece);
        prop_assert!(end.is_err());
        prop_assert!(said.starts_with(&read), "{read:?}");
    }
}

#[test]
fn every_bit_of_every_byte_counts() {
    let (bytes, said) = small();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let (read, end) = read(&damaged, bytes.len());
        assert!(end.is_err(), "{at}");
        assert!(said.starts_with(&read), "{at}");
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_is_not_complete() {
    let (bytes, said) = small();
    for end in 0..bytes.len() {
        let (read, outcome) = read(&bytes[..end], 4096);
        let error = outcome.expect_err("it is cut");
        assert_eq!(error.kind, StreamErrorKind::Truncated, "{end}");
        assert!(said.starts_with(&read) && read.len() < said.len(), "{end}");
    }
    let longer = [&bytes[..], &[0]].concat();
    let error = read(&longer, 4096).1.expect_err("it goes on");
    assert_eq!(error.kind, StreamErrorKind::Invalid);
}

/// Returns the offsets at which records begin.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let mut found = vec![PREAMBLE];
    while let Some(head) = bytes
        .get(found[found.len() - 1]..)
        .filter(|rest| !rest.is_empty())
    {
        let len = u32::from_le_bytes(head[4..8].try_into().expect("4 bytes")) as usize;
        found.push(found[found.len() - 1] + HEADER + len);
    }
    found
}

#[test]
fn records_that_are_left_out_doubled_or_exchanged_are_found() {
    let (bytes, said) = small();
    let at = boundaries(&bytes);
    let check = |changed: Vec<u8>, what: &str| {
        let (read, end) = read(&changed, 4096);
        assert!(end.is_err(), "{what}");
        assert!(said.starts_with(&read), "{what}");
    };
    for (number, record) in at.windows(2).enumerate() {
        let (before, rest) = bytes.split_at(record[0]);
        let (own, behind) = rest.split_at(record[1] - record[0]);
        check([before, behind].concat(), &format!("{number} is left out"));
        check(
            [before, own, own, behind].concat(),
            &format!("{number} is doubled"),
        );
        if let Some(next) = at.get(number + 2) {
            let (next, behind) = behind.split_at(next - record[1]);
            check(
                [before, next, own, behind].concat(),
                &format!("{number} is exchanged"),
            );
        }
    }
}

#[test]
fn a_sender_that_gives_up_says_why() {
    let mut encoder = Encoder::new();
    assert!(encoder.begin(&begin(1, 0)));
    encoder.fail("block 7 cannot be read");
    let (said, end) = read(&encoder.take(), 4096);
    let error = end.expect_err("it gave up");
    assert_eq!(said.len(), 1);
    assert_eq!(error.kind, StreamErrorKind::Failed);
    assert_eq!(
        error.to_string(),
        "the sender failed: block 7 cannot be read"
    );
}

#[test]
fn what_cannot_be_is_refused_although_its_checksums_are_right() {
    let wrong: [fn(&mut Begin); 10] = [
        |begin| begin.block_size = 5000,
        |begin| begin.block_size = 1 << 20,
        |begin| begin.size += 1,
        |begin| begin.size = 0,
        |begin| begin.start = 65,
        |begin| begin.from = Some(begin.snapshot),
        |begin| begin.path = "a/../b".to_owned(),
        |begin| begin.name = "a@b".to_owned(),
        |begin| begin.origin = Some(String::new()),
        |begin| begin.origin = Some("tank/a@\u{1b}[2J".to_owned()),
    ];
    for (number, wrong) in wrong.into_iter().enumerate() {
        let (mut encoder, mut begin) = (Encoder::new(), begin(2, 0));
        wrong(&mut begin);
        assert!(encoder.begin(&begin));
        let error = read(&encoder.take(), 4096).1.expect_err("refused");
        assert_eq!(error.kind, StreamErrorKind::Invalid, "{number}: {error}");
    }
    let data = Pages::from_bytes(&block(1, false));
    let orders: [&dyn Fn(&mut Encoder); 6] = [
        &|encoder| encoder.data(64, Compression::Off, &data),
        &|encoder| encoder.free(63, 2),
        &|encoder| encoder.free(3, 0),
        &|encoder| {
            encoder.free(3, 2);
            encoder.data(4, Compression::Off, &data);
        },
        &|encoder| encoder.close(),
        &|encoder| assert!(encoder.begin(&begin(2, 0))),
    ];
    for (number, order) in orders.into_iter().enumerate() {
        let mut encoder = Encoder::new();
        assert!(encoder.begin(&begin(1, 0)));
        order(&mut encoder);
        let error = read(&encoder.take(), 4096).1.expect_err("refused");
        assert_eq!(error.kind, StreamErrorKind::Invalid, "{number}: {error}");
    }
}

#[test]
fn other_files_and_later_versions_are_told_apart() {
    let kind = |bytes: &[u8]| read(bytes, 4096).1.expect_err("refused").kind;
    assert_eq!(kind(b"#!/bin/sh\n"), StreamErrorKind::Foreign);
    assert_eq!(kind(b""), StreamErrorKind::Truncated);
    let mut later = small().0;
    later[8] = 2;
    assert_eq!(kind(&later), StreamErrorKind::Version);
}

#[test]
fn tokens_are_read_as_they_were_written() {
    for from in [None, Some(0), Some(u64::MAX)] {
        let token = ResumeToken {
            snapshot: 0xfeed,
            from,
            position: 1 << 40,
            with_properties: from.is_some(),
            folders: from.map_or(0, |from| from as u32 & 3),
        };
        let text = token.to_string();
        assert_eq!(text.parse(), Ok(token));
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'7' { b'8' } else { b'7' };
            let changed = String::from_utf8(changed).expect("ASCII");
            changed.parse::<ResumeToken>().expect_err(&changed);
        }
    }
    "".parse::<ResumeToken>().expect_err("nothing");
}

/// The token is from an earlier build that knew of no folders, as a user may have kept it.
#[test]
fn tokens_of_earlier_builds_are_read() {
    let token = ResumeToken {
        snapshot: 0x5b41_3931_9d4c_2ca1,
        from: None,
        position: 0,
        with_properties: true,
        folders: 0,
    };
    let text = "1-5b4139319d4c2ca1--0-1-4d3bede5";
    assert_eq!(text.parse(), Ok(token));
    assert_eq!(token.to_string(), text);
}

/// The bytes are from an earlier build, which knew of no origins.
#[test]
fn what_a_part_says_of_itself_is_read_as_earlier_builds_wrote_it() {
    let before = r#"{"pool":77,"volume":5,"snapshot":2,"from":1,"source":"tank/a@s","path":"vms/a","name":"s","created_s":1700000000,"size":524288,"block_size":8192,"properties":{"compression":"zstd-3"}}"#;
    let plain = begin(2, 0);
    assert_eq!(
        serde_json::from_str::<Begin>(before).expect("it is read"),
        plain
    );
    assert_eq!(serde_json::to_string(&plain).expect("JSON"), before);
}

/// The stream was made by a program that knows `docs/stream.md` and nothing of this code.
#[test]
fn a_stream_that_somebody_else_wrote_is_read() {
    let seed = include_bytes!("../../../../fuzz/corpus/stream/raw_whole");
    let (said, end) = read(&seed[1..], 4096);
    assert_eq!(end, Ok(()));
    let [
        Said::Begin(first),
        Said::Data(1, bytes),
        Said::End,
        Said::Begin(second),
        rest @ ..,
    ] = &said[..]
    else {
        panic!("{said:?}");
    };
    assert_eq!(
        (first.snapshot, first.from, first.name.as_str()),
        (3, None, "s")
    );
    assert!(bytes.len() == 8192 && bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    assert_eq!((second.snapshot, second.from), (5, Some(3)));
    assert_eq!(rest, [Said::Free(0, 8), Said::End, Said::Close]);
}

/// People see both names, wherever the stream comes from.
#[test]
fn names_that_would_do_something_to_a_terminal_are_refused() {
    let with = |source: &str, origin: Option<&str>| {
        let begin = Begin {
            source: source.to_owned(),
            origin: origin.map(str::to_owned),
            ..begin(2, 0)
        };
        begin.fault()
    };
    assert_eq!(with("tank/a@s", Some("tank/b@o")), None);
    let long = "a".repeat(2000);
    for (source, origin) in [
        ("tank/a@\u{1b}[2J", None),
        ("tank/a@s", Some("tank/b@\u{1b}[2J")),
        (long.as_str(), None),
        ("tank/a@s", Some(long.as_str())),
    ] {
        let fault = with(source, origin).expect("refused");
        assert!(!fault.contains(char::is_control), "{fault:?}");
        assert!(fault.len() < 200, "{fault}");
    }
}
