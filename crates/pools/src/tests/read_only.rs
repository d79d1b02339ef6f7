//! Tests of pools that are imported read-only: nothing on their devices changes, whatever is wrong
//! with them.

use std::collections::BTreeMap;

use super::*;
use model::pool::dataset::change::DatasetChange;
use model::pool::import::ImportPool;
use model::pool::scan::ScrubAction;
use model::pool::stream::SendRequest;
use model::pool::vdev_change::VdevChange;
use model::pool::vdev_request::VdevKind;

const LEN: usize = 1 << 20;
/// Place of the last write. One node of the volume's map leads to it and to the first write.
const LATE: u64 = 4 << 20;
/// Length of the last write. So short a write stays in the log; a longer one would cause a
/// checkpoint of this small pool.
const LATE_LEN: usize = 64 << 10;

/// Creates a mirror that ended without warning, with changes that only its log holds. Returns the
/// folder of its devices.
fn crashed(folder: &Path) -> PathBuf {
    let devices = folder.join("devices");
    std::fs::create_dir(&devices).expect("a folder");
    let mut lane = Lane::standing().expect("a lane");
    let pools = pools(folder);
    pools
        .create(&request(&devices, VdevKind::Mirror, 2))
        .expect("a pool");
    create_volume(&pools, "tank/a", 32 << 20);
    let volume = pools.open_volume("tank/a", 512).expect("opens");
    write(&volume, &mut lane, 0, &pattern(LEN, 1), true);
    let snapshot = DatasetChange::Snapshot {
        names: vec!["tank/a@s".to_owned()],
        recursive: false,
        properties: BTreeMap::new(),
    };
    pools.change(&snapshot).expect("a snapshot");
    pools.close();
    drop((volume, pools));
    let pools = self::pools(folder);
    let volume = pools.open_volume("tank/a", 512).expect("opens");
    // The first change after the opening causes a checkpoint. The next checkpoint is far away then.
    write(&volume, &mut lane, LATE, &pattern(4096, 0), true);
    for (_, pool) in pools.all() {
        pool.host.sync().expect("a checkpoint");
    }
    write(&volume, &mut lane, LATE, &pattern(LATE_LEN, 2), true);
    for (_, pool) in pools.all() {
        pool.host.abandon();
    }
    devices
}

fn bytes_of(devices: &Path) -> Vec<Vec<u8>> {
    let read = |name| std::fs::read(devices.join(name)).expect("a device");
    ["d0", "d1"].map(read).into()
}

fn import(devices: &Path, read_only: bool) -> ImportPool {
    ImportPool {
        pool: Some("tank".to_owned()),
        paths: vec![devices.to_owned()],
        read_only,
        ..ImportPool::default()
    }
}

/// Reads all data that was written.
fn check(pools: &Pools) -> PoolVolume {
    let mut lane = Lane::standing().expect("a lane");
    let volume = pools.open_volume("tank/a", 512).expect("opens");
    assert_eq!(read(&volume, &mut lane, 0, LEN as u32), pattern(LEN, 1));
    let late = read(&volume, &mut lane, LATE, LATE_LEN as u32);
    assert_eq!(late, pattern(LATE_LEN, 2));
    volume
}

/// Overwrites the nodes of the volumes' maps on all devices. docs/format.md describes these nodes.
fn destroy_maps(devices: &Path) {
    for name in ["d0", "d1"] {
        let mut bytes = std::fs::read(devices.join(name)).expect("a device");
        let mut count = 0;
        for sector in bytes.chunks_exact_mut(4096) {
            let map = u32::from_le_bytes(sector[16..20].try_into().expect("four bytes"));
            // Higher numbers are those of space maps.
            if sector.starts_with(b"SANDNODE") && map < 1 << 31 {
                sector.fill(0xee);
                count += 1;
            }
        }
        assert!(count > 0, "there are nodes");
        std::fs::write(devices.join(name), bytes).expect("destroyed");
    }
}

/// No checkpoint can be made of the changes in the log, because they change unreadable nodes. So
/// the pool cannot be opened for changes. Its readable data must still be readable.
#[test]
fn a_pool_that_no_checkpoint_can_be_made_of_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let devices = crashed(folder.path());
    destroy_maps(&devices);
    let other = tempfile::tempdir().expect("a folder");
    // On another machine, an import must first write that it owns the pool.
    let pools = Pools::start(PoolsOptions {
        state: other.path().to_owned(),
        installation: "another".to_owned(),
        cache: 16 << 20,
        io_uring: true,
        disks: Disks::default(),
        events: Default::default(),
    });
    let forced = |read_only| ImportPool {
        force: true,
        ..import(&devices, read_only)
    };
    let refused = pools.import(&forced(false)).expect_err("damaged");
    assert!(
        refused.message.contains("no checkpoint can be made"),
        "{refused}"
    );
    assert!(refused.next.contains("-o readonly=on"), "{}", refused.next);
    let before = bytes_of(&devices);
    pools.import(&forced(true)).expect("imported");
    let volume = pools.open_volume("tank/a", 512).expect("opens");
    let mut lane = Lane::standing().expect("a lane");
    let late = read(&volume, &mut lane, LATE, LATE_LEN as u32);
    assert_eq!(late, pattern(LATE_LEN, 2));
    let lost = ask(
        &volume,
        &mut lane,
        Request::Read {
            offset: 0,
            len: 512,
        },
    );
    assert_eq!(
        lost.expect_err("its node is lost").kind(),
        BlockErrorKind::Medium
    );
    drop(volume);
    pools.export("tank").expect("exported");
    assert!(bytes_of(&devices) == before, "a device was written");
}

#[test]
fn nothing_is_written_to_the_devices_of_a_pool_that_is_only_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let devices = crashed(folder.path());
    // One half has lost everything but its labels: each read of it would be repaired.
    let mut half = std::fs::read(devices.join("d1")).expect("a device");
    half[4 << 20..100 << 20].fill(7);
    std::fs::write(devices.join("d1"), half).expect("damaged");
    let before = bytes_of(&devices);

    let other = tempfile::tempdir().expect("a folder");
    let first = pools(other.path());
    first.import(&import(&devices, true)).expect("imported");
    let volume = check(&first);
    let view = first.view("tank").expect("a pool");
    assert!(view.is_read_only);
    assert!(view.status.expect("said").contains("read only"));
    drop(volume);
    // The next daemon knows too that the pool is read-only, without another request.
    first.close();
    drop(first);
    let second = pools(other.path());
    drop(check(&second));
    assert!(second.view("tank").expect("a pool").is_read_only);
    second.export("tank").expect("exported");
    assert!(bytes_of(&devices) == before, "a device was written");

    second.import(&import(&devices, false)).expect("imported");
    let volume = check(&second);
    assert!(!second.view("tank").expect("a pool").is_read_only);
    let mut lane = Lane::standing().expect("a lane");
    write(&volume, &mut lane, 0, &pattern(4096, 3), true);
    second.close();
    assert!(bytes_of(&devices) != before);
}

#[test]
fn a_pool_that_is_only_read_takes_no_changes_and_can_be_copied() {
    let folder = tempfile::tempdir().expect("a folder");
    let devices = crashed(folder.path());
    let before = bytes_of(&devices);
    let other = tempfile::tempdir().expect("a folder");
    let pools = pools(other.path());
    pools.import(&import(&devices, true)).expect("imported");
    let volume = check(&pools);
    let mut lane = Lane::standing().expect("a lane");
    assert!(volume.is_read_only());
    let request = Request::Write {
        offset: 0,
        data: Pages::zeroes(4096),
        durable: false,
    };
    let refused = ask(&volume, &mut lane, request).expect_err("only read");
    assert_eq!(refused.kind(), BlockErrorKind::ReadOnly);
    ask(&volume, &mut lane, Request::Flush).expect("nothing to flush");
    volume.usage().expect("known");

    let create = DatasetChange::Create {
        name: "tank/b".to_owned(),
        size: Some(1 << 20),
        block_size: None,
        sparse: true,
        parents: false,
        properties: [].into(),
    };
    let online = VdevChange::Online {
        devices: vec!["d1".to_owned()],
        expand: false,
    };
    let refused = [
        pools.change(&create).map(drop),
        pools.change_vdevs("tank", &online),
        pools.change_vdevs("tank", &VdevChange::Clear { devices: vec![] }),
        pools.scrub("tank", ScrubAction::Start),
        pools.destroy("tank"),
    ];
    for refused in refused {
        let error = refused.expect_err("only read");
        assert!(error.message.contains("read only"), "{error}");
        assert!(error.next.contains("pool export tank"), "{}", error.next);
    }

    let wanted = SendRequest {
        snapshot: "tank/a@s".to_owned(),
        ..SendRequest::default()
    };
    let elsewhere = SendRequest {
        from: Some("pond/a@s".to_owned()),
        ..wanted.clone()
    };
    let error = pools.sender(&elsewhere).expect_err("not of this pool");
    assert!(error.message.contains("another pool"), "{error}");
    let mut sent = 0;
    let mut count = |piece: Vec<u8>| {
        sent += piece.len();
        Ok(())
    };
    let sender = pools.sender(&wanted).expect("there is such a snapshot");
    sender.run(&mut count).expect("sent");
    assert!(sent > LEN / 20, "{sent}");
    drop(volume);
    pools.export("tank").expect("exported");
    assert!(bytes_of(&devices) == before, "a device was written");
}
