//! The benchmark: its workloads, its measurement, its results, and the comparison of two results.
//!
//! - Workloads: [`::iometer::access`] (IOmeter's access specifications, the one concept),
//!   [`workload`], [`profile`] (those built in), [`generator`] (operations from a seed), [`data`]
//!   (the bytes written).
//! - Running: [`parameters`]; the measuring loop is [`run::worker`], with the real clock and device
//!   or with simulated ones ([`run::environment`]); its counters are in [`measure`].
//! - Verification that the device keeps its data: [`verify`].
//! - The measured unit, its sessions, and the facts in which two files of a comparison differ:
//!   [`reached`], [`facts`].
//! - Evaluation: [`results`], [`remarks`], [`statistics`], [`compare`]; the settings that matter:
//!   [`sweep`]; all of it as a page: [`report`].
//! - Formats of other tools: [`iometer`], [`fio`].
//! - Capacity of the network between: [`network`]; measurements from the field, repeated on one
//!   machine: [`lab`].
//!
//! # Invariants
//! - The same seed, workload and size of device give the same operations on every machine.
//! - No figure is adjusted. A figure that was not measured is reported as missing, and failures are
//!   counted beside successes. Data on a device that is not the benchmark's own is overwritten only
//!   if the user said so.

pub mod compare;
pub mod contents;
pub mod data;
pub mod deck;
pub mod esxtop_queue;
pub mod facts;
pub mod fio;
pub mod generator;
pub mod iometer;
pub mod machine;
pub mod measure;
pub mod network;
pub mod parameters;
pub mod profile;
pub mod random;
pub mod reached;
pub mod remarks;
pub mod report;
pub mod results;
pub mod run;
pub mod statistics;
pub mod sweep;
pub mod verify;
pub mod workload;
