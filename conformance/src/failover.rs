//! Labs of the gap in I/O when one of two paths dies under load. They measure the longest time
//! without a completion, of writes, against our daemon and against tgt, whose old writes need time
//! to settle.
//!
//! I/O that overlaps a write of the dead path waits for that time. So the unit is large, and few
//! blocks are written twice meanwhile.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::initiator::{serve, two_paths};
use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process;
use crate::servers::path_proxy::Weather;
use crate::servers::server::{Backend, Server, ServerKind, Spec};

const LIMIT: Duration = Duration::from_secs(60);
/// Number of deaths of which the median counts, because other load of a busy machine adds to a gap
/// as well.
const DEATHS: usize = 3;
/// Size of the unit, a sparse file.
const SIZE_MIB: u64 = 32 << 10;

/// Labs, one for each target.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "initiator-failover",
        about: "no completion is missing for 100 ms when a path is cut, or 1 s when it goes silent, our daemon",
        room: Room::Alone,
        run: |bench| failover(bench, false),
    },
    Lab {
        name: "initiator-failover-tgt",
        about: "no completion is missing for 100 ms when a path is cut, or 1 s when it goes silent, tgt",
        room: Room::Alone,
        run: |bench| failover(bench, true),
    },
];

fn failover(bench: &Bench, tgt: bool) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("the peer is no initiator".into()));
    };
    let spec = Spec {
        backend: Backend::File,
        size_mib: SIZE_MIB,
        ..Spec::default()
    };
    let server = serve(bench, tgt, spec)?;
    let mut told = Vec::new();
    for (death, below_ms) in [(Weather::Cut, 100), (Weather::Silent, 1000)] {
        let gaps = (0..DEATHS).map(|_| gap_ms(program, &server, tgt, death));
        let gaps = gaps.collect::<Result<Vec<u64>>>()?;
        let mut sorted = gaps.clone();
        sorted.sort_unstable();
        ensure!(
            sorted[DEATHS / 2] < below_ms,
            "{death:?}: nothing ended for {gaps:?} ms; less than {below_ms} ms is demanded"
        );
        told.push(format!("{death:?} {gaps:?} ms"));
    }
    Ok(Outcome::passed(format!(
        "longest gaps: {}",
        told.join(", ")
    )))
}

/// Returns the longest time without a completion around the death of a path that is in use.
fn gap_ms(program: &Path, server: &Server, tgt: bool, death: Weather) -> Result<u64> {
    let (paths, url) = two_paths(server, tgt)?;
    let mut command = Command::new(program);
    command.args(["bench", "run", &url, "--destroy-data", "--json"]);
    command.args(["--block", "4096", "--reads", "0", "--random", "100"]);
    // The load is slow enough for the paths, which are threads of this program, to leave some of
    // the cores to both ends.
    command.args(["--outstanding", "16", "--limit", "5000"]);
    command.args(["--time", "2s", "--ramp-up", "0"]);
    let finished = std::thread::scope(|scope| {
        let run = scope.spawn(move || process::finish(command, LIMIT));
        let is_busy = || paths.iter().all(|path| path.bytes() > 256 << 10);
        process::until("both paths are used", LIMIT, || {
            run.is_finished() || is_busy()
        })?;
        paths[0].set(death);
        run.join()
            .map_err(|_| anyhow::anyhow!("the run panicked"))?
    })?;
    ensure!(finished.status.success(), "{}", finished.tail());
    let results: serde_json::Value =
        serde_json::from_str(&finished.stdout).with_context(|| finished.tail())?;
    let measured = &results["runs"][0]["measurement"];
    let none = measured["failures"].as_array().is_none_or(Vec::is_empty);
    ensure!(none, "accesses failed: {}", measured["failures"]);
    let sessions = &results["runs"][0]["reached"]["sessions"];
    let is_dead = sessions[0]["up"] == false;
    ensure!(is_dead, "the path did not die meanwhile: {sessions}");
    let gap_ns = measured["longest_gap_ns"].as_u64().context("no gap")?;
    Ok(gap_ns / 1_000_000)
}
