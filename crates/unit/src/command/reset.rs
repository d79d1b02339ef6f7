//! Resets of logical units. A reset restores the saved mode parameters. If these have no write
//! cache, its contents are made durable before the reset is answered.

use std::sync::Arc;

use scsi::logical_unit::Reset;

use super::core::Core;
use super::operation::{Operation, SessionKey, TaskKey, Waiting, Work};
use super::peers::Peers;
use crate::quiet_signal::QuietSignal;
use crate::unit::Unit;
use block::{Request, Submitted, Ticket};

impl<S: Peers> Core<S> {
    /// Resets a unit. `answer` waits until none of its data is in a write cache that the reset
    /// switched off. A cache that cannot be emptied does not stop the reset.
    pub fn reset(&mut self, unit: &Arc<Unit>, cause: Reset, answer: Arc<QuietSignal>) {
        let hold = unit.logical.write_through();
        if !unit.logical.reset(cause) {
            return;
        }
        let token = self.operations.insert(Operation {
            session: SessionKey::NONE,
            task: TaskKey::NONE,
            entry: None,
            work: Work::Emptying(unit.clone(), hold),
            waiting: Waiting::Device,
            held: Vec::new(),
            cancelled: false,
            fenced_off: false,
            data_out_wanted: None,
            observers: vec![answer],
        });
        let flush = (unit.device).submit(Request::Flush, Ticket::new(token.0), &mut self.lane);
        if let Submitted::Ready(outcome) = flush {
            self.completed(token, outcome);
        }
    }
}
