//! The judgement of extents: the store's answers about space and holes in a volume, compared with
//! the volume's possible content.
//!
//! A volume block that holds anything but zeros has space. A block is a hole if it was never
//! written, was unmapped whole, or has only zero bytes by now: zeros free blocks.

use std::collections::BTreeMap;
use std::ops::Range;

use super::judge::{FoundVolume, Sight, Wrong, WrongKind, entries_of, whole_volume};
use super::{Contents, Model, Moment, SLICE_SIZE, SliceContent};
use crate::operation::{SLICES_PER_BLOCK, VolumeId};

/// Returns for each slice whether it has space. The runs of bytes begin at the first of `asked`
/// slices.
///
/// # Errors
/// The runs are no valid answer: there are none, or they are empty, end within slices, or cover
/// more than was asked.
pub fn slices(runs: &[(u64, bool)], asked: u64) -> Result<Vec<bool>, String> {
    let mut told = Vec::new();
    for (len, has_space) in runs {
        let count = len / SLICE_SIZE as u64;
        if count == 0 || !len.is_multiple_of(SLICE_SIZE as u64) {
            return Err(format!("a run of {len} bytes"));
        }
        told.resize(told.len() + count as usize, *has_space);
    }
    match told.len() as u64 {
        0 => Err("no runs".to_owned()),
        len if len > asked => Err(format!("{len} slices of {asked}")),
        _ => Ok(told),
    }
}

impl Model {
    /// Judges the answer about the slices from `first` on.
    ///
    /// # Errors
    /// The store must not give this answer.
    pub fn judge_extents(
        &mut self,
        volume: VolumeId,
        first: u64,
        told: &[bool],
        submitted: Moment,
    ) -> Result<(), Wrong> {
        self.end_read(submitted);
        let Some(target) = self.volumes.get(&volume) else {
            return Err(whole_volume(WrongKind::Undead, volume));
        };
        let contents = &target.alternatives[0];
        let sight = Sight::of_read(submitted);
        for block in blocks(target.unit, contents, first, told.len() as u64) {
            let of_block = told_of(&block, first, told);
            for (slice, has_space) in of_block.clone() {
                let entries = entries_of(contents, slice);
                let zeros = self.oldest_allowed(entries, slice, SliceContent::Zeros, sight);
                if !has_space && zeros.is_none() {
                    let wrong = self.wrong(
                        WrongKind::Hole,
                        volume,
                        slice,
                        SliceContent::Zeros,
                        entries,
                        sight,
                    );
                    return Err(wrong);
                }
            }
            let is_told = of_block.into_iter().any(|(_, has_space)| has_space);
            if is_told
                && !block
                    .clone()
                    .any(|slice| self.may_be_written(contents, slice, sight))
            {
                return Err(no_hole(volume, block.start));
            }
        }
        Ok(())
    }

    /// Reports whether a slice may hold anything but zeros.
    fn may_be_written(&self, contents: &Contents, slice: u64, sight: Sight) -> bool {
        let entries = entries_of(contents, slice);
        entries.iter().any(|entry| {
            let found = SliceContent::Change(entry.change);
            self.oldest_allowed(entries, slice, found, sight).is_some()
        })
    }

    /// Judges an answer after an opening by the content that was read then.
    pub(super) fn judge_found_extents(
        &self,
        found: &BTreeMap<VolumeId, FoundVolume>,
    ) -> Result<(), Wrong> {
        for (id, volume) in &self.volumes {
            let Some(FoundVolume { slices, space }) = found.get(id) else {
                continue;
            };
            for start in (0..space.len()).step_by((volume.unit * SLICES_PER_BLOCK) as usize) {
                let end = (start + (volume.unit * SLICES_PER_BLOCK) as usize).min(space.len());
                let (told, read) = (&space[start..end], &slices[start..end]);
                let is_written = |of: &SliceContent| {
                    !matches!(of, SliceContent::Zeros | SliceContent::Unreadable)
                };
                let wrong = read
                    .iter()
                    .zip(told)
                    .position(|(of, told)| is_written(of) && !told);
                if let Some(at) = wrong {
                    return Err(Wrong {
                        slice: (start + at) as u64,
                        found: read[at],
                        ..whole_volume(WrongKind::Hole, *id)
                    });
                }
                if told.contains(&true) && read.iter().all(|of| *of == SliceContent::Zeros) {
                    return Err(no_hole(*id, start as u64));
                }
            }
        }
        Ok(())
    }
}

/// Returns the slices of each volume block that contains some of these slices.
fn blocks(
    unit: u64,
    contents: &Contents,
    first: u64,
    count: u64,
) -> impl Iterator<Item = Range<u64>> {
    let size = unit * SLICES_PER_BLOCK;
    let all = contents.len() as u64 * SLICES_PER_BLOCK;
    let numbers = first / size..(first + count).div_ceil(size);
    numbers.map(move |number| number * size..((number + 1) * size).min(all))
}

/// Returns the answers about the slices of a block.
fn told_of(block: &Range<u64>, first: u64, told: &[bool]) -> Vec<(u64, bool)> {
    let end = block.end.min(first + told.len() as u64);
    let slices = block.start.max(first)..end;
    slices
        .map(|slice| (slice, told[(slice - first) as usize]))
        .collect()
}

fn no_hole(volume: VolumeId, slice: u64) -> Wrong {
    Wrong {
        slice,
        ..whole_volume(WrongKind::Space, volume)
    }
}
