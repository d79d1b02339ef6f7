//! Tests of pools and the files that the daemon keeps about them. Whatever happens to the files,
//! each pool is listed once, the other pools are served, and no acknowledged data is missing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::Pools;
use super::{FILE, create_volume, cut, pattern, pools, read, request, wait_until_well, write};
use block::Lane;
use model::ErrorKind;
use model::pool::create::CreatePool;
use model::pool::import::ImportPool;
use model::pool::status::PoolView;
use model::pool::vdev_change::VdevChange;
use model::pool::vdev_request::{VdevKind, VdevRequest};
use state_folder::steps::{Step, faults};

/// Folders of devices outside the state folder: `tank` lies in the first, `pond` in the second.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    /// Opens both pools, with a durable block in a volume of each.
    fn new() -> (Self, Arc<Pools>) {
        let folder = tempfile::tempdir().expect("a folder");
        let site = Self { folder };
        for name in ["state", "tank", "pond", "new"] {
            fs::create_dir(site.at(name)).expect("a folder");
        }
        let pools = site.start();
        for name in ["tank", "pond"] {
            pools.create(&site.pool(name)).expect("a pool");
            create_volume(&pools, &format!("{name}/a"), 1 << 20);
            let volume = pools.open_volume(&format!("{name}/a"), 512).expect("opens");
            let mut lane = Lane::standing().expect("a lane");
            write(&volume, &mut lane, 0, &pattern(4096, 1), true);
        }
        (site, pools)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self) -> Arc<Pools> {
        pools(&self.at("state"))
    }

    fn pool(&self, name: &str) -> CreatePool {
        CreatePool {
            name: name.to_owned(),
            ..request(&self.at(name), VdevKind::Disk, 1)
        }
    }

    fn import(&self, name: &str) -> ImportPool {
        ImportPool {
            pool: Some(name.to_owned()),
            paths: vec![self.at(name)],
            ..ImportPool::default()
        }
    }

    /// Returns the paths of `pools.json` and the copies of all its generations.
    fn lists(&self) -> Vec<PathBuf> {
        let history = fs::read_dir(self.at("state/history")).expect("a folder");
        let paths = history.flatten().map(|entry| entry.path());
        let is_list = |path: &PathBuf| path.to_string_lossy().contains("/pools.");
        let mut lists: Vec<PathBuf> = paths.filter(is_list).collect();
        lists.sort();
        lists.push(self.at("state/pools.json"));
        lists
    }
}

/// Checks what always holds: each pool is listed once, and each open pool has its acknowledged
/// data.
fn assert_sound(pools: &Pools, when: &str) -> Vec<(String, String)> {
    let views: Vec<PoolView> = pools.views();
    let list: Vec<(String, String)> = views.into_iter().map(|of| (of.name, of.state)).collect();
    for (name, state) in &list {
        let count = list.iter().filter(|(other, _)| other == name).count();
        assert_eq!(count, 1, "{when}: {list:?}");
        if state == "UNAVAIL" || name == "brook" {
            continue;
        }
        let volume = pools.open_volume(&format!("{name}/a"), 512);
        let volume = volume.unwrap_or_else(|error| panic!("{when}: {error}"));
        let mut lane = Lane::standing().expect("a lane");
        let found = read(&volume, &mut lane, 0, 4096);
        assert!(
            found == pattern(4096, 1),
            "{when}: what was acknowledged is lost"
        );
    }
    list
}

fn state<'a>(list: &'a [(String, String)], pool: &str) -> Option<&'a str> {
    let found = list.iter().find(|(name, _)| name == pool);
    found.map(|(_, state)| state.as_str())
}

#[test]
fn a_start_with_a_full_state_folder_lists_each_pool_once() {
    let (site, first) = Site::new();
    cut(first);
    // The list is to be written anew at the next start.
    fs::remove_file(site.at("state/pools.json")).expect("removed");
    let second = faults::during(faults::full(0), || site.start());
    let list = assert_sound(&second, "full");
    assert_eq!(
        list,
        [("pond", "ONLINE"), ("tank", "ONLINE")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    assert!(second.notices().iter().any(|of| of.contains("is missing")));
    second.close();
}

#[test]
fn a_list_that_could_not_be_written_is_written_when_there_is_space() {
    let (site, first) = Site::new();
    let online = VdevChange::Online {
        devices: vec!["d0".to_owned()],
        expand: false,
    };
    // The list is marked as changed by others, so that there is something to write.
    first.list_is_to_be_written();
    let full = || first.change_vdevs("tank", &online);
    faults::during(faults::full(0), full).expect("no new device, so the change counts");
    let told = first.notices();
    assert!(
        told.iter()
            .any(|of| of.contains("pools.json cannot be written")),
        "{told:?}"
    );
    assert!(first.waits_for_disks(), "it is tried again");
    first.try_again();
    assert_eq!(first.notices(), [""; 0]);
    cut(first);
    assert_eq!(assert_sound(&site.start(), "again").len(), 2);
}

#[test]
fn a_start_writes_nothing_where_nothing_changed() {
    let (site, first) = Site::new();
    cut(first);
    let before = fs::read(site.at("state/pools.json")).expect("there");
    let nothing = |_: Step| -> io::Result<()> { panic!("something is written") };
    let second = faults::during(nothing, || site.start());
    assert_eq!(assert_sound(&second, "as before").len(), 2);
    second.close();
    assert_eq!(
        fs::read(site.at("state/pools.json")).expect("there"),
        before
    );
}

/// Verb that changes the list of pools, or the devices of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Create,
    Export,
    Import,
    Destroy,
    Attach,
    Replace,
    Add,
}

impl Verb {
    const ALL: [Self; 7] = [
        Self::Create,
        Self::Export,
        Self::Import,
        Self::Destroy,
        Self::Attach,
        Self::Replace,
        Self::Add,
    ];

    fn run(self, site: &Site, pools: &Pools) -> Result<(), model::Error> {
        let new = site.at("new/n0");
        let change = |change| pools.change_vdevs("tank", &change);
        match self {
            Self::Create => pools.create(&CreatePool {
                name: "brook".to_owned(),
                ..request(&site.at("new"), VdevKind::Disk, 1)
            }),
            Self::Export => pools.export("tank").map(drop),
            Self::Import => pools.import(&site.import("tank")).map(drop),
            Self::Destroy => pools.destroy("tank"),
            Self::Attach => change(VdevChange::Attach {
                device: "d0".to_owned(),
                new,
                force: false,
                file_size: Some(FILE),
            }),
            Self::Replace => change(VdevChange::Replace {
                device: "d0".to_owned(),
                new: Some(new),
                force: false,
                file_size: Some(FILE),
            }),
            Self::Add => change(VdevChange::Add {
                vdevs: vec![VdevRequest {
                    kind: VdevKind::Disk,
                    paths: vec![new],
                }],
                logs: Vec::new(),
                caches: Vec::new(),
                spares: Vec::new(),
                force: false,
                file_size: Some(FILE),
                dry_run: false,
            }),
        }
    }
}

/// A caller that waited for the labels knows at once what they say, so the list is up to date.
#[test]
fn a_start_after_any_verb_writes_nothing() {
    let attacks = Verb::ALL
        .into_iter()
        .flat_map(|verb| [(verb, false), (verb, true)]);
    for (verb, is_cut) in attacks {
        let when = format!("{verb:?}, power cut: {is_cut}");
        let (site, first) = Site::new();
        if verb == Verb::Import {
            first.export("tank").expect("exported");
        }
        verb.run(&site, &first).expect("nothing fails");
        if matches!(verb, Verb::Attach | Verb::Replace) {
            if is_cut {
                // The rebuild changes the labels after the verb.
                continue;
            }
            wait_until_well(&first);
        }
        match is_cut {
            true => cut(first),
            false => first.close(),
        }
        for _ in 0..2 {
            let before = fs::read(site.at("state/pools.json")).expect("there");
            let nothing = |step: Step| -> io::Result<()> { panic!("{step:?} at a start") };
            let next = faults::during(nothing, || site.start());
            assert_sound(&next, &when);
            next.close();
            let after = fs::read(site.at("state/pools.json")).expect("there");
            assert!(before == after, "{when}: it was written");
        }
    }
}

/// Number of steps that prepare both files. The later steps are those of the save.
const PREPARED: usize = 6;

/// Runs a verb while the state folder fails from a step on. Then goes on, and then restarts as
/// after a power cut.
fn attack(verb: Verb, how: &str, at: usize, fault: impl FnMut(Step) -> io::Result<()> + 'static) {
    let when = format!("{verb:?}, {how} from step {at} on");
    let (site, first) = Site::new();
    if verb == Verb::Import {
        first.export("tank").expect("exported");
    }
    let before = assert_sound(&first, "before");
    let outcome = faults::during(fault, || verb.run(&site, &first));
    let after = assert_sound(&first, &when);
    if let Err(error) = &outcome {
        assert_eq!(error.kind, ErrorKind::Storage, "{when}: {error}");
        assert!(
            !error.next.contains("permissions"),
            "{when}: {}",
            error.next
        );
        if at < PREPARED {
            assert_eq!(before, after, "{when}: {error}");
            let is_left = site
                .at("new")
                .read_dir()
                .expect("a folder")
                .next()
                .is_some();
            assert!(!is_left, "{when}: a file is left");
            assert!(
                error.not_changed.contains("nothing was changed"),
                "{when}: {error:?}"
            );
        }
    }
    if how == "full" {
        // The prepared space is enough for the rest.
        assert_eq!(outcome.is_ok(), at >= PREPARED, "{when}: {outcome:?}");
    }
    cut(first);
    let second = site.start();
    let list = assert_sound(&second, &format!("{when}, after a power cut"));
    assert_eq!(state(&list, "pond"), Some("ONLINE"), "{when}");
    let tank = state(&list, "tank");
    match (verb, outcome.is_ok()) {
        (Verb::Create, true) => assert_eq!(state(&list, "brook"), Some("ONLINE"), "{when}"),
        // If the copy of a list could not be taken back, it names a pool that has no labels left.
        (Verb::Create, false) => {
            let is_allowed = how == "read-only" && at > PREPARED;
            let brook = state(&list, "brook");
            assert!(
                brook.is_none() || is_allowed && brook == Some("UNAVAIL"),
                "{when}: {brook:?}"
            );
        }
        (Verb::Export | Verb::Destroy, true) => assert_eq!(tank, None, "{when}"),
        (Verb::Export | Verb::Destroy, false) if at < PREPARED => {
            assert_eq!(tank, Some("ONLINE"), "{when}");
        }
        // The list may still hold the pool, as the error said.
        (Verb::Export | Verb::Destroy, false) => {}
        (Verb::Import, true) => assert_eq!(tank, Some("ONLINE"), "{when}"),
        // The pool may be open, or may wait to be imported again.
        (Verb::Import, false) => {
            if tank.is_none() {
                second.import(&site.import("tank")).expect("it is there");
                assert_sound(&second, &when);
            }
        }
        // A rebuild goes on at once, or starts again.
        (Verb::Attach | Verb::Replace | Verb::Add, true) => {
            assert!(
                matches!(tank, Some("ONLINE" | "DEGRADED")),
                "{when}: {tank:?}"
            );
            let known = fs::read_to_string(site.at("state/pools.json")).expect("read");
            assert!(known.contains("/new/n0"), "{when}: {known}");
        }
        // A new device that the list does not name is missing. The pool cannot do without one as a
        // vdev of its own.
        (Verb::Attach | Verb::Replace, false) => {
            assert!(
                matches!(tank, Some("ONLINE" | "DEGRADED")),
                "{when}: {tank:?}"
            );
        }
        (Verb::Add, false) => {
            if tank == Some("UNAVAIL") {
                let again = ImportPool {
                    paths: vec![site.at("tank"), site.at("new")],
                    ..site.import("tank")
                };
                second.import(&again).expect("its devices are there");
                assert_sound(&second, &when);
            }
        }
    }
    second.close();
}

#[test]
fn every_verb_on_a_full_state_folder_changes_nothing_or_all() {
    for verb in Verb::ALL {
        for at in [0, 4, 6, 13] {
            attack(verb, "full", at, faults::full(at));
        }
    }
}

#[test]
fn every_verb_on_a_state_folder_that_becomes_read_only_is_told_and_loses_nothing() {
    for verb in Verb::ALL {
        for at in [5, 9, 13] {
            attack(verb, "read-only", at, faults::read_only(at));
        }
    }
}

type Damage = fn(&Path);

/// Ways in which a file may be lost.
const DAMAGES: [(&str, Damage); 4] = [
    ("torn", |path| {
        let text = fs::read(path).expect("read");
        fs::write(path, &text[..text.len() - 10]).expect("written");
    }),
    ("truncated to nothing", |path| {
        fs::write(path, "").expect("written")
    }),
    ("garbage", |path| {
        fs::write(path, [0xa5; 777]).expect("written")
    }),
    ("missing", |path| fs::remove_file(path).expect("removed")),
];

#[test]
fn a_damaged_list_goes_back_to_its_copy_and_stops_nothing() {
    for (how, damage) in DAMAGES {
        let (site, first) = Site::new();
        cut(first);
        damage(&site.at("state/pools.json"));
        let second = site.start();
        assert_eq!(assert_sound(&second, how).len(), 2, "{how}");
        let told = second.notices().join(" ");
        assert!(told.contains("nothing is lost"), "{how}: {told}");
        cut(second);
        let third = site.start();
        assert_eq!(third.notices(), [""; 0], "{how}: it was put right");
        third.close();
    }
}

#[test]
fn an_older_list_does_not_count_while_the_newest_copy_is_whole() {
    let (site, first) = Site::new();
    cut(first);
    // The first copy names no pool.
    let oldest = site.lists().into_iter().next().expect("a copy");
    fs::copy(oldest, site.at("state/pools.json")).expect("copied");
    let second = site.start();
    assert_eq!(assert_sound(&second, "older").len(), 2);
    assert!(second.notices().join(" ").contains("nothing is lost"));
    second.close();
}

#[test]
fn a_list_of_which_all_generations_are_lost_is_rebuilt_from_labels() {
    for (how, damage) in DAMAGES {
        let (site, first) = Site::new();
        // A pool in the state folder is found whatever the list says.
        first
            .create(&CreatePool {
                name: "brook".to_owned(),
                ..request(&site.at("state"), VdevKind::Disk, 1)
            })
            .expect("a pool");
        first.export("pond").expect("exported");
        cut(first);
        let lists = site.lists();
        lists.iter().for_each(|list| damage(list));
        if how == "missing" {
            // An empty list: without any list the folder would count as new.
            fs::write(site.at("state/pools.json"), "").expect("written");
        }
        let second = site.start();
        let list = assert_sound(&second, how);
        assert_eq!(state(&list, "brook"), Some("ONLINE"), "{how}: {list:?}");
        assert_eq!(state(&list, "pond"), None, "{how}: it was exported");
        let told = second.notices().join(" ");
        assert!(told.contains("brook"), "{how}: {told}");
        assert!(
            told.contains("sandstone pool import -d FOLDER"),
            "{how}: {told}"
        );
        assert!(!told.contains("permissions"), "{how}: {told}");
        // A torn file still tells where `tank` is. Otherwise the pool is imported as the message
        // says.
        if how == "torn" {
            assert_eq!(state(&list, "tank"), Some("ONLINE"), "{told}");
        } else {
            second.import(&site.import("tank")).expect("imported");
        }
        assert!(site.at("state/pools.json.damaged").exists(), "{how}");
        cut(second);
        let third = site.start();
        let list = assert_sound(&third, how);
        assert_eq!(
            (list.len(), third.notices().len()),
            (2, 0),
            "{how}: {list:?}"
        );
        third.close();
    }
}

#[test]
fn an_older_list_is_completed_by_labels_and_what_was_exported_since_stays_so() {
    let (site, first) = Site::new();
    // Both pools are in this list.
    first.list_is_to_be_written();
    first.keep();
    first
        .create(&CreatePool {
            name: "brook".to_owned(),
            ..request(&site.at("pond"), VdevKind::Disk, 2)
        })
        .expect_err("d0 is taken");
    first.export("pond").expect("exported");
    cut(first);
    let lists = site.lists();
    for newest in &lists[lists.len() - 2..] {
        fs::write(newest, "damaged").expect("written");
    }
    let second = site.start();
    let list = assert_sound(&second, "older");
    assert_eq!(list, [("tank".to_owned(), "ONLINE".to_owned())]);
    second.close();
}

#[test]
fn two_devices_that_are_the_same_leaf_are_not_guessed_between_by_a_rebuild() {
    let (site, first) = Site::new();
    cut(first);
    fs::copy(site.at("tank/d0"), site.at("tank/copy")).expect("copied");
    for list in site.lists() {
        let text = fs::read(&list).expect("read");
        fs::write(list, &text[..text.len() - 3]).expect("torn");
    }
    let second = site.start();
    let list = assert_sound(&second, "twins");
    assert_eq!(
        (state(&list, "tank"), state(&list, "pond")),
        (Some("UNAVAIL"), Some("ONLINE"))
    );
    let told = second.notices().join(" ");
    assert!(
        told.contains("sandstone pool import -d PATH tank"),
        "{told}"
    );
    second.close();
}

#[test]
fn where_it_is_not_known_which_disks_units_had_no_pool_takes_one_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, lent) = (Path::new("naa.6001"), "naa.6002");
    let first = pools(folder.path());
    first.lend(lent, "vm1").expect("noted");
    first
        .lent()
        .refuse(Path::new(lent))
        .expect_err("a unit had it");
    first.lent().refuse(ours).expect("no unit had it");
    first.close();
    let history = folder.path().join("history");
    let damaged = || {
        let copies = fs::read_dir(&history).expect("a folder").flatten();
        let copies = copies.map(|entry| entry.path());
        let lent = copies.filter(|path| path.to_string_lossy().contains("lent."));
        lent.chain([folder.path().join("lent.json")])
    };
    // The loss of one of two copies costs nothing.
    fs::write(folder.path().join("lent.json"), "damaged").expect("written");
    let second = pools(folder.path());
    second
        .lent()
        .refuse(Path::new(lent))
        .expect_err("a unit had it");
    second.lent().refuse(ours).expect("no unit had it");
    assert!(second.notices().join(" ").contains("nothing is lost"));
    second.close();
    for file in damaged() {
        fs::write(file, "damaged").expect("written");
    }
    for _ in 0..2 {
        let third = pools(folder.path());
        for disk in [Path::new(lent), ours] {
            let refused = third.lent().refuse(disk).expect_err("nobody knows");
            assert!(refused.message.contains("lent.json"), "{refused}");
        }
        third
            .lent()
            .refuse(Path::new("/dev/sdz"))
            .expect("this machine's own");
        third.close();
    }
    let fourth = pools(folder.path());
    fourth
        .lent()
        .take_back(ours)
        .expect("an administrator says so");
    fourth.lent().refuse(ours).expect("it is known now");
    fourth.lend("naa.6001", "vm2").expect("noted");
    fourth.lent().refuse(ours).expect_err("a unit had it");
    fourth.close();
}

#[test]
fn a_disk_is_lent_whole_or_not_at_all() {
    let disk = "naa.6001";
    for at in 0..10 {
        let folder = tempfile::tempdir().expect("a folder");
        let first = pools(folder.path());
        first.lend("naa.6000", "vm0").expect("noted");
        let lent = faults::during(faults::full(at), || first.lend(disk, "vm1"));
        let is_known = |pools: &Pools| pools.lent().refuse(Path::new(disk)).is_err();
        assert_eq!(is_known(&first), lent.is_ok(), "step {at}");
        first.close();
        let second = pools(folder.path());
        assert_eq!(is_known(&second), lent.is_ok(), "step {at}");
        second
            .lent()
            .refuse(Path::new("naa.6000"))
            .expect_err("a unit had it");
        let back = faults::during(faults::full(at), || {
            second.lent().take_back(Path::new("naa.6000"))
        });
        assert_eq!(
            second.lent().refuse(Path::new("naa.6000")).is_ok(),
            back.is_ok(),
            "step {at}"
        );
        second.close();
    }
}
