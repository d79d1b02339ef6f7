//! Operations on several volumes and snapshots at once.
//!
//! The module takes snapshots with one name, and destroys several volumes or snapshots in one
//! operation.

use std::collections::BTreeSet;

use super::{Author, Known};
use crate::operation::{Admin, FOLDERS, Named, VolumeId};

impl Author<'_> {
    /// Takes snapshots of many volumes, or destroys many volumes or snapshots.
    pub(super) fn together(&mut self) -> Admin {
        let folder = self.random.within(0..u64::from(FOLDERS)) as u32;
        let doomed = match self.random.within(0..10) {
            0..4 => None,
            4 | 5 => Some((self.some(), Named::Each)),
            6 | 7 => Some((self.below(folder), Named::Below(folder))),
            _ => self.of_group(folder),
        };
        match doomed {
            Some((volumes, named)) if self.may_go(&volumes) => {
                self.known.retain(|known| !volumes.contains(&known.id));
                let volumes = volumes.into_iter().collect();
                Admin::DestroyAll { volumes, named }
            }
            _ => self.snapshot_group(),
        }
    }

    /// Takes snapshots with one name: of all volumes, or of the volumes in a folder.
    pub(super) fn snapshot_group(&mut self) -> Admin {
        let group = self.next_group;
        self.next_group += 1;
        let folder = self.random.within(0..u64::from(FOLDERS)) as u32;
        let is_all = self.random.per_mille(600);
        let volumes: Vec<Known> = self
            .known
            .iter()
            .filter(|of| !of.is_snapshot)
            .copied()
            .collect();
        let in_folder = |of: &&Known| of.id.folder() == folder;
        let is_some = volumes.iter().any(|of| in_folder(&of));
        let chosen = volumes
            .iter()
            .filter(|of| is_all || !is_some || in_folder(of));
        let of = chosen.map(|volume| {
            let snapshot = volume.id.snapshot_of_group(group);
            self.known.push(Known {
                id: snapshot,
                is_snapshot: true,
                origin: Some(volume.id),
                ..*volume
            });
            (volume.id, snapshot)
        });
        Admin::Snapshot { of: of.collect() }
    }

    /// Returns two or three volumes or snapshots, with all their snapshots and clones.
    fn some(&mut self) -> BTreeSet<VolumeId> {
        let count = self.random.within(2..4);
        let chosen: BTreeSet<VolumeId> = (0..count).map(|_| self.any_volume(true).id).collect();
        self.with_all_that_stems_from(chosen)
    }

    /// Returns all volumes and snapshots that lie in a folder.
    fn below(&self, folder: u32) -> BTreeSet<VolumeId> {
        let owner = |known: &Known| match known.is_snapshot {
            true => known.origin.unwrap_or(known.id),
            false => known.id,
        };
        let within = self
            .known
            .iter()
            .filter(|known| owner(known).folder() == folder);
        within.map(|known| known.id).collect()
    }

    /// Returns the existing snapshots of a group, of all volumes or of the volumes in the folder.
    fn of_group(&mut self, folder: u32) -> Option<(BTreeSet<VolumeId>, Named)> {
        let groups = self
            .known
            .iter()
            .filter_map(|known| Some(known.id.group()?.0));
        let groups: Vec<u32> = groups.collect::<BTreeSet<u32>>().into_iter().collect();
        if groups.is_empty() {
            return None;
        }
        let group = self.random.one_of(&groups);
        let folder = self.random.per_mille(400).then_some(folder);
        let is_meant = |id: &VolumeId| {
            let of = id.group();
            of.is_some_and(|(of, volume)| {
                of == group && folder.is_none_or(|folder| volume.folder() == folder)
            })
        };
        let meant = self.known.iter().map(|known| known.id).filter(is_meant);
        Some((meant.collect(), Named::Group(group, folder)))
    }

    fn with_all_that_stems_from(&self, mut chosen: BTreeSet<VolumeId>) -> BTreeSet<VolumeId> {
        loop {
            let children = self
                .known
                .iter()
                .filter(|known| known.origin.is_some_and(|origin| chosen.contains(&origin)));
            let more: Vec<VolumeId> = children.map(|known| known.id).collect();
            let before = chosen.len();
            chosen.extend(more);
            if chosen.len() == before {
                return chosen;
            }
        }
    }

    /// Reports whether these can go: a volume is left, and no remaining one depends on them.
    fn may_go(&self, doomed: &BTreeSet<VolumeId>) -> bool {
        let left = || {
            self.known
                .iter()
                .filter(|known| !doomed.contains(&known.id))
        };
        let stems = |known: &Known| known.origin.is_some_and(|origin| doomed.contains(&origin));
        !doomed.is_empty() && left().any(|known| !known.is_snapshot) && !left().any(stems)
    }
}
