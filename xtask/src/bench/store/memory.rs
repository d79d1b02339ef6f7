//! The pool on a device in memory, beside the bare file there. The disk of a machine hides what the
//! pool itself costs; a disk of memory is quicker than any, and hides nothing.
//!
//! Each line comes with the processor time of a request, and with that of the pool's own thread. It
//! also tells how often a request was handed from thread to thread: orders to the pool's thread,
//! and times that a thread was woken. Runs on cores that share a cache are judged, because a pool
//! hands more from core to core than a file does.

use super::phases::{Bench, kiops, target};
use super::process::{Figures, Load};
use super::table::{Line, Side, Wanted};
use crate::bench::distance::{Distance, round_trip_ns};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Most rounds for each that was asked for.
const MOST_TURNS: usize = 3;
/// Divisor of the cache that gives the bytes of the cached reads.
const CACHED: u64 = 2;
/// Blocks of a volume with their name, and the ratio to the bare file that reads in order must
/// reach.
const BLOCKS: [(u64, &str, f64); 2] = [(4 * KIB, "4K blocks", 0.6), (16 * KIB, "16K blocks", 0.8)];

/// Note below the table of a build that counts.
const COUNTS: &str = "this build counts, which takes time, so its speeds are not judged. An \
    allocation is one of the whole process, or a change of its size; pages for data are none. A key \
    is hashed for each look-up, insertion and removal in the store's tables by number and in its \
    cache, and for each entry that moves when a table grows.";

/// Row of the table: a load, by one or more clients at once.
struct Row {
    name: String,
    clients: usize,
    load: Load,
    unit: &'static str,
    speed: fn(&Figures) -> f64,
    /// Demand on the speed, and on the processor time of a request.
    wanted: [Wanted; 2],
}

impl Row {
    /// Makes a row of small requests.
    fn small(name: &str, load: Load) -> Self {
        Self {
            name: name.to_owned(),
            clients: 1,
            load,
            unit: "K/s",
            speed: kiops,
            wanted: [Wanted::Nothing; 2],
        }
    }

    /// Makes a row of large requests in order.
    fn large(name: String, load: Load) -> Self {
        Self {
            name,
            unit: "MB/s",
            speed: Figures::mb_s,
            ..Self::small("", load)
        }
    }

    fn by(self, clients: usize) -> Self {
        Self { clients, ..self }
    }

    /// Demands a ratio of the pool's speed to the file's.
    fn at_least(mut self, ratio: f64) -> Self {
        self.wanted[0] = Wanted::OfRaw(ratio);
        self
    }

    /// Demands that a request takes at most so much processor time, as a ratio to the file's.
    fn processor_at_most(mut self, ratio: f64) -> Self {
        self.wanted[1] = Wanted::AtMostOfRaw(ratio);
        self
    }
}

impl Bench<'_> {
    /// Measures random requests of 4 KiB, then requests of 1 MiB in order.
    pub(super) fn memory_table(&mut self) -> Result<(), String> {
        self.fill_sides(&[Side::Raw, Side::Pool])?;
        self.touch_memory("tank/v")?;
        let seconds = self.options.seconds;
        let read = |depth| Load::random_read(4096, depth).seconds(seconds);
        let cold = Row::small("4K random read QD32, cold", read(32)).at_least(0.75);
        self.measure(&cold.processor_at_most(1.5))?;
        let two = Row::small("4K random read QD32 × 2 clients, cold", read(32)).by(2);
        self.measure(&two.at_least(0.7))?;
        self.measure(&Row::small("4K random read QD1, cold", read(1)).at_least(0.85))?;
        self.random_writes()?;
        self.cached()?;
        if self.options.counts {
            self.table.note(COUNTS.to_owned());
        }
        BLOCKS.iter().try_for_each(|of| self.in_order(*of))
    }

    /// Measures random writes, and whether a second client makes them slower.
    fn random_writes(&mut self) -> Result<(), String> {
        let write = Load::random_write(4096, 32).seconds(self.options.seconds);
        let one = Row::small("4K random write QD32", write.clone()).at_least(0.9);
        let one = self.measure(&one)?;
        let two = self.measure(&Row::small("4K random write QD32 × 2 clients", write).by(2))?;
        let name = "4K random write, two clients / one";
        let wanted = match self.options.counts {
            true => Wanted::Nothing,
            false => Wanted::AtLeast(1.0),
        };
        let mut line = Line::new(name, "ratio", &[wanted]);
        for (one, two) in one.iter().zip(&two) {
            line.push(Side::Pool, two / one);
        }
        self.table.push(line);
        Ok(())
    }

    /// Measures reads of blocks that the cache holds. The file has no cache, so none is demanded.
    fn cached(&mut self) -> Result<(), String> {
        let within = self.options.cache / CACHED;
        let warm = Load::sequential_read(MIB as u32, 4).within(within);
        for _ in 0..2 {
            self.one(warm.clone().bytes(within).on("tank/v"))?;
        }
        let load = Load::random_read(4096, 32).seconds(self.options.seconds);
        let row = Row::small("4K random read QD32, cached", load.within(within));
        self.measure(&row).map(drop)
    }

    /// Measures requests of 1 MiB in order, of a volume with blocks of a size.
    fn in_order(&mut self, (block_size, blocks, least): (u64, &str, f64)) -> Result<(), String> {
        let size = self.filling();
        self.new_disk_pool(size, block_size)?;
        let write = Load::sequential_write(MIB as u32, 4).bytes(size).flushed();
        let writes = Row::large(format!("1 MiB write in order QD4, {blocks}"), write);
        self.measure(&writes.at_least(0.6))?;
        let read = Load::sequential_read(MIB as u32, 4).bytes(size);
        let reads = Row::large(format!("1 MiB read in order QD4, {blocks}"), read);
        self.measure(&reads.at_least(least)).map(drop)
    }

    /// Measures a row on both sides in turns. Returns the pool's speeds.
    fn measure(&mut self, row: &Row) -> Result<Vec<f64>, String> {
        let mut runs = Runs::default();
        let rounds = self.options.rounds;
        while runs.go_on(rounds) {
            for turn in 0..2 {
                let side = [Side::Raw, Side::Pool][(runs.rounds + turn) % 2];
                let load = |client| {
                    let seed = (runs.rounds * row.clients + client) as u64 + 1;
                    row.load.clone().seed(seed).on(target(side))
                };
                let loads: Vec<Load> = (0..row.clients).map(load).collect();
                let before_ns = round_trip_ns();
                let figures = self.loader.load(&loads)?;
                let cores = Distance::of(before_ns, round_trip_ns());
                runs.push(side, cores, figures);
            }
            runs.rounds += 1;
        }
        self.tell(row, &runs)
    }

    /// Puts the lines of a row into the table. Returns the pool's speeds.
    fn tell(&mut self, row: &Row, runs: &Runs) -> Result<Vec<f64>, String> {
        let [of_speed, of_processor] = match self.options.counts {
            true => [Wanted::Nothing; 2],
            false => row.wanted,
        };
        // Lines are told apart by their names, so each says of which row it is.
        let counted = |what: &str, unit, wanted| {
            let name = format!("{}: {what}", row.name);
            Line::new(name, unit, &[wanted])
        };
        let line = |what: &str, wanted| counted(what, "µs", wanted);
        let mut speed = Line::new(row.name.as_str(), row.unit, &[of_speed]);
        let mut processor = line("processor", of_processor);
        let mut engine = line("pool's thread", Wanted::Nothing);
        let mut p99 = line("p99", Wanted::Nothing);
        let mut orders = counted("orders to the pool's thread", "each", Wanted::Nothing);
        let mut wakes = counted("threads woken", "each", Wanted::Nothing);
        let mut allocations = counted("allocations", "each", Wanted::Nothing);
        let mut hashes = counted("keys hashed for tables", "each", Wanted::Nothing);
        let mut near = counted("runs with near cores", "runs", Wanted::Nothing);
        let mut of_pool = Vec::new();
        for side in [Side::Raw, Side::Pool] {
            near.push(side, runs.near(side) as f64);
        }
        for (side, figures) in runs.judged() {
            let first = figures.first().ok_or("the load returned no figures")?;
            let sum = |figure: fn(&Figures) -> f64| figures.iter().map(figure).sum::<f64>();
            let operations = sum(|of| of.operations as f64);
            speed.push(side, sum(row.speed));
            processor.push(side, first.processor_s * 1e6 / operations);
            if let Some(count) = first.allocations {
                allocations.push(side, count as f64 / operations);
            }
            let slowest = figures.iter().map(|of| of.p99_us);
            p99.push(side, slowest.fold(0.0, f64::max));
            if side == Side::Pool {
                engine.push(side, first.pools_s * 1e6 / operations);
                orders.push(side, first.orders as f64 / operations);
                if let Some(count) = first.hashes {
                    hashes.push(side, count as f64 / operations);
                }
                let lanes = sum(|of| of.lane_wakes as f64);
                wakes.push(side, (first.pool_wakes as f64 + lanes) / operations);
                of_pool.push(sum(row.speed));
            }
        }
        for line in [speed, processor, engine, p99, orders, wakes, near] {
            self.table.push(line);
        }
        if self.options.counts {
            self.table.push(allocations);
            self.table.push(hashes);
        }
        Ok(of_pool)
    }
}

/// Runs of a row on both sides, each with the distance of the cores meanwhile.
#[derive(Default)]
struct Runs {
    rounds: usize,
    runs: Vec<(Side, Distance, Vec<Figures>)>,
}

impl Runs {
    fn push(&mut self, side: Side, cores: Distance, figures: Vec<Figures>) {
        self.runs.push((side, cores, figures));
    }

    fn near(&self, side: Side) -> usize {
        let near = |run: &&(Side, Distance, _)| run.0 == side && run.1 == Distance::Near;
        self.runs.iter().filter(near).count()
    }

    /// Reports whether another round is wanted. On a machine whose cores are seldom near, the
    /// rounds end before each side has its number of near runs.
    fn go_on(&self, wanted: usize) -> bool {
        let has_enough = [Side::Raw, Side::Pool].map(|side| self.near(side) >= wanted);
        let is_short = has_enough.contains(&false);
        self.rounds < wanted || is_short && self.rounds < MOST_TURNS * wanted
    }

    /// Returns the runs with near cores, if both sides have some, else all runs.
    fn judged(&self) -> impl Iterator<Item = (Side, &[Figures])> {
        let only_near = self.near(Side::Raw) > 0 && self.near(Side::Pool) > 0;
        let is_judged = move |cores: &Distance| !only_near || *cores == Distance::Near;
        let judged = self
            .runs
            .iter()
            .filter(move |(_, cores, _)| is_judged(cores));
        judged.map(|(side, _, figures)| (*side, figures.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(of: &[(Side, Distance)]) -> Runs {
        let mut runs = Runs::default();
        for (side, cores) in of {
            runs.push(*side, *cores, Vec::new());
        }
        runs.rounds = of.len() / 2;
        runs
    }

    #[test]
    fn near_runs_are_judged_if_both_sides_have_some() {
        let (near, far) = (Distance::Near, Distance::Far);
        let both = [(Side::Raw, near), (Side::Pool, far), (Side::Pool, near)];
        assert_eq!(runs(&both).judged().count(), 2);
        let one = [(Side::Raw, near), (Side::Pool, far)];
        assert_eq!(runs(&one).judged().count(), 2);
    }

    #[test]
    fn rounds_go_on_until_there_are_near_runs_or_too_many() {
        let far = [(Side::Raw, Distance::Far), (Side::Pool, Distance::Far)];
        let near = [(Side::Raw, Distance::Near), (Side::Pool, Distance::Near)];
        assert!(runs(&[]).go_on(1));
        assert!(runs(&far).go_on(1));
        assert!(!runs(&near).go_on(1));
        assert!(runs(&near).go_on(2));
        assert!(!runs(&far.repeat(MOST_TURNS)).go_on(1));
    }
}
