//! A file of IOmeter's results that a spreadsheet or a stranger saved: never a panic, an error names a line that the file has,
//! and what was read is a number that can be shown.
//!
//! Input: the file.

use iometer::read::ReadError;
use iometer::results::read;
use iometer::text::decode;

/// See the module.
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
