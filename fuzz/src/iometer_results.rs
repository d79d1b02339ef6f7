//! File of IOmeter's results that a spreadsheet or a stranger saved. There is never a panic, and an
//! error names a line that the file has. Every value read is a number that can be shown.
//!
//! Input: the file.

use iometer::read::ReadError;
use iometer::results::read;
use iometer::text::decode;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let text = decode(data);
    match read(&text) {
        Err(ReadError { line, reason }) => {
            assert!(
                (1..=text.lines().count().max(1)).contains(&line),
                "line {line}"
            );
            assert!(!reason.is_empty());
        }
        Ok(results) => {
            for test in &results.tests {
                let numbers = [test.iops, test.mean_ms, test.read.bytes, test.write.bytes];
                assert!(
                    numbers
                        .iter()
                        .all(|number| number.is_finite() && *number >= 0.0)
                );
            }
        }
    }
}
