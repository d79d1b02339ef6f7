//! Tests of the catalogue: the effect of each operation (`operations`), refusals (`refusals`),
//! clones that come with streams (`received_clones`), the encoding on disks (`stored`), and random
//! histories with a model of blocks (`histories`).

mod blocks;
mod histories;
mod history;
mod operations;
mod received_clones;
mod refusals;
mod stored;

use super::request::{
    CloneSnapshot, CreateFolder, CreateVolume, Destroy, Stamp, TakeSnapshots, Texts,
};
use super::{Applied, Catalog, CatalogError, Operation};
use crate::format::{DatasetId, Epoch};

/// A catalogue and the number of its operations so far, which gives epochs and times.
struct World {
    catalog: Catalog,
    epoch: u64,
    done: Vec<Operation>,
}

impl World {
    fn new() -> Self {
        let mut catalog = Catalog::new(1000, 77);
        catalog.set_pool_name("tank");
        Self {
            catalog,
            epoch: 1,
            done: Vec::new(),
        }
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            epoch: Epoch(self.epoch),
            time_s: 1_700_000_000 + self.epoch,
            entropy: 42,
        }
    }

    /// Plans, applies and remembers an operation. A planned operation must always be applicable.
    fn run(
        &mut self,
        plan: impl FnOnce(&Catalog, Stamp) -> Result<Operation, CatalogError>,
    ) -> Result<Applied, CatalogError> {
        let operation = plan(&self.catalog, self.stamp())?;
        let applied = self
            .catalog
            .apply(&operation)
            .expect("what was planned can be done");
        self.epoch += 1;
        self.done.push(operation);
        Ok(applied)
    }

    fn folder(&mut self, name: &str) -> DatasetId {
        let request = CreateFolder {
            name: name.to_owned(),
            ..Default::default()
        };
        self.run(|catalog, stamp| catalog.plan_create_folder(&request, stamp))
            .expect(name);
        self.id(name)
    }

    fn volume(&mut self, name: &str) -> DatasetId {
        let request = volume(name);
        self.run(|catalog, stamp| catalog.plan_create_volume(&request, stamp))
            .expect(name);
        self.id(name)
    }

    fn snapshot(&mut self, name: &str) -> DatasetId {
        self.snapshots(&[name], false).expect(name);
        self.id(name)
    }

    fn snapshots(&mut self, names: &[&str], is_recursive: bool) -> Result<Applied, CatalogError> {
        let request = TakeSnapshots {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            is_recursive,
            ..Default::default()
        };
        self.run(|catalog, stamp| catalog.plan_snapshot(&request, stamp))
    }

    fn clone_of(&mut self, snapshot: &str, name: &str) -> DatasetId {
        let request = CloneSnapshot {
            snapshot: snapshot.to_owned(),
            name: name.to_owned(),
            ..Default::default()
        };
        self.run(|catalog, stamp| catalog.plan_clone(&request, stamp))
            .expect(name);
        self.id(name)
    }

    /// Destroys a dataset. `flags` are `r` and `R`.
    fn destroy(&mut self, name: &str, flags: &str) -> Result<Applied, CatalogError> {
        let request = Destroy {
            names: vec![name.to_owned()],
            is_recursive: flags.contains('r'),
            with_clones: flags.contains('R'),
        };
        self.run(|catalog, _| catalog.plan_destroy(&request))
    }

    fn id(&self, name: &str) -> DatasetId {
        self.catalog.find(name).expect(name).id
    }
}

fn volume(name: &str) -> CreateVolume {
    CreateVolume {
        name: name.to_owned(),
        size: 1 << 30,
        block_size: 16 << 10,
        ..Default::default()
    }
}

fn texts(pairs: &[(&str, &str)]) -> Texts {
    let owned = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    owned.collect()
}
