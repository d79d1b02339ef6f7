//! Health of this machine's disks, as they tell it themselves.
//!
//! Disks are asked by `smartctl`, where it is installed. An alarm rests on what a disk itself calls
//! failed, and on errors that grow beyond a baseline. Raw values as such mean different things on
//! different disks, and are never judged.
//!
//! | question | file |
//! |---|---|
//! | How is a disk asked? | `program.rs` |
//! | What does its answer say? | `report.rs` |
//! | Which errors have grown, and since when? | `baseline.rs` |
//! | When is which disk asked, and where is the result? | `rounds.rs` |

mod baseline;
mod program;
mod report;
mod rounds;

pub use program::Program;
pub use rounds::{Disk, Rounds};
