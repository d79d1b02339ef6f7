//! The pool on a device in memory, beside the bare file there. The disk of a machine hides what the
//! pool itself costs; a disk of memory is quicker than any, and hides nothing.
//!
//! Each line comes with the processor time of a request, and with that of the pool's own thread.

use super::phases::{Bench, kiops, target};
use super::process::{Figures, Load};
use super::table::{Line, Side, Wanted};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Share of the cache that the cached reads use.
const CACHED: u64 = 2;
/// Blocks of a volume, and the ratio to the bare file that 1 MiB reads in order must reach.
const READS_IN_ORDER: [(u64, f64); 2] = [(4 * KIB, 0.6), (16 * KIB, 0.8)];

/// Row of the table: a load by one or more clients.
struct Row {
    name: &'static str,
    clients: usize,
    load: Load,
    /// Least ratio of the pool's figure to the file's, if one is demanded.
    least: Option<f64>,
    /// Most processor time for a request, as a ratio to the file's.
    most_processor: Option<f64>,
}

impl Bench<'_> {
    /// Measures random requests of 4 KiB, then requests of 1 MiB in order.
    pub(super) fn memory_table(&mut self) -> Result<(), String> {
        self.fill_sides(&[Side::Raw, Side::Pool])?;
        self.touch_memory("tank/v")?;
        let seconds = self.options.seconds;
        let read = |depth| Load::random_read(4096, depth).seconds(seconds);
        let write = |depth| Load::random_write(4096, depth).seconds(seconds);
        let row = |name, clients, load, least, most_processor| Row {
            name,
            clients,
            load,
            least,
            most_processor,
        };
        let rows = [
            row(
                "4K random read QD32, cold",
                1,
                read(32),
                Some(0.75),
                Some(1.5),
            ),
            row(
                "4K random read QD32 × 2 clients, cold",
                2,
                read(32),
                Some(0.7),
                None,
            ),
            row("4K random read QD1, cold", 1, read(1), Some(0.85), None),
            row("4K random write QD32", 1, write(32), Some(0.9), None),
            row("4K random write QD32 × 2 clients", 2, write(32), None, None),
        ];
        let mut writes = Vec::new();
        for row in &rows {
            let of_pool = self.measure(row)?;
            if row.name.contains("write") {
                writes.push(of_pool);
            }
        }
        if let [one, two] = &writes[..] {
            let name = "4K random write, two clients / one";
            let mut line = Line::new(name, "ratio", &[Wanted::AtLeast(1.0)]);
            for (one, two) in one.iter().zip(two) {
                line.push(Side::Pool, two / one);
            }
            self.table.push(line);
        }
        self.cached()?;
        self.in_order()
    }

    /// Measures reads of blocks that the cache holds. The file has no cache, so none is demanded.
    fn cached(&mut self) -> Result<(), String> {
        let within = self.options.cache / CACHED;
        let warm = Load::sequential_read(MIB as u32, 4).within(within);
        for _ in 0..2 {
            self.one(warm.clone().bytes(within).on("tank/v"))?;
        }
        let load = Load::random_read(4096, 32).seconds(self.options.seconds);
        let row = Row {
            name: "4K random read QD32, cached",
            clients: 1,
            load: load.within(within),
            least: None,
            most_processor: None,
        };
        self.measure(&row).map(drop)
    }

    /// Measures requests of 1 MiB in order, of volumes with small and with larger blocks.
    fn in_order(&mut self) -> Result<(), String> {
        let size = self.filling();
        for (block_size, least) in READS_IN_ORDER {
            self.new_disk_pool(size, block_size)?;
            let write = Load::sequential_write(MIB as u32, 4);
            let writes = Row {
                name: match block_size {
                    4096 => "1 MiB write in order QD4, 4K blocks",
                    _ => "1 MiB write in order QD4, 16K blocks",
                },
                clients: 1,
                load: write.bytes(size).flushed(),
                least: Some(0.6),
                most_processor: None,
            };
            self.measure(&writes)?;
            let read = Load::sequential_read(MIB as u32, 4);
            let reads = Row {
                name: match block_size {
                    4096 => "1 MiB read in order QD4, 4K blocks",
                    _ => "1 MiB read in order QD4, 16K blocks",
                },
                clients: 1,
                load: read.bytes(size),
                least: Some(least),
                most_processor: None,
            };
            self.measure(&reads)?;
        }
        Ok(())
    }

    /// Measures a row on both sides in turns. Returns the pool's figures.
    fn measure(&mut self, row: &Row) -> Result<Vec<f64>, String> {
        let is_large = row.name.starts_with("1 MiB");
        let unit = if is_large { "MB/s" } else { "K/s" };
        let wanted = row.least.map_or(Wanted::Nothing, Wanted::OfRaw);
        let mut speed = Line::new(row.name, unit, &[wanted]);
        // Lines are told apart by their names, so each says of which row it is.
        let named = |what: &str| format!("{}: {what}", row.name);
        let wanted = row
            .most_processor
            .map_or(Wanted::Nothing, Wanted::AtMostOfRaw);
        let mut processor = Line::new(named("processor"), "µs", &[wanted]);
        let mut engine = Line::new(named("pool's thread"), "µs", &[Wanted::Nothing]);
        let mut p99 = Line::new(named("p99"), "µs", &[Wanted::Nothing]);
        let mut of_pool = Vec::new();
        for round in 0..self.options.rounds {
            for turn in 0..2 {
                let side = [Side::Raw, Side::Pool][(round + turn) % 2];
                let loads: Vec<Load> = (0..row.clients)
                    .map(|client| {
                        let seed = (round * row.clients + client) as u64 + 1;
                        row.load.clone().seed(seed).on(target(side))
                    })
                    .collect();
                let figures = self.loader.load(&loads)?;
                let first = figures.first().ok_or("the load returned no figures")?;
                let sum = |figure: fn(&Figures) -> f64| figures.iter().map(figure).sum::<f64>();
                let operations = sum(|of| of.operations as f64);
                let figure = if is_large {
                    sum(Figures::mb_s)
                } else {
                    sum(kiops)
                };
                speed.push(side, figure);
                processor.push(side, first.processor_s * 1e6 / operations);
                let slowest = figures.iter().map(|of| of.p99_us);
                p99.push(side, slowest.fold(0.0, f64::max));
                if side == Side::Pool {
                    engine.push(side, first.pools_s * 1e6 / operations);
                    of_pool.push(figure);
                }
            }
        }
        for line in [speed, processor, engine, p99] {
            self.table.push(line);
        }
        Ok(of_pool)
    }
}
