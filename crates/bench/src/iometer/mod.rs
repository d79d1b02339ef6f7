//! Meaning of IOmeter's files for the benchmark. The crate `iometer` handles their text.
//!
//! People measured storage with IOmeter for twenty years. Their files keep working.

pub mod conversion;
pub mod results;
