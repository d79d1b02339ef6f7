//! `bench sweep`: measures a target under many settings.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde::Serialize;

use super::compare::{advice, figure, interval, verdict_words};
use super::options::{Clock, How, Output, Preview, What};
use super::progress::Progress;
use super::report;
use super::run::{empty_results, refused, verdict};
use super::target::TargetArgs;
use crate::print::table::{self, Column, coloured, extra, left, right};
use crate::{Connection, Done, Failure, Terminal};
use bench::compare::Row;
use bench::parameters::{Growth, cycle};
use bench::reached::{Reached, not_in_force};
use bench::remarks::unproven;
use bench::results::{Measurement, Results};
use bench::run::measure;
use bench::sweep::in_vain;
use bench::sweep::knob::{Commands, Knob, Names, Registry, Setup};
use bench::sweep::plan::{self, Design, MAX_SETTINGS, Settings};
use bench::sweep::session_knobs::session_knobs;
use bench::sweep::verdict::{Best, SweepResult, find};
use bench::sweep::volume_knobs::MADE_WITH;
use bench::workload::Workload;
use model::Error;

mod beneath;
pub(super) mod journal;
mod made;
mod rounds;
mod volume;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    how: How,
    /// Setting to change and its values, as in outstanding=32,64,128, or 1..64*2 (doubling), or
    /// 8..64+8. The others are compared with the first value. Without values, those worth trying.
    /// May be given several times
    #[arg(
        short = 'k',
        long = "knob",
        value_name = "NAME[=A,B,…]",
        required = true
    )]
    knobs: Vec<String>,
    /// Try every combination of values instead of turning one knob at a time
    #[arg(long)]
    cross: bool,
    /// Rounds; each has every setting once, in an order of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Write the page that bench report makes of the results to this file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Answer of a sweep that is printed as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    found: &'a SweepResult,
    results: &'a Results,
}

pub(super) fn run(args: &Args, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    if !args.output.dry_run {
        journal::put_back_left(connection, t)?;
    }
    let mut registry = Registry::of_every_target();
    if args.target.is_logical_unit() {
        session_knobs().for_each(|knob| registry.add(knob));
    }
    let mut plan = Plan::of(args, &registry, t)?;
    let mut opened = args.target.open(connection)?;
    if let Some(reached) = opened.reached() {
        plan.heed(&reached, t)?;
    }
    for setup in &plan.setups {
        for workload in &setup.profile.workloads {
            measure::check(workload, &setup.parameters, &*opened.device).map_err(refused)?;
        }
    }
    if args.output.dry_run {
        return preview(&plan, args.repeat, t);
    }
    if plan.writes() {
        args.target.may_write(&mut opened, t)?;
    }
    opened.warn(t)?;
    let mut results = empty_results(&opened);
    results.plan.clone_from(&plan.settings);
    args.output.save(&results)?;
    if let Some(path) = &args.report {
        report::prepare(path)?;
    }
    let mut progress = Progress::new(t.err, args.output.list.json);
    let ended = plan.run((args, connection), opened, &mut results, &mut progress);
    progress.clear();
    let saved = args.output.save(&results);
    if results.runs.is_empty() {
        ended.clone()?;
    }
    let reported = args
        .report
        .as_ref()
        .map_or(Ok(()), |path| report::page(path, &results));
    let found = find(&results, &plan.settings, 0.05);
    show(args, &registry, &found, &results, t)?;
    say_failed(&results, t)?;
    say_in_force(&results, t)?;
    let errors: u64 = results
        .runs
        .iter()
        .map(|run| run.measurement.errors())
        .sum();
    if errors > 0 {
        writeln!(t.err, "{errors} accesses failed; no figure includes them")?;
    }
    for run in &results.runs {
        let Measurement { verify, .. } = &run.measurement;
        let wrong = run.measurement.data_is_wrong();
        let faults = wrong.then(|| "WRONG DATA".to_owned());
        let faults = faults.into_iter().chain(verify.iter().flat_map(unproven));
        for fault in faults {
            let words = plan::words(&run.settings);
            let (workload, round) = (&run.workload.name, run.round);
            writeln!(t.err, "{words}, {workload}, round {round}: {fault}")?;
        }
    }
    ended?;
    saved?;
    reported?;
    verdict(&results)
}

/// Reports the settings that were left out, and why.
fn say_failed(results: &Results, t: &mut Terminal<'_>) -> Done {
    for failed in results.failed.iter().filter(|failed| failed.left_out) {
        let words = plan::words(&failed.settings);
        let from = match failed.round {
            0 => String::new(),
            round => format!(" from round {round} on"),
        };
        let reason = &failed.reason;
        writeln!(t.err, "{words}: left out{from}: {reason}")?;
    }
    Ok(())
}

/// Reports the settings that were not in force as asked, and those that lacked paths.
fn say_in_force(results: &Results, t: &mut Terminal<'_>) -> Done {
    let mut said: Vec<String> = Vec::new();
    for run in &results.runs {
        let missing = run.reached.as_ref().map(Reached::missing);
        let missing = missing
            .into_iter()
            .flatten()
            .map(|missing| format!("{}: {missing}", plan::words(&run.settings)));
        for remark in not_in_force(run).into_iter().chain(missing) {
            if !said.contains(&remark) {
                writeln!(t.err, "{remark}")?;
                said.push(remark);
            }
        }
    }
    Ok(())
}

/// Settings that a sweep tries.
struct Plan {
    settings: Vec<Settings>,
    /// Setup of the run for each setting.
    setups: Vec<Setup>,
    seed: u64,
    clock: Clock,
}

impl Plan {
    fn of(args: &Args, registry: &Registry, t: &mut Terminal<'_>) -> Result<Self, Failure> {
        let knobs = args.knobs.iter().map(|text| chosen(registry, text));
        let knobs = knobs.collect::<Result<Vec<_>, Error>>()?;
        let design = if args.cross {
            Design::Cross
        } else {
            Design::OneAtATime
        };
        let settings = plan::settings(&knobs, design, |name| registry.find(name)?.need());
        if settings.len() > MAX_SETTINGS {
            return Err(Error::invalid(
                format!("the knobs give more than {MAX_SETTINGS} settings"),
                "name fewer values, or turn one knob at a time (without --cross)",
            )
            .into());
        }
        let turned = |name: &str| knobs.iter().any(|(knob, _)| knob == name);
        if turned(MADE_WITH) && turned("write_cache") {
            return Err(Error::invalid(
                "write_cache changes the measured unit, and volblocksize measures other units",
                "sweep over one knob, then over the other; the knob sync sets when the writes of a volume \
                 are durable",
            )
            .into());
        }
        let chosen = args.what.choose()?;
        chosen.say_notes(t)?;
        let clock = chosen.clock(&args.how);
        let base = Setup {
            profile: chosen.profile,
            parameters: args.how.over(chosen.parameters),
            target_options: Default::default(),
            write_cache: None,
            volume: Default::default(),
        };
        let setups = settings
            .iter()
            .map(|settings| setup(registry, &base, settings));
        Ok(Self {
            setups: setups.collect::<Result<_, Error>>()?,
            settings,
            seed: base.parameters.seed,
            clock,
        })
    }

    /// Fits the plan to the way in which the unit is reached, and reports knobs without effect.
    fn heed(&mut self, reached: &Reached, t: &mut Terminal<'_>) -> Done {
        let used = in_vain::use_all_sessions(&mut self.setups, reached);
        for note in used
            .into_iter()
            .chain(in_vain::remarks(&self.setups, reached))
        {
            writeln!(t.err, "note: {note}")?;
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        // A volume made for the sweep holds nobody's data.
        let writes = |setup: &Setup| {
            let fills = setup.parameters.fill;
            let writes = fills || setup.profile.workloads.iter().any(Workload::writes);
            writes && !setup.volume.contains_key(MADE_WITH)
        };
        self.setups.iter().any(writes)
    }
}

/// Returns a knob and its values from the command line.
fn chosen(registry: &Registry, text: &str) -> Result<(String, Vec<String>), Error> {
    let (name, values) = text.split_once('=').unwrap_or((text, ""));
    let knob = registry.find(name.trim()).ok_or_else(|| {
        let all: Vec<&str> = registry.iter().map(|knob| knob.name()).collect();
        let next = format!(
            "choose from {}; sandstone bench knobs says what each does",
            all.join(", ")
        );
        Error::not_found(format!("there is no knob {name}"), next)
    })?;
    let values = values.split(',').map(str::trim);
    let values: Vec<String> = values
        .filter(|value| !value.is_empty())
        .flat_map(|value| range(value).unwrap_or_else(|| vec![value.to_owned()]))
        .collect();
    let values = if values.is_empty() {
        knob.values()
    } else {
        values
    };
    Ok((knob.name().to_owned(), values))
}

/// Returns the numbers of a range: `1..64*2` by doubling, `8..64+8` by adding.
fn range(text: &str) -> Option<Vec<String>> {
    let (start, rest) = text.split_once("..")?;
    let (end, step, growth) = match rest.split_once('*') {
        Some((end, step)) => (end, step, Growth::Exponential),
        None => {
            let (end, step) = rest.split_once('+')?;
            (end, step, Growth::Linear)
        }
    };
    let numbers = cycle(
        start.parse().ok()?,
        end.parse().ok()?,
        step.parse().ok()?,
        growth,
    );
    Some(numbers.iter().map(ToString::to_string).collect())
}

fn setup(registry: &Registry, base: &Setup, settings: &Settings) -> Result<Setup, Error> {
    let mut setup = base.clone();
    // A profile comes first: it would undo the settings of other knobs.
    let mut order: Vec<(&String, &String)> = settings.iter().collect();
    order.sort_by_key(|(name, _)| *name != "profile");
    for (name, value) in order {
        let applied = registry
            .find(name)
            .map(|knob: &dyn Knob| knob.apply(value, &mut setup));
        if let Some(Err(reason)) = applied {
            return Err(Error::invalid(
                format!("{name}: {reason}"),
                "choose another value",
            ));
        }
    }
    Ok(setup)
}

fn preview(plan: &Plan, rounds: u32, t: &mut Terminal<'_>) -> Done {
    let Plan {
        settings, setups, ..
    } = plan;
    let mut time = Preview::default();
    for (settings, setup) in settings.iter().zip(setups) {
        let own = plan
            .clock
            .preview(&setup.parameters, &setup.profile.workloads);
        time.ms += own.ms;
        time.by_amount += own.by_amount;
        writeln!(
            t.out,
            "{}: {} workloads",
            plan::words(settings),
            setup.profile.workloads.len()
        )?;
    }
    writeln!(
        t.out,
        "{} settings in {rounds} rounds, {}",
        settings.len(),
        time.words(rounds)
    )?;
    Ok(writeln!(t.out, "nothing was run (--dry-run)")?)
}

/// Row of the table: a setting and one figure of it.
#[derive(Serialize)]
struct Line {
    setting: String,
    row: Row,
}

const COLUMNS: &[Column<Line>] = &[
    left("setting", |line, _| line.setting.clone()),
    left("workload", |line, _| line.row.workload.clone()),
    left("figure", |line, _| line.row.figure.name().to_owned()),
    right("first", |line, n| figure(line.row.a, n)),
    right("this", |line, n| figure(line.row.b, n)),
    right("change", |line, n| interval(&line.row, n)),
    extra(right("runs", |line, _| line.row.runs.1.to_string())),
    coloured(left("verdict", |line, _| verdict_words(line.row.verdict))),
];

fn show(
    args: &Args,
    registry: &Registry,
    found: &SweepResult,
    results: &Results,
    t: &mut Terminal<'_>,
) -> Done {
    if args.output.list.json {
        return table::json(t, &Answer { found, results });
    }
    let lines = found.against.iter().flat_map(|against| {
        let setting = plan::words(&against.settings);
        against.comparison.rows.iter().map(move |row| Line {
            setting: setting.clone(),
            row: row.clone(),
        })
    });
    let lines: Vec<Line> = lines.collect();
    table::print(
        t,
        &args.output.list,
        COLUMNS,
        &lines,
        "there is nothing to compare: only one setting, or no complete round",
    )?;
    let rows = found
        .against
        .iter()
        .flat_map(|against| &against.comparison.rows);
    let rows: Vec<Row> = rows.cloned().collect();
    if let Some(advice) = advice(&rows) {
        writeln!(t.err, "{advice}")?;
    }
    for best in &found.best {
        recommend(registry, (found, results), best, t)?;
    }
    Ok(())
}

/// Prints the setting to use, and the commands for it.
fn recommend(
    registry: &Registry,
    (found, results): (&SweepResult, &Results),
    best: &Best,
    t: &mut Terminal<'_>,
) -> Done {
    if best.settings == found.baseline {
        writeln!(
            t.err,
            "{}: no other setting is certainly better than {}",
            best.workload,
            plan::words(&found.baseline)
        )?;
        return Ok(());
    }
    let price = if best.slower_each {
        ", but each access takes longer"
    } else {
        ""
    };
    writeln!(
        t.err,
        "{}: use {}: {:.2} times the accesses per second{price}",
        best.workload,
        plan::words(&best.settings),
        best.iops_ratio
    )?;
    for (name, value) in best
        .settings
        .iter()
        .filter(|(name, value)| found.baseline.get(*name) != Some(value))
    {
        let Commands {
            esxi,
            linux,
            sandstone,
        } = registry
            .find(name)
            .map(|knob| knob.commands(value, &Names::of(&results.target)))
            .unwrap_or_default();
        for (system, command) in [("ESXi", esxi), ("Linux", linux), ("Sandstone", sandstone)] {
            if let Some(command) = command {
                for (index, line) in command.lines().enumerate() {
                    let system = if index == 0 { system } else { "" };
                    writeln!(t.err, "  {system:<10} {line}")?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::range;
    use bench::sweep::knob::Names;
    use bench::sweep::session_knobs::session_knobs;

    #[test]
    fn what_is_to_be_typed_here_is_understood_here() {
        for knob in session_knobs() {
            for value in knob.values() {
                let typed = knob.commands(&value, &Names::UNKNOWN).sandstone;
                for line in typed.expect("there is something to type").lines() {
                    let line = line.split("   #").next().unwrap_or_default();
                    let words = line.split(' ').map(Into::into);
                    let (mut out, mut err) = (Vec::new(), Vec::new());
                    let parsed = crate::parse(words, &mut out, &mut err);
                    assert!(parsed.is_ok(), "{line}: {}", String::from_utf8_lossy(&err));
                }
            }
        }
    }

    #[test]
    fn a_range_grows_by_doubling_or_by_adding() {
        let doubled = range("1..64*2").expect("a range");
        assert_eq!(doubled, ["1", "2", "4", "8", "16", "32", "64"]);
        assert_eq!(range("8..24+8").expect("a range"), ["8", "16", "24"]);
        for text in ["1..64", "a..b*2", "64", "1..*2"] {
            assert_eq!(range(text), None, "{text}");
        }
    }
}
