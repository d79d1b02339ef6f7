//! Loads the space map of a checkpoint, and the lists of blocks that it dropped.

use super::super::manifest::{Hex, Manifest, Persisted, space_map};
use super::{Block, OpenError, Opening, OpeningStage, Pointer, Wanted};
use crate::format::list::{Chunk, Entries};
use crate::format::node::FAN_OUT;
use crate::format::{Node, NodeFault, NodeId, SECTOR_SIZE, VERSION};
use crate::space::{Fault, Page};

impl Opening {
    pub(super) fn begin_index(&mut self, manifest: Manifest) -> Result<(), OpenError> {
        let vdevs = self.pool.space_vdevs();
        self.pool.persisted = Persisted {
            epoch: self.root.epoch,
            seq: self.root.seq,
            manifest: self.root.manifest.clone(),
            ..Persisted::default()
        };
        // A vdev that was added since then may be in the labels already, and is all free.
        if manifest.space.len() > usize::from(vdevs) {
            let context = format!(
                "the checkpoint has {} top-level vdevs, but the labels have {vdevs}",
                manifest.space.len()
            );
            return Err(OpenError::damaged(context));
        }
        for (vdev, record) in (0..).zip(&manifest.space) {
            if record.sectors > self.pool.space_of(vdev) {
                let context = format!("top-level vdev {vdev} is smaller than it was");
                return Err(OpenError::damaged(context));
            }
            let index: Vec<Pointer> = record.index.iter().map(|Hex(pointer)| *pointer).collect();
            for (node, pointer) in index.iter().enumerate() {
                if !pointer.is_hole() {
                    self.read(Wanted::Index { vdev, node }, Block::from(pointer));
                }
            }
            let pages = vec![Pointer::HOLE; index.len() * FAN_OUT];
            self.pool.persisted.index.push(index);
            self.pool.persisted.pages.push(pages);
        }
        let tables = &mut self.pool.persisted;
        tables.index.resize(vdevs.into(), Vec::new());
        tables.pages.resize(vdevs.into(), Vec::new());
        self.manifest = Some(manifest);
        self.stage = OpeningStage::Index;
        Ok(())
    }

    pub(super) fn take_index(&mut self) -> Result<(), OpenError> {
        for (wanted, data) in std::mem::take(&mut self.got) {
            let Wanted::Index { vdev, node: number } = wanted else {
                continue;
            };
            let id = NodeId {
                volume: space_map(vdev),
                level: 0,
                index: number as u64,
            };
            let pointer = self.pool.persisted.index[usize::from(vdev)][number];
            let node =
                Node::<FAN_OUT>::from_block(id, &pointer, &data).map_err(|error| {
                    match error.kind {
                        NodeFault::Version(version) if version > VERSION => {
                            OpenError::later("the space map", version)
                        }
                        _ => OpenError::damaged(format!("the space map: {error}")),
                    }
                })?;
            let table = &mut self.pool.persisted.pages[usize::from(vdev)];
            for (slot, pointer) in node.iter().enumerate() {
                table[number * FAN_OUT + slot] = pointer;
            }
        }
        for vdev in 0..self.pool.space_vdevs() {
            let table = self.pool.persisted.pages[usize::from(vdev)].clone();
            for (number, pointer) in table.iter().enumerate() {
                if !pointer.is_hole() {
                    self.read(Wanted::Page { vdev, number }, Block::from(pointer));
                }
            }
        }
        self.stage = OpeningStage::Pages;
        Ok(())
    }

    pub(super) fn take_pages(&mut self) -> Result<(), OpenError> {
        for (wanted, data) in std::mem::take(&mut self.got) {
            let Wanted::Page { vdev, number } = wanted else {
                continue;
            };
            let mut bytes = [0; SECTOR_SIZE];
            data.copy_to(&mut bytes);
            let number = number as u32;
            self.pool
                .load_space_page(Page { vdev, number }, &bytes)
                .map_err(fault)?;
        }
        self.pool.keep_inner_labels();
        self.stage = OpeningStage::Deferred;
        let first = self
            .manifest
            .as_ref()
            .map_or(Pointer::HOLE, |of| of.deferred.0);
        self.want_chunk(first)
    }

    fn want_chunk(&mut self, pointer: Pointer) -> Result<(), OpenError> {
        if pointer.is_hole() {
            self.prove_root()
        } else {
            self.pool.persisted.deferred.push(pointer);
            self.read(Wanted::Chunk, Block::from(&pointer));
            Ok(())
        }
    }

    /// Proves a root of which there is only one copy, which may be old or have been read in the
    /// wrong place. Checksums prove all that the root leads to. Volumes and snapshots are read
    /// later, so their topmost nodes are read here.
    fn prove_root(&mut self) -> Result<(), OpenError> {
        let roots = self
            .pool
            .datasets_in_use()
            .map(|(_, of)| of)
            .map(|of| of.map.tree.root);
        let roots: Vec<Pointer> = roots
            .filter(|root| self.is_lone && !root.is_hole())
            .collect();
        self.stage = OpeningStage::Trees;
        for (number, root) in roots.iter().enumerate() {
            self.read(Wanted::Tree(number), Block::from(root));
        }
        match roots.is_empty() {
            true => self.begin_copies(),
            false => Ok(()),
        }
    }

    pub(super) fn take_deferred(&mut self) -> Result<(), OpenError> {
        let data = self.got.remove(&Wanted::Chunk).unwrap_or_default();
        let damaged =
            || OpenError::damaged("the list of blocks that the checkpoint dropped is invalid");
        let chunk = Chunk::decode(&data).ok_or_else(|| match Chunk::later_version(&data) {
            Some(version) => OpenError::later("a list", version),
            None => damaged(),
        })?;
        let Entries::Extents(extents) = chunk.entries else {
            return Err(damaged());
        };
        for extent in extents {
            self.pool.load_dropped(extent).map_err(fault)?;
        }
        self.want_chunk(chunk.next)
    }
}

pub(super) fn fault(fault: Fault) -> OpenError {
    OpenError::damaged(format!("the space map is wrong: {fault}"))
}
