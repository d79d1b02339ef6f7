//! Tests of the array, on disks in memory that misbehave on demand.

mod absent;
mod basics;
mod columns;
mod counts;
mod double;
mod flushing;
mod history;
mod queueing;
mod rig;
mod second_look;
mod shapes;
mod unreadable;
mod waiting;
