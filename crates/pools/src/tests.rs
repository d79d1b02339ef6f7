//! Tests of pools on real files: created, written through volumes, closed, killed, reopened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pages::Pages;

use super::{PoolVolume, Pools, PoolsOptions};
use crate::devices::disks::Disks;
use block::{BlockDevice, BlockErrorKind, Done, Lane, Request, Submitted, Ticket, lane::Outcome};
use model::ErrorKind;
use model::pool::create::CreatePool;
use model::pool::dataset::change::DatasetChange;
use model::pool::import::ImportPool;
use model::pool::vdev_request::{VdevKind, VdevRequest};

mod administration;
mod datasets;
mod direct_reads;
mod disturbance;
mod old_copies;
mod own_devices;
mod read_only;
mod reading_on;
mod salvage;
mod spares;
mod state_folder;
mod twins;

const FILE: u64 = 128 << 20;

pub(super) fn pools(state: &Path) -> Arc<Pools> {
    Pools::start(PoolsOptions {
        state: state.to_owned(),
        installation: "0123456789".to_owned(),
        cache: 16 << 20,
        io_uring: true,
        disks: Disks::default(),
        events: Default::default(),
    })
}

/// Ends all pools as a power cut would.
pub(super) fn cut(pools: Arc<Pools>) {
    for (_, pool) in pools.all() {
        pool.host.abandon();
    }
}

/// Waits until the pool reports that all is well.
pub(super) fn wait_until_well(pools: &Pools) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let view = pools.view("tank").expect("a pool");
        if view.state == "ONLINE" && view.status.is_none() {
            return;
        }
        assert!(Instant::now() < until, "{view:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn request(folder: &Path, kind: VdevKind, count: usize) -> CreatePool {
    let paths: Vec<PathBuf> = (0..count).map(|n| folder.join(format!("d{n}"))).collect();
    CreatePool {
        name: "tank".to_owned(),
        vdevs: vec![VdevRequest { kind, paths }],
        logs: Vec::new(),
        caches: Vec::new(),
        spares: Vec::new(),
        force: false,
        multihost: None,
        file_size: Some(FILE),
        dry_run: false,
    }
}

pub(super) fn create_volume(pools: &Pools, name: &str, size: u64) {
    let change = DatasetChange::Create {
        name: name.to_owned(),
        size: Some(size),
        block_size: None,
        sparse: true,
        parents: false,
        properties: [].into(),
    };
    pools.change(&change).expect("a volume");
}

/// Creates a pool with a volume `tank/a` of `size` bytes, for logical blocks of `granularity`
/// bytes.
pub(super) fn with_volume(
    folder: &Path,
    (kind, count): (VdevKind, usize),
    size: u64,
    granularity: u32,
) -> (Arc<Pools>, PoolVolume) {
    let pools = pools(folder);
    pools.create(&request(folder, kind, count)).expect("a pool");
    create_volume(&pools, "tank/a", size);
    let volume = pools.open_volume("tank/a", granularity).expect("opens");
    (pools, volume)
}

/// Sends one request and waits for its end.
pub(super) fn ask(volume: &PoolVolume, lane: &mut Lane, request: Request) -> Outcome {
    match volume.submit(request, Ticket::new(1), lane) {
        Submitted::Ready(outcome) => outcome,
        Submitted::Pending => loop {
            let mut finished = Vec::new();
            lane.submit_batch();
            lane.take_completions(&mut finished);
            if let Some((_, outcome)) = finished.pop() {
                return outcome;
            }
            lane.wait(None).expect("the lane waits");
        },
    }
}

pub(super) fn write(
    volume: &PoolVolume,
    lane: &mut Lane,
    offset: u64,
    bytes: &[u8],
    durable: bool,
) {
    let data = Pages::from_bytes(bytes);
    let request = Request::Write {
        offset,
        data,
        durable,
    };
    ask(volume, lane, request).expect("written");
}

pub(super) fn read(volume: &PoolVolume, lane: &mut Lane, offset: u64, len: u32) -> Vec<u8> {
    match ask(volume, lane, Request::Read { offset, len }).expect("read") {
        Done::Pages(data) => data.to_vec(),
        other => panic!("{other:?}"),
    }
}

pub(super) fn pattern(len: usize, tag: u8) -> Vec<u8> {
    (0..len).map(|at| (at / 7) as u8 ^ tag).collect()
}

#[test]
fn what_was_durable_is_there_after_the_end_without_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lane = Lane::standing().expect("a lane");
    let (first, volume) = with_volume(folder.path(), (VdevKind::Mirror, 2), 32 << 20, 512);
    assert_eq!(volume.geometry().len, 32 << 20);
    write(
        &volume,
        &mut lane,
        512,
        &pattern(70_000 / 512 * 512, 3),
        true,
    );
    assert_eq!(read(&volume, &mut lane, 512, 4096), pattern(4096, 3));
    for (_, pool) in first.all() {
        pool.host.abandon();
    }
    let gone = ask(&volume, &mut lane, Request::Flush).expect_err("it is over");
    assert_eq!(gone.kind(), BlockErrorKind::Gone);
    drop((volume, first));
    let second = pools(folder.path());
    let volume = second.open_volume("tank/a", 512).expect("opens");
    let len = 70_000 / 512 * 512;
    assert_eq!(read(&volume, &mut lane, 512, len as u32), pattern(len, 3));
    assert_eq!(read(&volume, &mut lane, 0, 512), vec![0; 512]);
    // From memory now, in part and over several blocks.
    assert_eq!(
        read(&volume, &mut lane, 1024, len as u32 - 512),
        pattern(len, 3)[512..]
    );
    let view = second.view("tank").expect("a pool");
    assert_eq!((view.state.as_str(), view.status), ("ONLINE", None));
    assert_eq!(view.vdevs[0].name, "mirror-0");
    second.close();
}

#[test]
fn what_compression_saves_is_told_in_zfs_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lane = Lane::standing().expect("a lane");
    let (first, volume) = with_volume(folder.path(), (VdevKind::Mirror, 2), 8 << 20, 4096);
    // Three blocks of 16 KiB, each of which becomes one sector.
    write(&volume, &mut lane, 0, &[7; 48 << 10], true);
    drop(volume);
    // Figures count only data in checkpoints.
    first.close();
    let second = pools(folder.path());
    let all = second.datasets();
    let property = |dataset: &str, name: &str| {
        let dataset = all
            .iter()
            .find(|of| of.name == dataset)
            .expect("it is there");
        let found = dataset.properties.iter().find(|of| of.name == name);
        found.map(|of| (of.value.clone(), of.rounded.clone()))
    };
    let told = |value: &str, rounded: &str| Some((value.to_owned(), rounded.to_owned()));
    for dataset in ["tank", "tank/a"] {
        assert_eq!(property(dataset, "logicalused"), told("49152", "48K"));
        assert_eq!(property(dataset, "compressratio"), told("4.00", "4.00x"));
    }
    assert_eq!(
        property("tank/a", "logicalreferenced"),
        told("49152", "48K")
    );
    assert_eq!(
        property("tank/a", "refcompressratio"),
        told("4.00", "4.00x")
    );
    assert_eq!(property("tank/a", "referenced"), told("12288", "12K"));
    // A folder itself holds nothing.
    assert_eq!(property("tank", "logicalreferenced"), told("0", "0B"));
    second.close();
}

#[test]
fn what_was_not_durable_is_there_after_an_orderly_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lane = Lane::standing().expect("a lane");
    let (first, volume) = with_volume(folder.path(), (VdevKind::Raidz1, 3), 8 << 20, 4096);
    write(&volume, &mut lane, 0, &pattern(8192, 1), false);
    let zeroes = Request::Discard {
        offset: 4096,
        len: 4096,
    };
    ask(&volume, &mut lane, zeroes).expect("discarded");
    assert_eq!(read(&volume, &mut lane, 4096, 4096), vec![0; 4096]);
    first.close();
    drop((volume, first));
    let second = pools(folder.path());
    let volume = second.open_volume("tank/a", 4096).expect("opens");
    assert_eq!(read(&volume, &mut lane, 0, 4096), pattern(4096, 1));
    assert_eq!(read(&volume, &mut lane, 4096, 4096), vec![0; 4096]);
    second.close();
}

#[test]
fn a_snapshot_is_read_and_never_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lane = Lane::standing().expect("a lane");
    let (pools, volume) = with_volume(folder.path(), (VdevKind::Disk, 1), 8 << 20, 512);
    write(&volume, &mut lane, 0, &pattern(4096, 1), true);
    let snapshot = DatasetChange::Snapshot {
        names: vec!["tank/a@one".to_owned()],
        recursive: false,
        properties: [].into(),
    };
    pools.change(&snapshot).expect("a snapshot");
    let again = pools.change(&snapshot).expect_err("it exists");
    assert_eq!(again.kind, ErrorKind::Exists);
    write(&volume, &mut lane, 0, &pattern(4096, 2), true);
    let then = pools.open_volume("tank/a@one", 512).expect("opens");
    assert!(then.is_snapshot());
    assert_eq!(read(&then, &mut lane, 0, 4096), pattern(4096, 1));
    assert_eq!(read(&volume, &mut lane, 0, 4096), pattern(4096, 2));
    let data = Pages::from_bytes(&[0; 512]);
    let refused = ask(
        &then,
        &mut lane,
        Request::Write {
            offset: 0,
            data,
            durable: false,
        },
    );
    assert_eq!(
        refused.expect_err("read only").kind(),
        BlockErrorKind::ReadOnly
    );
    let all = pools.datasets();
    let names: Vec<&str> = all.iter().map(|dataset| dataset.name.as_str()).collect();
    assert_eq!(names, ["tank", "tank/a", "tank/a@one"]);
    pools.close();
}

#[test]
fn a_pool_goes_by_export_and_comes_by_import() {
    let folder = tempfile::tempdir().expect("a folder");
    let devices = folder.path().join("devices");
    std::fs::create_dir(&devices).expect("a folder");
    let first = pools(folder.path());
    first
        .create(&request(&devices, VdevKind::Mirror, 2))
        .expect("a pool");
    create_volume(&first, "tank/a", 8 << 20);
    let twice = first.create(&request(&devices, VdevKind::Mirror, 2));
    assert_eq!(
        twice.expect_err("the name is taken").kind,
        ErrorKind::Exists
    );
    first.export("tank").expect("exported");
    assert_eq!(first.views(), []);
    let taken = first
        .create(&request(&devices, VdevKind::Mirror, 2))
        .expect_err("labels");
    assert!(taken.message.contains("exported pool 'tank'"), "{taken}");
    let found = first.importable(std::slice::from_ref(&devices));
    assert_eq!(
        (found.len(), found[0].is_exported, found[0].devices.len()),
        (1, true, 2)
    );
    // Half of a mirror is enough, and is reported as half.
    std::fs::remove_file(devices.join("d1")).expect("removed");
    let wanted = ImportPool {
        pool: Some("tank".to_owned()),
        paths: vec![devices.clone()],
        force: false,
        ..ImportPool::default()
    };
    first.import(&wanted).expect("imported");
    let view = first.view("tank").expect("a pool");
    assert_eq!(view.state, "DEGRADED");
    assert!(view.action.expect("something to do").contains("Attach"));
    let children: Vec<&str> = view.vdevs[0]
        .children
        .iter()
        .map(|c| c.state.as_str())
        .collect();
    assert_eq!(children, ["ONLINE", "UNAVAIL"]);
    first.destroy("tank").expect("destroyed");
    assert_eq!(first.importable(&[devices]), []);
    drop(first);
    assert_eq!(pools(folder.path()).views(), []);
}

#[test]
fn a_pool_of_another_host_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = pools(folder.path());
    first
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("a pool");
    first.close();
    drop(first);
    let other = tempfile::tempdir().expect("a folder");
    let second = Pools::start(PoolsOptions {
        state: other.path().to_owned(),
        installation: "another".to_owned(),
        cache: 16 << 20,
        io_uring: false,
        disks: Disks::default(),
        events: Default::default(),
    });
    let mut wanted = ImportPool {
        pool: Some("tank".to_owned()),
        paths: vec![folder.path().to_owned()],
        force: false,
        ..ImportPool::default()
    };
    let refused = second.import(&wanted).expect_err("not exported");
    assert_eq!(refused.kind, ErrorKind::InUse);
    wanted.force = true;
    assert_eq!(second.import(&wanted).expect("forced").name, "tank");
    second.close();
    // At its next start, the first daemon sees that the pool is no longer its own.
    let third = pools(folder.path());
    let view = third.view("tank").expect("known");
    assert_eq!(view.state, "UNAVAIL");
    assert!(view.status.expect("why").contains("was not exported"));
}

#[test]
fn what_makes_no_pool_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let good = request(folder.path(), VdevKind::Mirror, 2);
    let named = |name: &str| CreatePool {
        name: name.to_owned(),
        ..good.clone()
    };
    for name in ["mirror", "raidz2-x", "1tank", "a/b", ""] {
        pools.create(&named(name)).expect_err(name);
    }
    let mut small = good.clone();
    small.file_size = Some(1 << 20);
    let error = pools.create(&small).expect_err("too small");
    assert!(error.next.contains("64M"), "{}", error.next);
    let mut lone = good.clone();
    lone.vdevs[0].paths.pop();
    pools.create(&lone).expect_err("half a mirror");
    let mut uneven = good.clone();
    uneven.vdevs.push(VdevRequest {
        kind: VdevKind::Disk,
        paths: vec![folder.path().join("d9")],
    });
    let error = pools.create(&uneven).expect_err("uneven");
    assert!(
        error.message.contains("mismatched replication level"),
        "{error}"
    );
    assert!(!folder.path().join("d0").exists(), "nothing was made");
    pools.create(&good).expect("a pool");
    pools.close();
}
