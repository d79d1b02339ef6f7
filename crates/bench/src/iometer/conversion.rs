//! Conversion between IOmeter's configurations and this benchmark's workloads.

use crate::data::DataPattern;
use crate::parameters::{Growth, Parameters, cycle};
use crate::workload::{Profile, Stream, Workload};
use ::iometer::access::AccessSpecification;
use ::iometer::configuration::{
    Configuration, DiskDefaults, Identity, LoadGenerator, QueueDefaults, StepType, Target,
    TargetDefaults, TestSetup, TestType, Worker, WorkerCount, WorkerType,
};
use ::iometer::read::{ReadError, read_noting};

/// Bytes of a sector, IOmeter's unit of a disk.
const SECTOR: u64 = 512;

/// IOmeter's name for a worker's turn in which it does nothing.
const IDLE: &str = "Idle";

/// Configuration translated into this benchmark's terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Profile to run.
    pub profile: Profile,
    /// Parameters of the run.
    pub parameters: Parameters,
    /// Notes on parts of the configuration that are not carried out, each a sentence.
    pub notes: Vec<String>,
}

/// Reads the tests that a file runs.
///
/// # Errors
/// The text is no configuration; the error names the line.
pub fn read(text: &str, name: &str) -> Result<Imported, ReadError> {
    let (configuration, ignored) = read_noting(text)?;
    let mut imported = to_profile(&configuration, name);
    let ignored = ignored.iter().map(ToString::to_string);
    imported.notes.extend(ignored);
    Ok(imported)
}

/// Translates a configuration into a profile. The k-th workload combines the workers' k-th access
/// specifications. If no worker has any, each specification is one workload. If the outstanding
/// I/Os are cycled, each workload appears once for each step.
pub fn to_profile(configuration: &Configuration, name: &str) -> Imported {
    let specifications = configuration
        .access_specifications
        .as_deref()
        .unwrap_or_default();
    let workers: Vec<&Worker> = disk_workers(configuration).collect();
    let turns = workers
        .iter()
        .map(|worker| assigned(worker).len())
        .max()
        .unwrap_or(0);
    let mut workloads: Vec<Workload> = (0..turns)
        .map(|turn| together(&workers, turn, specifications))
        .filter(|workload| !workload.streams.is_empty())
        .collect();
    if workloads.is_empty() {
        let single = |specification: &AccessSpecification| {
            Workload::single(Stream::new(specification.clone()))
        };
        workloads = specifications.iter().map(single).collect();
    }
    let workloads = cycled(configuration, workloads);
    let about = configuration
        .test_setup
        .as_ref()
        .map(|setup| setup.description.clone());
    let profile = Profile {
        name: name.to_owned(),
        about: about.unwrap_or_default(),
        workloads,
        parameters: None,
    };
    Imported {
        profile,
        parameters: parameters(configuration, &workers),
        notes: not_done(configuration, &workers),
    }
}

/// Repeats each workload with each number of outstanding I/Os, if the test cycles them.
fn cycled(configuration: &Configuration, workloads: Vec<Workload>) -> Vec<Workload> {
    let cycles = [
        TestType::CycleOutstanding,
        TestType::CycleOutstandingAndTargets,
    ];
    let setup = configuration.test_setup.as_ref();
    let Some(setup) = setup.filter(|setup| cycles.contains(&setup.test_type)) else {
        return workloads;
    };
    let queue = setup.queue_cycling;
    let growth = match queue.step_type {
        StepType::Linear => Growth::Linear,
        StepType::Exponential => Growth::Exponential,
    };
    let steps = cycle(queue.start.max(1), queue.end, queue.step, growth);
    let each = workloads.iter().flat_map(|workload| {
        steps.iter().map(|step| {
            let mut workload = workload.clone();
            workload.name = format!("{}, {step} outstanding", workload.name);
            for stream in &mut workload.streams {
                stream.outstanding = Some(*step);
            }
            workload
        })
    });
    each.collect()
}

/// Lists the parts of a configuration that are not carried out here.
fn not_done(configuration: &Configuration, workers: &[&Worker]) -> Vec<String> {
    let mut notes = Vec::new();
    let test_type = configuration.test_setup.as_ref();
    let test_type = test_type.map_or(TestType::Normal, |setup| setup.test_type);
    if matches!(
        test_type,
        TestType::CycleTargets
            | TestType::IncrementTargetsParallel
            | TestType::IncrementTargetsSerial
            | TestType::CycleWorkersAndTargets
            | TestType::CycleOutstandingAndTargets
    ) {
        notes.push("the number of targets is cycled; here one target is measured".to_owned());
    }
    if matches!(
        test_type,
        TestType::CycleWorkers | TestType::CycleWorkersAndTargets
    ) {
        notes.push(
            "the number of workers is cycled; here all run at once (bench sweep -k workers=1,2,4 cycles it)"
                .to_owned(),
        );
    }
    let managers = configuration.managers.iter().flatten();
    let all = managers.flat_map(|manager| &manager.workers);
    for worker in all.filter(|worker| worker.worker_type != WorkerType::Disk) {
        notes.push(format!(
            "{} is a network worker, and is left out",
            worker.name
        ));
    }
    for worker in workers {
        let targets = worker.targets.as_ref().map_or(0, Vec::len);
        if targets > 1 {
            notes.push(format!(
                "{} has {targets} targets, with its outstanding I/Os at each; here it has one",
                worker.name
            ));
        }
    }
    let mut with_disk = workers.iter().filter(|worker| disk(worker).is_some());
    if let Some(first) = with_disk.next() {
        for worker in with_disk.filter(|worker| disk(worker) != disk(first)) {
            notes.push(format!(
                "{} has a different region or data pattern from {}; here all workers share those of {1}",
                worker.name, first.name
            ));
        }
    }
    let seed = |worker: &Worker| queue(worker).and_then(|queue| queue.fixed_seed);
    let mut with_seed = workers.iter().filter(|worker| queue(worker).is_some());
    if let Some(first) = with_seed.next() {
        for worker in with_seed.filter(|worker| seed(worker) != seed(first)) {
            notes.push(format!(
                "{} has a different seed from {}; here the random numbers of all workers start at that of {1}",
                worker.name, first.name
            ));
        }
    }
    notes
}

fn disk(worker: &Worker) -> Option<DiskDefaults> {
    worker.defaults.as_ref().and_then(|defaults| defaults.disk)
}

fn disk_workers(configuration: &Configuration) -> impl Iterator<Item = &Worker> {
    let managers = configuration.managers.iter().flatten();
    let workers = managers.flat_map(|manager| &manager.workers);
    workers.filter(|worker| worker.worker_type == WorkerType::Disk)
}

fn assigned(worker: &Worker) -> &[String] {
    worker.assigned.as_deref().unwrap_or_default()
}

fn queue(worker: &Worker) -> Option<QueueDefaults> {
    worker.defaults.as_ref().and_then(|defaults| defaults.queue)
}

/// Combines the accesses of the workers in one turn.
fn together(workers: &[&Worker], turn: usize, specifications: &[AccessSpecification]) -> Workload {
    let mut streams: Vec<Stream> = Vec::new();
    for worker in workers {
        let wanted = assigned(worker).get(turn);
        let find = |name: &String| {
            specifications
                .iter()
                .find(|s| s.name.eq_ignore_ascii_case(name))
        };
        let Some(specification) = wanted.and_then(find) else {
            continue;
        };
        let outstanding = queue(worker).map(|queue| queue.outstanding.max(1));
        let same = |stream: &&mut Stream| {
            stream.specification == *specification && stream.outstanding == outstanding
        };
        match streams.iter_mut().find(same) {
            Some(stream) => stream.workers = stream.workers.map(|count| count + 1),
            None => streams.push(Stream {
                outstanding,
                workers: Some(1),
                ..Stream::new(specification.clone())
            }),
        }
    }
    for stream in &mut streams {
        stream.weight = stream.workers.unwrap_or(1);
    }
    let names: Vec<&str> = streams
        .iter()
        .map(|stream| stream.specification.name.as_str())
        .collect();
    Workload {
        name: names.join(" + "),
        streams,
        data: None,
        amount: None,
    }
}

fn parameters(configuration: &Configuration, workers: &[&Worker]) -> Parameters {
    let mut parameters = Parameters::default();
    if let Some(setup) = &configuration.test_setup {
        let (hours, minutes, seconds) = setup.run_time;
        let run_time_s = u64::from(hours) * 3600 + u64::from(minutes) * 60 + u64::from(seconds);
        if run_time_s > 0 {
            parameters.run_time_ms = run_time_s * 1000;
        }
        parameters.ramp_up_ms = u64::from(setup.ramp_up_s) * 1000;
        if let WorkerCount::Fixed(count @ 1..) = setup.disk_workers {
            parameters.workers = count;
        }
    }
    if let Some(queue) = workers.iter().find_map(|worker| queue(worker)) {
        parameters.outstanding = queue.outstanding.max(1);
        if let Some((true, seed)) = queue.fixed_seed {
            parameters.seed = seed;
        }
    }
    if let Some(disk) = workers.iter().find_map(|worker| disk(worker)) {
        parameters.start = disk.starting_sector.saturating_mul(SECTOR);
        parameters.working_set = match disk.maximum_sectors {
            0 => None,
            sectors => Some(sectors.saturating_mul(SECTOR)),
        };
        parameters.data = match disk.data_pattern {
            // Before there was a choice, IOmeter wrote what it now calls repeating bytes.
            None | Some(0) => DataPattern::Repeating,
            Some(_) => DataPattern::Random,
        };
    }
    parameters
}

/// Translates a profile into a configuration of IOmeter. Also returns notes on facts that IOmeter
/// cannot express.
pub fn from_profile(profile: &Profile, parameters: &Parameters) -> (Configuration, Vec<String>) {
    let mut notes = Vec::new();
    let mut specifications: Vec<AccessSpecification> = Vec::new();
    for stream in profile
        .workloads
        .iter()
        .flat_map(|workload| &workload.streams)
    {
        if !specifications.contains(&stream.specification) {
            specifications.push(stream.specification.clone());
        }
        if stream.sequences > 1 {
            notes.push(format!(
                "{}: IOmeter accesses one place per worker, not {} places in turn",
                stream.specification.name, stream.sequences
            ));
        }
    }
    for workload in &profile.workloads {
        if let Some(amount) = workload.amount {
            notes.push(format!(
                "{}: IOmeter ends by time, not after {amount} bytes",
                workload.name
            ));
        }
    }
    let turns: Vec<Vec<&Stream>> = profile
        .workloads
        .iter()
        .map(|workload| places(workload, parameters))
        .collect();
    let count = turns.iter().map(Vec::len).max().unwrap_or(0);
    let workers: Vec<Worker> = (0..count)
        .map(|index| worker(index, &turns, parameters, &mut notes))
        .collect();
    let seconds = u32::try_from(parameters.run_time_ms / 1000).unwrap_or(u32::MAX);
    let setup = TestSetup {
        description: profile.name.clone(),
        run_time: (seconds / 3600, seconds / 60 % 60, seconds % 60),
        ramp_up_s: u32::try_from(parameters.ramp_up_ms / 1000).unwrap_or(u32::MAX),
        disk_workers: WorkerCount::Fixed(count as u32),
        test_type: TestType::Normal,
        ..TestSetup::default()
    };
    let manager = LoadGenerator {
        identity: Identity {
            id: 1,
            name: "LOCALHOST".to_owned(),
        },
        network_address: String::new(),
        workers,
    };
    let configuration = Configuration {
        test_setup: Some(setup),
        access_specifications: Some(specifications),
        managers: Some(vec![manager]),
        ..Configuration::default()
    };
    (configuration, notes)
}

/// Lists the stream of each worker of a workload.
fn places<'a>(workload: &'a Workload, parameters: &Parameters) -> Vec<&'a Stream> {
    let places = workload.streams.iter().flat_map(|stream| {
        let workers = stream.workers.unwrap_or(parameters.workers).min(1024);
        (0..workers).map(move |_| stream)
    });
    places.collect()
}

fn worker(
    index: usize,
    turns: &[Vec<&Stream>],
    parameters: &Parameters,
    notes: &mut Vec<String>,
) -> Worker {
    let own: Vec<Option<&Stream>> = turns.iter().map(|turn| turn.get(index).copied()).collect();
    let name = |stream: &Option<&Stream>| {
        stream.map_or_else(
            || IDLE.to_owned(),
            |stream| stream.specification.name.clone(),
        )
    };
    let mut depths: Vec<u32> = own
        .iter()
        .flatten()
        .map(|stream| stream.outstanding.unwrap_or(parameters.outstanding))
        .collect();
    let outstanding = depths.first().copied().unwrap_or(parameters.outstanding);
    depths.sort_unstable();
    depths.dedup();
    if depths.len() > 1 {
        notes.push(format!(
            "worker {}: IOmeter has one number of outstanding I/Os for all of {depths:?}; {outstanding} was written",
            index + 1
        ));
    }
    let data_pattern = match parameters.data {
        DataPattern::Repeating | DataPattern::Zeros => 0,
        DataPattern::Random | DataPattern::Mixed { .. } => 2,
    };
    Worker {
        name: format!("Worker {}", index + 1),
        worker_type: WorkerType::Disk,
        defaults: Some(TargetDefaults {
            queue: Some(QueueDefaults {
                outstanding,
                test_connection_rate: false,
                transactions_per_connection: 1,
                fixed_seed: Some((true, parameters.seed)),
            }),
            disk: Some(DiskDefaults {
                maximum_sectors: parameters.working_set.unwrap_or(0) / SECTOR,
                starting_sector: parameters.start / SECTOR,
                data_pattern: Some(data_pattern),
            }),
            ..TargetDefaults::default()
        }),
        assigned: Some(own.iter().map(name).collect()),
        targets: Some(Vec::<Target>::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::{read as read_profile, *};
    use crate::profile;
    use ::iometer::{read::read, write::write};

    #[test]
    fn a_configuration_becomes_what_its_workers_do_together() {
        let configuration =
            read(include_str!("../../../iometer/src/read/new.icf")).expect("a good file");
        let imported = to_profile(&configuration, "new.icf");
        assert!(imported.notes.is_empty(), "{:?}", imported.notes);
        let parameters = imported.parameters;
        let names = imported.profile.workloads.iter();
        let names: Vec<&str> = names.map(|workload| workload.name.as_str()).collect();
        let steps = ["1", "2", "4", "8", "16", "32", "64"];
        let expected: Vec<String> = ["RealLife-60%Rand-65%Read", "File Server"]
            .iter()
            .flat_map(|name| steps.map(|step| format!("{name}, {step} outstanding")))
            .collect();
        assert_eq!(names, expected);
        let streams = &imported.profile.workloads[3].streams;
        assert_eq!(streams[0].outstanding, Some(8));
        let expected = Parameters {
            run_time_ms: 330_000,
            ramp_up_ms: 15_000,
            outstanding: 64,
            workers: 1,
            start: 1 << 20,
            working_set: Some(10 << 30),
            seed: 77,
            ..Parameters::default()
        };
        assert_eq!(parameters, expected);
    }

    #[test]
    fn specifications_that_nobody_is_assigned_run_one_by_one() {
        let mut configuration =
            read(include_str!("../../../iometer/src/read/new.icf")).expect("a good file");
        configuration.managers = None;
        let setup = configuration.test_setup.as_mut();
        setup.expect("it has one").test_type = TestType::Normal;
        let profile = to_profile(&configuration, "x").profile;
        assert_eq!(profile.workloads.len(), 2);
        assert_eq!(profile.workloads[1].streams[0].workers, None);
    }

    #[test]
    fn every_built_in_profile_goes_through_a_file_and_back() {
        let parameters = Parameters {
            workers: 2,
            ..Parameters::default()
        };
        for profile in profile::built_in() {
            let (configuration, _) = from_profile(&profile, &parameters);
            let text = write(&configuration).expect(&profile.name);
            let imported = to_profile(&read(&text).expect("we wrote it"), "back");
            let (back, again) = (imported.profile, imported.parameters);
            assert_eq!(again.run_time_ms, parameters.run_time_ms);
            let lines = |profile: &Profile| -> Vec<Vec<AccessSpecification>> {
                let streams = |workload: &Workload| {
                    workload
                        .streams
                        .iter()
                        .map(|s| s.specification.clone())
                        .collect()
                };
                profile.workloads.iter().map(streams).collect()
            };
            assert_eq!(lines(&back), lines(&profile), "{}", profile.name);
        }
    }

    #[test]
    fn what_is_not_done_is_told() {
        let mut configuration =
            read(include_str!("../../../iometer/src/read/new.icf")).expect("a good file");
        let setup = configuration.test_setup.as_mut().expect("it has one");
        setup.test_type = TestType::CycleWorkersAndTargets;
        let workers = &mut configuration.managers.as_mut().expect("managers")[0].workers;
        let mut second = workers[0].clone();
        second.name = "Worker 2".to_owned();
        let targets = second.targets.as_mut().expect("targets");
        targets.push(targets[0].clone());
        let defaults = second.defaults.as_mut().expect("defaults");
        defaults.disk.as_mut().expect("a disk").starting_sector = 4096;
        defaults.queue.as_mut().expect("a queue").fixed_seed = None;
        workers.push(second);
        workers.push(Worker {
            name: "Worker 3".to_owned(),
            worker_type: WorkerType::NetworkTcp,
            ..Worker::default()
        });
        let imported = to_profile(&configuration, "x");
        let expected = [
            "the number of targets is cycled",
            "the number of workers is cycled",
            "Worker 3 is a network worker",
            "Worker 2 has 2 targets",
            "Worker 2 has a different region or data pattern from Worker 1; here all workers share those of Worker 1",
            "Worker 2 has a different seed from Worker 1",
        ];
        assert_eq!(imported.notes.len(), expected.len(), "{:?}", imported.notes);
        for (note, expected) in imported.notes.iter().zip(expected) {
            assert!(note.starts_with(expected), "{expected}: {note}");
        }
        let names = imported.profile.workloads.iter();
        let names: Vec<&str> = names.map(|workload| workload.name.as_str()).collect();
        assert_eq!(
            names,
            ["RealLife-60%Rand-65%Read", "File Server"],
            "what is not cycled"
        );
    }

    #[test]
    fn an_assigned_specification_that_is_not_defined_is_noted_with_its_line() {
        let text = include_str!("../../../iometer/src/read/new.icf");
        let key = "'Assigned access specs\n";
        let assigned = text.replacen(key, &format!("{key}\tBackup 256K read\n"), 1);
        let imported = read_profile(&assigned, "x").expect("a good file");
        let told = |note: &String| note.starts_with("line ") && note.contains("Backup 256K read");
        assert!(imported.notes.iter().any(told), "{:?}", imported.notes);
    }

    #[test]
    fn what_iometer_cannot_say_is_told() {
        let crystal = profile::find("crystal").expect("built in");
        let (_, notes) = from_profile(&crystal, &Parameters::default());
        assert!(notes[0].contains("[1, 8, 32]; 8 was written"), "{notes:?}");
        let dd = profile::find("dd").expect("built in");
        let (_, notes) = from_profile(&dd, &Parameters::default());
        assert!(notes[0].contains("ends by time"), "{notes:?}");
    }
}
