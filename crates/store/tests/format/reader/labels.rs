//! Leaf, label and root (sections 1 to 3).

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::disks::Disk;
use super::bytes::{is_keyed, is_zero, number, wide};
use super::map::Pointer;
use super::old_copies::Roots;

pub(super) const LABEL: u64 = 256 << 10;

const MIB: u64 = 1 << 20;

/// Features that this reader knows.
const FEATURES: [&str; 4] = ["signposts", "reguid", "two_copies", "inner_labels"];

/// Content of the labels.
pub(crate) struct ReadLabels<'a> {
    pub(crate) config: Value,
    /// Guid that roots and records carry.
    pub(crate) key_guid: u64,
    pub(crate) secret: u64,
    /// Leaves by guid.
    pub(crate) leaves: BTreeMap<u64, &'a Disk>,
    pub(crate) root: Root,
}

pub(crate) struct Root {
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) log: u64,
    pub(crate) previous: u128,
    pub(crate) manifest_len: usize,
    pub(crate) manifest: Vec<Pointer>,
}

pub(crate) fn find(disks: &[Disk]) -> ReadLabels<'_> {
    let labels = disks.iter().flat_map(|disk| {
        let copies = copies(disk).into_iter();
        copies
            .filter(|copy| is_label(copy))
            .map(move |copy| (disk, copy))
    });
    let labels: Vec<(&Disk, Vec<u8>)> = labels.collect();
    let newest = labels
        .iter()
        .max_by_key(|(_, label)| number(&label[32..40]));
    let (_, newest) = newest.expect("a label");
    let mut config = config_of(newest);
    let needed = config["features"]["read"].as_array();
    for feature in needed.into_iter().flatten() {
        let name = feature.as_str().expect("a name");
        assert!(FEATURES.contains(&name), "{name} is not known");
    }
    let hex = |field: &Value| u64::from_str_radix(field.as_str().expect("text"), 16).expect("hex");
    let (guid, secret) = (hex(&config["guid"]), hex(&config["secret"]));
    assert_eq!(guid, number(&newest[16..24]));
    let key_guid = match &config["key_guid"] {
        Value::Null => guid,
        other => hex(other),
    };
    let own = labels
        .iter()
        .filter(|(_, label)| number(&label[16..24]) == guid);
    let leaves: BTreeMap<u64, &Disk> = own
        .map(|(disk, label)| (number(&label[24..32]), *disk))
        .collect();
    let roots = Roots::find(&leaves, secret);
    let generation = number(&newest[32..40]);
    roots.note_old_copies(&mut config, generation);
    let counting = roots.counting(&config);
    let (_, root) = counting.last().expect("a root that counts");
    let root = parse_root(root, key_guid);
    ReadLabels {
        config,
        key_guid,
        secret,
        leaves,
        root,
    }
}

/// Returns the configuration of a label (section 2).
pub(super) fn config_of(label: &[u8]) -> Value {
    let len = number(&label[40..48]) as usize;
    serde_json::from_slice(&label[96..96 + len]).expect("JSON")
}

/// Returns the copies of a leaf's label (section 1).
pub(super) fn copies(disk: &Disk) -> Vec<Vec<u8>> {
    let end = disk.size - disk.size % LABEL;
    let places = [0, LABEL, end - 2 * LABEL, end - LABEL];
    let copies = places.map(|at| disk.read(at, LABEL as usize)).to_vec();
    match copies.iter().any(|copy| is_label(copy)) {
        true => copies,
        false => inner(disk),
    }
}

/// Returns the first and the second label inside of the data area (section 1).
fn inner(disk: &Disk) -> Vec<Vec<u8>> {
    let mut found = vec![vec![0; LABEL as usize]; 2];
    for at in (MIB..disk.size - LABEL).step_by(MIB as usize) {
        if !disk.read(at, 4096).starts_with(b"SANDLABL") {
            continue;
        }
        let copy = disk.read(at, LABEL as usize);
        if !is_label(&copy) {
            continue;
        }
        let (config, leaf) = (config_of(&copy), format!("{:016x}", number(&copy[24..32])));
        let tops = config["vdevs"].as_array().expect("a list").iter();
        let own = tops.filter(|top| {
            let slots = top["slots"].as_array().expect("a list").iter();
            let leaves = slots.flat_map(|slot| slot["leaves"].as_array().expect("a list"));
            leaves.into_iter().any(|of| of["guid"] == leaf)
        });
        let places = own.flat_map(|top| top["inner_labels"].as_array().into_iter().flatten());
        let sector = (at - MIB) / 4096;
        if let Some(round) = places.into_iter().position(|place| *place == sector) {
            found[round] = copy;
        }
    }
    found
}

/// Reports whether a copy is a valid label (section 2).
pub(super) fn is_label(copy: &[u8]) -> bool {
    let len = number(&copy[40..48]) as usize;
    let is_known = copy.starts_with(b"SANDLABL") && number(&copy[8..10]) == 1;
    is_known && len <= 126_880 && is_keyed(0, &copy[..96 + len], 48)
}

/// Parses a root (section 3).
fn parse_root(sector: &[u8], guid: u64) -> Root {
    assert_eq!(number(&sector[8..10]), 1);
    assert_eq!(number(&sector[16..24]), guid);
    let end = 96 + 32 * number(&sector[10..12]) as usize;
    assert!(is_zero(&sector[12..16]) && is_zero(&sector[end..]));
    Root {
        epoch: number(&sector[24..32]),
        seq: number(&sector[40..48]),
        log: number(&sector[48..56]),
        previous: wide(&sector[56..72]),
        manifest_len: number(&sector[88..96]) as usize,
        manifest: sector[96..end].chunks(32).map(Pointer::parse).collect(),
    }
}
