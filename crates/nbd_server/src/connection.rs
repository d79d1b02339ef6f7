//! One client: its handshake, its requests as they arrive, its answers as they leave.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::Instant;

use nbd::Export;
use nbd::handshake::{End, Handshake, Progress, TlsMode};
use nbd::reply::Replies;
use nbd::request::{Command, Request};
use nbd::transmission::{Step, Transmission};
use rustls::ServerConfig;
use smallvec::SmallVec;

use super::fence::Place;
use super::operation::{Operation, changes, memory, only_answers};
use super::output::Output;
use super::stream::{Received, Stream};
use block::budget::{Reservation, Share};
use block::{Pages, PagesMut};
use pages::PAGE_SIZE;
use scsi::nexus::TargetPort;
use unit::execution::{Executor, Outcome};
use unit::nexus::Nexus;
use unit::unit::Unit;

/// Requests of one connection that may be at the device; those after them wait in the socket.
const MAX_IN_FLIGHT: usize = 512;
/// Headers and errors that may wait for the socket; then the connection is not read.
const OUTPUT_LIMIT: usize = 1 << 20;
/// A payload of which so much is missing is read straight into its pages.
const DIRECT_THRESHOLD: usize = 32 << 10;
/// Pieces of one vectored read.
const MAX_ROOM: usize = 256;

/// What all connections of one loop have in common.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) unit: Arc<Unit>,
    /// Port through which clients reach the unit.
    pub(super) port: Arc<TargetPort>,
    pub(super) export: Export,
    pub(super) executor: Executor<Operation>,
    /// Those of which the next piece is to be asked for, in the next turn.
    pub(super) unfinished: Vec<Operation>,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) now: Instant,
}

/// A write whose payload is arriving.
#[derive(Debug)]
struct Writing {
    request: Request,
    buffer: PagesMut,
    filled: usize,
    reservation: Option<Reservation>,
}

/// The transmission phase.
#[derive(Debug)]
struct Serving {
    protocol: Transmission,
    replies: Replies,
    writing: Option<Writing>,
    /// It waits for memory, or for those before it.
    waiting: Option<Request>,
    /// Its first request has passed the fence.
    arrived: bool,
    /// What was received last comes behind so many who left; `None` where nobody has looked yet.
    behind: Option<u64>,
}

#[derive(Debug)]
enum Phase {
    Handshake(Box<Handshake>),
    Serving(Box<Serving>),
    /// What waits is sent, nothing is read.
    Ended,
}

/// A client.
#[derive(Debug)]
pub(super) struct Connection {
    /// `None` once it is gone and only its requests at the device remain.
    stream: Option<Stream>,
    /// Its way to the unit.
    nexus: Arc<Nexus>,
    phase: Phase,
    pub(super) output: Output,
    /// Received, but what comes before it waits.
    held: Vec<u8>,
    /// Why [`Connection::held`] waits: it is not read meanwhile.
    pub(super) paused: Option<Pause>,
    in_flight: usize,
    changes_in_flight: usize,
    /// What needs no more than an answer, of a client that sends nothing more: it waits for memory,
    /// and what changes blocks does not wait for it.
    later: VecDeque<Request>,
    share: Arc<Share>,
    /// The client sends no more, or is not listened to any more.
    done_reading: bool,
    /// The socket takes no answers any more. What the client sent is performed nevertheless: all
    /// that comes before a DISC is due.
    deaf: bool,
    /// The socket is of no use any more.
    broken: bool,
    /// After some more bytes nothing comes, and others wait until all changes that came are
    /// performed or dropped.
    leaving: bool,
    /// The socket took nothing: wait for it to become writable.
    pub(super) blocked: bool,
    /// In the loop's list of connections that need a look.
    pub(super) touched: bool,
    /// In the loop's list of connections that may have input.
    pub(super) ready: bool,
    since: Instant,
    /// When bytes last came or left, before the client left.
    moved: Instant,
    /// In the line at the fence; given up after the socket.
    place: Place,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Memory, or that its own requests come back.
    Memory,
    /// For connections that are gone, perhaps of another loop.
    Fence,
}

impl Connection {
    /// A client that has just come.
    pub(super) fn new(
        stream: Stream,
        nexus: Arc<Nexus>,
        tls: TlsMode,
        share: Arc<Share>,
        place: Place,
        now: Instant,
    ) -> Self {
        let mut output = Output::default();
        let mut handshake = None;
        output.put(|out| handshake = Some(Handshake::new(tls, out)));
        Self {
            stream: Some(stream),
            nexus,
            phase: match handshake {
                Some(handshake) => Phase::Handshake(Box::new(handshake)),
                None => Phase::Ended,
            },
            output,
            held: Vec::new(),
            paused: None,
            in_flight: 0,
            changes_in_flight: 0,
            later: VecDeque::new(),
            share,
            done_reading: false,
            deaf: false,
            broken: false,
            leaving: false,
            blocked: false,
            touched: false,
            ready: false,
            since: now,
            moved: now,
            place,
        }
    }

    /// Whether its client sends nothing more.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether its socket is closed; requests of it may still be at the device.
    pub(super) fn is_gone(&self) -> bool {
        self.stream.is_none()
    }

    /// Requests at the device.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// When it came, while it still shakes hands.
    pub(super) fn handshaking_since(&self) -> Option<Instant> {
        matches!(self.phase, Phase::Handshake(_)).then_some(self.since)
    }

    /// Since when a client has moved nothing though memory is held for it.
    pub(super) fn sits_on_memory_since(&self) -> Option<Instant> {
        let receives = !self.leaving
            && matches!(&self.phase, Phase::Serving(serving) if serving.writing.is_some());
        let sends = self.blocked && !self.output.is_empty();
        (receives || sends).then_some(self.moved)
    }

    /// Whether it is to be read.
    pub(super) fn wants_input(&self) -> bool {
        !self.done_reading && !self.broken && self.paused.is_none() && self.stream.is_some()
    }

    /// Reads once and goes on with what came; `true` where more may be waiting.
    pub(super) fn read(&mut self, slot: usize, buffer: &mut [u8], service: &mut Service) -> bool {
        if !self.wants_input() {
            return false;
        }
        let (received, placed) = self.receive(buffer);
        let count = match received {
            Received::Last(count) | Received::More(count) => count,
            Received::Nothing => return false,
            Received::Closed => {
                self.end_of_input();
                return false;
            }
        };
        self.note_move(service.now);
        if let Phase::Serving(serving) = &mut self.phase {
            serving.behind = None;
        }
        if placed > 0 {
            self.placed(slot, placed.min(count), service);
        }
        self.go_on(slot, &buffer[..count.saturating_sub(placed)], service);
        // The end of the input is told once, with the bytes before it.
        self.leaving || matches!(received, Received::More(_))
    }

    /// Reads what is waiting: the rest of a long payload straight to its place, what follows to
    /// `buffer`. The second value is how much room there was at the place.
    fn receive(&mut self, buffer: &mut [u8]) -> (Received, usize) {
        let Some(stream) = &mut self.stream else {
            return (Received::Closed, 0);
        };
        if let Phase::Serving(serving) = &mut self.phase
            && let Some(writing) = &mut serving.writing
            && serving.protocol.payload_left() >= DIRECT_THRESHOLD
            && stream.is_plain()
        {
            let left = serving.protocol.payload_left();
            let mut pieces: SmallVec<[IoSliceMut<'_>; 16]> = SmallVec::new();
            let mut placed = 0;
            for piece in writing
                .buffer
                .chunks_mut(writing.filled, left)
                .take(MAX_ROOM)
            {
                placed += piece.len();
                pieces.push(IoSliceMut::new(piece));
            }
            if placed == left {
                pieces.push(IoSliceMut::new(buffer));
            }
            return (stream.read_vectored(&mut pieces), placed);
        }
        (stream.read(buffer), 0)
    }

    /// So many bytes of a payload were read into their place.
    fn placed(&mut self, slot: usize, count: usize, service: &mut Service) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        serving.protocol.placed(count);
        if let Some(writing) = &mut serving.writing {
            writing.buffer.mark_filled(writing.filled, count);
            writing.filled += count;
        }
        self.submit_if_whole(slot, service);
    }

    /// Goes on with what was received.
    fn go_on(&mut self, slot: usize, bytes: &[u8], service: &mut Service) {
        match &self.phase {
            Phase::Handshake(_) => self.shake_hands(slot, bytes, service),
            Phase::Serving(_) => self.serve(slot, bytes, service),
            Phase::Ended => {}
        }
    }

    fn shake_hands(&mut self, slot: usize, bytes: &[u8], service: &mut Service) {
        let Phase::Handshake(handshake) = &mut self.phase else {
            return;
        };
        let (mut used, mut progress) = (0, Progress::Pending);
        self.output
            .put(|out| (used, progress) = handshake.receive(bytes, &service.export, out));
        match progress {
            Progress::Pending => {}
            Progress::StartTls => self.start_tls(service),
            Progress::Transmission(agreed) => {
                tracing::debug!(slot, ?agreed, "a client begins");
                self.phase = Phase::Serving(Box::new(Serving {
                    protocol: Transmission::new(agreed),
                    replies: Replies::new(agreed, service.export.minimum_block),
                    writing: None,
                    waiting: None,
                    arrived: false,
                    behind: None,
                }));
                self.serve(slot, &bytes[used..], service);
            }
            Progress::Ended(end) => {
                match end {
                    End::Aborted => tracing::debug!(slot, "a client left"),
                    _ => tracing::info!(slot, %end, "a handshake ended"),
                }
                self.phase = Phase::Ended;
                self.end_of_requests();
            }
        }
    }

    fn start_tls(&mut self, service: &Service) {
        let before = self.output.take_bytes();
        let (Some(stream), Some(config)) = (&mut self.stream, &service.tls) else {
            self.broken = true;
            return;
        };
        if let Err(error) = stream.start_tls(Arc::clone(config), before) {
            tracing::warn!(%error, "TLS cannot be begun");
            self.broken = true;
        }
    }

    /// Goes on with requests until the bytes are used up or something must be waited for.
    fn serve(&mut self, slot: usize, bytes: &[u8], service: &mut Service) {
        if bytes.is_empty() {
            return;
        }
        let mut input = bytes;
        loop {
            if let Some(pause) = self.must_wait(slot, service) {
                self.paused = Some(pause);
                self.held = input.to_vec();
                return;
            }
            let Phase::Serving(serving) = &mut self.phase else {
                return;
            };
            match serving.protocol.step(&mut input, &service.export) {
                Step::Pending => return,
                Step::Request(request) => serving.waiting = Some(request),
                Step::Payload(piece) => {
                    if let Some(writing) = &mut serving.writing {
                        writing.buffer.copy_from(writing.filled, piece);
                        writing.filled += piece.len();
                    }
                    self.submit_if_whole(slot, service);
                }
                Step::Answer(asked, result) => {
                    let replies = serving.replies;
                    self.output.put(|out| match result {
                        Ok(()) => replies.done(&asked, out),
                        Err(refusal) => {
                            replies.error(&asked, refusal.code, refusal.message, None, out);
                        }
                    });
                }
                Step::Disconnect => {
                    self.end_of_requests();
                    return;
                }
                Step::Violation(what) => {
                    tracing::info!(slot, what, "a client does not speak the protocol");
                    self.end_of_requests();
                    self.broken = true;
                    return;
                }
            }
        }
    }

    /// Begins the request that waits, if there is one. `Some` where it must go on waiting.
    fn must_wait(&mut self, slot: usize, service: &mut Service) -> Option<Pause> {
        let Phase::Serving(serving) = &mut self.phase else {
            return None;
        };
        // Of a client that sends nothing more there are no more requests than a socket holds.
        let too_slow = self.output.own_len() > OUTPUT_LIMIT && !self.leaving;
        if self.in_flight >= MAX_IN_FLIGHT || too_slow {
            return Some(Pause::Memory);
        }
        let request = serving.waiting?;
        if !serving.arrived || changes(&request.command) {
            let behind = *serving.behind.get_or_insert_with(|| self.place.look());
            if !self.place.is_open(behind) {
                return Some(Pause::Fence);
            }
            serving.arrived = true;
        }
        if self.leaving && only_answers(&request.command) {
            serving.waiting = None;
            if !self.deaf {
                self.later.push_back(request);
            }
            return None;
        }
        let Some(reservation) = reserve(&self.share, &request) else {
            return Some(Pause::Memory);
        };
        serving.waiting = None;
        if let Command::Write { offset, len, .. } = request.command {
            let skew = offset as usize % PAGE_SIZE;
            serving.writing = Some(Writing {
                request,
                buffer: PagesMut::allocate_at(len as usize, skew),
                filled: 0,
                reservation,
            });
        } else {
            self.submit(slot, request, Pages::new(), reservation, service);
        }
        None
    }

    /// Begins what was put off, now that all changes have begun; `true` where there was something.
    pub(super) fn catch_up(&mut self, slot: usize, service: &mut Service) -> bool {
        let before = self.later.len();
        while self.done_reading && self.in_flight < MAX_IN_FLIGHT {
            let Some(request) = self.later.front().copied() else {
                break;
            };
            let Some(reservation) = reserve(&self.share, &request) else {
                break;
            };
            self.later.pop_front();
            self.submit(slot, request, Pages::new(), reservation, service);
        }
        self.later.len() < before
    }

    /// Submits the write whose payload has arrived whole.
    fn submit_if_whole(&mut self, slot: usize, service: &mut Service) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        if serving.protocol.payload_left() > 0 {
            return;
        }
        if let Some(writing) = serving.writing.take() {
            let data = writing.buffer.freeze();
            self.submit(slot, writing.request, data, writing.reservation, service);
        }
    }

    fn submit(
        &mut self,
        slot: usize,
        wanted: Request,
        data: Pages,
        reservation: Option<Reservation>,
        service: &mut Service,
    ) {
        let operation = Operation::new(slot, wanted, reservation);
        self.in_flight += 1;
        self.changes_in_flight += usize::from(changes(&operation.command));
        self.start(operation, data, service);
    }

    /// Asks the unit for an operation, or for its next piece.
    pub(super) fn start(&mut self, operation: Operation, data: Pages, service: &mut Service) {
        let request = operation.request(data);
        let ended = (service.executor).submit(&self.nexus, request, operation);
        if let Some((operation, outcome)) = ended {
            self.finished(operation, outcome, service);
        }
    }

    /// Takes the outcome of a request of this connection.
    pub(super) fn finished(
        &mut self,
        mut operation: Operation,
        outcome: Outcome,
        service: &mut Service,
    ) {
        if matches!(outcome, Outcome::Done(_)) && operation.goes_on() {
            service.unfinished.push(operation);
            return;
        }
        self.in_flight -= 1;
        if changes(&operation.command) {
            self.changes_in_flight -= 1;
            self.let_others_pass();
        }
        if let Phase::Serving(serving) = &self.phase
            && !self.deaf
            && self.stream.is_some()
        {
            operation.answer(outcome, &serving.replies, &mut self.output);
        }
    }

    /// Goes on if what it waited for has come; `false` where it has not.
    pub(super) fn resume(&mut self, slot: usize, service: &mut Service) -> bool {
        self.paused = self.must_wait(slot, service);
        if self.paused.is_some() {
            return false;
        }
        let held = std::mem::take(&mut self.held);
        self.go_on(slot, &held, service);
        true
    }

    /// The client closed its end. What it asked for whole is done and answered, in case it listens.
    fn end_of_input(&mut self) {
        self.end_of_requests();
        if let Phase::Handshake(_) = self.phase {
            self.broken = true;
        }
    }

    /// The poller says that the client closed its end, or that the socket is broken: others wait
    /// until the changes that came before that are read and performed.
    pub(super) fn leave(&mut self) {
        if !self.leaving {
            self.leaving = true;
            self.place.leave();
        }
        self.let_others_pass();
    }

    /// Once nothing more is changed, it is in nobody's way.
    fn let_others_pass(&self) {
        if self.leaving && self.done_reading && self.changes_in_flight == 0 {
            self.place.is_over(self.stream.as_ref());
        }
    }

    /// No more requests come. Others wait for its writes at the device.
    fn end_of_requests(&mut self) {
        if self.done_reading {
            return;
        }
        self.done_reading = true;
        self.paused = None;
        self.held = Vec::new();
        if let Phase::Serving(serving) = &mut self.phase {
            serving.writing = None;
            serving.waiting = None;
        }
        self.leave();
    }

    /// Gives it up.
    pub(super) fn give_up(&mut self) {
        self.end_of_requests();
        self.broken = true;
    }

    /// The client does not take its answers in time: they are dropped. One that is here is sent
    /// away; of one that has left all that it sent is performed.
    pub(super) fn give_up_answers(&mut self) {
        if self.leaving {
            self.turn_deaf();
        } else {
            self.give_up();
        }
    }

    fn turn_deaf(&mut self) {
        self.deaf = true;
        self.output = Output::default();
        self.later = VecDeque::new();
    }

    fn note_move(&mut self, now: Instant) {
        if !self.leaving {
            self.moved = now;
        }
    }

    /// The server ends: new requests are refused, those under way are answered. Of a client that
    /// has left all are under way.
    pub(super) fn shut_down(&mut self) {
        match &mut self.phase {
            Phase::Handshake(_) => self.give_up(),
            Phase::Serving(_) if self.leaving => {}
            Phase::Serving(serving) => serving.protocol.shut_down(),
            Phase::Ended => {}
        }
    }

    /// Whether a connection of a server that ends has nothing more to do.
    fn is_idle(&self) -> bool {
        let serves = match &self.phase {
            Phase::Serving(serving) => serving.writing.is_some() || serving.waiting.is_some(),
            Phase::Handshake(_) | Phase::Ended => false,
        };
        self.in_flight == 0 && self.later.is_empty() && !serves
    }

    /// Writes what waits.
    pub(super) fn write(&mut self, service: &Service) {
        if self.deaf {
            self.output = Output::default();
            return;
        }
        while !self.blocked && !self.broken {
            let Some(stream) = &mut self.stream else {
                return;
            };
            let result = if self.output.is_empty() {
                match stream.flush() {
                    Ok(()) => return,
                    Err(error) => Err(error),
                }
            } else {
                stream.write(&self.output.gather())
            };
            match result {
                Ok(count) => {
                    self.output.left(count);
                    self.note_move(service.now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.turn_deaf(),
            }
        }
    }

    /// Closes the socket where the connection is over. `true` where it has been closed, now or
    /// before.
    pub(super) fn close_if_over(&mut self, stopping: bool) -> bool {
        let drained = self.deaf || (self.output.is_empty() && !self.blocked);
        let ends = self.done_reading || (stopping && !self.leaving);
        if !(self.broken || (ends && self.is_idle() && drained)) {
            return self.is_gone();
        }
        self.end_of_requests();
        if let Some(mut stream) = self.stream.take() {
            stream.close();
        }
        self.output = Output::default();
        self.later = VecDeque::new();
        self.phase = Phase::Ended;
        true
    }
}

/// The memory that a request takes while it is under way, where there is so much.
fn reserve(share: &Arc<Share>, request: &Request) -> Option<Option<Reservation>> {
    match memory(&request.command) {
        0 => Some(None),
        bytes => share.try_take(bytes).map(Some),
    }
}
