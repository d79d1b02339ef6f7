//! Layers on a device. A layer is a device too: it changes the way of requests, and passes all
//! other calls to the device beneath.
//!
//! A layer states only what it does with requests. So a new method of devices works through every
//! layer, and no layer can forget to pass it on.

use std::fmt;

use super::fence::{FenceOrder, FenceState, Fencing};
use super::{
    Asked, BlockDevice, BlockError, Condition, Durability, Foreseen, Geometry, Lane, LatencySplit,
    Request, Submitted, Suspension, Ticket, Usage,
};

/// A layer on a device.
pub trait Layer: Send + Sync + fmt::Debug {
    /// Returns the device beneath.
    fn beneath(&self) -> &dyn BlockDevice;

    /// Implements [`BlockDevice::submit`].
    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted;

    /// Returns the reason why the layer itself has lost writes. See [`BlockDevice::lost_writes`].
    fn own_lost_writes(&self) -> Option<String> {
        None
    }

    /// Implements [`BlockDevice::acknowledge_lost_writes`].
    fn acknowledge_lost_writes(&self) -> bool {
        self.beneath().acknowledge_lost_writes()
    }
}

impl<L: Layer> BlockDevice for L {
    fn geometry(&self) -> Geometry {
        self.beneath().geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        Layer::submit(self, request, ticket, lane)
    }

    fn reads_in_place(&self) -> bool {
        self.beneath().reads_in_place()
    }

    fn reads_on_any_lane(&self) -> bool {
        self.beneath().reads_on_any_lane()
    }

    fn has_read_cache(&self) -> bool {
        self.beneath().has_read_cache()
    }

    fn foresees(&self) -> bool {
        self.beneath().foresees()
    }

    fn foresee(&self, accesses: &[Foreseen]) {
        self.beneath().foresee(accesses);
    }

    fn latency_split(&self) -> Option<LatencySplit> {
        self.beneath().latency_split()
    }

    fn durability(&self) -> Option<Durability> {
        self.beneath().durability()
    }

    fn is_read_only(&self) -> bool {
        self.beneath().is_read_only()
    }

    fn read_only_remedy(&self) -> Option<String> {
        self.beneath().read_only_remedy()
    }

    fn suspension(&self) -> Option<Suspension> {
        self.beneath().suspension()
    }

    fn space_remedy(&self) -> Option<String> {
        self.beneath().space_remedy()
    }

    fn lost_writes(&self) -> Option<String> {
        self.own_lost_writes()
            .or_else(|| self.beneath().lost_writes())
    }

    fn acknowledge_lost_writes(&self) -> bool {
        Layer::acknowledge_lost_writes(self)
    }

    fn fence(&self, order: FenceOrder) -> Option<Fencing> {
        self.beneath().fence(order)
    }

    fn fence_state(&self) -> Option<FenceState> {
        self.beneath().fence_state()
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.beneath().usage()
    }

    fn ask_condition(&self) -> Asked<'_> {
        let beneath = self.beneath().ask_condition();
        Box::new(move || {
            let condition = beneath();
            Condition {
                lost_writes: self.own_lost_writes().or(condition.lost_writes),
                ..condition
            }
        })
    }

    fn reopenings(&self) -> u64 {
        self.beneath().reopenings()
    }

    fn is_over(&self) -> bool {
        self.beneath().is_over()
    }

    fn fault(&self) -> Option<String> {
        self.beneath().fault()
    }

    fn refresh(&self) -> Result<Geometry, BlockError> {
        self.beneath().refresh()
    }
}
