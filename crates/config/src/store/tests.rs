//! Faults at every step of a save, damaged files, locks, history and going back.

use std::os::unix::fs::PermissionsExt as _;

use super::super::history::NotedChange;
use super::super::validate::tests::good;
use super::*;
use state_folder::steps::{Step, faults};

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

/// Returns a folder whose configuration is `generation(1)`.
fn saved() -> tempfile::TempDir {
    let dir = folder();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    store.save(&generation(1), &Note::default()).unwrap();
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
fn a_folder_is_free_although_another_process_has_its_descriptor_still() {
    let dir = saved();
    let (store, _) = Store::open(dir.path()).unwrap();
    let inherited = store._lock.0.try_clone().unwrap();
    assert_eq!(Store::open(dir.path()).unwrap_err().kind, ErrorKind::Locked);
    drop(store);
    Store::open(dir.path()).unwrap();
    drop(inherited);
}

#[test]
fn what_is_saved_is_read_back() {
    let dir = saved();
    let (_, config) = Store::open(dir.path()).unwrap();
    assert_eq!(config, generation(1));
}

#[test]
fn a_save_that_fails_at_any_step_leaves_the_old_configuration_in_force() {
    // The disk is full, became read-only, or fails once: all steps of a save and more.
    for at in 0..12 {
        for kind in [
            io::ErrorKind::StorageFull,
            io::ErrorKind::ReadOnlyFilesystem,
            io::ErrorKind::Other,
        ] {
            let dir = saved();
            let (mut store, _) = Store::open(dir.path()).unwrap();
            let mut once = true;
            let is_hit = move |step| match kind {
                io::ErrorKind::StorageFull => {
                    matches!(step, Step::Create | Step::Write | Step::Sync)
                }
                _ => true,
            };
            let mut fault = faults::from(at, kind, is_hit);
            let fault = move |step| match fault(step) {
                Err(_) if kind == io::ErrorKind::Other && !once => Ok(()),
                outcome => {
                    once &= outcome.is_ok();
                    outcome
                }
            };
            let outcome = faults::during(fault, || store.save(&generation(2), &Note::default()));
            if outcome.is_ok() {
                assert!(at >= 4, "{kind:?} at {at} was not noticed");
                continue;
            }
            let error = outcome.unwrap_err();
            drop(store);
            let (mut store, config) = Store::open(dir.path()).unwrap();
            if error.message.contains("could not be restored") {
                // The file had its name already, and the disk failed twice.
                assert!(
                    kind == io::ErrorKind::ReadOnlyFilesystem && at >= 4,
                    "{kind:?} at {at}"
                );
                assert!(config == generation(1) || config == generation(2));
            } else {
                assert_eq!(config, generation(1), "{kind:?} at {at}");
                assert_eq!(store.notice(), None, "{kind:?} at {at}");
            }
            store.save(&generation(3), &Note::default()).unwrap();
        }
    }
}

#[test]
fn a_crash_at_any_step_leaves_the_old_or_the_new_configuration() {
    for at in 0..9 {
        let dir = saved();
        let copy = folder();
        let (mut store, _) = Store::open(dir.path()).unwrap();
        let (from, to) = (dir.path().to_owned(), copy.path().to_owned());
        let mut step = 0;
        let crash = move |_| {
            if step == at {
                copy_folder(&from, &to);
            }
            step += 1;
            Ok(())
        };
        faults::during(crash, || store.save(&generation(2), &Note::default())).unwrap();
        let Ok((mut store, config)) = Store::open(copy.path()) else {
            panic!("a crash at step {at}");
        };
        let is_old = config == generation(1);
        assert!(is_old || config == generation(2), "a crash at step {at}");
        store.save(&generation(3), &Note::default()).unwrap();
        assert_eq!(
            Store::open(dir.path()).err().map(|e| e.kind),
            Some(ErrorKind::Locked)
        );
    }
}

/// Puts the backup of another machine in force in a folder that no daemon uses.
fn restore(folder: &Path) -> Result<Replaced, Error> {
    let backup = Replacement::Backup(Box::new(generation(7)));
    Store::replace(folder, &backup, Some(NotedChange::default()))
}

/// Returns the hosts, which tell the configurations apart.
fn hosts(folder: &Path) -> Vec<model::config::HostSpec> {
    Store::open(folder).unwrap().1.hosts
}

#[test]
fn a_restore_that_fails_at_any_step_leaves_the_old_configuration_in_force() {
    for at in 0..12 {
        let dir = saved();
        let failed = faults::during(faults::read_only(at), || restore(dir.path()));
        let expected = match failed {
            Ok(_) => generation(7),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Storage, "step {at}: {error}");
                generation(1)
            }
        };
        // If undoing failed as well, neither configuration could be promised.
        let found = hosts(dir.path());
        assert!(
            [expected.hosts, generation(7).hosts].contains(&found),
            "step {at}"
        );
        assert_eq!(
            restore(dir.path()).unwrap().config.hosts,
            generation(7).hosts
        );
        assert_eq!(hosts(dir.path()), generation(7).hosts);
    }
}

#[test]
fn a_power_cut_at_any_step_of_a_restore_leaves_the_old_configuration_or_the_backup() {
    // The machine has a configuration, is bare, or has damaged files.
    let bare = || {
        let dir = folder();
        drop(Store::open(dir.path()).unwrap());
        dir
    };
    let damaged = || {
        let dir = saved();
        fs::write(dir.path().join("config.toml"), "torn").unwrap();
        dir
    };
    let sites: [(&dyn Fn() -> tempfile::TempDir, Vec<_>); 3] = [
        (&saved, generation(1).hosts),
        (&bare, Vec::new()),
        (&damaged, generation(1).hosts),
    ];
    for (site, old) in sites {
        for at in 0..9 {
            let (dir, copy) = (site(), folder());
            let (from, to) = (dir.path().to_owned(), copy.path().to_owned());
            let mut step = 0;
            let cut = move |_| {
                if step == at {
                    copy_folder(&from, &to);
                }
                step += 1;
                Ok(())
            };
            faults::during(cut, || restore(dir.path())).unwrap();
            assert_eq!(hosts(dir.path()), generation(7).hosts);
            if !copy.path().join("history").exists() {
                // The save was over before that step.
                continue;
            }
            let found = hosts(copy.path());
            assert!(found == old || found == generation(7).hosts, "step {at}");
            assert_eq!(
                restore(copy.path()).unwrap().config.hosts,
                generation(7).hosts
            );
        }
    }
}

#[test]
fn a_torn_temporary_file_is_ignored() {
    let dir = saved();
    let text = render(&generation(2), &Note::default()).unwrap();
    for cut in [0, 1, text.len() / 2, text.len() - 1] {
        fs::write(dir.path().join("config.toml.new"), &text[..cut]).unwrap();
        let (_, config) = Store::open(dir.path()).unwrap();
        assert_eq!(config, generation(1));
    }
}

#[test]
fn every_truncation_and_every_flipped_byte_is_noticed() {
    let vault = Vault::of(Arc::new(SecretKey::of(&[7; 32])));
    let text = render(&generation(1), &Note::default()).unwrap();
    for cut in 0..text.len() {
        assert!(parse(&text[..cut], Some(&vault)).is_err(), "cut at {cut}");
    }
    for index in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[index] ^= 1;
        let Ok(flipped) = String::from_utf8(bytes) else {
            continue;
        };
        // Words of the first line without meaning may change; the configuration may not.
        if let Ok(config) = parse(&flipped, Some(&vault)) {
            assert_eq!(config, generation(1), "byte {index}");
        }
    }
}

/// Returns a folder with `generation(3)` in force after `generation(2)`.
fn saved_three_times() -> tempfile::TempDir {
    let dir = saved();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    store.save(&generation(2), &Note::default()).unwrap();
    store.save(&generation(3), &Note::default()).unwrap();
    dir
}

#[test]
fn a_damaged_torn_older_or_missing_file_costs_nothing_while_its_copy_is_whole() {
    let path = |dir: &tempfile::TempDir| dir.path().join("config.toml");
    type Damage = fn(&Path, &Path);
    let damages: [(&str, Damage); 5] = [
        ("garbage", |file, _| fs::write(file, [0xff; 100]).unwrap()),
        ("empty", |file, _| fs::write(file, "").unwrap()),
        ("torn", |file, _| {
            let text = fs::read(file).unwrap();
            fs::write(file, &text[..text.len() / 2]).unwrap();
        }),
        ("older", |file, older| {
            let _bytes = fs::copy(older, file).unwrap();
        }),
        ("missing", |file, _| fs::remove_file(file).unwrap()),
    ];
    for (how, damage) in damages {
        let dir = saved_three_times();
        damage(&path(&dir), &dir.path().join("history/config.2.toml"));
        let (store, config) = Store::open(dir.path()).unwrap();
        assert_eq!(config, generation(3), "{how}");
        let notice = store.notice().expect("it is told");
        assert!(notice.contains("nothing is lost"), "{how}: {notice}");
        drop(store);
        let (store, config) = Store::open(dir.path()).unwrap();
        assert_eq!(
            (config, store.notice()),
            (generation(3), None),
            "{how}: put right"
        );
        // A damaged copy is another case: the file counts.
        drop(store);
        fs::write(dir.path().join("history/config.3.toml"), "torn").unwrap();
        assert_eq!(Store::open(dir.path()).unwrap().1, generation(3), "{how}");
    }
}

#[test]
fn a_file_and_copy_that_are_damaged_name_the_last_good_generation_and_the_way_back() {
    let dir = saved_three_times();
    fs::write(dir.path().join("config.toml"), "torn").unwrap();
    fs::write(dir.path().join("history/config.3.toml"), "torn").unwrap();
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
    let recovered = Store::replace(
        dir.path(),
        &Replacement::Generation(1),
        Some(NotedChange::default()),
    )
    .unwrap()
    .config;
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
fn a_folder_that_lost_its_configuration_is_not_a_new_one() {
    let dir = saved();
    fs::write(dir.path().join("pools.json"), "").unwrap();
    fs::remove_file(dir.path().join("config.toml")).unwrap();
    fs::remove_dir_all(dir.path().join("history")).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert!(error.next.contains("pool import -f"), "{}", error.next);
}

#[test]
fn a_folder_that_cannot_be_written_is_served_from() {
    let dir = saved();
    let full = || faults::full(0);
    let (_, config) = faults::during(full(), || Store::open(dir.path())).unwrap();
    assert_eq!(config, generation(1));
}

#[test]
fn a_file_of_a_newer_version_is_not_misread() {
    let text = render(&generation(1), &Note::default())
        .unwrap()
        .replacen("format 1", "format 2", 1);
    let unfit = parse(&text, None).unwrap_err();
    assert!(unfit.is_newer && unfit.reason.contains("newer version"));
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
        Store::replace(
            dir.path(),
            &Replacement::Generation(1),
            Some(NotedChange::default())
        )
        .unwrap_err()
        .kind,
        ErrorKind::Locked
    );
}

#[test]
fn earlier_generations_are_kept_to_a_limit() {
    let dir = saved();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    for number in 2..=HISTORY as u64 + 10 {
        store.save(&generation(number), &Note::default()).unwrap();
    }
    let kept = store.generations().unwrap();
    assert_eq!(kept.len(), HISTORY);
    assert_eq!(kept.last(), Some(&(HISTORY as u64 + 9)));
    assert_eq!(store.generation(20).unwrap(), generation(20));
    let error = store.generation(1).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(
        error.message.contains("the kept generations are: 10, 11"),
        "{error}"
    );
}

#[test]
fn a_refused_change_is_taken_back() {
    let dir = saved();
    let (mut store, before) = Store::open(dir.path()).unwrap();
    store.save(&generation(2), &Note::default()).unwrap();
    // The disk may be full by now.
    faults::during(faults::full(0), || store.revert(&before)).unwrap();
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
    assert_eq!(
        store.save(&config, &Note::default()).unwrap_err().kind,
        ErrorKind::NotFound
    );
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
