//! The subject of a page: the runs that belong together, the series that are compared, and their
//! names and colours.

use super::{Network, Source};
use crate::compare::{Comparison, Made, compare};
use crate::results::Run;
use crate::sweep::plan::{Settings, words};
use crate::sweep::verdict::{Best, find};

/// Most series with a colour of their own; nobody can tell more apart.
const COLOURS: usize = 6;

/// Runs of one file under one setting.
#[derive(Debug)]
pub(super) struct Series<'a> {
    /// Label that tells this series from the others.
    pub(super) label: String,
    /// Label in a few letters, for the end of a line.
    pub(super) short: String,
    /// Class in pictures: `s0` … `s5`, or `sx` for all series without a colour of their own.
    pub(super) class: &'static str,
    /// Index of the file.
    pub(super) source: usize,
    /// Settings of the runs.
    pub(super) settings: Settings,
    /// Runs in the order of their rounds.
    pub(super) runs: Vec<&'a Run>,
}

impl<'a> Series<'a> {
    /// Lists the runs of a workload.
    pub(super) fn of<'s>(&'s self, workload: &'s str) -> impl Iterator<Item = &'a Run> + 's {
        let runs = self.runs.iter().copied();
        runs.filter(move |run| run.workload.name == workload)
    }
}

/// Comparison of one series with another.
#[derive(Debug)]
pub(super) struct Contrast {
    /// Index of the base of the comparison.
    pub(super) base: usize,
    /// Index of the series that is compared with the base.
    pub(super) series: usize,
    /// Whether the two series took turns.
    pub(super) made: Made,
    /// Differences between the two.
    pub(super) comparison: Comparison,
}

/// All data that a page shows.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    /// Files of results.
    pub(super) sources: &'a [Source],
    /// Network between load and storage.
    pub(super) network: &'a Network,
    /// Chance that any equal things are called different.
    pub(super) alpha: f64,
    /// All series.
    pub(super) series: Vec<Series<'a>>,
    /// Names of the workloads, in the order in which they were first run.
    pub(super) workloads: Vec<String>,
    /// Comparisons on the page.
    pub(super) contrasts: Vec<Contrast>,
    /// Best settings of each sweep, by the index of its file.
    pub(super) best: Vec<(usize, Vec<Best>)>,
}

impl<'a> Subject<'a> {
    pub(super) fn of(sources: &'a [Source], network: &'a Network, alpha: f64) -> Self {
        let mut subject = Self {
            sources,
            network,
            alpha,
            series: Vec::new(),
            workloads: Vec::new(),
            contrasts: Vec::new(),
            best: Vec::new(),
        };
        for (index, source) in sources.iter().enumerate() {
            subject.add(index, source);
        }
        subject.compare_sources();
        subject.colour();
        subject
    }

    fn add(&mut self, index: usize, source: &'a Source) {
        for run in &source.results.runs {
            if !self.workloads.contains(&run.workload.name) {
                self.workloads.push(run.workload.name.clone());
            }
        }
        let plan = plan(source);
        let first = self.series.len();
        for settings in &plan {
            let of_setting = source.results.runs.iter();
            let mut runs: Vec<&Run> = of_setting.filter(|run| run.settings == *settings).collect();
            runs.sort_by_key(|run| run.round);
            self.series.push(Series {
                label: self.label(source, settings, &plan),
                short: short(settings, &plan),
                class: "sx",
                source: index,
                settings: settings.clone(),
                runs,
            });
        }
        if plan.len() > 1 {
            let found = find(&source.results, &plan, self.alpha);
            let against = found.against.into_iter().enumerate();
            self.contrasts
                .extend(against.map(|(number, against)| Contrast {
                    base: first,
                    series: first + 1 + number,
                    made: Made::InTurns,
                    comparison: against.comparison,
                }));
            self.best.push((index, found.best));
        }
    }

    fn label(&self, source: &Source, settings: &Settings, plan: &[Settings]) -> String {
        let set = words(&turned(settings, plan));
        match (self.sources.len(), set.is_empty()) {
            (_, true) => source.label.clone(),
            (1, false) => set,
            (_, false) => format!("{}: {set}", source.label),
        }
    }

    /// Compares the first series of every file with that of the first file.
    fn compare_sources(&mut self) {
        let firsts: Vec<usize> = (0..self.sources.len())
            .filter_map(|source| {
                self.series
                    .iter()
                    .position(|series| series.source == source)
            })
            .collect();
        let Some((base, others)) = firsts.split_first() else {
            return;
        };
        let alpha = self.alpha / others.len().max(1) as f64;
        for series in others {
            let (a, b) = (&self.series[*base].runs, &self.series[*series].runs);
            self.contrasts.push(Contrast {
                base: *base,
                series: *series,
                made: Made::Apart,
                comparison: compare(a, b, Made::Apart, alpha),
            });
        }
    }

    /// Assigns colours: to all series if there are few; otherwise to bases of comparisons and to
    /// the best series.
    fn colour(&mut self) {
        const CLASSES: [&str; COLOURS] = ["s0", "s1", "s2", "s3", "s4", "s5"];
        let mut chosen: Vec<usize> = (0..self.series.len()).collect();
        if chosen.len() > COLOURS {
            let best = self
                .best
                .iter()
                .flat_map(|(source, best)| best.iter().map(move |best| (*source, best)));
            let best = best.filter_map(|(source, best)| self.find(source, &best.settings));
            let bases = self.contrasts.iter().map(|contrast| contrast.base);
            let mut wanted: Vec<usize> = bases.chain(best).collect();
            wanted.dedup();
            let mut seen = Vec::new();
            wanted.retain(|index| {
                !seen.contains(index) && {
                    seen.push(*index);
                    true
                }
            });
            wanted.truncate(COLOURS);
            chosen = wanted;
        }
        for (index, class) in chosen.into_iter().zip(CLASSES) {
            self.series[index].class = class;
        }
    }

    /// Finds the series of this file and setting.
    pub(super) fn find(&self, source: usize, settings: &Settings) -> Option<usize> {
        let is_it = |series: &Series<'_>| series.source == source && series.settings == *settings;
        self.series.iter().position(is_it)
    }

    /// Reports whether there is only one series, so that workloads are compared.
    pub(super) fn is_single(&self) -> bool {
        self.series.len() == 1
    }

    /// Lists all runs.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&Series<'a>, &'a Run)> {
        let all = self.series.iter();
        all.flat_map(|series| series.runs.iter().map(move |run| (series, *run)))
    }
}

/// Returns the settings of a file, beginning with the base of the comparisons.
fn plan(source: &Source) -> Vec<Settings> {
    let mut plan = source.results.plan.clone();
    for run in &source.results.runs {
        if !plan.contains(&run.settings) {
            plan.push(run.settings.clone());
        }
    }
    plan
}

/// Returns the part of some settings that tells them from the rest of the plan: knobs whose values
/// vary. If one knob at a time was varied, only this knob.
fn turned(settings: &Settings, plan: &[Settings]) -> Settings {
    let of_all = |settings: &Settings| -> Settings {
        let differs =
            |name: &String, value: &String| plan.iter().any(|other| other.get(name) != Some(value));
        let turned = settings.iter().filter(|(name, value)| differs(name, value));
        turned
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let Some((first, others)) = plan.split_first() else {
        return Settings::new();
    };
    let from_first = |settings: &Settings| -> Settings {
        let mut turned = settings.clone();
        turned.retain(|name, value| first.get(name) != Some(value));
        turned
    };
    let one_at_a_time = others.iter().all(|other| from_first(other).len() == 1);
    match one_at_a_time && settings != first {
        true => from_first(settings),
        false => of_all(settings),
    }
}

/// Returns the values alone; the legend has their names. If several knobs were varied one at a
/// time, the first settings have all of them and are called the start.
fn short(settings: &Settings, plan: &[Settings]) -> String {
    let is_first = plan.first() == Some(settings);
    let several = turned(settings, plan).len() > 1;
    let is_alone = plan
        .iter()
        .skip(1)
        .all(|other| turned(other, plan).len() == 1);
    if is_first && several && is_alone {
        return "start".to_owned();
    }
    let values: Vec<String> = turned(settings, plan).into_values().collect();
    values.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::plan::{Design, settings};

    fn labels(knobs: &[(&str, &[&str])], design: Design) -> Vec<(String, String)> {
        let knobs: Vec<(String, Vec<String>)> = knobs
            .iter()
            .map(|(name, values)| {
                let values = values.iter().map(|value| (*value).to_owned()).collect();
                ((*name).to_owned(), values)
            })
            .collect();
        let plan = settings(&knobs, design, |_| None);
        let label = |settings| (words(&turned(settings, &plan)), short(settings, &plan));
        plan.iter().map(label).collect()
    }

    fn pairs(labels: &[(String, String)]) -> Vec<(&str, &str)> {
        let pairs = labels.iter();
        pairs
            .map(|(long, short)| (long.as_str(), short.as_str()))
            .collect()
    }

    #[test]
    fn settings_are_called_by_what_tells_them_apart() {
        let one = labels(&[("q", &["1", "4"]), ("x", &["0"])], Design::OneAtATime);
        assert_eq!(pairs(&one), [("q=1", "1"), ("q=4", "4")]);
        let two = labels(
            &[("q", &["1", "4"]), ("x", &["0", "9"])],
            Design::OneAtATime,
        );
        assert_eq!(
            pairs(&two),
            [("q=1 x=0", "start"), ("q=4", "4"), ("x=9", "9")]
        );
        let cross = labels(&[("q", &["1", "4"]), ("x", &["0", "9"])], Design::Cross);
        let expected = [
            ("q=1 x=0", "1/0"),
            ("q=4 x=0", "4/0"),
            ("q=1 x=9", "1/9"),
            ("q=4 x=9", "4/9"),
        ];
        assert_eq!(pairs(&cross), expected);
    }
}
