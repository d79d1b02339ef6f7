//! `bench run`: measures workloads on a target.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args as ClapArgs;

use super::options::{Chosen, How, Output, Preview, What};
use super::progress::Progress;
use super::results;
use super::sweep::journal::put_back_left;
use super::target::{Opened, TargetArgs};
use crate::{Connection, Done, Failure, Terminal};
use bench::machine::this_machine;
use bench::parameters::Parameters;
use bench::results::{FORMAT, FailedRun, Results, Run};
use bench::run::measure::{self, RunError};
use bench::workload::Workload;
use hint::Place;
use model::{Error, ErrorKind};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    how: How,
    /// Rounds of the whole run, one after the other, so that results can be compared
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    if !args.output.dry_run {
        put_back_left(connection, t)?;
    }
    let chosen = args.what.choose()?;
    chosen.say_notes(t)?;
    let clock = chosen.clock(&args.how);
    let Chosen {
        profile,
        parameters,
        ..
    } = chosen;
    let parameters = args.how.over(parameters);
    let mut opened = args.target.open(connection)?;
    for workload in &profile.workloads {
        check(workload, &parameters, &opened)?;
    }
    if args.output.dry_run {
        let time = clock.preview(&parameters, &profile.workloads);
        return preview(&profile.workloads, time, args.repeat, t);
    }
    let writes = parameters.fill || profile.workloads.iter().any(Workload::writes);
    if writes {
        args.target.may_write(&mut opened, t)?;
    }
    opened.warn(t)?;
    let mut results = empty_results(&opened);
    args.output.save(&results)?;
    let stop = interrupt()?;
    let mut progress = Progress::new(t.err, args.output.list.json);
    let mut ended = Ok(());
    'rounds: for round in 0..args.repeat {
        if round > 0 {
            // Whole rounds are kept, whatever ends this program. If saving fails here, the end
            // reports that.
            let _ = args.output.save(&results);
        }
        for workload in &profile.workloads {
            let mut parameters = clock.of(&parameters, workload);
            // Each round has other random numbers. A repeated round has its earlier ones.
            parameters.seed = parameters.seed.wrapping_add(u64::from(round));
            progress.title(title(workload, round, args.repeat));
            let target = (&opened.device, &mut opened.lane);
            let measurement = measure::measure(
                workload,
                &parameters,
                run_number()?,
                target,
                &stop,
                &mut progress,
            );
            let measurement = match measurement {
                Ok(measurement) => measurement,
                Err(error) => {
                    ended = Err(failed(&mut results, workload, round, refused(error)));
                    break 'rounds;
                }
            };
            results.runs.push(Run {
                round,
                settings: Default::default(),
                workload: workload.clone(),
                parameters,
                measurement,
                reached: opened.reached(),
            });
            if stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
        }
    }
    progress.clear();
    let saved = args.output.save(&results);
    if !results.runs.is_empty() {
        results::print(t, &args.output.list, &results)?;
    }
    ended.map_err(|error: Error| error.not_changed(args.output.kept(&results)))?;
    saved?;
    verdict(&results)
}

/// Records that a run did not come to its end. Returns the error, with the name of the run.
fn failed(results: &mut Results, workload: &Workload, round: u32, mut error: Error) -> Error {
    results.failed.push(FailedRun {
        round,
        settings: Default::default(),
        workload: Some(workload.name.clone()),
        reason: error.message.clone(),
        left_out: false,
    });
    error.message = format!("{}, round {round}: {error}", workload.name);
    error
}

/// Fails if any run failed: its data is wrong or not proven right, every access failed, or nobody
/// waited for some accesses. The messages were printed before.
pub(super) fn verdict(results: &Results) -> Done {
    let failed = |run: &Run| {
        let measured = &run.measurement;
        measured.is_unproven() || measured.gave_up || measured.abandoned > 0
    };
    match results.runs.iter().any(failed) {
        true => Err(Failure::Said),
        false => Ok(()),
    }
}

fn title(workload: &Workload, round: u32, rounds: u32) -> String {
    match rounds {
        1 => workload.name.clone(),
        _ => format!("{} ({} of {rounds})", workload.name, round + 1),
    }
}

fn check(workload: &Workload, parameters: &Parameters, opened: &Opened) -> Result<(), Error> {
    measure::check(workload, parameters, &*opened.device).map_err(refused)?;
    Ok(())
}

pub(super) fn refused(error: RunError) -> Error {
    let next = match &error {
        RunError::Specification(_) => "choose another profile or block size",
        RunError::Region(_) => "choose another --working-set, fewer --workers, or a larger target",
        RunError::Parameter(_) => "correct that option",
        RunError::Fill(_) => "see what the target reports about the error, then try again",
        RunError::System(_) => "report this as a defect",
    };
    Error::new(ErrorKind::Refused, error.to_string(), next).caused_by(error)
}

fn preview(workloads: &[Workload], time: Preview, rounds: u32, t: &mut Terminal<'_>) -> Done {
    for workload in workloads {
        let streams: Vec<&str> = workload
            .streams
            .iter()
            .map(|stream| stream.specification.name.as_str())
            .collect();
        let writes = if workload.writes() {
            "reads and WRITES"
        } else {
            "reads only"
        };
        writeln!(
            t.out,
            "{}: {writes} ({})",
            workload.name,
            streams.join(" + ")
        )?;
    }
    writeln!(
        t.out,
        "{rounds} rounds of {} workloads, {}",
        workloads.len(),
        time.words(rounds)
    )?;
    Ok(writeln!(t.out, "nothing was run (--dry-run)")?)
}

/// Returns results without runs.
pub(super) fn empty_results(opened: &Opened) -> Results {
    Results {
        format: FORMAT,
        tool: concat!("sandstone ", env!("CARGO_PKG_VERSION")).to_owned(),
        started_unix_s: now_unix_s(),
        machine: this_machine(),
        target: opened.identity.clone(),
        plan: Vec::new(),
        runs: Vec::new(),
        failed: Vec::new(),
    }
}

/// Returns the seconds since 1970, or 0 if the clock stands before that.
pub(super) fn now_unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// Returns a number that tells the blocks of this run from those of any other.
pub(super) fn run_number() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the operating system gave no random numbers: {error}"),
            "report this as a defect",
        )
    })
}

/// Returns a flag that Ctrl-C sets. A run that ends early by it still reports its measurements. A
/// second Ctrl-C ends the program.
pub(super) fn interrupt() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let second =
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop));
        second
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| {
                Error::system(Place::Process, "catch the signals that end a run", error)
            })?;
    }
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use ::iometer::access::{AccessLine, AccessSpecification};

    use super::*;
    use bench::results::{Machine, Measurement, Target};
    use bench::verify::{Mismatch, VerifyReport, WrongContent};
    use bench::workload::Stream;

    fn results(measurement: Measurement) -> Results {
        let line = AccessLine::all(4096, 0, 0);
        let stream = Stream::new(AccessSpecification::single("judged", line));
        Results {
            format: FORMAT,
            tool: "a test".to_owned(),
            started_unix_s: 0,
            machine: Machine::default(),
            target: Target::default(),
            plan: Vec::new(),
            runs: vec![Run {
                round: 0,
                settings: Default::default(),
                workload: Workload::single(stream),
                parameters: Parameters::default(),
                measurement,
                reached: None,
            }],
            failed: Vec::new(),
        }
    }

    fn passes(report: VerifyReport) -> bool {
        let measurement = Measurement {
            verify: Some(report),
            ..Measurement::default()
        };
        verdict(&results(measurement)).is_ok()
    }

    #[test]
    fn only_what_is_proven_passes() {
        let report = VerifyReport::default;
        assert!(passes(VerifyReport {
            written: 8,
            checked: 8,
            unknown: 1,
            ..report()
        }));
        let details = vec![Mismatch {
            lba: 1,
            expected_generation: 1,
            found: WrongContent::Zeros,
        }];
        for failed in [
            VerifyReport {
                mismatches: 1,
                details,
                ..report()
            },
            VerifyReport {
                unread: 1,
                ..report()
            },
            VerifyReport {
                short_reads: 1,
                ..report()
            },
            VerifyReport {
                flush_failed: true,
                ..report()
            },
        ] {
            assert!(!passes(failed.clone()), "{failed:?}");
        }
    }

    #[test]
    fn a_run_that_was_given_up_fails_and_one_without_verification_need_not() {
        let given_up = Measurement {
            gave_up: true,
            ..Measurement::default()
        };
        assert!(verdict(&results(given_up)).is_err());
        let hung = Measurement {
            abandoned: 1,
            ..Measurement::default()
        };
        assert!(verdict(&results(hung)).is_err());
        assert!(verdict(&results(Measurement::default())).is_ok());
    }
}
