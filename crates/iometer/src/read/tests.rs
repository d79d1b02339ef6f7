//! Tests with files as old and new IOmeters write them, round trips, and the errors of malformed
//! files.

use proptest::prelude::*;

use super::*;
use crate::write::write;

/// File as version 1.1.0 writes it.
const NEW: &str = include_str!("new.icf");
/// File as version 2006.07.27 writes it, with the line ends of Windows.
const OLD: &str = include_str!("old.icf");

#[test]
fn a_new_file_is_read_in_every_detail() {
    let read = read(NEW).expect("a good file");
    assert_eq!(read.version.0, "1.1.0");
    let setup = read.test_setup.as_ref().expect("a setup");
    assert_eq!(setup.description, "queue depth, 64 against 128");
    assert_eq!((setup.run_time, setup.ramp_up_s), ((0, 5, 30), 15));
    assert_eq!(setup.disk_workers, WorkerCount::NumberOfCpus);
    assert_eq!(setup.record, RecordResults::NoTargets);
    assert_eq!(setup.test_type, TestType::CycleOutstanding);
    assert_eq!(
        setup.queue_cycling,
        QueueCycling {
            start: 1,
            end: 64,
            step: 2,
            step_type: StepType::Exponential
        }
    );
    let display = read.results_display.as_ref().expect("a display");
    assert_eq!(
        (display.record_updates, display.update_type),
        (Some(false), UpdateType::LastUpdate)
    );
    assert_eq!(
        display.bar_charts[1]
            .worker
            .as_ref()
            .expect("a worker")
            .name,
        "Worker 1"
    );
    let specifications = read.access_specifications.as_ref().expect("specifications");
    assert_eq!(specifications[0].name, "RealLife-60%Rand-65%Read");
    assert_eq!(specifications[0].lines, [AccessLine::all(8192, 65, 60)]);
    assert_eq!(
        (specifications[1].lines.len(), specifications[1].assignment),
        (8, Assignment::Disk)
    );
    let worker = &read.managers.as_ref().expect("managers")[0].workers[0];
    let defaults = worker.defaults.as_ref().expect("defaults");
    let queue = QueueDefaults {
        outstanding: 64,
        test_connection_rate: false,
        transactions_per_connection: 1,
        fixed_seed: Some((true, 77)),
    };
    assert_eq!(defaults.queue, Some(queue));
    let disk = DiskDefaults {
        maximum_sectors: 20_971_520,
        starting_sector: 2048,
        data_pattern: Some(2),
    };
    assert_eq!(defaults.disk, Some(disk));
    assert_eq!(worker.assigned.as_ref().expect("assigned").len(), 2);
    assert_eq!(
        worker.targets.as_ref().expect("targets")[0].name,
        "PHYSICALDRIVE:1"
    );
}

#[test]
fn an_old_file_is_read_too() {
    assert!(OLD.contains("\r\n"));
    let read = read(OLD).expect("a good file");
    assert_eq!(read.version.0, "2006.07.27");
    let display = read.results_display.as_ref().expect("a display");
    assert_eq!(
        (display.record_updates, display.update_frequency_s),
        (None, 5)
    );
    assert!(read.test_setup.is_none(), "a section may be missing");
    let worker = &read.managers.as_ref().expect("managers")[0].workers[0];
    let defaults = worker.defaults.as_ref().expect("defaults");
    assert_eq!(defaults.queue.expect("a queue").fixed_seed, None);
    assert_eq!(defaults.disk.expect("a disk").data_pattern, None);
    assert_eq!(worker.worker_type, WorkerType::Disk);
}

#[test]
fn what_was_read_is_written_again_line_by_line() {
    for file in [NEW, OLD] {
        let written = write(&read(file).expect("a good file")).expect("it came from a file");
        let lines = |text: &str| {
            text.lines()
                .map(|line| line.trim_end().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(&written), lines(file));
    }
}

#[test]
fn keys_may_be_written_in_any_case_and_sections_apart() {
    let shout = |line: &str| match line.strip_prefix("'END") {
        Some(rest) => format!("\n'end{rest}\n"),
        None if line.starts_with('\'') => line.to_uppercase(),
        None => line.to_owned(),
    };
    let shouted: Vec<String> = NEW.lines().map(shout).collect();
    assert_eq!(read(&shouted.join("\r\n")), read(NEW));
}

#[test]
fn malformed_files_are_refused_with_line_and_reason() {
    let specification = |rows: &str| {
        format!(
            "Version 1.1.0\n'ACCESS SPECIFICATIONS ===\n'Access specification name,default assignment\n\tx,NONE\n'size,% of size,% reads,% random,delay,burst,align,reply\n{rows}\n'END access specifications\nVersion 1.1.0\n"
        )
    };
    let half: String = NEW
        .lines()
        .take(40)
        .map(|line| format!("{line}\n"))
        .collect();
    let row = "512,";
    // Each case: the content of the file, a piece of the wrong line, and the reason.
    let cases = [
        (String::new(), "", "starts with its version"),
        ("Version one".into(), "", "not a version"),
        ("Version 1998.01.05\n".into(), "", "newer IOmeter"),
        (
            "Version 1.1.0\nhello\n".into(),
            "hello",
            "expected a section",
        ),
        (
            specification("\t512,50,100,0,0,1,0,0"),
            "x,NONE",
            "add up to 50",
        ),
        (specification("\t512,100,100,0,0,1,0"), row, "reply size"),
        (
            specification("\t512,100,100,0,0,1,0,0,9"),
            row,
            "eight numbers",
        ),
        (
            specification("\tbig,100,100,0,0,1,0,0"),
            "big",
            "the size must be a whole number, not \"big\"",
        ),
        (
            specification("\t512,101,100,0,0,1,0,0"),
            "x,NONE",
            "above 100 percent",
        ),
        (
            specification("\t-512,100,100,0,0,1,0,0"),
            row,
            "whole number",
        ),
        (
            NEW.replace("CYCLE_OUTSTANDING_IOS", "CYCLE_SHOES"),
            "SHOES",
            "the test type must be one of",
        ),
        (
            NEW.replace("'Ramp Up", "'Ramp Down"),
            "'Ramp Down",
            "the test setup has no setting",
        ),
        (
            NEW.replace("64,DISABLED", "64,MAYBE"),
            "64,MAYBE",
            "ENABLED",
        ),
        (
            NEW.replace("'END test setup\n", ""),
            "'RESULTS DISPLAY",
            "the test setup has no setting",
        ),
        (half, "'ACCESS SPECIFICATIONS", "the file ends"),
        (format!("{NEW}'Test setup =\n"), "'Test setup", "twice"),
    ];
    for (text, marker, reason) in cases {
        let error = read(&text).expect_err(reason);
        assert!(error.reason.contains(reason), "{error} instead of {reason}");
        let line = text
            .lines()
            .position(|line| line.contains(marker))
            .map_or(1, |at| at + 1);
        assert_eq!(error.line, line, "{error}");
        assert!(error.to_string().starts_with(&format!("line {line}: ")));
    }
    let many = specification(&"\t512,0,100,0,0,1,0,0\n".repeat(101));
    let error = read(&many).expect_err("101 lines");
    assert_eq!(
        (error.line, error.reason.contains("at most 100")),
        (106, true),
        "{error}"
    );
}

#[test]
fn what_a_line_cannot_hold_is_not_written() {
    let mut configuration = read(NEW).expect("a good file");
    let specifications = configuration
        .access_specifications
        .as_mut()
        .expect("specifications");
    specifications[0].name = "4 KiB, 100 % read".into();
    assert!(
        write(&configuration)
            .expect_err("a comma")
            .to_string()
            .contains("no commas")
    );
    let mut configuration = read(NEW).expect("a good file");
    configuration.managers.as_mut().expect("managers")[0].workers[0].name = "a\nb".into();
    assert!(write(&configuration).is_err());
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9][A-Za-z0-9 ;:%_-]{0,30}[A-Za-z0-9]"
}

fn specification() -> impl Strategy<Value = AccessSpecification> {
    let line = (
        1u32..1_000_000,
        0u8..=100,
        0u8..=100,
        0u32..10_000,
        1u32..100,
        0u32..1_000_000,
        0u32..9999,
    );
    let lines = prop::collection::vec(line, 1..=MAX_LINES);
    (name(), prop::sample::select(ASSIGNMENT), lines).prop_map(|(name, (_, assignment), lines)| {
        let count = lines.len();
        let lines = lines.into_iter().enumerate().map(|(index, line)| {
            let (size, reads_percent, random_percent, delay_ms, burst, align, reply) = line;
            let share = 100 / count + usize::from(index < 100 % count);
            AccessLine {
                size,
                of_size_percent: share as u8,
                reads_percent,
                random_percent,
                delay_ms,
                burst,
                align,
                reply,
            }
        });
        AccessSpecification {
            name,
            assignment,
            lines: lines.collect(),
        }
    })
}

fn setup() -> impl Strategy<Value = TestSetup> {
    let count = prop_oneof![
        Just(WorkerCount::NumberOfCpus),
        (0u32..64).prop_map(WorkerCount::Fixed)
    ];
    let step = || prop::sample::select(STEP).prop_map(|(_, step)| step);
    let cycling = (0u32..99, 0u32..99, step()).prop_map(|(start, step, step_type)| Cycling {
        start,
        step,
        step_type,
    });
    let queue = (0u32..99, 0u32..999, 0u32..9, step()).prop_map(|(start, end, step, step_type)| {
        QueueCycling {
            start,
            end,
            step,
            step_type,
        }
    });
    let words = (prop::sample::select(RECORD), prop::sample::select(TEST));
    (
        name(),
        (0u32..99, 0u32..99, 0u32..99),
        0u32..999,
        count,
        cycling,
        queue,
        words,
    )
        .prop_map(
            |(
                description,
                run_time,
                ramp_up_s,
                disk_workers,
                cycling,
                queue_cycling,
                (record, test),
            )| TestSetup {
                description,
                run_time,
                ramp_up_s,
                disk_workers,
                network_workers: WorkerCount::Fixed(1),
                record: record.1,
                worker_cycling: cycling,
                disk_cycling: cycling,
                queue_cycling,
                test_type: test.1,
            },
        )
}

fn identity() -> impl Strategy<Value = Identity> {
    (0u32..100, name()).prop_map(|(id, name)| Identity { id, name })
}

fn worker() -> impl Strategy<Value = Worker> {
    let queue = (
        0u32..999,
        any::<bool>(),
        0u32..99,
        prop::option::of(any::<(bool, u64)>()),
    )
        .prop_map(
            |(outstanding, test_connection_rate, transactions_per_connection, fixed_seed)| {
                QueueDefaults {
                    outstanding,
                    test_connection_rate,
                    transactions_per_connection,
                    fixed_seed,
                }
            },
        );
    let disk = (any::<u64>(), any::<u64>(), prop::option::of(0u32..3)).prop_map(
        |(maximum_sectors, starting_sector, data_pattern)| DiskDefaults {
            maximum_sectors,
            starting_sector,
            data_pattern,
        },
    );
    let defaults = (
        prop::option::of(queue),
        prop::option::of(disk),
        prop::option::of(name()),
        prop::option::of(0u32..9),
    )
        .prop_map(
            |(queue, disk, local_network_interface, vi_outstanding)| TargetDefaults {
                queue,
                disk,
                local_network_interface,
                vi_outstanding,
            },
        );
    let kind = || prop::sample::select(TYPE).prop_map(|(_, kind)| kind);
    let target =
        (name(), kind(), prop::option::of(identity())).prop_map(|(name, target_type, manager)| {
            Target {
                name,
                target_type,
                manager,
            }
        });
    (
        name(),
        kind(),
        prop::option::of(defaults),
        prop::option::of(prop::collection::vec(name(), 0..4)),
        prop::option::of(prop::collection::vec(target, 0..4)),
    )
        .prop_map(|(name, worker_type, defaults, assigned, targets)| Worker {
            name,
            worker_type,
            defaults,
            assigned,
            targets,
        })
}

prop_compose! {
    fn configuration()(
        version in prop::sample::select(vec!["1.1.0", "1.1.0-rc1", "2006.07.27", "2003.12.16-post"]),
        test_setup in prop::option::of(setup()),
        record_updates in any::<Option<bool>>(),
        chart in (1u32..7, name(), prop::option::of(identity())),
        specifications in prop::option::of(prop::collection::vec(specification(), 0..4)),
        managers in prop::option::of(prop::collection::vec(
            (identity(), prop::collection::vec(worker(), 0..3)), 0..3)),
    ) -> Configuration {
        let (number, statistic, manager) = chart;
        let chart = BarChart { number, statistic, worker: manager.clone(), manager };
        // Each name stands once: IOmeter replaces the earlier one.
        let specifications = specifications.map(|mut list: Vec<AccessSpecification>| {
            for (index, specification) in list.iter_mut().enumerate() {
                specification.name = format!("{} {index}", specification.name);
            }
            list
        });
        Configuration {
            version: Version(version.to_owned()),
            test_setup,
            results_display: Some(ResultsDisplay {
                record_updates,
                update_frequency_s: 2,
                update_type: UpdateType::LastUpdate,
                bar_charts: vec![chart],
            }),
            access_specifications: specifications,
            managers: managers.map(|managers| managers.into_iter().map(|(identity, workers)| LoadGenerator {
                identity,
                network_address: String::new(),
                workers,
            }).collect()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_configuration_survives_being_written(configuration in configuration()) {
        let text = write(&configuration).expect("it can be written");
        prop_assert_eq!(read(&text).expect("it can be read"), configuration);
    }

    #[test]
    fn a_damaged_file_is_refused_or_read_never_a_panic(cut in 0usize..NEW.len(), junk in "[ -~\t\n']{0,12}") {
        let damaged = format!("{}{junk}{}", &NEW[..cut], &NEW[cut..]);
        if let Err(error) = read(&damaged) {
            prop_assert!(error.line >= 1 && error.line <= damaged.lines().count().max(1));
        }
    }
}

#[test]
fn an_assigned_specification_that_is_not_defined_is_told_with_its_line() {
    let (_, ignored) = read_noting(NEW).expect("a good file");
    assert_eq!(ignored, []);
    let at = 1 + NEW
        .lines()
        .position(|line| line == "'Assigned access specs")
        .expect("there");
    let mut lines: Vec<&str> = NEW.lines().collect();
    lines.insert(at, "\tBackup 256K read");
    lines.insert(at, "\tidle");
    let (configuration, ignored) = read_noting(&lines.join("\r\n")).expect("a good file");
    assert_eq!((ignored.len(), ignored[0].line), (1, at + 2));
    assert!(
        ignored[0].reason.contains("Backup 256K read"),
        "{}",
        ignored[0]
    );
    let worker = &configuration.managers.expect("managers")[0].workers[0];
    assert!(
        worker
            .assigned
            .as_ref()
            .expect("names")
            .contains(&"Backup 256K read".to_owned())
    );
}

#[test]
fn what_stands_behind_a_value_is_refused_with_its_line() {
    for (key, value) in [
        ("'\thours      minutes    seconds", "\t0,5 2 0"),
        ("'Ramp Up Time (s)", "\t15 s"),
        ("'Default Disk Workers to Spawn", "\tNUMBER_OF_CPUS 2"),
        ("'Record Results", "\tALL NONE"),
        ("'Test Type", "\tNORMAL, CYCLE_TARGETS"),
    ] {
        let at = 1 + NEW.lines().position(|line| line == key).expect(key);
        let mut lines: Vec<&str> = NEW.lines().collect();
        lines[at] = value;
        let error = read(&lines.join("\n")).expect_err(value);
        assert!(
            error.line == at + 1 && error.reason.contains("follows the last value"),
            "{error}"
        );
    }
}
