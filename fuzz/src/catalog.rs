//! Catalogue of datasets, and the operations on it, from a disk that lies. There is never a panic.
//! An operation that does not fit changes nothing. After one that fits, the catalogue can be read.
//!
//! Input: lines of JSON, first a catalogue, then operations. If the first line is no catalogue, an
//! empty one is used.

use store::catalog::{Catalog, Operation};

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let mut catalog = Catalog::decode(first).unwrap_or_else(|_| Catalog::new(0, 1));
    check(&catalog);
    for line in lines {
        let Ok(operation) = Operation::decode(line) else {
            continue;
        };
        let again = Operation::decode(&operation.encode()).ok();
        assert_eq!(again.as_ref(), Some(&operation), "another meaning");
        let before = catalog.clone();
        match catalog.apply(&operation) {
            Ok(_) => check(&catalog),
            Err(_) => assert!(catalog == before, "a change that was refused"),
        }
    }
}

fn check(catalog: &Catalog) {
    match Catalog::decode(&catalog.encode()) {
        Ok(again) => assert!(again == *catalog, "another catalogue when written"),
        Err(error) => panic!("what was read cannot be read again: {error}"),
    }
}
