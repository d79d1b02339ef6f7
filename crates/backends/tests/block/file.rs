//! Promises of the file device beyond the suite: creation, locks, a full disk, a cut file.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use backends::backend::{Backend as _, Opening};
use backends::file::File;
use block::file::{FileDevice, FileOptions};
use block::{BlockDevice, BlockErrorKind, Lane, Request, Submitted, Ticket};

use crate::driver::{Driver, Path};
use testing::skipped::skipped;

const SPARSE: FileOptions = FileOptions {
    block_size: 4096,
    preallocate: false,
    direct: true,
};
const RESERVED: FileOptions = FileOptions {
    preallocate: true,
    ..SPARSE
};

/// Opening with blocks of 4096 bytes, for a unit that waits for nothing.
const OPENING: Opening<'_> = Opening {
    unit: "lu",
    block_size: 4096,
    volume: None,
    patience: Duration::ZERO,
};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

#[test]
fn a_new_file_takes_space_only_if_asked() {
    let folder = folder();
    let (sparse, reserved) = (folder.path().join("sparse"), folder.path().join("reserved"));
    FileDevice::create(&sparse, 4 << 20, SPARSE).expect("a new file");
    FileDevice::create(&reserved, 4 << 20, RESERVED).expect("a new file");
    let blocks = |path| std::fs::metadata(path).expect("a file").blocks() * 512;
    assert!(blocks(&sparse) < 1 << 20);
    assert!(blocks(&reserved) >= 4 << 20);
    let device = Arc::new(FileDevice::open(&reserved, RESERVED).expect("opens"));
    assert!(!device.geometry().thin);
    let mut driver = Driver::new(device, Path::Uring);
    driver.write(0, &[1; 65536]);
    driver.discard(0, 4 << 20);
    assert_eq!(driver.read(0, 65536), [0; 65536]);
    assert!(blocks(&reserved) >= 4 << 20, "the reservation is kept");
}

#[test]
fn a_discard_gives_space_back() {
    let folder = folder();
    let path = folder.path().join("lun");
    FileDevice::create(&path, 16 << 20, SPARSE).expect("a new file");
    let device = Arc::new(FileDevice::open(&path, SPARSE).expect("opens"));
    let mut driver = Driver::new(Arc::clone(&device) as Arc<dyn BlockDevice>, Path::Uring);
    driver.write(0, &vec![1; 4 << 20]);
    driver.flush().expect("a flush succeeds");
    let before = device.usage().expect("a usage").allocated;
    assert!(before >= 4 << 20);
    driver.discard(0, 4 << 20);
    assert!(device.usage().expect("a usage").allocated + (3 << 20) < before);
}

#[test]
fn a_file_is_never_overwritten_nor_shared() {
    let folder = folder();
    let path = folder.path().join("lun");
    FileDevice::create(&path, 1 << 20, SPARSE).expect("a new file");
    let error = FileDevice::create(&path, 1 << 20, SPARSE).expect_err("exists");
    assert!(
        error
            .to_string()
            .contains("exists already; nothing was changed"),
        "{error}"
    );
    let first = FileDevice::open(&path, SPARSE).expect("opens");
    let error = FileDevice::open(&path, SPARSE).expect_err("locked");
    assert!(error.to_string().contains("in use by another"), "{error}");
    drop(first);
    FileDevice::open(&path, SPARSE).expect("free again");
}

#[test]
fn data_is_there_after_reopening() {
    let folder = folder();
    let path = folder.path().join("lun");
    FileDevice::create(&path, 1 << 20, SPARSE).expect("a new file");
    for round in 1..4u8 {
        let device = Arc::new(FileDevice::open(&path, SPARSE).expect("opens"));
        let mut driver = Driver::new(device, Path::Uring);
        if round > 1 {
            assert_eq!(driver.read(8192, 4096), [round - 1; 4096]);
        }
        driver
            .try_write(8192, &[round; 4096], true)
            .expect("a durable write succeeds");
    }
}

#[test]
fn a_file_cut_inside_a_block_is_an_error_too() {
    let folder = folder();
    let path = folder.path().join("lun");
    FileDevice::create(&path, 2 << 20, SPARSE).expect("a new file");
    let device = Arc::new(FileDevice::open(&path, SPARSE).expect("opens"));
    let file = OpenOptions::new().write(true).open(&path).expect("a file");
    // The rest is no whole sector. The kernel returns it, but direct I/O cannot continue after it.
    file.set_len((1 << 20) + 100).expect("cut");
    for way in [Path::Uring, Path::Pool] {
        // One request ends in the cut block, and one begins there.
        for offset in [(1 << 20) - 4096, 1 << 20] {
            let (sender, outcome) = channel();
            let device = Arc::clone(&device);
            std::thread::spawn(move || {
                let mut driver = Driver::new(device, way);
                let _ = sender.send(driver.run(Request::Read { offset, len: 8192 }));
            });
            let outcome = outcome.recv_timeout(Duration::from_secs(20));
            let error = outcome.expect("the read ends").expect_err("no data there");
            assert_eq!(error.kind(), BlockErrorKind::Gone, "{error}");
        }
    }
}

#[test]
fn a_grown_file_is_seen_and_a_cut_one_is_an_error() {
    let folder = folder();
    let state = folder.path();
    let of = |name, size| File {
        path: state.join(name),
        size,
        preallocate: false,
    };
    let lun = of("lun", 1 << 20);
    let made = lun.create(4096).expect("a new file");
    assert_eq!(made, Some(state.join("lun")));
    let made = lun.create(4096).expect("a file that is there");
    assert_eq!(made, None, "it is not overwritten");
    let device = lun.open(&OPENING).expect("opens");
    lun.extend(2 << 20).expect("grows");
    lun.extend(1 << 20).expect_err("would cut data off");
    assert_eq!(device.geometry().len, 1 << 20);
    assert_eq!(device.refresh().expect("a size").len, 2 << 20);
    for path in [Path::Uring, Path::Pool] {
        let mut driver = Driver::new(Arc::clone(&device), path);
        driver.write((2 << 20) - 4096, &[1; 4096]);
        let file = OpenOptions::new()
            .write(true)
            .open(state.join("lun"))
            .expect("a file");
        file.set_len(1 << 20).expect("cut");
        let beyond = Request::Read {
            offset: (2 << 20) - 4096,
            len: 4096,
        };
        let error = driver.run(beyond).expect_err("no data there any more");
        assert_eq!(error.kind(), BlockErrorKind::Gone, "{error}");
        file.set_len(2 << 20).expect("grown");
    }
    drop(device);
    let error = of("lun", 4 << 20).open(&OPENING).expect_err("too short");
    assert!(
        error.to_string().contains("was made with 4194304"),
        "{error}"
    );
    let missing = of("none", 4096);
    let error = missing.open(&OPENING).expect_err("missing");
    assert!(error.to_string().contains("cannot open"), "{error}");
    assert!(!state.join("none").exists());
}

/// A tmpfs of 2 MiB, unmounted on drop, or `None` if mounting is not allowed here.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = folder();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "sandstone-test"])
            .arg(folder.path())
            .status();
        if status.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        skipped("mounting a tmpfs needs root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_no_space_and_nothing_is_lost() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let path = disk.0.path().join("lun");
    let error = FileDevice::create(&path, 8 << 20, RESERVED).expect_err("too large");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert!(!path.exists());
    FileDevice::create(&path, 8 << 20, SPARSE).expect("a new file");
    for way in [Path::Uring, Path::Pool] {
        let device = Arc::new(FileDevice::open(&path, SPARSE).expect("opens"));
        let mut driver = Driver::new(device, way);
        let mut written = 0;
        let error = loop {
            let bytes = vec![(written >> 16) as u8 | 1; 65536];
            match driver.try_write(written, &bytes, false) {
                Ok(()) => written += 65536,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), BlockErrorKind::NoSpace, "{error}");
        assert!(written >= 1 << 20 && error.offset().is_some());
        driver.flush().expect("what was acknowledged is safe");
        for offset in (0..written).step_by(65536) {
            assert_eq!(
                driver.read(offset, 65536),
                vec![(offset >> 16) as u8 | 1; 65536]
            );
        }
        driver.write(0, &[7; 65536]);
        driver.discard(0, 8 << 20);
        driver.write(4 << 20, &[7; 65536]);
        driver.discard(0, 8 << 20);
    }
}

#[test]
fn the_suite_passes_where_there_is_no_hole_to_zero() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let status = Command::new("mount")
        .args(["-o", "remount,size=32m"])
        .arg(disk.0.path())
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "a larger tmpfs"
    );
    let path = disk.0.path().join("lun");
    let options = FileOptions {
        block_size: 512,
        ..SPARSE
    };
    FileDevice::create(&path, 8 << 20, options).expect("a new file");
    for way in [Path::Uring, Path::Pool] {
        let device: Arc<dyn BlockDevice> =
            Arc::new(FileDevice::open(&path, options).expect("opens"));
        crate::suite::run(&device, way, 10);
    }
}

/// An edge-triggered poller, as the real loops have, misses no completion of the ring.
#[test]
fn an_edge_triggered_poller_hears_every_completion() {
    use mio::unix::SourceFd;
    use mio::{Events, Interest, Poll, Token};
    use std::os::fd::AsRawFd as _;

    let folder = folder();
    let path = folder.path().join("lun");
    FileDevice::create(&path, 1 << 20, RESERVED).expect("a new file");
    let device = FileDevice::open(&path, RESERVED).expect("opens");
    let mut lane = Lane::new(Arc::new(|| {}));
    let Some(ring) = lane.poll_fd() else {
        skipped("io_uring is not allowed here");
        return;
    };
    let mut poll = Poll::new().expect("a poller");
    let ring = ring.as_raw_fd();
    let source = &mut SourceFd(&ring);
    poll.registry()
        .register(source, Token(0), Interest::READABLE)
        .expect("registers");
    let (mut events, mut completions) = (Events::with_capacity(8), Vec::new());
    for round in 0..500u64 {
        let in_flight = 1 + round % 4;
        for number in 0..in_flight {
            let request = Request::Read {
                offset: number * 4096,
                len: 4096,
            };
            let submitted = device.submit(request, Ticket::new(number), &mut lane);
            assert!(matches!(submitted, Submitted::Pending));
        }
        lane.submit_batch();
        while lane.in_flight() > 0 {
            match poll.poll(&mut events, Some(Duration::from_secs(20))) {
                Ok(()) => assert!(!events.is_empty(), "round {round}: a completion was missed"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
            }
            lane.take_completions(&mut completions);
        }
        assert_eq!(
            completions
                .drain(..)
                .filter(|(_, outcome)| outcome.is_ok())
                .count() as u64,
            in_flight
        );
    }
}
