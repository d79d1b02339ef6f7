//! The loops beside the one that runs a command, as the command needs them.

use std::fmt::Debug;
use std::sync::Arc;

use scsi::logical_unit::LogicalUnit;

use super::abort::AbortOrder;
use crate::loops::Loops;
use crate::unit::Unit;

/// All loops of a protocol together.
pub trait Peers: Debug {
    /// Task management function as the protocol knows it.
    type Function: Debug;

    /// Returns the loops of all protocols that serve the units, these included.
    fn loops(&self) -> &Arc<Loops>;

    /// Gives an abort order to every loop but the one with this number.
    fn abort(&self, but: usize, order: &Arc<AbortOrder<Self::Function>>);

    /// Returns the unit at work around a device server, if it is still configured.
    fn unit_of(&self, logical: &Arc<LogicalUnit>) -> Option<Arc<Unit>>;
}
