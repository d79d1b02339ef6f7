//! Handshake of a connection: fixed newstyle negotiation, option after option, until the client
//! begins transmission or leaves ("Fixed newstyle negotiation", "TLS support").

use std::fmt;

use crate::Export;
use crate::option::{ContextRequest, InfoRequest, OptionReplies};
use crate::wire::handshake_flag::{FIXED_NEWSTYLE, NO_ZEROES};
use crate::wire::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, INIT_MAGIC, OPTION_MAGIC, info, option_code as option,
    option_reply as reply, transmission_flag as flag,
};

/// Most option data that is read, in bytes. Longer data is skipped, and the option refused. It is
/// enough for a name and as many queries or information requests as any client has.
const MAX_OPTION_DATA: u32 = 64 << 10;
/// Length in bytes above which option data is not even skipped.
const MAX_SKIPPED: u32 = 32 << 20;
/// Number of options that a connection may send before it must have begun transmission.
const MAX_OPTIONS: u32 = 1024;
/// Length of an option header: magic, option, length.
const OPTION_HEADER: usize = 16;

/// Policy of a server about TLS ("Server-side requirements").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// The server has no certificate (NOTLS).
    #[default]
    None,
    /// Clients may use TLS (SELECTIVETLS, the export being open to all).
    Allow,
    /// Clients must use TLS (FORCEDTLS).
    Require,
}

/// Style in which requests and replies are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderStyle {
    /// Compact requests, simple replies.
    #[default]
    Simple,
    /// Compact requests, structured replies.
    Structured,
    /// Extended requests and replies.
    Extended,
}

/// Agreement of both sides for the transmission phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Style of headers.
    pub style: HeaderStyle,
    /// Whether `base:allocation` was chosen, so that BLOCK_STATUS may come.
    pub allocation: bool,
}

/// Progress of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The handshake needs more bytes.
    Pending,
    /// TLS begins once the output has left. Bytes received from then on are to be decrypted first.
    StartTls,
    /// The transmission phase begins once the output has left. Bytes that were not consumed belong
    /// to it.
    Transmission(Agreed),
    /// The connection is closed once the output has left.
    Ended(End),
}

/// Reasons why a handshake ended without transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client ended it.
    Aborted,
    /// The received bytes are not the protocol.
    Violation(&'static str),
    /// The client asks for something that can only be refused by closing, with EXPORT_NAME or
    /// without fixed newstyle.
    Refused(&'static str),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aborted => f.write_str("the client disconnected"),
            Self::Violation(what) => write!(f, "the client broke the protocol: {what}"),
            Self::Refused(what) => write!(f, "refused: {what}"),
        }
    }
}

/// Position of the handshake in the stream.
#[derive(Clone, Copy, Debug)]
enum HandshakeStage {
    /// The client's flags are next.
    ClientFlags,
    /// An option is next, or partly there.
    Options,
    /// Bytes of option data that remain to be skipped. The option is then refused with this kind of
    /// reply.
    Skipping { option: u32, left: u32, kind: u32 },
    /// The handshake is over.
    Over,
}

/// Handshake of one connection.
#[derive(Debug)]
pub struct Handshake {
    stage: HandshakeStage,
    /// Bytes of the flags or the option that is arriving.
    input: Vec<u8>,
    tls: TlsMode,
    encrypted: bool,
    fixed: bool,
    no_zeroes: bool,
    options: u32,
    style: HeaderStyle,
    allocation: bool,
}

impl Handshake {
    /// Starts a handshake, with the server's first bytes in `out`.
    pub fn new(tls: TlsMode, out: &mut Vec<u8>) -> Self {
        out.extend(INIT_MAGIC.to_be_bytes());
        out.extend(OPTION_MAGIC.to_be_bytes());
        out.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
        Self {
            stage: HandshakeStage::ClientFlags,
            input: Vec::new(),
            tls,
            encrypted: false,
            fixed: false,
            no_zeroes: false,
            options: 0,
            style: HeaderStyle::Simple,
            allocation: false,
        }
    }

    /// Takes received bytes, and returns the number used and the progress of the handshake. All
    /// bytes are used unless the handshake is over.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        export: &Export,
        out: &mut Vec<u8>,
    ) -> (usize, Progress) {
        let mut rest = bytes;
        let progress = loop {
            let progress = match self.stage {
                HandshakeStage::ClientFlags => self.client_flags(&mut rest),
                HandshakeStage::Options => self.option(&mut rest, export, out),
                HandshakeStage::Skipping { option, left, kind } => {
                    self.skip(&mut rest, option, left, kind, out)
                }
                HandshakeStage::Over => {
                    Some(Progress::Ended(End::Violation("bytes after the end")))
                }
            };
            match progress {
                None => {}
                Some(Progress::StartTls) if !rest.is_empty() => {
                    // An attacker in the middle could have added these bytes, to be trusted once
                    // TLS protects the stream.
                    break Progress::Ended(End::Violation("bytes between STARTTLS and TLS"));
                }
                Some(progress) => break progress,
            }
        };
        if matches!(progress, Progress::Transmission(_) | Progress::Ended(_)) {
            self.stage = HandshakeStage::Over;
        }
        (bytes.len() - rest.len(), progress)
    }

    /// Moves bytes from `rest` until `want` have been collected.
    fn collect(&mut self, rest: &mut &[u8], want: usize) -> bool {
        let missing = want.saturating_sub(self.input.len()).min(rest.len());
        let (taken, left) = rest.split_at(missing);
        self.input.extend_from_slice(taken);
        *rest = left;
        self.input.len() >= want
    }

    fn client_flags(&mut self, rest: &mut &[u8]) -> Option<Progress> {
        if !self.collect(rest, 4) {
            return Some(Progress::Pending);
        }
        let flags = big_endian_u32(&self.input);
        self.input.clear();
        if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return Some(Progress::Ended(End::Violation("unknown client flags")));
        }
        self.fixed = flags & u32::from(FIXED_NEWSTYLE) != 0;
        self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        self.stage = HandshakeStage::Options;
        None
    }

    fn option(&mut self, rest: &mut &[u8], export: &Export, out: &mut Vec<u8>) -> Option<Progress> {
        if !self.collect(rest, OPTION_HEADER) {
            return Some(Progress::Pending);
        }
        if self.input[..8] != OPTION_MAGIC.to_be_bytes() {
            return Some(Progress::Ended(End::Violation(
                "no option where one was expected",
            )));
        }
        let code = big_endian_u32(&self.input[8..]);
        let len = big_endian_u32(&self.input[12..]);
        if self.input.len() == OPTION_HEADER
            && let Some(progress) = self.option_begins(code, len)
        {
            return progress;
        }
        if !self.collect(rest, OPTION_HEADER + len as usize) {
            return Some(Progress::Pending);
        }
        let input = std::mem::take(&mut self.input);
        let progress = self.whole_option(code, &input[OPTION_HEADER..], export, out);
        self.input = input;
        self.input.clear();
        progress
    }

    /// Checks the header of an option before memory is taken for its data. Returns `Some` if the
    /// data is not to be collected.
    fn option_begins(&mut self, code: u32, len: u32) -> Option<Option<Progress>> {
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return Some(Some(Progress::Ended(End::Violation("too many options"))));
        }
        if len > MAX_SKIPPED {
            return Some(Some(Progress::Ended(End::Violation(
                "an option that is too long",
            ))));
        }
        if code != option::EXPORT_NAME && !self.fixed {
            let end = End::Refused("an option without fixed newstyle");
            return Some(Some(Progress::Ended(end)));
        }
        let known = matches!(
            code,
            option::EXPORT_NAME..=option::LIST | option::STARTTLS..=option::EXTENDED_HEADERS
        );
        let kind = match code {
            _ if self.tls_is_missing() && !matches!(code, option::STARTTLS | option::ABORT) => {
                if code == option::EXPORT_NAME {
                    let end = End::Refused("TLS is required");
                    return Some(Some(Progress::Ended(end)));
                }
                reply::ERR_TLS_REQD
            }
            _ if !known => reply::ERR_UNSUP,
            option::EXPORT_NAME if len > MAX_OPTION_DATA => {
                let end = End::Refused("there is no such export");
                return Some(Some(Progress::Ended(end)));
            }
            _ if len > MAX_OPTION_DATA => reply::ERR_TOO_BIG,
            _ => return None,
        };
        self.input.clear();
        self.stage = HandshakeStage::Skipping {
            option: code,
            left: len,
            kind,
        };
        Some(None)
    }

    fn tls_is_missing(&self) -> bool {
        self.tls == TlsMode::Require && !self.encrypted
    }

    fn skip(
        &mut self,
        rest: &mut &[u8],
        option: u32,
        left: u32,
        kind: u32,
        out: &mut Vec<u8>,
    ) -> Option<Progress> {
        let skipped = rest.len().min(left as usize);
        *rest = &rest[skipped..];
        let left = left - skipped as u32;
        if left > 0 {
            self.stage = HandshakeStage::Skipping { option, left, kind };
            return Some(Progress::Pending);
        }
        let message: &[u8] = match kind {
            reply::ERR_TLS_REQD => b"this server speaks TLS only",
            reply::ERR_TOO_BIG => b"the option is too long",
            _ => b"unknown option",
        };
        OptionReplies { option, out }.put(kind, &[message]);
        self.stage = HandshakeStage::Options;
        None
    }

    fn whole_option(
        &mut self,
        code: u32,
        data: &[u8],
        export: &Export,
        out: &mut Vec<u8>,
    ) -> Option<Progress> {
        let mut replies = OptionReplies { option: code, out };
        let no_data_allowed = matches!(
            code,
            option::LIST | option::STARTTLS | option::STRUCTURED_REPLY | option::EXTENDED_HEADERS
        );
        if no_data_allowed && !data.is_empty() {
            replies.put(reply::ERR_INVALID, &[b"this option has no data"]);
            return None;
        }
        match code {
            option::EXPORT_NAME => return Some(self.export_name(data, export, replies.out)),
            option::ABORT => {
                replies.put(reply::ACK, &[]);
                return Some(Progress::Ended(End::Aborted));
            }
            option::LIST => {
                let name = export.name.as_bytes();
                let len = (name.len() as u32).to_be_bytes();
                replies.put(reply::SERVER, &[&len, name, export.description.as_bytes()]);
                replies.put(reply::ACK, &[]);
            }
            option::STARTTLS => return self.start_tls(&mut replies),
            option::INFO | option::GO => return self.describe(data, export, &mut replies),
            option::STRUCTURED_REPLY if self.style == HeaderStyle::Extended => {
                let message = b"extended headers are already agreed";
                replies.put(reply::ERR_EXT_HEADER_REQD, &[message]);
            }
            option::STRUCTURED_REPLY => {
                self.style = HeaderStyle::Structured;
                replies.put(reply::ACK, &[]);
            }
            option::EXTENDED_HEADERS => {
                self.style = HeaderStyle::Extended;
                replies.put(reply::ACK, &[]);
            }
            _ => self.meta_context(data, export, &mut replies),
        }
        None
    }

    fn export_name(&self, name: &[u8], export: &Export, out: &mut Vec<u8>) -> Progress {
        if !export.answers_to(name) {
            return Progress::Ended(End::Refused("there is no such export"));
        }
        if self.style == HeaderStyle::Extended {
            return Progress::Ended(End::Violation("EXPORT_NAME with extended headers"));
        }
        out.extend(export.size.to_be_bytes());
        out.extend(self.flags(export).to_be_bytes());
        if !self.no_zeroes {
            out.extend([0; 124]);
        }
        Progress::Transmission(self.agreed())
    }

    fn start_tls(&mut self, replies: &mut OptionReplies<'_>) -> Option<Progress> {
        if self.encrypted {
            replies.put(reply::ERR_INVALID, &[b"the connection already uses TLS"]);
            return None;
        }
        if self.tls == TlsMode::None {
            replies.put(reply::ERR_POLICY, &[b"this server has no certificate"]);
            return None;
        }
        replies.put(reply::ACK, &[]);
        // An attacker in the middle may have sent any of the bytes so far.
        self.encrypted = true;
        self.style = HeaderStyle::Simple;
        self.allocation = false;
        Some(Progress::StartTls)
    }

    /// Answers INFO and GO.
    fn describe(
        &self,
        data: &[u8],
        export: &Export,
        replies: &mut OptionReplies<'_>,
    ) -> Option<Progress> {
        let Some(request) = InfoRequest::parse(data) else {
            replies.put(reply::ERR_INVALID, &[b"the lengths do not match"]);
            return None;
        };
        if !export.answers_to(request.name) {
            replies.put(reply::ERR_UNKNOWN, &[b"there is no such export"]);
            return None;
        }
        let size = export.size.to_be_bytes();
        let flags = self.flags(export).to_be_bytes();
        let mut tell = |what: u16, data: &[&[u8]]| {
            let kind = what.to_be_bytes();
            replies.put(reply::INFO, &[&[&kind[..]], data].concat());
        };
        tell(info::EXPORT, &[&size, &flags]);
        if request.wants(info::NAME) {
            tell(info::NAME, &[export.name.as_bytes()]);
        }
        if request.wants(info::DESCRIPTION) && !export.description.is_empty() {
            tell(info::DESCRIPTION, &[export.description.as_bytes()]);
        }
        // The block size is always sent, because a client that did not ask for it may still use it.
        tell(
            info::BLOCK_SIZE,
            &[
                &export.minimum_block.to_be_bytes(),
                &export.preferred_block.to_be_bytes(),
                &export.maximum_payload.to_be_bytes(),
            ],
        );
        replies.put(reply::ACK, &[]);
        (replies.option == option::GO).then(|| Progress::Transmission(self.agreed()))
    }

    /// Answers LIST_META_CONTEXT and SET_META_CONTEXT.
    fn meta_context(&mut self, data: &[u8], export: &Export, replies: &mut OptionReplies<'_>) {
        let sets = replies.option == option::SET_META_CONTEXT;
        if sets {
            // This holds even if the request fails.
            self.allocation = false;
        }
        if self.style == HeaderStyle::Simple {
            replies.put(
                reply::ERR_INVALID,
                &[b"structured replies must be agreed first"],
            );
            return;
        }
        let Some(request) = ContextRequest::parse(data) else {
            replies.put(reply::ERR_INVALID, &[b"the lengths do not match"]);
            return;
        };
        if !export.answers_to(request.export) {
            replies.put(reply::ERR_UNKNOWN, &[b"there is no such export"]);
            return;
        }
        let by_name = request.asks_for(BASE_ALLOCATION);
        let found = by_name || (!sets && (request.count == 0 || request.asks_for("base:")));
        if found {
            let id = if sets { BASE_ALLOCATION_ID } else { 0 };
            replies.put(
                reply::META_CONTEXT,
                &[&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()],
            );
        }
        self.allocation |= sets && found;
        replies.put(reply::ACK, &[]);
    }

    fn flags(&self, export: &Export) -> u16 {
        let mut flags = export.flags();
        if self.style != HeaderStyle::Simple {
            flags |= flag::SEND_DF;
        }
        if self.style == HeaderStyle::Extended && self.allocation {
            flags |= flag::BLOCK_STATUS_PAYLOAD;
        }
        flags
    }

    fn agreed(&self) -> Agreed {
        Agreed {
            style: self.style,
            allocation: self.allocation,
        }
    }
}

/// Reads the first four bytes. The caller made sure that they are there.
fn big_endian_u32(bytes: &[u8]) -> u32 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
