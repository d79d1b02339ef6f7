//! Changes that wait for old contents or for room, and the locks on the blocks that they touch.

use std::collections::VecDeque;

use pages::Pages;

use super::change::Write;
use crate::format::Epoch;
use crate::pool::request::RequestId;

/// Change with the old contents of the blocks that it covers in part: at most the first and the
/// last one.
#[derive(Debug)]
pub(in crate::pool) struct Ready {
    pub(in crate::pool) id: RequestId,
    pub(in crate::pool) write: Write,
    pub(super) olds: Vec<(u64, Pages)>,
    /// Last durable checkpoint at the time when no place was found for the change, though enough
    /// sectors were free.
    pub(super) scattered: Option<Epoch>,
    /// Bytes of compressed blocks that the change keeps beside its own data while it waits for
    /// room.
    pub(super) kept_packed: usize,
}

/// Lock on blocks that a waiting change touches.
#[derive(Debug)]
pub(in crate::pool) struct Lock {
    /// Block after the last locked one.
    pub(super) end: u64,
    /// Changes that wait since they touch some of the blocks too.
    pub(super) waiting: VecDeque<(RequestId, Write)>,
}
