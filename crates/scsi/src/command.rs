//! What crosses the border of the crate: a command in, a start, steps and a response out.
//!
//! READ and WRITE, the commands that must be fast, never become a [`Task`]: [`Start`] tells the
//! transport which blocks to move and it moves them without the crate seeing a byte. Everything
//! else is a [`Task`]: a small state machine that names one block action at a time.

pub(crate) mod compare_and_write;
pub(crate) mod extended_copy;
pub(crate) mod get_lba_status;
pub(crate) mod inquiry;
pub(crate) mod log_sense;
pub(crate) mod mode;
pub(crate) mod orwrite;
pub(crate) mod part_write;
pub(crate) mod persistent_reserve;
pub(crate) mod prefetch;
pub(crate) mod read_capacity;
pub(crate) mod read_defect_data;
pub(crate) mod read_write;
pub(crate) mod receive_copy_results;
pub(crate) mod report_luns;
pub(crate) mod report_supported;
pub(crate) mod request_sense;
pub(crate) mod reserve;
pub(crate) mod sanitize;
pub(crate) mod send_diagnostic;
pub(crate) mod start_stop_unit;
pub(crate) mod synchronize_cache;
pub(crate) mod target_port_groups;
pub(crate) mod test_unit_ready;
pub(crate) mod token;
pub(crate) mod unmap;
pub(crate) mod verify;
pub(crate) mod write_atomic;
pub(crate) mod write_same;

use crate::{BlockRange, Response};

/// A task attribute (SAM-5 8.6). ACA is refused by the transport since NormACA is not offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskAttribute {
    /// No order promised.
    #[default]
    Simple,
    /// After all older tasks, before all younger ones.
    Ordered,
    /// Before every task that has not started.
    HeadOfQueue,
}

/// A command as it arrived, before any of its data-out.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// The command descriptor block, 6 to 260 bytes (the transport strips nothing).
    pub cdb: &'a [u8],
    /// The task attribute.
    pub attribute: TaskAttribute,
    /// How many bytes of data-out the initiator offers; `None` where it announces none.
    pub data_out_len: Option<u32>,
    /// How many bytes of data-in the initiator accepts (0 for none).
    pub data_in_len: u32,
}

/// What the transport does with a command first.
#[derive(Debug)]
pub enum Start {
    /// Read these blocks, send them, then status GOOD. Where the initiator accepts fewer bytes, the
    /// first ones are sent and the others are residual overflow. The range may be empty. `fua`: from the medium, not a volatile cache.
    Read {
        /// The blocks.
        range: BlockRange,
        /// Force unit access.
        fua: bool,
    },
    /// Collect the data-out of these blocks, write them, then status GOOD.
    ///
    /// The range may be empty: GOOD at once. It holds no more blocks than the initiator offers; `wanted`
    /// counts those of the CDB, and the difference is residual overflow. Where the initiator offers more,
    /// the rest is residual underflow. Before it submits the write,
    /// the transport asks [`crate::itl_nexus::ItlNexus::may_still_run`].
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

/// A command in progress that needs more than one plain read or write.
pub trait Task: Send + std::fmt::Debug {
    /// How many bytes of data-out the command wants, from its CDB (0 for none). The transport delivers
    /// them, or fewer where [`Task::takes_fewer_blocks`], and reports the difference to what was offered
    /// as residual, whatever the status. Before a step that writes, the transport asks
    /// [`crate::itl_nexus::ItlNexus::may_still_run`], as it does for [`Start::Write`].
    fn data_out_len(&self) -> u32;

    /// Whether the task does with whole blocks of its data-out where fewer were offered than it wants.
    fn takes_fewer_blocks(&self) -> bool {
        false
    }

    /// Most bytes of blocks that the task holds while one of its steps is under way, beside its data-out:
    /// those that the step reads or makes, and copies that it kept. Whoever runs it takes memory for them
    /// before it begins.
    fn working_len(&self) -> u64 {
        0
    }

    /// Blocks that no other command may touch from the first step to the last (COMPARE AND WRITE,
    /// ORWRITE, WRITE ATOMIC), `None` where the usual shared access is enough.
    fn exclusive(&self) -> Option<BlockRange> {
        None
    }

    /// Whether it goes on when its command is aborted or its I_T nexus is lost; then nobody is answered.
    fn outlives_its_command(&self) -> bool {
        false
    }

    /// Asked before what a step names is done, which may have waited meanwhile: the response that ends the
    /// task where something forbids the step by now. For tasks that concern other units than the command's
    /// own; for that one the transport asks [`crate::itl_nexus::ItlNexus::may_still_run`].
    fn refused(&mut self) -> Option<Response> {
        None
    }

    /// Advances the task with the outcome of the step before.
    fn step(&mut self, input: Input<'_>) -> Step;
}

/// The outcome of the last [`Step`], or the start.
#[derive(Debug)]
pub enum Input<'a> {
    /// The first call, with the data-out collected.
    Begin {
        /// The data-out; its length is at most [`Task::data_out_len`].
        data_out: &'a [u8],
    },
    /// The last step succeeded and yields nothing.
    Done,
    /// The last step was a [`Step::Read`]: the bytes of its blocks.
    Blocks(&'a [u8]),
    /// The last step was a [`Step::Extents`].
    Extents(&'a [Extent]),
    /// The last step failed; nothing about the blocks it named may be assumed.
    Failed(BlockError),
}

/// A block action the task needs next. All ranges were checked against the capacity.
#[derive(Debug)]
pub enum Step {
    /// Read blocks for the task itself; answer with [`Input::Blocks`].
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
        /// Durable before [`Input::Done`].
        fua: bool,
    },
    /// Write blocks straight from the command's data-out, starting `offset` bytes into it.
    WriteDataOut {
        /// The blocks.
        range: BlockRange,
        /// Where in the data-out the range's bytes start.
        offset: u32,
        /// Durable before [`Input::Done`].
        fua: bool,
    },
    /// Write zeros; `unmap` allows deallocation.
    WriteZeroes {
        /// The blocks.
        range: BlockRange,
        /// Whether blocks may be deallocated.
        unmap: bool,
        /// Durable before [`Input::Done`].
        fua: bool,
    },
    /// Repeat `pattern` (one logical block) over the range.
    WritePattern {
        /// The blocks.
        range: BlockRange,
        /// One logical block of data.
        pattern: Vec<u8>,
        /// Durable before [`Input::Done`].
        fua: bool,
    },
    /// Deallocate; the blocks read as zeros afterwards.
    Unmap {
        /// The runs, in the initiator's order.
        ranges: Vec<BlockRange>,
    },
    /// Make everything acknowledged before durable (SYNCHRONIZE CACHE).
    Flush,
    /// Bring the range into the cache if there is one; failure is not an error.
    Prefetch {
        /// The blocks.
        range: BlockRange,
    },
    /// Ask which parts are allocated; answer with [`Input::Extents`] covering a non-empty prefix.
    Extents {
        /// The blocks.
        range: BlockRange,
    },
    /// Run a step on another logical unit (third-party copy). The handle was resolved through
    /// [`crate::view::TargetView`], so it is inside the initiator's view.
    On {
        /// The other logical unit.
        unit: std::sync::Arc<crate::logical_unit::LogicalUnit>,
        /// What to do there; never another `On`, `Save`, `Abort` or `Done`.
        step: Box<Step>,
    },
    /// Store this image of the unit's persistent state durably (replacing the last one).
    Save {
        /// Opaque bytes, restored by [`crate::logical_unit::LogicalUnit::restore`].
        image: Vec<u8>,
    },
    /// Abort other tasks of this unit, wait until they are quiet.
    Abort(AbortScope),
    /// The command ends.
    Done(Response),
}

/// Which tasks of a logical unit an abort reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortScope {
    /// Every task of the I_T nexuses that these are, also of those that were lost meanwhile (PREEMPT AND
    /// ABORT).
    Registrants(Vec<crate::persistent_reservation::Registrant>),
    /// Every task of the unit except the caller.
    All,
}

/// An allocated or unallocated run, as the backend tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The blocks.
    pub range: BlockRange,
    /// Whether storage is allocated for them.
    pub mapped: bool,
}

/// Why a block action failed. The device server turns each into sense data in one place
/// (`sense.rs`), so that a full pool is never reported as a medium error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// The block could not be read back (03/11/00 UNRECOVERED READ ERROR).
    Medium {
        /// The first bad block, where known.
        lba: Option<u64>,
    },
    /// A write or flush failed (03/0C/00 WRITE ERROR).
    Write {
        /// The first bad block, where known.
        lba: Option<u64>,
    },
    /// The blocks lie behind the end, which moved since the CDB was looked at (05/21/00).
    OutOfRange,
    /// No space: 07/27/07 SPACE ALLOCATION FAILED WRITE PROTECT.
    NoSpace,
    /// The backend is read-only (07/27/00).
    ReadOnly,
    /// The backend vanished (04/44/00).
    Gone,
    /// The backend is away and will come back by itself: BUSY, so that the initiator repeats the command.
    Away,
}
