//! Expectations of each lab of the suite: the tests that may be skipped, with the reasons, and the
//! tests that must pass.
//!
//! The suite treats a command that is not implemented as a reason to skip. So a command that
//! Sandstone no longer answers would fail nothing. Therefore a skip that is not listed here fails
//! its lab.

use super::log::Log;

/// Tests that the suite is right to skip.
#[derive(Debug)]
pub(super) struct Skip {
    /// Beginning of the suite's own reason.
    begins: &'static str,
    /// Explanation of the skip, or the place where these tests run.
    why: &'static str,
    /// Tests that may give the reason.
    tests: &'static [&'static str],
}

/// Expectations of a lab.
#[derive(Debug)]
pub(super) struct Expected {
    /// Skips that are allowed.
    skips: &'static [&'static Skip],
    /// Tests that must pass, because the lab is for them.
    passes: &'static [&'static str],
}

impl Expected {
    /// Returns the skips that are not allowed, and the tests that should have passed and did not.
    pub(super) fn violations(&self, log: &Log) -> Vec<String> {
        let skipped = log.skips.iter();
        let skipped =
            skipped.flat_map(|(reason, tests)| tests.iter().map(move |test| (reason, test)));
        let mut violations: Vec<String> = skipped
            .filter(|(reason, test)| {
                !self.skips.iter().any(|skip| {
                    reason.starts_with(skip.begins) && skip.tests.contains(&test.as_str())
                })
            })
            .map(|(reason, test)| format!("{test} was skipped and must not be: {reason}"))
            .collect();
        violations.sort_unstable();
        violations.dedup();
        let missed = self
            .passes
            .iter()
            .filter(|test| !log.passed.contains(**test));
        violations
            .extend(missed.map(|test| format!("{test} did not pass, and this lab is for it")));
        violations
    }

    /// Returns each reason with its explanation and its tests. The suite runs a test once in each
    /// family that has it.
    pub(super) fn reasons(&self, log: &Log) -> Vec<String> {
        let reason = |(reason, tests): (&String, &Vec<String>)| {
            let mut unique = tests.clone();
            unique.sort_unstable();
            unique.dedup();
            let why = self
                .skips
                .iter()
                .find(|skip| reason.starts_with(skip.begins));
            let why = why.map_or(String::new(), |skip| format!(" [{}]", skip.why));
            format!("{reason}{why}: {}", unique.join(", "))
        };
        log.skips.iter().map(reason).collect()
    }
}

/// Expectations of the suite in full on memory and files.
pub(super) const FULL: Expected = Expected {
    skips: &[
        &SANITIZE_NOT_ALLOWED,
        &NO_LARGER_PHYSICAL_BLOCKS,
        &ONE_PATH,
        &NOT_REMOVABLE,
        &MEDIUM_NOT_REMOVABLE,
        &WRITABLE,
        &COLD_RESET,
        &NOT_ATOMIC,
        &WRITE_SAME_10_OF_ALL,
        &WRITE_SAME_16_OF_ALL,
    ],
    passes: &[],
};

/// Expectations of the suite in full over two paths.
pub(super) const FULL_OVER_TWO_PATHS: Expected = Expected {
    skips: &[
        &SANITIZE_NOT_ALLOWED,
        &NO_LARGER_PHYSICAL_BLOCKS,
        &NOT_REMOVABLE,
        &MEDIUM_NOT_REMOVABLE,
        &WRITABLE,
        &COLD_RESET,
        &NOT_ATOMIC,
        &WRITE_SAME_10_OF_ALL,
        &WRITE_SAME_16_OF_ALL,
    ],
    passes: ONE_PATH.tests,
};

/// Expectations of the suite in full on a volume of a pool.
pub(super) const POOL: Expected = Expected {
    skips: &[
        &SANITIZE_NOT_ALLOWED,
        &NO_LARGER_PHYSICAL_BLOCKS,
        &ONE_PATH,
        &NOT_REMOVABLE,
        &MEDIUM_NOT_REMOVABLE,
        &WRITABLE,
        &COLD_RESET,
        &WRITE_SAME_10_OF_ALL,
        &WRITE_SAME_16_OF_ALL,
    ],
    passes: NOT_ATOMIC.tests,
};

/// Expectations of tests that need several logical blocks in a physical one.
pub(super) const PHYSICAL_4K: Expected = Expected {
    skips: &[],
    passes: NO_LARGER_PHYSICAL_BLOCKS.tests,
};

/// Expectations of tests that need a write-protected unit.
pub(super) const READ_ONLY: Expected = Expected {
    skips: &[],
    passes: WRITABLE.tests,
};

/// Expectations of SANITIZE on a file.
pub(super) const SANITIZE: Expected = Expected {
    skips: &[&NO_BLOCK_ERASE, &NO_CRYPTO_ERASE],
    passes: &[
        "Sanitize.BlockEraseReserved",
        "Sanitize.CryptoEraseReserved",
        "Sanitize.ExitFailureMode",
        "Sanitize.InvalidServiceAction",
        "Sanitize.Overwrite",
        "Sanitize.OverwriteReserved",
    ],
};

const SANITIZE_NOT_ALLOWED: Skip = Skip {
    begins: "--allow-sanitize",
    why: "suite-sanitize runs them",
    tests: &[
        "Sanitize.BlockErase",
        "Sanitize.BlockEraseReserved",
        "Sanitize.CryptoErase",
        "Sanitize.CryptoEraseReserved",
        "Sanitize.ExitFailureMode",
        "Sanitize.InvalidServiceAction",
        "Sanitize.Overwrite",
        "Sanitize.OverwriteReserved",
        "Sanitize.Readonly",
        "Sanitize.Reservations",
        "Sanitize.Reset",
    ],
};
const NO_LARGER_PHYSICAL_BLOCKS: Skip = Skip {
    begins: "LBPPB < 2",
    why: "suite-physical-4k runs them",
    tests: &[
        "CompareAndWrite.InvalidDataOutSize",
        "WriteSame10.InvalidDataOutSize",
        "WriteSame10.UnmapUnaligned",
        "WriteSame16.InvalidDataOutSize",
        "WriteSame16.UnmapUnaligned",
    ],
};
const ONE_PATH: Skip = Skip {
    begins: "Multipath unavailable",
    why: "suite-two-paths runs them",
    tests: &[
        "MultipathIO.CompareAndWrite",
        "MultipathIO.CompareAndWriteAsync",
        "MultipathIO.Reset",
        "MultipathIO.Simple",
    ],
};
const NOT_REMOVABLE: Skip = Skip {
    begins: "Logical unit is not removable",
    why: "no unit of Sandstone is",
    tests: &[
        "PreventAllow.2ITNexuses",
        "PreventAllow.ColdReset",
        "PreventAllow.Eject",
        "PreventAllow.ITNexusLoss",
        "PreventAllow.LUNReset",
        "PreventAllow.Logout",
        "PreventAllow.Simple",
        "PreventAllow.WarmReset",
    ],
};
const MEDIUM_NOT_REMOVABLE: Skip = Skip {
    begins: "Media is not removable",
    why: "no unit of Sandstone is",
    tests: &["StartStopUnit.Simple"],
};
const WRITABLE: Skip = Skip {
    begins: "Logical unit is not write-protected",
    why: "suite-read-only runs it",
    tests: &["ReadOnly.ReadOnlySBC"],
};
const COLD_RESET: Skip = Skip {
    begins: "Task Management functionfor ColdReset",
    why: "it ends every session, that of the question too (RFC 7143 section 11.5.1)",
    tests: &["Reserve6.TargetColdReset"],
};
const NOT_ATOMIC: Skip = Skip {
    begins: "WRITEATOMIC16 is not implemented",
    why: "memory and files do not write several blocks all or none, so it is not offered; suite-pool-512 runs them",
    tests: &[
        "WriteAtomic16.BeyondEol",
        "WriteAtomic16.DpoFua",
        "WriteAtomic16.Simple",
        "WriteAtomic16.VPD",
        "WriteAtomic16.WriteProtect",
        "WriteAtomic16.ZeroBlocks",
    ],
};
const WRITE_SAME_10_OF_ALL: Skip = Skip {
    begins: "WRITESAME10 does not support 0-blocks",
    why: "WSNZ = 1: a mistyped command must not overwrite all",
    tests: &["WriteSame10.ZeroBlocks"],
};
const WRITE_SAME_16_OF_ALL: Skip = Skip {
    begins: "WRITESAME16 does not support 0-blocks",
    why: "WSNZ = 1: a mistyped command must not overwrite all",
    tests: &["WriteSame16.ZeroBlocks"],
};
const NO_BLOCK_ERASE: Skip = Skip {
    begins: "SANITIZE BLOCK_ERASE is not implemented",
    why: "a file cannot promise that its disk forgets",
    tests: &[
        "Sanitize.BlockErase",
        "Sanitize.Readonly",
        "Sanitize.Reservations",
    ],
};
const NO_CRYPTO_ERASE: Skip = Skip {
    begins: "SANITIZE CRYPTO_ERASE is not implemented",
    why: "a file is not encrypted",
    tests: &["Sanitize.CryptoErase"],
};

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Log {
        let mut log = Log::default();
        text.lines().for_each(|line| log.read(line));
        log.close();
        log
    }

    /// Output with one of the tests that may be skipped, for this reason.
    const SKIPPED: &str = "Suite: WriteSame10\n  Test: ZeroBlocks ...\n    [SKIPPED] WRITESAME10 does not support 0-blocks.\npassed\n";
    const PASSED: &str = "Suite: MultipathIO\n  Test: CompareAndWrite ...passed\n  Test: CompareAndWriteAsync ...passed\n\
                          \x20 Test: Reset ...passed\n  Test: Simple ...passed\n";

    #[test]
    fn what_is_listed_may_be_skipped() {
        let log = log(SKIPPED);
        assert!(FULL.violations(&log).is_empty());
        let why = "WRITESAME10 does not support 0-blocks. [WSNZ = 1: a mistyped command must not overwrite all]: WriteSame10.ZeroBlocks";
        assert_eq!(FULL.reasons(&log), [why]);
    }

    #[test]
    fn another_test_or_another_reason_is_a_violation() {
        let other = log(
            "Suite: Read10\n  Test: Simple ...\n    [SKIPPED] READ10 is not implemented.\npassed\n",
        );
        let told = "Read10.Simple was skipped and must not be: READ10 is not implemented.";
        assert_eq!(FULL.violations(&other), [told]);
        let reason = "Suite: WriteSame10\n  Test: ZeroBlocks ...\n    [SKIPPED] WRITESAME10 is not implemented.\npassed\n";
        assert_eq!(FULL.violations(&log(reason)).len(), 1);
        let test = SKIPPED.replace("ZeroBlocks", "Simple");
        assert_eq!(FULL.violations(&log(&test)).len(), 1);
    }

    #[test]
    fn what_a_lab_is_for_must_pass() {
        assert!(FULL_OVER_TWO_PATHS.violations(&log(PASSED)).is_empty());
        let one_missing = PASSED.replace("  Test: Simple ...passed\n", "");
        let told = "MultipathIO.Simple did not pass, and this lab is for it";
        assert_eq!(FULL_OVER_TWO_PATHS.violations(&log(&one_missing)), [told]);
        let skipped = PASSED.replace(
            "Simple ...passed",
            "Simple ...\n    [SKIPPED] Multipath unavailable. Skipping test\npassed",
        );
        assert_eq!(FULL_OVER_TWO_PATHS.violations(&log(&skipped)).len(), 2);
        assert!(FULL.violations(&log(&skipped)).is_empty());
    }
}
