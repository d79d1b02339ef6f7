//! Devices that a user names: one function opens them for the benchmark, the NBD server and all
//! else that works on any block device.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{major, minor};

use crate::backend::Backend as _;
use crate::memory::Memory;
use block::device::NodeDevice;
use block::file::{FileDevice, FileOptions};
use block::{BlockDevice, Lane, OpenError};
use initiator::adapter::AdapterError;
use initiator::device::MultipathDevice;
use initiator::open::{OpenUrlError, open_named, open_url};
use model::device_name;
use model::initiator::InitiatorSpec;
use model::initiator::url::{LunUrl, pairs};
use model::quantity::parse_size;

/// Block length in bytes, if the user gives none and the storage beneath needs no more.
const DEFAULT_BLOCK: u32 = 512;

/// Opens the device that `what` names, for this process alone.
///
/// A name is the path of a file or of a block device, `memory:SIZE`, an `iscsi://` URL, or the name
/// of a device (`naa.…`) that the targets of `configured` show. Blocks are `block_size` bytes (512
/// or 4096), or as long as the device beneath has them. Parts of the device may live in `lane` from
/// then on.
///
/// # Errors
/// There is no such thing, it is in use, or it cannot be used with such blocks.
pub fn open(
    what: &str,
    block_size: Option<u32>,
    configured: &InitiatorSpec,
    lane: &mut Lane,
) -> Result<Arc<dyn BlockDevice>, OpenError> {
    if let Some(size) = what.strip_prefix("memory:") {
        return memory(size, block_size.unwrap_or(DEFAULT_BLOCK));
    }
    if is_logical_unit(what) {
        let unit = logical_unit(what, block_size, configured, lane)?;
        return Ok(unit);
    }
    if let Some((scheme, _)) = what.split_once("://") {
        return Err(OpenError::new(
            format!("{scheme}:// is not a known kind of backend"),
            "name a file, a block device, memory:SIZE, iscsi://host/target/lun or naa.… as `sandstone initiator device list` shows it",
        ));
    }
    let path = Path::new(what);
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.file_type().is_block_device() => {
            let blocks = block_size.unwrap_or_else(|| logical_block(metadata.rdev()));
            Ok(Arc::new(NodeDevice::open_whole(path, blocks)?))
        }
        // The function that opens the device reports any error.
        _ => {
            let options = FileOptions {
                block_size: block_size.unwrap_or(DEFAULT_BLOCK),
                preallocate: false,
                direct: true,
            };
            Ok(Arc::new(FileDevice::open_whole(path, options)?))
        }
    }
}

/// Returns the name of a device in a form for others: without the secrets and options of a URL.
pub fn shown(what: &str) -> String {
    let Some((scheme, rest)) = what.split_once("://") else {
        let is_named = device_name::is_one(what);
        let name = if is_named {
            device_name::without_options(what)
        } else {
            what
        };
        return name.to_owned();
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.split('?').next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}/{path}"),
        // The secret holds a slash, so nobody can open this URL.
        None if path.contains('@') => format!("{scheme}://…"),
        None => format!("{scheme}://{authority}/{path}"),
    }
}

/// Reports whether `what` names a logical unit, which is reached through sessions.
pub fn is_logical_unit(what: &str) -> bool {
    LunUrl::is_one(what) || device_name::is_one(what)
}

/// Opens the logical unit of an `iscsi://` URL, or of a device name.
///
/// # Errors
/// The errors of [`open`] apply.
pub fn logical_unit(
    what: &str,
    block_size: Option<u32>,
    configured: &InitiatorSpec,
    lane: &mut Lane,
) -> Result<Arc<MultipathDevice>, OpenError> {
    let opened = match device_name::is_one(what) {
        true => open_named(what, configured, lane),
        false => open_url(what, lane),
    };
    let device = opened.map_err(|error| {
        let next = match &error {
            OpenUrlError::Url(_) => "correct the URL",
            OpenUrlError::Name(_) => {
                "see `sandstone initiator device list` and `sandstone initiator login`; to name a device \
                 without a login, use a URL: iscsi://host/target/lun"
            }
            OpenUrlError::Adapter(AdapterError::NoDevice { .. }) => {
                "`sandstone initiator device list` shows the known names"
            }
            OpenUrlError::Adapter(AdapterError::NoUnit { .. }) => {
                "have the target map the unit to this initiator, or name another LUN"
            }
            OpenUrlError::Adapter(_) => {
                "check the portal, the target's name, its access rules for this initiator, and CHAP: \
                 iscsi://USER%SECRET@…"
            }
        };
        OpenError::new(error.to_string(), next)
    })?;
    let has = device.geometry().granularity;
    match block_size.filter(|wanted| *wanted != has) {
        Some(wanted) => Err(OpenError::new(
            format!("the logical unit has blocks of {has} bytes, not {wanted}"),
            "omit the block size",
        )),
        None => Ok(device),
    }
}

/// Returns the options of a URL in their order, in a form for others: without the secrets.
pub fn shown_options(what: &str) -> Vec<(String, String)> {
    let query = match what.split_once("://") {
        // A secret before the host may hold a question mark.
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None if device_name::is_one(what) => what,
        None => return Vec::new(),
    };
    let (_, query) = query.split_once('?').unwrap_or((query, ""));
    pairs(query)
        .map(|(name, value)| {
            let is_secret = name.contains("password");
            let value = if is_secret { "…" } else { value };
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

fn memory(size: &str, block_size: u32) -> Result<Arc<dyn BlockDevice>, OpenError> {
    let size = parse_size(size)
        .map_err(|message| OpenError::new(message, "give the amount of memory, as in memory:1G"))?;
    let memory = Memory { size };
    memory.create(block_size)?;
    memory.open(block_size)
}

/// Returns the sector size of a device, in bytes.
fn logical_block(node: u64) -> u32 {
    let device = format!("/sys/dev/block/{}:{}", major(node), minor(node));
    // A partition has its disk's queue.
    let read = |queue: &str| -> Option<u32> {
        let text = std::fs::read_to_string(format!("{device}/{queue}/logical_block_size")).ok()?;
        text.trim().parse().ok()
    };
    read("queue")
        .or_else(|| read("../queue"))
        .unwrap_or(DEFAULT_BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let url = "iscsi://user%secret@host:3260/iqn.x:y/0?target_password=other";
        assert_eq!(shown(url), "iscsi://host:3260/iqn.x:y/0");
        assert_eq!(
            shown("iscsi://u%a?b@host/iqn.x/0?target_password=p@q"),
            "iscsi://host/iqn.x/0"
        );
        assert_eq!(shown("iscsi://u%a/b@host/iqn.x/0"), "iscsi://…");
        assert_eq!(shown("/dev/disk@?"), "/dev/disk@?");
        let url = "iscsi://u%a?psp=x@host/iqn.x/0?psp=rr&portal=b&target_password=p&portal=c";
        let words: Vec<String> = shown_options(url)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            words,
            ["psp=rr", "portal=b", "target_password=…", "portal=c"]
        );
        assert!(shown_options("/dev/disk?psp=rr").is_empty());
        let named = "naa.652534e0?psp=rr&queue_depth=8";
        assert_eq!(shown(named), "naa.652534e0");
        assert_eq!(shown_options(named).len(), 2);
    }

    #[test]
    fn opens_files_and_memory_and_says_what_is_wrong_with_others() {
        let mut lane = Lane::without_io_uring(Arc::new(|| {}));
        let open = |what, block_size, lane: &mut Lane| {
            open(what, block_size, &InitiatorSpec::default(), lane)
        };
        let device = open("memory:1M", Some(4096), &mut lane).expect("memory");
        assert_eq!(device.geometry().len, 1 << 20);
        assert_eq!(device.geometry().granularity, 4096);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk.img");
        let name = path.to_str().expect("UTF-8");
        let error = open(name, None, &mut lane).expect_err("nothing is there");
        assert!(error.next().contains("create it"), "{error}");
        std::fs::write(&path, vec![0; 8192]).expect("a file");
        let device = open(name, None, &mut lane).expect("a file");
        assert_eq!(device.geometry().granularity, 512);
        assert!(open(name, None, &mut lane).is_err(), "it is in use");
        let error = open("memory:much", None, &mut lane).expect_err("no size");
        assert!(error.to_string().contains("not a size"), "{error}");
        let error = open("ftp://x/y", None, &mut lane).expect_err("no scheme");
        assert!(error.to_string().contains("ftp://"), "{error}");
        let error = open("naa.652534e0", None, &mut lane).expect_err("no login");
        assert!(
            error.to_string().contains("no target is configured"),
            "{error}"
        );
    }
}
