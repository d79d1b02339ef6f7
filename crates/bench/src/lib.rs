//! The benchmark: what it asks for, how it measures, what it says, and how two results are
//! compared.
//!
//! - What is asked for: [`::iometer::access`] (IOmeter's access specifications, the one concept),
//!   [`workload`], [`profile`] (those built in), [`generator`] (operations from a seed), [`data`]
//!   (the bytes written).
//! - How it is run: [`parameters`]; the loop that measures is [`run::worker`], with the real clock
//!   and device or with simulated ones ([`run::environment`]); what it counts is in [`measure`].
//! - Whether the device keeps what it is given: [`verify`].
//! - Which unit it was, over which sessions, and what both files of a comparison differ in:
//!   [`reached`], [`facts`].
//! - What it is worth: [`results`], [`remarks`], [`statistics`], [`compare`]; which settings
//!   matter: [`sweep`]; all of it as a page: [`report`].
//! - What other tools know: [`iometer`], [`fio`].
//! - What the network between carries: [`network`]; what people measured in the field, repeated on
//!   one machine: [`lab`].
//!
//! # Invariants
//! - The same seed, workload and size of device give the same operations on every machine.
//! - No figure is adjusted: what was not measured is said to be missing, what failed is counted
//!   beside what did not, and what a device has that is not the benchmark's own is written only
//!   when the user said so.

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
