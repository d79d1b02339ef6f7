//! IOmeter configuration from a stranger. There is never a panic, and an error names a line that
//! the file has. A configuration that was read keeps its meaning when it is written and read again.
//!
//! Input: the file.

use iometer::read::{ReadError, read};
use iometer::write::write;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match read(&text) {
        Err(ReadError { line, reason }) => {
            assert!(
                (1..=text.lines().count().max(1)).contains(&line),
                "line {line}"
            );
            assert!(!reason.is_empty());
        }
        Ok(configuration) => {
            let specifications = configuration.access_specifications.iter().flatten();
            specifications.for_each(|specification| assert_eq!(specification.check(), Ok(())));
            // Not every configuration that is understood can be written: a name may begin with an
            // apostrophe.
            if let Ok(written) = write(&configuration) {
                assert_eq!(
                    read(&written),
                    Ok(configuration),
                    "another meaning when written"
                );
            }
        }
    }
}
