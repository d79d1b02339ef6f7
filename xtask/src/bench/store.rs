//! `cargo xtask bench store`: a pool beside the raw file on which it could lie, and beside btrfs.
//!
//! All three lie on files of one disk, opened with O_DIRECT. One loop over io_uring loads them, in
//! one process (`crates/pools/examples/pool_load`), so they differ only in the layers below.
//! Each workload runs several times on each in turn, and medians are compared. The working set is
//! larger than the pool's cache, unless a line says otherwise.

mod before;
mod memory;
mod peer;
mod phases;
mod process;
mod snapshots;
mod table;

use std::path::PathBuf;

use process::Loader;
use table::Table;

const USAGE: &str = "\
usage: cargo xtask bench store [OPTIONS]

options:
  --dir DIR       a folder on the disk to measure (default: target/bench-store); what the benchmark
                  makes there is removed at its end
  --size GIB      of the pool's device and the raw file; btrfs's is twice that (default 8)
  --cache MIB     for the pool's blocks (default 256)
  --rounds N      runs of each workload on each side (default 5)
  --seconds S     of each run that is not bounded by its bytes (default 4)
  --only NAME     only phases whose name contains NAME (may be repeated)
  --memory        the table of a device in memory in place of all phases: what the pool itself costs,
                  beside the bare file, with processor time (a folder of tmpfs, cache 64 MiB, 2 GiB)
  --counts        with --memory: what a command takes of allocations and hashed keys, by a build that
                  counts them; its speeds are not judged
  --before FILE   compare with an earlier build in place of btrfs; FILE is its example pool_load, and
                  each phase runs in turns
  --quick         2 GiB, one round of one second: to see that it works, not to quote
  --json          print the table as JSON";

/// Folder of a device in memory.
const MEMORY_FOLDER: &str = "/dev/shm/sandstone-bench-store";

/// Options of a run.
#[derive(Clone)]
pub(super) struct Options {
    dir: PathBuf,
    /// Size of the working set in bytes.
    size: u64,
    /// Size of the cache in bytes.
    cache: u64,
    rounds: usize,
    seconds: f64,
    only: Vec<String>,
    /// Whether the device lies in memory.
    in_memory: bool,
    /// Whether the program is a build that counts.
    counts: bool,
    /// Program of an earlier build.
    before: Option<PathBuf>,
    json: bool,
}

impl Options {
    /// Reports whether this phase is to run.
    fn wants(&self, phase: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| phase.contains(part.as_str()))
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let in_memory = arguments.iter().any(|word| word == "--memory");
    let (dir, size, cache) = match in_memory {
        true => (MEMORY_FOLDER.into(), 2 << 30, 64 << 20),
        false => (
            crate::crate_root().join("target/bench-store"),
            8 << 30,
            256 << 20,
        ),
    };
    let mut options = Options {
        dir,
        size,
        cache,
        rounds: 5,
        seconds: 4.0,
        only: Vec::new(),
        in_memory,
        counts: false,
        before: None,
        json: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            let value = words.next();
            value.ok_or_else(|| format!("{word} needs a value\n{USAGE}"))
        };
        match word.as_str() {
            "--quick" => (options.size, options.rounds, options.seconds) = (2 << 30, 1, 1.0),
            "--json" => options.json = true,
            "--memory" => {}
            "--counts" => options.counts = true,
            "--dir" => options.dir = value()?.into(),
            "--before" => options.before = Some(value()?.into()),
            "--only" => options.only.push(value()?.clone()),
            "--size" => options.size = number::<u64>(word, value()?)? << 30,
            "--cache" => options.cache = number::<u64>(word, value()?)? << 20,
            "--rounds" => options.rounds = number(word, value()?)?,
            "--seconds" => options.seconds = number(word, value()?)?,
            other => return Err(format!("unknown option '{other}'\n{USAGE}")),
        }
    }
    let known = |part: &String| {
        phases::NAMES
            .iter()
            .any(|name| name.contains(part.as_str()))
    };
    if let Some(unknown) = options.only.iter().find(|part| !known(part)) {
        let names = phases::NAMES.join(", ");
        return Err(format!(
            "no phase's name contains '{unknown}'; they are {names}"
        ));
    }
    if in_memory && (!options.only.is_empty() || options.before.is_some()) {
        return Err("--memory has a table of its own: leave out --only and --before".into());
    }
    if options.counts && !in_memory {
        return Err("--counts belongs to the table of --memory".into());
    }
    if options.size < 2 << 30 || options.rounds == 0 || !(0.1..=600.0).contains(&options.seconds) {
        return Err("--size starts at 2, --rounds at 1; --seconds lies between 0.1 and 600".into());
    }
    Ok(options)
}

fn number<T: std::str::FromStr>(word: &str, value: &str) -> Result<T, String> {
    let parsed = value.parse();
    parsed.map_err(|_| format!("{word} takes a number"))
}

/// Runs the benchmark.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let options = parse(arguments)?;
    let program = process::build(options.counts)?;
    if let Some(before) = &options.before {
        return before::run(&options, before, &program);
    }
    let work = Folder::make(&options.dir)?;
    let mut table = Table::new(&options)?;
    let peer = match options.in_memory {
        true => None,
        false => start_peer(&options, &mut table),
    };
    let loader = Loader::start(&program, &options.dir, options.cache)?;
    let mut bench = phases::Bench {
        options: &options,
        program,
        loader,
        peer: peer.as_ref().map(peer::Peer::folder),
        table: &mut table,
        has_files: false,
    };
    let outcome = match options.in_memory {
        true => bench.run(phases::MEMORY),
        false => phases::NAMES.iter().try_for_each(|name| bench.run(name)),
    };
    drop(bench);
    drop(peer);
    drop(work);
    outcome?;
    table.print(options.json)
}

fn start_peer(options: &Options, table: &mut Table) -> Option<peer::Peer> {
    // On btrfs, overwritten data is free only when all of its extent is overwritten.
    let started = peer::Peer::start(&options.dir, 2 * options.size);
    let noted = started.map_err(|why| table.note(format!("btrfs could not be measured: {why}")));
    noted.ok()
}

/// Folder that holds everything. All that the benchmark made is removed with it.
struct Folder {
    path: PathBuf,
    /// Whether the benchmark made the folder itself.
    is_new: bool,
}

impl Folder {
    fn make(dir: &std::path::Path) -> Result<Self, String> {
        let failed = |error| format!("{} cannot be used: {error}", dir.display());
        let is_new = !dir.exists();
        std::fs::create_dir_all(dir).map_err(failed)?;
        let path = dir.to_owned();
        let folder = Self { path, is_new };
        folder.clear();
        Ok(folder)
    }

    /// Removes the state that the processes of earlier turns stored.
    fn clear_states(&self) {
        self.remove(std::path::Path::is_dir);
    }

    fn clear(&self) {
        self.remove(|_| true);
    }

    fn remove(&self, is_wanted: impl Fn(&std::path::Path) -> bool) {
        for entry in std::fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            let is_ours = path.extension().is_some_and(|end| end == "bench");
            if is_ours && is_wanted(&path) {
                // Files that cannot be removed will be seen by people who look at the disk.
                let _ = if path.is_dir() {
                    std::fs::remove_dir_all(&path)
                } else {
                    std::fs::remove_file(&path)
                };
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.clear();
        if self.is_new {
            // A folder with files of others stays.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn options_are_what_was_said() {
        let options = parse(&words("--quick --size 4 --only aged --dir /x")).expect("fine");
        assert_eq!((options.size, options.rounds), (4 << 30, 1));
        assert_eq!(options.dir, PathBuf::from("/x"));
        assert_eq!(options.only, ["aged"]);
        let options = parse(&words("--memory --rounds 3")).expect("fine");
        assert_eq!((options.cache, options.rounds), (64 << 20, 3));
        assert!(options.in_memory && !options.counts);
        assert!(parse(&words("--memory --counts")).expect("fine").counts);
        let options = parse(&words("--dir /x --memory")).expect("fine");
        assert_eq!(options.dir, PathBuf::from("/x"));
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        let error = |text| parse(&words(text)).err().unwrap_or_default();
        assert!(error("--only nothing").contains("aged"));
        assert!(error("--size x").contains("takes a number"));
        assert!(error("--size 1").contains("starts at 2"));
        assert!(error("--rounds").contains("needs a value"));
        assert!(error("--memory --only aged").contains("leave out"));
        assert!(error("--counts").contains("--memory"));
    }
}
