//! Tests of the array, on disks in memory that misbehave as told.

mod basics;
mod rig;
mod waiting;
