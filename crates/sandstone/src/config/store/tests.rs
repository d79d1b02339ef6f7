//! Crashes at every step of a save, torn files, locks, history and going back.

use std::os::unix::fs::PermissionsExt as _;

use super::super::validate::tests::good;
use super::*;

const STEPS: [SaveStep; 5] = [
    SaveStep::Written,
    SaveStep::Synced,
    SaveStep::Kept,
    SaveStep::Renamed,
    SaveStep::Durable,
];

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn generation(number: u64) -> Config {
    let mut config = good();
    config.generation = number;
    config.hosts[0].name = format!("esx-{number}");
    config.maps[0].host = Some(config.hosts[0].name.clone());
    config
}

/// A folder whose configuration is `generation(1)`.
fn saved() -> tempfile::TempDir {
    let dir = folder();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    store.save(&generation(1)).unwrap();
    dir
}

#[test]
fn a_new_folder_is_private_and_has_an_identity() {
    let dir = folder();
    let path = dir.path().join("state");
    let (_, config) = Store::open(&path).unwrap();
    assert_eq!(config.identity.installation.len(), 9);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("config.toml")), 0o600);
    let (_, again) = Store::open(&path).unwrap();
    assert_eq!(again, config);
}

#[test]
fn what_is_saved_is_read_back() {
    let dir = saved();
    let (_, config) = Store::open(dir.path()).unwrap();
    assert_eq!(config, generation(1));
}

#[test]
fn a_crash_at_any_step_leaves_the_old_or_the_new_configuration() {
    for crash in STEPS {
        let dir = saved();
        // The store is dropped with the files as they were at the step: what a crash leaves, but
        // for the undoing of a rename, which the copy taken at the step does not see.
        let copy = folder();
        {
            let (mut store, _) = Store::open(dir.path()).unwrap();
            let outcome = store.save_observed(&generation(2), &mut |step| {
                if step == crash {
                    copy_folder(dir.path(), copy.path());
                    return Err(io::Error::other("crash"));
                }
                Ok(())
            });
            assert!(outcome.is_err());
        }
        let (mut store, config) = Store::open(copy.path()).unwrap();
        let expected = if crash < SaveStep::Renamed {
            generation(1)
        } else {
            generation(2)
        };
        assert_eq!(config, expected, "after a crash at {crash:?}");
        store.save(&generation(3)).unwrap();
        assert!(!copy.path().join("config.toml.new").exists());
        let (_, undone) = Store::open(dir.path()).unwrap();
        assert_eq!(
            undone,
            generation(1),
            "a save that failed at {crash:?} must not be in force"
        );
    }
}

#[test]
fn a_torn_temporary_file_is_ignored() {
    let dir = saved();
    let text = render(&generation(2)).unwrap();
    for cut in [0, 1, text.len() / 2, text.len() - 1] {
        fs::write(dir.path().join("config.toml.new"), &text[..cut]).unwrap();
        let (_, config) = Store::open(dir.path()).unwrap();
        assert_eq!(config, generation(1));
    }
}

#[test]
fn every_truncation_and_every_flipped_byte_is_noticed() {
    let text = render(&generation(1)).unwrap();
    for cut in 0..text.len() {
        assert!(parse(&text[..cut]).is_err(), "cut at {cut}");
    }
    for index in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[index] ^= 1;
        let Ok(flipped) = String::from_utf8(bytes) else {
            continue;
        };
        // Words of the first line that carry no meaning may change; the configuration may not.
        if let Ok(config) = parse(&flipped) {
            assert_eq!(config, generation(1), "byte {index}");
        }
    }
}

#[test]
fn a_damaged_file_names_the_last_good_generation_and_the_way_back() {
    let dir = saved();
    {
        let (mut store, _) = Store::open(dir.path()).unwrap();
        store.save(&generation(2)).unwrap();
        store.save(&generation(3)).unwrap();
    }
    fs::write(dir.path().join("config.toml"), "torn").unwrap();
    fs::write(dir.path().join("history/config.2.toml"), "torn too").unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert!(
        error.message.contains("the last good generation is 1"),
        "{error}"
    );
    assert!(
        error
            .next
            .starts_with("sandstone config rollback 1 --state "),
        "{}",
        error.next
    );
    let recovered = Store::recover(dir.path(), 1).unwrap();
    assert_eq!(recovered.hosts, generation(1).hosts);
    assert!(recovered.generation > 3);
    assert_eq!(
        fs::read_to_string(dir.path().join("config.toml.damaged")).unwrap(),
        "torn"
    );
    let (_, config) = Store::open(dir.path()).unwrap();
    assert_eq!(config, recovered);
}

#[test]
fn a_missing_file_with_a_history_is_not_a_new_folder() {
    let dir = saved();
    fs::remove_file(dir.path().join("config.toml")).unwrap();
    assert_eq!(
        Store::open(dir.path()).unwrap_err().kind,
        ErrorKind::Corrupt
    );
}

#[test]
fn a_file_of_a_newer_version_is_not_misread() {
    let text = render(&generation(1))
        .unwrap()
        .replacen("format 1", "format 2", 1);
    assert!(parse(&text).unwrap_err().contains("newer version"));
}

#[test]
fn two_daemons_never_share_a_folder() {
    let dir = saved();
    let (_held, _) = Store::open(dir.path()).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Locked);
    assert!(
        error
            .message
            .contains(&format!("process {}", std::process::id())),
        "{error}"
    );
    assert_eq!(
        Store::recover(dir.path(), 1).unwrap_err().kind,
        ErrorKind::Locked
    );
}

#[test]
fn earlier_generations_are_kept_to_a_limit() {
    let dir = saved();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    for number in 2..=HISTORY as u64 + 10 {
        store.save(&generation(number)).unwrap();
    }
    let kept = store.generations().unwrap();
    assert_eq!(kept.len(), HISTORY);
    assert_eq!(kept.last(), Some(&(HISTORY as u64 + 9)));
    assert_eq!(store.generation(20).unwrap(), generation(20));
    let error = store.generation(1).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("kept are: 10, 11"), "{error}");
}

#[test]
fn a_refused_change_is_taken_back() {
    let dir = saved();
    let (mut store, before) = Store::open(dir.path()).unwrap();
    store.save(&generation(2)).unwrap();
    store.revert(&before).unwrap();
    assert!(
        !store.generations().unwrap().contains(&2),
        "what was never in force is no generation to go back to"
    );
    drop(store);
    let (_, config) = Store::open(dir.path()).unwrap();
    assert_eq!(config, generation(1));
}

#[test]
fn an_invalid_configuration_is_never_stored() {
    let dir = saved();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let mut config = generation(2);
    config.maps[0].unit = "none".into();
    assert_eq!(store.save(&config).unwrap_err().kind, ErrorKind::NotFound);
    drop(store);
    assert_eq!(Store::open(dir.path()).unwrap().1, generation(1));
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
