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
pub mod multipath;
pub mod nbd;
pub mod pool;
pub mod process;
mod serve;
mod demo;
mod spin;
pub mod state_folder;
pub mod target;
pub mod tcp_info;

use std::process::ExitCode;

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    cli::run(cli::Daemons {
        serve: serve::run,
        demo: demo::run,
    })
}
