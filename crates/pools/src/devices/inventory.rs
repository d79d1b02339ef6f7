//! Inventory of this machine's disks, for administrators who choose some for a pool: the names that
//! are printed on each disk, what uses it, and what is on it.
//!
//! The disks are only looked at. None is opened exclusively or for writing, so an inventory never
//! gets in the way of a program that is about to use one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::label::{self, Said};
use super::system::{Found, System};
use super::{MIN_DEVICE, foreign, own_devices};
use crate::registry::Pools;
use hint::Holder;
use model::disk::DiskView;
use model::quantity::format_size;
use model::{Error, ErrorKind};

/// Longest time for all disks together to be read.
const PATIENCE: Duration = Duration::from_secs(5);

impl Pools {
    /// Lists the disks of this machine, with what uses them and what is on them.
    pub fn disks_of_this_machine(&self) -> Vec<DiskView> {
        let found = System::default().disks();
        let own: Vec<Option<String>> = found
            .iter()
            .map(|disk| own_devices::name_of_pool(self, &disk.node))
            .collect();
        let looks = look_at_all(&found);
        let disks = found.into_iter().zip(own).zip(looks);
        disks
            .map(|((disk, pool), look)| view(disk, pool, look))
            .collect()
    }
}

/// Returns the path that stays the same, and the device node, of each disk of this machine. No disk
/// is touched.
pub fn disk_paths() -> Vec<(String, String)> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let disks = System::default().disks().into_iter();
    disks
        .map(|disk| {
            let path = disk.by_id.as_deref().unwrap_or(&disk.node);
            (text(path), text(&disk.node))
        })
        .collect()
}

impl Pools {
    /// Lights the lamp of the slot that a disk is in, or puts it out. The disk is named by path,
    /// device node or serial number.
    ///
    /// # Errors
    /// There is no such disk, or its slot has no lamp that this machine can light.
    pub fn locate_disk(&self, name: &str, on: bool) -> Result<(), Error> {
        light(&System::default().disks(), name, on)
    }
}

fn light(disks: &[Found], name: &str, on: bool) -> Result<(), Error> {
    let path = Some(Path::new(name));
    let is_it = |disk: &&Found| {
        let paths = [Some(disk.node.as_path()), disk.by_id.as_deref()];
        paths.contains(&path) || disk.serial.as_deref() == Some(name)
    };
    let disk = disks.iter().find(is_it).ok_or_else(|| {
        Error::not_found(
            format!("this machine has no disk {name}"),
            "see `sandstone pool disks`; a disk that is gone is found by its serial number, which is \
             printed on it",
        )
    })?;
    let node = disk.node.display();
    let Some(lamp) = &disk.lamp else {
        return Err(Error::new(
            ErrorKind::Refused,
            format!("the slot of {node} has no lamp that the kernel can light"),
            format!(
                "try `ledctl locate={node}` of the package ledmon; or look for the serial number, {}, which \
                 is printed on the disk",
                disk.serial.as_deref().unwrap_or("unknown here")
            ),
        ));
    };
    let word = if on { "1" } else { "0" };
    std::fs::write(lamp, word).map_err(|error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the lamp of {node} cannot be set: {error}"),
            "see the kernel's log; the daemon needs the rights of root for it",
        )
    })
}

/// Result of looking at what is on a disk.
enum Look {
    /// Known data, or `None` if none is known.
    At(Option<String>),
    /// Reason why the disk could not be read.
    Failed(String),
}

/// Looks at all disks at once, each on a thread of its own. A disk that does not answer is left to
/// its thread.
fn look_at_all(disks: &[Found]) -> Vec<Look> {
    let (reply, answers) = channel();
    for (number, disk) in disks.iter().enumerate() {
        let (reply, node) = (reply.clone(), disk.node.clone());
        let work = move || {
            let look = match contents(&node) {
                Ok(holds) => Look::At(holds),
                Err(error) => Look::Failed(format!("it cannot be read: {error}")),
            };
            // The requester may have stopped waiting.
            drop(reply.send((number, look)));
        };
        let thread = std::thread::Builder::new().name("looking".to_owned());
        // A disk without a thread counts as one that did not answer.
        drop(thread.spawn(work));
    }
    drop(reply);
    let silent = || Look::Failed("it does not answer".to_owned());
    let mut looks: Vec<Look> = disks.iter().map(|_| silent()).collect();
    let end = Instant::now() + PATIENCE;
    while let Ok((number, look)) =
        answers.recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        looks[number] = look;
    }
    looks
}

/// Returns the known data on a device, in words.
fn contents(node: &Path) -> io::Result<Option<String>> {
    let labels = label::read_unlocked(node)?;
    Ok(match label::said(&labels) {
        Said::Leaf(config, _) if config.is_exported => {
            Some(format!("a device of the exported pool {}", config.name))
        }
        Said::Leaf(config, _) => Some(format!("a device of a pool {}", config.name)),
        Said::Unusable(_, why) => Some(format!("perhaps a device of a pool: {why}")),
        Said::Nothing => {
            let file = File::open(node)?;
            let read = |offset: u64, len: usize| {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, offset).map(|()| bytes)
            };
            foreign::found_by(labels.size, &labels, read)?.map(str::to_owned)
        }
    })
}

fn view(disk: Found, pool: Option<String>, look: Look) -> DiskView {
    let holder = || Holder::of(&disk.node).map(|holder| holder.told());
    let of_pool = pool.map(|pool| format!("it is a device of pool {pool}"));
    let in_use = of_pool.or_else(holder).or_else(|| match &look {
        _ if disk.is_read_only => Some("it takes no writes".to_owned()),
        Look::Failed(why) => Some(why.clone()),
        Look::At(_) if disk.size < MIN_DEVICE => Some(format!(
            "it has less than {}, which is the least for a pool",
            format_size(MIN_DEVICE)
        )),
        Look::At(_) => None,
    });
    let holds = match look {
        Look::At(holds) => holds,
        Look::Failed(_) => None,
    };
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    DiskView {
        node: text(disk.node.clone()),
        path: text(disk.by_id.unwrap_or(disk.node)),
        size: disk.size,
        model: disk.model,
        serial: disk.serial,
        wwn: disk.wwn,
        slot: disk.slot,
        is_rotational: disk.is_rotational,
        in_use,
        holds,
        health: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(size: u64) -> Found {
        Found {
            node: "/dev/sdx".into(),
            size,
            ..Found::default()
        }
    }

    #[test]
    fn a_file_with_a_file_system_is_told_from_an_empty_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let file = File::create(&path).expect("a file");
        file.set_len(64 << 20).expect("a size");
        assert_eq!(contents(&path).expect("read"), None);
        file.write_all_at(b"XFSB", 0).expect("written");
        let holds = contents(&path).expect("read");
        assert_eq!(holds.as_deref(), Some("an XFS file system"));
        assert!(contents(&folder.path().join("none")).is_err());
    }

    #[test]
    fn the_lamp_of_a_slot_is_lit_by_any_name_of_its_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let lamp = folder.path().join("locate");
        std::fs::write(&lamp, "0").expect("written");
        let lit = Found {
            by_id: Some("/dev/disk/by-id/ata-x".into()),
            serial: Some("ZL2".to_owned()),
            lamp: Some(lamp.clone()),
            ..found(1 << 40)
        };
        let dark = Found {
            node: "/dev/sdy".into(),
            ..found(1 << 40)
        };
        let disks = [lit, dark];
        for (name, on, told) in [
            ("/dev/sdx", true, "1"),
            ("ZL2", false, "0"),
            ("/dev/disk/by-id/ata-x", true, "1"),
        ] {
            light(&disks, name, on).expect("lit");
            assert_eq!(std::fs::read_to_string(&lamp).expect("read"), told);
        }
        let error = light(&disks, "/dev/sdy", true).expect_err("no lamp");
        assert!(error.next.contains("ledctl locate=/dev/sdy"), "{error:?}");
        let error = light(&disks, "/dev/sdz", true).expect_err("no disk");
        assert_eq!(error.kind, ErrorKind::NotFound);
    }

    #[test]
    fn a_disk_says_why_no_pool_can_take_it() {
        let of_pool = view(found(1 << 40), Some("tank".to_owned()), Look::At(None));
        assert_eq!(
            of_pool.in_use.as_deref(),
            Some("it is a device of pool tank")
        );
        let small = view(found(1 << 20), None, Look::At(None));
        assert!(
            small
                .in_use
                .is_some_and(|why| why.contains("less than 64M"))
        );
        let silent = view(found(1 << 40), None, Look::Failed("it is silent".into()));
        assert_eq!(silent.in_use.as_deref(), Some("it is silent"));
        let read_only = Found {
            is_read_only: true,
            ..found(1 << 40)
        };
        let read_only = view(read_only, None, Look::At(None));
        assert_eq!(read_only.in_use.as_deref(), Some("it takes no writes"));
        let bare = view(found(1 << 40), None, Look::At(None));
        assert_eq!((bare.in_use, bare.path.as_str()), (None, "/dev/sdx"));
    }
}
