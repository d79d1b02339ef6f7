//! The files of IOmeter: its configurations (`.icf`) and its results, in both directions.
//!
//! The people who measured storage for twenty years did it with IOmeter; what they have keeps working.

pub mod configuration;
pub mod conversion;
pub mod read;
pub mod results;
pub mod write;
