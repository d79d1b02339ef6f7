//! Test bench of the integrity tests: a served target, sessions, workloads and their model.

pub(super) mod content;
pub(super) mod model;
pub(super) mod process;
pub(super) mod random;
pub(super) mod served;
pub(super) mod session;
pub(super) mod workload;
