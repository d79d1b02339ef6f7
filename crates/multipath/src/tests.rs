//! Tests of each rule of multipathing by itself, and of all rules together under random events.

mod answers;
mod claims;
mod failover;
mod host;
mod listing;
mod queueing;
mod selection;
mod simulation;
