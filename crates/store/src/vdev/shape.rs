//! Changes of the tree: adding, attaching, replacing, detaching, growing.

use std::fmt;

use smallvec::smallvec;

use super::Array;
use super::counts::BlockIo;
use super::device::{DeviceError, DeviceErrorKind, LeafId};
use super::dtl::Dtl;
use super::leaf::Leaf;
use super::output::Output;
use super::tree::{
    Class, LeafSpec, LeafState, Slot, SlotKind, SlotSpec, TopLevel, TopLevelKind, TopLevelSpec,
};
use crate::format::{Address, Epoch};

/// Kind of reason why the tree cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShapeErrorKind {
    /// The leaf or top-level vdev does not exist.
    NoSuchLeaf,
    /// The other leaves do not hold all that the leaf holds.
    NotRedundant,
    /// The leaf's device has not answered all earlier requests, or is still leaving another place.
    Busy,
    /// The leaf is not online.
    Away,
    /// The device is smaller than the used size of the others, or too small for any use.
    TooSmall,
    /// A vdev of this kind cannot change in this way, or cannot exist in this form.
    WrongKind,
    /// A leaf with this GUID is in the array.
    InUse,
}

/// Reason why the tree cannot be changed, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError {
    /// Kind of the reason.
    pub kind: ShapeErrorKind,
    /// Leaf of the reason.
    pub leaf: Option<LeafId>,
    /// Details of the reason.
    pub context: String,
}

impl ShapeError {
    pub(crate) fn new(kind: ShapeErrorKind, leaf: LeafId, context: impl Into<String>) -> Self {
        Self {
            kind,
            leaf: Some(leaf),
            context: context.into(),
        }
    }

    pub(crate) fn of_tree(kind: ShapeErrorKind, context: impl Into<String>) -> Self {
        Self {
            kind,
            leaf: None,
            context: context.into(),
        }
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ShapeErrorKind::NoSuchLeaf => "no such vdev",
            ShapeErrorKind::NotRedundant => "not redundant",
            ShapeErrorKind::Busy => "device is busy",
            ShapeErrorKind::Away => "not online",
            ShapeErrorKind::TooSmall => "device is too small",
            ShapeErrorKind::WrongKind => "not possible for this kind of vdev",
            ShapeErrorKind::InUse => "already in use",
        };
        f.write_str(kind)?;
        if !self.context.is_empty() {
            write!(f, ": {}", self.context)?;
        }
        Ok(())
    }
}

impl std::error::Error for ShapeError {}

impl Array {
    /// Adds a top-level vdev, and returns its number in addresses. Its labels first get the root of
    /// epoch `joined`, or of the first checkpoint behind it.
    ///
    /// # Errors
    /// The vdev is invalid: too few leaves, too small ones, GUIDs that are in use.
    pub fn add_top_level(&mut self, spec: &TopLevelSpec, joined: Epoch) -> Result<u16, ShapeError> {
        let mut spec = spec.clone();
        let leaves = spec.slots.iter_mut().flat_map(|slot| &mut slot.leaves);
        leaves.for_each(|leaf| leaf.joined = joined);
        self.insert_top_level(&spec)
    }

    /// Checks whether top-level vdevs can be added, one after the other. Nothing is changed.
    ///
    /// # Errors
    /// The reason why one of them cannot be added.
    pub fn check_top_levels(&self, specs: &[TopLevelSpec]) -> Result<(), ShapeError> {
        let mut numbered = specs.iter().enumerate();
        numbered.try_for_each(|(before, spec)| self.check_top_level(spec, before).map(drop))
    }

    /// Removes a log vdev. Nothing on it is needed any more; its number is kept.
    ///
    /// # Errors
    /// The vdev is not for the log.
    pub fn remove_log(
        &mut self,
        vdev: u16,
        now_us: u64,
        out: &mut Output,
    ) -> Result<(), ShapeError> {
        let top = self.top_levels.get(usize::from(vdev)).ok_or_else(|| {
            ShapeError::of_tree(ShapeErrorKind::NoSuchLeaf, format!("vdev {vdev}"))
        })?;
        if top.class != Class::Log || top.kind == TopLevelKind::Hole {
            let context = "only log vdevs can be removed";
            return Err(ShapeError::of_tree(ShapeErrorKind::WrongKind, context));
        }
        let leaves: Vec<LeafId> = top.leaves().collect();
        leaves.into_iter().for_each(|leaf| self.dismiss(leaf, out));
        let top = &mut self.top_levels[usize::from(vdev)];
        (top.kind, top.leaf_sectors, top.is_unflushable) = (TopLevelKind::Hole, 0, false);
        top.inner_labels = None;
        top.slots.clear();
        self.settle(now_us, out);
        Ok(())
    }

    /// Stops using a log vdev that failed, with all its leaves. Writes that were promised there
    /// must become durable elsewhere before labels say so.
    pub fn give_up_log(&mut self, vdev: u16, reason: &str, now_us: u64, out: &mut Output) {
        let Some(top) = self.top_levels.get(usize::from(vdev)) else {
            return;
        };
        let error = DeviceError::new(DeviceErrorKind::Failed, reason);
        let leaves: Vec<LeafId> = top.leaves().collect();
        for leaf in leaves {
            if self.leaf(leaf).state == LeafState::Online {
                self.lose(leaf, LeafState::Faulted, None, &error, out);
            }
        }
        self.settle(now_us, out);
    }

    /// Makes a mirror of a leaf and a new one, or adds a leaf to a mirror. The new leaf misses
    /// everything until it is resilvered.
    ///
    /// # Errors
    /// `beside` is in a raidz, or the device is too small.
    pub fn attach(&mut self, beside: LeafId, new: &LeafSpec) -> Result<LeafId, ShapeError> {
        self.known(beside)?;
        let vdev = self.leaf(beside).vdev;
        if !matches!(
            self.top_levels[usize::from(vdev)].kind,
            TopLevelKind::Leaf | TopLevelKind::Mirror
        ) {
            let context = "a device can be attached only to a single device or a mirror";
            return Err(ShapeError::new(ShapeErrorKind::WrongKind, beside, context));
        }
        let leaf = self.insert_newcomer(vdev, new)?;
        let top = &mut self.top_levels[usize::from(vdev)];
        top.kind = TopLevelKind::Mirror;
        top.slots.push(Slot {
            kind: SlotKind::Single,
            leaves: smallvec![leaf],
        });
        Ok(leaf)
    }

    /// Puts a new leaf beside an old one, in one slot. Both are written to, and the new one is
    /// resilvered. Then the caller detaches the old leaf, or the new one to undo the replacement.
    ///
    /// # Errors
    /// The device is too small, or `kind` is [`SlotKind::Single`].
    pub fn replace(
        &mut self,
        old: LeafId,
        new: &LeafSpec,
        kind: SlotKind,
    ) -> Result<LeafId, ShapeError> {
        self.known(old)?;
        if kind == SlotKind::Single {
            let context = "two devices in a slot must be replacing or spare";
            return Err(ShapeError::new(ShapeErrorKind::WrongKind, old, context));
        }
        let vdev = self.leaf(old).vdev;
        let leaf = self.insert_newcomer(vdev, new)?;
        let slots = &mut self.top_levels[usize::from(vdev)].slots;
        if let Some(slot) = slots.iter_mut().find(|slot| slot.leaves.contains(&old)) {
            slot.kind = kind;
            slot.leaves.push(leaf);
        }
        Ok(leaf)
    }

    /// Takes a leaf out of a mirror, or out of a slot where another leaf stands in for it.
    ///
    /// # Errors
    /// The other leaves do not hold all that the leaf holds, or the vdev would lose a column.
    pub fn detach(
        &mut self,
        leaf: LeafId,
        now_us: u64,
        out: &mut Output,
    ) -> Result<(), ShapeError> {
        self.known(leaf)?;
        let vdev = usize::from(self.leaf(leaf).vdev);
        let top = &self.top_levels[vdev];
        let is_shared = top
            .slots
            .iter()
            .any(|slot| slot.leaves.contains(&leaf) && slot.leaves.len() > 1);
        if !is_shared && (top.kind != TopLevelKind::Mirror || top.slots.len() < 2) {
            let context = "only devices of mirrors and of replacements can be detached";
            return Err(ShapeError::new(ShapeErrorKind::WrongKind, leaf, context));
        }
        if !self.can_lose(leaf) {
            let context = "no valid replicas: the other devices do not hold all of its data";
            return Err(ShapeError::new(ShapeErrorKind::NotRedundant, leaf, context));
        }
        self.dismiss(leaf, out);
        let top = &mut self.top_levels[vdev];
        for slot in &mut top.slots {
            slot.leaves.retain(|other| *other != leaf);
            if slot.leaves.len() < 2 {
                slot.kind = SlotKind::Single;
            }
        }
        top.slots.retain(|slot| !slot.leaves.is_empty());
        if top.kind == TopLevelKind::Mirror && top.slots.len() == 1 {
            top.kind = TopLevelKind::Leaf;
        }
        self.settle(now_us, out);
        Ok(())
    }

    /// Notes another size of a leaf's device. The vdev uses more only after [`Array::grow`].
    ///
    /// # Errors
    /// The device has less than the used size.
    pub fn resize_leaf(&mut self, leaf: LeafId, size: u64) -> Result<(), ShapeError> {
        self.known(leaf)?;
        let used = self.top_levels[usize::from(self.leaf(leaf).vdev)].leaf_sectors;
        if super::layout::data_sectors(size).is_none_or(|sectors| sectors < used) {
            let context = format!("the device has {size} bytes, but {used} sectors are in use");
            return Err(ShapeError::new(ShapeErrorKind::TooSmall, leaf, context));
        }
        let state = self.leaf_mut(leaf);
        (state.size, state.reach) = (size, u64::MAX);
        Ok(())
    }

    /// Limits the device of a leaf to `bytes` bytes. Sectors behind them cannot be read or written.
    pub fn set_reach(&mut self, leaf: LeafId, bytes: u64) {
        if let Some(leaf) = self.leaves.get_mut(leaf.0 as usize) {
            leaf.reach = bytes;
        }
    }

    /// Makes the vdev use all that its smallest leaf has. Returns the number of sectors.
    ///
    /// # Errors
    /// There is no such vdev.
    pub fn grow(&mut self, vdev: u16) -> Result<u64, ShapeError> {
        let smallest = self
            .top_levels
            .get(usize::from(vdev))
            .and_then(|top| top.leaves().map(|leaf| self.leaf(leaf).sectors()).min());
        let Some(smallest) = smallest else {
            return Err(ShapeError::of_tree(
                ShapeErrorKind::NoSuchLeaf,
                format!("vdev {vdev}"),
            ));
        };
        let top = &mut self.top_levels[usize::from(vdev)];
        // Sectors further back have no address.
        let most = Address::SECTORS / (top.slots.len() as u64).max(1);
        top.leaf_sectors = top.leaf_sectors.max(smallest.min(most));
        Ok(top.sectors())
    }

    pub(super) fn insert_top_level(&mut self, spec: &TopLevelSpec) -> Result<u16, ShapeError> {
        let (vdev, leaf_sectors) = self.check_top_level(spec, 0)?;
        let slots = spec
            .slots
            .iter()
            .map(|slot| self.insert_slot(slot, vdev))
            .collect();
        self.top_levels.push(TopLevel {
            kind: spec.kind,
            class: spec.class,
            slots,
            leaf_sectors,
            inner_labels: spec.inner_labels,
            is_unflushable: false,
            unreadable: 0,
            io: BlockIo::default(),
        });
        Ok(vdev)
    }

    /// Checks whether a top-level vdev can be added when `before` others have been. Returns the
    /// number that it gets, and the sectors of each of its leaves.
    fn check_top_level(
        &self,
        spec: &TopLevelSpec,
        before: usize,
    ) -> Result<(u16, u64), ShapeError> {
        let vdev = u16::try_from(self.top_levels.len() + before).map_err(|_| {
            ShapeError::of_tree(ShapeErrorKind::WrongKind, "a pool has at most 65536 vdevs")
        })?;
        check_slots(spec)?;
        let leaves = || spec.slots.iter().flat_map(|slot| &slot.leaves);
        let mut guids: Vec<u64> = leaves().map(|leaf| leaf.guid).collect();
        guids.sort_unstable();
        if guids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(ShapeError::of_tree(
                ShapeErrorKind::InUse,
                "a device is named twice",
            ));
        }
        leaves().try_for_each(|leaf| self.require_new(leaf))?;
        let smallest = leaves()
            .map(|leaf| super::layout::data_sectors(leaf.size).unwrap_or(0))
            .min();
        let smallest = smallest.unwrap_or(0);
        let leaf_sectors = spec.leaf_sectors.unwrap_or(smallest);
        let total = leaf_sectors.saturating_mul(spec.slots.len() as u64);
        if spec.kind != TopLevelKind::Hole && (leaf_sectors == 0 || leaf_sectors > smallest) {
            let context = format!(
                "each device holds {leaf_sectors} sectors of data, but the smallest has {smallest}"
            );
            return Err(ShapeError::of_tree(ShapeErrorKind::TooSmall, context));
        }
        if let Some(context) = spec.misplaced_inner(leaf_sectors) {
            return Err(ShapeError::of_tree(ShapeErrorKind::WrongKind, context));
        }
        if total > Address::SECTORS {
            let context = format!("the vdev has {total} sectors, more than addresses can reach");
            return Err(ShapeError::of_tree(ShapeErrorKind::WrongKind, context));
        }
        Ok((vdev, leaf_sectors))
    }

    fn insert_slot(&mut self, spec: &SlotSpec, vdev: u16) -> Slot {
        let leaves = spec
            .leaves
            .iter()
            .map(|leaf| self.insert_leaf(leaf, vdev))
            .collect();
        Slot {
            kind: spec.kind,
            leaves,
        }
    }

    fn insert_leaf(&mut self, spec: &LeafSpec, vdev: u16) -> LeafId {
        self.leaves.push(Leaf::new(spec, vdev, self.epoch));
        LeafId((self.leaves.len() - 1) as u32)
    }

    /// Inserts a leaf that has nothing of its vdev's blocks.
    fn insert_newcomer(&mut self, vdev: u16, spec: &LeafSpec) -> Result<LeafId, ShapeError> {
        self.require_new(spec)?;
        let used = self.top_levels[usize::from(vdev)].leaf_sectors;
        if super::layout::data_sectors(spec.size).is_none_or(|sectors| sectors < used) {
            let context = format!(
                "the device has {} bytes, but {used} sectors are in use",
                spec.size
            );
            return Err(ShapeError::of_tree(ShapeErrorKind::TooSmall, context));
        }
        // If the only leaf of a vdev is away, it misses the blocks that are written from now on.
        for leaf in &mut self.leaves {
            if leaf.vdev == vdev && leaf.is_away() {
                leaf.missing_since.get_or_insert(self.epoch);
            }
        }
        let missing = Dtl::all_until(self.newest);
        let spec = LeafSpec {
            missing,
            joined: self.newest,
            state: LeafState::Online,
            ..spec.clone()
        };
        Ok(self.insert_leaf(&spec, vdev))
    }

    fn require_new(&self, spec: &LeafSpec) -> Result<(), ShapeError> {
        let is_used = |leaf: &Leaf| leaf.guid == spec.guid && leaf.state != LeafState::Detached;
        match self.leaves.iter().position(is_used) {
            None => Ok(()),
            Some(at) => {
                let context = format!("leaf {}", spec.guid);
                Err(ShapeError::new(
                    ShapeErrorKind::InUse,
                    LeafId(at as u32),
                    context,
                ))
            }
        }
    }

    /// Stops using a leaf for good.
    fn dismiss(&mut self, leaf: LeafId, out: &mut Output) {
        let error = DeviceError::new(DeviceErrorKind::Gone, "detached");
        self.abandon_all(leaf, &error);
        self.fail_flushes(leaf, &error);
        self.leaf_mut(leaf).state = LeafState::Detached;
        self.tell_state(leaf, "detached", out);
    }
}

/// Checks whether a vdev of this kind may have this number of slots, and whether each has a leaf.
fn check_slots(spec: &TopLevelSpec) -> Result<(), ShapeError> {
    let count = spec.slots.len();
    let (least, most) = match spec.kind {
        TopLevelKind::Hole => (0, 0),
        TopLevelKind::Leaf => (1, 1),
        TopLevelKind::Mirror => (2, 255),
        TopLevelKind::Raidz { parity } if (1..=3).contains(&parity) => {
            (usize::from(parity) + 1, 255)
        }
        TopLevelKind::Raidz { parity } => {
            let context = format!("raidz has parity 1, 2 or 3, not {parity}");
            return Err(ShapeError::of_tree(ShapeErrorKind::WrongKind, context));
        }
    };
    if !(least..=most).contains(&count) || spec.slots.iter().any(|slot| slot.leaves.is_empty()) {
        let context = format!("the vdev has {count} devices, but {least} to {most} are possible");
        return Err(ShapeError::of_tree(ShapeErrorKind::WrongKind, context));
    }
    Ok(())
}
