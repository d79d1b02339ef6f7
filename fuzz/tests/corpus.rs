//! Replay of every committed seed, so that a fault that a fuzzer once found is also found without a
//! fuzzer.

use std::fs;
use std::path::Path;

#[test]
fn every_seed_of_every_target_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in fuzz::TARGETS {
        let folder = corpus.join(name);
        let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut seeds = 0;
        for entry in entries {
            let path = entry
                .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
                .path();
            let data = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            eprintln!("{}", path.display());
            target(&data);
            seeds += 1;
        }
        assert!(seeds > 0, "{} holds no seed", folder.display());
    }
}

#[test]
fn no_input_is_no_harm() {
    for (_, target) in fuzz::TARGETS {
        target(&[]);
        target(&[0]);
        target(&[0xff; 4096]);
    }
}
