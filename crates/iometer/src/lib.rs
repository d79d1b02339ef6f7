//! IOmeter's words and files: access specifications, which all of the benchmark speaks in, and configurations
//! (`.icf`) as text, read and written in every detail.
//!
//! A crate of its own, without files or devices, because it reads what strangers wrote: it is fuzzed. What a
//! configuration means to the benchmark is the benchmark's business.

pub mod access;
pub mod configuration;
pub mod read;
pub mod write;
