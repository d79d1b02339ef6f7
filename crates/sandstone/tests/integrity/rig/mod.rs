//! What the tests are made of: a served target, sessions, workloads and their model.

pub(super) mod content;
pub(super) mod model;
pub(super) mod process;
pub(super) mod random;
pub(super) mod served;
pub(super) mod session;
pub(super) mod workload;
