//! Finding the settings that matter: the same workloads under every setting, in turns, and what
//! came of it.
//!
//! - [`knob`]: what can be set, how, and what to type to have it elsewhere;
//! - [`session_knobs`]: those of an initiator, with [`commands`], what to type for them;
//! - [`volume_knobs`]: those of a volume of our own;
//! - [`plan`]: which settings are tried, and in which order;
//! - [`in_vain`]: which of them cannot differ as things stand;
//! - [`verdict`]: which of them differ from the first, and which is best.

pub mod commands;
pub mod in_vain;
pub mod knob;
pub mod plan;
pub mod session_knobs;
pub mod verdict;
pub mod volume_knobs;
