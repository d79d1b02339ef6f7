//! `demo`: the options of the demonstration.

use std::net::SocketAddr;

use clap::Args as ClapArgs;

use crate::grammar::completion::size;

/// Options of the demonstration. [`Connection`] holds the state folder, if one is given.
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Print one line of JSON (url, portal, target, lun, control, console) once it serves
    #[arg(long)]
    pub json: bool,
    /// Serve this much memory instead of a volume
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "size")]
    pub memory: Option<u64>,
    /// Write, read back and verify over a real TCP session, then exit
    #[arg(long)]
    pub once: bool,
    /// TCP port on 127.0.0.1 [default: 3260, or the next free one]
    #[arg(long, conflicts_with = "portal")]
    pub port: Option<u16>,
    /// Listen at this address, so that other machines reach it: an address of this machine, or
    /// 0.0.0.0 for all of them. Anybody who reaches it can read and write the disk
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = super::target::portal)]
    pub portal: Option<SocketAddr>,
    /// Capacity of the volume [default: 10G]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// Logical block size [default: 512]
    #[arg(long, value_name = "512|4096", value_parser = block_size)]
    pub block_size: Option<u32>,
    /// Physical block size [default: 4096]
    #[arg(long, value_name = "512|4096", value_parser = block_size)]
    pub physical_block_size: Option<u32>,
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

pub(super) fn block_size(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" | "4k" | "4K" => Ok(4096),
        _ => Err("choose 512 or 4096".into()),
    }
}
