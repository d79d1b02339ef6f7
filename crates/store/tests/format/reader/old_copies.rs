//! The blocks that leaves miss without a note in the configuration, and the roots that count
//! (sections 2 and 3).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::disks::{Disk, SECTOR};
use super::bytes::{is_keyed, number};
use super::labels::{LABEL, config_of, copies, is_label};

/// A root in the rings: its epoch and its bytes.
type Key = (u64, Vec<u8>);

/// The roots of a pool's leaves, and the copies of the leaves that have them.
pub(super) struct Roots<'a> {
    leaves: &'a BTreeMap<u64, &'a Disk>,
    all: BTreeMap<Key, Vec<(u64, usize)>>,
    /// Number of labels that can be read.
    labels: usize,
}

impl<'a> Roots<'a> {
    pub(super) fn find(leaves: &'a BTreeMap<u64, &'a Disk>, secret: u64) -> Self {
        let mut all: BTreeMap<Key, Vec<(u64, usize)>> = BTreeMap::new();
        for (guid, disk) in leaves {
            for (place, copy) in copies(disk).into_iter().enumerate() {
                for sector in copy[LABEL as usize / 2..].chunks(SECTOR) {
                    if sector.starts_with(b"SANDROOT") && is_keyed(secret, sector, 72) {
                        let key = (number(&sector[24..32]), sector.to_vec());
                        all.entry(key).or_default().push((*guid, place));
                    }
                }
            }
        }
        let labels = leaves.values().flat_map(|disk| copies(disk));
        let labels = labels.filter(|copy| is_label(copy)).count();
        Self {
            leaves,
            all,
            labels,
        }
    }

    /// Returns the roots that count, ascending (section 3).
    pub(super) fn counting(&self, config: &Value) -> Vec<&Key> {
        let twice = self
            .all
            .iter()
            .filter(|(_, on)| on.len() >= self.labels.min(2));
        let counting =
            twice.filter(|(key, on)| self.is_settled(on) || self.all_have(config, key.0, on));
        counting.map(|(key, _)| key).collect()
    }

    fn is_settled(&self, on: &[(u64, usize)]) -> bool {
        let is_second = |place: usize| place % 2 == 1;
        let shows = |guid: &u64| {
            let copies = copies(self.leaves[guid]).into_iter().enumerate();
            copies
                .into_iter()
                .any(|(place, copy)| is_second(place) && is_label(&copy))
        };
        on.iter().any(|(_, place)| is_second(*place)) || !on.iter().all(|(guid, _)| shows(guid))
    }

    fn all_have(&self, config: &Value, epoch: u64, on: &[(u64, usize)]) -> bool {
        let mut leaves = leaves_of(config).into_iter();
        leaves.all(|leaf| {
            let guid = guid_of(leaf);
            let is_in = |range: &Value| {
                (range[0].as_u64() <= Some(epoch)) && (Some(epoch) <= range[1].as_u64())
            };
            let mut missing = leaf["missing"].as_array().expect("a list").iter();
            let is_to_have =
                leaf["state"] == "online" && joined(leaf) <= epoch && !missing.any(is_in);
            let is_here = self.leaves.contains_key(&guid);
            !is_to_have || !is_here || on.iter().any(|(of, _)| *of == guid)
        })
    }

    /// Notes in the configuration which epochs old copies miss (section 2).
    pub(super) fn note_old_copies(&self, config: &mut Value, generation: u64) {
        let counting: Vec<Key> = self.counting(config).into_iter().cloned().collect();
        let newest = counting.last().expect("a root that counts").0;
        for leaf in leaves_mut(config) {
            let guid = guid_of(leaf);
            let Some(disk) = self.leaves.get(&guid) else {
                continue;
            };
            let has = |key: &&Key| self.all[*key].iter().any(|(of, _)| *of == guid);
            let own = counting.iter().rev().find(has).map(|key| key.0);
            let mut lacks = Vec::new();
            if joined(leaf) <= newest && own < Some(newest) {
                lacks.push(json!([own.map_or(0, |own| own + 1), u64::MAX]));
            }
            let labels = copies(disk).into_iter().filter(|copy| is_label(copy));
            let label = labels
                .max_by_key(|label| number(&label[32..40]))
                .expect("a label");
            if number(&label[32..40]) < generation {
                lacks.extend(said_missing(&config_of(&label), leaf));
            }
            leaf["missing"]
                .as_array_mut()
                .expect("a list")
                .extend(lacks);
        }
    }
}

/// Returns the epochs that a leaf misses by its own, older configuration.
fn said_missing(config: &Value, leaf: &Value) -> Vec<Value> {
    let mut own = leaves_of(config).into_iter();
    let Some(own) = own.find(|own| own["guid"] == leaf["guid"] && joined(own) == joined(leaf))
    else {
        return vec![json!([0, u64::MAX])];
    };
    let mut missing = own["missing"].as_array().expect("a list").clone();
    if let Some(last) = missing.last_mut()
        && own["state"] != "online"
    {
        last[1] = json!(u64::MAX);
    }
    missing
}

fn guid_of(leaf: &Value) -> u64 {
    u64::from_str_radix(leaf["guid"].as_str().expect("a guid"), 16).expect("hexadecimal")
}

fn joined(leaf: &Value) -> u64 {
    leaf.get("joined")
        .map_or(0, |epoch| epoch.as_u64().expect("an epoch"))
}

fn leaves_of(config: &Value) -> Vec<&Value> {
    let tops = config["vdevs"].as_array().expect("a list").iter();
    let slots = tops.flat_map(|top| top["slots"].as_array().expect("a list"));
    slots
        .flat_map(|slot| slot["leaves"].as_array().expect("a list"))
        .collect()
}

fn leaves_mut(config: &mut Value) -> Vec<&mut Value> {
    let tops = config["vdevs"].as_array_mut().expect("a list").iter_mut();
    let slots = tops.flat_map(|top| top["slots"].as_array_mut().expect("a list").iter_mut());
    slots
        .flat_map(|slot| slot["leaves"].as_array_mut().expect("a list").iter_mut())
        .collect()
}
