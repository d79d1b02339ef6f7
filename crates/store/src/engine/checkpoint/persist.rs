//! Writes the rest of a checkpoint: dead lists, the list of dropped blocks, the space map, the
//! manifest, the root.
//!
//! Finding places changes the space map, which is itself to be written. So first everything gets
//! its place, and the former blocks are dropped, until nothing changes any more. Only then is
//! anything encoded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pages::Pages;

use super::super::contents::{Contents, Dying};
use super::super::manifest::{
    BLOCK, ContentsRecord, Hex, Job, JobRecord, Manifest, Persisted, SpaceRecord, TreeRecord,
    json_len, space_map, to_hex,
};
use super::super::request::{PoolError, PoolErrorKind};
use super::super::state::Pool;
use super::making::{CheckpointStage, Making};
use super::writer::Writer;
use crate::catalog::Catalog;
use crate::engine::io::second_place::Site;
use crate::format::list::{Chunk, Entries, MAX_EXTENTS};
use crate::format::node::FAN_OUT;
use crate::format::{Compression, DatasetId, Epoch, Node, NodeId, Pointer, Root, SECTOR_SIZE};
use crate::map::merge::NoSpace;
use crate::map::{Map, Missing, NodeCache};
use crate::snapshot::deadlist::Deadlist;
use crate::space::Page;

/// Sectors of an uncompressed node: its place is needed before its bytes are known.
const INDEX_SECTORS: u16 = Node::<FAN_OUT>::MAX_SIZE.div_ceil(SECTOR_SIZE) as u16;

/// Places for structures that are still to be encoded.
#[derive(Default)]
struct Places {
    pages: BTreeMap<Page, Site>,
    index: BTreeMap<(u16, usize), Site>,
    chunks: Vec<Site>,
    /// Places of the manifest's blocks, with the bytes that each has room for.
    manifest: Vec<(Site, usize)>,
}

impl Pool {
    /// Writes the rest of the checkpoint.
    pub(super) fn persist(&mut self) {
        let written = self
            .persist_dead()
            .and_then(|records| self.place_rest(&records).map(|places| (records, places)))
            .map(|(records, places)| self.write_rest(records, places));
        match written {
            Ok(()) => self.set_stage(CheckpointStage::Settle),
            Err(NoSpace) => {
                let context = "no space is left for the lists of the checkpoint";
                self.checkpoint_failed(PoolError::new(PoolErrorKind::NoSpace, context));
            }
        }
    }

    /// Writes the dead lists of datasets and of jobs.
    fn persist_dead(&mut self) -> Result<Manifest, NoSpace> {
        let scan = self.last_ended_scan();
        let scrub = self.unended_scrub();
        self.forget_trims();
        let trims = self.trims.records();
        let dropped = self.with_writer(None, |making, writer, _| {
            for list in making.dead.values_mut() {
                list.persist(writer)?;
            }
            for job in &mut making.jobs {
                if let Job::Dead(list) | Job::Chunks(list) = job {
                    list.persist(writer)?;
                }
            }
            Ok(std::mem::take(&mut writer.writes.dropped))
        });
        let dropped = dropped.unwrap_or(Err(NoSpace))?;
        let Some(making) = &self.checkpoint else {
            return Err(NoSpace);
        };
        let manifest = Manifest {
            scan,
            scrub,
            trims,
            ..manifest_of(making, &self.contents, self.destroyed.dying())
        };
        for pointer in dropped {
            self.drop_block(&pointer);
        }
        Ok(manifest)
    }

    /// Drops the structures of the last checkpoint and finds places for those of this one.
    fn place_rest(&mut self, manifest: &Manifest) -> Result<Places, NoSpace> {
        let old = std::mem::take(&mut self.persisted);
        for pointer in old.manifest.iter().chain(&old.deferred) {
            self.drop_table(pointer);
        }
        self.persisted = Persisted {
            manifest: Vec::new(),
            deferred: Vec::new(),
            ..old
        };
        let vdevs = usize::from(self.space.vdevs());
        let tables = &mut self.persisted;
        tables.pages.resize(vdevs, Vec::new());
        tables.index.resize(vdevs, Vec::new());
        let mut places = Places::default();
        let len = self.manifest_len(manifest);
        if len > self.longest_manifest() {
            return Err(NoSpace);
        }
        loop {
            while let Some(page) = self.space.next_dirty_page() {
                let table = &mut self.persisted.pages[usize::from(page.vdev)];
                let number = page.number as usize;
                table.resize(table.len().max(number + 1), Pointer::HOLE);
                let old = std::mem::take(&mut table[number]);
                self.drop_table(&old);
                places.pages.insert(page, self.place(1)?);
            }
            let touched: BTreeSet<(u16, usize)> = places
                .pages
                .keys()
                .map(|page| (page.vdev, page.number as usize / FAN_OUT))
                .filter(|node| !places.index.contains_key(node))
                .collect();
            for (vdev, node) in touched {
                let table = &mut self.persisted.index[usize::from(vdev)];
                table.resize(table.len().max(node + 1), Pointer::HOLE);
                let old = std::mem::take(&mut table[node]);
                self.drop_table(&old);
                places
                    .index
                    .insert((vdev, node), self.place(INDEX_SECTORS)?);
            }
            while places.chunks.len() * MAX_EXTENTS < self.space.deferred().len() {
                let sectors = Chunk::sectors_of_extents(MAX_EXTENTS);
                places.chunks.push(self.place(sectors as u16)?);
            }
            let mut room: usize = places.manifest.iter().map(|(_, room)| room).sum();
            while room < len {
                if places.manifest.len() == Root::MAX_BLOCKS {
                    return Err(NoSpace);
                }
                let wanted = (len - room).min(BLOCK).div_ceil(SECTOR_SIZE);
                // Free space may lie in pieces.
                let halves = std::iter::successors(Some(wanted), |of| Some(of / 2));
                let mut lengths = halves.take_while(|of| *of > 0);
                let found = lengths.find_map(|of| Some((self.place(of as u16).ok()?, of)));
                let (place, sectors) = found.ok_or(NoSpace)?;
                places.manifest.push((place, sectors * SECTOR_SIZE));
                room += sectors * SECTOR_SIZE;
            }
            if self.is_suspended() {
                return Err(NoSpace);
            }
            let is_covered = places.chunks.len() * MAX_EXTENTS >= self.space.deferred().len();
            if self.space.dirty_pages() == 0 && is_covered {
                return Ok(places);
            }
        }
    }

    fn place(&mut self, sectors: u16) -> Result<Site, NoSpace> {
        self.with_writer(None, |_, writer, _| writer.place(sectors))
            .unwrap_or(Err(NoSpace))
    }

    /// Returns the next nodes that the merge will ask for and that are not in memory.
    pub(super) fn upcoming_nodes(&self, most: usize) -> Vec<Missing> {
        let running = self.checkpoint.as_ref().and_then(|of| of.merging.as_ref());
        let upcoming = running.map(|of| of.merge.upcoming(&self.node_cache, most));
        upcoming.unwrap_or_default()
    }

    /// Does something with the checkpoint being made and the means to write its blocks, which are
    /// born in `birth`, or in the checkpoint's epoch. Meanwhile the checkpoint has no writes of its
    /// own: they are with the writer.
    pub(super) fn with_writer<R>(
        &mut self,
        birth: Option<Epoch>,
        write: impl FnOnce(&mut Making, &mut Writer<'_>, &mut NodeCache) -> R,
    ) -> Option<R> {
        let spare = self.spare();
        let making = self.checkpoint.as_mut()?;
        // The writer counts its writes apart, so that it leaves the rest to the caller.
        let mut writes = std::mem::take(&mut making.writes);
        let mut writer = Writer {
            onto: &mut self.disks,
            room: &mut self.space,
            birth: birth.unwrap_or(making.epoch),
            writes: &mut writes,
            spare,
        };
        let result = write(making, &mut writer, &mut self.node_cache);
        making.writes = writes;
        Some(result)
    }

    /// Returns the greatest length of the manifest. All pointers have one length, and the needs of
    /// the space map are unknown until everything has its place.
    fn manifest_len(&self, manifest: &Manifest) -> usize {
        json_len(manifest) + self.space_records_len()
    }

    /// Encodes and writes everything.
    fn write_rest(&mut self, mut manifest: Manifest, places: Places) {
        for (page, site) in &places.pages {
            let bytes = self.space.write_page(*page);
            let pointer = self.write_at(*site, Pages::from_bytes(&bytes));
            self.persisted.pages[usize::from(page.vdev)][page.number as usize] = pointer;
        }
        for ((vdev, node), site) in &places.index {
            let block = self.index_node(*vdev, *node);
            self.persisted.index[usize::from(*vdev)][*node] = self.write_at(*site, block);
        }
        let extents: Vec<_> = self.space.deferred().collect();
        let mut next = Pointer::HOLE;
        let lists: Vec<_> = extents.chunks(MAX_EXTENTS).collect();
        for (list, site) in lists.into_iter().zip(&places.chunks).rev() {
            let entries = Entries::Extents(list.to_vec());
            let chunk = Chunk { next, entries };
            next = self.write_at(*site, padded(chunk.encode(), MAX_EXTENTS));
            self.persisted.deferred.push(next);
        }
        manifest.deferred = Hex(next);
        for (vdev, index) in self.persisted.index.iter().enumerate() {
            manifest.space.push(SpaceRecord {
                sectors: self.space.size(vdev as u16),
                index: index.iter().map(|pointer| Hex(*pointer)).collect(),
            });
        }
        let mut bytes = encode(&manifest);
        let room: usize = places.manifest.iter().map(|(_, room)| room).sum();
        assert!(
            bytes.len() <= room,
            "{} bytes of manifest, {room} expected",
            bytes.len()
        );
        let len = bytes.len() as u64;
        bytes.resize(room, b' ');
        let mut pointers = Vec::new();
        let mut rest = &bytes[..];
        for (site, room) in &places.manifest {
            let (block, behind) = rest.split_at(*room);
            pointers.push(self.write_at(*site, Pages::from_bytes(block)));
            rest = behind;
        }
        self.note_root(len, pointers);
    }

    /// Returns the epoch of the last checkpoint.
    pub(in crate::engine) fn checkpoint_epoch(&self) -> Epoch {
        self.persisted.epoch
    }

    /// Returns the last group of the log that the last checkpoint has.
    pub(in crate::engine) fn checkpoint_seq(&self) -> u64 {
        self.persisted.seq
    }

    fn note_root(&mut self, manifest_len: u64, manifest: Vec<Pointer>) {
        let time_s = self.time_s();
        let Some(making) = &mut self.checkpoint else {
            return;
        };
        making.root = Some(Root {
            epoch: making.epoch,
            time_s,
            seq: making.seq,
            log: making.log,
            previous: making.previous,
            manifest_len,
            manifest: manifest.clone(),
        });
        self.persisted.manifest = manifest;
        self.persisted.epoch = making.epoch;
        self.persisted.seq = making.seq;
    }

    fn write_at(&mut self, site: Site, block: Pages) -> Pointer {
        self.with_writer(None, |_, writer, _| {
            writer.write(site, block, Compression::Off)
        })
        .unwrap_or_default()
    }

    /// Makes the node with the pointers of 512 pages of a vdev's bitmap.
    fn index_node(&self, vdev: u16, number: usize) -> Pages {
        let id = NodeId {
            volume: space_map(vdev),
            level: 0,
            index: number as u64,
        };
        let birth = self
            .checkpoint
            .as_ref()
            .map_or(self.epoch(), |making| making.epoch);
        let mut node = Node::<FAN_OUT>::new(id, birth);
        let table = &self.persisted.pages[usize::from(vdev)];
        for (slot, pointer) in table
            .iter()
            .skip(number * FAN_OUT)
            .take(FAN_OUT)
            .enumerate()
        {
            node.set(slot, *pointer);
        }
        let mut bytes = node.encode();
        bytes.resize(usize::from(INDEX_SECTORS) * SECTOR_SIZE, 0);
        Pages::from_bytes(&bytes)
    }
}

/// Pads a chunk to the size of the largest one.
fn padded(chunk: Pages, extents: usize) -> Pages {
    let mut bytes = chunk.to_vec();
    bytes.resize(Chunk::sectors_of_extents(extents) as usize * SECTOR_SIZE, 0);
    Pages::from_bytes(&bytes)
}

fn encode(manifest: &Manifest) -> Vec<u8> {
    serde_json::to_vec(manifest).expect("it is made of numbers, texts and lists of these")
}

/// Makes the part of the manifest that is known before the space map is written.
fn manifest_of(
    making: &Making,
    contents: &BTreeMap<DatasetId, Contents>,
    dying: &[Dying],
) -> Manifest {
    let merged = |map: &Map| {
        map.layers.closed().iter().rev().find_map(|closed| {
            let mut merged = making.merged.iter();
            merged.find(|merged| Arc::ptr_eq(&merged.closed, closed))
        })
    };
    let records = making.catalog.datasets().filter_map(|dataset| {
        let of = contents.get(&dataset.id)?;
        let (tree, referenced) = match merged(&of.map) {
            Some(merged) => (merged.tree, merged.referenced),
            None => (of.map.tree, of.referenced),
        };
        let dead = making.dead.get(&dataset.id);
        Some(ContentsRecord {
            id: dataset.id,
            tree: TreeRecord::from(&tree),
            referenced: referenced.sectors,
            blocks: referenced.blocks,
            whole: referenced.whole,
            dead: dead.map_or_else(String::new, |list| to_hex(&list.encode())),
            dead_nodes: dead.and_then(Deadlist::nodes),
            dead_whole: dead.and_then(Deadlist::whole),
        })
    });
    let jobs = making.jobs.iter().map(|job| match job {
        Job::Tree {
            tree,
            after,
            position,
        } => JobRecord::Tree {
            tree: TreeRecord::from(tree),
            after: after.0,
            position: *position,
        },
        Job::Dead(list) => JobRecord::Dead {
            list: to_hex(&list.encode()),
        },
        Job::Chunks(list) => JobRecord::Chunks {
            list: to_hex(&list.encode()),
        },
    });
    let dying = dying.iter().map(|dying| JobRecord::Tree {
        tree: TreeRecord::from(&merged(&dying.map).map_or(dying.map.tree, |merged| merged.tree)),
        after: dying.after.0,
        position: 0,
    });
    Manifest {
        epoch: making.epoch.0,
        contents: records.collect(),
        jobs: jobs.chain(dying).collect(),
        catalog: Catalog::clone(&making.catalog),
        space: Vec::new(),
        deferred: Hex::default(),
        scan: None,
        scrub: None,
        trims: Vec::new(),
    }
}
