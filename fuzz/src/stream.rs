//! Stream of snapshots from anybody. There is never a panic. It yields only blocks of the volume,
//! in their order, of the right length, and equal ones in any pieces. It is complete only with its
//! end.
//!
//! Input: a byte whose lowest bit chooses the form of the rest. Its other bits choose the length of
//! the pieces in which the stream comes.
//! - 0: the stream.
//! - 1: instructions for an encoder, whose checksums are right. Each has 18 bytes, which are kind,
//!   length of a body (in 64 bytes), a block and a count (64 bits each), then the body.

use store::format::Compression;
use store::pages::Pages;
use store::stream::{Begin, Decoder, Encoder, Item, StreamError};

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let bytes = match first & 1 {
        0 => rest.to_vec(),
        _ => told(rest),
    };
    let piece = usize::from(first >> 1) * 7 + 1;
    let (whole, end) = read(&bytes, bytes.len().max(1));
    let (pieces, same_end) = read(&bytes, piece);
    assert_eq!(whole, pieces, "pieces of {piece}");
    assert_eq!(end.is_ok(), same_end.is_ok());
    let is_closed = whole.last().is_some_and(|last| last == "close");
    assert!(is_closed || end.is_err(), "complete without its end");
}

/// Returns all parts of a stream that are accepted, and its end.
fn read(bytes: &[u8], piece: usize) -> (Vec<String>, Result<(), StreamError>) {
    let (mut decoder, mut said) = (Decoder::new(), Vec::new());
    let mut volume: Option<(Begin, u64)> = None;
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        loop {
            let item = match decoder.next_item() {
                Ok(None) => break,
                Ok(Some(item)) => item,
                Err(error) => {
                    assert!(decoder.next_item().is_err(), "it stays so");
                    return (said, Err(error));
                }
            };
            match item {
                Item::Begin(begin) => {
                    assert!(volume.is_none() && begin.start <= begin.blocks());
                    said.push(format!("{begin:?}"));
                    volume = Some((*begin.clone(), begin.start));
                }
                Item::Data { block, packed } => {
                    let (begin, next) = volume.as_mut().expect("a part");
                    assert!(*next <= block && block < begin.blocks());
                    *next = block + 1;
                    let data = packed.unpack();
                    if let Some(data) = &data {
                        assert_eq!(data.len(), begin.block_size as usize);
                    }
                    said.push(format!("{block} {:?}", data.map(|data| data.to_vec())));
                }
                Item::Free { first, count } => {
                    let (begin, next) = volume.as_mut().expect("a part");
                    assert!(*next <= first && count > 0 && first + count <= begin.blocks());
                    *next = first + count;
                    said.push(format!("{first} {count}"));
                }
                Item::End => {
                    volume.take().expect("a part");
                    said.push("end".to_owned());
                }
                Item::Close => {
                    assert!(volume.is_none());
                    said.push("close".to_owned());
                }
            }
        }
    }
    (said, decoder.finish())
}

/// Returns the stream of an encoder with these instructions.
fn told(mut rest: &[u8]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (Encoder::new(), Vec::new());
    while let Some((head, behind)) = rest.split_first_chunk::<18>() {
        let (kind, len) = (head[0], usize::from(head[1]) * 64);
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        let (block, count) = (number(2), number(10));
        let (body, behind) = behind.split_at(len.min(behind.len()));
        rest = behind;
        match kind % 8 {
            0 => {
                let begin = serde_begin(body, block, count);
                let _ = encoder.begin(&begin);
            }
            1 => encoder.data(block, Compression::Off, &Pages::from_bytes(body)),
            2 => encoder.data(block, Compression::Lz4, &Pages::from_bytes(body)),
            3 => encoder.data(block, Compression::Zstd, &Pages::from_bytes(body)),
            4 => encoder.free(block, count),
            5 => encoder.end(),
            6 => encoder.close(),
            _ => encoder.fail(&String::from_utf8_lossy(body)),
        }
        bytes.extend(encoder.take());
    }
    bytes.extend(encoder.take());
    bytes
}

fn serde_begin(body: &[u8], block: u64, count: u64) -> Begin {
    let text = String::from_utf8_lossy(body)
        .trim_end_matches('\0')
        .to_owned();
    let (path, name) = text.split_once('@').unwrap_or(("", &text));
    Begin {
        pool: 1,
        volume: 2,
        snapshot: block >> 32,
        from: (count >> 63 == 1).then_some(count & 0xffff),
        origin: (path.len() % 3 == 1).then(|| text.clone()),
        source: text.clone(),
        path: path.to_owned(),
        name: name.to_owned(),
        created_s: 3,
        size: count & 0x7fff_ffff_ffff_0fff,
        block_size: (block as u32) & 0x3f_f000,
        start: block & 0xfff,
        properties: (count & 1 == 0).then(Default::default),
    }
}
