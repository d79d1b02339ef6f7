//! Connection of an NBD client from its first byte on, over a device of a few pages. There is never
//! a panic, and nothing reaches outside the device. Each answer is whole, and for a request that
//! was sent. The result does not depend on the places at which the bytes were cut.
//!
//! Input: one byte that chooses how the stream is cut, one of settings, then the stream.

use nbd::Export;
use nbd::handshake::{Agreed, Handshake, HeaderStyle, Progress, TlsMode};
use nbd::reply::{Extent, Replies};
use nbd::request::{Command, Request};
use nbd::transmission::{Step, Transmission};
use nbd::wire::{EXTENDED_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC};

use crate::input::Bytes;

const SIZE: usize = 32 << 10;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let [cut, settings] = bytes.array();
    let stream = bytes.take(data.len());
    let whole = Connection::new(settings).receive_all(stream, stream.len().max(1));
    let pieces = Connection::new(settings).receive_all(stream, usize::from(cut).max(1));
    // Bytes that come in one piece with STARTTLS are refused. Bytes that come after it are not.
    if !whole.upgrades && !pieces.upgrades {
        assert!(whole.device == pieces.device, "other blocks in pieces");
        assert_eq!(whole.sent, pieces.sent, "other answers in pieces");
    }
}

/// Result of a connection.
struct Outcome {
    sent: Vec<u8>,
    device: Vec<u8>,
    /// Whether the connection went over to TLS.
    upgrades: bool,
}

struct Connection {
    export: Export,
    handshake: Handshake,
    serving: Option<Serving>,
    out: Vec<u8>,
    device: Vec<u8>,
    upgrades: bool,
    over: bool,
}

struct Serving {
    protocol: Transmission,
    replies: Replies,
    style: HeaderStyle,
    writing: Option<(Request, usize)>,
}

impl Connection {
    fn new(settings: u8) -> Self {
        let tls = match settings & 3 {
            1 => TlsMode::Allow,
            2 => TlsMode::Require,
            _ => TlsMode::None,
        };
        let block = if settings & 4 == 0 { 512 } else { 4096 };
        let export = Export {
            name: "disk".into(),
            read_only: settings & 8 != 0,
            can_trim: settings & 16 == 0,
            maximum_payload: 16 << 10,
            ..Export::new(SIZE as u64, block)
        };
        let mut out = Vec::new();
        let handshake = Handshake::new(tls, &mut out);
        let mut connection = Self {
            export,
            handshake,
            serving: None,
            out,
            device: vec![0; SIZE],
            upgrades: false,
            over: false,
        };
        // The connection starts in the transmission phase, which a fuzzer would find late.
        let style = match settings >> 5 {
            1 => HeaderStyle::Simple,
            2 => HeaderStyle::Structured,
            3 => HeaderStyle::Extended,
            _ => return connection,
        };
        connection.out.clear();
        connection.begin(Agreed {
            style,
            allocation: style != HeaderStyle::Simple,
        });
        connection
    }

    fn begin(&mut self, agreed: Agreed) {
        self.serving = Some(Serving {
            protocol: Transmission::new(agreed),
            replies: Replies::new(agreed, self.export.minimum_block),
            style: agreed.style,
            writing: None,
        });
    }

    fn receive_all(mut self, stream: &[u8], piece: usize) -> Outcome {
        for bytes in stream.chunks(piece) {
            if self.over {
                break;
            }
            let mut rest = bytes;
            if self.serving.is_none() {
                let received = self.handshake.receive(bytes, &self.export, &mut self.out);
                let (used, progress) = received;
                assert!(used <= bytes.len());
                rest = &bytes[used..];
                match progress {
                    Progress::Pending => assert!(rest.is_empty()),
                    Progress::StartTls => {
                        assert!(rest.is_empty(), "nothing from before the upgrade is kept");
                        self.upgrades = true;
                    }
                    Progress::Transmission(agreed) => self.begin(agreed),
                    Progress::Ended(_) => self.over = true,
                }
            }
            if let Some(mut serving) = self.serving.take() {
                self.serve(&mut serving, rest);
                self.serving = Some(serving);
            }
        }
        Outcome {
            sent: self.out,
            device: self.device,
            upgrades: self.upgrades,
        }
    }

    fn serve(&mut self, serving: &mut Serving, bytes: &[u8]) {
        let mut input = bytes;
        loop {
            let before = self.out.len();
            match serving.protocol.step(&mut input, &self.export) {
                Step::Pending => {
                    assert!(input.is_empty(), "all is used");
                    return;
                }
                Step::Request(request) => self.execute(serving, &request),
                Step::Payload(piece) => self.payload(serving, piece),
                Step::Answer(asked, Ok(())) => serving.replies.done(&asked, &mut self.out),
                Step::Answer(asked, Err(refusal)) => serving.replies.error(
                    &asked,
                    refusal.code,
                    refusal.message,
                    None,
                    &mut self.out,
                ),
                Step::Disconnect | Step::Violation(_) => {
                    self.over = true;
                    return;
                }
            }
            if self.out.len() > before {
                check_magic(serving.style, &self.out[before..]);
            }
        }
    }

    fn payload(&mut self, serving: &mut Serving, piece: &[u8]) {
        let Some((request, at)) = serving.writing.take() else {
            panic!("a payload of nothing");
        };
        // An access out of bounds would panic, so nothing reaches beyond the device.
        self.device[at..at + piece.len()].copy_from_slice(piece);
        if serving.protocol.payload_left() > 0 {
            serving.writing = Some((request, at + piece.len()));
        } else {
            serving.replies.done(&request.asked, &mut self.out);
        }
    }

    fn execute(&mut self, serving: &mut Serving, request: &Request) {
        let asked = &request.asked;
        let replies = serving.replies;
        let range = |offset: u64, len: u64| {
            let mask = u64::from(self.export.minimum_block) - 1;
            assert!(len > 0 && (offset | len) & mask == 0);
            offset as usize..(offset + len) as usize
        };
        match request.command {
            Command::Read { offset, len } => {
                let data = &self.device[range(offset, len.into())];
                replies.data(asked, len, &mut self.out);
                self.out.extend(data);
            }
            Command::Write { offset, len, .. } => {
                assert!(!self.export.read_only);
                let range = range(offset, len.into());
                assert!(range.end <= SIZE && serving.protocol.payload_left() == len as usize);
                serving.writing = Some((*request, range.start));
            }
            Command::Trim { offset, len, .. } | Command::WriteZeroes { offset, len, .. } => {
                assert!(!self.export.read_only);
                let range = range(offset, len);
                self.device[range].fill(0);
                replies.done(asked, &mut self.out);
            }
            Command::BlockStatus { offset, len, one } => {
                let block = self.export.minimum_block as usize;
                let runs: Vec<Extent> = self.device[range(offset, len)]
                    .chunks(block)
                    .map(|block| Extent {
                        len: block.len() as u64,
                        data: block.iter().any(|byte| *byte != 0),
                    })
                    .collect();
                let limit = one.then_some(len);
                assert!(replies.block_status(asked, runs, limit, &mut self.out));
            }
            Command::Cache { offset, len } => {
                let _ = &self.device[range(offset, len.into())];
                replies.done(asked, &mut self.out);
            }
            Command::Flush => replies.done(asked, &mut self.out),
        }
    }
}

/// Checks that an answer begins as the agreed style demands.
fn check_magic(style: HeaderStyle, answer: &[u8]) {
    let magic = answer.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    let known = match style {
        HeaderStyle::Simple => &[SIMPLE_REPLY_MAGIC][..],
        HeaderStyle::Structured => &[SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC],
        HeaderStyle::Extended => &[EXTENDED_REPLY_MAGIC],
    };
    assert!(magic.is_some_and(|magic| known.contains(&magic)));
}
