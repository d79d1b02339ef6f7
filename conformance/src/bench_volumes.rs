//! Labs of the `bench lab` experiments on volumes of a pool, each made once and for a moment. They
//! check that every setting is really in force on the volume of its load. They also check that each
//! gives figures, and that nothing is left behind. They do not judge how much the figures differ.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::bench_network::lacking;
use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process;
use crate::servers::server::ServerKind;

/// Time limit of one experiment: each of its volumes is filled before each run.
const LIMIT: Duration = Duration::from_secs(300);
/// Interval between questions to the experiment's daemon.
const EVERY: Duration = Duration::from_millis(200);
/// Properties for which the daemon is asked.
const PROPERTIES: &str = "volblocksize,sync,checksum,primarycache";

/// Labs with one experiment each, so that they run beside other labs.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "bench-lab-volblocksize",
        about: "the experiments volblocksize and volblocksize-random: each volume has the block size that its run is about",
        room: Room::Shared,
        run: |bench| made(bench, &[&VOLBLOCKSIZE, &VOLBLOCKSIZE_RANDOM]),
    },
    Lab {
        name: "bench-lab-sync",
        about: "the experiments sync and write-cache: each unit has the sync and the write cache that its run is about",
        room: Room::Shared,
        run: |bench| made(bench, &[&SYNC, &WRITE_CACHE]),
    },
    Lab {
        name: "bench-lab-checksum",
        about: "the experiments checksum and primarycache: each volume has the properties that its run is about",
        room: Room::Shared,
        run: |bench| made(bench, &[&CHECKSUM, &PRIMARYCACHE]),
    },
];

/// Volume as an experiment must have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Volume {
    /// Properties of the volume, in the order of [`PROPERTIES`], in exact numbers.
    properties: [&'static str; 4],
    write_cache: bool,
    /// Whether the load of the volume reads.
    is_read: bool,
}

/// Experiment as this lab expects it.
struct Expected {
    name: &'static str,
    /// Names of the settings, in order.
    variants: &'static [&'static str],
    /// Volumes in the order in which settings need them.
    volumes: &'static [Volume],
}

const fn volume(properties: [&'static str; 4], write_cache: bool, is_read: bool) -> Volume {
    Volume {
        properties,
        write_cache,
        is_read,
    }
}

const VOLBLOCKSIZE: Expected = Expected {
    name: "volblocksize",
    variants: &["128K", "64K", "32K", "16K", "8K"],
    volumes: &[
        volume(["131072", "standard", "on", "all"], true, false),
        volume(["65536", "standard", "on", "all"], true, false),
        volume(["32768", "standard", "on", "all"], true, false),
        volume(["16384", "standard", "on", "all"], true, false),
        volume(["8192", "standard", "on", "all"], true, false),
    ],
};
const VOLBLOCKSIZE_RANDOM: Expected = Expected {
    name: "volblocksize-random",
    variants: &["64K", "16K (default)", "128K", "8K", "4K"],
    volumes: &[
        volume(["65536", "standard", "on", "all"], true, true),
        volume(["16384", "standard", "on", "all"], true, true),
        volume(["131072", "standard", "on", "all"], true, true),
        volume(["8192", "standard", "on", "all"], true, true),
        volume(["4096", "standard", "on", "all"], true, true),
    ],
};
const SYNC: Expected = Expected {
    name: "sync",
    variants: &[
        "standard, write-through",
        "standard, write-back",
        "always",
        "disabled",
    ],
    volumes: &[
        volume(["16384", "standard", "on", "all"], false, false),
        volume(["16384", "standard", "on", "all"], true, false),
        volume(["16384", "always", "on", "all"], true, false),
        volume(["16384", "disabled", "on", "all"], false, false),
    ],
};
const WRITE_CACHE: Expected = Expected {
    name: "write-cache",
    variants: &[
        "write-through",
        "write-back",
        "volume, write-through",
        "volume, write-back",
    ],
    volumes: &[
        volume(["16384", "standard", "on", "all"], false, false),
        volume(["16384", "standard", "on", "all"], true, false),
    ],
};
const CHECKSUM: Expected = Expected {
    name: "checksum",
    variants: &[
        "on, writes",
        "off, writes",
        "blake3, writes",
        "on, reads",
        "off, reads",
    ],
    volumes: &[
        volume(["16384", "standard", "on", "all"], true, false),
        volume(["16384", "standard", "off", "all"], true, false),
        volume(["16384", "standard", "blake3", "all"], true, false),
        volume(["16384", "standard", "on", "metadata"], true, true),
        volume(["16384", "standard", "off", "metadata"], true, true),
    ],
};
const PRIMARYCACHE: Expected = Expected {
    name: "primarycache",
    variants: &["all", "metadata", "none"],
    volumes: &[
        volume(["16384", "standard", "on", "all"], false, true),
        volume(["16384", "standard", "on", "metadata"], false, true),
        volume(["16384", "standard", "on", "none"], false, true),
    ],
};

fn made(bench: &Bench, experiments: &[&Expected]) -> Result<Outcome> {
    let ServerKind::Sandstone(sandstone) = &bench.kind else {
        return Ok(Outcome::Skipped(
            "this lab is about Sandstone's volumes".into(),
        ));
    };
    let mut figures = Vec::new();
    for expected in experiments {
        let ran = run(sandstone, expected.name)?;
        if let Some(reason) = lacking(&ran.said) {
            return Ok(Outcome::Skipped(reason));
        }
        judge(expected, &ran).with_context(|| expected.name)?;
        ensure!(
            ran.left.is_empty(),
            "{} left {:?} behind",
            expected.name,
            ran.left
        );
        figures.push(format!(
            "{} {} settings",
            expected.name,
            expected.variants.len()
        ));
    }
    Ok(Outcome::passed(figures.join(", ")))
}

/// Result of an experiment.
struct Ran {
    outcome: Value,
    /// Last answer of the daemon about its units and volumes, while the experiment ran.
    seen: Option<Seen>,
    /// Output of the experiment on standard error.
    said: String,
    /// Files that the experiment left behind.
    left: Vec<PathBuf>,
}

/// Units of a daemon, and properties of its volumes.
struct Seen {
    units: Value,
    properties: Value,
}

fn run(sandstone: &Path, name: &str) -> Result<Ran> {
    let folder = crate::machine::scratch::folder("lab-volumes")?;
    let files = ["result.json", "said.txt"].map(|file| folder.path().join(file));
    let mut command = Command::new(sandstone);
    command.args(["bench", "lab", "run", name, "--json"]);
    command.args(["--seconds", "1", "--repeats", "1"]);
    let [out, err] = [File::create(&files[0])?, File::create(&files[1])?];
    let mut running = process::start(command, out.into(), err.into())?;
    let made = made_by(running.child.id());
    let end = Instant::now() + LIMIT;
    let mut seen = None;
    while running.child.try_wait().context("wait for it")?.is_none() {
        ensure!(Instant::now() < end, "{name} does not end");
        seen = ask(sandstone, &made[0]).or(seen);
        std::thread::sleep(EVERY);
    }
    let [text, said] = [
        std::fs::read_to_string(&files[0])?,
        std::fs::read_to_string(&files[1])?,
    ];
    let outcome = match lacking(&said) {
        Some(_) => Value::Null,
        None => {
            let value: Value = serde_json::from_str(&text)
                .with_context(|| format!("{name}: {}", process::last_lines(&said, 12)))?;
            value["experiments"][0].clone()
        }
    };
    let left = made.into_iter().filter(|path| path.exists()).collect();
    Ok(Ran {
        outcome,
        seen,
        said,
        left,
    })
}

/// Returns the paths that a lab of this process has while it runs, the state of its daemon first.
fn made_by(process: u32) -> [PathBuf; 4] {
    let disk = Path::new("/var/tmp");
    let folder = match disk.is_dir() {
        true => disk.to_owned(),
        false => std::env::temp_dir(),
    };
    let name = |what: &str| format!("sandstone-lab-{process}-{what}");
    let names = Path::new("/run/netns");
    [
        folder.join(name("state")),
        folder.join(name("scratch")),
        names.join(name("target")),
        names.join(name("initiator")),
    ]
}

/// Asks the daemon. Returns `None` if it does not answer: not yet, or not any more.
fn ask(sandstone: &Path, state: &Path) -> Option<Seen> {
    let verb = |words: &[&str]| -> Option<Value> {
        let mut command = Command::new(sandstone);
        command.arg("--state").arg(state).args(words);
        let text = process::output(command, Duration::from_secs(30)).ok()?;
        serde_json::from_str(&text).ok()
    };
    Some(Seen {
        units: verb(&["lu", "list", "--json"])?,
        properties: verb(&["volume", "get", "-t", "volume", "--json", PROPERTIES])?,
    })
}

fn judge(expected: &Expected, ran: &Ran) -> Result<()> {
    let outcome = &ran.outcome;
    let variants = outcome["variants"].as_array().context("no variants")?;
    let names: Vec<&str> = variants
        .iter()
        .filter_map(|variant| variant["name"].as_str())
        .collect();
    ensure!(names == expected.variants, "its settings: {names:?}");
    for variant in variants {
        let runs = variant["runs"].as_array().context("no runs")?;
        let [one] = &runs[..] else {
            bail!("one round was asked for: {variant}");
        };
        for figure in ["bytes_per_s", "iops", "mean_ms"] {
            ensure!(one[figure].as_f64() > Some(0.0), "no {figure}: {variant}");
        }
    }
    let seen = ran.seen.as_ref().context("its daemon never answered")?;
    let units = seen.units.as_array().context("units")?;
    let of_volumes = units
        .iter()
        .filter(|unit| !unit["spec"]["backend"]["volume"].is_null())
        .count();
    ensure!(
        of_volumes == expected.volumes.len(),
        "{of_volumes} volumes are served: {}",
        seen.units
    );
    // Three units are always there, and volumes come after them.
    for (number, volume) in (3..).zip(expected.volumes) {
        in_force(seen, number, volume).with_context(|| format!("unit-{number}: {volume:?}"))?;
    }
    Ok(())
}

/// Checks that a volume is as it must be, and was used.
fn in_force(seen: &Seen, number: usize, expected: &Volume) -> Result<()> {
    let name = format!("unit-{number}");
    let units = seen.units.as_array().into_iter().flatten();
    let mut units = units.filter(|unit| unit["spec"]["name"] == *name);
    let unit = units.next().context("there is no such unit")?;
    let volume = format!("lab/{name}");
    ensure!(unit["spec"]["backend"]["volume"] == *volume, "{unit}");
    ensure!(
        unit["spec"]["write_cache"] == expected.write_cache,
        "write cache: {unit}"
    );
    let count = |what: &str| unit["status"][what].as_u64().unwrap_or(0);
    // The volume is filled first, whatever its load does.
    ensure!(count("writes") > 0, "nothing was written to it: {unit}");
    ensure!(
        count("reads") > 0 || !expected.is_read,
        "nothing was read of it: {unit}"
    );
    for (property, value) in PROPERTIES.split(',').zip(expected.properties) {
        let rows = seen.properties.as_array().into_iter().flatten();
        let mut rows = rows.filter(|row| row["name"] == *volume && row["property"] == property);
        let row = rows.next().context("it has no such property")?;
        ensure!(row["value"] == value, "{row}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(sync: &str, write_cache: bool, writes: u64) -> Seen {
        let row = |property: &str, value: &str| json!({ "name": "lab/unit-3", "property": property, "value": value });
        Seen {
            units: json!([{
                "spec": { "name": "unit-3", "backend": { "volume": "lab/unit-3" }, "write_cache": write_cache },
                "status": { "reads": 0, "writes": writes },
            }]),
            properties: json!([
                row("volblocksize", "16384"),
                row("sync", sync),
                row("checksum", "on"),
                row("primarycache", "all"),
            ]),
        }
    }

    #[test]
    fn a_setting_that_is_not_in_force_is_found() {
        let wanted = volume(["16384", "always", "on", "all"], true, false);
        assert!(in_force(&seen("always", true, 1), 3, &wanted).is_ok());
        assert!(in_force(&seen("standard", true, 1), 3, &wanted).is_err());
        assert!(in_force(&seen("always", false, 1), 3, &wanted).is_err());
        assert!(in_force(&seen("always", true, 0), 3, &wanted).is_err());
        assert!(in_force(&seen("always", true, 1), 4, &wanted).is_err());
        let read = volume(["16384", "always", "on", "all"], true, true);
        assert!(in_force(&seen("always", true, 1), 3, &read).is_err());
    }
}
