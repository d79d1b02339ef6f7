//! Server over a vector of bytes, and the client's side of the wire, to test the protocol.
#![allow(dead_code, reason = "no test file uses all of it")]
#![allow(unreachable_pub, reason = "a module of tests")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on failed")]

use nbd::Export;
use nbd::handshake::{Agreed, Handshake, HeaderStyle, Progress, TlsMode};
use nbd::reply::{Extent, Replies};
use nbd::request::{Command, Request};
use nbd::transmission::{Step, Transmission};
use nbd::wire::*;

/// Server side of one connection, in both phases, and its device.
pub struct Server {
    pub export: Export,
    pub device: Vec<u8>,
    pub out: Vec<u8>,
    pub handshake: Handshake,
    pub serving: Option<(Transmission, Replies)>,
    /// Commands that came to the device.
    pub seen: Vec<Command>,
    /// End of the transmission phase.
    pub end: Option<Result<(), &'static str>>,
    writing: Option<(Request, Vec<u8>)>,
}

impl Server {
    pub fn new(export: Export, tls: TlsMode) -> Self {
        let mut out = Vec::new();
        let handshake = Handshake::new(tls, &mut out);
        Self {
            device: vec![0; export.size as usize],
            export,
            out,
            handshake,
            serving: None,
            seen: Vec::new(),
            end: None,
            writing: None,
        }
    }

    /// Makes a server that is in the transmission phase at once.
    pub fn serving(export: Export, agreed: Agreed) -> Self {
        let mut server = Self::new(export, TlsMode::None);
        server.out.clear();
        server.begin(agreed);
        server
    }

    pub fn begin(&mut self, agreed: Agreed) {
        let replies = Replies::new(agreed, self.export.minimum_block);
        self.serving = Some((Transmission::new(agreed), replies));
    }

    /// Sends bytes of the handshake. Returns the server's answer and the progress.
    pub fn shake(&mut self, bytes: &[u8]) -> (Vec<u8>, Progress) {
        let (used, progress) = self.handshake.receive(bytes, &self.export, &mut self.out);
        if !matches!(progress, Progress::Transmission(_) | Progress::Ended(_)) {
            assert_eq!(used, bytes.len());
        }
        (std::mem::take(&mut self.out), progress)
    }

    /// Sends the client's flags: fixed newstyle, no zeros.
    pub fn greet(&mut self) {
        let greeting = std::mem::take(&mut self.out);
        assert_eq!(greeting, b"NBDMAGICIHAVEOPT\x00\x03");
        assert_eq!(self.shake(&[0, 0, 0, 3]).1, Progress::Pending);
    }

    /// Sends one option, and returns its replies as `(kind, data)`.
    pub fn option(&mut self, code: u32, data: &[u8]) -> (Vec<(u32, Vec<u8>)>, Progress) {
        let (out, progress) = self.shake(&option(code, data));
        (option_replies(code, &out), progress)
    }

    /// Sends bytes of the transmission phase, and returns the answers.
    pub fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut input = bytes;
        loop {
            let (protocol, replies) = self.serving.as_mut().unwrap();
            let replies = *replies;
            match protocol.step(&mut input, &self.export) {
                Step::Pending => {
                    assert!(input.is_empty(), "all is used");
                    return std::mem::take(&mut self.out);
                }
                Step::Request(request) => {
                    self.check(&request.command);
                    self.seen.push(request.command);
                    match request.command {
                        Command::Write { .. } => self.writing = Some((request, Vec::new())),
                        _ => self.execute(&request, &replies),
                    }
                }
                Step::Payload(piece) => {
                    assert!(!piece.is_empty());
                    let left = protocol.payload_left();
                    let (request, data) = self.writing.as_mut().unwrap();
                    data.extend(piece);
                    let Command::Write { offset, len, .. } = request.command else {
                        panic!("a payload of something else");
                    };
                    assert_eq!(data.len() + left, len as usize);
                    if left == 0 {
                        let (request, data) = self.writing.take().unwrap();
                        self.device[offset as usize..][..data.len()].copy_from_slice(&data);
                        replies.done(&request.asked, &mut self.out);
                    }
                }
                Step::Answer(asked, Ok(())) => replies.done(&asked, &mut self.out),
                Step::Answer(asked, Err(refusal)) => {
                    replies.error(&asked, refusal.code, refusal.message, None, &mut self.out);
                }
                Step::Disconnect => self.end = Some(Ok(())),
                Step::Violation(what) => self.end = Some(Err(what)),
            }
        }
    }

    /// Checks that a command is inside the export, on its blocks and allowed.
    fn check(&self, command: &Command) {
        let (offset, len) = match *command {
            Command::Read { offset, len }
            | Command::Write { offset, len, .. }
            | Command::Cache { offset, len } => {
                assert!(len <= self.export.maximum_payload);
                (offset, u64::from(len))
            }
            Command::Trim { offset, len, .. }
            | Command::WriteZeroes { offset, len, .. }
            | Command::BlockStatus { offset, len, .. } => (offset, len),
            Command::Flush => return,
        };
        assert!(len > 0 && offset.checked_add(len).unwrap() <= self.export.size);
        assert_eq!((offset | len) % u64::from(self.export.minimum_block), 0);
        let writes = matches!(
            command,
            Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. }
        );
        assert!(!(writes && self.export.read_only));
    }

    fn execute(&mut self, request: &Request, replies: &Replies) {
        let asked = &request.asked;
        let out = &mut self.out;
        match request.command {
            Command::Read { offset, len } => {
                replies.data(asked, len, out);
                out.extend(&self.device[offset as usize..][..len as usize]);
            }
            Command::Trim { offset, len, .. } | Command::WriteZeroes { offset, len, .. } => {
                self.device[offset as usize..][..len as usize].fill(0);
                replies.done(asked, out);
            }
            Command::BlockStatus { offset, len, one } => {
                let block = self.export.minimum_block as usize;
                let range = &self.device[offset as usize..][..len as usize];
                let runs = range.chunks(block).map(|block| Extent {
                    len: block.len() as u64,
                    data: block.iter().any(|byte| *byte != 0),
                });
                assert!(replies.block_status(asked, runs, one.then_some(len), out));
            }
            Command::Flush | Command::Cache { .. } => replies.done(asked, out),
            Command::Write { .. } => panic!("a write waits for its payload"),
        }
    }
}

/// Builds an option as a client sends it.
pub fn option(code: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(code.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Builds the data of INFO and GO.
pub fn info_data(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((wanted.len() as u16).to_be_bytes());
    wanted
        .iter()
        .for_each(|info| data.extend(info.to_be_bytes()));
    data
}

/// Builds the data of LIST_META_CONTEXT and SET_META_CONTEXT.
pub fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

/// Splits replies to an option. Every byte must belong to one.
pub fn option_replies(code: u32, out: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut rest = out;
    let mut replies = Vec::new();
    while !rest.is_empty() {
        assert_eq!(number(rest, 0, 8), OPTION_REPLY_MAGIC);
        assert_eq!(number(rest, 8, 4) as u32, code);
        let len = number(rest, 16, 4) as usize;
        replies.push((number(rest, 12, 4) as u32, rest[20..20 + len].to_vec()));
        rest = &rest[20 + len..];
    }
    replies
}

/// Builds a request as a client sends it.
pub fn request(
    style: HeaderStyle,
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    len: u64,
) -> Vec<u8> {
    let extended = style == HeaderStyle::Extended;
    let magic = if extended {
        EXTENDED_REQUEST_MAGIC
    } else {
        REQUEST_MAGIC
    };
    let mut bytes = magic.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    if extended {
        bytes.extend(len.to_be_bytes());
    } else {
        bytes.extend((len as u32).to_be_bytes());
    }
    bytes
}

/// Answer in any style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub cookie: u64,
    /// Error code, or 0 for success.
    pub error: u32,
    pub message: String,
    pub data: Vec<u8>,
    /// Descriptors of BLOCK_STATUS.
    pub status: Vec<(u64, u64)>,
}

/// Splits the server's bytes into answers. Every byte must belong to one. `read_len` returns the
/// length of the data after a simple reply to the read of this cookie.
pub fn answers(style: HeaderStyle, out: &[u8], read_len: impl Fn(u64) -> usize) -> Vec<Answer> {
    let mut rest = out;
    let mut answers = Vec::new();
    while !rest.is_empty() {
        let magic = number(rest, 0, 4) as u32;
        let mut answer = Answer {
            cookie: number(rest, 8, 8),
            error: 0,
            message: String::new(),
            data: Vec::new(),
            status: Vec::new(),
        };
        if magic == SIMPLE_REPLY_MAGIC {
            assert_ne!(style, HeaderStyle::Extended);
            answer.error = number(rest, 4, 4) as u32;
            let len = match (style, answer.error) {
                (HeaderStyle::Simple, 0) => read_len(answer.cookie),
                _ => 0,
            };
            answer.data = rest[16..16 + len].to_vec();
            rest = &rest[16 + len..];
        } else {
            rest = chunk_answer(style, magic, rest, &mut answer);
        }
        answers.push(answer);
    }
    answers
}

fn chunk_answer<'a>(
    style: HeaderStyle,
    magic: u32,
    rest: &'a [u8],
    answer: &mut Answer,
) -> &'a [u8] {
    let (header, len) = match style {
        HeaderStyle::Extended => {
            assert_eq!(magic, EXTENDED_REPLY_MAGIC);
            (32, number(rest, 24, 8) as usize)
        }
        HeaderStyle::Structured => {
            assert_eq!(magic, STRUCTURED_REPLY_MAGIC);
            (20, number(rest, 16, 4) as usize)
        }
        HeaderStyle::Simple => panic!("a chunk was never agreed on"),
    };
    assert_eq!(number(rest, 4, 2) as u16, chunk::FLAG_DONE);
    let payload = &rest[header..header + len];
    match number(rest, 6, 2) as u16 {
        chunk::NONE => assert_eq!(len, 0),
        chunk::OFFSET_DATA => answer.data = payload[8..].to_vec(),
        chunk::BLOCK_STATUS => {
            assert_eq!(number(payload, 0, 4) as u32, BASE_ALLOCATION_ID);
            answer.status = payload[4..]
                .chunks_exact(8)
                .map(|run| (number(run, 0, 4), number(run, 4, 4)))
                .collect();
        }
        chunk::BLOCK_STATUS_EXT => {
            assert_eq!(number(payload, 0, 4) as u32, BASE_ALLOCATION_ID);
            answer.status = payload[8..]
                .chunks_exact(16)
                .map(|run| (number(run, 0, 8), number(run, 8, 8)))
                .collect();
            assert_eq!(number(payload, 4, 4) as usize, answer.status.len());
        }
        chunk::ERROR | chunk::ERROR_OFFSET => {
            answer.error = number(payload, 0, 4) as u32;
            let len = number(payload, 4, 2) as usize;
            answer.message = String::from_utf8(payload[6..6 + len].to_vec()).unwrap();
            assert_ne!(answer.error, 0);
        }
        other => panic!("chunk type {other}"),
    }
    &rest[header + len..]
}

/// Reads a big-endian number.
pub fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len]
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
