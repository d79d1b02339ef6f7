//! The suite over memory and files, with each way to the kernel.

use std::sync::Arc;

use block::BlockDevice;
use block::file::{FileDevice, FileOptions};
use block::memory::MemoryDevice;

use crate::driver::Path;
use crate::suite;

const LEN: u64 = 8 << 20;

#[test]
fn memory_with_512_byte_blocks() {
    let device: Arc<dyn BlockDevice> =
        Arc::new(MemoryDevice::new(LEN, 512, LEN).expect("a sound size"));
    suite::run(&device, Path::Pool, 200);
}

#[test]
fn memory_with_4_kib_blocks() {
    let device: Arc<dyn BlockDevice> =
        Arc::new(MemoryDevice::new(LEN, 4096, LEN).expect("a sound size"));
    suite::run(&device, Path::Uring, 100);
}

fn file(options: FileOptions, path: Path) {
    // The folder is beside the build and not in /tmp, which may be a tmpfs without direct I/O.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let name = folder.path().join("lun");
    FileDevice::create(&name, LEN, options).expect("a new file");
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(&name, options).expect("opens"));
    suite::run(&device, path, 12);
}

#[test]
fn direct_file_by_io_uring() {
    file(
        FileOptions {
            block_size: 4096,
            preallocate: false,
            direct: true,
        },
        Path::Uring,
    );
}

#[test]
fn direct_file_by_pool() {
    file(
        FileOptions {
            block_size: 4096,
            preallocate: false,
            direct: true,
        },
        Path::Pool,
    );
}

#[test]
fn file_with_512_byte_blocks_by_io_uring() {
    file(
        FileOptions {
            block_size: 512,
            preallocate: false,
            direct: true,
        },
        Path::Uring,
    );
}

#[test]
fn file_with_512_byte_blocks_by_pool() {
    file(
        FileOptions {
            block_size: 512,
            preallocate: false,
            direct: true,
        },
        Path::Pool,
    );
}

#[test]
fn buffered_file_by_io_uring() {
    file(
        FileOptions {
            block_size: 512,
            preallocate: false,
            direct: false,
        },
        Path::Uring,
    );
}

#[test]
fn preallocated_file_by_io_uring() {
    file(
        FileOptions {
            block_size: 512,
            preallocate: true,
            direct: true,
        },
        Path::Uring,
    );
}

#[test]
fn preallocated_buffered_file_by_pool() {
    file(
        FileOptions {
            block_size: 4096,
            preallocate: true,
            direct: false,
        },
        Path::Pool,
    );
}
