//! Tests of disks that return to the daemon older, shorter, or without labels, as an administrator
//! sees them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::format::label::LABEL_SIZE;

use super::super::Pools;
use super::{FILE, create_volume, cut, pattern, pools, read, request, wait_until_well, write};
use block::Lane;
use model::ErrorKind;
use model::pool::import::ImportPool;
use model::pool::vdev_change::VdevChange;
use model::pool::vdev_request::{VdevKind, VdevRequest};

/// Creates an exported pool with a volume. Beside it lies a copy of `d1` that is some syncs behind.
fn with_old_copy(folder: &Path, kind: VdevKind, count: usize) -> (Arc<Pools>, PathBuf) {
    let pools = pools(folder);
    let mut wanted = request(folder, kind, count);
    if kind == VdevKind::Disk {
        // Each disk is a vdev of its own.
        let paths = std::mem::take(&mut wanted.vdevs).remove(0).paths;
        let disk = |path: PathBuf| VdevRequest {
            kind,
            paths: vec![path],
        };
        wanted.vdevs = paths.into_iter().map(disk).collect();
    }
    pools.create(&wanted).expect("a pool");
    create_volume(&pools, "tank/a", 8 << 20);
    // A place where no search for disks looks.
    let old = folder.join("kept").join("d1");
    fs::create_dir(folder.join("kept")).expect("a folder");
    for round in 0..4 {
        pools.export("tank").expect("exported");
        if round == 1 {
            fs::copy(folder.join("d1"), &old).expect("copied");
        }
        pools.import(&import(folder)).expect("imported");
        let volume = pools.open_volume("tank/a", 4096).expect("opens");
        let mut lane = Lane::standing().expect("a lane");
        write(&volume, &mut lane, 0, &pattern(1 << 20, round), true);
    }
    (pools, old)
}

fn import(folder: &Path) -> ImportPool {
    ImportPool {
        pool: Some("tank".to_owned()),
        paths: vec![folder.join("d0"), folder.join("d1")],
        ..ImportPool::default()
    }
}

fn events(pools: &Pools) -> String {
    let all = pools.all().into_iter();
    let texts = all.flat_map(|(_, pool)| pool.host.happenings());
    texts.map(|of| of.text + "\n").collect()
}

fn offline(device: &str) -> VdevChange {
    VdevChange::Offline {
        devices: vec![device.to_owned()],
    }
}

fn holds(pools: &Pools, round: u8) {
    let volume = pools.open_volume("tank/a", 4096).expect("opens");
    let mut lane = Lane::standing().expect("a lane");
    let bytes = read(&volume, &mut lane, 0, 1 << 20);
    assert!(bytes == pattern(1 << 20, round), "old bytes");
}

#[test]
fn a_disk_that_is_put_back_syncs_behind_is_told_and_rebuilt() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, old) = with_old_copy(folder.path(), VdevKind::Mirror, 2);
    cut(first);
    fs::copy(&old, folder.path().join("d1")).expect("put back");
    let second = pools(folder.path());
    let told = events(&second);
    assert!(
        told.contains("d1 holds an old copy: its newest checkpoint is"),
        "{told}"
    );
    holds(&second, 3);
    wait_until_well(&second);
    second
        .change_vdevs("tank", &offline("d0"))
        .expect("d1 has all");
    holds(&second, 3);
    second.close();
}

#[test]
fn a_stripe_with_an_old_copy_is_not_opened_without_somebodys_word() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, old) = with_old_copy(folder.path(), VdevKind::Disk, 2);
    first.export("tank").expect("exported");
    fs::copy(&old, folder.path().join("d1")).expect("put back");
    let listed = first.importable(&[folder.path().to_owned()]);
    assert!(listed.iter().any(|pool| pool.is_old_copy), "{listed:?}");
    let problem = listed.iter().find_map(|pool| pool.problem.clone());
    assert!(
        problem.is_some_and(|why| why.contains("old copy")),
        "{listed:?}"
    );
    let refused = first.import(&import(folder.path())).expect_err("it is old");
    assert_eq!(refused.kind, ErrorKind::Refused);
    assert!(refused.message.contains("holds an old copy"), "{refused:?}");
    assert!(refused.message.contains("d1"), "{refused:?}");
    assert!(refused.next.contains("import -f"), "{refused:?}");
}

#[test]
fn a_disk_that_shrank_is_named_with_both_sizes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, _) = with_old_copy(folder.path(), VdevKind::Mirror, 2);
    first.export("tank").expect("exported");
    let file = OpenOptions::new()
        .write(true)
        .open(folder.path().join("d1"));
    file.and_then(|file| file.set_len(FILE / 2)).expect("cut");
    first.import(&import(folder.path())).expect("d0 has all");
    let told = events(&first);
    let sizes = format!("({} bytes), but had 128M ({FILE} bytes)", FILE / 2);
    assert!(told.contains(&sizes), "{told}");
    let view = first.view("tank").expect("a pool");
    assert!(view.status.is_some(), "{view:?}");
    holds(&first, 3);
    first.close();
}

#[test]
fn a_disk_that_grew_is_no_disk_with_damaged_labels() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, _) = with_old_copy(folder.path(), VdevKind::Mirror, 2);
    first.export("tank").expect("exported");
    for disk in ["d0", "d1"] {
        let file = OpenOptions::new()
            .write(true)
            .open(folder.path().join(disk));
        file.and_then(|file| file.set_len(FILE * 2)).expect("grown");
    }
    first.import(&import(folder.path())).expect("imported");
    wait_until_well(&first);
    holds(&first, 3);
    first.close();
}

#[test]
fn a_disk_with_one_good_label_of_four_opens_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    first
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("a pool");
    create_volume(&first, "tank/a", 8 << 20);
    let volume = first.open_volume("tank/a", 4096).expect("opens");
    let mut lane = Lane::standing().expect("a lane");
    write(&volume, &mut lane, 0, &pattern(1 << 20, 3), true);
    drop(volume);
    cut(first);
    let file = OpenOptions::new()
        .write(true)
        .open(folder.path().join("d0"));
    let file: File = file.expect("a file");
    let label = LABEL_SIZE as u64;
    for at in [label, FILE - 2 * label, FILE - label] {
        file.write_all_at(&[0xee; LABEL_SIZE], at).expect("written");
    }
    drop(file);
    let second = pools(folder.path());
    holds(&second, 3);
    let told = events(&second);
    assert!(
        told.contains("only one label of the pool could be read"),
        "{told}"
    );
    second.close();
}
