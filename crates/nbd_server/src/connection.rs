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
use unit::timing::{CommandStage, Stopwatch};
use unit::unit::Unit;

/// Most requests of one connection at the device. Further ones wait in the socket.
const MAX_IN_FLIGHT: usize = 512;
/// Bytes of headers and errors waiting for the socket above which the connection is not read.
const OUTPUT_LIMIT: usize = 1 << 20;
/// Missing bytes of a payload from which the payload is read straight into its pages.
const DIRECT_THRESHOLD: usize = 32 << 10;
/// Most pieces of one vectored read.
const MAX_ROOM: usize = 256;

/// Common state of all connections of one loop.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) unit: Arc<Unit>,
    /// Port through which clients reach the unit.
    pub(super) port: Arc<TargetPort>,
    pub(super) export: Export,
    pub(super) executor: Executor<Operation>,
    /// Operations whose next piece is requested in the next turn.
    pub(super) unfinished: Vec<Operation>,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) now: Instant,
}

/// Write whose payload is arriving.
#[derive(Debug)]
struct Writing {
    request: Request,
    buffer: PagesMut,
    filled: usize,
    reservation: Option<Reservation>,
    stopwatch: Stopwatch,
}

/// Request that has not begun, and the time that it has spent so far.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    stopwatch: Stopwatch,
}

/// Transmission phase.
#[derive(Debug)]
struct Serving {
    protocol: Transmission,
    replies: Replies,
    writing: Option<Writing>,
    /// Request that waits for memory, or for earlier departures.
    waiting: Option<Waiting>,
    /// Whether the first request has passed the fence.
    arrived: bool,
    /// Number of departures that the last received data comes behind; `None` if nobody has looked
    /// yet.
    behind: Option<u64>,
}

#[derive(Debug)]
enum Phase {
    Handshake(Box<Handshake>),
    Serving(Box<Serving>),
    /// End: waiting answers are sent, and nothing is read.
    Ended,
}

/// Client of the server.
#[derive(Debug)]
pub(super) struct Connection {
    /// Stream; `None` once it is closed and only requests at the device remain.
    stream: Option<Stream>,
    /// Nexus of the connection: the way to the unit.
    nexus: Arc<Nexus>,
    phase: Phase,
    pub(super) output: Output,
    /// Bytes that were received, but wait for earlier data.
    held: Vec<u8>,
    /// Reason why [`Connection::held`] waits. The connection is not read meanwhile.
    pub(super) paused: Option<Pause>,
    in_flight: usize,
    changes_in_flight: usize,
    /// Requests of a client that sends nothing more, which need only an answer. They wait for
    /// memory, and requests that change blocks do not wait for them.
    later: VecDeque<Waiting>,
    share: Arc<Share>,
    /// Whether the client sends no more, or is not listened to any more.
    done_reading: bool,
    /// Whether the socket takes no answers any more. The client's data is processed nevertheless:
    /// everything before a DISC must be performed.
    deaf: bool,
    /// Whether the socket is broken.
    broken: bool,
    /// Whether the client is leaving: after some more bytes nothing comes. Other clients wait until
    /// all its received changes are performed or dropped.
    leaving: bool,
    /// Whether the socket took nothing, so that the loop waits for it to become writable.
    pub(super) blocked: bool,
    /// Whether the connection is in the loop's list of connections to look at.
    pub(super) touched: bool,
    /// Whether the connection is in the loop's list of connections that may have input.
    pub(super) ready: bool,
    since: Instant,
    /// Time at which bytes last came or left, before the client left.
    moved: Instant,
    /// Place in the line at the fence. It is given up after the socket.
    place: Place,
}

/// Reason for which a connection waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Wait for memory, or for the connection's own requests to come back.
    Memory,
    /// Wait for connections that are gone, perhaps of another loop.
    Fence,
}

impl Connection {
    /// Creates the connection of a new client.
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

    /// Reports whether the client sends nothing more.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Reports whether the socket is closed. The connection's requests may still be at the device.
    pub(super) fn is_gone(&self) -> bool {
        self.stream.is_none()
    }

    /// Returns the number of requests at the device.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the time at which the client came, while it is still in its handshake.
    pub(super) fn handshaking_since(&self) -> Option<Instant> {
        matches!(self.phase, Phase::Handshake(_)).then_some(self.since)
    }

    /// Returns the time since which a client has moved nothing, although memory is held for it.
    pub(super) fn sits_on_memory_since(&self) -> Option<Instant> {
        let receives = !self.leaving
            && matches!(&self.phase, Phase::Serving(serving) if serving.writing.is_some());
        let sends = self.blocked && !self.output.is_empty();
        (receives || sends).then_some(self.moved)
    }

    /// Reports whether the connection is to be read.
    pub(super) fn wants_input(&self) -> bool {
        !self.done_reading && !self.broken && self.paused.is_none() && self.stream.is_some()
    }

    /// Reads once, and processes the bytes. Returns `true` if more may be waiting.
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
        // The end of the input is reported once, with the bytes before it.
        self.leaving || matches!(received, Received::More(_))
    }

    /// Reads waiting bytes: the rest of a long payload straight into its place, the bytes after it
    /// into `buffer`. The second value is the room that was left in the place.
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

    /// Notes that `count` bytes of a payload were read into their place.
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

    /// Processes received bytes.
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
                tracing::debug!(slot, ?agreed, "a client begins its requests");
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
            tracing::warn!(%error, "TLS could not be started");
            self.broken = true;
        }
    }

    /// Processes requests until the bytes are used up or the connection must wait.
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
                Step::Request(request) => {
                    let now = service.executor.clock.now();
                    let stopwatch = Stopwatch::start(CommandStage::Queue, now);
                    serving.waiting = Some(Waiting { request, stopwatch });
                }
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
                    tracing::info!(slot, what, "a client broke the protocol");
                    self.end_of_requests();
                    self.broken = true;
                    return;
                }
            }
        }
    }

    /// Begins the waiting request, if there is one. Returns `Some` if it must go on waiting.
    fn must_wait(&mut self, slot: usize, service: &mut Service) -> Option<Pause> {
        let Phase::Serving(serving) = &mut self.phase else {
            return None;
        };
        // A client that sends nothing more has no more requests than a socket holds.
        let too_slow = self.output.own_len() > OUTPUT_LIMIT && !self.leaving;
        if self.in_flight >= MAX_IN_FLIGHT || too_slow {
            return Some(Pause::Memory);
        }
        let waiting = serving.waiting?;
        let request = waiting.request;
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
                self.later.push_back(waiting);
            }
            return None;
        }
        let Some(reservation) = reserve(&self.share, &request) else {
            return Some(Pause::Memory);
        };
        serving.waiting = None;
        let mut stopwatch = waiting.stopwatch;
        if let Command::Write { offset, len, .. } = request.command {
            let skew = offset as usize % PAGE_SIZE;
            stopwatch.turn_to(CommandStage::WireIn, service.executor.clock.now());
            serving.writing = Some(Writing {
                request,
                buffer: PagesMut::allocate_at(len as usize, skew),
                filled: 0,
                reservation,
                stopwatch,
            });
        } else {
            let operation = Operation::new(slot, request, reservation, stopwatch);
            self.submit(operation, Pages::new(), service);
        }
        None
    }

    /// Begins the postponed requests, now that all changes have begun. Returns `true` if there were
    /// any.
    pub(super) fn catch_up(&mut self, slot: usize, service: &mut Service) -> bool {
        let before = self.later.len();
        while self.done_reading && self.in_flight < MAX_IN_FLIGHT {
            let Some(Waiting { request, stopwatch }) = self.later.front().copied() else {
                break;
            };
            let Some(reservation) = reserve(&self.share, &request) else {
                break;
            };
            self.later.pop_front();
            let operation = Operation::new(slot, request, reservation, stopwatch);
            self.submit(operation, Pages::new(), service);
        }
        self.later.len() < before
    }

    /// Submits the write whose payload has arrived completely.
    fn submit_if_whole(&mut self, slot: usize, service: &mut Service) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        if serving.protocol.payload_left() > 0 {
            return;
        }
        if let Some(writing) = serving.writing.take() {
            let (request, reservation) = (writing.request, writing.reservation);
            let operation = Operation::new(slot, request, reservation, writing.stopwatch);
            self.submit(operation, writing.buffer.freeze(), service);
        }
    }

    fn submit(&mut self, operation: Operation, data: Pages, service: &mut Service) {
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
            let now = service.executor.clock.now();
            let tally = &self.nexus.tally;
            let receipt = match &outcome {
                Outcome::Done(_) => Some(operation.receipt(tally, now)),
                Outcome::Refused(refusal) => {
                    tally.add_failure(operation.failure(Some(refusal)));
                    None
                }
                Outcome::Failed(_) => {
                    tally.add_failure(operation.failure(None));
                    None
                }
            };
            operation.answer(outcome, &serving.replies, &mut self.output);
            receipt
                .into_iter()
                .for_each(|it| self.output.put_receipt(it));
        }
    }

    /// Goes on if the reason of the pause is over; otherwise returns `false`.
    pub(super) fn resume(&mut self, slot: usize, service: &mut Service) -> bool {
        self.paused = self.must_wait(slot, service);
        if self.paused.is_some() {
            return false;
        }
        let held = std::mem::take(&mut self.held);
        self.go_on(slot, &held, service);
        true
    }

    /// Handles a client that closed its end. Its complete requests are performed and answered, in
    /// case it still listens.
    fn end_of_input(&mut self) {
        self.end_of_requests();
        if let Phase::Handshake(_) = self.phase {
            self.broken = true;
        }
    }

    /// Handles the poller's report that the client closed its end, or that the socket is broken.
    /// Others wait until the earlier changes are read and performed.
    pub(super) fn leave(&mut self) {
        if !self.leaving {
            self.leaving = true;
            self.place.leave();
        }
        self.let_others_pass();
    }

    /// Gives up the place at the fence, because the connection changes nothing more.
    fn let_others_pass(&self) {
        if self.leaving && self.done_reading && self.changes_in_flight == 0 {
            self.place.is_over(self.stream.as_ref());
        }
    }

    /// Notes that no more requests come. Others wait for the connection's writes at the device.
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

    /// Gives up the connection.
    pub(super) fn give_up(&mut self) {
        self.end_of_requests();
        self.broken = true;
    }

    /// Drops the answers of a client that does not take them in time. A client that is here is sent
    /// away. If the client has left, everything that it sent is still performed.
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

    /// Handles the end of the server. New requests are refused, and requests under way are
    /// answered. All requests of a client that has left count as under way.
    pub(super) fn shut_down(&mut self) {
        match &mut self.phase {
            Phase::Handshake(_) => self.give_up(),
            Phase::Serving(_) if self.leaving => {}
            Phase::Serving(serving) => serving.protocol.shut_down(),
            Phase::Ended => {}
        }
    }

    /// Reports whether a connection has nothing more to do when the server ends.
    fn is_idle(&self) -> bool {
        let serves = match &self.phase {
            Phase::Serving(serving) => serving.writing.is_some() || serving.waiting.is_some(),
            Phase::Handshake(_) | Phase::Ended => false,
        };
        self.in_flight == 0 && self.later.is_empty() && !serves
    }

    /// Writes the waiting output.
    pub(super) fn write(&mut self, service: &mut Service) {
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
                    self.count_receipts(service);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.turn_deaf(),
            }
        }
    }

    /// Counts the requests whose answers have left.
    fn count_receipts(&mut self, service: &mut Service) {
        let Some(first) = self.output.take_receipt() else {
            return;
        };
        let loop_index = service.executor.loop_index();
        let clock = &mut service.executor.clock;
        // The socket may have taken its time.
        clock.set(Instant::now());
        let now = clock.now();
        let others = std::iter::from_fn(|| self.output.take_receipt());
        for receipt in std::iter::once(first).chain(others) {
            receipt.nexus.add(loop_index, &receipt.left(now));
        }
    }

    /// Closes the socket if the connection is over. Returns `true` if the socket is closed, now or
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

/// Reserves the memory for a request under way, if enough is free.
fn reserve(share: &Arc<Share>, request: &Request) -> Option<Option<Reservation>> {
    match memory(&request.command) {
        0 => Some(None),
        bytes => share.try_take(bytes).map(Some),
    }
}
