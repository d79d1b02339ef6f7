//! The pool on disks in memory that do what they are asked.

mod basics;
mod checks;
mod datasets;
mod full;
mod opening;
mod streams;
mod usage;
mod vdevs;
mod world;
