//! Detection of devices that another host could reach, from the kernel's facts in sysfs.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use model::device_name::is_remote;
use rustix::fs::{major, minor};

/// Most levels of underlying devices that are searched.
const DEPTH: u32 = 8;

/// Names of sysfs folders on the way to a disk that other hosts may be wired to: iSCSI, Fibre
/// Channel, SAS.
const FABRICS: [&str; 4] = ["session", "rport-", "end_device-", "expander-"];

/// Returns why another host could reach a device, or `None` if nothing shows that one could.
pub(super) fn reachable(path: &Path) -> Option<String> {
    if is_remote(path) {
        return Some("it is another machine's disk".to_owned());
    }
    let found = std::fs::metadata(path).ok()?;
    if !found.file_type().is_block_device() {
        return None;
    }
    let number = found.rdev();
    let device = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    by_sysfs(&PathBuf::from(device), DEPTH)
}

/// Answers as [`reachable`] does, for the device of a sysfs folder.
fn by_sysfs(device: &Path, depth: u32) -> Option<String> {
    let device = std::fs::canonicalize(device).ok()?;
    // A partition lies below its disk.
    let disk = match device.join("partition").exists() {
        true => device.parent()?.to_owned(),
        false => device,
    };
    let text = |name: &str| {
        let text = std::fs::read_to_string(disk.join(name)).ok()?;
        Some(text.trim().to_owned())
    };
    if text("dm/uuid").is_some_and(|uuid| uuid.starts_with("mpath-")) {
        return Some("it has several paths (dm-multipath)".to_owned());
    }
    if let Some(transport) = text("device/transport").filter(|of| of != "pcie" && of != "loop") {
        return Some(format!("it is reached through NVMe over {transport}"));
    }
    let way = std::fs::canonicalize(disk.join("device")).ok();
    let way = way.iter().flat_map(|way| way.components());
    let mut names = way.filter_map(|part| part.as_os_str().to_str());
    let fabric = |name: &str| FABRICS.into_iter().find(|fabric| name.starts_with(fabric));
    if let Some(fabric) = names.find_map(fabric) {
        return Some(format!(
            "it is a shared SCSI disk ({})",
            match fabric {
                "session" => "iSCSI",
                "rport-" => "Fibre Channel",
                _ => "SAS",
            }
        ));
    }
    let below = std::fs::read_dir(disk.join("slaves")).ok()?.flatten();
    let next = depth.checked_sub(1)?;
    below
        .filter_map(|entry| by_sysfs(&entry.path(), next))
        .next()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Sysfs(tempfile::TempDir);

    impl Sysfs {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a folder"))
        }

        /// Creates a disk with these files, and with a device folder at this path.
        fn disk(&self, name: &str, device: &str, files: &[(&str, &str)]) -> PathBuf {
            let disk = self.0.path().join("block").join(name);
            std::fs::create_dir_all(&disk).expect("a folder");
            if !device.is_empty() {
                let way = self.0.path().join(device);
                std::fs::create_dir_all(&way).expect("a folder");
                symlink(&way, disk.join("device")).expect("a link");
            }
            for (file, text) in files {
                let file = disk.join(file);
                std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
                std::fs::write(file, text).expect("a file");
            }
            disk
        }
    }

    #[test]
    fn disks_that_other_hosts_could_reach_are_told_by_their_way() {
        let sysfs = Sysfs::new();
        for (name, device, files, expected) in [
            (
                "sda",
                "pci0/host2/session1/target2:0:0/2:0:0:0",
                vec![],
                Some("iSCSI"),
            ),
            (
                "sdb",
                "pci0/host3/rport-3:0-1/target3:0:0/3:0:0:1",
                vec![],
                Some("Fibre"),
            ),
            (
                "sdc",
                "pci0/host4/port-4:0/end_device-4:0/4:0:0:0",
                vec![],
                Some("SAS"),
            ),
            ("sdd", "pci0/ata1/host0/target0:0:0/0:0:0:0", vec![], None),
            ("nvme0n1", "pci0/nvme/nvme0", vec![], None),
            (
                "dm-0",
                "",
                vec![("dm/uuid", "mpath-3600\n")],
                Some("dm-multipath"),
            ),
            ("dm-1", "", vec![("dm/uuid", "LVM-x\n")], None),
            ("loop0", "", vec![], None),
        ] {
            let disk = sysfs.disk(name, device, &files);
            let told = by_sysfs(&disk, DEPTH);
            match expected {
                None => assert_eq!(told, None, "{name}"),
                Some(word) => assert!(
                    told.as_ref().is_some_and(|t| t.contains(word)),
                    "{name}: {told:?}"
                ),
            }
        }
        let fabrics = sysfs.disk("nvme1n1", "fabrics/nvme1", &[]);
        std::fs::write(fabrics.join("device/transport"), "tcp\n").expect("a file");
        assert_eq!(
            by_sysfs(&fabrics, DEPTH).as_deref(),
            Some("it is reached through NVMe over tcp")
        );
    }

    #[test]
    fn what_lies_on_a_shared_disk_is_shared() {
        let sysfs = Sysfs::new();
        let disk = sysfs.disk(
            "sda",
            "pci0/host2/session1/2:0:0:0",
            &[("sda1/partition", "1")],
        );
        assert!(by_sysfs(&disk.join("sda1"), DEPTH).is_some(), "a partition");
        let volume = sysfs.disk("dm-0", "", &[("dm/uuid", "CRYPT-x")]);
        std::fs::create_dir(volume.join("slaves")).expect("a folder");
        symlink(disk.join("sda1"), volume.join("slaves/sda1")).expect("a link");
        assert!(by_sysfs(&volume, DEPTH).is_some(), "what is encrypted");
    }
}
