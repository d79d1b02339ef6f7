//! Types that cross the border of the crate: a command in, a start, steps and a response out.
//!
//! READ and WRITE must be fast, so they never become a [`Task`]. [`Start`] tells the transport
//! which blocks to move, and the transport moves them without the crate seeing a byte. Every other
//! command is a [`Task`]: a small state machine that names one block action at a time.

pub(crate) mod block;
pub(crate) mod extended_copy;
pub(crate) mod inquiry;
pub(crate) mod log_sense;
pub(crate) mod mode;
pub(crate) mod persistent_reserve;
pub(crate) mod receive_copy_results;
pub(crate) mod report_luns;
pub(crate) mod report_supported;
pub(crate) mod request_sense;
pub(crate) mod reserve;
pub(crate) mod sanitize;
pub(crate) mod send_diagnostic;
pub(crate) mod start_stop_unit;
pub(crate) mod target_port_groups;
pub(crate) mod test_unit_ready;
pub(crate) mod token;

use crate::{BlockError, BlockRange, Response, TaskAttribute};

/// Command as it arrived, before any of its data-out.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// The command descriptor block, 6 to 260 bytes (the transport strips nothing).
    pub cdb: &'a [u8],
    /// Task attribute of the command.
    pub attribute: TaskAttribute,
    /// Bytes of data-out that the initiator offers, or `None` if it announces none.
    pub data_out_len: Option<u32>,
    /// Bytes of data-in that the initiator accepts (0 for none).
    pub data_in_len: u32,
}

/// First action of the transport for a command.
#[derive(Debug)]
pub enum Start {
    /// Read these blocks, send them, then status GOOD. The range may be empty.
    ///
    /// If the initiator accepts fewer bytes, the first ones are sent, and the others are residual
    /// overflow. With `fua` the blocks come from the medium, not a volatile cache.
    Read {
        /// The blocks.
        range: BlockRange,
        /// Force unit access.
        fua: bool,
    },
    /// Collect the data-out of these blocks, write them, then status GOOD.
    ///
    /// The range may be empty: GOOD at once. It holds no more blocks than the initiator offers.
    /// `wanted` counts the bytes of the CDB, and the difference is residual overflow. If the
    /// initiator offers more, the rest is residual underflow. Before it submits the write, the
    /// transport asks [`crate::itl_nexus::ItlNexus::may_still_run`].
    Write {
        /// The blocks.
        range: BlockRange,
        /// Force unit access: GOOD only once the blocks are on stable storage.
        fua: bool,
        /// Bytes of data-out by the CDB.
        wanted: u32,
    },
    /// Collect [`Task::data_out_len`] bytes, then call [`Task::step`] with [`Input::Begin`].
    Task(Box<dyn Task>),
    /// Answer at once; no data-out is wanted.
    Respond(Response),
}

impl Start {
    /// Starts a GOOD with parameter data cut to the CDB's allocation length.
    pub(crate) fn data(mut data_in: Vec<u8>, allocation_length: usize) -> Self {
        data_in.truncate(allocation_length);
        Self::Respond(Response::data(data_in))
    }

    /// Starts a GOOD without data.
    pub(crate) fn good() -> Self {
        Self::Respond(Response::good())
    }
}

/// Command in progress that needs more than one plain read or write.
pub trait Task: Send + std::fmt::Debug {
    /// Returns the bytes of data-out that the command wants, by its CDB (0 for none).
    ///
    /// The transport delivers them, or fewer if [`Task::takes_fewer_blocks`]. It reports the
    /// difference to the offered bytes as residual, whatever the status. Before a step that writes,
    /// the transport asks [`crate::itl_nexus::ItlNexus::may_still_run`], as for [`Start::Write`].
    fn data_out_len(&self) -> u32;

    /// Reports whether the task can work on whole blocks of its data-out if the initiator offered
    /// fewer than it wants.
    fn takes_fewer_blocks(&self) -> bool {
        false
    }

    /// Returns the most bytes of blocks that the task holds during one of its steps, beside its
    /// data-out. They are the bytes that the step reads or makes, and copies that it kept. The
    /// caller that runs the task takes memory for them before the task begins.
    fn working_len(&self) -> u64 {
        0
    }

    /// Returns the blocks that no other command may touch from the first step to the last (COMPARE
    /// AND WRITE, ORWRITE, WRITE ATOMIC). Returns `None` if the usual shared access is enough.
    fn exclusive(&self) -> Option<BlockRange> {
        None
    }

    /// Reports whether the task goes on when its command is aborted or its I_T nexus is lost. No
    /// initiator is answered then.
    fn outlives_its_command(&self) -> bool {
        false
    }

    /// Returns the response that ends the task if a step is forbidden by now. The transport asks
    /// before it does the step, which may have waited meanwhile.
    ///
    /// This is for tasks that concern other units than the command's own. For its own unit the
    /// transport asks [`crate::itl_nexus::ItlNexus::may_still_run`].
    fn refused(&mut self) -> Option<Response> {
        None
    }

    /// Advances the task with the result of the previous step.
    fn step(&mut self, input: Input<'_>) -> Step;
}

/// Result of the last [`Step`], or the start.
#[derive(Debug)]
pub enum Input<'a> {
    /// The first call, with the data-out collected.
    Begin {
        /// Data-out of the command, at most [`Task::data_out_len`] bytes.
        data_out: &'a [u8],
    },
    /// The last step succeeded and yields nothing.
    Done,
    /// The last step was a [`Step::Read`], and these are the bytes of its blocks.
    Blocks(&'a [u8]),
    /// The last step was a [`Step::Extents`].
    Extents(&'a [Extent]),
    /// The last step failed. The state of the blocks it named is unknown.
    Failed(BlockError),
}

/// Block action that the task needs next. All ranges were checked against the capacity.
#[derive(Debug)]
pub enum Step {
    /// Read blocks for the task itself, and answer with [`Input::Blocks`].
    Read {
        /// The blocks.
        range: BlockRange,
    },
    /// Write these bytes. `data.len()` is the byte length of the range.
    Write {
        /// The blocks.
        range: BlockRange,
        /// The bytes.
        data: Vec<u8>,
        /// Whether the write is durable before [`Input::Done`].
        fua: bool,
    },
    /// Write blocks straight from the command's data-out, starting `offset` bytes into it.
    WriteDataOut {
        /// The blocks.
        range: BlockRange,
        /// Offset of the range's bytes in the data-out.
        offset: u32,
        /// Whether the write is durable before [`Input::Done`].
        fua: bool,
    },
    /// Write zeros. With `unmap` the blocks may be deallocated.
    WriteZeroes {
        /// The blocks.
        range: BlockRange,
        /// Whether blocks may be deallocated.
        unmap: bool,
        /// Whether the write is durable before [`Input::Done`].
        fua: bool,
    },
    /// Repeat `pattern` (one logical block) over the range.
    WritePattern {
        /// The blocks.
        range: BlockRange,
        /// One logical block of data.
        pattern: Vec<u8>,
        /// Whether the write is durable before [`Input::Done`].
        fua: bool,
    },
    /// Deallocate the blocks, which read as zeros afterwards.
    Unmap {
        /// The runs, in the initiator's order.
        ranges: Vec<BlockRange>,
    },
    /// Make all writes durable that were acknowledged before (SYNCHRONIZE CACHE).
    Flush,
    /// Bring the range into the cache if there is one. Failure is not an error.
    Prefetch {
        /// The blocks.
        range: BlockRange,
    },
    /// Ask which parts are allocated. The answer is an [`Input::Extents`] that covers a non-empty
    /// prefix.
    Extents {
        /// The blocks.
        range: BlockRange,
    },
    /// Run a step on another logical unit (third-party copy). The handle came from
    /// [`crate::view::TargetView`], so the unit is inside the initiator's view.
    On {
        /// The other logical unit.
        unit: std::sync::Arc<crate::logical_unit::LogicalUnit>,
        /// Step to do on that unit, never another `On`, `Save`, `Abort` or `Done`.
        step: Box<Step>,
    },
    /// Store this image of the unit's persistent state durably, replacing the last one.
    Save {
        /// Opaque bytes, restored by [`crate::logical_unit::LogicalUnit::restore`].
        image: Vec<u8>,
    },
    /// Abort other tasks of this unit, and wait until they have ended.
    Abort(AbortScope),
    /// The command ends.
    Done(Response),
}

/// Tasks of a logical unit that an abort reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortScope {
    /// Every task of these I_T nexuses, also of nexuses that were lost meanwhile (PREEMPT AND
    /// ABORT).
    Registrants(Vec<crate::persistent_reservation::Registrant>),
    /// Every task of the unit except the caller.
    All,
}

/// Allocated or unallocated run, as the backend reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The blocks.
    pub range: BlockRange,
    /// Whether storage is allocated for the blocks.
    pub mapped: bool,
}
