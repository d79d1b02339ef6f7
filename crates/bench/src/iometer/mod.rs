//! What IOmeter's files mean to the benchmark; their text is the business of the crate `iometer`.
//!
//! The people who measured storage for twenty years did it with IOmeter; what they have keeps
//! working.

pub mod conversion;
pub mod results;
