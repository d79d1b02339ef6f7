//! Copies of a pool's disks: whether a disk is there twice, and copies that become a pool of their
//! own while the power fails.

use std::collections::BTreeSet;

use pages::PageMut;
use store::engine::reguid::{NewIdentity, Reguid};
use store::engine::{LeafLabels, OpenErrorKind, PoolConfig, examine, torn_identity};
use store::format::Label;
use store::format::label::{COPIES, LABEL_SIZE};
use store::vdev::layout::label_offset;

use super::PoolSetup;
use crate::disk::{Medium, SECTOR_SIZE};
use crate::operation::BLOCK_SIZE;
use crate::random::Random;
use crate::subject::Geometry;

/// Text of an error that says that there are two copies of one disk.
pub(super) const TOLD: &str = "they are copies of one another";

/// Number of power failures before the copies are left to become a pool.
const CUTS: u64 = 3;

/// Returns the labels on a medium.
pub(super) fn labels(medium: &Medium, sectors: u64) -> LeafLabels {
    let size = sectors * BLOCK_SIZE as u64;
    let read = |copy: u64| {
        let first = label_offset(copy, size)? / SECTOR_SIZE as u64;
        medium.read(first..first + (LABEL_SIZE / SECTOR_SIZE) as u64)
    };
    let mut labels = LeafLabels {
        size,
        ..LeafLabels::default()
    };
    for (number, copy) in (0..COPIES).zip(&mut labels.copies) {
        *copy = read(number).unwrap_or_default();
    }
    labels
}

/// Reports whether the pool lists the leaf that a medium claims to be.
pub(super) fn is_twin(config: &PoolConfig, medium: &Medium, sectors: u64) -> Option<bool> {
    let labels = labels(medium, sectors);
    let said = labels
        .copies
        .iter()
        .filter_map(|copy| Label::read(copy).ok());
    let leaves: BTreeSet<u64> = said
        .filter(|label| label.pool == config.guid)
        .map(|label| label.leaf)
        .collect();
    let listed = leaves.iter().filter(|leaf| config.lists(**leaf)).count();
    match listed {
        0 => Some(false),
        all if all == leaves.len() => Some(true),
        _ => None,
    }
}

/// Gives copies of all disks an identity of their own. The power fails at some writes, and the
/// change is made again.
pub(super) fn become_another(
    setup: &PoolSetup,
    copies: &mut [Medium],
    geometry: &Geometry,
    random: &mut Random,
) -> Result<(PoolSetup, u64), String> {
    let read = |copies: &[Medium]| -> Vec<LeafLabels> {
        let all = copies.iter().enumerate();
        all.map(|(disk, medium)| labels(medium, geometry.sectors(disk)))
            .collect()
    };
    // Disks that stand by, and those that left and are not wiped yet, are named by nobody.
    let examined = examine(&read(copies), Some(setup.guid)).map_err(|error| error.to_string())?;
    let is_own = |disk: &usize| examined.leaves[*disk].is_some_and(|of| examined.config.lists(of));
    let named: Vec<usize> = (0..copies.len()).filter(is_own).collect();
    let left = random.within(0..CUTS + 1);
    let mut cuts = 0;
    loop {
        let found = read(copies);
        let named_labels: Vec<LeafLabels> = named.iter().map(|disk| found[*disk].clone()).collect();
        let guid = random.within(1..u64::MAX);
        let new = NewIdentity {
            guid,
            name: None,
            host: super::HOST.to_owned(),
            paths: named.iter().map(|disk| format!("disk {disk}")).collect(),
        };
        let was = number_of(&named_labels).unwrap_or(setup.guid);
        let plan = Reguid::plan(&named_labels, was, new).map_err(|error| error.to_string())?;
        let disks: Vec<(usize, u64)> = named
            .iter()
            .map(|disk| (*disk, found[*disk].size))
            .collect();
        if cuts == left {
            let places = disks.iter().zip(&plan.labels);
            for ((disk, size), label) in places {
                for copy in Reguid::rounds().concat() {
                    put(&mut copies[*disk], *size, copy, label, u8::MAX);
                }
            }
            let setup = PoolSetup {
                guid: plan.config.guid,
                ..setup.clone()
            };
            return Ok((setup, cuts));
        }
        cuts += 1;
        write_partly(copies, &disks, &plan, random);
        let after = read(copies);
        let after: Vec<LeafLabels> = named.iter().map(|disk| after[*disk].clone()).collect();
        judge(&after, was, plan.config.guid)?;
    }
}

/// Returns the guid that the pool of these devices has, or had before an interrupted change.
fn number_of(labels: &[LeafLabels]) -> Option<u64> {
    let torn = labels.iter().find_map(torn_identity);
    let copies = labels.iter().flat_map(|of| &of.copies);
    let mut pools = copies.filter_map(|copy| Label::read(copy).ok());
    let whole = pools.next().map(|label| label.pool);
    torn.map(|(old, _)| old).or(whole)
}

/// Writes partly: each write of one round took effect, in a part, or not at all. All writes of the
/// round before did.
fn write_partly(copies: &mut [Medium], disks: &[(usize, u64)], plan: &Reguid, random: &mut Random) {
    let rounds = Reguid::rounds();
    let cut_in = random.within(0..rounds.len() as u64) as usize;
    for (round, of_round) in rounds.iter().enumerate().take(cut_in + 1) {
        for ((disk, size), label) in disks.iter().zip(&plan.labels) {
            for copy in of_round {
                let slices = match round < cut_in {
                    true => u8::MAX,
                    false => random.one_of(&[0, 1, 0b0111_0000, u8::MAX, u8::MAX]),
                };
                put(&mut copies[*disk], *size, *copy, label, slices);
            }
        }
    }
}

/// Puts a label where it belongs: of each sector, the slices whose bits are set.
fn put(medium: &mut Medium, size: u64, copy: usize, label: &Label, slices: u8) {
    let Some(offset) = label_offset(copy as u64, size) else {
        return;
    };
    let bytes = label.encode();
    let first = offset / SECTOR_SIZE as u64;
    for (sector, bytes) in (first..).zip(bytes.as_chunks().0) {
        medium.put_slices(sector, &PageMut::copy_of(bytes).freeze(), slices);
    }
}

/// Judges the labels after a power cut. There must be the old pool, the new one, or labels that say
/// that it is neither.
fn judge(labels: &[LeafLabels], old: u64, new: u64) -> Result<(), String> {
    let opens = |guid| match examine(labels, Some(guid)) {
        Ok(examined) => Ok(examined.leaves.iter().all(Option::is_some)),
        Err(error) => match error.kind {
            OpenErrorKind::NoPool | OpenErrorKind::Reguid => Ok(false),
            _ => Err(error.to_string()),
        },
    };
    let is_torn = labels.iter().any(|of| torn_identity(of).is_some());
    match (opens(old)?, opens(new)?, is_torn) {
        (true, false, false) | (false, true, false) | (false, false, true) => Ok(()),
        told => Err(format!("opens as the old, as the new, is torn: {told:?}")),
    }
}
