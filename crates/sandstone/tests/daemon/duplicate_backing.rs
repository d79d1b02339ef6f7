//! Two logical units never share a file, whether by another path or by another daemon.

use std::path::{Path, PathBuf};

use crate::served::{self, Served, sense, unit, write};
use config::change::{Change, CreateUnit};
use control::Transactions;
use control::transaction::Commit;
use model::config::BackendSpec;
use model::data_plane::UnitStatus;

const SIZE: u64 = 1 << 20;

fn file(path: &Path) -> BackendSpec {
    BackendSpec::File {
        path: path.to_owned(),
        size: SIZE,
        preallocate: false,
    }
}

fn create(served: &Served, path: &Path) -> Result<(), model::Error> {
    let request = CreateUnit {
        name: "second".into(),
        backend: file(path),
        block_size: 512,
        physical_block_size: Some(512),
        new_volume: None,
        write_cache: false,
        read_only: false,
        thin: None,
        naa: None,
        serial: None,
        threshold_percent: None,
    };
    transactions(served)
        .commit(&Change::CreateUnit(request), &Commit::default())
        .map(drop)
}

fn transactions(served: &Served) -> &Transactions {
    served.daemon.as_ref().unwrap().transactions()
}

fn units(served: &Served) -> Vec<UnitStatus> {
    transactions(served).data_plane().units()
}

/// Creates a file for a unit.
fn disk(folder: &Path) -> PathBuf {
    let path = folder.join("disk.img");
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    path
}

#[test]
fn a_second_unit_over_the_same_file_is_refused_by_the_name_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = disk(folder.path());
    let served = Served::start(vec![unit("first", 1, file(&path))]);
    let mut session = served.log_in(1);
    assert_eq!(sense(&write(&mut session, 0, &[7; 512])), None);
    let symbolic = folder.path().join("symbolic.img");
    std::os::unix::fs::symlink(&path, &symbolic).unwrap();
    let hard = folder.path().join("hard.img");
    std::fs::hard_link(&path, &hard).unwrap();
    for other in [&symbolic, &hard] {
        let error = create(&served, other).unwrap_err();
        assert!(error.message.contains("lu first"), "{other:?}: {error:?}");
        assert!(other.exists(), "nothing is removed");
    }
    assert_eq!(units(&served).len(), 1);
    assert_eq!(served::read(&mut session, 0, 1), [7; 512]);
    create(&served, &folder.path().join("other.img")).unwrap();
}

#[test]
fn a_second_daemon_does_not_serve_a_file_that_the_first_has_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = disk(folder.path());
    let mut first = Served::start(vec![unit("first", 1, file(&path))]);
    let link = folder.path().join("link.img");
    std::fs::hard_link(&path, &link).unwrap();
    let second = Served::start(vec![unit("second", 1, file(&link))]);
    let faults = |served: &Served| units(served)[0].fault.clone();
    assert_eq!(faults(&first), None);
    let fault = faults(&second).unwrap();
    assert!(fault.contains("in use by another process"), "{fault}");
    first.stop();
    drop(second);
    let second = Served::start(vec![unit("second", 1, file(&link))]);
    assert_eq!(faults(&second), None);
}
