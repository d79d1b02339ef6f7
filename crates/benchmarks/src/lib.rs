//! Benchmarks that the daemon runs on its own logical units: one at a time, without the network,
//! beside the hosts that it serves.
//!
//! | question | file |
//! |---|---|
//! | What may be ordered, and what does an order come to? | `order.rs` |
//! | Which one runs, which are kept, and for how long? | `keeper.rs` |
//! | How are the measurements made, one after the other? | `runner.rs`; how far they are: `progress.rs` |
//! | How do they lie in the state folder? | `files.rs` |
//! | What do figures come to over the rounds? | `rows.rs`; of a sweep: `sweep_table.rs` |
//! | Do two benchmarks differ? | `comparison.rs` |
//! | How are they listed and shown? | `view.rs` |
//!
//! Measuring itself is the crate [`bench`], which the command line uses too. Whether a unit may be
//! measured, and by whom, is decided by who orders.
//!
//! # Invariants
//! - At most one benchmark runs. At most [`MOST_KEPT`] are kept, the oldest go first.
//! - A measurement that was made is kept, or its loss is told.
//! - A benchmark ends with the daemon, and within seconds after its guard wants it to.

mod comparison;
mod files;
mod keeper;
mod order;
mod progress;
mod rows;
mod runner;
mod sweep_table;
#[cfg(test)]
mod testing;
mod view;

pub use comparison::{BenchmarkComparison, ComparisonRow, ComparisonVerdict, FactDifference};
pub use keeper::{Benchmarks, MOST_KEPT, Subject};
pub use order::{BenchmarkKind, OUTSTANDING, Plan, ROUNDS, StartBenchmark, SweepOrder, TIME_MS};
pub use progress::MEASURING;
pub use rows::RowView;
pub use runner::Guard;
pub use sweep_table::SweepView;
pub use view::{
    BenchmarkDetail, BenchmarkStarted, BenchmarkState, BenchmarkView, Overwrites, ProgressView,
};
