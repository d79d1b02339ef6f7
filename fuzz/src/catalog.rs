//! The catalogue of datasets and the operations on it, from a disk that lies: never a panic, an operation that
//! does not fit changes nothing, and after one that does the catalogue is one that can be read.
//!
//! Input: lines of JSON, first a catalogue, then operations. Where the first is none, an empty one is taken.

use store::catalog::{Catalog, Operation};

/// See the module.
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
