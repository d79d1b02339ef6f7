//! Table of results: the figure of each side, the ratio, the demand, and whether it is met.

use serde::Serialize;

use super::Options;
use crate::bench::machine::Machine;
use crate::bench::report::Spread;

/// Share of the earlier build's speed that must be reached. Anything below is more than the usual
/// noise of machines.
const OF_BEFORE: f64 = 0.97;

/// Demand on a line.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) enum Wanted {
    /// Ratio of the pool to the raw file.
    OfRaw(f64),
    /// Greatest ratio of the pool to the raw file, of a figure that is better if it is small.
    AtMostOfRaw(f64),
    /// Ratio of the pool to btrfs.
    OfBtrfs(f64),
    /// Ratio of the pool to that of the earlier build, or its inverse for a duration.
    OfBefore(f64),
    /// Least figure of the pool.
    AtLeast(f64),
    /// Greatest figure of the pool.
    AtMost(f64),
    /// No demand: the line is only listed.
    Nothing,
}

/// Line of the table.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    name: String,
    unit: &'static str,
    raw: Vec<f64>,
    pool: Vec<f64>,
    btrfs: Vec<f64>,
    before: Vec<f64>,
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
            before: Vec::new(),
            wanted: wanted.to_vec(),
        }
    }

    /// Makes a line of which only the pool has a figure.
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

    /// Adds more figures of this measurement.
    fn extend(&mut self, more: Self) {
        self.raw.extend(more.raw);
        self.pool.extend(more.pool);
        self.btrfs.extend(more.btrfs);
        self.before.extend(more.before);
    }

    /// Puts the earlier build's line beside this one. Speed is judged, and other figures are
    /// listed.
    fn beside(self, before: Self) -> Self {
        let is_speed = matches!(self.unit, "K/s" | "MB/s" | "ms" | "s");
        let wanted = is_speed.then_some(Wanted::OfBefore(OF_BEFORE));
        Self {
            before: before.pool,
            btrfs: Vec::new(),
            wanted: wanted.into_iter().collect(),
            ..self
        }
    }

    /// Returns the figure or ratio that a demand concerns, the demand, and whether it is met.
    /// Returns `None` if the other side was not measured.
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
            Wanted::AtMostOfRaw(bound) => {
                let ratio = pool / median(&self.raw)?;
                (ratio, format!("≤ {bound} × raw"), ratio <= bound)
            }
            Wanted::OfBtrfs(bound) => {
                let ratio = pool / median(&self.btrfs)?;
                (ratio, format!("≥ {bound} × btrfs"), ratio >= bound)
            }
            Wanted::OfBefore(bound) => {
                let before = median(&self.before)?;
                let takes_time = matches!(self.unit, "ms" | "s");
                let ratio = if takes_time {
                    before / pool
                } else {
                    pool / before
                };
                (ratio, format!("≥ {bound} × before"), ratio >= bound)
            }
            Wanted::AtLeast(bound) => (pool, format!("≥ {bound}"), pool >= bound),
            Wanted::AtMost(bound) => (pool, format!("≤ {bound}"), pool <= bound),
            Wanted::Nothing => return None,
        };
        Some((figure, shown, is_reached))
    }
}

/// Side that was measured.
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

    /// Adds a line, or adds new measurements to the line of that name.
    pub(super) fn push(&mut self, line: Line) {
        eprintln!("bench: {}", show(&line));
        match self.lines.iter_mut().find(|of| of.name == line.name) {
            Some(of) => of.extend(line),
            None => self.lines.push(line),
        }
    }

    /// Returns this table with the earlier build's figures beside its own.
    pub(super) fn beside(mut self, before: Self) -> Self {
        let mut others = before.lines;
        let lines = self.lines.into_iter().filter_map(|line| {
            let at = others.iter().position(|of| of.name == line.name)?;
            Some(line.beside(others.swap_remove(at)))
        });
        self.lines = lines.collect();
        self
    }

    /// Adds a note that readers need.
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

    /// Reports the number of demands that are not met, for readers who skip the tables.
    fn judge(&self) -> Result<(), String> {
        let of_line = |line: &Line| {
            let judged = line.wanted.iter().filter_map(|wanted| line.judge(*wanted));
            judged.filter(|(_, _, is_reached)| !is_reached).count()
        };
        match self.lines.iter().map(of_line).sum::<usize>() {
            0 => Ok(()),
            short => Err(format!("{short} demands of the table are not met")),
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
    let (other, others) = match line.before.is_empty() {
        true => ("btrfs", &line.btrfs),
        false => ("before", &line.before),
    };
    let mut text = format!(
        "{:<54} {:>6}  pool {:<22} raw {:<22} {other} {:<22}",
        line.name,
        line.unit,
        figure(&line.pool),
        figure(&line.raw),
        figure(others)
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
        assert_eq!(judged(Wanted::AtMostOfRaw(0.89)), Some((0.9, false)));
        assert_eq!(judged(Wanted::OfBtrfs(10.0)), None);
        assert!(show(&line).contains("9.00 [8.00–90.00]"));
    }

    #[test]
    fn speed_is_judged_beside_the_build_before_and_the_rest_is_listed() {
        let lines = [("K/s", 10.0, 8.0), ("ms", 10.0, 8.0), ("MiB", 10.0, 8.0)];
        let line = |unit, figure| Line::single(unit, unit, Wanted::AtMost(1.0), figure);
        let judged = lines.map(|(unit, now, before)| {
            let both = line(unit, now).beside(line(unit, before));
            let judged = both.wanted.first().and_then(|wanted| both.judge(*wanted));
            judged.map(|(ratio, _, is_reached)| (ratio, is_reached))
        });
        assert_eq!(judged, [Some((1.25, true)), Some((0.8, false)), None]);
    }
}
