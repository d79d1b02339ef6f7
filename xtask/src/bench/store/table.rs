//! The table: what was measured on each side, the ratio, what is wanted, and whether it is reached.

use serde::Serialize;

use super::Options;
use crate::bench::machine::Machine;
use crate::bench::report::Spread;

/// What must hold.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) enum Wanted {
    /// The pool over the raw file.
    OfRaw(f64),
    /// The pool over btrfs.
    OfBtrfs(f64),
    /// The pool's figure at least.
    AtLeast(f64),
    /// The pool's figure at most.
    AtMost(f64),
    /// It is only listed.
    Nothing,
}

/// A line.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    name: String,
    unit: &'static str,
    raw: Vec<f64>,
    pool: Vec<f64>,
    btrfs: Vec<f64>,
    wanted: Vec<Wanted>,
}

impl Line {
    pub(super) fn new(name: impl Into<String>, unit: &'static str, wanted: &[Wanted]) -> Self {
        Self {
            name: name.into(),
            unit,
            raw: Vec::new(),
            pool: Vec::new(),
            btrfs: Vec::new(),
            wanted: wanted.to_vec(),
        }
    }

    /// A line of which only the pool has a figure.
    pub(super) fn single(
        name: impl Into<String>,
        unit: &'static str,
        wanted: Wanted,
        figure: f64,
    ) -> Self {
        let mut line = Self::new(name, unit, &[wanted]);
        line.pool.push(figure);
        line
    }

    pub(super) fn push(&mut self, side: Side, figure: f64) {
        match side {
            Side::Raw => self.raw.push(figure),
            Side::Pool => self.pool.push(figure),
            Side::Btrfs => self.btrfs.push(figure),
        }
    }

    /// The figure or ratio that a demand is about, the demand, and whether it is met; `None` where the
    /// other side was not measured.
    fn judge(&self, wanted: Wanted) -> Option<(f64, String, bool)> {
        let median = |figures: &[f64]| {
            let spread = Spread::of(figures.iter().copied());
            spread.median.is_finite().then_some(spread.median)
        };
        let pool = median(&self.pool)?;
        let (figure, shown, is_reached) = match wanted {
            Wanted::OfRaw(bound) => {
                let ratio = pool / median(&self.raw)?;
                (ratio, format!("≥ {bound} × raw"), ratio >= bound)
            }
            Wanted::OfBtrfs(bound) => {
                let ratio = pool / median(&self.btrfs)?;
                (ratio, format!("≥ {bound} × btrfs"), ratio >= bound)
            }
            Wanted::AtLeast(bound) => (pool, format!("≥ {bound}"), pool >= bound),
            Wanted::AtMost(bound) => (pool, format!("≤ {bound}"), pool <= bound),
            Wanted::Nothing => return None,
        };
        Some((figure, shown, is_reached))
    }
}

/// Who was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Raw,
    Pool,
    Btrfs,
}

/// All lines.
#[derive(Serialize)]
pub(super) struct Table {
    machine: Machine,
    settings: String,
    lines: Vec<Line>,
    notes: Vec<String>,
}

impl Table {
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        let machine = Machine::look()?;
        let settings = format!(
            "{} GiB each, cache {} MiB, {} rounds of {} s",
            options.size >> 30,
            options.cache >> 20,
            options.rounds,
            options.seconds
        );
        Ok(Self {
            machine,
            settings,
            lines: Vec::new(),
            notes: Vec::new(),
        })
    }

    pub(super) fn push(&mut self, line: Line) {
        eprintln!("bench: {}", show(&line));
        self.lines.push(line);
    }

    /// What a reader has to know besides.
    pub(super) fn note(&mut self, note: String) {
        eprintln!("bench: {note}");
        self.notes.push(note);
    }

    pub(super) fn print(&self, json: bool) -> Result<(), String> {
        if json {
            let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
            println!("{text}");
            return self.judge();
        }
        let machine = &self.machine;
        println!(
            "{}, {} cores, {} GiB, Linux {}; load before {}; {}",
            machine.cpu,
            machine.cores,
            machine.memory_gib,
            machine.kernel,
            machine.load_before,
            self.settings
        );
        println!("medians [least–most]\n");
        for line in &self.lines {
            println!("{}", show(line));
        }
        for note in &self.notes {
            println!("\n{note}");
        }
        self.judge()
    }

    /// Says how many demands are not reached, to whoever reads no tables.
    fn judge(&self) -> Result<(), String> {
        let of_line = |line: &Line| {
            let judged = line.wanted.iter().filter_map(|wanted| line.judge(*wanted));
            judged.filter(|(_, _, is_reached)| !is_reached).count()
        };
        match self.lines.iter().map(of_line).sum::<usize>() {
            0 => Ok(()),
            short => Err(format!("{short} of what the table demands is not reached")),
        }
    }
}

fn show(line: &Line) -> String {
    let figure = |figures: &[f64]| {
        if figures.is_empty() {
            return "-".to_owned();
        }
        let spread = Spread::of(figures.iter().copied());
        let digits = if spread.median < 100.0 { 2 } else { 0 };
        if figures.len() == 1 {
            return format!("{:.digits$}", spread.median);
        }
        format!(
            "{:.digits$} [{:.digits$}–{:.digits$}]",
            spread.median, spread.min, spread.max
        )
    };
    let mut text = format!(
        "{:<52} {:>6}  pool {:<22} raw {:<22} btrfs {:<22}",
        line.name,
        line.unit,
        figure(&line.pool),
        figure(&line.raw),
        figure(&line.btrfs)
    );
    for wanted in &line.wanted {
        if let Some((figure, shown, is_reached)) = line.judge(*wanted) {
            let word = if is_reached { "reached" } else { "NOT REACHED" };
            text.push_str(&format!(" {figure:.2} ({shown}: {word})"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_is_judged_by_medians() {
        let mut line = Line::new("x", "K/s", &[]);
        for (pool, raw) in [(9.0, 10.0), (90.0, 10.0), (8.0, 11.0)] {
            line.push(Side::Pool, pool);
            line.push(Side::Raw, raw);
        }
        let judged = |wanted| {
            line.judge(wanted)
                .map(|(figure, _, is_reached)| (figure, is_reached))
        };
        assert_eq!(judged(Wanted::OfRaw(0.9)), Some((0.9, true)));
        assert_eq!(judged(Wanted::OfRaw(0.91)), Some((0.9, false)));
        assert_eq!(judged(Wanted::AtMost(9.0)), Some((9.0, true)));
        assert_eq!(judged(Wanted::OfBtrfs(10.0)), None);
        assert!(show(&line).contains("9.00 [8.00–90.00]"));
    }
}
