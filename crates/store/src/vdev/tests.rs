//! Tests of the array, on disks in memory that misbehave as told.

mod basics;
mod flushing;
mod history;
mod rig;
mod shapes;
mod waiting;
