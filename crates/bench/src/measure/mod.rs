//! Counting: what each worker records while it runs, and how the records of all become one
//! measurement.

pub mod latency;
pub mod record;
pub mod window;
