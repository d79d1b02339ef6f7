//! Running a workload: workers that keep a device busy and record what it does.

pub mod environment;
pub mod pace;
pub mod slots;
pub mod worker;
