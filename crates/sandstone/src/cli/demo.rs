//! `demo`: a logical unit, a target and a map, made and served by one command.

use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::completion::size;
use super::{Connection, report};
use crate::config::{Error, ErrorKind};

/// What to demonstrate. The state folder, where one is given, is that of [`Connection`].
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Print one line of JSON (url, portal, target, lun, control) once it serves
    #[arg(long)]
    pub json: bool,
    /// Serve this much memory instead of a thin file
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "size")]
    pub memory: Option<u64>,
    /// Write, read back and verify over a real TCP session, then exit
    #[arg(long)]
    pub once: bool,
    /// TCP port on 127.0.0.1 [default: 3260, or the next free one]
    #[arg(long)]
    pub port: Option<u16>,
    /// Capacity of the thin file
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "10G")]
    pub size: u64,
    /// Logical block size
    #[arg(long, value_name = "512|4096", default_value_t = 512, value_parser = block_size)]
    pub block_size: u32,
    /// Acknowledge writes from volatile cache
    #[arg(long)]
    pub write_cache: bool,
    /// Event loops [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<std::num::NonZeroUsize>,
    /// Use threads for file I/O even where io_uring works
    #[arg(long)]
    pub no_io_uring: bool,
}

fn block_size(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" | "4k" | "4K" => Ok(4096),
        _ => Err("choose 512 or 4096".into()),
    }
}

/// Runs until Ctrl-C, or with `--once` until the self-test is over.
pub fn run(_args: &Args, _connection: &Connection) -> ExitCode {
    let error = Error::new(
        ErrorKind::Unavailable,
        "the demo is not available in this build",
        "use a build that has the data plane",
    );
    let _ = report(&mut std::io::stderr(), &error);
    ExitCode::FAILURE
}
