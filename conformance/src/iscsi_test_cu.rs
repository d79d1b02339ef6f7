//! Labs of libiscsi's conformance suite, in full and with data loss allowed, on every kind of unit.
//!
//! SANITIZE has a lab of its own, because of a fault in the suite up to 1.19.0. When one of the
//! "Reserved" tests skips itself, its hook on outgoing PDUs stays in place. When that test comes
//! again, as every test does in a full run, the hook calls itself without end. libiscsi's commit
//! cc3ddbff420c, "Improve robustness of the code that restores .queue_pdu()", is the cure. If each
//! test runs once, each ends.

mod log;
mod skips;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process;
use crate::servers::server::{Backend, Spec};

use log::Log;
use skips::Expected;

/// Longest silence of a test of the suite. A test that is silent for longer hangs.
const SILENCE: Duration = Duration::from_secs(45);
const LIMIT: Duration = Duration::from_secs(420);

/// Labs of the suite, one for each kind of logical unit, and one over two paths.
///
/// There is none on a pool with 4 KiB blocks, where the suite's WriteAtomic16.Simple must fail. The
/// suite's test writes up to 256 blocks. Of the limits in VPD page B0h, the test reads MAXIMUM
/// TRANSFER LENGTH alone. A pool writes at most 1 MiB, of whole volume blocks, all or none. 256
/// blocks of 4 KiB are 1 MiB, and touch one volume block more if they begin within one. So MAXIMUM
/// ATOMIC TRANSFER LENGTH is less, and longer writes have to be refused (SBC-4 5.50). An ATOMIC
/// TRANSFER LENGTH GRANULARITY of a volume block would satisfy the test, but would take shorter
/// atomic writes from everybody else.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "suite-memory-512",
        about: "iscsi-test-cu in full, memory, 512-byte blocks",
        room: Room::Shared,
        run: |bench| run(bench, Unit::new(Backend::Memory, 512), 1, &[], &skips::FULL),
    },
    Lab {
        name: "suite-memory-4k",
        about: "iscsi-test-cu in full, memory, 4 KiB blocks",
        room: Room::Shared,
        run: |bench| {
            run(
                bench,
                Unit::new(Backend::Memory, 4096),
                1,
                &[],
                &skips::FULL,
            )
        },
    },
    Lab {
        name: "suite-file-512",
        about: "iscsi-test-cu in full, file, 512-byte blocks",
        room: Room::Shared,
        run: |bench| run(bench, Unit::new(Backend::File, 512), 1, &[], &skips::FULL),
    },
    Lab {
        name: "suite-file-4k",
        about: "iscsi-test-cu in full, file, 4 KiB blocks",
        room: Room::Shared,
        run: |bench| run(bench, Unit::new(Backend::File, 4096), 1, &[], &skips::FULL),
    },
    Lab {
        name: "suite-pool-512",
        about: "iscsi-test-cu in full, thin volume of a pool, 512-byte blocks",
        room: Room::Shared,
        run: |bench| run(bench, Unit::new(Backend::Pool, 512), 1, &[], &skips::POOL),
    },
    Lab {
        name: "suite-two-paths",
        about: "iscsi-test-cu in full over two portals, so that its multipath tests run",
        room: Room::Shared,
        run: |bench| {
            run(
                bench,
                Unit::new(Backend::Memory, 512),
                2,
                &[],
                &skips::FULL_OVER_TWO_PATHS,
            )
        },
    },
    Lab {
        name: "suite-physical-4k",
        about: "iscsi-test-cu's tests that need several logical blocks in a physical one",
        room: Room::Shared,
        run: |bench| {
            run(
                bench,
                Unit {
                    physical_block_size: 4096,
                    ..Unit::new(Backend::Memory, 512)
                },
                1,
                &["--test=SCSI.[CW]*.[IU]n[vm]a*"],
                &skips::PHYSICAL_4K,
            )
        },
    },
    Lab {
        name: "suite-read-only",
        about: "iscsi-test-cu's tests of a write-protected unit",
        room: Room::Shared,
        run: |bench| {
            run(
                bench,
                Unit {
                    read_only: true,
                    ..Unit::new(Backend::Memory, 512)
                },
                1,
                &["--test=SCSI.ReadOnly"],
                &skips::READ_ONLY,
            )
        },
    },
    Lab {
        name: "suite-sanitize",
        about: "iscsi-test-cu's SANITIZE tests on a unit that offers it",
        room: Room::Shared,
        run: sanitize,
    },
];

/// Arguments that select all SANITIZE tests but Reset, by the last letter of their names.
const SANITIZE: &[&str] = &["--allow-sanitize", "--test=SCSI.Sanitize.*[!t]"];
const SANITIZE_RESET: &str = "Left out, because it wants a SANITIZE that takes longer than 3 s, which is the disk's affair [the daemon's own \
    test `a_sanitize_outlives_its_session` shows what it is about]: Sanitize.Reset";

fn sanitize(bench: &Bench) -> Result<Outcome> {
    let mut outcome = run(
        bench,
        Unit::new(Backend::Preallocated, 512),
        1,
        SANITIZE,
        &skips::SANITIZE,
    )?;
    if let Outcome::Passed { skips, .. } = &mut outcome {
        skips.push(SANITIZE_RESET.to_owned());
    }
    Ok(outcome)
}

/// Unit against which the suite runs.
#[derive(Clone, Copy)]
struct Unit {
    backend: Backend,
    block_size: u32,
    physical_block_size: u32,
    read_only: bool,
}

impl Unit {
    /// Makes a unit whose physical blocks are the logical ones. With larger ones
    /// GetLBAStatus.UnmapSingle must fail: it asks for the status of LBA i + 1, and expects an
    /// answer that begins at i plus a physical block.
    const fn new(backend: Backend, block_size: u32) -> Self {
        Self {
            backend,
            block_size,
            physical_block_size: block_size,
            read_only: false,
        }
    }
}

fn run(
    bench: &Bench,
    unit: Unit,
    paths: usize,
    options: &[&str],
    expected: &Expected,
) -> Result<Outcome> {
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
    // Without this, the suite's output into a pipe is held back, and a hang would have no name.
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
    let tests = log.passes + log.failures.len() + log.skipped();
    let figures = format!(
        "{tests} tests: {} passed, {} failed, {} skipped in {seconds:.0} s",
        log.passes,
        log.failures.len(),
        log.skipped()
    );
    alive?;
    // The peer promises nothing about tests that may be skipped.
    let violations = match bench.is_peer() {
        true => Vec::new(),
        false => expected.violations(&log),
    };
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
        Ok(_) if log.passes == 0 => bail!("{figures}: nothing ran"),
        Ok(_) if !violations.is_empty() => {
            bail!("{figures}\n    {}", violations.join("\n    "))
        }
        Ok(_) => Ok(Outcome::Passed {
            figures,
            skips: expected.reasons(&log),
        }),
    }
}
