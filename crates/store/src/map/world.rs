//! A world for the tests of merges, walks and differences. It has a volume with snapshots on a disk
//! of nodes, beside an ordered map of the right blocks. Nodes of four pointers make deep trees
//! cheap.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use pages::Pages;
use proptest::prelude::*;

use super::merge::Statistics;
use super::{Map, Merge, Missing, NoSpace, NodeCache, Progress, Sink, Stop, Tree};
use crate::format::{Address, DatasetId, Epoch, Node, NodeId, Pointer};

pub(super) const FAN_OUT: usize = 4;

/// A call of a merge to its sink. Calls are kept in order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    Written(NodeId, Pointer),
    Block(Pointer),
    Node(Pointer),
}

/// Blocks by address, and the calls of merges.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) blocks: BTreeMap<u64, Pages>,
    pub(super) next: u64,
    pub(super) events: Vec<Event>,
    /// Number of writes after which there is no space once.
    full_every: Option<u64>,
    refused: bool,
}

impl Disk {
    pub(super) fn pointer(&mut self, birth: Epoch) -> Pointer {
        self.next += 1;
        let (address, checksum) = (Address::new(0, self.next), u128::from(self.next) << 70);
        Pointer {
            address,
            birth,
            sectors: 1 + (self.next % 3) as u16,
            checksum,
            ..Pointer::HOLE
        }
    }
}

impl Sink<FAN_OUT> for Disk {
    fn write_node(&mut self, node: &Arc<Node<FAN_OUT>>) -> Result<Pointer, NoSpace> {
        let is_turn = self
            .full_every
            .is_some_and(|every| self.next.is_multiple_of(every));
        if is_turn && !self.refused {
            self.refused = true;
            return Err(NoSpace);
        }
        self.refused = false;
        let (compression, block) = node.to_block();
        let pointer = Pointer {
            compression,
            ..self.pointer(node.birth())
        };
        self.blocks.insert(pointer.address.to_bits(), block);
        self.events.push(Event::Written(node.id(), pointer));
        Ok(pointer)
    }

    fn drop_block(&mut self, pointer: Pointer) {
        self.events.push(Event::Block(pointer));
    }

    fn drop_node(&mut self, pointer: Pointer) {
        self.events.push(Event::Node(pointer));
    }
}

/// All that a tree reaches, found without the code under test.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reached {
    pub(super) blocks: BTreeMap<u64, Pointer>,
    /// Nodes with their places, children before parents.
    pub(super) nodes: Vec<(NodeId, Pointer)>,
}

impl Reached {
    pub(super) fn addresses(&self) -> BTreeSet<Address> {
        let nodes = self.nodes.iter().map(|(_, pointer)| pointer.address);
        self.blocks
            .values()
            .map(|pointer| pointer.address)
            .chain(nodes)
            .collect()
    }
}

pub(super) struct Snapshot {
    pub(super) map: Map<FAN_OUT>,
    pub(super) model: BTreeMap<u64, Pointer>,
    pub(super) epoch: Epoch,
}

/// Manner in which merges are run. It must not change their results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Number of nodes for each step.
    pub(super) budget: usize,
    /// Number of steps after which the cache is lost.
    pub(super) forget_every: usize,
    pub(super) full_every: Option<u64>,
    /// Number of nodes that are read early.
    pub(super) ahead: usize,
}

pub(super) const SIMPLE: Manner = Manner {
    budget: usize::MAX,
    forget_every: usize::MAX,
    full_every: None,
    ahead: 0,
};

pub(super) fn manners() -> impl Strategy<Value = Manner> {
    (
        1..20_usize,
        2..50_usize,
        prop::option::of(2..20_u64),
        0..5_usize,
    )
        .prop_map(|(budget, forget_every, full_every, ahead)| Manner {
            budget,
            forget_every,
            full_every,
            ahead,
        })
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Write(u64),
    Zero(u64),
    Clear(Range<u64>),
    Snapshot,
    Checkpoint,
}

pub(super) fn ops(blocks: u64) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        // Most writes are near one another, so that leaves have several. The highest make trees
        // grow.
        20 => (0..blocks / 20, 0..20_u64).prop_map(|(at, of)| Op::Write(at * (1 + of % 2) + of)),
        4 => (0..blocks).prop_map(Op::Write),
        4 => (0..blocks / 10).prop_map(Op::Zero),
        2 => (0..blocks, 0..20_u64).prop_map(|(at, len)| Op::Clear(at..at + len)),
        2 => (0..blocks, 0..blocks).prop_map(|(a, b)| Op::Clear(a.min(b)..a.max(b))),
        2 => Just(Op::Snapshot),
        2 => Just(Op::Checkpoint),
    ];
    prop::collection::vec(op, 1..150)
}

pub(super) struct World {
    pub(super) disk: Disk,
    pub(super) cache: NodeCache<FAN_OUT>,
    pub(super) live: Map<FAN_OUT>,
    pub(super) model: BTreeMap<u64, Pointer>,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) epoch: Epoch,
    manner: Manner,
    steps: usize,
}

impl World {
    pub(super) fn new(manner: Manner) -> Self {
        Self {
            disk: Disk {
                full_every: manner.full_every,
                ..Disk::default()
            },
            cache: NodeCache::new(0),
            live: Map::new(Tree::new(DatasetId(1))),
            model: BTreeMap::new(),
            snapshots: Vec::new(),
            epoch: Epoch(1),
            manner,
            steps: 0,
        }
    }

    pub(super) fn perform(&mut self, op: &Op) {
        match op {
            Op::Write(index) => {
                let pointer = self.disk.pointer(self.epoch);
                self.live.layers.insert(*index, pointer);
                self.model.insert(*index, pointer);
            }
            Op::Zero(index) => {
                self.live.layers.insert(*index, Pointer::HOLE);
                self.model.remove(index);
            }
            Op::Clear(range) => {
                self.live.layers.clear(range.clone(), |_| ());
                self.model.retain(|index, _| !range.contains(index));
            }
            Op::Snapshot => {
                self.live.layers.close(self.epoch);
                let (map, model) = (self.live.fork(), self.model.clone());
                self.snapshots.push(Snapshot {
                    map,
                    model,
                    epoch: self.epoch,
                });
                self.epoch = self.epoch.next();
            }
            Op::Checkpoint => self.checkpoint(),
        }
    }

    /// Merges all closed layers, the lowest first, and checks each new tree.
    pub(super) fn checkpoint(&mut self) {
        self.live.layers.close(self.epoch);
        self.epoch = self.epoch.next();
        while self.merge_lowest() {}
    }

    /// Merges the lowest closed layer, and checks the new tree. Returns whether there was one.
    pub(super) fn merge_lowest(&mut self) -> bool {
        let Some(closed) = self.live.layers.closed().first().cloned() else {
            return false;
        };
        let old = self.live.tree;
        let mut merge = Merge::new(old, Arc::clone(&closed));
        let from = self.disk.events.len();
        while self.step(&mut merge) == Progress::More {
            assert_eq!(merge.tree(), None);
        }
        let new = merge.tree().expect("it is done");
        check_merge(self, old, new, from, merge.statistics());
        assert!(self.live.replace_tree(new, &closed));
        for snapshot in &mut self.snapshots {
            snapshot.map.replace_tree(new, &closed);
        }
        true
    }

    fn step(&mut self, merge: &mut Merge<FAN_OUT>) -> Progress {
        self.steps += 1;
        if self.steps.is_multiple_of(self.manner.forget_every) {
            self.cache = NodeCache::new(0);
        }
        for missing in merge.upcoming(&self.cache, self.manner.ahead) {
            self.read(&missing);
        }
        let mut budget = self.manner.budget;
        match merge.step(&mut self.cache, &mut self.disk, &mut budget) {
            Ok(progress) => return progress,
            Err(Stop::Missing(missing)) => self.read(&missing),
            Err(Stop::NoSpace) => assert!(self.manner.full_every.is_some()),
        }
        Progress::More
    }

    pub(super) fn read(&mut self, missing: &Missing) {
        assert!(
            !self.cache.has(&missing.pointer),
            "only what is not there is missing"
        );
        let block = &self.disk.blocks[&missing.pointer.address.to_bits()];
        self.cache
            .fill(missing, block)
            .expect("the node that was written there");
    }

    /// Calls `ask` until no node is missing.
    pub(super) fn retry<T>(
        &mut self,
        mut ask: impl FnMut(&mut NodeCache<FAN_OUT>) -> Result<T, Missing>,
    ) -> T {
        loop {
            match ask(&mut self.cache) {
                Ok(found) => return found,
                Err(missing) => self.read(&missing),
            }
        }
    }

    pub(super) fn reach(&self, tree: &Tree<FAN_OUT>) -> Reached {
        let mut reached = Reached::default();
        self.reach_below(tree.root_id(), tree.root, &mut reached);
        reached
    }

    fn reach_below(&self, id: NodeId, pointer: Pointer, reached: &mut Reached) {
        if pointer.is_hole() {
            return;
        }
        let block = &self.disk.blocks[&pointer.address.to_bits()];
        let node = Node::<FAN_OUT>::from_block(id, &pointer, block).expect("what was written");
        assert!(!node.is_empty(), "a node of holes is a hole");
        for (slot, child) in node.iter().enumerate() {
            let index = id.index * FAN_OUT as u64 + slot as u64;
            if id.level > 0 {
                self.reach_below(
                    NodeId {
                        level: id.level - 1,
                        index,
                        ..id
                    },
                    child,
                    reached,
                );
            } else if !child.is_hole() {
                reached.blocks.insert(index, child);
            }
        }
        reached.nodes.push((id, pointer));
    }

    /// Compares every block of every map with its model.
    pub(super) fn check_maps(&mut self, blocks: u64) {
        for number in 0..=self.snapshots.len() {
            let (map, model) = match self.snapshots.get(number) {
                Some(snapshot) => (snapshot.map.fork(), snapshot.model.clone()),
                // A fork would not see the top.
                None => (
                    std::mem::replace(&mut self.live, Map::new(Tree::new(DatasetId(1)))),
                    self.model.clone(),
                ),
            };
            let expected = |index| model.get(&index).copied().unwrap_or(Pointer::HOLE);
            for index in (0..blocks).step_by(3) {
                assert_eq!(
                    self.retry(|cache| map.look_up(cache, index)),
                    expected(index)
                );
            }
            for first in (0..blocks).step_by(50) {
                let mut run = [Pointer::HOLE; 70];
                self.retry(|cache| map.look_up_run(cache, first, &mut run));
                let expected: Vec<_> = (first..first + 70).map(expected).collect();
                assert_eq!(run[..], expected[..]);
            }
            if number == self.snapshots.len() {
                self.live = map;
            }
        }
    }
}

/// Checks that exactly those blocks were dropped that the old tree had and the new one does not
/// have, and so on.
fn check_merge(
    world: &World,
    old: Tree<FAN_OUT>,
    new: Tree<FAN_OUT>,
    from: usize,
    statistics: Statistics,
) {
    let (before, after) = (world.reach(&old), world.reach(&new));
    let (had, has) = (before.addresses(), after.addresses());
    let events = &world.disk.events[from..];
    let mut dropped = BTreeSet::new();
    let mut written = BTreeSet::new();
    let mut counted = Statistics::default();
    for event in events {
        match *event {
            Event::Written(id, pointer) => {
                assert!(written.insert(pointer.address));
                assert!(after.nodes.contains(&(id, pointer)));
                counted.nodes_written += 1;
                counted.node_sectors_written += u64::from(pointer.sectors);
            }
            Event::Block(pointer) => {
                assert!(
                    dropped.insert(pointer.address),
                    "{pointer:?} was dropped twice"
                );
                assert!(before.blocks.values().any(|block| *block == pointer));
                counted.blocks_dropped += 1;
                counted.block_sectors_dropped += u64::from(pointer.sectors);
                counted.whole_dropped += u64::from(pointer.is_whole());
            }
            Event::Node(pointer) => {
                assert!(
                    dropped.insert(pointer.address),
                    "{pointer:?} was dropped twice"
                );
                assert!(before.nodes.iter().any(|(_, node)| *node == pointer));
                counted.nodes_dropped += 1;
                counted.node_sectors_dropped += u64::from(pointer.sectors);
            }
        }
    }
    assert_eq!(dropped, had.difference(&has).copied().collect());
    let added = after
        .blocks
        .values()
        .filter(|block| !had.contains(&block.address));
    for block in added {
        counted.blocks_added += 1;
        counted.block_sectors_added += u64::from(block.sectors);
        counted.whole_added += u64::from(block.is_whole());
    }
    let new_nodes = after
        .nodes
        .iter()
        .map(|(_, node)| node.address)
        .filter(|at| !had.contains(at));
    assert_eq!(written, new_nodes.collect());
    assert_eq!(statistics, counted);
}
