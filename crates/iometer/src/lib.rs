//! IOmeter's words and files: access specifications, which all of the benchmark speaks in, configurations (`.icf`) as
//! text, read and written in every detail, and results, also after a spreadsheet has saved them.
//!
//! A crate of its own, without files or devices, because it reads what strangers wrote: it is fuzzed. What a
//! configuration means to the benchmark is the benchmark's business.

pub mod access;
pub mod configuration;
mod decimal;
pub mod read;
pub mod results;
mod sheet;
pub mod text;
pub mod write;
