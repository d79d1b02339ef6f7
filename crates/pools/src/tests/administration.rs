//! Tests of creating, growing, finding and forgetting pools against obstacles. A refusal has
//! changed nothing, and no device that holds something is taken for an empty one.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use store::checksum;
use store::format::label::LABEL_SIZE;

use super::super::Pools;
use super::{FILE, ask, create_volume, cut, pools, read, request, write};
use block::{Lane, Request};
use model::ErrorKind;
use model::pool::create::CreatePool;
use model::pool::dataset::change::DatasetChange;
use model::pool::import::ImportPool;
use model::pool::scan::ScrubAction;
use model::pool::stream::SendRequest;
use model::pool::vdev_change::VdevChange;
use model::pool::vdev_request::{VdevKind, VdevRequest};

/// Requests a pool of another name, in a folder of its own.
fn other(folder: &Path, name: &str, kind: VdevKind, count: usize) -> CreatePool {
    let devices = folder.join(format!("{name}-devices"));
    fs::create_dir_all(&devices).expect("a folder");
    CreatePool {
        name: name.to_owned(),
        ..request(&devices, kind, count)
    }
}

fn disk(path: PathBuf) -> VdevRequest {
    VdevRequest {
        kind: VdevKind::Disk,
        paths: vec![path],
    }
}

fn add(vdevs: Vec<VdevRequest>, spares: Vec<PathBuf>) -> VdevChange {
    VdevChange::Add {
        vdevs,
        logs: Vec::new(),
        caches: Vec::new(),
        spares,
        force: false,
        file_size: Some(FILE),
        dry_run: false,
    }
}

fn import(name: &str, path: &Path) -> ImportPool {
    ImportPool {
        pool: Some(name.to_owned()),
        paths: vec![path.to_owned()],
        ..ImportPool::default()
    }
}

#[test]
fn a_pool_that_cannot_be_kept_is_not_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let wanted = request(folder.path(), VdevKind::Disk, 1);
    // The list of pools cannot be written.
    let obstacle = folder.path().join("pools.json.new");
    fs::create_dir(&obstacle).expect("a folder");
    let refused = pools.create(&wanted).expect_err("it would be forgotten");
    assert_eq!(refused.kind, ErrorKind::Storage);
    assert!(
        refused.not_changed.contains("the pool was not made"),
        "{refused:?}"
    );
    assert_eq!(pools.views(), []);
    assert!(!folder.path().join("d0").exists(), "its file is left");
    fs::remove_dir(&obstacle).expect("removed");
    pools
        .create(&wanted)
        .expect("the name and the path are free");
    pools.close();
}

#[test]
fn a_device_that_was_there_before_is_no_pools_when_making_one_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let devices = folder.path().join("devices");
    fs::create_dir(&devices).expect("a folder");
    let first = devices.join("d0");
    let file = File::create(&first).expect("a file");
    file.set_len(FILE).expect("a size");
    let pools = pools(folder.path());
    fs::create_dir(folder.path().join("pools.json.new")).expect("a folder");
    pools
        .create(&request(&devices, VdevKind::Disk, 1))
        .expect_err("it would be forgotten");
    assert!(first.exists(), "it was there before");
    assert_eq!(pools.importable(&[devices]), [], "labels are left");
}

#[test]
fn what_is_added_is_added_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    let taken = other(folder.path(), "other", VdevKind::Disk, 1);
    first.create(&taken).expect("a pool");
    first.export("other").expect("exported");
    first
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("a pool");
    let (new, spare) = (folder.path().join("new"), folder.path().join("spare"));
    let taken = taken.vdevs[0].paths[0].clone();
    for change in [
        add(vec![disk(new.clone()), disk(taken.clone())], Vec::new()),
        add(vec![disk(new.clone())], vec![spare.clone(), taken]),
    ] {
        let refused = first.change_vdevs("tank", &change);
        let refused = refused.expect_err("another pool's labels are there");
        assert!(refused.message.contains("pool 'other'"), "{refused}");
        assert_eq!(first.view("tank").expect("a pool").vdevs.len(), 1);
        assert!(!new.exists() && !spare.exists(), "files are left");
    }
    cut(first);
    let second = pools(folder.path());
    let view = second.view("tank").expect("a pool");
    assert_eq!((view.state.as_str(), view.vdevs.len()), ("ONLINE", 1));
    let change = add(
        vec![disk(new.clone()), disk(folder.path().join("d9"))],
        vec![spare],
    );
    second.change_vdevs("tank", &change).expect("added");
    cut(second);
    let third = pools(folder.path());
    let view = third.view("tank").expect("a pool");
    assert_eq!((view.state.as_str(), view.vdevs.len()), ("ONLINE", 3));
    assert_eq!(view.spares[0].state, "AVAIL");
    third.close();
}

#[test]
fn what_was_done_before_a_refusal_is_kept_and_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    first
        .create(&request(folder.path(), VdevKind::Mirror, 2))
        .expect("a pool");
    let change = VdevChange::Offline {
        devices: vec!["d0".to_owned(), "d1".to_owned()],
    };
    let refused = first.change_vdevs("tank", &change);
    let refused = refused.expect_err("the last copy stays");
    assert!(refused.not_changed.contains("d0"), "{refused:?}");
    let states = |pools: &Pools| {
        let view = pools.view("tank").expect("a pool");
        let leaves = view.vdevs[0].children.iter();
        leaves.map(|leaf| leaf.state.clone()).collect::<Vec<_>>()
    };
    assert_eq!(states(&first), ["OFFLINE", "ONLINE"]);
    cut(first);
    let second = pools(folder.path());
    assert_eq!(states(&second), ["OFFLINE", "ONLINE"]);
    second.close();
}

#[test]
fn another_pool_of_the_same_name_does_not_take_the_place_of_one_that_is_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    let mut second_tank = other(folder.path(), "second", VdevKind::Disk, 1);
    second_tank.name = "tank".to_owned();
    first.create(&second_tank).expect("a pool");
    first.export("tank").expect("exported");
    first
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("a pool");
    let guid = first.view("tank").expect("a pool").guid;
    cut(first);
    let (here, away) = (folder.path().join("d0"), folder.path().join("away"));
    fs::rename(&here, &away).expect("away");
    let without = pools(folder.path());
    assert_eq!(without.view("tank").expect("known").state, "UNAVAIL");
    let at = second_tank.vdevs[0].paths[0].clone();
    let refused = without.import(&import("tank", &at));
    let refused = refused.expect_err("the name belongs to another pool");
    assert_eq!(refused.kind, ErrorKind::Exists);
    let known = without.view("tank").expect("still known");
    assert_eq!((known.state.as_str(), &known.guid), ("UNAVAIL", &guid));
    drop(without);
    fs::rename(&away, &here).expect("back");
    let back = pools(folder.path());
    let view = back.view("tank").expect("a pool");
    assert_eq!((view.state.as_str(), &view.guid), ("ONLINE", &guid));
    back.close();
}

/// Changes the front of every copy of a file's labels, and corrects the checksum.
fn change_labels(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.expect("a file");
    let label = LABEL_SIZE as u64;
    for offset in [0, label, FILE - 2 * label, FILE - label] {
        let mut bytes = vec![0; 64 << 10];
        file.read_exact_at(&mut bytes, offset).expect("read");
        change(&mut bytes);
        let len = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes"));
        bytes[48..64].fill(0);
        let checksum = checksum::keyed(0, &bytes[..96 + len as usize]);
        bytes[48..64].copy_from_slice(&checksum.to_le_bytes());
        file.write_all_at(&bytes, offset).expect("written");
    }
}

/// Creates a pool on one file, exports it, and returns the file.
fn exported(folder: &Path, pools: &Pools, name: &str) -> PathBuf {
    let wanted = other(folder, name, VdevKind::Disk, 1);
    pools.create(&wanted).expect("a pool");
    pools.export(name).expect("exported");
    wanted.vdevs[0].paths[0].clone()
}

#[test]
fn labels_that_this_program_cannot_use_are_no_blank_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let later = exported(folder.path(), &pools, "later");
    change_labels(&later, |label| label[8] = 200);
    let strange = exported(folder.path(), &pools, "strange");
    change_labels(&strange, |label| {
        // A field of the configuration that this program does not know.
        let at = label.windows(6).position(|word| word == b"\"name\"");
        let at = at.expect("a name");
        label[at + 1..at + 5].copy_from_slice(b"nAme");
    });
    let damaged = exported(folder.path(), &pools, "damaged");
    let file = OpenOptions::new().write(true).open(&damaged).expect("open");
    let label = LABEL_SIZE as u64;
    for offset in [0, label, FILE - 2 * label, FILE - label] {
        file.write_all_at(b"x", offset + 100).expect("written");
    }
    for (path, said) in [
        (&later, "newer version"),
        (&strange, "cannot be read"),
        (&damaged, "damaged"),
    ] {
        let mut wanted = request(folder.path(), VdevKind::Disk, 1);
        wanted.vdevs = vec![disk(path.clone())];
        let refused = pools.create(&wanted).expect_err(said);
        assert_eq!(refused.kind, ErrorKind::InUse);
        assert!(refused.message.contains(said), "{said}: {refused}");
        let listed = pools.importable(std::slice::from_ref(path));
        assert_eq!(listed.len(), 1, "{said}");
        let problem = listed[0].problem.as_deref().expect("it cannot be used");
        assert!(problem.contains(said), "{said}: {problem}");
        assert_eq!(listed[0].devices, std::slice::from_ref(path));
        wanted.force = true;
        pools.create(&wanted).expect("it is to be overwritten");
        pools.destroy("tank").expect("destroyed");
    }
}

#[test]
fn a_raidz_that_lacks_too_many_is_not_said_to_be_importable() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let wanted = other(folder.path(), "three", VdevKind::Raidz1, 3);
    pools.create(&wanted).expect("a pool");
    pools.export("three").expect("exported");
    let at = folder.path().join("three-devices");
    let problem = || {
        let mut found = pools.importable(std::slice::from_ref(&at));
        found.pop().expect("a pool").problem
    };
    assert_eq!(problem(), None);
    fs::remove_file(at.join("d0")).expect("removed");
    assert_eq!(problem(), None, "one may be lost");
    fs::remove_file(at.join("d1")).expect("removed");
    let problem = problem().expect("two are too many");
    assert!(problem.contains("raidz1-0 lacks 2 devices"), "{problem}");
    pools
        .import(&import("three", &at))
        .expect_err("as the list says");
}

#[test]
fn a_pool_that_is_gone_can_be_forgotten() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    first
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("a pool");
    cut(first);
    fs::remove_file(folder.path().join("d0")).expect("gone");
    let second = pools(folder.path());
    assert_eq!(second.view("tank").expect("known").state, "UNAVAIL");
    let refused = second.destroy("tank").expect_err("nothing can be wiped");
    assert!(refused.next.contains("pool export tank"), "{refused}");
    second.export("tank").expect("forgotten");
    assert_eq!(second.views(), []);
    drop(second);
    let third = pools(folder.path());
    assert_eq!(third.views(), []);
    third
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("the name is free");
    third.close();
}

#[test]
fn what_others_keep_on_a_device_is_not_overwritten_unasked() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let end = FILE;
    let md = [0xfc, 0x4e, 0x2b, 0xa9];
    let md_1 = [&md[..], &[1, 0, 0, 0]].concat();
    let md_0 = [&md[..], &[0, 0, 0, 0]].concat();
    let ext = [&[0x53, 0xef][..], &[0; 18], &[1, 0, 0, 0]].concat();
    let lvm = [&b"LABELONE"[..], &[0; 16], b"LVM2 001"].concat();
    let zfs = [0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0];
    let cases: [(&str, u64, &[u8]); 20] = [
        ("ext", 1080, &ext),
        ("XFS", 0, b"XFSB"),
        ("Btrfs", 65_600, b"_BHRfS_M"),
        ("LVM", 512, &lvm),
        ("ZFS", (128 << 10) + 4096, &zfs),
        ("ZFS", end - (512 << 10) + (128 << 10) + 1024, &zfs),
        ("swap", 4086, b"SWAPSPACE2"),
        ("LUKS", 0, b"LUKS\xba\xbe"),
        ("md", 0, &md_1),
        ("md", 4096, &md_1),
        ("md", end - (8 << 10), &md_1),
        ("md", end - (64 << 10), &md_0),
        ("MBR", 510, &[0x55, 0xaa]),
        ("GPT", 512, b"EFI PART"),
        ("GPT", end - 512, b"EFI PART"),
        ("NTFS", 3, b"NTFS    "),
        ("QCOW", 0, b"QFI\xfb"),
        ("VHDX", 0, b"vhdxfile"),
        ("VMDK", 0, b"KDMV"),
        ("BlueStore", 0, b"bluestore block device"),
    ];
    for (what, offset, bytes) in cases {
        let path = folder.path().join("d0");
        let file = File::create_new(&path).expect("a file");
        file.set_len(FILE).expect("a size");
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.expect("a file");
        file.write_all_at(bytes, offset).expect("written");
        let mut wanted = request(folder.path(), VdevKind::Disk, 1);
        let refused = pools.create(&wanted).expect_err(what);
        assert_eq!(refused.kind, ErrorKind::InUse);
        assert!(refused.message.contains(what), "{what}: {refused}");
        let mut there = vec![0; bytes.len()];
        file.read_exact_at(&mut there, offset).expect("read");
        assert_eq!(there, bytes, "{what} was overwritten");
        wanted.force = true;
        pools.create(&wanted).expect(what);
        pools.destroy("tank").expect("destroyed");
        fs::remove_file(&path).expect("removed");
    }
    // Data of no known kind is no obstacle.
    let path = folder.path().join("d0");
    fs::write(&path, vec![7; FILE as usize]).expect("written");
    pools
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("a pool");
    pools.close();
}

#[test]
fn a_pool_is_imported_under_another_name_for_good() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    let tank = other(folder.path(), "first", VdevKind::Mirror, 2);
    first.create(&tank).expect("a pool");
    create_volume(&first, "first/a", 8 << 20);
    let volume = first.open_volume("first/a", 4096).expect("opens");
    let mut lane = Lane::standing().expect("a lane");
    write(&volume, &mut lane, 0, &[7; 4096], true);
    drop(volume);
    first.export("first").expect("exported");
    first
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("a pool");
    let at = folder.path().join("first-devices");
    let renamed = |name: &str| ImportPool {
        new_name: Some(name.to_owned()),
        ..import("first", &at)
    };
    let taken = first.import(&renamed("tank")).expect_err("it is taken");
    assert_eq!(taken.kind, ErrorKind::Exists);
    first
        .import(&renamed("mirror"))
        .expect_err("a kind of vdev");
    let read_only = ImportPool {
        read_only: true,
        ..renamed("pond")
    };
    first
        .import(&read_only)
        .expect_err("labels are not written");
    assert_eq!(
        first.import(&renamed("pond")).expect("imported").name,
        "pond"
    );
    first.open_volume("pond/a", 4096).expect("by its new name");
    let open = first.import(&import("pond", &at)).expect_err("it is open");
    assert_eq!(open.kind, ErrorKind::Exists);
    assert!(
        open.message.contains("pool pond is open already"),
        "{open:?}"
    );
    cut(first);
    let second = pools(folder.path());
    let names: Vec<String> = second.views().into_iter().map(|view| view.name).collect();
    assert_eq!(names, ["pond", "tank"]);
    let volume = second.open_volume("pond/a", 4096).expect("opens");
    assert_eq!(read(&volume, &mut lane, 0, 4096), [7; 4096]);
    drop(volume);
    second.export("pond").expect("exported");
    let found = second.importable(&[at]);
    assert_eq!((found.len(), found[0].name.as_str()), (1, "pond"));
    second.close();
}

#[test]
fn a_pool_that_is_away_is_known_by_its_number_when_it_has_another_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    let wanted = request(folder.path(), VdevKind::Disk, 1);
    first.create(&wanted).expect("a pool");
    cut(first);
    let (here, away) = (folder.path().join("d0"), folder.path().join("away"));
    fs::rename(&here, &away).expect("away");
    let second = pools(folder.path());
    let renamed = ImportPool {
        new_name: Some("pond".to_owned()),
        ..import("tank", &away)
    };
    second.import(&renamed).expect("imported");
    let names: Vec<String> = second.views().into_iter().map(|view| view.name).collect();
    assert_eq!(names, ["pond"], "it is no longer known by the old one");
    second.close();
}

#[test]
fn a_name_that_fits_several_pools_means_the_one_of_this_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    let guid = |pools: &Pools| pools.view("tank").expect("a pool").guid;
    let mut numbers = Vec::new();
    for name in ["first", "second"] {
        let mut wanted = other(folder.path(), name, VdevKind::Disk, 1);
        wanted.name = "tank".to_owned();
        first.create(&wanted).expect("a pool");
        numbers.push(guid(&first));
        first.export("tank").expect("exported");
    }
    let at = ["first", "second"].map(|name| folder.path().join(format!("{name}-devices")));
    let by_name = ImportPool {
        paths: at.to_vec(),
        ..import("tank", &at[0])
    };
    let refused = first.import(&by_name).expect_err("either is meant");
    for number in &numbers {
        assert!(refused.message.contains(number), "{}", refused.message);
    }
    // The second pool was open when the host lost its power, and its device is elsewhere now.
    first.import(&import("tank", &at[1])).expect("imported");
    cut(first);
    let away = folder.path().join("away");
    fs::rename(&at[1], &away).expect("away");
    let back = pools(folder.path());
    assert_eq!(back.view("tank").expect("known").state, "UNAVAIL");
    let by_name = ImportPool {
        paths: vec![at[0].clone(), away],
        ..by_name
    };
    back.import(&by_name).expect("it had this one");
    assert_eq!(guid(&back), numbers[1]);
    back.close();
}

#[test]
fn a_dry_run_shows_the_layout_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let mut wanted = request(folder.path(), VdevKind::Mirror, 2);
    wanted.spares = vec![folder.path().join("s")];
    let view = pools.would_create(&wanted).expect("it could be made");
    assert_eq!(
        (view.vdevs[0].name.as_str(), view.vdevs[0].children.len()),
        ("mirror", 2)
    );
    assert_eq!(view.spares.len(), 1);
    assert_eq!(pools.views(), []);
    assert!(!folder.path().join("d0").exists());
    wanted.file_size = None;
    pools
        .would_create(&wanted)
        .expect_err("there are no such files");
    wanted.file_size = Some(FILE);
    pools.create(&wanted).expect("a pool");
    let new = VdevRequest {
        kind: VdevKind::Mirror,
        paths: vec![folder.path().join("n0"), folder.path().join("n1")],
    };
    let view = pools.would_add("tank", &add(vec![new], Vec::new()));
    assert_eq!(view.expect("it could be added").vdevs.len(), 2);
    assert_eq!(pools.view("tank").expect("a pool").vdevs.len(), 1);
    assert!(!folder.path().join("n0").exists());
    let own = vec![disk(folder.path().join("d0"))];
    pools
        .would_add("tank", &add(own, Vec::new()))
        .expect_err("it is the pool's already");
    pools.close();
}

/// Returns bytes that cannot be compressed.
pub(super) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(next).collect()
}

#[test]
fn what_a_scrub_could_not_repair_is_told_after_a_restart_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    first
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("a pool");
    create_volume(&first, "tank/a", 8 << 20);
    let mut lane = Lane::standing().expect("a lane");
    let bytes = noise(64 << 10);
    let volume = first.open_volume("tank/a", 4096).expect("opens");
    write(&volume, &mut lane, 0, &bytes, true);
    drop(volume);
    first.close();
    drop(first);
    let path = folder.path().join("d0");
    let mut image = fs::read(&path).expect("read");
    let rotten = image.windows(512).position(|there| there == &bytes[..512]);
    image[rotten.expect("the first block")] ^= 1;
    fs::write(&path, image).expect("written");
    let second = pools(folder.path());
    second.scrub("tank", ScrubAction::Start).expect("begun");
    let scrubbed = || {
        let view = second.view("tank").expect("a pool");
        view.scan_status.filter(|scan| scan.state == "finished")
    };
    let scan = std::iter::from_fn(|| Some(scrubbed())).flatten().next();
    assert_eq!(scan.expect("it ends").errors, 1);
    second.close();
    drop(second);
    let third = pools(folder.path());
    let view = third.view("tank").expect("a pool");
    assert_eq!(
        view.errors,
        "the last scrub found 1 block without a correct copy"
    );
    let status = view.status.expect("it is not well");
    assert!(status.contains("have no correct copy"), "{status}");
    assert_eq!(view.damaged, [], "nothing has read it yet");
    let told = || {
        let damaged = third.view("tank").expect("a pool").damaged.into_iter();
        damaged
            .map(|of| (of.dataset, of.offset))
            .collect::<Vec<_>>()
    };
    let clear = VdevChange::Clear {
        devices: Vec::new(),
    };
    let taken = DatasetChange::Snapshot {
        names: vec!["tank/a@s".to_owned()],
        recursive: false,
        properties: [].into(),
    };
    third.change(&taken).expect("a snapshot");
    let wanted = SendRequest {
        snapshot: "tank/a@s".to_owned(),
        ..SendRequest::default()
    };
    let sender = third.sender(&wanted).expect("there is such a snapshot");
    sender.run(&mut |_| Ok(())).expect_err("a block is lost");
    assert_eq!(told(), [("tank/a@s".to_owned(), 0)]);
    third.change_vdevs("tank", &clear).expect("cleared");
    let volume = third.open_volume("tank/a", 4096).expect("opens");
    let (offset, len) = (0, 4096);
    ask(&volume, &mut lane, Request::Read { offset, len }).expect_err("never wrong bytes");
    assert_eq!(told(), [("tank/a".to_owned(), 0)]);
    drop(volume);
    third.change_vdevs("tank", &clear).expect("cleared");
    assert_eq!(third.view("tank").expect("a pool").damaged, []);
    third.close();
}
