//! libiscsi's conformance suite, in full and with data loss allowed, on every kind of unit.
//!
//! SANITIZE has a lab of its own. The suite up to 1.19.0 leaves its hook on outgoing PDUs in place when
//! one of the "Reserved" tests skips itself, and calls itself without end when that test comes again, as
//! every test does in a full run (libiscsi's commit cc3ddbff420c, "Improve robustness of the code that
//! restores .queue_pdu()", is the cure). Run once, each of them ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::lab::{Bench, Lab, Outcome};
use crate::process;
use crate::server::{Backend, Spec};

/// No test of the suite is silent for longer unless it hangs.
const SILENCE: Duration = Duration::from_secs(45);
const LIMIT: Duration = Duration::from_secs(420);

/// The suite once for each kind of logical unit, and over two paths. Not on a pool with 4 KiB blocks, where its
/// WriteAtomic16.Simple must fail: it writes up to 256 blocks, and of the limits in VPD page B0h asks MAXIMUM TRANSFER LENGTH
/// only. A pool writes at most 1 MiB, of whole volume blocks, all or none; 256 blocks of 4 KiB are that much, and touch one
/// volume block more where they begin within one. The MAXIMUM ATOMIC TRANSFER LENGTH is less therefore, and what is longer
/// has to be refused (SBC-4 5.50). An ATOMIC TRANSFER LENGTH GRANULARITY of a volume block would please the test, and take
/// shorter atomic writes from everybody else.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "suite-memory-512",
        about: "iscsi-test-cu in full, memory, 512-byte blocks",
        guest: false,
        run: |bench| run(bench, Unit::new(Backend::Memory, 512), 1, &[]),
    },
    Lab {
        name: "suite-memory-4k",
        about: "iscsi-test-cu in full, memory, 4 KiB blocks",
        guest: false,
        run: |bench| run(bench, Unit::new(Backend::Memory, 4096), 1, &[]),
    },
    Lab {
        name: "suite-file-512",
        about: "iscsi-test-cu in full, file, 512-byte blocks",
        guest: false,
        run: |bench| run(bench, Unit::new(Backend::File, 512), 1, &[]),
    },
    Lab {
        name: "suite-file-4k",
        about: "iscsi-test-cu in full, file, 4 KiB blocks",
        guest: false,
        run: |bench| run(bench, Unit::new(Backend::File, 4096), 1, &[]),
    },
    Lab {
        name: "suite-pool-512",
        about: "iscsi-test-cu in full, thin volume of a pool, 512-byte blocks",
        guest: false,
        run: |bench| run(bench, Unit::new(Backend::Pool, 512), 1, &[]),
    },
    Lab {
        name: "suite-two-paths",
        about: "iscsi-test-cu in full over two portals, so that its multipath tests run",
        guest: false,
        run: |bench| run(bench, Unit::new(Backend::Memory, 512), 2, &[]),
    },
    Lab {
        name: "suite-physical-4k",
        about: "iscsi-test-cu's tests that need several logical blocks in a physical one",
        guest: false,
        run: |bench| {
            run(
                bench,
                Unit {
                    physical_block_size: 4096,
                    ..Unit::new(Backend::Memory, 512)
                },
                1,
                &["--test=SCSI.[CW]*.[IU]n[vm]a*"],
            )
        },
    },
    Lab {
        name: "suite-read-only",
        about: "iscsi-test-cu's tests of a write-protected unit",
        guest: false,
        run: |bench| {
            run(
                bench,
                Unit {
                    read_only: true,
                    ..Unit::new(Backend::Memory, 512)
                },
                1,
                &["--test=SCSI.ReadOnly"],
            )
        },
    },
    Lab {
        name: "suite-sanitize",
        about: "iscsi-test-cu's SANITIZE tests on a unit that offers it",
        guest: false,
        run: sanitize,
    },
];

/// All of them but Reset, by the last letter of their names.
const SANITIZE: &[&str] = &["--allow-sanitize", "--test=SCSI.Sanitize.*[!t]"];
const SANITIZE_RESET: &str = "Left out, because it wants a SANITIZE that takes longer than 3 s, which is the disk's affair [the daemon's own \
    test `a_sanitize_outlives_its_session` shows what it is about]: Sanitize.Reset";

fn sanitize(bench: &Bench) -> Result<Outcome> {
    let mut outcome = run(bench, Unit::new(Backend::Preallocated, 512), 1, SANITIZE)?;
    if let Outcome::Passed { skips, .. } = &mut outcome {
        skips.push(SANITIZE_RESET.to_owned());
    }
    Ok(outcome)
}

/// What the suite is run against.
#[derive(Clone, Copy)]
struct Unit {
    backend: Backend,
    block_size: u32,
    physical_block_size: u32,
    read_only: bool,
}

impl Unit {
    /// GetLBAStatus.UnmapSingle unmaps single logical blocks and expects each to be told unmapped, which a
    /// unit with larger physical blocks must not promise: the physical blocks are the logical ones.
    const fn new(backend: Backend, block_size: u32) -> Self {
        Self {
            backend,
            block_size,
            physical_block_size: block_size,
            read_only: false,
        }
    }
}

/// Why the suite is right to skip, or where what it skips is run: by how its own reason begins.
const WHY: &[(&str, &str)] = &[
    ("--allow-sanitize", "suite-sanitize runs them"),
    ("LBPPB < 2", "suite-physical-4k runs them"),
    ("Multipath unavailable", "suite-two-paths runs them"),
    ("Logical unit is not removable", "no unit of Sandstone is"),
    ("LUN is not removable", "no unit of Sandstone is"),
    ("Media is not removable", "no unit of Sandstone is"),
    (
        "Logical unit is not write-protected",
        "suite-read-only runs it",
    ),
    (
        "Task Management functionfor ColdReset",
        "it ends every session, that of the question too (RFC 7143 section 11.5.1)",
    ),
    (
        "WRITEATOMIC16 is not implemented",
        "memory and files do not write several blocks all or none, so it is not offered",
    ),
    (
        "WRITESAME10 does not support 0-blocks",
        "WSNZ = 1: a mistyped command must not overwrite all",
    ),
    (
        "WRITESAME16 does not support 0-blocks",
        "WSNZ = 1: a mistyped command must not overwrite all",
    ),
    (
        "SANITIZE",
        "a file cannot promise that its disk forgets (BLOCK ERASE) and is not encrypted (CRYPTOGRAPHIC ERASE)",
    ),
];

fn run(bench: &Bench, unit: Unit, paths: usize, options: &[&str]) -> Result<Outcome> {
    let addresses = (1..=paths).map(|host| format!("127.0.0.{host}")).collect();
    let mut server = bench.serve(Spec {
        backend: unit.backend,
        block_size: unit.block_size,
        physical_block_size: unit.physical_block_size,
        read_only: unit.read_only,
        addresses,
        ..Spec::default()
    })?;
    let suite = bench.tools.client("iscsi-test-cu")?;
    // The suite's output into a pipe is held back without this, and a hang would have no name.
    let mut command = std::process::Command::new("stdbuf");
    command
        .arg("-o0")
        .arg(suite.get_program())
        .args(suite.get_args());
    command.args(["--dataloss", "--verbose"]).args(options);
    for path in 0..paths {
        command.arg(server.url(path));
    }
    let mut log = Log::default();
    let start = Instant::now();
    let ended = process::stream(command, SILENCE, LIMIT, |line| log.read(line));
    let seconds = start.elapsed().as_secs_f64();
    let alive = server.check_alive();
    log.close();
    let tests = log.passed + log.failures.len() + log.skipped();
    let figures = format!(
        "{tests} tests: {} passed, {} failed, {} skipped in {seconds:.0} s",
        log.passed,
        log.failures.len(),
        log.skipped()
    );
    alive?;
    match ended {
        Err(error) => bail!("{figures}; then {} hung: {error:#}", log.place()),
        Ok(_) if !log.complete => bail!(
            "{figures}; then the suite ended in {} without a summary",
            log.place()
        ),
        Ok(_) if !log.failures.is_empty() => {
            bail!("{figures}\n    {}", log.failures.join("\n    "))
        }
        Ok(_) if log.ran != tests => bail!(
            "{figures}; the suite itself says that {} tests ran",
            log.ran
        ),
        Ok(_) if log.passed == 0 => bail!("{figures}: nothing ran"),
        Ok(_) => Ok(Outcome::Passed {
            figures,
            skips: log.reasons(),
        }),
    }
}

/// Reads the suite's verbose output: `Suite: S`, `  Test: T ...passed`, with `[SKIPPED] reason`
/// and other remarks between the dots and the verdict.
#[derive(Debug, Default)]
struct Log {
    suite: String,
    test: Option<Test>,
    passed: usize,
    failures: Vec<String>,
    /// Reason and the tests that gave it.
    skips: BTreeMap<String, Vec<String>>,
    complete: bool,
    /// The suite's own count of tests that ran.
    ran: usize,
}

#[derive(Debug)]
struct Test {
    name: String,
    skip: Option<String>,
    passed: bool,
    failed: bool,
    details: Vec<String>,
}

impl Log {
    fn read(&mut self, line: &str) {
        let text = line.trim();
        if let Some(name) = text.strip_prefix("Suite: ") {
            self.close();
            name.clone_into(&mut self.suite);
        } else if let Some(rest) = text.strip_prefix("Test: ") {
            self.close();
            let (name, rest) = rest.split_once(" ...").unwrap_or((rest, ""));
            self.test = Some(Test {
                name: name.to_owned(),
                skip: None,
                passed: false,
                failed: false,
                details: Vec::new(),
            });
            self.remark(rest.trim());
        } else if text.starts_with("Run Summary:") {
            self.close();
            self.complete = true;
        } else if let Some(counts) = text.strip_prefix("tests").filter(|_| self.complete) {
            self.ran = counts
                .split_whitespace()
                .nth(1)
                .and_then(|word| word.parse().ok())
                .unwrap_or(0);
        } else {
            self.remark(text);
        }
    }

    fn remark(&mut self, text: &str) {
        let Some(test) = self.test.as_mut() else {
            return;
        };
        if let Some((_, reason)) = text.split_once("[SKIPPED]") {
            test.skip.get_or_insert_with(|| reason.trim().to_owned());
        }
        // A verdict may follow a remark on one line, and what ends a suite may follow a verdict.
        let says = |verdict: &str| {
            text.ends_with(verdict)
                || text
                    .strip_prefix(verdict)
                    .is_some_and(|rest| rest.starts_with("  "))
        };
        if says("passed") && !test.failed {
            test.passed = true;
        } else if says("FAILED") {
            test.failed = true;
        } else if test.failed && text.contains("CU_") && test.details.len() < 3 {
            test.details.push(text.to_owned());
        }
    }

    /// Counts the test that is open, if its verdict is known.
    fn close(&mut self) {
        let Some(test) = self.test.take_if(|test| test.passed || test.failed) else {
            return;
        };
        let name = format!("{}.{}", self.suite, test.name);
        if test.failed {
            self.failures
                .push(format!("{name} {}", test.details.join("; ")));
        } else if let Some(reason) = test.skip {
            self.skips.entry(reason).or_default().push(name);
        } else {
            self.passed += 1;
        }
    }

    fn skipped(&self) -> usize {
        self.skips.values().map(Vec::len).sum()
    }

    fn place(&self) -> String {
        match &self.test {
            Some(test) => format!("{}.{}", self.suite, test.name),
            None => format!("a test after {}", self.suite),
        }
    }

    /// Each reason with its tests; the suite runs a test once in each family that has it.
    fn reasons(&self) -> Vec<String> {
        self.skips
            .iter()
            .map(|(reason, tests)| {
                let mut unique = tests.clone();
                unique.sort_unstable();
                unique.dedup();
                let why = WHY.iter().find(|(begins, _)| reason.starts_with(begins));
                let why = why.map_or(String::new(), |(_, why)| format!(" [{why}]"));
                format!("{reason}{why}: {}", unique.join(", "))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Log;

    #[test]
    fn verdicts_are_told_apart() {
        let mut log = Log::default();
        let text = "Suite: CompareAndWrite\n  Test: Simple ...    [SKIPPED] no CAW.\n    [SKIPPED] no CAW.\npassed\n\
                    Suite: Read10\n  Test: Simple ...passed\n  Test: BeyondEol ...FAILED\n\
                    \x20   1. test_read10.c:1  - CU_ASSERT_EQUAL(_r,0)\n  Test: Last ...\n    Send READ10\npassed    Send \
                    PRIN/READ_KEYS\n\nRun Summary: Type  Total  Ran\n\
                    \x20            suites  2  2\n              tests  4  4  3  1  0\n";
        text.lines().for_each(|line| log.read(line));
        assert!(log.complete);
        assert_eq!(log.ran, 4);
        assert_eq!((log.passed, log.failures.len(), log.skipped()), (2, 1, 1));
        assert!(log.failures[0].starts_with("Read10.BeyondEol 1. test_read10.c"));
        assert_eq!(log.reasons(), ["no CAW.: CompareAndWrite.Simple"]);
    }

    #[test]
    fn an_unfinished_suite_is_not_complete() {
        let mut log = Log::default();
        ["Suite: Read10", "  Test: Hangs ..."]
            .iter()
            .for_each(|line| log.read(line));
        assert!(!log.complete);
        assert_eq!(log.place(), "Read10.Hangs");
    }
}
