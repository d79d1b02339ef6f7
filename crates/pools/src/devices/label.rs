//! Labels of devices: read to find pools, written on devices that are no vdev's leaves, and wiped
//! when a device leaves.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use pages::Pages;
use store::engine::{LeafLabels, PoolConfig, front_labels, rear_labels};
use store::format::label::{COPIES, LABEL_SIZE, NoLabel};
use store::format::{Label, VERSION};
use store::vdev::layout::label_offset;

use block::lane::ask;
use block::{BlockDevice, BlockError, Done, Request};
use hint::Place;
use model::device_name::is_remote;
use model::{Error, ErrorKind};

/// Reads the labels of a device. A device too small for a leaf has none.
///
/// # Errors
/// No label can be read. This must not be taken for a device without labels.
pub(crate) fn read(device: &dyn BlockDevice) -> Result<LeafLabels, BlockError> {
    let size = device.geometry().len;
    let mut failed = None;
    let labels = gathered(size, |offset| {
        let len = LABEL_SIZE as u32;
        match ask(device, Request::Read { offset, len }) {
            Ok(Done::Pages(bytes)) if bytes.len() == LABEL_SIZE => Some(bytes),
            Ok(_) => None,
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    });
    match failed {
        Some(error) if labels.copies.iter().all(Pages::is_empty) => Err(error),
        _ => Ok(labels),
    }
}

/// Reads the labels of a file or device node without a lock. It must be possible, and harmless, to
/// look at a device in use.
///
/// # Errors
/// The file or node cannot be opened, or its size is not known.
pub(crate) fn read_unlocked(path: &Path) -> io::Result<LeafLabels> {
    let mut file = File::open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    Ok(gathered(size, |offset| {
        let mut bytes = vec![0; LABEL_SIZE];
        file.read_exact_at(&mut bytes, offset).ok()?;
        Some(Pages::from_bytes(&bytes))
    }))
}

/// A copy that cannot be read counts as empty, because the others may be readable.
fn gathered(size: u64, mut read: impl FnMut(u64) -> Option<Pages>) -> LeafLabels {
    let mut labels = LeafLabels {
        size,
        ..LeafLabels::default()
    };
    for (number, offset) in front_labels(size).into_iter().enumerate() {
        labels.copies[number] = offset.and_then(&mut read).unwrap_or_default();
    }
    // A device that grew or shrank has its rear labels at its former end.
    let rear = rear_labels([&labels.copies[0], &labels.copies[1]], size);
    for (number, offset) in (2..).zip(rear) {
        labels.copies[number] = offset.and_then(&mut read).unwrap_or_default();
    }
    labels
}

/// Meaning of all labels of a device together.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// The device has no labels.
    Nothing,
    /// Newest configuration, and the guid of the leaf that the device is.
    Leaf(Box<PoolConfig>, u64),
    /// Labels that this program cannot use: their pool, if it is known, and the reason.
    Unusable(Option<u64>, String),
}

/// Returns the meaning of a device's labels. If some copies are of a later version of the program,
/// the whole device is.
pub(crate) fn said(labels: &LeafLabels) -> Said {
    let mut is_damaged = false;
    let mut newest: Option<Label> = None;
    for copy in &labels.copies {
        match Label::read(copy) {
            Ok(label) => {
                if newest
                    .as_ref()
                    .is_none_or(|of| of.generation < label.generation)
                {
                    newest = Some(label);
                }
            }
            Err(NoLabel::Absent) => {}
            Err(NoLabel::Damaged) => is_damaged = true,
            Err(NoLabel::Later(version)) => {
                let why = format!(
                    "a newer version of this program wrote its labels (format {version}; this program knows \
                     formats up to {VERSION})"
                );
                return Said::Unusable(None, why);
            }
        }
    }
    match newest {
        Some(label) => match PoolConfig::decode(&label.config) {
            Ok(config) => Said::Leaf(Box::new(config), label.leaf),
            Err(error) => Said::Unusable(Some(label.pool), error.context),
        },
        None if is_damaged => Said::Unusable(
            None,
            "the device has labels of a pool, but all of them are damaged".to_owned(),
        ),
        None => Said::Nothing,
    }
}

/// Returns the newest configuration in a device's labels and the guid of its leaf, or `None` if
/// this program understands none.
pub(crate) fn newest(labels: &LeafLabels) -> Option<(PoolConfig, u64)> {
    match said(labels) {
        Said::Leaf(config, leaf) => Some((*config, leaf)),
        Said::Nothing | Said::Unusable(..) => None,
    }
}

/// Writes the first labels of a spare or cache durably, so that any reader sees its pool. The
/// labels have no generation, so other labels decide about the pool.
///
/// # Errors
/// The device cannot be written.
pub(crate) fn write_beside(
    device: &dyn BlockDevice,
    config: &PoolConfig,
    leaf: u64,
) -> Result<(), BlockError> {
    let Some(encoded) = config.encode_for_label() else {
        // The engine refuses a pool with that many devices.
        return Ok(());
    };
    let label = Label {
        pool: config.guid,
        leaf,
        generation: 0,
        config: encoded,
    };
    let mut bytes = vec![0; LABEL_SIZE];
    let encoded = label.encode();
    bytes[..encoded.len()].copy_from_slice(&encoded);
    overwrite(device, &bytes)
}

/// Wipes the labels of a leaf's device durably, if the device still is this leaf: another device
/// may be at its place by now. The inner labels go too, so that nobody can bring the leaf back.
///
/// The device cannot be read or written.
pub(crate) fn wipe_leaf(device: &dyn BlockDevice, leaf: u64) -> Result<(), BlockError> {
    match newest(&read(device)?) {
        Some((config, found)) if found == leaf => {
            let size = device.geometry().len;
            let inner = config.inner_offsets(leaf).into_iter().flatten();
            for offset in inner.filter(|at| at + LABEL_SIZE as u64 <= size) {
                write(device, offset, &[0; LABEL_SIZE])?;
            }
            overwrite(device, &[0; LABEL_SIZE])
        }
        _ => Ok(()),
    }
}

fn overwrite(device: &dyn BlockDevice, bytes: &[u8]) -> Result<(), BlockError> {
    let size = device.geometry().len;
    for offset in (0..COPIES).filter_map(|number| label_offset(number, size)) {
        write(device, offset, bytes)?;
    }
    ask(device, Request::Flush).map(drop)
}

fn write(device: &dyn BlockDevice, offset: u64, bytes: &[u8]) -> Result<(), BlockError> {
    let write = Request::Write {
        offset,
        data: Pages::from_bytes(bytes),
        durable: false,
    };
    ask(device, write).map(drop)
}

/// Returns the place of a pool's device, which decides the remedy after an error.
fn place_of(path: &Path) -> Place<'_> {
    use std::os::unix::fs::FileTypeExt as _;
    let is_node = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    if is_remote(path) {
        Place::RemoteDisk(path)
    } else if is_node || path.starts_with("/dev") {
        Place::Device(path)
    } else {
        Place::DataFile(path)
    }
}

/// Words a failure to read, write or wipe the labels of a device.
pub(crate) fn failed(doing: &str, path: &Path, error: BlockError) -> Error {
    let message = format!(
        "could not {doing} the labels of {}: {error}",
        path.display()
    );
    let next = place_of(path).after(error.cause());
    Error::new(ErrorKind::Storage, message, next).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_what_kind_of_place_it_is() {
        let is = |path| place_of(Path::new(path));
        assert!(matches!(is("naa.652534e0"), Place::RemoteDisk(_)));
        assert!(matches!(is("/dev/no-such-disk"), Place::Device(_)));
        assert!(matches!(is("/srv/no-such-file"), Place::DataFile(_)));
    }
}
