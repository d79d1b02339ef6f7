//! Loads pools and plain files, for `cargo xtask bench store`. The pools run in this process, on
//! the daemon's own runtime and without a network, so that only the store is measured.
//!
//! Commands are lines of JSON on the standard input. Each is answered by one line of JSON: its
//! result, or `{"error": …}`. `command.rs` describes the commands. The first argument is the folder
//! for the state of the pools, the second the bytes of their cache.

mod command;
#[cfg(feature = "counted")]
mod counts;
mod load;
mod processor;

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;

use command::Bench;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let state = arguments.next().map(PathBuf::from);
    let cache = arguments
        .next()
        .and_then(|word| word.to_str()?.parse().ok());
    let (Some(state), Some(cache)) = (state, cache) else {
        return Err("usage: pool_load STATE-FOLDER CACHE-BYTES".into());
    };
    let mut bench = Bench::start(state, cache)?;
    for line in std::io::stdin().lock().lines() {
        let answer = serde_json::from_str(&line?)
            .map_err(|error| error.to_string())
            .and_then(|command| bench.obey(command));
        let answer = answer.unwrap_or_else(|error| serde_json::json!({ "error": error }));
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    bench.close();
    Ok(())
}
