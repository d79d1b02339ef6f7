//! The suite over a real block device node: a loop device over a file.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use backends::backend::{Backend as _, Opening};
use backends::device::Device;
use block::device::{NodeDevice, physical_block_size};
use block::{BlockDevice, Request};

use crate::driver::{Driver, Path};
use crate::suite;
use testing::loop_device::Loop;

/// Opening with blocks of 512 bytes, for a unit that waits for nothing.
const OPENING: Opening<'_> = Opening {
    unit: "lu",
    block_size: 512,
    volume: None,
    patience: Duration::ZERO,
};

/// A disk of 8 MiB, or `None` if this machine allows none.
struct Disk {
    device: Loop,
    _folder: tempfile::TempDir,
}

impl Disk {
    fn attach(sector: u32) -> Option<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let image = folder.path().join("image");
        std::fs::File::create(&image)
            .and_then(|file| file.set_len(8 << 20))
            .expect("an image");
        let device = Loop::attach(&image, &["--sector-size", &sector.to_string()])?;
        Some(Self {
            device,
            _folder: folder,
        })
    }

    fn node(&self) -> &FilePath {
        self.device.node()
    }

    fn told(&self, what: &str) -> String {
        self.device.told(what)
    }

    /// Returns the number of flushes that the disk completed: field 16 of its statistics.
    fn flushes(&self) -> u64 {
        let statistics = self.told("stat");
        let field = statistics.split_whitespace().nth(15);
        field
            .expect("there since Linux 5.5")
            .parse()
            .expect("a number")
    }
}

fn open(node: &FilePath, block_size: u32) -> Arc<dyn BlockDevice> {
    Arc::new(NodeDevice::open(node, block_size).expect("opens"))
}

#[test]
fn a_disk_with_512_byte_sectors() {
    let Some(disk) = Disk::attach(512) else {
        return;
    };
    for path in [Path::Uring, Path::Pool] {
        suite::run(&open(disk.node(), 512), path, 8);
    }
    suite::run(&open(disk.node(), 4096), Path::Uring, 4);
}

#[test]
fn a_disk_with_4_kib_sectors() {
    let Some(disk) = Disk::attach(4096) else {
        return;
    };
    suite::run(&open(disk.node(), 4096), Path::Uring, 8);
    let error = NodeDevice::open(disk.node(), 512).expect_err("sectors are larger");
    assert!(
        error.to_string().contains("use a block size of 4096"),
        "{error}"
    );
}

#[test]
fn a_disk_tells_its_physical_blocks_and_its_medium() {
    for sector in [512, 4096] {
        let Some(disk) = Disk::attach(sector) else {
            return;
        };
        assert_eq!(physical_block_size(disk.node()), Some(sector));
        let geometry = open(disk.node(), sector).geometry();
        assert_eq!((geometry.physical, geometry.alignment), (sector, 0));
        let rotational = disk.told("queue/rotational");
        let rate = u16::from(rotational.trim() == "0");
        assert_eq!(geometry.rotation_rate, rate, "{rotational}");
    }
    for none in ["/dev/null", "/dev/sandstone-none"] {
        assert_eq!(physical_block_size(FilePath::new(none)), None, "{none}");
    }
}

#[test]
fn a_disk_is_used_by_one_only() {
    let Some(disk) = Disk::attach(512) else {
        return;
    };
    let first = open(disk.node(), 512);
    assert_eq!(first.geometry().len, 8 << 20);
    let error = NodeDevice::open(disk.node(), 512).expect_err("busy");
    assert!(error.to_string().contains("nothing was changed"), "{error}");
}

#[test]
fn what_is_no_disk_is_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, [0; 4096]).expect("a file");
    for (path, words) in [
        (file, "is not a block device"),
        (FilePath::new("/dev/null").into(), "is not a block device"),
        (FilePath::new("/dev/sandstone-none").into(), "cannot open"),
    ] {
        let error = Device::at(&path).open(&OPENING).expect_err("no disk");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// The disk itself counts its flushes. Data acknowledged as durable has been flushed, and no other
/// data has.
#[test]
fn flushes_and_durable_writes_reach_the_disk() {
    let Some(disk) = Disk::attach(512) else {
        return;
    };
    assert_eq!(disk.told("queue/write_cache").trim(), "write back");
    let device = open(disk.node(), 4096);
    for path in [Path::Uring, Path::Pool] {
        let mut driver = Driver::new(Arc::clone(&device), path);
        let mut flushed = |what: &str, run: &mut dyn FnMut(&mut Driver)| {
            let before = disk.flushes();
            run(&mut driver);
            let count = disk.flushes() - before;
            eprintln!("{path:?}: {what}: {count} flushes");
            count > 0
        };
        assert!(!flushed("a write", &mut |driver| driver.write(0, &[1; 8192])));
        assert!(flushed("a flush", &mut |driver| driver
            .flush()
            .expect("a flush succeeds")));
        assert!(!flushed("a read", &mut |driver| drop(driver.read(0, 4096))));
        assert!(flushed("a durable write", &mut |driver| driver
            .try_write(4096, &[2; 4096], true)
            .expect("a write succeeds")));
        for durable in [false, true] {
            let flushed = flushed("zeroes", &mut |driver| {
                let zeroes = Request::WriteZeroes {
                    offset: 0,
                    len: 4096,
                    unmap: false,
                    durable,
                };
                driver.run(zeroes).expect("zeroing succeeds");
            });
            assert_eq!(flushed, durable, "{path:?}");
        }
    }
}
