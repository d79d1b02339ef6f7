//! The labels of files and devices: read to find pools, wiped when one is destroyed.
//!
//! Both by ordinary reads and writes, without a lock: looking at a device that something else uses must
//! be possible, and do no harm.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use pages::Pages;
use store::format::Label;
use store::format::label::{COPIES, LABEL_SIZE};
use store::pool::{LeafLabels, PoolConfig};
use store::vdev::layout::label_offset;

/// What the labels of a file or device say. One that is too small for a leaf has none.
///
/// # Errors
/// It cannot be opened, or its size is not known.
pub(super) fn read(path: &Path) -> io::Result<LeafLabels> {
    let mut file = File::open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let mut labels = LeafLabels {
        size,
        ..LeafLabels::default()
    };
    for (number, copy) in (0..).zip(&mut labels.copies) {
        if let Some(offset) = label_offset(number, size) {
            let mut bytes = vec![0; LABEL_SIZE];
            // A copy that cannot be read is one that says nothing; the others may.
            if file.read_exact_at(&mut bytes, offset).is_ok() {
                *copy = Pages::from_bytes(&bytes);
            }
        }
    }
    Ok(labels)
}

/// The newest configuration in the labels of a device, and the guid of its leaf; `None` where there is
/// none that this program understands.
pub(super) fn newest(labels: &LeafLabels) -> Option<(PoolConfig, u64)> {
    let decoded = labels
        .copies
        .iter()
        .filter_map(|copy| Label::read(copy).ok());
    let newest = decoded.max_by_key(|label| label.generation)?;
    Some((PoolConfig::decode(&newest.config).ok()?, newest.leaf))
}

/// Writes the first labels of a spare or cache, durably: whoever looks at it sees whose it is. They have no
/// generation, so that what other labels say of the pool counts.
///
/// # Errors
/// It cannot be opened or written.
pub(super) fn write_beside(path: &Path, config: &PoolConfig, leaf: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let label = Label {
        pool: config.guid,
        leaf,
        generation: 0,
        config: config.encode(),
    };
    let bytes = label.encode();
    let zeros = vec![0; LABEL_SIZE];
    for offset in (0..COPIES).filter_map(|number| label_offset(number, size)) {
        file.write_all_at(&zeros, offset)?;
        file.write_all_at(&bytes, offset)?;
    }
    file.sync_all()
}

/// Wipes the labels of a device that was this leaf, where it still is: there may be another one at the same
/// path by now.
///
/// # Errors
/// It cannot be opened, read or written.
pub(super) fn wipe_leaf(path: &Path, leaf: u64) -> io::Result<()> {
    let labels = read(path)?;
    match newest(&labels) {
        Some((_, found)) if found == leaf => wipe(path),
        _ => Ok(()),
    }
}

/// Overwrites all labels with zeros, durably.
///
/// # Errors
/// It cannot be opened or written.
pub(super) fn wipe(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let zeros = vec![0; LABEL_SIZE];
    for offset in (0..COPIES).filter_map(|number| label_offset(number, size)) {
        file.write_all_at(&zeros, offset)?;
    }
    file.sync_all()
}
