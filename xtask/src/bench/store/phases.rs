//! Measurements in phases. Each phase begins with a pool of its own.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use super::Options;
use super::process::{Figures, Load, Loader};
use super::table::{Line, Side, Table, Wanted};

/// Names of the phases, in their order. The first one needs the space that the files of the others
/// take.
pub(super) const NAMES: [&str; 10] = [
    LARGE,
    "fresh",
    "sequential",
    "filled",
    "scrub",
    "aged",
    "snapshots",
    "crash",
    "resilver",
    "variants",
];
/// Phase on a device in memory, which runs alone.
pub(super) const MEMORY: &str = "memory";
/// Phase that has a file of its own.
const LARGE: &str = "large";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Memory in bytes that the measured process keeps for its loads: `DATA` there.
const LOAD_DATA: u64 = 64 * MIB;
/// Number of changes just below the one after which a checkpoint is made.
const CHANGES_OF_A_LOG: u64 = 1_000_000;
/// Size of the cache below which checkpoints are made earlier.
const CACHE_OF_A_LONG_LOG: u64 = 2 << 30;
/// Memory that a pool may use beyond its cache, for each TiB or part of one.
const MEMORY_OF_A_TIB_MIB: f64 = 64.0;
/// Duration of a run of reads beside a scrub, in seconds. It is short so that the scrub seldom ends
/// first.
const BESIDE_SCRUB: f64 = 0.1;
/// Most scrubs in one round.
const MOST_SCRUBS: usize = 1000;
/// Number of short turns of reads in place of a long one.
const READ_TURNS: usize = 4;
/// Number of pieces in which all sides are read in turn, from one end to the other. With the
/// defaults each piece is larger than the cache.
const SEQUENTIAL_TURNS: u64 = 8;
/// Number of pieces in which all sides are written in turn.
const SLICES: u64 = 64;
/// Share of the pool that volumes fill, in percent.
const FILL: u64 = 70;

/// Benchmark at work.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) program: PathBuf,
    pub(super) loader: Loader,
    /// Folder at which btrfs is mounted.
    pub(super) peer: Option<PathBuf>,
    pub(super) table: &'a mut Table,
    /// Whether the files that all phases but one need exist.
    pub(super) has_files: bool,
}

pub(super) fn kiops(figures: &Figures) -> f64 {
    figures.iops() / 1e3
}

impl Bench<'_> {
    /// Runs a phase, if it is wanted.
    pub(super) fn run(&mut self, name: &str) -> Result<(), String> {
        if !self.options.wants(name) {
            return Ok(());
        }
        if name != LARGE && !self.has_files {
            self.make_files()?;
            self.has_files = true;
        }
        eprintln!("bench: {name}");
        self.phase(name).map_err(|error| format!("{name}: {error}"))
    }

    fn phase(&mut self, name: &str) -> Result<(), String> {
        match name {
            "fresh" => self.fresh(),
            "sequential" => self.sequential(),
            "filled" => self.filled(),
            "scrub" => self.scrub(),
            "aged" => self.aged(),
            "snapshots" => self.snapshots(),
            LARGE => self.large(),
            "crash" => self.crash(),
            "resilver" => self.resilver(),
            "variants" => self.variants(),
            MEMORY => self.memory_table(),
            other => Err(format!("phase {other} is unknown")),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.options.dir.join(format!("{name}.bench"))
    }

    /// Returns the bytes of a volume that fills a pool on the one device.
    pub(super) fn filling(&self) -> u64 {
        (self.options.size * FILL / 100) >> 20 << 20
    }

    fn lengthen(&self, path: &Path, len: u64) -> Result<(), String> {
        let file = std::fs::OpenOptions::new().write(true).open(path);
        file.and_then(|file| file.set_len(len))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(super) fn ask(&mut self, command: Value) -> Result<Value, String> {
        self.loader.ask(&command)
    }

    fn make(&mut self, path: &Path, len: u64) -> Result<(), String> {
        self.ask(json!({ "do": "make", "path": path, "len": len }))?;
        Ok(())
    }

    /// Makes the raw file, btrfs's file and the pool's device, and writes every byte of them once.
    /// Files on which another build was measured are used again.
    fn make_files(&mut self) -> Result<(), String> {
        let len = self.filling();
        let mut files = vec![("raw", self.path("raw"))];
        let peer = self.peer.clone();
        files.extend(peer.map(|folder| ("btrfs", folder.join("file.bench"))));
        for (name, path) in files {
            self.make_once(&path, len)?;
            self.ask(json!({ "do": "open", "name": name, "path": path }))?;
        }
        let device = self.path("device");
        self.make_once(&device, self.options.size)
    }

    fn make_once(&mut self, path: &Path, len: u64) -> Result<(), String> {
        if std::fs::metadata(path).is_ok_and(|file| file.len() == len) {
            return Ok(());
        }
        eprintln!("bench: writing {} once", path.display());
        self.make(path, len)
    }

    /// Makes a pool `tank` on these files, in place of their old content.
    pub(super) fn new_pool(&mut self, kind: &str, paths: &[PathBuf]) -> Result<(), String> {
        // There may be no pool yet.
        let _ = self.ask(json!({ "do": "destroy", "pool": "tank" }));
        let vdevs = json!([{ "kind": kind, "paths": paths }]);
        self.ask(json!({ "do": "create", "name": "tank", "vdevs": vdevs, "force": true }))?;
        Ok(())
    }

    pub(super) fn new_volume(&mut self, size: u64, block_size: u64) -> Result<(), String> {
        self.ask(json!({
            "do": "change", "verb": "create", "name": "tank/v",
            "size": size, "block_size": block_size, "sparse": true,
        }))?;
        Ok(())
    }

    pub(super) fn new_disk_pool(&mut self, size: u64, block_size: u64) -> Result<(), String> {
        let device = self.path("device");
        self.new_pool("disk", &[device])?;
        self.new_volume(size, block_size)
    }

    pub(super) fn one(&mut self, load: Load) -> Result<Figures, String> {
        let figures = self.loader.load(&[load])?;
        figures
            .first()
            .copied()
            .ok_or("the load returned no figures".into())
    }

    fn sides(&self) -> Vec<Side> {
        let peer = self.peer.is_some().then_some(Side::Btrfs);
        [Side::Raw, Side::Pool].into_iter().chain(peer).collect()
    }

    /// Compares random reads on all sides. They change nothing, so their time is cut into many
    /// short turns. Other load of the machine then affects all sides alike.
    fn compare_reads(&mut self, line: Line, load: impl Fn(Side) -> Load) -> Result<(), String> {
        let seconds = self.options.seconds / READ_TURNS as f64;
        let rounds = self.options.rounds * READ_TURNS;
        self.compare_in(rounds, line, kiops, |side| load(side).seconds(seconds))
    }

    /// Compares a load on all sides, in turns.
    fn compare(
        &mut self,
        line: Line,
        figure: fn(&Figures) -> f64,
        load: impl Fn(Side) -> Load,
    ) -> Result<(), String> {
        self.compare_in(self.options.rounds, line, figure, load)
    }

    fn compare_in(
        &mut self,
        rounds: usize,
        mut line: Line,
        figure: fn(&Figures) -> f64,
        load: impl Fn(Side) -> Load,
    ) -> Result<(), String> {
        let sides = self.sides();
        for round in 0..rounds {
            for turn in 0..sides.len() {
                let side = sides[(round + turn) % sides.len()];
                let load = load(side).seed(round as u64 + 1).on(target(side));
                let figures = self.one(load)?;
                line.push(side, figure(&figures));
            }
        }
        self.table.push(line);
        Ok(())
    }

    /// Measures writes into a volume that holds nothing.
    fn fresh(&mut self) -> Result<(), String> {
        let size = self.filling();
        let load = Load::random_write(4096, 32).bytes(size / 4).flushed();
        let name = "4K random write QD32 + flush, fresh";
        let mut line = Line::new(name, "K/s", &[Wanted::OfRaw(1.2), Wanted::OfBtrfs(10.0)]);
        let sides = self.sides();
        for round in 0..self.options.rounds {
            for turn in 0..sides.len() {
                let side = sides[(round + turn) % sides.len()];
                if side == Side::Pool {
                    self.new_disk_pool(size, 4 * KIB)?;
                }
                let load = load.clone().seed(round as u64 + 1).on(target(side));
                let figures = self.one(load)?;
                line.push(side, kiops(&figures));
            }
        }
        self.table.push(line);
        Ok(())
    }

    /// Measures large requests of incompressible data, in their order.
    fn sequential(&mut self) -> Result<(), String> {
        let size = self.filling();
        let names = [
            "1 MiB sequential write QD4 + flush",
            "1 MiB sequential read QD4",
        ];
        let wanted = [Wanted::OfRaw(0.85)];
        let [mut writes, mut reads] = names.map(|name| Line::new(name, "MB/s", &wanted));
        // A reader that verifies has to look at each byte. If the host brings the bytes from a
        // processor far away, that alone may cost a virtual machine a third of its read speed.
        let name = "1 MiB sequential read QD4, each byte summed";
        let mut sums = Line::new(name, "MB/s", &[Wanted::Nothing]);
        let sides = self.sides();
        let bytes = size / 2;
        let slice = (bytes / SEQUENTIAL_TURNS).next_multiple_of(MIB);
        for round in 0..self.options.rounds {
            for turn in 0..sides.len() {
                let side = sides[(round + turn) % sides.len()];
                if side == Side::Pool {
                    self.new_disk_pool(size, 16 * KIB)?;
                    self.touch_memory_of_new_pool()?;
                }
                let write = Load::sequential_write(MIB as u32, 4).bytes(bytes).flushed();
                let figures = self.one(write.on(target(side)))?;
                writes.push(side, figures.mb_s());
            }
            // Other load of the machine affects all sides alike, as with other reads. Each read
            // goes from one end to the other: of a part that was read just before, the pool's cache
            // would have some.
            let read = Load::sequential_read(MIB as u32, 4);
            for (read, line) in [(read.clone(), &mut reads), (read.looked_at(), &mut sums)] {
                for start in (0..bytes).step_by(slice as usize) {
                    for turn in 0..sides.len() {
                        let side = sides[(round + turn) % sides.len()];
                        let part = read.clone().from(start).bytes(slice.min(bytes - start));
                        let figures = self.one(part.on(target(side)))?;
                        line.push(side, figures.mb_s());
                    }
                }
            }
        }
        self.table.push(writes);
        self.table.push(reads);
        self.table.push(sums);
        Ok(())
    }

    /// Fills the cache with memory of its own. The first time that a process uses memory, the
    /// machine has to find it, which has nothing to do with storage. Writes alone do not help,
    /// because the cache keeps the very pages that the load gave.
    pub(super) fn touch_memory(&mut self, volume: &str) -> Result<(), String> {
        let bytes = 2 * self.options.cache;
        let read = Load::sequential_read(MIB as u32, 4).bytes(bytes);
        self.one(read.on(volume)).map(drop)
    }

    /// Fills the cache in a pool whose volume holds nothing yet.
    fn touch_memory_of_new_pool(&mut self) -> Result<(), String> {
        let bytes = 2 * self.options.cache;
        self.ask(json!({
            "do": "change", "verb": "create", "name": "tank/memory",
            "size": bytes, "block_size": 16 * KIB, "sparse": true,
        }))?;
        let write = Load::sequential_write(MIB as u32, 4).bytes(bytes).flushed();
        self.one(write.on("tank/memory"))?;
        self.touch_memory("tank/memory")
    }

    /// Makes a pool with a 4K volume of which every block was written, in order.
    fn fill(&mut self) -> Result<(), String> {
        self.fill_sides(&[Side::Pool])
    }

    /// Writes every block of these sides, a slice of each in turn.
    ///
    /// Below a virtual machine's disk there may be memory, which holds the data that was written or
    /// read last. With only the pool's blocks there, the raw file did 18 K reads in a second where
    /// it does 74 K. With the pool's written first, the pool did 42 K.
    pub(super) fn fill_sides(&mut self, sides: &[Side]) -> Result<(), String> {
        let size = self.filling();
        self.new_disk_pool(size, 4 * KIB)?;
        let slice = size.div_ceil(SLICES).next_multiple_of(MIB);
        for start in (0..size).step_by(slice as usize) {
            let write = Load::sequential_write(MIB as u32, 4).from(start);
            let write = write.bytes(slice.min(size - start)).flushed();
            for side in sides {
                self.one(write.on(target(*side)))?;
            }
        }
        Ok(())
    }

    /// Measures reads, durable writes, and both together.
    fn filled(&mut self) -> Result<(), String> {
        self.fill_sides(&self.sides())?;
        self.touch_memory("tank/v")?;
        let line = Line::new("4K random read QD32, cold", "K/s", &[Wanted::OfRaw(0.9)]);
        self.compare_reads(line, |_| Load::random_read(4096, 32))?;
        let line = Line::new("4K random read QD1, cold", "K/s", &[Wanted::Nothing]);
        self.compare_reads(line, |_| Load::random_read(4096, 1))?;
        self.hot()?;
        let seconds = self.options.seconds;
        let line = Line::new(
            "4K random write QD16, each durable (raw: O_DSYNC)",
            "K/s",
            &[Wanted::OfRaw(0.8), Wanted::OfBtrfs(10.0)],
        );
        let write = Load::random_write(4096, 16).seconds(seconds).durable();
        self.compare(line, kiops, |_| write.clone())?;
        // btrfs must not use more space than the device itself does.
        let line = Line::new(
            "4K random write QD1, each durable (raw: fdatasync)",
            "K/s",
            &[Wanted::OfRaw(0.8)],
        );
        let write = Load::random_write(4096, 1).seconds(seconds);
        self.compare(line, kiops, |side| match side {
            Side::Pool => write.clone().durable(),
            Side::Raw | Side::Btrfs => write.clone().flushed_each(),
        })?;
        self.beside_writes()?;
        self.memory("memory beyond the cache's cap, the program's too")
    }

    /// Measures the most memory used beyond the allowed amount and that of loads.
    pub(super) fn memory(&mut self, name: &str) -> Result<(), String> {
        let known = self.options.cache + LOAD_DATA;
        let beyond = self.loader.peak_memory()?.saturating_sub(known);
        let wanted = Wanted::AtMost(MEMORY_OF_A_TIB_MIB);
        let line = Line::single(name, "MiB", wanted, beyond as f64 / MIB as f64);
        self.table.push(line);
        Ok(())
    }

    /// Measures reads alone, then beside a scrub of the whole pool.
    fn scrub(&mut self) -> Result<(), String> {
        self.fill()?;
        self.touch_memory("tank/v")?;
        let mut line = Line::new(
            "4K random read QD32 beside a scrub / alone",
            "ratio",
            &[Wanted::AtLeast(0.3)],
        );
        for round in 0..self.options.rounds {
            let read = Load::random_read(4096, 32).seed(round as u64).on("tank/v");
            let alone = self.one(read.clone().seconds(self.options.seconds))?;
            let beside = self.beside_scrub(&read, round)?;
            line.push(Side::Pool, beside / alone.iops());
        }
        self.table.push(line);
        Ok(())
    }

    /// Returns reads in a second while a scrub is under way. The scrub is restarted when it ends.
    fn beside_scrub(&mut self, read: &Load, round: usize) -> Result<f64, String> {
        let (mut operations, mut seconds, mut scrubs) = (0, 0.0, 0);
        // Data that was read once is in the cache, so each run reads other places.
        let mut seeds = (round as u64 + 1) << 32..;
        while seconds < self.options.seconds {
            if scrubs == MOST_SCRUBS {
                return Err("scrubs end before reads can run beside them: use more bytes".into());
            }
            self.ask(json!({ "do": "scrub", "pool": "tank" }))?;
            scrubs += 1;
            loop {
                let read = read.clone().seed(seeds.next().unwrap_or_default());
                let figures = self.one(read.seconds(BESIDE_SCRUB))?;
                let status = self.ask(json!({ "do": "status", "pool": "tank" }))?;
                // If the scrub ended meanwhile, the time for which it was under way is unknown.
                if status["scan_status"]["state"] != "running" {
                    break;
                }
                operations += figures.operations;
                seconds += figures.seconds;
            }
        }
        Ok(operations as f64 / seconds)
    }

    /// Measures reads of data that the cache holds.
    fn hot(&mut self) -> Result<(), String> {
        let within = self.options.cache / 4;
        let warm = Load::sequential_read(MIB as u32, 4).within(within);
        for _ in 0..2 {
            self.one(warm.clone().bytes(within).on("tank/v"))?;
        }
        let line = Line::new("4K random read QD32, hot", "K/s", &[Wanted::OfRaw(5.0)]);
        let read = Load::random_read(4096, 32);
        self.compare_reads(line, |side| match side {
            Side::Pool => read.clone().within(within),
            // Direct I/O has no cache.
            Side::Raw | Side::Btrfs => read.clone(),
        })
    }

    /// Measures reads alone, then beside as many writes as the pool takes.
    fn beside_writes(&mut self) -> Result<(), String> {
        let seconds = self.options.seconds;
        let mut line = Line::new(
            "4K random read QD32 beside writes QD32 / alone",
            "ratio",
            &[Wanted::AtLeast(0.3)],
        );
        let sides = self.sides();
        for round in 0..self.options.rounds {
            for side in &sides {
                let read = Load::random_read(4096, 32).seed(round as u64);
                let read = read.seconds(seconds).on(target(*side));
                let write = Load::random_write(4096, 32).on(target(*side));
                let alone = self.one(read.clone())?;
                let both = self.loader.load(&[read, write])?;
                line.push(*side, both[0].iops() / alone.iops());
            }
        }
        self.table.push(line);
        Ok(())
    }

    /// Measures a volume after it was overwritten three times in a scattered order.
    fn aged(&mut self) -> Result<(), String> {
        self.fill()?;
        let size = self.filling();
        let before = self.loader.written()?;
        let write = Load::random_write(4096, 32).bytes(3 * size).flushed();
        self.one(write.seed(99).on("tank/v"))?;
        let written = self.loader.written()? - before;
        let name = "device bytes for a byte of 4K random writes";
        let amplification = written as f64 / (3 * size) as f64;
        let line = Line::single(name, "ratio", Wanted::AtMost(1.5), amplification);
        self.table.push(line);
        let name = "4K random write QD32 + flush, overwritten 3 times";
        let wanted = [Wanted::OfRaw(0.8), Wanted::OfBtrfs(10.0)];
        let line = Line::new(name, "K/s", &wanted);
        let bytes = size / 4;
        self.compare(line, kiops, |_| {
            Load::random_write(4096, 32).bytes(bytes).flushed()
        })
    }

    /// Kills the process when the log is long, and imports the pool with another process.
    fn crash(&mut self) -> Result<(), String> {
        // No space is freed before a checkpoint, so all changes must fit. Holes in the file provide
        // the space.
        let device = self.path("device");
        self.lengthen(&device, 8 * CHANGES_OF_A_LOG * 4096)?;
        self.begin_again("before", CACHE_OF_A_LONG_LOG)?;
        self.new_disk_pool(1 << 30, 4 * KIB)?;
        let before = newest_checkpoint(&device)?;
        let write = Load::random_write(4096, 32).flushed();
        let write = write.bytes(CHANGES_OF_A_LOG * 4096).on("tank/v");
        let wrote = self.one(write.clone())?;
        self.begin_again("after", CACHE_OF_A_LONG_LOG)?;
        let is_in_log = newest_checkpoint(&device)? == before;
        let answer = self.ask(json!({
            "do": "import", "pool": "tank", "paths": [device], "force": true,
        }))?;
        let took = answer["took_s"].as_f64().unwrap_or(f64::NAN);
        let name = "import after a crash, log of a million changes";
        match is_in_log {
            true => {
                let line = Line::single(name, "s", Wanted::AtMost(3.0), took);
                self.table.push(line);
            }
            false => self.table.note(format!(
                "the import after a crash could not be measured: a checkpoint was made in the {:.0} s in \
                 which the log was written",
                wrote.seconds
            )),
        }
        // Only the log has these changes, so every right value came from the log.
        let (right, wrong) = self.loader.verify(&write)?;
        if wrong > 0 {
            return Err(format!(
                "{wrong} of {} blocks are wrong after the import",
                right + wrong
            ));
        }
        self.begin_again("other", self.options.cache)?;
        let files = self
            .peer
            .clone()
            .map(|folder| ("btrfs", folder.join("file.bench")));
        for (name, path) in files.into_iter().chain([("raw", self.path("raw"))]) {
            self.ask(json!({ "do": "open", "name": name, "path": path }))?;
        }
        Ok(())
    }

    /// Kills the measured process. Another one, with a state folder of its own and no pool, takes
    /// its place.
    pub(super) fn begin_again(&mut self, folder: &str, cache: u64) -> Result<(), String> {
        let folder = self.path(folder);
        // An earlier round may have left its pools in the folder.
        let _ = std::fs::remove_dir_all(&folder);
        let next = Loader::start(&self.program, &folder, cache)?;
        std::mem::replace(&mut self.loader, next).kill()
    }

    /// Measures the attach of a mirror to a disk, beside the time to copy as many bytes from one
    /// file to the other.
    fn resilver(&mut self) -> Result<(), String> {
        // There may be no pool. The next files need its space.
        let _ = self.ask(json!({ "do": "destroy", "pool": "tank" }));
        let len = self.options.size / 2;
        let bytes = (len * FILL / 100) >> 20 << 20;
        let paths = ["origin", "copy"].map(|name| self.path(name));
        let wanted = [Wanted::OfRaw(0.7)];
        let mut line = Line::new("resilver, beside copying the bytes", "MB/s", &wanted);
        for _ in 0..self.options.rounds {
            for (name, path) in ["origin", "copy"].iter().zip(&paths) {
                self.make(path, len)?;
                self.ask(json!({ "do": "open", "name": name, "path": path }))?;
            }
            let read = Load::sequential_read(MIB as u32, 4).bytes(bytes);
            let write = Load::sequential_write(MIB as u32, 4).bytes(bytes).flushed();
            let both = self.loader.load(&[read.on("origin"), write.on("copy")])?;
            let seconds = both[0].seconds.max(both[1].seconds);
            line.push(Side::Raw, bytes as f64 / seconds / 1e6);
            for name in ["origin", "copy"] {
                self.ask(json!({ "do": "close", "name": name }))?;
            }

            self.new_pool("disk", &paths[..1])?;
            self.new_volume(len, 16 * KIB)?;
            let fill = Load::sequential_write(MIB as u32, 4).bytes(bytes).flushed();
            self.one(fill.on("tank/v"))?;
            let start = Instant::now();
            let attach =
                json!({ "verb": "attach", "device": paths[0], "new": paths[1], "force": true });
            self.ask(json!({ "do": "vdevs", "pool": "tank", "change": attach }))?;
            let scan = self.ask(json!({ "do": "await", "pool": "tank" }))?;
            let seconds = start.elapsed().as_secs_f64();
            let copied = scan["issued"].as_u64().unwrap_or(0);
            // All allocated data is copied, maps too. Free space, about a third of the device, is
            // not.
            if !(bytes..bytes + bytes / 16).contains(&copied) {
                return Err(format!("{copied} of {bytes} bytes were resilvered: {scan}"));
            }
            line.push(Side::Pool, copied as f64 / seconds / 1e6);
            self.ask(json!({ "do": "destroy", "pool": "tank" }))?;
        }
        self.table.push(line);
        Ok(())
    }

    /// Measures other block sizes and redundancies: the space they take and the bytes they write.
    fn variants(&mut self) -> Result<(), String> {
        // There may be no pool. The next files need its space.
        let _ = self.ask(json!({ "do": "destroy", "pool": "tank" }));
        let leaf = (self.options.size / 8).max(512 * MIB);
        let leaves: Vec<PathBuf> = (0..5).map(|at| self.path(&format!("leaf{at}"))).collect();
        for path in &leaves {
            self.make(path, leaf)?;
        }
        let shapes = [
            ("disk", 1),
            ("mirror", 2),
            ("raidz1", 3),
            ("raidz2", 4),
            ("raidz3", 5),
        ];
        for (kind, count) in shapes {
            for block_size in [4 * KIB, 16 * KIB, 64 * KIB] {
                self.variant(kind, &leaves[..count], leaf, block_size)?;
            }
        }
        Ok(())
    }

    fn variant(
        &mut self,
        kind: &str,
        leaves: &[PathBuf],
        leaf: u64,
        block_size: u64,
    ) -> Result<(), String> {
        self.new_pool(kind, leaves)?;
        let size = leaf / 2;
        self.new_volume(size, block_size)?;
        let fill = Load::sequential_write(MIB as u32, 4).bytes(size).flushed();
        self.one(fill.on("tank/v"))?;
        let name = format!(
            "{} of {}, volblocksize {}K",
            kind,
            leaves.len(),
            block_size / KIB
        );
        for (what, request) in [("4K", 4 * KIB), ("whole blocks", block_size)] {
            if what != "4K" && block_size == 4 * KIB {
                continue;
            }
            let before = self.loader.written()?;
            let write = Load::random_write(request as u32, 32);
            let write = write.seconds(self.options.seconds).flushed();
            let figures = self.one(write.on("tank/v"))?;
            let written = self.loader.written()? - before;
            let line = format!("{name}: random write of {what}");
            let single = Line::single(line.clone(), "K/s", Wanted::Nothing, kiops(&figures));
            self.table.push(single);
            let ratio = written as f64 / figures.bytes as f64;
            let single = Line::single(
                format!("{line}, device bytes"),
                "ratio",
                Wanted::Nothing,
                ratio,
            );
            self.table.push(single);
        }
        Ok(())
    }
}

pub(super) fn target(side: Side) -> &'static str {
    match side {
        Side::Raw => "raw",
        Side::Pool => "tank/v",
        Side::Btrfs => "btrfs",
    }
}

/// Returns the epoch of the newest root in the labels at the front of a device (docs/format.md,
/// sections 2 and 3).
fn newest_checkpoint(device: &Path) -> Result<u64, String> {
    let failed = |error| format!("{}: {error}", device.display());
    let mut labels = vec![0; 512 << 10];
    let file = std::fs::File::open(device).map_err(failed)?;
    file.read_exact_at(&mut labels, 0).map_err(failed)?;
    let roots = labels.chunks_exact(4096);
    let roots = roots.filter(|sector| sector.starts_with(b"SANDROOT"));
    let epochs = roots.filter_map(|root| Some(u64::from_le_bytes(root[24..32].try_into().ok()?)));
    epochs
        .max()
        .ok_or_else(|| format!("{} has no checkpoint", device.display()))
}
