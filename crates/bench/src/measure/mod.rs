//! Counting: the records of each worker during a run, and their combination into one measurement.

pub mod latency;
pub mod record;
pub mod window;
