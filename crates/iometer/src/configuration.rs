//! Content of an IOmeter configuration: the test, its display, the access specifications, the
//! managers and their workers. Every detail that IOmeter writes has a place, so that a file keeps
//! its content when it is read and written again.

use crate::access::AccessSpecification;

/// Whole `.icf` file. A section that the file lacks is `None`, which is not an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Version of IOmeter that wrote the file.
    pub version: Version,
    /// Section `'TEST SETUP`.
    pub test_setup: Option<TestSetup>,
    /// Section `'RESULTS DISPLAY`.
    pub results_display: Option<ResultsDisplay>,
    /// Section `'ACCESS SPECIFICATIONS`.
    pub access_specifications: Option<Vec<AccessSpecification>>,
    /// Section `'MANAGER LIST`.
    pub managers: Option<Vec<LoadGenerator>>,
}

/// Version like `1.1.0`, or a date like `2006.07.27`, as in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub String);

impl Default for Version {
    fn default() -> Self {
        Self("1.1.0".to_owned())
    }
}

/// Rule by which a number grows from one test to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepType {
    /// The step is added.
    #[default]
    Linear,
    /// The number is multiplied by the step.
    Exponential,
}

/// Number of workers or targets that take part, from one test to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycling {
    /// First number.
    pub start: u32,
    /// Step by which the number grows.
    pub step: u32,
    /// Rule by which the number grows.
    pub step_type: StepType,
}

impl Default for Cycling {
    fn default() -> Self {
        Self {
            start: 1,
            step: 1,
            step_type: StepType::Linear,
        }
    }
}

/// Number of accesses in flight, from one test to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCycling {
    /// First number.
    pub start: u32,
    /// Last number.
    pub end: u32,
    /// Step by which the number grows.
    pub step: u32,
    /// Rule by which the number grows.
    pub step_type: StepType,
}

impl Default for QueueCycling {
    fn default() -> Self {
        Self {
            start: 1,
            end: 32,
            step: 2,
            step_type: StepType::Exponential,
        }
    }
}

/// Number of workers with which a manager starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerCount {
    /// One worker per processor.
    NumberOfCpus,
    /// Fixed number of workers.
    Fixed(u32),
}

/// Objects whose results are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordResults {
    /// Results of all objects.
    #[default]
    All,
    /// Results of all but single targets.
    NoTargets,
    /// Results of all but single workers.
    NoWorkers,
    /// Results of all but single managers.
    NoManagers,
    /// No results.
    None,
}

/// Quantity that changes from one test to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestType {
    /// Nothing changes.
    #[default]
    Normal,
    /// The number of targets changes.
    CycleTargets,
    /// The number of workers changes.
    CycleWorkers,
    /// The number of targets of all workers changes at once.
    IncrementTargetsParallel,
    /// The number of targets changes for one worker after the other.
    IncrementTargetsSerial,
    /// The number of workers and of targets changes.
    CycleWorkersAndTargets,
    /// The number of accesses in flight changes.
    CycleOutstanding,
    /// The number of accesses in flight and of targets changes.
    CycleOutstandingAndTargets,
}

/// Section `'TEST SETUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSetup {
    /// Description by the user.
    pub description: String,
    /// Hours, minutes and seconds of each test, not reduced: 0, 90, 0 is legal.
    pub run_time: (u32, u32, u32),
    /// Seconds before recording starts.
    pub ramp_up_s: u32,
    /// Disk workers of a new manager.
    pub disk_workers: WorkerCount,
    /// Network workers of a new manager.
    pub network_workers: WorkerCount,
    /// Objects whose results are recorded.
    pub record: RecordResults,
    /// Cycling that adds workers.
    pub worker_cycling: Cycling,
    /// Cycling that adds targets (`'Disk Cycling`, in some versions `'Target Cycling`).
    pub disk_cycling: Cycling,
    /// Cycling that lengthens queues.
    pub queue_cycling: QueueCycling,
    /// Cycling that is used.
    pub test_type: TestType,
}

impl Default for TestSetup {
    fn default() -> Self {
        Self {
            description: String::new(),
            run_time: (0, 0, 0),
            ramp_up_s: 0,
            disk_workers: WorkerCount::NumberOfCpus,
            network_workers: WorkerCount::Fixed(0),
            record: RecordResults::All,
            worker_cycling: Cycling::default(),
            disk_cycling: Cycling::default(),
            queue_cycling: QueueCycling::default(),
            test_type: TestType::Normal,
        }
    }
}

/// Period that the bars of the display show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateType {
    /// Time since the test started.
    #[default]
    WholeTest,
    /// Time since the last update.
    LastUpdate,
}

/// Section `'RESULTS DISPLAY`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultsDisplay {
    /// Whether each update is recorded. The value is absent in older versions.
    pub record_updates: Option<bool>,
    /// Seconds between updates.
    pub update_frequency_s: u32,
    /// Period that is shown.
    pub update_type: UpdateType,
    /// Bars, by their numbers from 1 on.
    pub bar_charts: Vec<BarChart>,
}

/// Number and name of a manager or a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number that distinguishes objects of one name.
    pub id: u32,
    /// Name of the object.
    pub name: String,
}

/// One bar of the display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarChart {
    /// Number of the bar.
    pub number: u32,
    /// Name of the figure, in full.
    pub statistic: String,
    /// Manager whose figure is shown, or `None` for all.
    pub manager: Option<Identity>,
    /// Worker of that manager whose figure is shown.
    pub worker: Option<Identity>,
}

/// Machine that makes load, which IOmeter calls a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadGenerator {
    /// Number and name of the machine.
    pub identity: Identity,
    /// Network address, empty for the machine itself.
    pub network_address: String,
    /// Workers of the machine.
    pub workers: Vec<Worker>,
}

/// Kinds of workers and targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerType {
    /// Disk worker or target.
    #[default]
    Disk,
    /// TCP connection.
    NetworkTcp,
    /// Connection of the Virtual Interface Architecture.
    NetworkVi,
}

/// Thread that makes load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worker {
    /// Name of the worker.
    pub name: String,
    /// Kind of the worker.
    pub worker_type: WorkerType,
    /// Use of the targets by the worker, absent in a file that does not say.
    pub defaults: Option<TargetDefaults>,
    /// Names of the access specifications that the worker runs, one after the other.
    pub assigned: Option<Vec<String>>,
    /// Targets of the worker.
    pub targets: Option<Vec<Target>>,
}

/// Use of targets by a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetDefaults {
    /// Accesses in flight per target, and the test of connections.
    pub queue: Option<QueueDefaults>,
    /// Part of a disk that is used, and the bytes that are written.
    pub disk: Option<DiskDefaults>,
    /// Address from which connections come.
    pub local_network_interface: Option<String>,
    /// Sends in flight of a VI connection.
    pub vi_outstanding: Option<u32>,
}

/// Accesses in flight per target, and the test of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDefaults {
    /// Accesses in flight.
    pub outstanding: u32,
    /// Whether connections are opened and closed while measuring.
    pub test_connection_rate: bool,
    /// Accesses per connection.
    pub transactions_per_connection: u32,
    /// Whether the random numbers start at a fixed seed, and the seed. Absent before 1.1.0.
    pub fixed_seed: Option<(bool, u64)>,
}

/// Part of a disk that is used, and the bytes that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskDefaults {
    /// Number of sectors that are used, or 0 for all.
    pub maximum_sectors: u64,
    /// First sector.
    pub starting_sector: u64,
    /// Pattern of the bytes: 0 repeating, 1 pseudo random, 2 full random. Absent before 1.1.0.
    pub data_pattern: Option<u32>,
}

/// Target that a worker accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name as IOmeter shows it.
    pub name: String,
    /// Kind of the target.
    pub target_type: WorkerType,
    /// Manager at the other end of a connection.
    pub manager: Option<Identity>,
}
