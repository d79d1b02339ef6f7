//! The way from the queues to the devices and back: requests in flight, the times at which answers
//! are due, and giving up on answers that do not come.

use pages::Pages;
use smallvec::SmallVec;

use super::Array;
use super::device::{
    DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome, DeviceRequest, IoId, LeafId,
};
use super::job::{self, Answer, Job, OperationId, Priority, Span, Work};
use super::output::{Output, VdevEvent};
use super::page_runs;
use super::tree::LeafState;
use crate::format::Epoch;

/// A request that a device has.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) leaf: LeafId,
    priority: Priority,
    offset: u64,
    len: u64,
    spans: SmallVec<[Span; 1]>,
    pub(super) asked: Asked,
    asked_us: u64,
    issued_us: u64,
    /// Whether nobody waits any more, though the device may still do the request.
    pub(super) is_abandoned: bool,
    /// Whether other devices were asked too.
    is_slow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Read,
    Write(Epoch),
    /// A write whose answer says that it is durable.
    DurableWrite(Epoch),
    Trim,
    Flush,
}

impl Array {
    /// Takes a device's answer to a request. Each request is answered once. If the device was given
    /// up before, a late answer only tells that the device will do nothing more for the request.
    pub fn completed(&mut self, io: IoId, outcome: DeviceOutcome, now_us: u64, out: &mut Output) {
        let Some(request) = self.in_flight.remove(io.0) else {
            return;
        };
        let leaf = request.leaf;
        if request.asked.is_change() {
            self.leaf_mut(leaf)
                .queue
                .settled(request.offset, request.len);
        }
        if request.is_abandoned {
            self.answered_late(leaf, out);
        } else {
            self.leaf_mut(leaf)
                .queue
                .finished(request.priority, request.len);
            match outcome {
                Err(error) if error.kind == DeviceErrorKind::Medium && request.is_joined_read() => {
                    self.ask_singly(request, now_us, out);
                }
                outcome => self.judge(request, outcome, now_us, out),
            }
        }
        self.settle(now_us, out);
        self.pump(leaf, now_us, out);
    }

    /// Gives up requests that were due by now. The caller calls it at [`Array::deadline_us`].
    pub fn tick(&mut self, now_us: u64, out: &mut Output) {
        if self
            .next_deadline_us
            .is_none_or(|deadline| now_us < deadline)
        {
            return;
        }
        let (hedge_us, give_up_us) = (self.limits.hedge_us, self.limits.give_up_us);
        let (mut slow, mut late) = (Vec::new(), Vec::new());
        for (io, request) in self
            .in_flight
            .iter()
            .filter(|(_, request)| !request.is_abandoned)
        {
            if now_us >= request.issued_us + give_up_us {
                late.push(io);
            } else if request.may_hedge() && now_us >= request.issued_us + hedge_us {
                slow.push(io);
            }
        }
        late.into_iter().for_each(|io| self.give_up(io, out));
        slow.into_iter().for_each(|io| self.hedge(io, now_us, out));
        self.settle(now_us, out);
        for leaf in 0..self.leaves.len() as u32 {
            self.pump(LeafId(leaf), now_us, out);
        }
        let due = |request: &InFlight| {
            request.issued_us
                + if request.may_hedge() {
                    hedge_us.min(give_up_us)
                } else {
                    give_up_us
                }
        };
        self.next_deadline_us = self
            .in_flight
            .iter()
            .filter(|(_, request)| !request.is_abandoned)
            .map(|(_, request)| due(request))
            .min();
    }

    /// Returns the time at which [`Array::tick`] should be called next, unless another call comes
    /// before.
    pub fn deadline_us(&self) -> Option<u64> {
        self.next_deadline_us.filter(|_| self.in_flight.len() > 0)
    }

    /// Returns the number of requests that devices have, including those given up.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Sends a request to its leaf, or puts it into the leaf's queue. The caller has checked that
    /// the leaf takes requests.
    pub(super) fn submit(&mut self, leaf: LeafId, job: Job, now_us: u64, out: &mut Output) {
        let is_beyond = job.offset + job.len > self.leaf(leaf).reach;
        if is_beyond && !matches!(job.work, Work::Flush) {
            return self.refuse_beyond(leaf, job);
        }
        let is_urgent = job.priority == Priority::SyncRead && matches!(job.work, Work::Read);
        if is_urgent || matches!(job.work, Work::Flush) {
            self.issue(leaf, job, now_us, out);
        } else {
            let limits = self.limits;
            let may_wait = job.priority == Priority::Background;
            let of_leaf = self.leaf_mut(leaf);
            if of_leaf.direct.under_way() > 0 {
                of_leaf.queue.note_read(now_us);
            }
            let queue = &mut of_leaf.queue;
            if let Some(job) = queue.push_or_go(job, &limits, now_us) {
                self.issue(leaf, job, now_us, out);
            } else if !may_wait {
                self.pump(leaf, now_us, out);
            } else if !std::mem::replace(&mut queue.has_news, true) {
                self.with_news.push(leaf);
            }
        }
    }

    /// Fails a request behind the end of a device that shrank. The device is not asked.
    fn refuse_beyond(&mut self, leaf: LeafId, job: Job) {
        let asked = match job.work {
            Work::Write { epoch, .. } => Asked::Write(epoch),
            Work::Read => Asked::Read,
            Work::Trim | Work::Flush => Asked::Trim,
        };
        self.beyond.push_back((leaf, asked, job.offset));
        self.fail_spans(leaf, job.offset, job.spans, &beyond());
    }

    /// Notes the requests that lie behind the ends of devices, before their waiters get the
    /// answers.
    fn note_beyond(&mut self, out: &mut Output) {
        while let Some((leaf, asked, offset)) = self.beyond.pop_front() {
            match asked {
                Asked::Write(epoch) | Asked::DurableWrite(epoch) => {
                    self.change_failed(leaf, epoch, offset, &beyond(), out);
                }
                Asked::Read => self.device_failed(leaf, true, offset, &beyond(), out),
                // A trim that was not done does no harm.
                Asked::Trim | Asked::Flush => {}
            }
        }
    }

    /// Sends background requests to devices, as far as limits allow. The caller calls it when it
    /// asks for nothing more at once: until then, neighbours may become one request.
    pub fn release(&mut self, now_us: u64, out: &mut Output) {
        while let Some(leaf) = self.with_news.pop() {
            self.leaf_mut(leaf).queue.has_news = false;
            self.pump(leaf, now_us, out);
        }
    }

    /// Issues the requests that the leaf's queue lets go.
    fn pump(&mut self, leaf: LeafId, now_us: u64, out: &mut Output) {
        let limits = self.limits;
        let of_leaf = self.leaf_mut(leaf);
        if of_leaf.direct.under_way() > 0 {
            of_leaf.queue.note_read(now_us);
        }
        while let Some(job) = self.leaf_mut(leaf).queue.next(&limits, now_us) {
            self.issue(leaf, job, now_us, out);
        }
    }

    fn issue(&mut self, leaf: LeafId, job: Job, now_us: u64, out: &mut Output) {
        let (op, asked) = match job.work {
            Work::Read => (
                DeviceOp::Read {
                    offset: job.offset,
                    len: job.len as u32,
                },
                Asked::Read,
            ),
            Work::Write {
                mut parts,
                epoch,
                is_durable,
            } => {
                let op = DeviceOp::Write {
                    offset: job.offset,
                    data: job::join(&mut parts),
                    durable: is_durable,
                };
                let asked = match is_durable {
                    true => Asked::DurableWrite(epoch),
                    false => Asked::Write(epoch),
                };
                (op, asked)
            }
            Work::Trim => (
                DeviceOp::Trim {
                    offset: job.offset,
                    len: job.len,
                },
                Asked::Trim,
            ),
            Work::Flush => (DeviceOp::Flush, Asked::Flush),
        };
        self.leaf_mut(leaf)
            .queue
            .started(job.priority, job.len, now_us);
        let request = InFlight {
            leaf,
            priority: job.priority,
            offset: job.offset,
            len: job.len,
            spans: job.spans,
            asked,
            asked_us: job.asked_us,
            issued_us: now_us,
            is_abandoned: false,
            is_slow: false,
        };
        let wait_us = if request.may_hedge() {
            self.limits.hedge_us
        } else {
            u64::MAX
        };
        let due_us = now_us + wait_us.min(self.limits.give_up_us);
        self.next_deadline_us = Some(
            self.next_deadline_us
                .map_or(due_us, |next| next.min(due_us)),
        );
        let io = IoId(self.in_flight.insert(request));
        out.requests.push(DeviceRequest { io, leaf, op });
    }

    /// Repeats the parts of a joined request, each by itself. One bad sector does not mean that the
    /// sectors beside it cannot be read.
    fn ask_singly(&mut self, request: InFlight, now_us: u64, out: &mut Output) {
        for (offset, len, waiter) in job::ranges(request.offset, request.spans) {
            let place = (offset, len);
            let job = Job::new(
                request.priority,
                place,
                waiter,
                Work::Read,
                request.asked_us,
            );
            self.issue(request.leaf, job, now_us, out);
        }
    }

    /// Judges the leaf by an answer, before the waiters see the answer.
    fn judge(&mut self, request: InFlight, outcome: DeviceOutcome, now_us: u64, out: &mut Output) {
        let leaf = request.leaf;
        let outcome = match (request.asked, outcome) {
            (Asked::Read, Ok(data)) if data.len() as u64 != request.len => {
                let context = format!(
                    "the device returned {} bytes instead of {}",
                    data.len(),
                    request.len
                );
                Err(DeviceError::new(DeviceErrorKind::Failed, context))
            }
            (Asked::Read, Ok(data)) => Ok(page_runs::aligned(data)),
            (_, Ok(_)) => Ok(Pages::new()),
            (_, Err(error)) => Err(error),
        };
        if outcome.is_ok() {
            self.count(&request, now_us);
        }
        match (&outcome, request.asked) {
            (Ok(_), Asked::Write(epoch)) => self.leaf_mut(leaf).unflushed.wrote(epoch),
            (Ok(_), _) => {}
            // The unreadable range was counted the first time.
            (Err(error), Asked::Read)
                if error.kind == DeviceErrorKind::Medium && self.is_read_again(&request) => {}
            // A trim is advice. Only an answer that the device is gone says something about the
            // device.
            (Err(error), Asked::Trim) if error.kind != DeviceErrorKind::Gone => {}
            (Err(error), Asked::Read | Asked::Trim) => {
                self.device_failed(
                    leaf,
                    request.asked == Asked::Read,
                    request.offset,
                    error,
                    out,
                );
            }
            (Err(error), Asked::Write(epoch) | Asked::DurableWrite(epoch)) => {
                self.change_failed(leaf, epoch, request.offset, error, out);
            }
            (Err(error), Asked::Flush) => self.flush_failed(leaf, error, out),
        }
        if request.asked == Asked::Flush {
            self.flush_finished(leaf, &outcome);
        }
        self.answer(request, &outcome);
    }

    fn is_read_again(&mut self, request: &InFlight) -> bool {
        let mut waiters = request.spans.iter().map(|span| span.waiter);
        let reads = &mut self.operations.reads;
        waiters.all(|waiter| match waiter.operation {
            OperationId::Read(id) => reads
                .get_mut(id)
                .is_some_and(|read| read.looks_again(waiter)),
            _ => false,
        })
    }

    /// Counts a request that a device answered well.
    fn count(&mut self, request: &InFlight, now_us: u64) {
        let io = &mut self.leaf_mut(request.leaf).io;
        let transfers = match request.asked {
            Asked::Read => &mut io.read,
            Asked::Write(_) | Asked::DurableWrite(_) => &mut io.write,
            Asked::Trim | Asked::Flush => return,
        };
        transfers.count(request.len, request.asked_us, request.issued_us, now_us);
    }

    fn answer(&mut self, request: InFlight, outcome: &DeviceOutcome) {
        let (leaf, start) = (request.leaf, request.offset);
        let is_joined_read = request.is_joined_read();
        for (offset, len, waiter) in job::ranges(start, request.spans) {
            let outcome = match outcome {
                Ok(data) if is_joined_read => {
                    let at = (offset - start) as usize;
                    Ok(data.slice(at..at + len as usize))
                }
                outcome => outcome.clone(),
            };
            self.answers.push_back(Answer {
                waiter,
                leaf,
                offset,
                len,
                outcome,
            });
        }
    }

    /// Hands answers to their operations, until no operation has caused another answer.
    pub(super) fn settle(&mut self, now_us: u64, out: &mut Output) {
        loop {
            self.note_beyond(out);
            while let Some(answer) = self.answers.pop_front() {
                match answer.waiter.operation {
                    OperationId::Read(id) => self.read_answered(id, answer, now_us, out),
                    OperationId::Write(id) => self.write_answered(id, answer, out),
                    OperationId::Repair(id) => self.repair_answered(id, answer, out),
                    OperationId::Flush(id) => self.flush_answered(id, answer, out),
                    OperationId::Trim(id) => self.trim_answered(id, answer, out),
                    OperationId::Label(id) => self.label_answered(id, answer, out),
                }
                self.note_beyond(out);
            }
            if let Some(news) = self.double_news.pop_front() {
                self.double_told(news, now_us, out);
                continue;
            }
            if !self.start_waiting_flushes(now_us, out) {
                return;
            }
        }
    }

    /// Gives up a leaf whose device did not answer in time.
    fn give_up(&mut self, io: u64, out: &mut Output) {
        let give_up_us = self.limits.give_up_us;
        let Some(request) = self
            .in_flight
            .get_mut(io)
            .filter(|request| !request.is_abandoned)
        else {
            return;
        };
        let (leaf, asked, offset) = (request.leaf, request.asked, request.offset);
        let error = DeviceError::new(
            DeviceErrorKind::TimedOut,
            format!("no answer for {} s", give_up_us / 1_000_000),
        );
        self.abandon(io, &error);
        match asked {
            Asked::Read | Asked::Trim => {
                self.device_failed(leaf, asked == Asked::Read, offset, &error, out);
            }
            Asked::Write(epoch) | Asked::DurableWrite(epoch) => {
                self.change_failed(leaf, epoch, offset, &error, out);
            }
            Asked::Flush => {
                self.flush_failed(leaf, &error, out);
                self.flush_finished(leaf, &Err(error.clone()));
            }
        }
        // The device is asked nothing more before it has answered.
        self.fail_queued(leaf, &error);
    }

    /// Answers a request in the place of its device.
    fn abandon(&mut self, io: u64, error: &DeviceError) {
        let Some(request) = self
            .in_flight
            .get_mut(io)
            .filter(|request| !request.is_abandoned)
        else {
            return;
        };
        request.is_abandoned = true;
        let spans = std::mem::take(&mut request.spans);
        let (leaf, offset, len, priority) =
            (request.leaf, request.offset, request.len, request.priority);
        let state = self.leaf_mut(leaf);
        state.abandoned += 1;
        state.queue.finished(priority, len);
        self.given_up += 1;
        self.fail_spans(leaf, offset, spans, error);
    }

    fn fail_spans(
        &mut self,
        leaf: LeafId,
        offset: u64,
        spans: SmallVec<[Span; 1]>,
        error: &DeviceError,
    ) {
        let spans = job::ranges(offset, spans);
        self.answers
            .extend(spans.map(|(offset, len, waiter)| Answer {
                waiter,
                leaf,
                offset,
                len,
                outcome: Err(error.clone()),
            }));
    }

    /// Answers all requests that a leaf's device has and all that wait for it. The leaf is not used
    /// any more. Returns the oldest epoch of the writes among them.
    pub(super) fn abandon_all(&mut self, leaf: LeafId, error: &DeviceError) -> Option<Epoch> {
        let mut oldest = None;
        let mut ios = Vec::new();
        for (io, request) in self.in_flight.iter() {
            if request.leaf == leaf && !request.is_abandoned {
                ios.push(io);
                if let Asked::Write(epoch) | Asked::DurableWrite(epoch) = request.asked {
                    oldest = Some(oldest.map_or(epoch, |oldest: Epoch| oldest.min(epoch)));
                }
            }
        }
        ios.into_iter().for_each(|io| self.abandon(io, error));
        let queued = self.fail_queued(leaf, error);
        oldest.into_iter().chain(queued).min()
    }

    fn fail_queued(&mut self, leaf: LeafId, error: &DeviceError) -> Option<Epoch> {
        let mut oldest: Option<Epoch> = None;
        for job in self.leaf_mut(leaf).queue.drain() {
            if let Work::Write { epoch, .. } = job.work {
                oldest = Some(oldest.map_or(epoch, |oldest| oldest.min(epoch)));
            }
            self.fail_spans(leaf, job.offset, job.spans, error);
        }
        oldest
    }

    /// Counts down the requests that the device may still do.
    fn answered_late(&mut self, leaf: LeafId, out: &mut Output) {
        let state = self.leaf_mut(leaf);
        state.abandoned -= 1;
        if state.abandoned == 0 && state.state == LeafState::Online {
            self.tell_state(leaf, "it answers again", out);
            out.events.push(VdevEvent::Answers { leaf });
        }
    }

    /// Notes that a read takes long: its operation may ask other leaves.
    fn hedge(&mut self, io: u64, now_us: u64, out: &mut Output) {
        let Some(request) = self
            .in_flight
            .get_mut(io)
            .filter(|request| request.may_hedge())
        else {
            return;
        };
        request.is_slow = true;
        let leaf = request.leaf;
        let spans = request.spans.clone();
        out.events.push(VdevEvent::Slow { leaf });
        for span in spans {
            self.read_is_slow(span.waiter, now_us, out);
        }
    }
}

impl Asked {
    /// Reports whether the request changes the content of its range.
    fn is_change(self) -> bool {
        matches!(self, Self::Write(_) | Self::DurableWrite(_) | Self::Trim)
    }
}

impl InFlight {
    fn is_joined_read(&self) -> bool {
        self.asked == Asked::Read && self.spans.len() > 1
    }

    fn may_hedge(&self) -> bool {
        self.priority == Priority::SyncRead
            && self.asked == Asked::Read
            && !self.is_slow
            && !self.is_abandoned
    }
}

/// Returns the error that a device that shrank would report.
fn beyond() -> DeviceError {
    DeviceError::new(DeviceErrorKind::Medium, "the device ends before this byte")
}
