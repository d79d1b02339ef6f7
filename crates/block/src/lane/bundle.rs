//! Answers of another thread that go to lanes in one passage for each lane.

use super::{Delivery, Outcome, Remote, Ticket};

/// Answers for one lane that leave together. Each passage takes the lane's lock, and may wake its
/// loop, so many answers share it.
#[derive(Default)]
pub struct Bundle {
    lane: Option<Remote>,
    deliveries: Vec<Delivery>,
}

impl Bundle {
    /// Adds the outcome of a pending request. Answers for another lane leave first.
    pub fn add(&mut self, lane: &Remote, ticket: Ticket, outcome: Outcome) {
        if !self.lane.as_ref().is_some_and(|of| of.is_same(lane)) {
            self.send();
            self.lane = Some(lane.clone());
        }
        self.deliveries.push(Delivery {
            ticket,
            outcome,
            is_pools: lane.is_pools,
        });
    }

    /// Queues all outcomes and wakes the loop.
    pub fn send(&mut self) {
        if let Some(lane) = self.lane.take() {
            lane.deliver(|outcomes| outcomes.append(&mut self.deliveries));
        }
    }
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundle")
            .field("deliveries", &self.deliveries.len())
            .finish_non_exhaustive()
    }
}
