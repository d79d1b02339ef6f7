//! Makes new labels for devices that lost all of theirs, from their inner labels.
//!
//! An inner label is written in the same round as two of the other labels. So a device that lost
//! these is judged as if its inner labels were its labels. This covers the configuration and the
//! roots that count, the missed epochs, old copies and twins. Nothing is invented: only bytes that
//! were found are written.
//!
//! A data area may hold foreign data: a volume may hold the disk of another pool. So a label found
//! there counts only if its own configuration says that an inner label of its leaf lies in this
//! place.
//!
//! The order that matters: the second and fourth label of every device are written and flushed,
//! then the first and third. This is the reverse of the usual order. A configuration of the second
//! round was in the first before, so it counts without the first. A first round beside a second one
//! of zeros would never count (`configurations.rs`). A power cut leaves one of two states. If the
//! device has no label, the same search finds it again. If it has labels from which the pool opens,
//! the opening writes the others.

use std::collections::BTreeSet;

use pages::Pages;

use super::super::config::PoolConfig;
use super::error::{OpenError, OpenErrorKind};
use super::examination::{Examined, examine};
use super::leaf_labels::LeafLabels;
use crate::engine::devices::label_rounds::ROUNDS;
use crate::format::label::{ACTIVITY_OFFSET, LABEL_SIZE, RING_OFFSET};
use crate::format::{Label, SECTOR_SIZE};
use crate::vdev::layout::{DATA_START, INNER_GRAIN, data_sectors, inner_labels, sector_offset};

/// Returns the places of inner labels on a device of `size` bytes, and then every place where one
/// may lie.
///
/// The first places hold if the device's vdev was made for devices of this size.
pub fn trace_places(size: u64) -> (Vec<u64>, impl Iterator<Item = u64>) {
    let likely = data_sectors(size).and_then(inner_labels);
    let likely = likely.into_iter().flatten().map(sector_offset).collect();
    let grain = INNER_GRAIN * SECTOR_SIZE as u64;
    let end = size.saturating_sub(LABEL_SIZE as u64);
    let all = (DATA_START..=end.max(DATA_START)).step_by(grain as usize);
    (likely, all.filter(move |at| *at <= end))
}

/// Inner label that was found on a device.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Offset of the label, in bytes.
    pub offset: u64,
    /// Round in which the label was written.
    pub round: usize,
    /// Contents of the label.
    pub label: Label,
    /// Name of the pool.
    pub name: String,
    /// All bytes of the label.
    copy: Pages,
}

impl Trace {
    /// Reads the label at an offset; `None` if no pool's inner label lies there.
    ///
    /// # Errors
    /// The label there is one that this program cannot use.
    pub fn read(copy: &Pages, offset: u64) -> Result<Option<Self>, OpenError> {
        let Ok(label) = Label::read(copy) else {
            return Ok(None);
        };
        let config = match PoolConfig::decode(&label.config) {
            Err(error) if error.kind == OpenErrorKind::Version => return Err(error),
            Err(_) => return Ok(None),
            Ok(config) => config,
        };
        let own = config.inner_offsets(label.leaf).unwrap_or_default();
        let round = own.iter().position(|at| *at == offset);
        Ok(round
            .filter(|_| copy.len() == LABEL_SIZE)
            .map(|round| Self {
                offset,
                round,
                label,
                name: config.name,
                copy: copy.clone(),
            }))
    }
}

/// Plan that gives the devices of a pool new labels.
#[derive(Clone, Debug)]
pub struct Rebuild {
    /// Contents of all labels together, including those that are to be written.
    pub examined: Examined,
    /// New labels of each device; `None` if it keeps its own.
    pub labels: Vec<Option<NewLabels>>,
}

/// New labels of a device.
#[derive(Clone, Debug)]
pub struct NewLabels {
    /// Guid of the leaf that the device is.
    pub leaf: u64,
    /// Places of the four labels, in bytes; `None` if the device ends before.
    pub offsets: [Option<u64>; 4],
    /// All bytes of the label of each round.
    pub rounds: [Pages; 2],
    /// Places of the inner labels from which the new ones come.
    pub found_at: Vec<u64>,
}

impl NewLabels {
    /// Returns the writes, as places and bytes, in two steps. All devices are flushed after each.
    pub fn steps(&self) -> [Vec<(u64, Pages)>; 2] {
        [1, 0].map(|round| {
            let places = ROUNDS[round].into_iter();
            let places = places.filter_map(|copy| self.offsets[copy]);
            let writes = places.map(|at| (at, self.rounds[round].clone()));
            writes.collect()
        })
    }
}

/// Reports whether a device has a label that names its pool.
fn has_label(device: &LeafLabels) -> bool {
    device.copies.iter().any(|copy| Label::read(copy).is_ok())
}

impl Rebuild {
    /// Plans the labels of these devices of the pool `guid`, or of the only pool that there is.
    /// `traces` are the inner labels that were found on each of them. A device with a label of its
    /// own keeps its labels, unless the labels of all devices lead to no checkpoint.
    ///
    /// # Errors
    /// There is nothing to be done, or there are traces of several pools, or a device has none. Or
    /// the pool that the labels describe together cannot be opened.
    pub fn plan(
        devices: &[LeafLabels],
        traces: &[Vec<Trace>],
        guid: Option<u64>,
    ) -> Result<Self, OpenError> {
        let guid = meant(devices, traces, guid)?;
        let all_have = devices.iter().all(has_label);
        if all_have {
            match examine(devices, Some(guid)) {
                Ok(_) => {
                    return Err(OpenError::new(
                        OpenErrorKind::NoPool,
                        "each device has usable labels: there is nothing to rebuild",
                    ));
                }
                Err(error) if error.kind == OpenErrorKind::Damaged => {}
                Err(error) => return Err(error),
            }
        }
        let lost = |device: &LeafLabels| all_have || !has_label(device);
        let both = devices.iter().zip(traces);
        let found: Vec<Option<NewLabels>> = both
            .map(|(device, traces)| match lost(device) {
                true => new_labels(device, traces, guid),
                false => None,
            })
            .collect();
        let seen = devices.iter().zip(&found).zip(traces);
        let seen: Vec<LeafLabels> = seen
            .map(|((device, found), traces)| match found {
                Some(_) => as_labels(device.size, traces, guid),
                None => device.clone(),
            })
            .collect();
        let mut devices = devices.iter().zip(&found).enumerate();
        let bare = devices.find(|(_, (device, found))| !has_label(device) && found.is_none());
        if let Some((number, _)) = bare {
            let context =
                format!("device {number} has neither labels nor inner labels of the pool");
            return Err(OpenError::new(OpenErrorKind::Missing, context));
        }
        let examined = examine(&seen, Some(guid))?;
        let strange = found
            .iter()
            .flatten()
            .find(|new| !examined.config.lists(new.leaf));
        if let Some(new) = strange {
            let context = format!(
                "leaf {:016x} no longer belongs to the pool: it was replaced, detached or removed",
                new.leaf
            );
            return Err(OpenError::new(OpenErrorKind::Missing, context));
        }
        Ok(Self {
            examined,
            labels: found,
        })
    }
}

/// Returns the guid of the pool that is meant.
fn meant(
    devices: &[LeafLabels],
    traces: &[Vec<Trace>],
    guid: Option<u64>,
) -> Result<u64, OpenError> {
    let of_labels = devices.iter().flat_map(|device| &device.copies);
    let of_labels = of_labels.filter_map(|copy| Some(Label::read(copy).ok()?.pool));
    let of_traces = traces.iter().flatten().map(|trace| trace.label.pool);
    let all: BTreeSet<u64> = of_labels.chain(of_traces).collect();
    let all: Vec<u64> = all.into_iter().collect();
    match (guid, &all[..]) {
        (Some(guid), all) if all.contains(&guid) => Ok(guid),
        (None, [one]) => Ok(*one),
        (_, []) => Err(OpenError::new(
            OpenErrorKind::NoPool,
            "no label was found, neither at the ends of the devices nor inside them",
        )),
        (Some(_), _) => Err(OpenError::new(
            OpenErrorKind::NoPool,
            "no trace of the named pool was found",
        )),
        (None, _) => Err(OpenError::new(
            OpenErrorKind::Twins,
            "there are traces of several pools: name one pool",
        )),
    }
}

/// Returns the inner label of each round of one leaf of the pool. If the device was several leaves,
/// the last one counts.
fn of_leaf(traces: &[Trace], guid: u64) -> [Option<&Trace>; 2] {
    let own = || traces.iter().filter(|trace| trace.label.pool == guid);
    let leaf = own().max_by_key(|trace| trace.label.generation);
    [0, 1].map(|round| {
        let mut own = own().filter(|trace| trace.round == round);
        own.find(|trace| Some(trace.label.leaf) == leaf.map(|of| of.label.leaf))
    })
}

/// Returns the inner labels as if they were the labels of their rounds, for an opening to read.
fn as_labels(size: u64, traces: &[Trace], guid: u64) -> LeafLabels {
    let [first, second] = of_leaf(traces, guid);
    let copy = |trace: Option<&Trace>| trace.map(|of| of.copy.clone()).unwrap_or_default();
    LeafLabels {
        size,
        copies: [copy(first), copy(second), Pages::new(), Pages::new()],
    }
}

fn new_labels(device: &LeafLabels, traces: &[Trace], guid: u64) -> Option<NewLabels> {
    let [first, second] = of_leaf(traces, guid);
    // If only one label is left, both rounds get it. A label of zeros beside it would mean that it
    // never counted.
    let rounds = [first.or(second)?, second.or(first)?];
    Some(NewLabels {
        leaf: rounds[0].label.leaf,
        offsets: as_labels(device.size, traces, guid).offsets(),
        rounds: rounds.map(|trace| without_activity(&trace.copy)),
        found_at: [first, second]
            .into_iter()
            .flatten()
            .map(|of| of.offset)
            .collect(),
    })
}

/// Returns the label with its activity record removed, so that no host has the pool open.
fn without_activity(copy: &Pages) -> Pages {
    let mut bytes = copy.to_vec();
    bytes[ACTIVITY_OFFSET..RING_OFFSET].fill(0);
    Pages::from_bytes(&bytes)
}
