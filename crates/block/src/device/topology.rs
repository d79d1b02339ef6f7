//! The kernel's facts about a block device: the sizes and places at which it works well, and
//! whether its medium rotates.
//!
//! The facts are read from sysfs. Its folder is an argument, so that tests can make up devices that
//! no machine has.

use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// Facts in bytes; 0 if the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Topology {
    /// Smallest part that the device writes without reading first.
    pub(super) physical: u32,
    /// Distance from the beginning of the device to the first physical block.
    pub(super) alignment: u32,
    /// Least size of a request without waste.
    pub(super) minimum: u32,
    /// Size of a request that is fast.
    pub(super) optimal: u32,
    /// Part that a discard frees as a whole. 0: nothing can be freed so that it reads as zeros.
    pub(super) discard: u32,
    /// Distance from the beginning of the device to the first part that a discard frees.
    pub(super) discard_alignment: u32,
    /// Whether the device has no rotating medium; `None` if the kernel does not say.
    pub(super) is_solid_state: Option<bool>,
}

impl Topology {
    /// Reads the topology of the block device with this number.
    pub(super) fn of(number: u64) -> Self {
        let (major, minor) = (major(number), minor(number));
        Self::read(&PathBuf::from(format!("/sys/dev/block/{major}:{minor}")))
    }

    /// Reads the topology from the device's folder in sysfs.
    fn read(device: &Path) -> Self {
        // A partition has its disk's queue, and alignments of its own.
        let own = device.join("queue");
        let queue = if own.exists() {
            own
        } else {
            device.join("../queue")
        };
        let physical = number(&queue, "physical_block_size");
        // Freed blocks must read as zeros. A device that merely forgets them is not offered as
        // thin.
        let frees_to_zeros =
            size(&queue, "discard_max_bytes") > 0 && size(&queue, "write_zeroes_max_bytes") > 0;
        let discard = if frees_to_zeros {
            number(&queue, "discard_granularity")
        } else {
            0
        };
        // Both alignments are given within the larger of physical_block_size and minimum_io_size.
        // A value of -1 means that the storage beneath has several alignments.
        let within = |name: &str, part: u32| number(device, name).checked_rem(part).unwrap_or(0);
        Self {
            physical,
            alignment: within("alignment_offset", physical),
            minimum: number(&queue, "minimum_io_size"),
            optimal: number(&queue, "optimal_io_size"),
            discard,
            discard_alignment: within("discard_alignment", discard),
            is_solid_state: match text(&queue, "rotational").as_str() {
                "0" => Some(true),
                "1" => Some(false),
                _ => None,
            },
        }
    }

    /// Returns the MEDIUM ROTATION RATE (SBC-4): 1 if nothing rotates. The speed of a rotating disk
    /// is not read, so it is reported as unknown (0).
    pub(super) fn rotation_rate(&self) -> u16 {
        match self.is_solid_state {
            Some(true) => 1,
            Some(false) | None => 0,
        }
    }
}

fn text(folder: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.trim().to_owned()
}

/// Reads a number that may exceed any request; 0 if there is none.
fn size(folder: &Path, name: &str) -> u64 {
    text(folder, name).parse().unwrap_or(0)
}

/// Reads the bytes of one request; 0 if there is no number, or the number does not fit.
fn number(folder: &Path, name: &str) -> u32 {
    u32::try_from(size(folder, name)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk as shown by sysfs, with a partition.
    struct Disk(tempfile::TempDir);

    impl Disk {
        fn new(facts: &[(&str, &str)]) -> Self {
            let disk = Self(tempfile::tempdir().expect("a folder"));
            for folder in ["queue", "part"] {
                std::fs::create_dir(disk.0.path().join(folder)).expect("a folder");
            }
            disk.with(facts)
        }

        fn with(self, facts: &[(&str, &str)]) -> Self {
            for (name, value) in facts {
                std::fs::write(self.0.path().join(name), format!("{value}\n")).expect("a file");
            }
            self
        }

        fn whole(&self) -> Topology {
            Topology::read(self.0.path())
        }

        fn partition(&self) -> Topology {
            Topology::read(&self.0.path().join("part"))
        }
    }

    /// Returns a disk with 4 KiB sectors, shown as 512 bytes. Its eighth block begins the first
    /// whole sector.
    fn disk() -> Disk {
        Disk::new(&[
            ("queue/physical_block_size", "4096"),
            ("queue/minimum_io_size", "65536"),
            ("queue/optimal_io_size", "262144"),
            ("queue/rotational", "1"),
            ("queue/discard_granularity", "1048576"),
            ("queue/discard_max_bytes", "4294966784"),
            ("queue/write_zeroes_max_bytes", "4294966784"),
            ("alignment_offset", "3584"),
            ("discard_alignment", "513536"),
            ("part/alignment_offset", "0"),
            ("part/discard_alignment", "512"),
        ])
    }

    #[test]
    fn a_disk_is_told_as_the_kernel_tells_it() {
        let told = Topology {
            physical: 4096,
            alignment: 3584,
            minimum: 65536,
            optimal: 262_144,
            discard: 1 << 20,
            discard_alignment: 513_536,
            is_solid_state: Some(false),
        };
        assert_eq!(disk().whole(), told);
        assert_eq!(told.rotation_rate(), 0, "how fast is not known");
    }

    #[test]
    fn a_partition_has_its_disks_sizes_and_alignments_of_its_own() {
        let disk = disk();
        let told = Topology {
            alignment: 0,
            discard_alignment: 512,
            ..disk.whole()
        };
        assert_eq!(disk.partition(), told);
    }

    #[test]
    fn a_solid_state_disk_does_not_rotate_and_an_unknown_one_says_nothing() {
        let solid = disk().with(&[("queue/rotational", "0")]).whole();
        assert_eq!(solid.rotation_rate(), 1);
        let nothing = Disk::new(&[]).whole();
        assert_eq!(nothing, Topology::default());
        assert_eq!(nothing.rotation_rate(), 0);
    }

    #[test]
    fn what_cannot_be_freed_to_zeros_is_not_freed() {
        for missing in ["queue/discard_max_bytes", "queue/write_zeroes_max_bytes"] {
            let disk = disk().with(&[(missing, "0")]).whole();
            assert_eq!((disk.discard, disk.discard_alignment), (0, 0), "{missing}");
        }
    }

    #[test]
    fn alignments_stay_within_what_they_align() {
        // The alignment is given within a chunk of 64 KiB, which lies as its sectors do.
        let stripe = disk().with(&[("alignment_offset", "36352")]).whole();
        assert_eq!(stripe.alignment, 3584);
        // The storage beneath has several alignments.
        let mixed = disk().with(&[("alignment_offset", "-1")]).whole();
        assert_eq!(mixed.alignment, 0);
    }
}
