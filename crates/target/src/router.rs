//! The task router (SAM-5 4.5.8): takes a command from the protocol, finds its logical unit, enters
//! the task set and starts it.
//!
//! A read or write that the device answers at once runs from arrival to response inside
//! [`TaskRouter::command`] and [`TaskRouter::data_out`]. It touches no table and no heap.

use iscsi::pdu::TaskAttribute as WireAttribute;
use iscsi::target::{Admission, IncomingCommand, TaskId, TaskRouter};
use scsi::sense::SenseFormat;
use scsi::task_set::Entered;
use scsi::{Asc, BlockRange, Command, Response, Sense, Start, Status, TaskAttribute};

use super::payload::{DataIn, DataOut, Intent, completion, key};
use super::shared::Core;
use crate::session::view::View;
use block::budget::{Reservation, Share};
use block::{Pages, PagesMut};
use model::figures::{CommandKind, CommandStage};
use pages::{PAGE_SIZE, footprint};
use std::sync::Arc;
use unit::command::core::Progress;
use unit::command::ended::Ended;
use unit::command::kind;
use unit::command::operation::{
    Operation, OwnedCommand, SessionKey, TaskKey, Token, Waiting, Work,
};
use unit::nexus::{MappedUnit, TaskEntry};
use unit::timing::Stopwatch;

/// Way of one session to its logical units.
#[derive(Debug)]
pub(super) struct Router<'a> {
    /// Runner of commands.
    pub core: &'a mut Core,
    /// Logical units that the session sees.
    pub view: &'a View,
    /// Key of the session.
    pub session: SessionKey,
    /// Session's part of the memory for data in flight.
    pub share: &'a Arc<Share>,
    /// Bytes that wait to be sent to the initiator, or will.
    pub unsent: u64,
}

/// Length from which reads take memory whatever their device, in bytes.
const LONG_READ: u64 = 64 << 10;
/// Number of unsent bytes of a session from which each of its reads takes memory.
const MUCH_UNSENT: u64 = 256 << 10;

type Admitted = Admission<DataIn, DataOut>;

impl TaskRouter for Router<'_> {
    type Payload = DataIn;
    type Buffer = DataOut;

    #[inline]
    fn command(&mut self, task: TaskId, incoming: &IncomingCommand<'_>) -> Admitted {
        let task = key(task);
        let attribute = match incoming.attribute {
            WireAttribute::Untagged | WireAttribute::Simple => TaskAttribute::Simple,
            WireAttribute::Ordered => TaskAttribute::Ordered,
            WireAttribute::HeadOfQueue => TaskAttribute::HeadOfQueue,
            WireAttribute::Aca => return self.refuse_aca(incoming.lun),
        };
        let command = Command {
            cdb: incoming.cdb,
            attribute,
            data_out_len: incoming.data_out_length,
            data_in_len: incoming.data_in_length,
        };
        let Some(mapped) = self.view.find(incoming.lun) else {
            return self.without_unit(&command);
        };
        let token = self.core.operations.next_token();
        let now = self.core.clock.now();
        match mapped.enter(attribute, token.0) {
            Entered::Now => {
                let stopwatch = Stopwatch::start(CommandStage::WireIn, now);
                let entry = TaskEntry::new(mapped.clone(), attribute, stopwatch);
                self.start(task, entry, &command)
            }
            Entered::Queued => self.queue(task, mapped.clone(), &command),
        }
    }

    #[inline]
    fn data_out(&mut self, task: TaskId, buffer: DataOut, _length: u32) -> Admitted {
        let task = key(task);
        let DataOut {
            pages,
            intent,
            memory,
        } = buffer;
        let data = pages.freeze();
        let now = self.core.clock.now();
        admitted(match intent {
            Intent::Write {
                range,
                fua,
                mut entry,
            } => {
                entry.stopwatch.turn_to(CommandStage::Queue, now);
                self.core.write(self.session, task, entry, range, fua, data)
            }
            Intent::Task {
                kind,
                task: scsi_task,
                mut entry,
            } => {
                entry.stopwatch.turn_to(CommandStage::Queue, now);
                self.core
                    .run_task(self.session, task, entry, (kind, scsi_task), data)
            }
            Intent::Queued(token) => self.queued_data(token, data, memory),
        })
    }

    #[cold]
    fn data_out_lost(&mut self, _: TaskId, buffer: DataOut) {
        // A started command leaves the task set with its entry. A place in the queue is given up
        // here.
        if let Intent::Queued(token) = buffer.intent {
            self.core.cancel(token);
        }
    }
}

impl Router<'_> {
    /// Starts a command that has its place in the task set.
    #[inline]
    fn start(&mut self, task: TaskKey, mut entry: TaskEntry, command: &Command<'_>) -> Admitted {
        match entry.mapped.itl.start(command, self.view) {
            Start::Read { range, fua } => match self.room_to_read(&entry, range) {
                Some(memory) => {
                    entry.memory = memory;
                    admitted(self.core.read(self.session, task, entry, range, fua))
                }
                None => done(task_set_full()),
            },
            Start::Write { range, fua, wanted } => {
                let (offset, _) = entry.mapped.unit.bytes(range);
                let skew = offset as usize % PAGE_SIZE;
                self.collect(
                    wanted,
                    skew,
                    0,
                    command,
                    Intent::Write { range, fua, entry },
                )
            }
            Start::Task(scsi_task) => {
                let kind = kind::of(command.cdb);
                let (wanted, working) = (scsi_task.data_out_len(), scsi_task.working_len());
                // This also holds if no data-out is offered: then the protocol knows the overflow.
                if wanted > 0 {
                    return self.collect(
                        wanted,
                        0,
                        working,
                        command,
                        Intent::Task {
                            kind,
                            task: scsi_task,
                            entry,
                        },
                    );
                }
                entry.memory = self.share.try_take(working);
                if entry.memory.is_none() {
                    return done(task_set_full());
                }
                let now = self.core.clock.now();
                entry.stopwatch.turn_to(CommandStage::Queue, now);
                admitted(self.core.run_task(
                    self.session,
                    task,
                    entry,
                    (kind, scsi_task),
                    Pages::new(),
                ))
            }
            Start::Respond(response) => {
                let now = self.core.clock.now();
                let receipt = entry.receipt(CommandKind::Other, 0, now);
                let ended = Ended::from(response).with_receipt(receipt);
                self.answered(self.session, task, &entry, command, &ended);
                done(ended)
            }
        }
    }

    /// Looks at the end of a command that was answered without any work.
    fn answered(
        &mut self,
        session: SessionKey,
        task: TaskKey,
        entry: &TaskEntry,
        command: &Command<'_>,
        ended: &Ended,
    ) {
        let kind = kind::of(command.cdb);
        let bytes = match kind {
            CommandKind::Read => command.data_in_len,
            _ => command.data_out_len.unwrap_or(0),
        };
        let bytes = u64::from(bytes);
        self.core
            .note_end(session, task, &entry.mapped, ended, kind, bytes);
    }

    /// Takes the memory that a read needs. Returns `None` if memory has run out.
    #[inline]
    fn room_to_read(
        &mut self,
        entry: &TaskEntry,
        range: BlockRange,
    ) -> Option<Option<Reservation>> {
        let (offset, len) = entry.mapped.unit.bytes(range);
        // Long reads always count, and so do short ones that the initiator does not fetch. Their
        // blocks may be overwritten while they wait to be sent, and are then kept for them alone.
        self.unsent += len;
        if entry.mapped.unit.reads_in_place && len < LONG_READ && self.unsent < MUCH_UNSENT {
            return Some(None);
        }
        let memory = footprint(len as usize, offset as usize % PAGE_SIZE);
        self.share.try_take(memory as u64).map(Some)
    }

    /// Makes room for data-out, and takes the memory for its task's work beside it. Refuses the
    /// command if memory has run out.
    #[inline]
    fn collect(
        &mut self,
        wanted: u32,
        skew: usize,
        working: u64,
        command: &Command<'_>,
        mut intent: Intent,
    ) -> Admitted {
        let len = wanted.min(command.data_out_len.unwrap_or(0)) as usize;
        let mut memory = self.share.try_take(footprint(len, skew) as u64 + working);
        if memory.is_none() {
            return done(task_set_full());
        }
        if let Intent::Write { entry, .. } | Intent::Task { entry, .. } = &mut intent {
            entry.memory = memory.take();
        }
        let pages = PagesMut::allocate_at(len, skew);
        Admission::Collect {
            buffer: DataOut {
                pages,
                intent,
                memory,
            },
            wanted,
        }
    }

    /// Refuses the ACA attribute. NormACA is 0, so there is never an ACA condition that a task with
    /// it could serve.
    #[cold]
    fn refuse_aca(&self, lun: u64) -> Admitted {
        let refusal = match self.view.find(lun) {
            Some(mapped) => {
                let sense = Sense::illegal(Asc::INVALID_MESSAGE_ERROR);
                mapped.unit.logical.check_condition(&sense)
            }
            None => invalid_message(),
        };
        done(Ended::from(refusal))
    }

    #[cold]
    fn without_unit(&mut self, command: &Command<'_>) -> Admitted {
        match scsi::start_without_unit(command, self.view) {
            Start::Respond(response) => done(Ended::from(response)),
            // Without a unit, no task and no transfer can be started.
            Start::Read { .. } | Start::Write { .. } | Start::Task(_) => {
                done(Ended::from(invalid_message()))
            }
        }
    }

    /// Keeps a command until its turn comes; its data-out is collected meanwhile.
    #[cold]
    fn queue(&mut self, task: TaskKey, mapped: Arc<MappedUnit>, command: &Command<'_>) -> Admitted {
        let waits_for_data = command.data_out_len > Some(0);
        let stage = match waits_for_data {
            true => CommandStage::WireIn,
            false => CommandStage::Queue,
        };
        let owned = OwnedCommand {
            cdb: command.cdb.to_vec(),
            attribute: command.attribute,
            data_out_len: command.data_out_len,
            data_in_len: command.data_in_len,
            stopwatch: Stopwatch::start(stage, self.core.clock.now()),
        };
        // The data-out by its CDB is not known yet. More than any command can use is neither asked
        // for nor kept, whatever the initiator offers.
        let most = mapped.unit.logical.max_data_out();
        let data = (!waits_for_data).then(Pages::new);
        // The place in the queue was taken under this token: the operation owns it from now on.
        let token = self.core.operations.insert(Operation {
            session: self.session,
            task,
            entry: None,
            work: Work::Queued {
                mapped,
                command: owned,
                data,
                memory: None,
                turn: false,
            },
            waiting: Waiting::Turn,
            held: Vec::new(),
            cancelled: false,
            fenced_off: false,
            data_out_wanted: None,
            observers: Vec::new(),
        });
        if !waits_for_data {
            return Admission::Running;
        }
        let wanted = command.data_out_len.unwrap_or(0).min(most);
        let admitted = self.collect(wanted, 0, 0, command, Intent::Queued(token));
        if let Admission::Done(_) = admitted {
            self.core.cancel(token);
        }
        admitted
    }

    /// Handles the arrival of a queued command's data-out.
    #[cold]
    fn queued_data(&mut self, token: Token, pages: Pages, taken: Option<Reservation>) -> Progress {
        // If its operation is gone, the command was not carried out, and the initiator is told.
        let Some(operation) = self.core.operations.get_mut(token) else {
            return Progress::Done(busy());
        };
        let Work::Queued {
            data,
            memory,
            turn,
            command,
            ..
        } = &mut operation.work
        else {
            return Progress::Done(busy());
        };
        *data = Some(pages);
        *memory = taken;
        let now = self.core.clock.now();
        command.stopwatch.turn_to(CommandStage::Queue, now);
        if *turn {
            self.start_queued(token)
        } else {
            Progress::Pending
        }
    }

    /// Starts a queued command whose turn has come, after it has entered the task set. Returns
    /// [`Progress::Pending`] if its data is still missing.
    pub(super) fn turn_came(&mut self, token: Token) -> Progress {
        let Some(operation) = self.core.operations.get_mut(token) else {
            return Progress::Pending;
        };
        let Work::Queued {
            mapped,
            command,
            data,
            turn,
            ..
        } = &mut operation.work
        else {
            return Progress::Pending;
        };
        let stopwatch = command.stopwatch;
        operation.entry = Some(TaskEntry::new(mapped.clone(), command.attribute, stopwatch));
        *turn = true;
        if data.is_some() {
            self.start_queued(token)
        } else {
            Progress::Pending
        }
    }

    fn start_queued(&mut self, token: Token) -> Progress {
        let Some(mut operation) = self.core.operations.take(token) else {
            return Progress::Pending;
        };
        self.core.operations.retire(token);
        let placeholder = Work::Read(BlockRange::default());
        let Work::Queued {
            command,
            data,
            memory,
            ..
        } = std::mem::replace(&mut operation.work, placeholder)
        else {
            return Progress::Pending;
        };
        let (Some(mut entry), Some(data)) = (operation.entry.take(), data) else {
            return Progress::Pending;
        };
        entry.memory = memory;
        // The data may have come after the turn.
        entry.stopwatch = command.stopwatch;
        let (session, task) = (operation.session, operation.task);
        let mut wanted = 0;
        let progress = match entry.mapped.itl.start(&command.as_command(), self.view) {
            Start::Read { range, fua } => match self.room_to_read(&entry, range) {
                Some(memory) => {
                    entry.memory = memory;
                    self.core.read(session, task, entry, range, fua)
                }
                None => Progress::Done(task_set_full()),
            },
            Start::Write {
                range,
                fua,
                wanted: by_cdb,
            } => {
                wanted = by_cdb;
                let unit = &entry.mapped.unit;
                let data = data.slice(0..unit.bytes(range).1 as usize);
                self.core.write(session, task, entry, range, fua, data)
            }
            Start::Task(scsi_task) => {
                wanted = scsi_task.data_out_len();
                // All memory is taken anew: a command larger than the memory gets through alone, as
                // one piece.
                entry.memory = None;
                let memory = footprint(data.len(), 0) as u64 + scsi_task.working_len();
                entry.memory = self.share.try_take(memory);
                if entry.memory.is_some() {
                    let data = data.slice(0..data.len().min(wanted as usize));
                    let kind = kind::of(&command.cdb);
                    self.core
                        .run_task(session, task, entry, (kind, scsi_task), data)
                } else {
                    Progress::Done(task_set_full())
                }
            }
            Start::Respond(response) => {
                wanted = response.would_move.unwrap_or(0);
                let now = self.core.clock.now();
                let receipt = entry.receipt(CommandKind::Other, 0, now);
                let ended = Ended::from(response).with_receipt(receipt);
                self.answered(session, task, &entry, &command.as_command(), &ended);
                Progress::Done(ended)
            }
        };
        let observers = std::mem::take(&mut operation.observers);
        self.core
            .hand_on(session, task, progress, observers, Some(wanted))
    }
}

#[inline]
fn admitted(progress: Progress) -> Admitted {
    match progress {
        Progress::Done(ended) => done(ended),
        Progress::Pending => Admission::Running,
    }
}

#[inline]
fn done(ended: Ended) -> Admitted {
    Admission::Done(completion(ended))
}

fn task_set_full() -> Ended {
    Ended {
        status: Status::TaskSetFull,
        ..Ended::good(None)
    }
}

/// Returns the response if no unit can be asked, so in the format that a unit begins with (SPC-4:
/// INVALID MESSAGE ERROR).
fn invalid_message() -> Response {
    Response::check_condition(Sense::illegal(Asc::INVALID_MESSAGE_ERROR).encode(SenseFormat::Fixed))
}

/// Returns BUSY for a command that was not carried out. The initiator may repeat it.
#[cold]
fn busy() -> Ended {
    Ended {
        status: Status::Busy,
        ..Ended::good(None)
    }
}
