//! A model of blocks that does only the steps, by the definitions in `catalog/applied.rs`. If the
//! steps are right, a block is allocated exactly if some view has it.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::{Applied, Catalog, Step};
use crate::format::{DatasetId, Epoch};

type View = BTreeMap<u64, u64>;

/// The model of blocks. Blocks are numbers; each is born once.
#[derive(Default)]
pub(super) struct Blocks {
    born: Vec<Epoch>,
    allocated: BTreeSet<u64>,
    views: BTreeMap<DatasetId, View>,
    dead: BTreeMap<DatasetId, BTreeSet<u64>>,
    block_sizes: BTreeMap<DatasetId, u32>,
}

impl Blocks {
    pub(super) fn write(&mut self, catalog: &Catalog, volume: DatasetId, at: u64, now: Epoch) {
        let block = self.born.len() as u64;
        self.born.push(now);
        self.allocated.insert(block);
        let old = self
            .views
            .get_mut(&volume)
            .expect("a view")
            .insert(at, block);
        if let Some(old) = old {
            self.drop_block(catalog, volume, old);
        }
    }

    fn drop_block(&mut self, catalog: &Catalog, volume: DatasetId, block: u64) {
        if self.is_born_after(block, catalog.shared_until(volume)) {
            self.free(block);
        } else {
            self.dead
                .get_mut(&volume)
                .expect("a dead list")
                .insert(block);
        }
    }

    fn is_born_after(&self, block: u64, epoch: Epoch) -> bool {
        self.born[block as usize] > epoch
    }

    fn free(&mut self, block: u64) {
        assert!(
            self.allocated.remove(&block),
            "block {block} is freed twice"
        );
    }

    fn free_view(&mut self, id: DatasetId, after: Epoch) {
        self.dead.remove(&id).expect("a dead list");
        for block in self.views.remove(&id).expect("a view").into_values() {
            if self.is_born_after(block, after) {
                self.free(block);
            }
        }
    }

    pub(super) fn follow(&mut self, catalog: &Catalog, applied: &Applied) {
        for step in &applied.steps {
            self.step(catalog, step);
        }
    }

    fn step(&mut self, catalog: &Catalog, step: &Step) {
        match *step {
            Step::Create {
                volume, block_size, ..
            } => self.begin(volume, View::new(), block_size),
            Step::Snapshot { volume, snapshot } => {
                let view = self.views[&volume].clone();
                let dead = self
                    .dead
                    .insert(volume, BTreeSet::new())
                    .expect("a dead list");
                self.views.insert(snapshot, view);
                self.dead.insert(snapshot, dead);
                self.block_sizes.insert(snapshot, self.block_sizes[&volume]);
            }
            Step::Clone {
                clone,
                snapshot,
                block_size,
                ..
            } => {
                assert_eq!(block_size, self.block_sizes[&snapshot]);
                self.begin(clone, self.views[&snapshot].clone(), block_size);
            }
            Step::Merge {
                snapshot,
                next,
                after,
            } => {
                self.views.remove(&snapshot).expect("a view");
                let merged = self.dead.remove(&snapshot).expect("a dead list");
                let before = self.dead.insert(next, merged).expect("a dead list");
                for block in before {
                    if self.is_born_after(block, after) {
                        self.free(block);
                    } else {
                        self.dead.get_mut(&next).expect("a dead list").insert(block);
                    }
                }
            }
            Step::Free { dataset, after } => self.free_view(dataset, after),
            Step::Rollback {
                volume,
                snapshot,
                after,
                ..
            } => {
                self.free_view(volume, after);
                self.views.insert(volume, self.views[&snapshot].clone());
                self.dead.insert(volume, BTreeSet::new());
            }
            Step::Resize { volume, to, .. } => {
                let end = to / u64::from(self.block_sizes[&volume]);
                let beyond = self.views.get_mut(&volume).expect("a view").split_off(&end);
                for block in beyond.into_values() {
                    self.drop_block(catalog, volume, block);
                }
            }
            Step::Settings { dataset } => assert!(catalog.volume_of(dataset).is_some()),
        }
    }

    fn begin(&mut self, volume: DatasetId, view: View, block_size: u32) {
        self.views.insert(volume, view);
        self.dead.insert(volume, BTreeSet::new());
        self.block_sizes.insert(volume, block_size);
    }

    /// Checks that nothing leaks, that no block in use is freed, and that every dead list agrees
    /// with its definition.
    pub(super) fn check(&self, catalog: &Catalog) {
        let with_blocks = catalog.datasets().filter(|dataset| !dataset.is_folder());
        let known: Vec<_> = with_blocks.map(|dataset| dataset.id).collect();
        assert!(
            self.views.keys().eq(&known),
            "views of {:?}",
            self.views.keys()
        );
        assert!(
            self.dead.keys().eq(&known),
            "dead lists of {:?}",
            self.dead.keys()
        );
        let reachable: BTreeSet<_> = self
            .views
            .values()
            .flat_map(View::values)
            .copied()
            .collect();
        assert_eq!(self.allocated, reachable);
        for id in known {
            let before = catalog.chain(id).next().map(|older| &self.views[&older.id]);
            let here: BTreeSet<_> = self.views[&id].values().collect();
            let lost = before.into_iter().flat_map(View::values);
            let lost: BTreeSet<_> = lost
                .filter(|block| !here.contains(block))
                .copied()
                .collect();
            assert_eq!(self.dead[&id], lost, "dead list of {}", catalog.name(id));
        }
    }
}
