//! Reader of the suite's verbose output.

use std::collections::{BTreeMap, BTreeSet};

/// Content of the suite's verbose output: `Suite: S`, `  Test: T ...passed`. `[SKIPPED] reason` and
/// other remarks may stand between the dots and the verdict.
#[derive(Debug, Default)]
pub(super) struct Log {
    suite: String,
    test: Option<Test>,
    /// Number of times that a test passed.
    pub(super) passes: usize,
    /// Names of the tests that passed.
    pub(super) passed: BTreeSet<String>,
    pub(super) failures: Vec<String>,
    /// Reasons, and the tests that gave each.
    pub(super) skips: BTreeMap<String, Vec<String>>,
    pub(super) complete: bool,
    /// Number of tests that ran, by the suite's own count.
    pub(super) ran: usize,
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
    pub(super) fn read(&mut self, line: &str) {
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
        // A verdict may follow a remark on one line, and the end mark of a suite may follow a
        // verdict.
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
    pub(super) fn close(&mut self) {
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
            self.passes += 1;
            self.passed.insert(name);
        }
    }

    pub(super) fn skipped(&self) -> usize {
        self.skips.values().map(Vec::len).sum()
    }

    pub(super) fn place(&self) -> String {
        match &self.test {
            Some(test) => format!("{}.{}", self.suite, test.name),
            None => format!("a test after {}", self.suite),
        }
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
        assert_eq!((log.passes, log.failures.len(), log.skipped()), (2, 1, 1));
        assert!(log.failures[0].starts_with("Read10.BeyondEol 1. test_read10.c"));
        assert!(log.passed.iter().eq(["Read10.Last", "Read10.Simple"]));
        assert_eq!(log.skips["no CAW."], ["CompareAndWrite.Simple"]);
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
