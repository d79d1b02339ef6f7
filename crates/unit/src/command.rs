//! SCSI commands between their start and their end on one event loop, whatever carries them.
//!
//! - [`core`]: reads and writes run, other commands go on; [`ended`]: their ends;
//! - [`operation`], [`operations`]: commands in progress, found by token and by session;
//! - [`task_run`], [`step_requests`]: tasks of the device server, step by step; [`turn`]: their
//!   share of a turn;
//! - [`abort`], [`queue_error`], [`reset`]: commands that end others;
//! - [`fence`]: writes of a lost session that are still under way;
//! - [`peers`]: the other loops.

pub mod abort;
pub mod core;
pub mod ended;
pub mod fence;
pub mod kind;
pub mod operation;
pub mod operations;
pub mod peers;
pub mod queue_error;
pub mod reset;
pub mod step_requests;
pub mod task_run;
pub mod turn;
