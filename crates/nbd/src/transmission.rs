//! Transmission phase as it arrives: bytes in, and checked requests, pieces of payload and refusals
//! out.

use crate::Export;
use crate::handshake::{Agreed, HeaderStyle};
use crate::request::{Asked, EXTENDED_LENGTH, Header, Refusal, Request};
use crate::wire::{BASE_ALLOCATION_ID, ErrorCode, command, command_flag};

/// Length in bytes of the longest payload that is too long for this server but is skipped, rather
/// than taken for an attack.
const MAX_SKIPPED: u64 = 64 << 20;
/// Length of BLOCK_STATUS's payload: the effect length, and the only context there is.
const STATUS_PAYLOAD: usize = 12;

/// Meaning of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// All bytes were used, and more are needed.
    Pending,
    /// A request for the device. After a write its payload follows, as [`Step::Payload`].
    Request(Request),
    /// Piece of the payload of the last write, to be put behind the previous piece.
    Payload(&'a [u8]),
    /// Request that is answered at once: it asks for nothing, or it is refused.
    Answer(Asked, Result<(), Refusal>),
    /// The client will send nothing more, but wants answers to the requests under way.
    Disconnect,
    /// The bytes are not the protocol: close the connection.
    Violation(&'static str),
}

/// Part of the stream that is arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransmissionStage {
    /// Header of a request.
    Header,
    /// Payload of a write, with the number of missing bytes.
    Payload(u32),
    /// Payload that is skipped.
    Skipped(u64),
    /// Payload of BLOCK_STATUS.
    Status(Header),
    /// Nothing more arrives.
    Over,
}

/// Receiving side of one connection.
#[derive(Debug)]
pub struct Transmission {
    agreed: Agreed,
    stage: TransmissionStage,
    /// Part of a header that has arrived, or of a payload of BLOCK_STATUS.
    input: [u8; EXTENDED_LENGTH],
    have: usize,
    shutting_down: bool,
}

impl Transmission {
    /// Starts the phase after the handshake.
    pub fn new(agreed: Agreed) -> Self {
        Self {
            agreed,
            stage: TransmissionStage::Header,
            input: [0; EXTENDED_LENGTH],
            have: 0,
            shutting_down: false,
        }
    }

    /// Refuses every request from now on with SHUTDOWN. A write whose payload is arriving goes on.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Returns the number of missing bytes of the last write's payload. They may be read straight
    /// into their place, and are then reported with [`Transmission::placed`].
    pub fn payload_left(&self) -> usize {
        match self.stage {
            TransmissionStage::Payload(left) => left as usize,
            _ => 0,
        }
    }

    /// Notes that `len` bytes of payload were read into their place, at most
    /// [`Transmission::payload_left`].
    pub fn placed(&mut self, len: usize) {
        if let TransmissionStage::Payload(left) = self.stage {
            let left = (left as usize).saturating_sub(len);
            self.stage = match left {
                0 => TransmissionStage::Header,
                left => TransmissionStage::Payload(left as u32),
            };
        }
    }

    /// Reports whether the stream is between two requests.
    pub fn is_between_requests(&self) -> bool {
        self.stage == TransmissionStage::Header && self.have == 0
    }

    /// Takes the next step from the front of `input`. Call it until it returns [`Step::Pending`].
    pub fn step<'a>(&mut self, input: &mut &'a [u8], export: &Export) -> Step<'a> {
        loop {
            match self.stage {
                TransmissionStage::Header => {
                    if !self.collect(input, Header::length(self.agreed.style)) {
                        return Step::Pending;
                    }
                    let Some(header) = Header::parse(&self.input, self.agreed.style) else {
                        return self.violation("no request where one was expected");
                    };
                    self.have = 0;
                    if let Some(step) = self.begin(&header, export) {
                        return step;
                    }
                }
                TransmissionStage::Payload(_) if input.is_empty() => return Step::Pending,
                TransmissionStage::Payload(left) => {
                    let (piece, rest) = input.split_at(input.len().min(left as usize));
                    *input = rest;
                    self.placed(piece.len());
                    return Step::Payload(piece);
                }
                TransmissionStage::Skipped(left) => {
                    let skipped = usize::try_from(left).map_or(input.len(), |l| l.min(input.len()));
                    *input = &input[skipped..];
                    let left = left - skipped as u64;
                    if left > 0 {
                        self.stage = TransmissionStage::Skipped(left);
                        return Step::Pending;
                    }
                    self.stage = TransmissionStage::Header;
                }
                TransmissionStage::Status(header) => {
                    if !self.collect(input, STATUS_PAYLOAD) {
                        return Step::Pending;
                    }
                    self.have = 0;
                    self.stage = TransmissionStage::Header;
                    return self.status(header, export);
                }
                TransmissionStage::Over => {
                    // A client must not send anything here, so these bytes are dropped.
                    *input = &[];
                    return Step::Pending;
                }
            }
        }
    }

    fn collect(&mut self, input: &mut &[u8], want: usize) -> bool {
        let missing = (want - self.have).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.input[self.have..self.have + missing].copy_from_slice(taken);
        self.have += missing;
        *input = rest;
        self.have == want
    }

    fn violation<'a>(&mut self, what: &'static str) -> Step<'a> {
        self.stage = TransmissionStage::Over;
        Step::Violation(what)
    }

    /// Begins a request whose header has arrived. Returns `None` if its payload is needed first.
    fn begin<'a>(&mut self, header: &Header, export: &Export) -> Option<Step<'a>> {
        let payload = header.payload_len(self.agreed.style);
        let limit = match self.agreed.style {
            // A client that knows extended headers also knows the maximum payload.
            HeaderStyle::Extended => u64::from(export.maximum_payload),
            HeaderStyle::Simple | HeaderStyle::Structured => MAX_SKIPPED,
        };
        if payload > limit {
            return Some(self.violation("a payload that is much too long"));
        }
        if header.kind == command::DISC {
            self.stage = TransmissionStage::Over;
            return Some(Step::Disconnect);
        }
        if payload > 0 {
            self.stage = TransmissionStage::Skipped(payload);
        }
        if !self.shutting_down && header.has_status_payload(self.agreed) {
            if payload == STATUS_PAYLOAD as u64 {
                self.stage = TransmissionStage::Status(*header);
                return None;
            }
            let refusal = Refusal::new(ErrorCode::Inval, "a list of contexts with a wrong length");
            return Some(Step::Answer(header.asked(), Err(refusal)));
        }
        let step = self.judge(header, export);
        if payload > 0 && matches!(step, Step::Request(_)) {
            // The number fits: a write is no longer than the maximum payload.
            self.stage = TransmissionStage::Payload(payload as u32);
        }
        Some(step)
    }

    fn judge<'a>(&self, header: &Header, export: &Export) -> Step<'a> {
        let asked = header.asked();
        if self.shutting_down {
            let refusal = Refusal::new(ErrorCode::Shutdown, "the server is shutting down");
            return Step::Answer(asked, Err(refusal));
        }
        match header.judge(export, self.agreed) {
            Ok(Some(command)) => Step::Request(Request { asked, command }),
            Ok(None) => Step::Answer(asked, Ok(())),
            Err(refusal) => Step::Answer(asked, Err(refusal)),
        }
    }

    /// Handles a BLOCK_STATUS with a payload: an effect length, then the contexts that are wanted.
    fn status<'a>(&self, header: Header, export: &Export) -> Step<'a> {
        let (len, id) = self.input[..STATUS_PAYLOAD].split_at(8);
        if id != BASE_ALLOCATION_ID.to_be_bytes() {
            let refusal = Refusal::new(ErrorCode::Inval, "a context that was not chosen");
            return Step::Answer(header.asked(), Err(refusal));
        }
        let meant = Header {
            flags: header.flags & !command_flag::PAYLOAD_LEN,
            len: len
                .first_chunk()
                .map_or(0, |bytes| u64::from_be_bytes(*bytes)),
            ..header
        };
        self.judge(&meant, export)
    }
}
