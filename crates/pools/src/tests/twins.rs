//! Tests of disks and their copies: a search that finds both reports it, and no pool is served from
//! the wrong one.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::super::{PoolVolume, Pools};
use super::{FILE, create_volume, cut, pattern, pools, read, request, with_volume, write};
use crate::administer::check::check;
use crate::devices::known::{KnownDevice, KnownPool, PoolList};
use block::Lane;
use model::pool::check::CheckPool;
use model::pool::dataset::change::DatasetChange;
use model::pool::found::FoundPool;
use model::pool::import::ImportPool;
use model::pool::reguid::ReguidPool;
use model::pool::vdev_change::VdevChange;
use model::pool::vdev_request::{VdevKind, VdevRequest};
use model::{Error, ErrorKind};

/// Number of blocks that are written: as many as the mirror that lost all of them had.
const BLOCKS: u64 = 2048;
const BLOCK: usize = 4096;
const LABEL: u64 = 256 << 10;

/// Copies a file as an administrator does.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .arg("--sparse=always")
        .args([from, to])
        .status();
    assert!(copied.expect("cp").success(), "{from:?}");
}

fn import(paths: &[&Path]) -> ImportPool {
    ImportPool {
        pool: Some("tank".to_owned()),
        paths: paths.iter().map(|path| path.to_path_buf()).collect(),
        ..ImportPool::default()
    }
}

fn twins_of(error: &Error, paths: &[&Path]) {
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.message.contains("have one identity"), "{error}");
    for path in paths {
        let line = format!("\n  {}: checkpoint ", path.display());
        assert!(error.message.contains(&line), "{line} in {error}");
    }
    assert!(error.next.contains("sandstone pool reguid -d"), "{error}");
}

fn open(pools: &Arc<Pools>) -> (PoolVolume, Lane) {
    let volume = pools.open_volume("tank/a", 4096).expect("opens");
    (volume, Lane::standing().expect("a lane"))
}

fn write_all(pools: &Arc<Pools>, tag: u8) {
    let (volume, mut lane) = open(pools);
    for block in 0..BLOCKS {
        let bytes = pattern(BLOCK, tag ^ block as u8);
        write(
            &volume,
            &mut lane,
            block * BLOCK as u64,
            &bytes,
            block + 1 == BLOCKS,
        );
    }
}

/// Returns how many blocks do not hold the data written with this tag.
fn wrong(pools: &Arc<Pools>, tag: u8) -> usize {
    let (volume, mut lane) = open(pools);
    let is_wrong = |block: &u64| {
        let offset = block * BLOCK as u64;
        read(&volume, &mut lane, offset, BLOCK as u32) != pattern(BLOCK, tag ^ *block as u8)
    };
    (0..BLOCKS).filter(is_wrong).count()
}

fn snapshot(pools: &Pools) {
    let change = DatasetChange::Snapshot {
        names: vec!["tank/a@s".to_owned()],
        recursive: false,
        properties: [].into(),
    };
    pools.change(&change).expect("a snapshot");
}

fn has_snapshot(pools: &Pools) -> bool {
    pools.datasets().iter().any(|of| of.name == "tank/a@s")
}

fn state(pools: &Pools) -> String {
    pools.view("tank").expect("a pool").state
}

/// Exports a pool whose volume was fully written with tag 1.
fn exported(folder: &Path, layout: (VdevKind, usize)) -> Arc<Pools> {
    let (pools, volume) = with_volume(folder, layout, 32 << 20, 4096);
    drop(volume);
    write_all(&pools, 1);
    pools.export("tank").expect("exported");
    pools
}

/// The fault of the issue: after `pool export`, `cp d0 d0.bak`, `pool import -d DIR tank`, a write,
/// a snapshot and a restart, everything was old again.
#[test]
fn an_import_that_finds_a_disk_and_its_copy_takes_neither_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools_ = exported(folder.path(), (VdevKind::Disk, 1));
    let (own, bak) = (folder.path().join("d0"), folder.path().join("d0.bak"));
    copy(&own, &bak);
    let before = (fs::read(&own).expect("read"), fs::read(&bak).expect("read"));
    for how in [
        import(&[folder.path()]),
        ImportPool {
            force: true,
            ..import(&[folder.path()])
        },
        ImportPool {
            read_only: true,
            ..import(&[folder.path()])
        },
        import(&[&own, &bak]),
    ] {
        let error = pools_.import(&how).expect_err("two of one disk");
        twins_of(&error, &[&own, &bak]);
        let expected = format!("`sandstone pool import -d {} tank`", own.display());
        assert!(error.next.contains(&expected), "{error}");
    }
    let asked = CheckPool {
        paths: vec![folder.path().to_owned()],
        ..CheckPool::default()
    };
    let error = check(&asked, &mut |_, _| {}).expect_err("two of one disk");
    twins_of(&error, &[&own, &bak]);
    let listed = pools_.importable(&[folder.path().to_owned()]);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(
        (listed[0].state.as_str(), listed[0].twins.len()),
        ("UNAVAIL", 1)
    );
    assert_eq!(listed[0].twins[0].devices.len(), 2);
    let after = (fs::read(&own).expect("read"), fs::read(&bak).expect("read"));
    assert!(before == after, "something was written");
    // The command in the message works, and its effect lasts.
    pools_.import(&import(&[&own])).expect("it is named");
    write_all(&pools_, 2);
    snapshot(&pools_);
    cut(pools_);
    let again = pools(folder.path());
    assert_eq!((wrong(&again, 2), has_snapshot(&again)), (0, true));
    assert_eq!(state(&again), "ONLINE");
    again.close();
    assert!(
        fs::read(&bak).expect("read") == before.1,
        "the copy was written"
    );
}

/// The fault of the issue: `import -f` took the copy without a word.
#[test]
fn an_older_copy_is_not_taken_by_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = exported(folder.path(), (VdevKind::Disk, 1));
    let (own, bak) = (folder.path().join("d0"), folder.path().join("d0.bak"));
    copy(&own, &bak);
    first.import(&import(&[&own])).expect("imported");
    write_all(&first, 2);
    cut(first);
    // Another machine knows nothing of the pool.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let other = pools(elsewhere.path());
    let force = |paths: &[&Path]| ImportPool {
        force: true,
        ..import(paths)
    };
    let error = other
        .import(&force(&[folder.path()]))
        .expect_err("two of one disk");
    twins_of(&error, &[&own, &bak]);
    let expected = format!("{} is the newest", own.display());
    assert!(error.message.contains(&expected), "{error}");
    // The copy was made after the export, and the original went on.
    assert!(error.message.contains(", exported, "), "{error}");
    assert!(error.message.contains(", in use by "), "{error}");
    let found = other
        .import(&import(&[folder.path(), &own]))
        .expect("named");
    assert_eq!(found.left_out, std::slice::from_ref(&bak));
    assert_eq!(wrong(&other, 2), 0);
    other.close();
}

/// The fault of the issue: the other half was lost after a restart, and 2,048 of 2,048 blocks could
/// not be read.
#[test]
fn a_copy_of_one_half_of_a_mirror_is_neither_read_nor_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools_ = exported(folder.path(), (VdevKind::Mirror, 2));
    let path = |name: &str| folder.path().join(name);
    copy(&path("d0"), &path("d0.bak"));
    let before = fs::read(path("d0.bak")).expect("read");
    let error = pools_
        .import(&import(&[folder.path()]))
        .expect_err("three halves");
    twins_of(&error, &[&path("d0"), &path("d0.bak")]);
    assert!(!error.message.contains("d1:"), "{error}");
    // The example in the message names the folder for the other half, and the intended disk.
    let (whole, own) = (folder.path().display(), path("d0"));
    let expected = format!("-d {whole} -d {} tank", own.display());
    assert!(error.next.contains(&expected), "{error}");
    let found = pools_
        .import(&import(&[folder.path(), &own]))
        .expect("named");
    assert_eq!(found.left_out, [path("d0.bak")]);
    write_all(&pools_, 2);
    cut(pools_);
    let again = pools(folder.path());
    assert_eq!(wrong(&again, 2), 0);
    cut(again);
    fs::remove_file(path("d1")).expect("lost");
    let again = pools(folder.path());
    assert_eq!((wrong(&again, 2), state(&again).as_str()), (0, "DEGRADED"));
    again.close();
    assert!(
        fs::read(path("d0.bak")).expect("read") == before,
        "the copy was written"
    );
}

/// An import with `-d` of single files takes no other file of their folder.
#[test]
fn of_named_files_only_these_are_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools_ = exported(folder.path(), (VdevKind::Mirror, 2));
    let path = |name: &str| folder.path().join(name);
    let before = fs::read(path("d1")).expect("read");
    pools_.import(&import(&[&path("d0")])).expect("half of it");
    assert_eq!(state(&pools_), "DEGRADED");
    write_all(&pools_, 2);
    pools_.export("tank").expect("exported");
    assert!(
        fs::read(path("d1")).expect("read") == before,
        "it was not named"
    );
}

#[test]
fn copies_of_spares_logs_and_caches_are_told_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools_ = pools(folder.path());
    let path = |name: &str| folder.path().join(name);
    let mut wanted = request(folder.path(), VdevKind::Mirror, 2);
    wanted.logs = vec![VdevRequest {
        kind: VdevKind::Disk,
        paths: vec![path("log")],
    }];
    (wanted.caches, wanted.spares) = (vec![path("cache")], vec![path("spare")]);
    pools_.create(&wanted).expect("a pool");
    pools_.export("tank").expect("exported");
    for name in ["log", "cache", "spare"] {
        let bak = path(&format!("{name}.bak"));
        copy(&path(name), &bak);
        let error = pools_
            .import(&import(&[folder.path()]))
            .expect_err("two of one device");
        assert!(error.message.contains("have one identity"), "{error}");
        for named in [&path(name), &bak] {
            assert!(
                error.message.contains(&named.display().to_string()),
                "{error}"
            );
        }
        fs::remove_file(bak).expect("removed");
    }
    pools_
        .import(&import(&[folder.path()]))
        .expect("without copies");
    assert_eq!(state(&pools_), "ONLINE");
    pools_.close();
}

#[test]
fn two_names_of_one_file_are_no_twins() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools_ = exported(folder.path(), (VdevKind::Disk, 1));
    let path = |name: &str| folder.path().join(name);
    fs::hard_link(path("d0"), path("linked")).expect("linked");
    std::os::unix::fs::symlink(path("d0"), path("symbolic")).expect("linked");
    let found = pools_
        .import(&import(&[folder.path(), &path("symbolic")]))
        .expect("one file");
    assert_eq!(found.devices, [path("symbolic")]);
    assert_eq!(wrong(&pools_, 1), 0);
    pools_.close();
}

/// Returns the pools that a state folder knows.
fn known(folder: &Path) -> Vec<KnownPool> {
    let (_, known) = PoolList::of(folder).load().content.expect("a list");
    known
}

/// Returns the inode that is remembered of a device.
fn inode_of(device: &KnownDevice) -> Option<u64> {
    Some(device.identity.as_ref()?.file.as_ref()?.inode)
}

#[test]
fn a_copy_that_took_the_place_of_a_disk_is_refused_at_restart_until_it_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, volume) = with_volume(folder.path(), (VdevKind::Disk, 1), 32 << 20, 4096);
    drop(volume);
    write_all(&first, 1);
    first.close();
    let path = |name: &str| folder.path().join(name);
    let inode = fs::metadata(path("d0")).expect("there").ino();
    assert_eq!(inode_of(&known(folder.path())[0].devices[0]), Some(inode));
    copy(&path("d0"), &path("d0.bak"));
    fs::rename(path("d0"), path("away")).expect("moved");
    fs::rename(path("d0.bak"), path("d0")).expect("moved");
    let again = pools(folder.path());
    let error = again.get("tank").expect_err("another file");
    assert!(
        error.message.contains("is not the device that was used"),
        "{error}"
    );
    assert!(
        error.message.contains(&format!("with inode {inode}")),
        "{error}"
    );
    let view = again.view("tank").expect("it is known");
    let expected = format!("sandstone pool import -d {} tank", path("d0").display());
    let told = format!("{view:?}");
    assert!(told.contains(&expected), "{told}");
    // The user names the disk, as the message said. From now on this disk is the right one.
    again.import(&import(&[&path("d0")])).expect("it is named");
    assert_eq!(wrong(&again, 1), 0);
    again.close();
    let again = pools(folder.path());
    assert_eq!(state(&again), "ONLINE");
    again.close();
}

#[test]
fn a_copy_of_one_half_in_its_place_is_not_taken_at_restart_and_the_status_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, volume) = with_volume(folder.path(), (VdevKind::Mirror, 2), 32 << 20, 4096);
    drop(volume);
    write_all(&first, 1);
    let path = |name: &str| folder.path().join(name);
    copy(&path("d1"), &path("d1.bak"));
    write_all(&first, 2);
    first.close();
    fs::rename(path("d1"), path("away")).expect("moved");
    fs::rename(path("d1.bak"), path("d1")).expect("moved");
    let before = fs::read(path("d1")).expect("read");
    let again = pools(folder.path());
    assert_eq!((wrong(&again, 2), state(&again).as_str()), (0, "DEGRADED"));
    let view = again.view("tank").expect("a pool");
    let note = view.vdevs[0].children[1].note.clone().unwrap_or_default();
    assert!(note.contains("is not the device that was used"), "{note}");
    again.close();
    assert!(
        fs::read(path("d1")).expect("read") == before,
        "the copy was written"
    );
}

#[test]
fn pools_that_were_known_before_identities_were_are_opened_and_completed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, volume) = with_volume(folder.path(), (VdevKind::Disk, 1), 32 << 20, 4096);
    drop(volume);
    first.close();
    let mut before = known(folder.path());
    for device in &mut before[0].devices {
        assert!(device.identity.take().is_some() && device.generation.take().is_some());
    }
    let mut list = PoolList::of(folder.path());
    list.load();
    list.save(&before).expect("saved");
    assert_eq!(known(folder.path()), before);
    let again = pools(folder.path());
    assert_eq!(state(&again), "ONLINE");
    again.close();
    let after = known(folder.path());
    assert!(inode_of(&after[0].devices[0]).is_some(), "{after:?}");
    assert!(after[0].devices[0].generation.is_some(), "{after:?}");
}

/// The file has the inode of before, with older contents: only the labels can show this.
#[test]
fn an_older_state_in_the_same_place_is_refused_and_force_says_what_it_takes() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = exported(folder.path(), (VdevKind::Disk, 1));
    let (own, old) = (folder.path().join("d0"), folder.path().join("old"));
    copy(&own, &old);
    first.import(&import(&[&own])).expect("imported");
    write_all(&first, 2);
    first.close();
    fs::write(&own, fs::read(&old).expect("read")).expect("restored");
    let again = pools(folder.path());
    let error = again.get("tank").expect_err("it is old");
    assert!(
        error.message.contains("hold an older state of pool"),
        "{error}"
    );
    let error = again.import(&import(&[&own])).expect_err("it is old");
    assert!(error.next.contains("import -f"), "{error}");
    let found = again
        .import(&ImportPool {
            force: true,
            ..import(&[&own])
        })
        .expect("somebody wants it");
    assert!(
        found.notes[0].contains("hold an older state of pool"),
        "{found:?}"
    );
    assert_eq!(wrong(&again, 1), 0);
    again.close();
}

#[test]
fn a_twin_is_refused_at_online_attach_replace_and_add() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools_, volume) = with_volume(folder.path(), (VdevKind::Mirror, 2), 32 << 20, 4096);
    drop(volume);
    write_all(&pools_, 1);
    let path = |name: &str| folder.path().join(name);
    let name = |name: &str| path(name).display().to_string();
    pools_.sync("tank").expect("in a checkpoint");
    copy(&path("d0"), &path("d0.bak"));
    copy(&path("d1"), &path("d1.bak"));
    let change = |change: VdevChange| pools_.change_vdevs("tank", &change);
    let bak = path("d0.bak");
    for force in [false, true] {
        let refused = change(VdevChange::Attach {
            device: name("d0"),
            new: bak.clone(),
            force,
            file_size: None,
        });
        let refused = refused.expect_err("a copy of what is in use");
        assert!(refused.message.contains("or a copy of it"), "{refused}");
        let refused = change(VdevChange::Replace {
            device: name("d1"),
            new: Some(bak.clone()),
            force,
            file_size: None,
        });
        let refused = refused.expect_err("a copy of what is in use");
        assert!(refused.message.contains("or a copy of it"), "{refused}");
        let refused = change(VdevChange::Add {
            vdevs: Vec::new(),
            logs: Vec::new(),
            caches: Vec::new(),
            spares: vec![bak.clone()],
            force,
            file_size: None,
            dry_run: false,
        });
        let refused = refused.expect_err("a copy of what is in use");
        assert!(refused.message.contains("or a copy of it"), "{refused}");
    }
    // A copy takes the place of a disk that is offline.
    let offline = VdevChange::Offline {
        devices: vec![name("d1")],
    };
    change(offline).expect("put aside");
    write_all(&pools_, 2);
    fs::rename(path("d1"), path("away")).expect("moved");
    fs::rename(path("d1.bak"), path("d1")).expect("moved");
    let online = VdevChange::Online {
        devices: vec![name("d1")],
        expand: false,
    };
    let refused = change(online.clone()).expect_err("another file");
    assert!(
        refused
            .message
            .contains("it is not the device that was used"),
        "{refused}"
    );
    assert!(refused.next.contains("pool replace -f tank"), "{refused}");
    fs::rename(path("away"), path("d1")).expect("moved back");
    change(online).expect("the one that was used");
    assert_eq!(wrong(&pools_, 2), 0);
    pools_.close();
}

fn reguid(paths: &[&Path], new_name: Option<&str>) -> ReguidPool {
    ReguidPool {
        pool: "tank".to_owned(),
        paths: paths.iter().map(|path| path.to_path_buf()).collect(),
        new_name: new_name.map(str::to_owned),
        force: false,
    }
}

#[test]
fn a_copy_becomes_a_pool_of_its_own_beside_the_original() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools_, volume) = with_volume(folder.path(), (VdevKind::Mirror, 2), 32 << 20, 4096);
    drop(volume);
    write_all(&pools_, 1);
    pools_.sync("tank").expect("in a checkpoint");
    let path = |name: &str| folder.path().join(name);
    for name in ["d0", "d1"] {
        copy(&path(name), &path(&format!("{name}.bak")));
    }
    let baks = [path("d0.bak"), path("d1.bak")];
    let listed = pools_.importable(&[folder.path().to_owned()]);
    let found: Vec<&PathBuf> = listed.iter().flat_map(|of| &of.devices).collect();
    assert_eq!(found, baks.iter().collect::<Vec<_>>());
    let problem = listed[0].problem.as_deref().expect("a reason");
    assert!(problem.contains("pool tank, which is open"), "{problem}");
    // A user first tries to import the pool under another name.
    let error = pools_
        .import(&ImportPool {
            new_name: Some("clone".to_owned()),
            ..import(&[&baks[0], &baks[1]])
        })
        .expect_err("the pool is open");
    let expected = format!(
        "sandstone pool reguid -d {} tank NEWNAME",
        baks[0].display()
    );
    assert!(error.message.contains(&expected), "{error}");
    let made = pools_
        .reguid(&reguid(&[&baks[0], &baks[1]], Some("clone")))
        .expect("a pool of its own");
    assert_eq!((made.name.as_str(), made.missing.len()), ("clone", 0));
    assert_ne!(made.guid, made.was);
    // The folder holds two pools by now, and no twins.
    let listed: Vec<FoundPool> = pools_.importable(&[folder.path().to_owned()]);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(
        (listed[0].name.as_str(), listed[0].twins.len()),
        ("clone", 0)
    );
    pools_
        .import(&ImportPool {
            pool: Some("clone".to_owned()),
            ..import(&[folder.path()])
        })
        .expect("imported");
    // A disk of one pool does not become a disk of the other.
    copy(&baks[0], &path("again"));
    let refused = pools_.change_vdevs(
        "tank",
        &VdevChange::Attach {
            device: path("d0").display().to_string(),
            new: path("again"),
            force: true,
            file_size: None,
        },
    );
    let refused = refused.expect_err("its records are keyed alike");
    assert!(refused.message.contains("shares its history"), "{refused}");
    write_all(&pools_, 2);
    let mut lane = Lane::standing().expect("a lane");
    let clone = pools_.open_volume("clone/a", 4096).expect("opens");
    assert_eq!(read(&clone, &mut lane, 0, 4096), pattern(4096, 1));
    write(&clone, &mut lane, 0, &pattern(4096, 3), true);
    drop(clone);
    cut(pools_);
    let again = pools(folder.path());
    assert_eq!(wrong(&again, 2), 0);
    let clone = again.open_volume("clone/a", 4096).expect("opens");
    assert_eq!(read(&clone, &mut lane, 0, 4096), pattern(4096, 3));
    drop(clone);
    again.close();
}

#[test]
fn a_half_of_a_copy_becomes_a_pool_too_and_nothing_else_is_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools_ = exported(folder.path(), (VdevKind::Mirror, 2));
    let path = |name: &str| folder.path().join(name);
    copy(&path("d0"), &path("d0.bak"));
    let before = [fs::read(path("d0")), fs::read(path("d1"))].map(|of| of.expect("read"));
    let made = pools_
        .reguid(&reguid(&[&path("d0.bak")], Some("clone")))
        .expect("half of a copy");
    assert_eq!(made.missing, [path("d1").display().to_string()]);
    let after = [fs::read(path("d0")), fs::read(path("d1"))].map(|of| of.expect("read"));
    assert!(before == after, "the original was written");
    pools_
        .import(&import(&[folder.path()]))
        .expect("the original");
    assert_eq!((state(&pools_).as_str(), wrong(&pools_, 1)), ("ONLINE", 0));
    pools_
        .import(&ImportPool {
            pool: Some("clone".to_owned()),
            ..import(&[&path("d0.bak")])
        })
        .expect("the copy");
    assert_eq!(pools_.view("clone").expect("a pool").state, "DEGRADED");
    pools_.close();
}

/// The power failed when one round of labels was new.
#[test]
fn what_was_interrupted_says_what_completes_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools_ = exported(folder.path(), (VdevKind::Disk, 1));
    let path = |name: &str| folder.path().join(name);
    let bak = path("bak");
    copy(&path("d0"), &bak);
    let made = pools_
        .reguid(&reguid(&[&bak], None))
        .expect("a pool of its own");
    let old = fs::File::open(path("d0")).expect("opened");
    let new = fs::OpenOptions::new()
        .write(true)
        .open(&bak)
        .expect("opened");
    for offset in [LABEL, FILE - LABEL] {
        let mut label = vec![0; LABEL as usize];
        old.read_exact_at(&mut label, offset).expect("read");
        new.write_all_at(&label, offset).expect("written");
    }
    let command = format!("sandstone pool reguid -d {} tank", bak.display());
    for wanted in [&made.guid, &made.was] {
        let error = pools_
            .import(&ImportPool {
                pool: Some(wanted.clone()),
                ..import(&[&bak])
            })
            .expect_err("between two numbers");
        assert!(error.message.contains("was interrupted"), "{error}");
        assert!(error.next.contains("sandstone pool reguid"), "{error}");
    }
    let listed = pools_.importable(std::slice::from_ref(&bak));
    assert!(listed.iter().all(|of| of.is_between_numbers), "{listed:?}");
    let problem = listed[0].problem.as_deref().expect("a reason");
    assert!(problem.contains(&command), "{problem}");
    let again = pools_.reguid(&reguid(&[&bak], None)).expect("completed");
    assert_eq!((again.is_continued, &again.guid), (true, &made.guid));
    pools_
        .import(&import(&[&path("d0")]))
        .expect("the original");
    let found = pools_.import(&ImportPool {
        pool: Some(made.guid.clone()),
        new_name: Some("clone".to_owned()),
        ..import(&[&bak])
    });
    assert_eq!(found.expect("the copy").name, "clone");
    pools_.close();
}

#[test]
fn what_is_no_copy_gets_no_other_identity() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools_, volume) = with_volume(folder.path(), (VdevKind::Raidz1, 3), 32 << 20, 4096);
    drop(volume);
    let path = |name: &str| folder.path().join(name);
    let refused = |paths: &[&Path], new_name| {
        let error = pools_.reguid(&reguid(paths, new_name));
        error.expect_err("refused")
    };
    let error = refused(&[&path("d0")], Some("clone"));
    assert!(error.message.contains("in use by pool tank"), "{error}");
    for name in ["d0", "d1"] {
        copy(&path(name), &path(&format!("{name}.bak")));
    }
    let (one, other) = (path("d0.bak"), path("d1.bak"));
    let error = refused(&[folder.path()], None);
    assert!(error.message.contains("is a folder"), "{error}");
    let error = refused(&[], None);
    assert!(
        error.message.contains("no device of the copy is named"),
        "{error}"
    );
    let error = refused(&[&one], None);
    assert!(
        error.message.contains("raidz1-0 lacks 2 devices"),
        "{error}"
    );
    let error = refused(&[&one, &other], Some("tank"));
    assert_eq!(error.kind, ErrorKind::Exists, "{error}");
    let pond = ReguidPool {
        pool: "pond".to_owned(),
        ..reguid(&[&one, &other], None)
    };
    let error = pools_.reguid(&pond).expect_err("another name");
    assert!(
        error.message.contains("of pool tank, not of pond"),
        "{error}"
    );
    copy(&one, &path("again"));
    let error = refused(&[&one, &other, &path("again")], None);
    assert!(
        error.message.contains("copies of one another") || error.message.contains("one identity"),
        "{error}"
    );
    // A file of a pool that is known here and missing.
    pools_.close();
    fs::rename(path("d1"), path("away-1")).expect("moved");
    fs::rename(path("d2"), path("away-2")).expect("moved");
    let again = pools(folder.path());
    assert!(again.get("tank").is_err(), "it lacks two disks");
    let error = again
        .reguid(&reguid(&[&path("d0"), &other], Some("clone")))
        .expect_err("an original");
    assert!(error.message.contains("is not a copy"), "{error}");
}

/// A file of the pool, in the place of a file that the pool never had.
#[test]
fn what_a_pool_is_given_is_remembered_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools_ = pools(folder.path());
    pools_
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("a pool");
    create_volume(&pools_, "tank/a", 1 << 20);
    let new: PathBuf = folder.path().join("new");
    pools_
        .change_vdevs(
            "tank",
            &VdevChange::Attach {
                device: folder.path().join("d0").display().to_string(),
                new: new.clone(),
                force: false,
                file_size: Some(FILE),
            },
        )
        .expect("attached");
    let known = known(folder.path());
    assert_eq!(known[0].devices.len(), 2);
    for device in &known[0].devices {
        let inode = fs::metadata(&device.path).expect("there").ino();
        assert_eq!(inode_of(device), Some(inode), "{device:?}");
    }
    pools_.close();
}
