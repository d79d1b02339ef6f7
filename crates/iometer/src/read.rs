//! Reader of `.icf` files. Lines with an apostrophe are keys, and the lines below them are values.
//!
//! It is as strict as IOmeter about the content of a file. About other content its errors are more
//! helpful: they give the number of the line, and the reason. Keys are compared without regard to
//! case, sections may be missing, and lines may end as on Windows.

use std::fmt;
use std::iter::Peekable;
use std::str::{FromStr, Lines};

use super::configuration::{
    BarChart, Configuration, Cycling, DiskDefaults, Identity, LoadGenerator, QueueCycling,
    QueueDefaults, RecordResults, ResultsDisplay, StepType, Target, TargetDefaults, TestSetup,
    TestType, UpdateType, Version, Worker, WorkerCount, WorkerType,
};
use crate::access::{AccessLine, AccessSpecification, Assignment, MAX_LINES};

/// Specification that IOmeter has without a definition: a worker does nothing.
const IDLE: &str = "Idle";

/// Size of the longest file that is read, in bytes. It is far above any real file, and bounds the
/// cost of a hostile one.
pub const MAX_FILE: usize = 16 << 20;

/// Reason why a file is not an IOmeter configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Number of the line, from 1 on.
    pub line: usize,
    /// Fault of the line.
    pub reason: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for ReadError {}

type Result<T> = std::result::Result<T, ReadError>;

/// Reads a whole file.
///
/// # Errors
/// The first line that is no part of a configuration.
pub fn read(text: &str) -> Result<Configuration> {
    read_noting(text).map(|(configuration, _)| configuration)
}

/// Reads a whole file, and returns the parts that IOmeter ignores: access specifications that a
/// worker is assigned and that no section defines.
///
/// # Errors
/// The first line that is no part of a configuration.
pub fn read_noting(text: &str) -> Result<(Configuration, Vec<ReadError>)> {
    let mut reader = Reader::new(text);
    if text.len() > MAX_FILE {
        return Err(reader.error("the file is longer than 16 MiB"));
    }
    let version = reader.version()?;
    let mut configuration = Configuration {
        version,
        ..Configuration::default()
    };
    while let Some(line) = reader.next_filled() {
        let section = line.trim_end_matches('=').trim_end();
        if begins(line, "Version ") {
            continue;
        } else if same(section, "'TEST SETUP") {
            once(&mut configuration.test_setup, &reader)?;
            configuration.test_setup = Some(reader.test_setup()?);
        } else if same(section, "'RESULTS DISPLAY") {
            once(&mut configuration.results_display, &reader)?;
            configuration.results_display = Some(reader.results_display()?);
        } else if same(section, "'ACCESS SPECIFICATIONS") {
            once(&mut configuration.access_specifications, &reader)?;
            configuration.access_specifications = Some(reader.access_specifications()?);
        } else if same(section, "'MANAGER LIST") {
            once(&mut configuration.managers, &reader)?;
            configuration.managers = Some(reader.managers()?);
        } else {
            return Err(reader.error(format!("expected a section or the version, found {line:?}")));
        }
    }
    let ignored = reader.undefined(&configuration);
    Ok((configuration, ignored))
}

fn once<T>(section: &mut Option<T>, reader: &Reader<'_>) -> Result<()> {
    match section {
        None => Ok(()),
        Some(_) => Err(reader.error("this section occurs twice in the file")),
    }
}

fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

fn begins(line: &str, prefix: &str) -> bool {
    line.get(..prefix.len())
        .is_some_and(|start| same(start, prefix))
}

/// Reader of the lines, without the blanks around them.
struct Reader<'a> {
    lines: Peekable<Lines<'a>>,
    /// Number of the line that was read last, from 1 on.
    number: usize,
    /// Number of the line of the last key.
    key_number: usize,
    /// Names that workers are assigned, with their lines.
    assigned: Vec<(usize, &'a str)>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self {
            lines: text.lines().peekable(),
            number: 0,
            key_number: 0,
            assigned: Vec::new(),
        }
    }

    fn undefined(&self, configuration: &Configuration) -> Vec<ReadError> {
        let defined: Vec<&AccessSpecification> = configuration
            .access_specifications
            .iter()
            .flatten()
            .collect();
        let is_known = |name: &str| same(name, IDLE) || defined.iter().any(|s| same(&s.name, name));
        let undefined = self.assigned.iter().filter(|(_, name)| !is_known(name));
        let ignored = undefined.map(|(line, name)| ReadError {
            line: *line,
            reason: format!(
                "a worker is assigned the access specification {name:?}, which the file does not define; its \
                 turn is left out, as in IOmeter"
            ),
        });
        ignored.collect()
    }

    /// Refuses text behind the last value of a line.
    fn ends<'w>(&self, mut words: impl Iterator<Item = &'w str>) -> Result<()> {
        match words.find(|word| !word.is_empty()) {
            None => Ok(()),
            Some(more) => Err(self.error(format!("{more:?} follows the last value"))),
        }
    }

    fn error(&self, reason: impl Into<String>) -> ReadError {
        ReadError {
            line: self.number.max(1),
            reason: reason.into(),
        }
    }

    fn next_line(&mut self) -> Option<&'a str> {
        let line = self.lines.next()?;
        self.number += 1;
        Some(line.trim())
    }

    fn next_filled(&mut self) -> Option<&'a str> {
        loop {
            let line = self.next_line()?;
            if !line.is_empty() {
                return Some(line);
            }
        }
    }

    /// Reads the next key, which begins with an apostrophe.
    fn key(&mut self, expected: &str) -> Result<&'a str> {
        match self.next_filled() {
            Some(line) if line.starts_with('\'') => {
                self.key_number = self.number;
                Ok(line)
            }
            Some(line) => Err(self.error(format!("expected {expected}, found {line:?}"))),
            None => Err(self.error(format!("the file ends where {expected} was expected"))),
        }
    }

    /// Reads the value below a key: the next line that is no comment. It is empty if an end mark
    /// comes next.
    fn value(&mut self) -> Result<&'a str> {
        while let Some(line) = self.lines.peek().map(|line| line.trim()) {
            if !line.starts_with('\'') {
                return Ok(self.next_line().unwrap_or_default());
            }
            if begins(line, "'End") {
                return Ok("");
            }
            self.next_line();
        }
        Err(self.error("the file ends where a value was expected"))
    }

    fn version(&mut self) -> Result<Version> {
        let line = self.next_line().unwrap_or_default();
        let version = if begins(line, "Version ") {
            line["Version ".len()..].trim()
        } else {
            return Err(self.error(
                "an IOmeter configuration starts with its version, as in \"Version 1.1.0\"",
            ));
        };
        let mut numbers = version
            .split(|c: char| !c.is_ascii_digit())
            .map(u32::from_str);
        let mut next = || numbers.next().and_then(std::result::Result::ok);
        match (next(), next(), next()) {
            (Some(year), Some(month), Some(day)) if year > 1900 => {
                if (year, month, day) < (1998, 5, 21) {
                    return Err(self.error(format!(
                        "version {version} wrote another format; open the file with a newer IOmeter and save it"
                    )));
                }
            }
            (Some(_), Some(_), Some(_)) => {}
            _ => {
                return Err(self.error(format!(
                    "{version:?} is not a version such as 1.1.0 or 2006.07.27"
                )));
            }
        }
        Ok(Version(version.to_owned()))
    }

    fn number<T: FromStr>(&self, what: &str, text: Option<&str>) -> Result<T> {
        let text = text.unwrap_or_default().trim();
        text.parse()
            .map_err(|_| self.error(format!("{what} must be a whole number, not {text:?}")))
    }

    /// Reads one of some words, or the number that older versions wrote in its place.
    fn choice<T: Copy>(&self, what: &str, text: Option<&str>, choices: &[(&str, T)]) -> Result<T> {
        let text = text.unwrap_or_default().trim();
        let by_number = || {
            text.parse()
                .ok()
                .and_then(|index: usize| choices.get(index))
        };
        choices
            .iter()
            .find(|(word, _)| same(word, text))
            .or_else(by_number)
            .map(|(_, choice)| *choice)
            .ok_or_else(|| {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                self.error(format!(
                    "{what} must be one of {}, not {text:?}",
                    words.join(", ")
                ))
            })
    }

    fn test_setup(&mut self) -> Result<TestSetup> {
        let mut setup = TestSetup::default();
        loop {
            let key = self.key("a setting of the test or 'END test setup")?;
            if same(key, "'END test setup") {
                return Ok(setup);
            }
            let value = self.value()?;
            let mut words = value
                .split([' ', '\t', ','])
                .filter(|word| !word.is_empty());
            if same(key, "'Test Description") {
                setup.description = value.to_owned();
                continue;
            } else if same(key, "'Run Time") {
                setup.run_time = (
                    self.number("the run time in hours", words.next())?,
                    self.number("the run time in minutes", words.next())?,
                    self.number("the run time in seconds", words.next())?,
                );
            } else if begins(key, "'Ramp Up Time") {
                setup.ramp_up_s = self.number("the ramp-up time", words.next())?;
            } else if same(key, "'Default Disk Workers to Spawn") {
                setup.disk_workers = self.worker_count(words.next())?;
            } else if same(key, "'Default Network Workers to Spawn") {
                setup.network_workers = self.worker_count(words.next())?;
            } else if same(key, "'Default Workers to Spawn") {
                setup.disk_workers = match self.worker_count(words.next())? {
                    WorkerCount::Fixed(0) => WorkerCount::NumberOfCpus,
                    count => count,
                };
            } else if same(key, "'Record Results") {
                setup.record = self.choice("whose results are recorded", words.next(), RECORD)?;
            } else if same(key, "'Worker Cycling") {
                setup.worker_cycling = self.cycling(&mut words)?;
            } else if same(key, "'Disk Cycling") || same(key, "'Target Cycling") {
                setup.disk_cycling = self.cycling(&mut words)?;
            } else if same(key, "'Queue Depth Cycling") {
                setup.queue_cycling = QueueCycling {
                    start: self.number("the first queue depth", words.next())?,
                    end: self.number("the last queue depth", words.next())?,
                    step: self.number("the step of the queue depth", words.next())?,
                    step_type: self.choice("the step type", words.next(), STEP)?,
                };
            } else if same(key, "'Test Type") {
                setup.test_type = self.choice("the test type", words.next(), TEST)?;
            } else {
                return Err(self.unknown(key, "the test setup"));
            }
            self.ends(words)?;
        }
    }

    fn unknown(&self, key: &str, place: &str) -> ReadError {
        ReadError {
            line: self.key_number,
            reason: format!("{place} has no setting {key:?}"),
        }
    }

    fn worker_count(&self, word: Option<&str>) -> Result<WorkerCount> {
        match word {
            Some(word) if same(word, "NUMBER_OF_CPUS") => Ok(WorkerCount::NumberOfCpus),
            word => Ok(WorkerCount::Fixed(
                self.number("the number of workers", word)?,
            )),
        }
    }

    fn cycling<'w>(&self, words: &mut impl Iterator<Item = &'w str>) -> Result<Cycling> {
        Ok(Cycling {
            start: self.number("the first number of a cycle", words.next())?,
            step: self.number("the step of a cycle", words.next())?,
            step_type: self.choice("the step type", words.next(), STEP)?,
        })
    }

    fn results_display(&mut self) -> Result<ResultsDisplay> {
        let mut display = ResultsDisplay::default();
        loop {
            let key = self.key("a setting of the display or 'END results display")?;
            if same(key, "'END results display") {
                return Ok(display);
            }
            let value = self.value()?;
            let mut words = value.split(',').map(str::trim);
            if same(
                key,
                "'Record Last Update Results,Update Frequency,Update Type",
            ) {
                display.record_updates = Some(self.switch("recording each update", words.next())?);
                display.update_frequency_s = self.number("the update frequency", words.next())?;
                display.update_type = self.choice("the update type", words.next(), UPDATE)?;
            } else if same(key, "'Update Frequency,Update Type") {
                display.update_frequency_s = self.number("the update frequency", words.next())?;
                display.update_type = self.choice("the update type", words.next(), UPDATE)?;
            } else if begins(key, "'Bar chart ") {
                self.bar_chart(&key["'Bar chart ".len()..], value, &mut display.bar_charts)?;
                continue;
            } else {
                return Err(self.unknown(key, "the results display"));
            }
            self.ends(words)?;
        }
    }

    fn bar_chart(&self, key: &str, value: &str, charts: &mut Vec<BarChart>) -> Result<()> {
        let (number, setting) = key.split_once(' ').unwrap_or((key, ""));
        let number = self.number("the bar of a chart", Some(number))?;
        if same(setting.trim(), "statistic") {
            charts.push(BarChart {
                number,
                statistic: value.to_owned(),
                manager: None,
                worker: None,
            });
            return Ok(());
        }
        let chart = charts.last_mut().filter(|chart| chart.number == number);
        let chart = chart.ok_or_else(|| {
            self.error(format!(
                "bar chart {number} needs its statistic before its {setting:?}"
            ))
        })?;
        let identity = Some(self.identity(value)?);
        if same(setting.trim(), "manager ID, manager name") {
            chart.manager = identity;
        } else if same(setting.trim(), "worker ID, worker name") {
            chart.worker = identity;
        } else {
            return Err(self.unknown(setting, "a bar chart"));
        }
        Ok(())
    }

    fn switch(&self, what: &str, word: Option<&str>) -> Result<bool> {
        self.choice(what, word, &[("DISABLED", false), ("ENABLED", true)])
    }

    fn identity(&self, value: &str) -> Result<Identity> {
        let (id, name) = value.split_once(',').ok_or_else(|| {
            self.error(format!(
                "expected a number, a comma and a name, found {value:?}"
            ))
        })?;
        Ok(Identity {
            id: self.number("the number before a name", Some(id))?,
            name: name.trim().to_owned(),
        })
    }

    fn access_specifications(&mut self) -> Result<Vec<AccessSpecification>> {
        let mut specifications: Vec<AccessSpecification> = Vec::new();
        loop {
            let key = self.key("an access specification or 'END access specifications")?;
            if same(key, "'END access specifications") {
                return Ok(specifications);
            }
            if !same(key, "'Access specification name,default assignment") {
                return Err(self.unknown(key, "the list of access specifications"));
            }
            let specification = self.access_specification()?;
            // As in IOmeter, a later specification replaces an earlier one of its name.
            let earlier = specifications
                .iter_mut()
                .find(|earlier| same(&earlier.name, &specification.name));
            match earlier {
                Some(earlier) => *earlier = specification,
                None => specifications.push(specification),
            }
        }
    }

    fn access_specification(&mut self) -> Result<AccessSpecification> {
        let value = self.value()?;
        let (name, assignment) = value.split_once(',').unwrap_or((value, "NONE"));
        let assignment = self.choice("the default assignment", Some(assignment), ASSIGNMENT)?;
        let named_at = self.number;
        let header = self.key("the header of the lines of an access specification")?;
        if !begins(header, "'size") {
            return Err(self.error(format!(
                "expected 'size,% of size,% reads,% random,delay,burst,align,reply, found {header:?}"
            )));
        }
        let mut lines = Vec::new();
        while let Some(line) = self.lines.peek().map(|line| line.trim()) {
            if line.starts_with('\'') {
                break;
            }
            self.next_line();
            if line.is_empty() {
                continue;
            }
            if lines.len() == MAX_LINES {
                return Err(self.error(format!(
                    "an access specification has at most {MAX_LINES} lines"
                )));
            }
            lines.push(self.access_line(line)?);
        }
        let specification = AccessSpecification {
            name: name.trim().to_owned(),
            assignment,
            lines,
        };
        specification.check().map_err(|error| ReadError {
            line: named_at,
            reason: error.to_string(),
        })?;
        Ok(specification)
    }

    fn access_line(&self, line: &str) -> Result<AccessLine> {
        let line = line.strip_suffix(',').unwrap_or(line);
        let mut words = line.split(',');
        let access = AccessLine {
            size: self.number("the size", words.next())?,
            of_size_percent: self.number("the share of the size", words.next())?,
            reads_percent: self.number("the share of reads", words.next())?,
            random_percent: self.number("the random share", words.next())?,
            delay_ms: self.number("the delay", words.next())?,
            burst: self.number("the burst", words.next())?,
            align: self.number("the alignment", words.next())?,
            reply: self.number("the reply size", words.next())?,
        };
        match words.next() {
            None => Ok(access),
            Some(more) => {
                Err(self.error(format!("a line has eight numbers; {more:?} follows them")))
            }
        }
    }

    fn managers(&mut self) -> Result<Vec<LoadGenerator>> {
        let mut managers = Vec::new();
        loop {
            let key = self.key("a manager or 'END manager list")?;
            if same(key, "'END manager list") {
                return Ok(managers);
            }
            if !same(key, "'Manager ID, manager name") {
                return Err(self.unknown(key, "the list of managers"));
            }
            let value = self.value()?;
            let identity = self.identity(value)?;
            managers.push(self.manager(identity)?);
        }
    }

    fn manager(&mut self, identity: Identity) -> Result<LoadGenerator> {
        let mut manager = LoadGenerator {
            identity,
            network_address: String::new(),
            workers: Vec::new(),
        };
        loop {
            let key = self.key("a worker or 'End manager")?;
            if same(key, "'End manager") {
                return Ok(manager);
            } else if same(key, "'Manager network address") {
                manager.network_address = self.value()?.to_owned();
            } else if same(key, "'Worker") {
                let name = self.value()?;
                manager.workers.push(self.worker(name)?);
            } else {
                return Err(self.unknown(key, "a manager"));
            }
        }
    }

    fn worker(&mut self, name: &str) -> Result<Worker> {
        let mut worker = Worker {
            name: name.to_owned(),
            ..Worker::default()
        };
        loop {
            let key = self.key("a setting of a worker or 'End worker")?;
            if same(key, "'End worker") {
                return Ok(worker);
            } else if same(key, "'Worker type") {
                let value = self.value()?;
                worker.worker_type = self.worker_type(value)?;
            } else if same(key, "'Default target settings for worker") {
                worker.defaults = Some(self.target_defaults()?);
            } else if same(key, "'Assigned access specs") {
                worker.assigned = Some(self.assigned()?);
            } else if same(key, "'Target assignments") {
                worker.targets = Some(self.targets()?);
            } else {
                return Err(self.unknown(key, "a worker"));
            }
        }
    }

    fn worker_type(&self, value: &str) -> Result<WorkerType> {
        self.choice("the type of a worker or target", Some(value), TYPE)
    }

    fn target_defaults(&mut self) -> Result<TargetDefaults> {
        let mut defaults = TargetDefaults::default();
        loop {
            let key =
                self.key("a default target setting or 'End default target settings for worker")?;
            if same(key, "'End default target settings for worker") {
                return Ok(defaults);
            }
            let value = self.value()?;
            let mut words = value.split(',').map(str::trim);
            if begins(key, "'Number of outstanding IOs,test connection rate") {
                let mut queue = QueueDefaults {
                    outstanding: self.number("the number of outstanding I/Os", words.next())?,
                    test_connection_rate: self
                        .switch("the test of the connection rate", words.next())?,
                    transactions_per_connection: self
                        .number("the transactions per connection", words.next())?,
                    fixed_seed: None,
                };
                if key
                    .to_ascii_lowercase()
                    .ends_with("use fixed seed,fixed seed value")
                {
                    let fixed = self.switch("the use of a fixed seed", words.next())?;
                    queue.fixed_seed = Some((fixed, self.number("the seed", words.next())?));
                }
                defaults.queue = Some(queue);
            } else if begins(key, "'Disk maximum size,starting sector") {
                let mut disk = DiskDefaults {
                    maximum_sectors: self.number("the maximum size of the disk", words.next())?,
                    starting_sector: self.number("the starting sector", words.next())?,
                    data_pattern: None,
                };
                let key = key.to_ascii_lowercase();
                if key.ends_with("data pattern") {
                    disk.data_pattern = Some(self.number("the data pattern", words.next())?);
                } else if key.ends_with("use random data") {
                    // A version between these two had a switch, which means the full random pattern
                    // of today.
                    let random: u32 = self.number("the use of random data", words.next())?;
                    disk.data_pattern = Some(if random == 0 { 0 } else { 2 });
                }
                defaults.disk = Some(disk);
            } else if same(key, "'Local network interface") {
                defaults.local_network_interface = Some(value.to_owned());
                continue;
            } else if same(key, "'VI outstanding IOs") {
                defaults.vi_outstanding =
                    Some(self.number("the number of outstanding sends", words.next())?);
            } else {
                return Err(self.unknown(key, "the default target settings"));
            }
            self.ends(words)?;
        }
    }

    fn assigned(&mut self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        loop {
            match self.next_filled() {
                Some(line) if same(line, "'End assigned access specs") => return Ok(names),
                Some(line) if line.starts_with('\'') => {
                    return Err(self.unknown(line, "the list of assigned access specifications"));
                }
                Some(name) => {
                    self.assigned.push((self.number, name));
                    names.push(name.to_owned());
                }
                None => {
                    return Err(
                        self.error("the file ends within the assigned access specifications")
                    );
                }
            }
        }
    }

    fn targets(&mut self) -> Result<Vec<Target>> {
        let mut targets = Vec::new();
        loop {
            let key = self.key("a target or 'End target assignments")?;
            if same(key, "'End target assignments") {
                return Ok(targets);
            }
            if !same(key, "'Target") {
                return Err(self.unknown(key, "the list of targets"));
            }
            let mut target = Target {
                name: self.value()?.to_owned(),
                target_type: WorkerType::Disk,
                manager: None,
            };
            loop {
                let key = self.key("a setting of a target or 'End target")?;
                if same(key, "'End target") {
                    break;
                }
                let value = self.value()?;
                if same(key, "'Target type") {
                    target.target_type = self.worker_type(value)?;
                } else if same(key, "'Target manager ID, manager name") {
                    target.manager = Some(self.identity(value)?);
                } else {
                    return Err(self.unknown(key, "a target"));
                }
            }
            targets.push(target);
        }
    }
}

/// Words of the files and their meaning, in the order of the numbers that older versions wrote.
pub(super) const RECORD: &[(&str, RecordResults)] = &[
    ("ALL", RecordResults::All),
    ("NO_TARGETS", RecordResults::NoTargets),
    ("NO_WORKERS", RecordResults::NoWorkers),
    ("NO_MANAGERS", RecordResults::NoManagers),
    ("NONE", RecordResults::None),
];
pub(super) const STEP: &[(&str, StepType)] = &[
    ("LINEAR", StepType::Linear),
    ("EXPONENTIAL", StepType::Exponential),
];
pub(super) const TEST: &[(&str, TestType)] = &[
    ("NORMAL", TestType::Normal),
    ("CYCLE_TARGETS", TestType::CycleTargets),
    ("CYCLE_WORKERS", TestType::CycleWorkers),
    (
        "INCREMENT_TARGETS_PARALLEL",
        TestType::IncrementTargetsParallel,
    ),
    ("INCREMENT_TARGETS_SERIAL", TestType::IncrementTargetsSerial),
    (
        "CYCLE_WORKERS_AND_TARGETS",
        TestType::CycleWorkersAndTargets,
    ),
    ("CYCLE_OUTSTANDING_IOS", TestType::CycleOutstanding),
    (
        "CYCLE_OUTSTANDING_IOS_AND_TARGETS",
        TestType::CycleOutstandingAndTargets,
    ),
];
pub(super) const UPDATE: &[(&str, UpdateType)] = &[
    ("WHOLE_TEST", UpdateType::WholeTest),
    ("LAST_UPDATE", UpdateType::LastUpdate),
];
pub(super) const ASSIGNMENT: &[(&str, Assignment)] = &[
    ("NONE", Assignment::None),
    ("ALL", Assignment::All),
    ("DISK", Assignment::Disk),
    ("NET", Assignment::Net),
];
pub(super) const TYPE: &[(&str, WorkerType)] = &[
    ("DISK", WorkerType::Disk),
    ("NETWORK,TCP", WorkerType::NetworkTcp),
    ("NETWORK,VI", WorkerType::NetworkVi),
];

#[cfg(test)]
mod tests;
