//! Each rule of multipathing by itself, and all of them together under random events.

mod medium;

mod simulation;
