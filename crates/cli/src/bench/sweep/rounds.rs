//! The rounds of a sweep. Measurements are kept, whatever happens to the rest. A setting that the
//! target refuses is left out. Only a target that refuses the first setting too ends the whole
//! sweep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::beneath::Beneath;
use super::journal::{Entry, Journal};
use super::made::{MadeVolumes, fits};
use super::volume::Volume;
use super::{Args, Plan};
use crate::Connection;
use crate::bench::progress::Progress;
use crate::bench::run::{interrupt, refused, run_number};
use crate::bench::target::Opened;
use bench::results::{FailedRun, Results, Run};
use bench::run::measure;
use bench::sweep::knob::Setup;
use bench::sweep::plan;
use bench::sweep::volume_knobs::MADE_WITH;
use hint::Place;
use initiator::write_cache::WriteCache;
use model::{Error, ErrorKind};

/// Time that an interrupted sweep waits for the work that puts everything back.
const PATIENCE: Duration = Duration::from_secs(10);
/// Advice on how to go on after the end.
const GO_ON: &str = "; then sweep again into another file: bench report takes both";

/// State of the target.
struct TargetState<'a> {
    args: &'a Args,
    opened: Opened,
    options: BTreeMap<String, String>,
    /// Write cache, and whether it was on.
    cache: Option<(WriteCache, bool)>,
    is_on: Option<bool>,
    volume: Option<Volume>,
    made: Option<MadeVolumes>,
    properties: BTreeMap<String, String>,
    stop: Arc<AtomicBool>,
    journal: Option<Journal>,
}

impl TargetState<'_> {
    /// Opens the target of a setting, with its options.
    fn open_anew(&mut self, setup: &Setup) -> Result<(), Error> {
        let target = &self.args.target;
        let made = self
            .made
            .as_ref()
            .and_then(|made| made.place(&setup.volume));
        let place = made.unwrap_or(target.typed());
        let opened = target.open_anew(place, &self.opened, &setup.target_options)?;
        if let Some(made) = &self.made {
            made.check(&setup.volume, opened.unit_name())?;
        }
        self.opened = opened;
        Ok(())
    }
}

/// Obstacle to a setting.
struct Obstacle {
    error: Error,
    workload: Option<String>,
}

impl Obstacle {
    fn opening(error: Error) -> Self {
        Self {
            error,
            workload: None,
        }
    }
}

impl Plan {
    /// Runs every setting in every round, and leaves the unit as it was. Even if this fails,
    /// `results` holds all measurements.
    pub(super) fn run(
        &self,
        (args, connection): (&Args, &Connection),
        opened: Opened,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        // This comes before anything exists that would have to be removed.
        let stop = interrupt()?;
        let turns = |setup: &Setup| setup.write_cache.is_some() || !setup.volume.is_empty();
        let mut journal = match self.setups.iter().any(turns) {
            true => Some(Journal::begin(connection)?),
            false => None,
        };
        let (volume, made) = self.volumes(args, connection, results, journal.as_mut())?;
        let mut state = TargetState {
            args,
            opened,
            options: BTreeMap::new(),
            cache: None,
            is_on: None,
            volume,
            made,
            properties: BTreeMap::new(),
            stop,
            journal,
        };
        let ended = self.run_with_cache(&mut state, results, progress);
        let TargetState {
            cache,
            volume,
            made,
            journal,
            stop,
            ..
        } = state;
        let put_back = within(&stop, move || put_back(cache, volume, made));
        match (ended, put_back) {
            (ended, Ok(())) => {
                let has_turned = journal.is_some();
                journal.into_iter().for_each(Journal::end);
                ended.map_err(|mut error| {
                    if has_turned {
                        error
                            .not_changed
                            .push_str("; the changes of the sweep were undone");
                    }
                    error
                })
            }
            // The notes stay.
            (Ok(()), Err(error)) => Err(error),
            (Err(mut ended), Err(error)) => {
                ended.message = format!("{ended}; and {error}");
                ended.next = format!("{}; {}", ended.next, error.next);
                Err(ended)
            }
        }
    }

    /// Returns the volume whose properties are turned, or the volumes made for the sweep.
    fn volumes(
        &self,
        args: &Args,
        connection: &Connection,
        results: &Results,
        journal: Option<&mut Journal>,
    ) -> Result<(Option<Volume>, Option<MadeVolumes>), Error> {
        let setups = || self.setups.iter().map(|setup| &setup.volume);
        let properties: BTreeSet<&String> = setups().flat_map(BTreeMap::keys).collect();
        let Some(journal) = journal.filter(|_| !properties.is_empty()) else {
            return Ok((None, None));
        };
        let words: Vec<&str> = properties.iter().map(|name| name.as_str()).collect();
        let unit = results.target.unit.as_ref();
        let beneath = Beneath::of(unit, &words.join(", "), connection)?;
        let block_sizes = setups().filter_map(|volume| volume.get(MADE_WITH));
        let block_sizes: BTreeSet<&String> = block_sizes.collect();
        if block_sizes.is_empty() {
            let volume = Volume::of(beneath, &properties);
            let before = volume.before().to_vec();
            journal.note(&Entry::Properties { before })?;
            return Ok((Some(volume), None));
        }
        let parts = self.setups.iter().map(|setup| setup.parameters.working_set);
        fits(&beneath, block_sizes.len(), parts)?;
        let made = MadeVolumes::make(&beneath, &block_sizes, args.target.typed(), journal)?;
        Ok((None, Some(made)))
    }

    fn run_with_cache(
        &self,
        state: &mut TargetState<'_>,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        if self.setups.iter().all(|setup| setup.write_cache.is_none()) {
            return self.run_rounds(state, results, progress);
        }
        let cache = state.args.target.write_cache(&state.opened)?;
        let was_on = cache.is_on().map_err(|e| no_cache("read", e))?;
        if let Some(journal) = &mut state.journal {
            let target = state.args.target.typed().to_owned();
            journal.note(&Entry::WriteCache { target, was_on })?;
        }
        state.cache = Some((cache, was_on));
        self.run_rounds(state, results, progress)
    }

    fn run_rounds(
        &self,
        state: &mut TargetState<'_>,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        // Without the setting that all are compared with, no other is worth its time.
        if let Err(mut error) = self.turn_to(state, 0) {
            let words = plan::words(&self.settings[0]);
            error.message = format!("the first setting, {words}, cannot be set: {error}");
            error.next.push_str(", or begin with other first values");
            return Err(error);
        }
        let schedule = plan::schedule(self.settings.len(), state.args.repeat, self.seed);
        let mut left_out = BTreeSet::new();
        let mut last_round = 0;
        for (step, &(round, setting)) in schedule.iter().enumerate() {
            if round != last_round {
                // Whole rounds are kept, whatever ends this program. If saving fails here, the end
                // reports that.
                let _ = state.args.output.save(results);
                last_round = round;
            }
            if left_out.contains(&setting) {
                continue;
            }
            let words = plan::words(&self.settings[setting]);
            let title = format!("{} of {}: {words}", step + 1, schedule.len());
            let outcome = self.run_setting(state, (round, setting), &title, results, progress);
            if state.stop.load(Ordering::Relaxed) {
                let of_round = results.runs.iter().filter(|run| run.round == round);
                let unanswered: u64 = of_round.map(|run| run.measurement.abandoned).sum();
                // An interrupted round lacks pairs, and its last run is short.
                results.runs.retain(|run| run.round != round);
                let ended = match unanswered {
                    0 => outcome.map_err(|obstacle| obstacle.error),
                    _ => Err(hung(unanswered)),
                };
                return ended.map_err(|mut error| {
                    error.message = format!("{words}, round {round}: {error}");
                    error.not_changed(state.args.output.kept(results))
                });
            }
            let Err(Obstacle {
                mut error,
                workload,
            }) = outcome
            else {
                continue;
            };
            let goes_on =
                setting != 0 && state.args.target.is_logical_unit() && self.first_is_there(state);
            results.failed.push(FailedRun {
                round,
                settings: self.settings[setting].clone(),
                workload: workload.clone(),
                reason: error.message.clone(),
                left_out: goes_on,
            });
            if !goes_on {
                let workload = workload.map_or(String::new(), |name| format!(", {name}"));
                error.message = format!("{words}{workload}, round {round}: {error}");
                error.next.push_str(GO_ON);
                return Err(error.not_changed(state.args.output.kept(results)));
            }
            left_out.insert(setting);
        }
        Ok(())
    }

    /// Runs all workloads of a setting, once.
    fn run_setting(
        &self,
        state: &mut TargetState<'_>,
        (round, setting): (u32, usize),
        title: &str,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<(), Obstacle> {
        self.turn_to(state, setting).map_err(Obstacle::opening)?;
        let setup = &self.setups[setting];
        for workload in &setup.profile.workloads {
            let mut parameters = self.clock.of(&setup.parameters, workload);
            // All settings of a round have the round's random numbers.
            parameters.seed = parameters.seed.wrapping_add(u64::from(round));
            // The fill is no parameter of the setting.
            let recorded = parameters.clone();
            if let Some(made) = &mut state.made {
                parameters.fill |= made.is_to_be_filled(&setup.volume, parameters.working_set);
            }
            progress.title(format!("{title}, {}", workload.name));
            let obstacle = |error| Obstacle {
                error,
                workload: Some(workload.name.clone()),
            };
            let measured = measure::measure(
                workload,
                &parameters,
                run_number().map_err(obstacle)?,
                (&state.opened.device, &mut state.opened.lane),
                &state.stop,
                progress,
            );
            let measurement = measured.map_err(|error| obstacle(refused(error)))?;
            let gave_up = measurement.gave_up.then(|| {
                let first = measurement.failures.first();
                first.map_or(String::new(), |failure| failure.first.clone())
            });
            results.runs.push(Run {
                round,
                settings: self.settings[setting].clone(),
                workload: workload.clone(),
                parameters: recorded,
                measurement,
                reached: state.opened.reached(),
            });
            if let Some(first) = gave_up {
                return Err(obstacle(Error::new(
                    ErrorKind::Refused,
                    format!("every access failed: {first}"),
                    "see what the target reports about the error, then sweep again",
                )));
            }
            if state.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    /// Turns the target to a setting.
    fn turn_to(&self, state: &mut TargetState<'_>, setting: usize) -> Result<(), Error> {
        let setup = &self.setups[setting];
        let mut turned = setup.write_cache != state.is_on;
        if let (Some((cache, _)), Some(on), true) = (&state.cache, setup.write_cache, turned) {
            cache.turn(on).map_err(|e| no_cache("changed", e))?;
            state.is_on = Some(on);
        }
        if setup.volume != state.properties {
            // If the change is refused, nobody knows how much of it was done.
            state.properties.clear();
            match (&state.volume, &state.made) {
                (_, Some(made)) => made.set(&setup.volume)?,
                (Some(volume), None) => volume.set(&setup.volume)?,
                (None, None) => {}
            }
            state.properties.clone_from(&setup.volume);
            turned = true;
        }
        // An earlier opening may have asked for the cache.
        if turned || setup.target_options != state.options {
            state.open_anew(setup)?;
            state.options.clone_from(&setup.target_options);
        }
        Ok(())
    }

    /// Reports whether the target still gives the first setting, which all are compared with. If
    /// so, the target is there, and refused only the setting.
    fn first_is_there(&self, state: &mut TargetState<'_>) -> bool {
        let setup = &self.setups[0];
        let is_there = state.open_anew(setup).is_ok();
        if is_there {
            state.options.clone_from(&setup.target_options);
            // The next setting does not start from the one turned to last.
            state.properties.clear();
        }
        is_there
    }
}

fn hung(unanswered: u64) -> Error {
    let accesses = match unanswered {
        1 => "1 access".to_owned(),
        count => format!("{count} accesses"),
    };
    Error::new(
        ErrorKind::Unavailable,
        format!("the target hangs: {accesses} got no answer, and the round is not in the results"),
        "see what the target reports about the error, then sweep again",
    )
}

/// Does work that may have to wait for an answer. An interrupted sweep does not wait long.
fn within(
    stop: &AtomicBool,
    work: impl FnOnce() -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    if !stop.load(Ordering::Relaxed) {
        return work();
    }
    let (done, outcome) = channel();
    // By then, nobody may be waiting.
    let thread = std::thread::Builder::new().spawn(move || drop(done.send(work())));
    thread.map_err(|error| Error::system(Place::Process, "start a thread", error))?;
    outcome.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "the changes of the sweep were NOT undone: no answer within {} seconds",
                PATIENCE.as_secs()
            ),
            "the next bench run or bench sweep undoes them when the target answers again",
        ))
    })
}

/// Puts everything back. A part that cannot be put back does not block the rest.
fn put_back(
    cache: Option<(WriteCache, bool)>,
    volume: Option<Volume>,
    made: Option<MadeVolumes>,
) -> Result<(), Error> {
    let cache = cache.map_or(Ok(()), |(cache, was_on)| {
        cache.turn(was_on).map_err(|error| {
            let was = if was_on { "on" } else { "off" };
            let mut error = no_cache("put back", error);
            error.message = format!("{}; it was {was}", error.message);
            error
        })
    });
    let volume = volume.map_or(Ok(()), |volume| volume.put_back());
    let made = made.map_or(Ok(()), |mut made| made.remove());
    let failed = [cache, volume, made].into_iter().filter_map(Result::err);
    let all = failed.reduce(|mut first, next| {
        first.message = format!("{first}; and {next}");
        first.next = format!("{}; {}", first.next, next.next);
        first
    });
    all.map_or(Ok(()), Err)
}

fn no_cache(what: &str, error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!("the unit's write cache cannot be {what}: {error}"),
        "sweep without the knob write_cache, and turn the cache where the unit is administered",
    )
}
