//! Facts that the kernel and udev report about block devices: below /sys, and by the links of
//! /dev/disk/by-id. The kernel also knows the machine's name.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{major, makedev, minor};

use super::identity::{FileIdentity, Identity, IdentityVerdict};
use model::device_name::is_remote;

/// Folders that hold these facts.
#[derive(Clone, Debug)]
pub(crate) struct System {
    sys: PathBuf,
    dev: PathBuf,
}

impl Default for System {
    fn default() -> Self {
        Self {
            sys: "/sys".into(),
            dev: "/dev".into(),
        }
    }
}

/// Returns the name of this machine.
pub(crate) fn machine() -> String {
    let machine = rustix::system::uname();
    machine.nodename().to_string_lossy().into_owned()
}

/// Identity of a device, by whatever path it is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// File system, and an inode in it.
    File(u64, u64),
    /// Device node.
    Node(u64),
    /// Disk of another machine.
    Remote(PathBuf),
}

/// Returns the device that a path leads to, or `None` if nothing is there. A loop device over a
/// whole file counts as the file, and a path of a multipath device counts as the multipath device.
pub(crate) fn key(path: &Path) -> Option<Key> {
    if is_remote(path) {
        return Some(Key::Remote(path.to_owned()));
    }
    let found = fs::metadata(path).ok()?;
    if !found.file_type().is_block_device() {
        return Some(Key::File(found.dev(), found.ino()));
    }
    let system = System::default();
    let folder = system.folder_of(found.rdev());
    let behind = folder.and_then(|folder| {
        let whole = || whole_file(&folder).and_then(|file| key(&file));
        multipath_of(&folder).map(Key::Node).or_else(whole)
    });
    Some(behind.unwrap_or(Key::Node(found.rdev())))
}

/// Returns the text of a kernel file, or `None` if the file is missing or empty.
fn told(folder: &Path, what: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(what)).ok()?;
    // SCSI names are padded with blanks.
    let words: Vec<&str> = text.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns the path unchanged, because it may contain blanks.
fn backing_file(folder: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(folder.join("loop/backing_file")).ok()?;
    Some(PathBuf::from(text.strip_suffix('\n').unwrap_or(&text)))
}

/// Returns the file behind a loop device, if the loop device covers the whole file.
fn whole_file(folder: &Path) -> Option<PathBuf> {
    let is_zero = |what: &str| told(folder, what).is_some_and(|number| number == "0");
    (is_zero("loop/offset") && is_zero("loop/sizelimit")).then(|| backing_file(folder))?
}

/// Returns the multipath device that a disk is a path of.
fn multipath_of(folder: &Path) -> Option<u64> {
    let holders = fs::read_dir(folder.join("holders")).ok()?.flatten();
    let mut multipath = holders
        .map(|holder| holder.path())
        .filter(|holder| told(holder, "dm/uuid").is_some_and(|uuid| uuid.starts_with("mpath-")));
    let number = told(&multipath.next()?, "dev")?;
    let (major, minor) = number.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the name of a mapped device. For a multipath device, this is the name of its disk.
fn name_of_mapped(uuid: &str) -> String {
    match uuid.strip_prefix("mpath-3") {
        Some(naa) => format!("naa.{naa}"),
        None => format!("dm.{uuid}"),
    }
}

/// Reports whether a folder below /sys is that of a whole disk.
fn is_disk(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let is_other = NO_DISKS.iter().any(|start| {
        let rest = name.strip_prefix(start);
        rest.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
    });
    let is_hidden = told(folder, "hidden").is_some_and(|number| number == "1");
    let is_virtual = match told(folder, "dm/uuid") {
        Some(uuid) => !uuid.starts_with("mpath-"),
        None => folder.join("dm").exists() || folder.join("md").exists(),
    };
    let is_part = folder.join("partition").exists() || multipath_of(folder).is_some();
    !(is_other || is_hidden || is_virtual || is_part)
}

/// Returns the slot of the enclosure in which a disk is, and the file that lights its lamp.
fn slot_of(folder: &Path) -> Option<(String, PathBuf)> {
    let mut entries = fs::read_dir(folder.join("device")).ok()?.flatten();
    entries.find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let slot = name.strip_prefix("enclosure_device:")?;
        Some((slot.to_owned(), entry.path().join("locate")))
    })
}

/// Returns the serial number in page 80h of a SCSI disk.
fn scsi_serial(folder: &Path) -> Option<String> {
    let page = fs::read(folder.join("device/vpd_pg80")).ok()?;
    let text = String::from_utf8_lossy(page.get(4..)?).replace('\0', " ");
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Disk of this machine, with the facts that the kernel and udev report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Device node.
    pub(crate) node: PathBuf,
    /// Link below /dev/disk/by-id that tells most to people.
    pub(crate) by_id: Option<PathBuf>,
    pub(crate) size: u64,
    pub(crate) model: Option<String>,
    pub(crate) serial: Option<String>,
    pub(crate) wwn: Option<String>,
    pub(crate) slot: Option<String>,
    /// File of the kernel that lights the lamp of the slot.
    pub(crate) lamp: Option<PathBuf>,
    pub(crate) is_rotational: bool,
    pub(crate) is_read_only: bool,
}

/// Starts of the names of block devices that are no disks: memory, optical and floppy drives.
const NO_DISKS: [&str; 4] = ["ram", "zram", "sr", "fd"];
/// Starts of links below by-id that only repeat a number.
const NUMBERS: [&str; 5] = ["wwn-", "scsi-3", "nvme-eui.", "nvme-nvme.", "dm-uuid-"];

impl System {
    /// Lists whole disks by name. Partitions, arrays, logical volumes, and the single paths of
    /// multipath devices are left out.
    pub(crate) fn disks(&self) -> Vec<Found> {
        let entries = fs::read_dir(self.sys.join("class/block")).into_iter();
        let entries = entries.flatten().flatten();
        let folders = entries.filter_map(|entry| fs::canonicalize(entry.path()).ok());
        let mut found: Vec<Found> = folders
            .filter(|folder| is_disk(folder))
            .filter_map(|folder| self.disk(&folder))
            .collect();
        found.sort_by(|a, b| a.node.cmp(&b.node));
        found
    }

    fn disk(&self, folder: &Path) -> Option<Found> {
        let is_set = |what: &str| told(folder, what).is_some_and(|number| number == "1");
        let sectors: u64 = told(folder, "size")?.parse().ok()?;
        let (identity, slot) = (self.identity(folder), slot_of(folder));
        let links = self.by_id(folder);
        let is_telling = |link: &&String| !NUMBERS.iter().any(|start| link.starts_with(start));
        let best = links.iter().find(is_telling).or(links.first());
        let found = Found {
            node: self.dev.join(folder.file_name()?),
            by_id: best.map(|name| self.dev.join("disk/by-id").join(name)),
            // The kernel counts sectors of 512 bytes, whatever the disk's own are.
            size: sectors * 512,
            model: told(folder, "device/model"),
            serial: identity.serial,
            wwn: identity.wwn,
            slot: slot.clone().map(|(name, _)| name),
            lamp: slot.map(|(_, lamp)| lamp).filter(|lamp| lamp.exists()),
            is_rotational: is_set("queue/rotational"),
            is_read_only: is_set("ro"),
        };
        (found.size > 0).then_some(found)
    }

    /// Returns the folder below /sys of a device node.
    pub(crate) fn folder_of(&self, node: u64) -> Option<PathBuf> {
        let link = format!("dev/block/{}:{}", major(node), minor(node));
        fs::canonicalize(self.sys.join(link)).ok()
    }

    /// Returns the identity of the device with a folder below /sys.
    pub(crate) fn identity(&self, folder: &Path) -> Identity {
        let partition = told(folder, "partition").and_then(|number| number.parse().ok());
        let disk = match (partition, folder.parent()) {
            (Some(_), Some(disk)) => disk,
            _ => folder,
        };
        let mapped = told(disk, "dm/uuid").map(|uuid| name_of_mapped(&uuid));
        let array = || told(disk, "md/uuid").map(|uuid| format!("md.{uuid}"));
        let wwn = mapped
            .or_else(array)
            .or_else(|| told(disk, "device/wwid"))
            .or_else(|| told(disk, "wwid"));
        let serial = told(disk, "serial")
            .or_else(|| told(disk, "device/serial"))
            .or_else(|| scsi_serial(disk));
        let is_named = wwn.is_some() || serial.is_some();
        let file = backing_file(disk).and_then(|file| FileIdentity::of(&file));
        Identity {
            by_id: match is_named || file.is_some() {
                true => Vec::new(),
                false => self.by_id(folder),
            },
            wwn,
            serial,
            partition,
            file: file.map(|file| FileIdentity {
                offset: told(disk, "loop/offset").map_or(0, |of| of.parse().unwrap_or(0)),
                ..file
            }),
        }
    }

    /// Returns the names that udev gives a device.
    fn by_id(&self, folder: &Path) -> Vec<String> {
        let Some(name) = folder.file_name() else {
            return Vec::new();
        };
        let links = fs::read_dir(self.dev.join("disk/by-id")).into_iter();
        let own = links.flatten().flatten().filter(|link| {
            let target = fs::read_link(link.path()).ok();
            target.is_some_and(|target| target.file_name() == Some(name))
        });
        let mut names: Vec<String> = own
            .map(|link| link.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Returns the present path of a remembered disk, or `None` if it is missing or several disks
    /// claim to be it. A multipath device goes before its paths.
    pub(crate) fn find(&self, wanted: &Identity) -> Option<PathBuf> {
        let entries = fs::read_dir(self.sys.join("class/block")).ok()?.flatten();
        let folders = entries.filter_map(|entry| fs::canonicalize(entry.path()).ok());
        let is_it =
            |folder: &PathBuf| wanted.compare(&self.identity(folder)) == IdentityVerdict::Same;
        let is_path = |folder: &PathBuf| multipath_of(folder).is_some();
        let mut found: Vec<PathBuf> = folders
            .filter(is_it)
            .filter(|folder| !is_path(folder))
            .collect();
        let one = found.pop().filter(|_| found.is_empty())?;
        Some(self.dev.join(one.file_name()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a system with these facts: a folder below /sys/class/block, a file in it, and the
    /// file's text.
    fn telling(said: &[(&str, &str, &str)]) -> (tempfile::TempDir, System) {
        let root = tempfile::tempdir().expect("a folder");
        let system = System {
            sys: root.path().join("sys"),
            dev: root.path().join("dev"),
        };
        for (device, file, text) in said {
            let path = system.sys.join("class/block").join(device).join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, format!("{text}\n")).expect("written");
        }
        (root, system)
    }

    fn identity(system: &System, device: &str) -> Identity {
        system.identity(&system.sys.join("class/block").join(device))
    }

    #[test]
    fn a_disk_is_found_under_another_name() {
        let wwid = "device/wwid";
        let (_root, before) = telling(&[("sdb", wwid, "naa.5000c500a"), ("sdc", wwid, "naa.5b")]);
        let was = identity(&before, "sdb");
        assert_eq!(was.to_string(), "disk naa.5000c500a");
        let (_root, now) = telling(&[("sdb", wwid, "naa.5b"), ("sdc", wwid, "naa.5000c500a")]);
        assert_eq!(was.compare(&identity(&now, "sdb")), IdentityVerdict::Other);
        assert_eq!(now.find(&was), Some(now.dev.join("sdc")));
        let (_root, without) = telling(&[("sdb", wwid, "naa.5b")]);
        assert_eq!(without.find(&was), None);
        // If two disks make an equal claim, neither is chosen.
        let (_root, both) = telling(&[
            ("sdb", wwid, "naa.5000c500a"),
            ("sdc", wwid, "naa.5000c500a"),
        ]);
        assert_eq!(both.find(&was), None);
    }

    #[test]
    fn a_multipath_device_goes_before_its_paths() {
        let (_root, system) = telling(&[
            ("sda", "device/wwid", "naa.600a"),
            ("sda/holders/dm-0", "dm/uuid", "mpath-3600a"),
            ("sda/holders/dm-0", "dev", "253:7"),
            ("sdb", "device/wwid", "naa.600a"),
            ("sdb/holders/dm-0", "dm/uuid", "mpath-3600a"),
            ("sdb/holders/dm-0", "dev", "253:7"),
            ("dm-0", "dm/uuid", "mpath-3600a"),
            ("dm-1", "dm/uuid", "LVM-x"),
        ]);
        let was = identity(&system, "sda");
        assert_eq!(system.find(&was), Some(system.dev.join("dm-0")));
        let folder = system.sys.join("class/block/sdb");
        assert_eq!(multipath_of(&folder), Some(makedev(253, 7)));
        assert_eq!(identity(&system, "dm-1").wwn.as_deref(), Some("dm.LVM-x"));
    }

    #[test]
    fn serial_numbers_partitions_and_links_tell_too() {
        let (_root, system) = telling(&[
            ("vda", "serial", "S  1"),
            ("vda/vda1", "partition", "1"),
            ("sdd", "device/vpd_pg80", "\0\u{80}\0\u{4}AB C"),
            ("xvda", "size", "5"),
        ]);
        assert_eq!(identity(&system, "vda").serial.as_deref(), Some("S 1"));
        let part = identity(&system, "vda/vda1");
        assert_eq!(
            (part.serial.as_deref(), part.partition),
            (Some("S 1"), Some(1))
        );
        assert_eq!(identity(&system, "xvda"), Identity::default());
        let links = system.dev.join("disk/by-id");
        fs::create_dir_all(&links).expect("made");
        std::os::unix::fs::symlink("../../xvda", links.join("xen-1")).expect("a link");
        assert_eq!(identity(&system, "xvda").by_id, ["xen-1"]);
    }

    #[test]
    fn disks_are_listed_with_what_is_printed_on_them_and_nothing_else_is() {
        let (_root, system) = telling(&[
            ("sdb", "size", "2048"),
            ("sdb", "device/model", "ST16000NM  "),
            ("sdb", "device/wwid", "naa.5000c500a"),
            ("sdb", "device/enclosure_device:Slot 04/locate", "0"),
            ("sdb", "serial", "ZL2"),
            ("sdb", "queue/rotational", "1"),
            ("sdb/sdb1", "partition", "1"),
            ("sdb/sdb1", "size", "100"),
            ("sdc", "size", "0"),
            ("sr0", "size", "90"),
            ("zram0", "size", "90"),
            ("md127", "md/uuid", "a:b"),
            ("md127", "size", "90"),
            ("dm-1", "dm/uuid", "LVM-x"),
            ("dm-1", "size", "90"),
            ("dm-0", "dm/uuid", "mpath-3600a"),
            ("dm-0", "size", "90"),
            ("sda", "size", "90"),
            ("sda/holders/dm-0", "dm/uuid", "mpath-3600a"),
            ("sda/holders/dm-0", "dev", "253:7"),
            ("nvme0c0n1", "hidden", "1"),
            ("nvme0c0n1", "size", "90"),
        ]);
        let links = system.dev.join("disk/by-id");
        fs::create_dir_all(&links).expect("made");
        for link in ["wwn-0x5000c500a", "ata-ST16000NM_ZL2"] {
            std::os::unix::fs::symlink("../../sdb", links.join(link)).expect("a link");
        }
        let found = system.disks();
        let nodes: Vec<&Path> = found.iter().map(|disk| disk.node.as_path()).collect();
        assert_eq!(nodes, [system.dev.join("dm-0"), system.dev.join("sdb")]);
        let disk = &found[1];
        assert_eq!(disk.by_id, Some(links.join("ata-ST16000NM_ZL2")));
        assert_eq!(disk.size, 1 << 20);
        assert_eq!(disk.model.as_deref(), Some("ST16000NM"));
        assert_eq!(disk.serial.as_deref(), Some("ZL2"));
        assert_eq!(disk.wwn.as_deref(), Some("naa.5000c500a"));
        assert_eq!(disk.slot.as_deref(), Some("Slot 04"));
        assert!(disk.lamp.is_some() && found[0].lamp.is_none());
        assert!(disk.is_rotational && !disk.is_read_only);
    }

    #[test]
    fn two_names_of_a_file_are_one_device_and_its_copy_is_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "what it holds").expect("written");
        fs::copy(path("a"), path("copy")).expect("copied");
        fs::hard_link(path("a"), path("linked")).expect("linked");
        std::os::unix::fs::symlink(path("a"), path("symbolic")).expect("linked");
        let own = key(&path("a")).expect("it is there");
        assert_eq!(key(&path("linked")), Some(own.clone()));
        assert_eq!(key(&path("symbolic")), Some(own.clone()));
        assert_ne!(key(&path("copy")), Some(own));
        assert_eq!(key(&path("nothing")), None);
    }
}
