//! Tests of spares and new devices in the daemon: a spare that stands in has its device, and a
//! spare without a device is not called.

use std::fs::{self, OpenOptions};
use std::time::{Duration, Instant};

use super::super::Pools;
use super::{create_volume, cut, pattern, pools, read, request, write};
use block::Lane;
use model::ErrorKind;
use model::pool::vdev::VdevView;
use model::pool::vdev_change::VdevChange;
use model::pool::vdev_request::VdevKind;

fn online(device: &str) -> VdevChange {
    VdevChange::Online {
        devices: vec![device.to_owned()],
        expand: false,
    }
}

fn offline(device: &str) -> VdevChange {
    VdevChange::Offline {
        devices: vec![device.to_owned()],
    }
}

fn detach(device: &str) -> VdevChange {
    VdevChange::Detach {
        device: device.to_owned(),
    }
}

/// Returns the states of the spares in the order of the status.
fn spares(pools: &Pools) -> Vec<String> {
    let spares = pools.view("tank").expect("a pool").spares;
    spares.into_iter().map(|spare| spare.state).collect()
}

/// Waits until a spare has all the data that it should have, and returns the disk that it stands in
/// for.
fn stood_in_for(pools: &Pools, spare: &str, unlike: &str) -> String {
    let is_whole = |leaf: &VdevView| {
        leaf.name.ends_with(spare) && leaf.state == "ONLINE" && leaf.note.is_none()
    };
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let view = pools.view("tank").expect("a pool");
        let mut slots = view.vdevs[0].children.iter();
        let slot = slots.find(|slot| slot.children.iter().any(is_whole));
        let is_over = view.scan.contains("resilvered") && !view.scan.contains("in progress");
        match slot.map(|slot| &slot.children[0].name) {
            Some(broken) if broken != unlike && is_over => return broken.clone(),
            _ => assert!(Instant::now() < until, "{view:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_spare_that_was_taken_out_stands_in_for_another_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    let mut wanted = request(folder.path(), VdevKind::Raidz2, 4);
    wanted.spares = vec![folder.path().join("s")];
    first.create(&wanted).expect("a pool");
    create_volume(&first, "tank/a", 8 << 20);
    let volume = first.open_volume("tank/a", 4096).expect("opens");
    let mut lane = Lane::standing().expect("a lane");
    let bytes = pattern(1 << 20, 7);
    write(&volume, &mut lane, 0, &bytes, true);
    drop(volume);
    cut(first);
    for broken in ["d0", "d1"] {
        fs::remove_file(folder.path().join(broken)).expect("removed");
    }
    let second = pools(folder.path());
    let one = stood_in_for(&second, "/s", "");
    second
        .change_vdevs("tank", &detach("s"))
        .expect("taken out");
    let other = stood_in_for(&second, "/s", &one);
    assert_ne!(one, other);
    // A spare in use can go offline and come back as any other disk.
    second
        .change_vdevs("tank", &offline("s"))
        .expect("put aside");
    second
        .change_vdevs("tank", &online("s"))
        .expect("used again");
    assert_eq!(stood_in_for(&second, "/s", ""), other);
    // An offline spare can be detached as well, and then stands ready.
    second
        .change_vdevs("tank", &offline("s"))
        .expect("put aside");
    second
        .change_vdevs("tank", &detach("s"))
        .expect("taken out");
    let view = second.view("tank").expect("a pool");
    let spare = &view.spares[0];
    assert_eq!((spare.state.as_str(), &spare.note), ("AVAIL", &None));
    let volume = second.open_volume("tank/a", 4096).expect("opens");
    assert!(read(&volume, &mut lane, 0, 1 << 20) == bytes);
    drop(volume);
    second.close();
}

/// The first of two spares is missing, and so is a disk of the mirror.
#[test]
fn a_spare_that_is_missing_is_passed_over_until_it_is_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let first = pools(folder.path());
    let mut wanted = request(folder.path(), VdevKind::Mirror, 2);
    wanted.spares = vec![at("s"), at("t")];
    first.create(&wanted).expect("a pool");
    create_volume(&first, "tank/a", 8 << 20);
    let volume = first.open_volume("tank/a", 4096).expect("opens");
    let mut lane = Lane::standing().expect("a lane");
    let bytes = pattern(1 << 20, 7);
    write(&volume, &mut lane, 0, &bytes, true);
    drop(volume);
    cut(first);
    fs::rename(at("s"), at("s-away")).expect("away");
    fs::remove_file(at("d0")).expect("removed");
    let second = pools(folder.path());
    let broken = stood_in_for(&second, "/t", "");
    assert!(broken.ends_with("/d0"), "{broken}");
    assert_eq!(spares(&second), ["UNAVAIL", "INUSE"]);
    // The spare cannot be used by hand either, and no file is left in its place.
    let mut replace = VdevChange::Replace {
        device: "d0".to_owned(),
        new: Some(at("s")),
        force: true,
        file_size: Some(super::FILE),
    };
    let refused = second.change_vdevs("tank", &replace);
    let refused = refused.expect_err("it is away");
    assert!(refused.message.contains("missing"), "{refused:?}");
    assert!(!at("s").exists());
    // The other spare is lost as well. The first is called as soon as it is back.
    cut(second);
    fs::remove_file(at("t")).expect("removed");
    let third = pools(folder.path());
    assert_eq!(spares(&third), ["UNAVAIL", "INUSE"]);
    fs::rename(at("s-away"), at("s")).expect("back");
    third
        .change_vdevs("tank", &online("s"))
        .expect("it is back");
    assert_eq!(stood_in_for(&third, "/s", ""), broken);
    // A new device takes the place for good, and the spare stands ready.
    let VdevChange::Replace { new, file_size, .. } = &mut replace else {
        unreachable!("it is one")
    };
    (*new, *file_size) = (Some(at("n")), Some(super::FILE));
    third.change_vdevs("tank", &replace).expect("replaced");
    let until = Instant::now() + Duration::from_secs(60);
    while spares(&third) != ["AVAIL", "UNAVAIL"] {
        assert!(Instant::now() < until, "{:?}", third.view("tank"));
        std::thread::sleep(Duration::from_millis(5));
    }
    let view = third.view("tank").expect("a pool");
    assert_eq!(view.state, "ONLINE", "{view:?}");
    let volume = third.open_volume("tank/a", 4096).expect("opens");
    assert!(read(&volume, &mut lane, 0, 1 << 20) == bytes);
    drop(volume);
    third.close();
}

/// The spare can stand in at another place, whatever prevented its use at the old one.
#[test]
fn a_spare_that_cannot_be_used_again_in_its_place_keeps_its_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let first = pools(folder.path());
    let mut wanted = request(folder.path(), VdevKind::Mirror, 2);
    wanted.spares = vec![at("s")];
    first.create(&wanted).expect("a pool");
    cut(first);
    fs::remove_file(at("d0")).expect("removed");
    let second = pools(folder.path());
    stood_in_for(&second, "/s", "");
    second
        .change_vdevs("tank", &offline("s"))
        .expect("put aside");
    let spare = OpenOptions::new().write(true).open(at("s")).expect("there");
    let len = spare.metadata().expect("a file").len();
    spare.set_len(len - (1 << 20)).expect("cut");
    let refused = second.change_vdevs("tank", &online("s"));
    refused.expect_err("it was cut");
    spare.set_len(len).expect("whole");
    second
        .change_vdevs("tank", &detach("s"))
        .expect("taken out");
    assert_eq!(spares(&second), ["AVAIL"]);
    second.close();
}

/// The data on a device of the pool is taken for parts of blocks of its place, until the labels say
/// otherwise.
#[test]
fn a_device_of_the_pool_is_no_new_one_even_by_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let first = pools(folder.path());
    let mut wanted = request(folder.path(), VdevKind::Mirror, 3);
    wanted.spares = vec![at("s")];
    first.create(&wanted).expect("a pool");
    first
        .change_vdevs("tank", &offline("d2"))
        .expect("put aside");
    let before = fs::read(at("d2")).expect("a file");
    let attach = |new: &str| VdevChange::Attach {
        device: "d0".to_owned(),
        new: at(new),
        force: true,
        file_size: None,
    };
    let replace = |new: &str| VdevChange::Replace {
        device: "d0".to_owned(),
        new: Some(at(new)),
        force: true,
        file_size: None,
    };
    let add = VdevChange::Add {
        vdevs: Vec::new(),
        logs: Vec::new(),
        caches: Vec::new(),
        spares: vec![at("d2")],
        force: true,
        file_size: None,
        dry_run: false,
    };
    for change in [&attach("d2"), &replace("d2"), &add] {
        let refused = first.change_vdevs("tank", change);
        let refused = refused.expect_err("it is the pool's");
        assert_eq!(refused.kind, ErrorKind::InUse, "{refused:?}");
        assert!(refused.message.contains("already"), "{refused:?}");
    }
    // The device is recognized at a new path too.
    fs::rename(at("d2"), at("x")).expect("moved");
    let refused = first.change_vdevs("tank", &attach("x"));
    let refused = refused.expect_err("it is the pool's");
    assert!(refused.message.contains("already"), "{refused:?}");
    fs::rename(at("x"), at("d2")).expect("moved");
    for in_use in ["d1", "s"] {
        let refused = first.change_vdevs("tank", &attach(in_use));
        let refused = refused.expect_err("it is open");
        assert_eq!(refused.kind, ErrorKind::InUse, "{refused:?}");
    }
    assert!(fs::read(at("d2")).expect("a file") == before);
    first
        .change_vdevs("tank", &detach("d2"))
        .expect("taken out");
    first
        .change_vdevs("tank", &attach("d2"))
        .expect("another one");
    first.close();
}
