//! What an IOmeter configuration says: the test, its display, the access specifications, the managers and
//! their workers. Every detail that IOmeter writes has a place, so that a file that was read and written
//! again says the same.

use crate::access::AccessSpecification;

/// A whole `.icf` file. A section that the file lacks is `None`, which is not an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The version of IOmeter that wrote it.
    pub version: Version,
    /// `'TEST SETUP`.
    pub test_setup: Option<TestSetup>,
    /// `'RESULTS DISPLAY`.
    pub results_display: Option<ResultsDisplay>,
    /// `'ACCESS SPECIFICATIONS`.
    pub access_specifications: Option<Vec<AccessSpecification>>,
    /// `'MANAGER LIST`.
    pub managers: Option<Vec<LoadGenerator>>,
}

/// `1.1.0`, or a date as `2006.07.27`, as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub String);

impl Default for Version {
    fn default() -> Self {
        Self("1.1.0".to_owned())
    }
}

/// How a number grows from one test to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepType {
    /// By adding the step.
    #[default]
    Linear,
    /// By multiplying with the step.
    Exponential,
}

/// How many workers or targets take part, from one test to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycling {
    /// First number.
    pub start: u32,
    /// What it grows by.
    pub step: u32,
    /// How it grows.
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

/// How many accesses are in flight, from one test to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCycling {
    /// First number.
    pub start: u32,
    /// Last number.
    pub end: u32,
    /// What it grows by.
    pub step: u32,
    /// How it grows.
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

/// How many workers a manager starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerCount {
    /// One per processor.
    NumberOfCpus,
    /// This many.
    Fixed(u32),
}

/// Whose results are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordResults {
    /// Everybody's.
    #[default]
    All,
    /// Not those of single targets.
    NoTargets,
    /// Not those of single workers.
    NoWorkers,
    /// Not those of single managers.
    NoManagers,
    /// Nobody's.
    None,
}

/// What changes from one test to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestType {
    /// Nothing.
    #[default]
    Normal,
    /// The number of targets.
    CycleTargets,
    /// The number of workers.
    CycleWorkers,
    /// The number of targets of all workers at once.
    IncrementTargetsParallel,
    /// The number of targets of one worker after the other.
    IncrementTargetsSerial,
    /// The number of workers and of targets.
    CycleWorkersAndTargets,
    /// The accesses in flight.
    CycleOutstanding,
    /// The accesses in flight and the number of targets.
    CycleOutstandingAndTargets,
}

/// `'TEST SETUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSetup {
    /// What the user called it.
    pub description: String,
    /// Hours, minutes and seconds of each test; not reduced: 0, 90, 0 is legal.
    pub run_time: (u32, u32, u32),
    /// Seconds before recording starts.
    pub ramp_up_s: u32,
    /// Disk workers of a new manager.
    pub disk_workers: WorkerCount,
    /// Network workers of a new manager.
    pub network_workers: WorkerCount,
    /// Whose results are recorded.
    pub record: RecordResults,
    /// How workers are added.
    pub worker_cycling: Cycling,
    /// How targets are added (`'Disk Cycling`, in some versions `'Target Cycling`).
    pub disk_cycling: Cycling,
    /// How queues grow.
    pub queue_cycling: QueueCycling,
    /// Which of these happens.
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

/// What the bars of the display show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateType {
    /// Since the test started.
    #[default]
    WholeTest,
    /// Since the last update.
    LastUpdate,
}

/// `'RESULTS DISPLAY`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultsDisplay {
    /// Whether each update is recorded; absent in older versions.
    pub record_updates: Option<bool>,
    /// Seconds between updates.
    pub update_frequency_s: u32,
    /// What is shown.
    pub update_type: UpdateType,
    /// The bars, by their numbers from 1 on.
    pub bar_charts: Vec<BarChart>,
}

/// A number and a name, as managers and workers have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Tells those of one name apart.
    pub id: u32,
    /// The name.
    pub name: String,
}

/// One bar of the display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarChart {
    /// Which bar.
    pub number: u32,
    /// The figure, by its full name.
    pub statistic: String,
    /// Whose, if not everybody's.
    pub manager: Option<Identity>,
    /// Whose on that manager.
    pub worker: Option<Identity>,
}

/// A machine that makes load: what IOmeter calls a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadGenerator {
    /// Its number and name.
    pub identity: Identity,
    /// Its address; empty for the machine itself.
    pub network_address: String,
    /// Its workers.
    pub workers: Vec<Worker>,
}

/// Kinds of workers and targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerType {
    /// A disk.
    #[default]
    Disk,
    /// A TCP connection.
    NetworkTcp,
    /// A connection of the Virtual Interface Architecture.
    NetworkVi,
}

/// A thread that makes load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub worker_type: WorkerType,
    /// How it uses its targets; absent in a file that does not say.
    pub defaults: Option<TargetDefaults>,
    /// The access specifications it runs, one after the other, by name.
    pub assigned: Option<Vec<String>>,
    /// Its targets.
    pub targets: Option<Vec<Target>>,
}

/// How a worker uses its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetDefaults {
    /// Accesses in flight per target, and how connections are tested.
    pub queue: Option<QueueDefaults>,
    /// Which part of a disk, and with which bytes.
    pub disk: Option<DiskDefaults>,
    /// The address that connections come from.
    pub local_network_interface: Option<String>,
    /// Sends in flight of a VI connection.
    pub vi_outstanding: Option<u32>,
}

/// Accesses in flight per target, and how connections are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDefaults {
    /// Accesses in flight.
    pub outstanding: u32,
    /// Whether connections are opened and closed while measuring.
    pub test_connection_rate: bool,
    /// Accesses per connection.
    pub transactions_per_connection: u32,
    /// Whether the random numbers start at a fixed seed, and which; absent before 1.1.0.
    pub fixed_seed: Option<(bool, u64)>,
}

/// Which part of a disk, and with which bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskDefaults {
    /// Sectors that are used; 0 for all.
    pub maximum_sectors: u64,
    /// First sector.
    pub starting_sector: u64,
    /// 0 repeating, 1 pseudo random, 2 full random bytes; absent before 1.1.0.
    pub data_pattern: Option<u32>,
}

/// What a worker accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As IOmeter shows it.
    pub name: String,
    /// Its kind.
    pub target_type: WorkerType,
    /// The other end of a connection.
    pub manager: Option<Identity>,
}
