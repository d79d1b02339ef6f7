//! The loops beside the one that runs a command, as the command needs them.

use std::fmt::Debug;
use std::sync::Arc;

use scsi::logical_unit::LogicalUnit;
use scsi::task_set::Wake;

use super::abort::AbortOrder;
use crate::transition::DrainOrder;
use crate::unit::Unit;

/// All loops of a protocol together.
pub trait Peers: Debug {
    /// Task management function as the protocol knows it.
    type Function: Debug;

    /// Returns the function that signals call with a token.
    fn wake(&self) -> Wake;

    /// Gives an abort order to every loop but the one with this number.
    fn abort(&self, but: usize, order: &Arc<AbortOrder<Self::Function>>);

    /// Gives an order to every loop: to wait for commands that began before.
    fn drain(&self, order: &DrainOrder);

    /// Returns the unit at work around a device server, if it is still configured.
    fn unit_of(&self, logical: &Arc<LogicalUnit>) -> Option<Arc<Unit>>;
}
