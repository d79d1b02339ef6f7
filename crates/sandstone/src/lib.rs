//! Sandstone: a storage area network in one program.
//!
//! This crate is the composition root: it joins the cores that do no I/O ([`scsi`], [`iscsi`], [`store`], `nbd` and
//! `iometer`) to sockets, threads, clocks and files.

pub mod bench;
pub mod block;
pub mod cli;
pub mod config;
pub mod control;
pub mod daemon;
mod date;
mod entropy;
mod health;
mod hint;
pub mod initiator;
pub mod isns;
pub mod locate;
pub mod log;
pub mod multipath;
pub mod nbd;
mod notify;
pub mod pool;
mod spin;
pub mod state_folder;
pub mod target;
pub mod tcp_info;
