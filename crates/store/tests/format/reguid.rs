//! Tests of the image as a copy that became a pool of its own (section 15). Only labels differ. The
//! reader that was written from the document reads equal data, even if the change was made twice.

use pages::Pages;
use store::engine::LeafLabels;
use store::engine::reguid::{NewIdentity, Reguid};
use store::format::SECTOR_SIZE;
use store::vdev::layout::label_offset;

use crate::disks::{self, Disk};
use crate::{IMAGE, engine, reader, same, story};

const LABEL: usize = 256 << 10;

fn labels(disk: &Disk) -> LeafLabels {
    let copy = |number| {
        let at = label_offset(number, disk.size).expect("a leaf");
        Pages::from_bytes(&disk.read(at, LABEL))
    };
    LeafLabels {
        size: disk.size,
        copies: [0, 1, 2, 3].map(copy),
    }
}

/// Gives the pool of these disks a new number.
fn become_another(disks: &mut [Disk], guid: u64, new: u64) {
    let found: Vec<LeafLabels> = disks.iter().map(labels).collect();
    let new = NewIdentity {
        guid: new,
        name: None,
        host: "somewhere".to_owned(),
        paths: (0..disks.len()).map(|disk| disk.to_string()).collect(),
    };
    let plan = Reguid::plan(&found, guid, new).expect("a plan");
    for (disk, label) in disks.iter_mut().zip(&plan.labels) {
        for copy in Reguid::rounds().concat() {
            let at = label_offset(copy as u64, disk.size).expect("a leaf");
            for (sector, bytes) in (0..).zip(label.encode().chunks(SECTOR_SIZE)) {
                let first = (at / SECTOR_SIZE as u64) as u32;
                disk.sectors.insert(first + sector, bytes.to_vec());
            }
        }
    }
}

#[test]
fn a_copy_with_an_identity_of_its_own_reads_the_same() {
    let original = disks::unpack(IMAGE);
    let guid = reader::labels::find(&original).key_guid;
    let (first, second) = (0xfeed_beef_0000_0001, 0xfeed_beef_0000_0002);
    let mut copies = original.clone();
    become_another(&mut copies, guid, first);
    for (copy, own) in copies.iter().zip(&original) {
        let is_label = |sector: &u32| {
            let offsets = [0, 1, 2, 3].map(|copy| label_offset(copy, own.size).expect("a leaf"));
            let at = u64::from(*sector) * SECTOR_SIZE as u64;
            offsets
                .iter()
                .any(|label| (*label..*label + 126_976).contains(&at))
        };
        let rest = |disk: &Disk| -> Vec<(u32, Vec<u8>)> {
            let rest = disk.sectors.iter().filter(|(at, _)| !is_label(at));
            rest.map(|(at, bytes)| (*at, bytes.clone())).collect()
        };
        assert!(rest(copy) == rest(own), "more than labels was written");
    }
    same(&reader::read(&copies).datasets, &story::expected());
    become_another(&mut copies, first, second);
    let found = reader::labels::find(&copies);
    assert_eq!(found.key_guid, guid);
    assert_eq!(found.config["guid"], format!("{second:016x}"));
    same(&reader::read(&copies).datasets, &story::expected());
    same(&engine::World::open(copies).contents(), &story::expected());
}
