//! Volumes and snapshots: their names, sizes and views, and the effects of operations (sections 7
//! and 8.2).

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::story::Expected;
use super::map::{Pointer, Tree};
use super::vdevs::Vdevs;

/// All datasets by number.
#[derive(Default)]
pub(crate) struct Datasets(BTreeMap<u64, Dataset>);

#[derive(Clone, Debug, Default)]
struct Dataset {
    parent: u64,
    name: String,
    is_folder: bool,
    is_snapshot: bool,
    size: u64,
    block_size: u64,
    previous: Option<u64>,
    /// Stream on its way.
    receiving: Option<Value>,
    view: BTreeMap<u64, Pointer>,
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("{value} is no list"))
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

impl Datasets {
    pub(crate) fn of_manifest(vdevs: &Vdevs<'_>, manifest: &Value) -> Self {
        let mut all = Self::default();
        for dataset in list(&manifest["catalog"]["datasets"]) {
            let kind = &dataset["kind"];
            let detail = kind.get("volume").or(kind.get("snapshot"));
            let mut new = Dataset {
                is_folder: kind == "folder",
                is_snapshot: kind.get("snapshot").is_some(),
                ..Dataset::default()
            };
            if let Some(detail) = detail {
                new.size = number(&detail["size"]);
                new.block_size = number(&detail["block_size"]);
                new.previous = detail.get("previous").map(number);
                new.receiving = detail.get("receiving").cloned();
            }
            all.add(dataset, new);
        }
        for contents in list(&manifest["contents"]) {
            let view = Tree::parse(contents).blocks(vdevs, &mut |_| {});
            all.at(number(&contents["id"])).view = view;
        }
        all
    }

    /// Adds a dataset with the number, place and name of its JSON.
    fn add(&mut self, json: &Value, dataset: Dataset) {
        let (parent, name) = (number(&json["parent"]), text(&json["name"]));
        let dataset = Dataset {
            parent,
            name,
            ..dataset
        };
        let old = self.0.insert(number(&json["id"]), dataset);
        assert!(old.is_none(), "{json} is there already");
    }

    fn at(&mut self, id: u64) -> &mut Dataset {
        self.0
            .get_mut(&id)
            .unwrap_or_else(|| panic!("dataset {id} is none"))
    }

    /// Gives a block of a volume these bytes (section 8).
    pub(crate) fn write(&mut self, id: u64, block: u64, pointer: Pointer) {
        self.at(id).view.insert(block, pointer);
    }

    /// Makes blocks zeros (section 8).
    pub(crate) fn clear(&mut self, id: u64, block: u64, count: u64) {
        let end = block + count;
        self.at(id).view.retain(|at, _| !(block..end).contains(at));
    }

    /// Applies an operation (section 8.2).
    pub(crate) fn operate(&mut self, operation: &Value) {
        let operation = operation.as_object().expect("an object");
        let (what, of) = operation.iter().next().expect("one member");
        for folder in of.get("folders").map(list).unwrap_or_default() {
            let is_folder = true;
            self.add(
                folder,
                Dataset {
                    is_folder,
                    ..Dataset::default()
                },
            );
        }
        match what.as_str() {
            "create_volume" => {
                let new = &of["volume"];
                let (size, block_size) = (number(&new["size"]), number(&new["block_size"]));
                self.add(
                    &new["dataset"],
                    Dataset {
                        size,
                        block_size,
                        receiving: new.get("receiving").cloned(),
                        ..Dataset::default()
                    },
                );
            }
            "snapshot" => list(&of["snapshots"])
                .iter()
                .for_each(|new| self.snapshot(new)),
            "clone" => {
                let new = &of["clone"];
                let origin = number(&new["origin"]);
                let (is_snapshot, previous) = (false, Some(origin));
                let clone = Dataset {
                    is_snapshot,
                    previous,
                    receiving: new.get("receiving").cloned(),
                    ..self.at(origin).clone()
                };
                self.add(&new["dataset"], clone);
                if let Some(size) = new.get("size") {
                    self.resize(number(&new["dataset"]["id"]), size);
                }
            }
            "destroy" => self.destroy(&of["ids"]),
            "rollback" => {
                self.destroy(&of["destroy"]);
                let old = self.at(number(&of["snapshot"])).clone();
                let volume = self.at(number(&of["volume"]));
                (volume.view, volume.size, volume.receiving) = (old.view, old.size, None);
            }
            "promote" => self.promote(number(&of["clone"])),
            "rename" => {
                for new in list(&of["renames"]) {
                    let dataset = self.at(number(&new["id"]));
                    (dataset.parent, dataset.name) = (number(&new["parent"]), text(&new["name"]));
                }
            }
            "resize" => {
                self.resize(number(&of["volume"]), &of["size"]);
            }
            "begin_receive" => {
                let volume = self.resize(number(&of["volume"]), &of["size"]);
                volume.receiving = Some(of["receiving"].clone());
            }
            "note_received" => {
                let volume = self.at(number(&of["volume"]));
                let receiving = volume.receiving.as_mut().expect("a stream on its way");
                receiving["position"] = of["position"].clone();
            }
            "end_receive" => {
                for new in list(&of["taken"]["snapshots"]) {
                    self.at(number(&new["volume"])).receiving = None;
                    self.snapshot(new);
                }
            }
            "create_folder" | "set_property" | "inherit" | "hold" | "release" | "note" => {}
            other => panic!("'{other}' is no operation"),
        }
    }

    /// Returns the volume, with another size.
    fn resize(&mut self, volume: u64, size: &Value) -> &mut Dataset {
        let volume = self.at(volume);
        volume.size = number(size);
        let end = volume.size.div_ceil(volume.block_size);
        volume.view.retain(|at, _| *at < end);
        volume
    }

    fn snapshot(&mut self, new: &Value) {
        let (id, volume) = (number(&new["id"]), number(&new["volume"]));
        let snapshot = Dataset {
            parent: volume,
            name: text(&new["name"]),
            is_snapshot: true,
            ..self.at(volume).clone()
        };
        self.at(volume).previous = Some(id);
        self.0.insert(id, snapshot);
    }

    fn destroy(&mut self, ids: &Value) {
        for id in list(ids).iter().map(number) {
            let gone = self.0.remove(&id).expect("a dataset");
            let builds_on_it = |of: &&mut Dataset| of.previous == Some(id);
            self.0
                .values_mut()
                .filter(builds_on_it)
                .for_each(|of| of.previous = gone.previous);
        }
    }

    fn promote(&mut self, clone: u64) {
        let mut owner = None;
        let mut next = self.at(clone).previous;
        while let Some(id) = next {
            let snapshot = self.at(id);
            next = snapshot.previous;
            if snapshot.parent == clone {
                continue;
            }
            if *owner.get_or_insert(snapshot.parent) != snapshot.parent {
                return;
            }
            snapshot.parent = clone;
        }
    }

    fn name(&self, id: u64) -> String {
        let dataset = &self.0[&id];
        match self.0[&dataset.parent].name.as_str() {
            "" => dataset.name.clone(),
            _ if dataset.is_snapshot => format!("{}@{}", self.name(dataset.parent), dataset.name),
            _ => format!("{}/{}", self.name(dataset.parent), dataset.name),
        }
    }

    /// Returns the facts about streams on their way, by volume.
    pub(crate) fn receiving(&self) -> BTreeMap<String, Value> {
        let all = self.0.iter();
        all.filter_map(|(id, dataset)| Some((self.name(*id), dataset.receiving.clone()?)))
            .collect()
    }

    /// Returns the bytes of all volumes and snapshots. Every block is verified.
    pub(crate) fn read(&self, vdevs: &Vdevs<'_>) -> BTreeMap<String, Expected> {
        let with_blocks = self.0.iter().filter(|(_, dataset)| !dataset.is_folder);
        let all = with_blocks.map(|(id, dataset)| {
            let (size, block_size) = (dataset.size, dataset.block_size as usize);
            let inside = dataset.view.range(..size.div_ceil(dataset.block_size));
            let blocks = inside.map(|(block, at)| {
                (
                    *block,
                    super::unpack(vdevs.read(at), at.compression, block_size),
                )
            });
            let blocks = blocks.collect();
            let block_size = block_size as u32;
            (
                self.name(*id),
                Expected {
                    size,
                    block_size,
                    blocks,
                },
            )
        });
        all.collect()
    }
}
