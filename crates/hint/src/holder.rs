//! The holder that keeps a device node busy, as reported by the kernel: a mount, swap space, or a
//! device on top.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, major, minor};

/// Reason why this process cannot open a device node exclusively.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The device is mounted on this folder.
    Mount(String),
    /// The device is swap space under this node.
    Swap(String),
    /// A device of this name lies on top. An array or a logical volume also has a name of its own.
    Device {
        /// Name in the kernel.
        node: String,
        /// Name in the device mapper; empty for other devices.
        name: String,
    },
}

impl Holder {
    /// Finds the holder of the device node at this path. Returns `None` if the kernel does not
    /// tell.
    pub fn of(path: &Path) -> Option<Self> {
        let device = std::fs::metadata(path).ok()?.rdev();
        Self::of_number(device, Path::new("/"))
    }

    /// Finds the holder of a device by number, below a root of `proc` and `sys`. A partition in use
    /// keeps its whole disk busy.
    fn of_number(device: Dev, root: &Path) -> Option<Self> {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let own = format!("{}:{}", major(device), minor(device));
        let folders = with_partitions(&root.join("sys/dev/block").join(&own));
        let parts = folders.iter().map(|folder| read(&folder.join("dev")));
        let numbers: Vec<String> = parts
            .map(|number| number.trim_end().to_owned())
            .chain([own])
            .collect();
        let mounted = mount_of(&read(&root.join("proc/self/mountinfo")), &numbers);
        mounted
            .map(Self::Mount)
            .or_else(|| swap_of(&read(&root.join("proc/swaps")), &numbers).map(Self::Swap))
            .or_else(|| folders.iter().find_map(|folder| device_on(folder)))
    }

    /// Describes the holder in words.
    pub fn told(&self) -> String {
        match self {
            Self::Mount(folder) => format!("it is mounted on {folder}"),
            Self::Swap(_) => "it is in use as swap space".to_owned(),
            Self::Device { node, name } if name.is_empty() => format!("{node} lies on it"),
            Self::Device { node, name } => format!("{name} ({node}) lies on it"),
        }
    }

    /// Tells how to release the device, as a clause without a full stop.
    pub fn next(&self) -> String {
        let how = match self {
            Self::Mount(folder) => format!("`umount '{folder}'`"),
            Self::Swap(node) => format!("`swapoff {node}`"),
            Self::Device { node, .. } if node.starts_with("md") => {
                format!("`mdadm --stop /dev/{node}`")
            }
            Self::Device { name, .. } if !name.is_empty() => format!(
                "`dmsetup remove {name}` (of LVM: `vgchange -an`, of multipath: `multipath -f {name}`)"
            ),
            Self::Device { node, .. } => format!("end the use of /dev/{node}"),
        };
        format!("{how}, if that is no longer needed; or choose another device")
    }
}

/// Finds the folder on which one of these devices is mounted, in the kernel's list of mounts.
fn mount_of(mounts: &str, numbers: &[String]) -> Option<String> {
    let is_it = |fields: &Vec<&str>| {
        fields
            .get(2)
            .is_some_and(|of| numbers.iter().any(|n| n == of))
    };
    let mut lines = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    // The kernel writes a blank in a name as \040.
    lines
        .find(is_it)?
        .get(4)
        .map(|folder| folder.replace("\\040", " "))
}

/// Finds the node by which one of these devices is swap space.
fn swap_of(swaps: &str, numbers: &[String]) -> Option<String> {
    let mut nodes = swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    let is_it = |node: &&str| {
        let number = std::fs::metadata(node).map(|found| found.rdev());
        number.is_ok_and(|of| numbers.contains(&format!("{}:{}", major(of), minor(of))))
    };
    nodes.find(is_it).map(str::to_owned)
}

/// Lists the folder of a device in sysfs and the folders of its partitions.
fn with_partitions(folder: &Path) -> Vec<PathBuf> {
    let is_partition = |path: &PathBuf| path.join("partition").exists();
    let mut folders = entries(folder);
    folders.retain(is_partition);
    folders.insert(0, folder.to_owned());
    folders
}

/// Finds a device that lies on the device of this sysfs folder.
fn device_on(folder: &Path) -> Option<Holder> {
    let holder = entries(&folder.join("holders")).into_iter().next()?;
    let name = std::fs::read_to_string(holder.join("dm/name")).unwrap_or_default();
    Some(Holder::Device {
        node: holder.file_name()?.to_string_lossy().into_owned(),
        name: name.trim_end().to_owned(),
    })
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    #[test]
    fn a_busy_device_is_told_by_who_has_it() {
        let root = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        let block = "sys/dev/block";
        put(&format!("{block}/8:0/dev"), "8:0\n");
        put(&format!("{block}/8:16/holders/dm-3/dm/name"), "vg-data\n");
        put(&format!("{block}/8:32/sdc1/partition"), "1\n");
        put(&format!("{block}/8:32/sdc1/holders/md0/uuid"), "");
        put(&format!("{block}/8:48/sdd1/partition"), "1\n");
        put(&format!("{block}/8:48/sdd1/dev"), "8:49\n");
        let mounts = "35 1 8:0x / /no rw - ext4 /dev/x rw\n36 1 8:49 / /mnt/my\\040disk rw - ext4 /dev/sdd1 rw\n";
        put("proc/self/mountinfo", mounts);
        let told = |minor| {
            let holder = Holder::of_number(makedev(8, minor), root.path());
            holder.map(|holder| (holder.told(), holder.next()))
        };
        let both = |what: &str, how: &str| {
            let end = "if that is no longer needed; or choose another device";
            Some((what.to_owned(), format!("{how}, {end}")))
        };
        assert_eq!(told(0), None);
        assert_eq!(
            told(16),
            both(
                "vg-data (dm-3) lies on it",
                "`dmsetup remove vg-data` (of LVM: `vgchange -an`, of multipath: `multipath -f vg-data`)"
            )
        );
        assert_eq!(told(32), both("md0 lies on it", "`mdadm --stop /dev/md0`"));
        assert_eq!(
            told(48),
            both("it is mounted on /mnt/my disk", "`umount '/mnt/my disk'`")
        );
    }
}
