//! Terms and files of IOmeter: access specifications, which describe all workloads of the
//! benchmark, configurations, and results. Configurations (`.icf`) are read and written as text in
//! every detail. Results are read also after a spreadsheet has saved them.
//!
//! This is a crate of its own, without files or devices, because it reads files of strangers and so
//! is fuzzed. The benchmark decides the meaning of a configuration.

pub mod access;
pub mod configuration;
mod decimal;
pub mod read;
pub mod results;
mod sheet;
pub mod text;
pub mod write;
