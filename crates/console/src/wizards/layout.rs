//! Layouts of a pool: how disks hold blocks together, how much room that leaves, and how many disks
//! may fail.

use std::path::PathBuf;

use model::pool::vdev_request::{VdevKind, VdevRequest};

use super::disks::Picked;
use crate::format::{number_of, size};

/// A layout that fits the picked disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Value in the form.
    pub(super) name: &'static str,
    /// Words for people.
    pub(super) title: String,
    /// Vdevs of the pool.
    pub(super) vdevs: Vec<VdevRequest>,
    /// Bytes for data, about; `None` if the size of a disk is not known.
    pub(super) usable: Option<u64>,
    /// Number of disks that may fail, in words.
    pub(super) may_fail: String,
    /// Remark about speed, and about what it is for.
    pub(super) remark: &'static str,
}

/// Returns the layouts that fit the disks, the recommended one first.
pub(super) fn fitting(disks: &[Picked]) -> Vec<Layout> {
    let count = disks.len();
    let mut all = Vec::new();
    if count >= 4 && count.is_multiple_of(2) {
        all.push(mirrors_of_two(disks));
    }
    if count == 2 {
        all.push(mirror(disks));
    }
    let kinds = [
        (VdevKind::Raidz2, 4, "raidz2"),
        (VdevKind::Raidz1, 3, "raidz1"),
        (VdevKind::Raidz3, 5, "raidz3"),
    ];
    for (kind, least, name) in kinds {
        if count >= least {
            all.push(raidz(disks, kind, name));
        }
    }
    if count >= 3 {
        all.push(mirror(disks));
    }
    if count >= 1 {
        all.push(alone(disks));
    }
    all
}

/// Returns the bytes of the smallest disk.
fn least(disks: &[Picked]) -> Option<u64> {
    let sizes: Option<Vec<u64>> = disks.iter().map(Picked::size).collect();
    sizes?.into_iter().min()
}

fn paths(disks: &[Picked]) -> Vec<PathBuf> {
    disks.iter().map(|disk| disk.path.clone()).collect()
}

fn vdev(kind: VdevKind, disks: &[Picked]) -> VdevRequest {
    VdevRequest {
        kind,
        paths: paths(disks),
    }
}

fn mirrors_of_two(disks: &[Picked]) -> Layout {
    let pairs = disks.chunks(2);
    let sizes: Option<Vec<u64>> = pairs.clone().map(least).collect();
    Layout {
        name: "pairs",
        title: format!("{} of two disks", number_of(disks.len() / 2, "mirror")),
        vdevs: pairs.map(|pair| vdev(VdevKind::Mirror, pair)).collect(),
        usable: sizes.map(|sizes| sizes.into_iter().sum()),
        may_fail: "one disk of each mirror may fail".to_owned(),
        remark: "Fast for many small reads and writes, and quick to rebuild. The usual choice for virtual \
                 machines.",
    }
}

fn mirror(disks: &[Picked]) -> Layout {
    Layout {
        name: "mirror",
        title: format!("One mirror of {}", number_of(disks.len(), "disk")),
        vdevs: vec![vdev(VdevKind::Mirror, disks)],
        usable: least(disks),
        may_fail: match disks.len() - 1 {
            1 => "one disk may fail".to_owned(),
            many => format!("{many} disks may fail"),
        },
        remark: "Each disk holds everything. Reads are as fast as all disks together.",
    }
}

fn raidz(disks: &[Picked], kind: VdevKind, name: &'static str) -> Layout {
    let vdev = vdev(kind, disks);
    let parity = vdev.redundancy();
    let data = disks.len() - parity;
    Layout {
        name,
        title: format!("raidz{parity} of {}", number_of(disks.len(), "disk")),
        vdevs: vec![vdev],
        usable: least(disks).map(|bytes| bytes * data as u64),
        may_fail: match parity {
            1 => "one disk may fail".to_owned(),
            many => format!("any {many} disks may fail"),
        },
        remark: "More room than mirrors, for large files and backups. Small writes are slower.",
    }
}

fn alone(disks: &[Picked]) -> Layout {
    let sizes: Option<Vec<u64>> = disks.iter().map(Picked::size).collect();
    let each = disks.chunks(1).map(|one| vdev(VdevKind::Disk, one));
    Layout {
        name: "alone",
        title: match disks.len() {
            1 => "This disk alone".to_owned(),
            many => format!("Stripe over {many} disks"),
        },
        vdevs: each.collect(),
        usable: sizes.map(|sizes| sizes.into_iter().sum()),
        may_fail: "no disk may fail: with the first one, everything is lost".to_owned(),
        remark: "Only for data that may be lost, or over disks that are safe by themselves.",
    }
}

impl Layout {
    /// Returns room and safety in one line.
    pub(super) fn told(&self) -> String {
        match self.usable {
            Some(bytes) => format!("About {} for data; {}.", size(bytes), self.may_fail),
            None => format!(
                "{}.",
                crate::form::sentence(&self.may_fail).trim_end_matches('.')
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::disk::DiskView;

    fn disks(sizes: &[u64]) -> Vec<Picked> {
        let disk = |(at, bytes): (usize, &u64)| Picked {
            path: format!("/dev/disk-{at}").into(),
            disk: Some(DiskView {
                size: *bytes,
                ..DiskView::default()
            }),
        };
        sizes.iter().enumerate().map(disk).collect()
    }

    /// Returns name, room and vdevs of each layout.
    fn told(sizes: &[u64]) -> Vec<(&'static str, Option<u64>, usize)> {
        let all = fitting(&disks(sizes)).into_iter();
        all.map(|it| (it.name, it.usable, it.vdevs.len())).collect()
    }

    #[test]
    fn layouts_follow_from_the_number_of_disks_and_the_smallest_one() {
        assert_eq!(told(&[]), []);
        assert_eq!(told(&[10]), [("alone", Some(10), 1)]);
        assert_eq!(
            told(&[10, 8]),
            [("mirror", Some(8), 1), ("alone", Some(18), 2)]
        );
        assert_eq!(
            told(&[10, 8, 9]),
            [
                ("raidz1", Some(16), 1),
                ("mirror", Some(8), 1),
                ("alone", Some(27), 3)
            ]
        );
        assert_eq!(
            told(&[10, 8, 9, 9]),
            [
                ("pairs", Some(17), 2),
                ("raidz2", Some(16), 1),
                ("raidz1", Some(24), 1),
                ("mirror", Some(8), 1),
                ("alone", Some(36), 4)
            ]
        );
        let five: Vec<&str> = told(&[1; 5]).into_iter().map(|it| it.0).collect();
        assert_eq!(five, ["raidz2", "raidz1", "raidz3", "mirror", "alone"]);
    }

    #[test]
    fn an_unknown_size_is_not_guessed() {
        let mut two = disks(&[5, 5]);
        two[1].disk = None;
        let mirror = &fitting(&two)[0];
        assert_eq!(mirror.usable, None);
        assert_eq!(mirror.told(), "One disk may fail.");
        let known = &fitting(&disks(&[4 << 30, 4 << 30]))[0];
        assert_eq!(known.told(), "About 4G for data; one disk may fail.");
    }
}
