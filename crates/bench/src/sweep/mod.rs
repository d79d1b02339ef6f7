//! Search for the settings that matter: runs the same workloads under every setting, in turns, and
//! evaluates them.
//!
//! - [`knob`]: settings that can be varied, and the commands that set them elsewhere;
//! - [`session_knobs`]: knobs of an initiator, with their commands in [`commands`];
//! - [`volume_knobs`]: knobs of a volume of Sandstone's own pools;
//! - [`plan`]: the settings that are tried, and their order;
//! - [`in_vain`]: knobs that cannot make a difference in the present situation;
//! - [`verdict`]: settings that differ from the first, and the best one.

pub mod commands;
pub mod in_vain;
pub mod knob;
pub mod plan;
pub mod session_knobs;
pub mod verdict;
pub mod volume_knobs;
