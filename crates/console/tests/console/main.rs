//! The console as browsers meet it: who gets in, what every answer carries, what forms change, and
//! the streams of live figures.

mod entry;
mod every_route;
mod forms;
mod live;
mod pages;
mod rig;
