//! Writer of `.icf` as IOmeter writes it, so that IOmeter and programs made for it can read the
//! file.

use std::fmt::{self, Write as _};

use super::configuration::{
    Configuration, Cycling, Identity, LoadGenerator, ResultsDisplay, TargetDefaults, TestSetup,
    Worker, WorkerCount,
};
use super::read::{ASSIGNMENT, RECORD, STEP, TEST, TYPE, UPDATE};
use crate::access::AccessSpecification;

/// Reason why a configuration cannot be written in IOmeter's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError(String);

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WriteError {}

/// Returns the text of a file.
pub fn write(configuration: &Configuration) -> Result<String, WriteError> {
    check(configuration)?;
    let mut file = File::default();
    let version = format!("Version {} ", configuration.version.0);
    file.line(&version);
    if let Some(setup) = &configuration.test_setup {
        file.test_setup(setup);
    }
    if let Some(display) = &configuration.results_display {
        file.results_display(display);
    }
    if let Some(specifications) = &configuration.access_specifications {
        file.heading("ACCESS SPECIFICATIONS");
        specifications
            .iter()
            .for_each(|specification| file.access_specification(specification));
        file.line("'END access specifications");
    }
    if let Some(managers) = &configuration.managers {
        file.heading("MANAGER LIST");
        managers.iter().for_each(|manager| file.manager(manager));
        file.line("'END manager list");
    }
    file.line(&version);
    Ok(file.text)
}

/// Refuses content that a line of the file cannot hold. A name with a comma ends at the comma, and
/// one with a line break ends sooner.
fn check(configuration: &Configuration) -> Result<(), WriteError> {
    let specifications = configuration.access_specifications.iter().flatten();
    for specification in specifications {
        specification
            .check()
            .map_err(|error| WriteError(error.to_string()))?;
        let name = specification.name.as_str();
        if name.contains(',') || name.starts_with('\'') || name != name.trim() {
            return Err(WriteError(format!(
                "IOmeter cannot keep the name {name:?}: no commas, no apostrophe in front, no blanks around it"
            )));
        }
    }
    let workers = configuration.managers.iter().flatten().flat_map(|manager| {
        let names = [&manager.identity.name, &manager.network_address];
        let workers = manager.workers.iter().flat_map(|worker| {
            let targets = worker.targets.iter().flatten().map(|target| &target.name);
            std::iter::once(&worker.name)
                .chain(targets)
                .chain(worker.assigned.iter().flatten())
        });
        names.into_iter().chain(workers)
    });
    let descriptions = configuration
        .test_setup
        .iter()
        .map(|setup| &setup.description);
    let mut texts = workers
        .chain(descriptions)
        .chain([&configuration.version.0]);
    match texts
        .find(|text| text.contains(['\n', '\r']) || text.starts_with('\'') || *text != text.trim())
    {
        None => Ok(()),
        Some(text) => Err(WriteError(format!(
            "IOmeter cannot keep {text:?} on a line of its own"
        ))),
    }
}

/// Returns the word for a choice. Every choice has one.
fn word<T: PartialEq>(choices: &[(&'static str, T)], choice: &T) -> &'static str {
    let found = choices.iter().find(|(_, candidate)| candidate == choice);
    found.map_or("", |(word, _)| word)
}

fn switch(on: bool) -> &'static str {
    if on { "ENABLED" } else { "DISABLED" }
}

#[derive(Default)]
struct File {
    text: String,
}

impl File {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn heading(&mut self, name: &str) {
        let line = format!("'{name} ");
        self.line(&format!("{line:=<80}"));
    }

    fn value(&mut self, key: &str, value: fmt::Arguments<'_>) {
        self.line(key);
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "\t{value}");
    }

    fn test_setup(&mut self, setup: &TestSetup) {
        self.heading("TEST SETUP");
        self.value("'Test Description", format_args!("{}", setup.description));
        let (hours, minutes, seconds) = setup.run_time;
        self.line("'Run Time");
        self.value(
            "'\thours      minutes    seconds",
            format_args!("{hours:<11}{minutes:<11}{seconds}"),
        );
        self.value("'Ramp Up Time (s)", format_args!("{}", setup.ramp_up_s));
        self.workers("'Default Disk Workers to Spawn", setup.disk_workers);
        self.workers("'Default Network Workers to Spawn", setup.network_workers);
        self.value(
            "'Record Results",
            format_args!("{}", word(RECORD, &setup.record)),
        );
        self.cycling("'Worker Cycling", &setup.worker_cycling);
        self.cycling("'Disk Cycling", &setup.disk_cycling);
        let queue = &setup.queue_cycling;
        self.line("'Queue Depth Cycling");
        self.value(
            "'\tstart      end        step       step type",
            format_args!(
                "{:<11}{:<11}{:<11}{}",
                queue.start,
                queue.end,
                queue.step,
                word(STEP, &queue.step_type)
            ),
        );
        self.value(
            "'Test Type",
            format_args!("{}", word(TEST, &setup.test_type)),
        );
        self.line("'END test setup");
    }

    fn workers(&mut self, key: &str, count: WorkerCount) {
        match count {
            WorkerCount::NumberOfCpus => self.value(key, format_args!("NUMBER_OF_CPUS")),
            WorkerCount::Fixed(count) => self.value(key, format_args!("{count}")),
        }
    }

    fn cycling(&mut self, key: &str, cycling: &Cycling) {
        self.line(key);
        self.value(
            "'\tstart      step       step type",
            format_args!(
                "{:<11}{:<11}{}",
                cycling.start,
                cycling.step,
                word(STEP, &cycling.step_type)
            ),
        );
    }

    fn results_display(&mut self, display: &ResultsDisplay) {
        self.heading("RESULTS DISPLAY");
        let (seconds, kind) = (
            display.update_frequency_s,
            word(UPDATE, &display.update_type),
        );
        match display.record_updates {
            Some(record) => self.value(
                "'Record Last Update Results,Update Frequency,Update Type",
                format_args!("{},{seconds},{kind}", switch(record)),
            ),
            None => self.value(
                "'Update Frequency,Update Type",
                format_args!("{seconds},{kind}"),
            ),
        }
        for chart in &display.bar_charts {
            let number = chart.number;
            self.value(
                &format!("'Bar chart {number} statistic"),
                format_args!("{}", chart.statistic),
            );
            if let Some(Identity { id, name }) = &chart.manager {
                let key = format!("'Bar chart {number} manager ID, manager name");
                self.value(&key, format_args!("{id},{name}"));
            }
            if let Some(Identity { id, name }) = &chart.worker {
                let key = format!("'Bar chart {number} worker ID, worker name");
                self.value(&key, format_args!("{id},{name}"));
            }
        }
        self.line("'END results display");
    }

    fn access_specification(&mut self, specification: &AccessSpecification) {
        let assignment = word(ASSIGNMENT, &specification.assignment);
        self.value(
            "'Access specification name,default assignment",
            format_args!("{},{assignment}", specification.name),
        );
        self.line("'size,% of size,% reads,% random,delay,burst,align,reply");
        for line in &specification.lines {
            self.line(&format!(
                "\t{},{},{},{},{},{},{},{}",
                line.size,
                line.of_size_percent,
                line.reads_percent,
                line.random_percent,
                line.delay_ms,
                line.burst,
                line.align,
                line.reply
            ));
        }
    }

    fn manager(&mut self, manager: &LoadGenerator) {
        let Identity { id, name } = &manager.identity;
        self.value("'Manager ID, manager name", format_args!("{id},{name}"));
        self.value(
            "'Manager network address",
            format_args!("{}", manager.network_address),
        );
        manager
            .workers
            .iter()
            .for_each(|worker| self.worker(worker));
        self.line("'End manager");
    }

    fn worker(&mut self, worker: &Worker) {
        self.value("'Worker", format_args!("{}", worker.name));
        self.value(
            "'Worker type",
            format_args!("{}", word(TYPE, &worker.worker_type)),
        );
        if let Some(defaults) = &worker.defaults {
            self.target_defaults(defaults);
        }
        if let Some(assigned) = &worker.assigned {
            self.line("'Assigned access specs");
            assigned
                .iter()
                .for_each(|name| self.line(&format!("\t{name}")));
            self.line("'End assigned access specs");
        }
        if let Some(targets) = &worker.targets {
            self.line("'Target assignments");
            for target in targets {
                self.value("'Target", format_args!("{}", target.name));
                self.value(
                    "'Target type",
                    format_args!("{}", word(TYPE, &target.target_type)),
                );
                if let Some(Identity { id, name }) = &target.manager {
                    self.value(
                        "'Target manager ID, manager name",
                        format_args!("{id},{name}"),
                    );
                }
                self.line("'End target");
            }
            self.line("'End target assignments");
        }
        self.line("'End worker");
    }

    fn target_defaults(&mut self, defaults: &TargetDefaults) {
        self.line("'Default target settings for worker");
        if let Some(queue) = &defaults.queue {
            let key = "'Number of outstanding IOs,test connection rate,transactions per connection";
            let common = format!(
                "{},{},{}",
                queue.outstanding,
                switch(queue.test_connection_rate),
                queue.transactions_per_connection
            );
            match queue.fixed_seed {
                Some((fixed, seed)) => self.value(
                    &format!("{key},use fixed seed,fixed seed value"),
                    format_args!("{common},{},{seed}", switch(fixed)),
                ),
                None => self.value(key, format_args!("{common}")),
            }
        }
        if let Some(disk) = &defaults.disk {
            let key = "'Disk maximum size,starting sector";
            let common = format!("{},{}", disk.maximum_sectors, disk.starting_sector);
            match disk.data_pattern {
                Some(pattern) => self.value(
                    &format!("{key},Data pattern"),
                    format_args!("{common},{pattern}"),
                ),
                None => self.value(key, format_args!("{common}")),
            }
        }
        if let Some(interface) = &defaults.local_network_interface {
            self.value("'Local network interface", format_args!("{interface}"));
        }
        if let Some(outstanding) = defaults.vi_outstanding {
            self.value("'VI outstanding IOs", format_args!("{outstanding}"));
        }
        self.line("'End default target settings for worker");
    }
}
