//! The benchmark: what it asks for, how it measures, what it says, and how two results are compared.
//!
//! - What is asked for: [`access`] (IOmeter's access specifications, the one concept), [`workload`],
//!   [`profile`] (those built in), [`generator`] (operations from a seed), [`data`] (the bytes written).
//!
//! # Invariants
//! - The same seed, workload and size of device give the same operations on every machine.
//! - No figure is adjusted: what was not measured is said to be missing, what failed is counted beside what
//!   did not, and what a device has that is not the benchmark's own is written only when the user said so.

pub mod access;
pub mod data;
pub mod deck;
pub mod generator;
pub mod profile;
pub mod random;
pub mod workload;
