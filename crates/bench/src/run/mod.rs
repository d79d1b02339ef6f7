//! Running a workload: workers that keep a device busy and record what it does.
//!
//! [`measure`] runs a workload once through its phases. [`crew`] has the threads of a phase, and
//! [`worker`] is the loop of each thread.

pub mod crew;
pub mod environment;
pub mod measure;
pub mod pace;
pub mod region;
pub mod slots;
pub mod worker;
