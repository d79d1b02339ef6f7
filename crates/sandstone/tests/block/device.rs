//! The suite over a real block device node: a loop device over a file.

use std::path::{Path as FilePath, PathBuf};
use std::process::Command;
use std::sync::Arc;

use sandstone::block::device::{NodeDevice, physical_block_size};
use sandstone::block::{BlockDevice, open};
use sandstone::config::model::BackendSpec;

use crate::driver::Path;
use crate::suite;

/// A loop device, detached on drop; `None` where there can be none.
struct Loop {
    node: PathBuf,
    _folder: tempfile::TempDir,
}

impl Loop {
    fn attach(sector: u32) -> Option<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let image = folder.path().join("image");
        std::fs::File::create(&image)
            .and_then(|file| file.set_len(8 << 20))
            .expect("an image");
        let output = Command::new("losetup")
            .args(["--find", "--show", "--sector-size", &sector.to_string()])
            .arg(&image)
            .output();
        match output {
            Ok(output) if output.status.success() => {
                let node = String::from_utf8_lossy(&output.stdout).trim().into();
                Some(Self {
                    node,
                    _folder: folder,
                })
            }
            other => {
                eprintln!("skipped: no loop device can be attached here: {other:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.node)
            .status();
    }
}

fn open(node: &FilePath, block_size: u32) -> Arc<dyn BlockDevice> {
    Arc::new(NodeDevice::open(node, block_size).expect("opens"))
}

#[test]
fn a_disk_with_512_byte_sectors() {
    let Some(disk) = Loop::attach(512) else {
        return;
    };
    for path in [Path::Uring, Path::Pool] {
        suite::run(&open(&disk.node, 512), path, 8);
    }
    suite::run(&open(&disk.node, 4096), Path::Uring, 4);
}

#[test]
fn a_disk_with_4_kib_sectors() {
    let Some(disk) = Loop::attach(4096) else {
        return;
    };
    suite::run(&open(&disk.node, 4096), Path::Uring, 8);
    let error = NodeDevice::open(&disk.node, 512).expect_err("sectors are larger");
    assert!(
        error.to_string().contains("use a block size of 4096"),
        "{error}"
    );
}

#[test]
fn a_disk_tells_its_physical_blocks_and_its_medium() {
    for sector in [512, 4096] {
        let Some(disk) = Loop::attach(sector) else {
            return;
        };
        assert_eq!(physical_block_size(&disk.node), Some(sector));
        let geometry = open(&disk.node, sector).geometry();
        assert_eq!((geometry.physical, geometry.alignment), (sector, 0));
        let name = disk.node.file_name().expect("a name").to_string_lossy();
        let queue = FilePath::new("/sys/block").join(&*name).join("queue");
        let rotational = std::fs::read_to_string(queue.join("rotational")).expect("told");
        let rate = u16::from(rotational.trim() == "0");
        assert_eq!(geometry.rotation_rate, rate, "{rotational}");
    }
    for none in ["/dev/null", "/dev/sandstone-none"] {
        assert_eq!(physical_block_size(FilePath::new(none)), None, "{none}");
    }
}

#[test]
fn a_disk_is_used_by_one_only() {
    let Some(disk) = Loop::attach(512) else {
        return;
    };
    let first = open(&disk.node, 512);
    assert_eq!(first.geometry().len, 8 << 20);
    let error = NodeDevice::open(&disk.node, 512).expect_err("busy");
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
        let spec = BackendSpec::Device { path };
        let error = open::open(&spec, folder.path(), 512).expect_err("no disk");
        assert!(error.to_string().contains(words), "{error}");
    }
}
