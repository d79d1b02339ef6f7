//! Traffic of the devices of pools, in the words of the API.

use store::vdev::{BlockIo, Blocks, LeafIo, Transfers};

use model::pool::io::{IoCounts, IoView};
use model::pool::vdev::VdevView;

/// Returns the traffic of a device.
pub(super) fn of_leaf(io: &LeafIo) -> IoView {
    IoView {
        read: counts(&io.read),
        write: counts(&io.write),
    }
}

/// Returns the traffic of a mirror or raidz, with the times of its devices.
pub(super) fn of_blocks(io: &BlockIo, children: &[VdevView]) -> IoView {
    let IoView { read, write } = IoView::of_all(children);
    IoView {
        read: with_blocks(read, &io.read),
        write: with_blocks(write, &io.write),
    }
}

fn counts(of: &Transfers) -> IoCounts {
    IoCounts {
        operations: of.requests,
        bytes: of.bytes,
        requests: of.requests,
        disk_wait_us: of.disk_us,
        total_wait_us: of.total_us,
    }
}

fn with_blocks(of: IoCounts, blocks: &Blocks) -> IoCounts {
    IoCounts {
        operations: blocks.operations,
        bytes: blocks.bytes,
        ..of
    }
}
