//! A demo that exists already. It stays as it is, so contradicting options are refused.

use std::path::Path;

use super::UNIT;
use crate::daemon::Daemon;
use cli::demo::Args;
use model::config::UnitSpec;
use model::quantity::format_size;
use model::{Error, ErrorKind};

/// Refuses options of a new demo that contradict this one.
pub(super) fn refuse_contradictions(
    args: &Args,
    daemon: &Daemon,
    unit: &UnitSpec,
    state: &Path,
) -> Result<(), Error> {
    let status = daemon.transactions().data_plane().unit(UNIT);
    let size = status.map_or(0, |status| status.size);
    let Some((asked, has)) = contradiction(args, unit, size) else {
        return Ok(());
    };
    let folder = state.display();
    let grow = match args.size {
        Some(wanted) if wanted > size && asked.starts_with("--size") => format!(
            "; or run the demo, and grow its logical unit: sandstone --state {folder} lu modify {UNIT} \
             --size {}",
            format_size(wanted)
        ),
        _ => String::new(),
    };
    Err(Error::new(
        ErrorKind::Exists,
        format!(
            "a demo exists already in {folder}, and it has {has}: {asked} would need another demo"
        ),
        format!(
            "omit {}; or make another demo: sandstone demo --state DIR {asked}{grow}",
            asked.split(' ').next().unwrap_or_default()
        ),
    ))
}

/// Returns an option as it was given, with the value that the demo has instead.
fn contradiction(args: &Args, unit: &UnitSpec, size: u64) -> Option<(String, String)> {
    let is_memory = unit.backend.is_volatile();
    let kind = match is_memory {
        true => format!("{} of memory", format_size(size)),
        false => format!("a volume of {}", format_size(size)),
    };
    let differs = |asked: Option<u64>, has: u64, is_kind: bool| {
        asked.filter(|asked| !is_kind || *asked != has)
    };
    if let Some(asked) = differs(args.memory, size, is_memory) {
        return Some((format!("--memory {}", format_size(asked)), kind));
    }
    // The size of a missing volume is unknown.
    if let Some(asked) = differs(args.size, size, !is_memory).filter(|_| size > 0) {
        return Some((format!("--size {}", format_size(asked)), kind));
    }
    let blocks = [
        ("--block-size", args.block_size, unit.block_size),
        (
            "--physical-block-size",
            args.physical_block_size,
            unit.physical_block_size,
        ),
    ];
    for (option, asked, has) in blocks {
        if let Some(asked) = asked.filter(|asked| *asked != has) {
            return Some((format!("{option} {asked}"), format!("{has}")));
        }
    }
    let wants_cache = args.write_cache && !unit.write_cache;
    wants_cache.then(|| ("--write-cache".to_owned(), "no write cache".to_owned()))
}
