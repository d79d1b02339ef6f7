//! Layout of a pool that was found: its top-level vdevs, named as in `pool status`, and the state
//! of their leaves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use store::engine::PoolConfig;
use store::vdev::{Class, LeafSpec, LeafState, TopLevelKind, TopLevelSpec};

use super::name_of;
use model::pool::twins::TwinsView;
use model::pool::vdev::VdevView;

/// Parts that a layout is drawn from.
pub(super) struct Layout<'a> {
    pub(super) config: &'a PoolConfig,
    /// Devices of the leaves that were found, by the leaf's guid.
    pub(super) places: BTreeMap<u64, PathBuf>,
    pub(super) twins: &'a [TwinsView],
    /// Leaves that are there, but older than the pool.
    pub(super) behind: Vec<u64>,
}

impl Layout<'_> {
    /// Returns the pool's section, then the sections `logs`, `cache` and `spares` if the pool has
    /// any.
    pub(super) fn sections(&self, state: &str) -> Vec<VdevView> {
        let of_class = |class| {
            let tops = self.tops(class);
            tops.flat_map(|(number, top)| self.top_level(number, top))
                .collect()
        };
        let beside = |leaves: &[LeafSpec]| leaves.iter().flat_map(|leaf| self.leaf(leaf)).collect();
        let section = |name: &str, state: &str, children| VdevView {
            name: name.to_owned(),
            state: state.to_owned(),
            children,
            ..VdevView::default()
        };
        let pool = section(&self.config.name, state, of_class(Class::Normal));
        let others = [
            section("logs", "", of_class(Class::Log)),
            section("cache", "", beside(&self.config.caches)),
            section("spares", "", beside(&self.config.spares)),
        ];
        let others = others.into_iter().filter(|of| !of.children.is_empty());
        std::iter::once(pool).chain(others).collect()
    }

    fn top_level(&self, number: usize, top: &TopLevelSpec) -> Vec<VdevView> {
        let leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
        let children: Vec<VdevView> = leaves.flat_map(|leaf| self.leaf(leaf)).collect();
        if top.kind == TopLevelKind::Leaf {
            return children;
        }
        let is_whole =
            |leaf: &LeafSpec| leaf.state == LeafState::Online && !self.behind.contains(&leaf.guid);
        let mut leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
        let state = match self.lacking(top) {
            0 if leaves.all(is_whole) => "ONLINE",
            0 => "DEGRADED",
            some if some <= top.kind.redundancy(top.slots.len()) => "DEGRADED",
            _ => "UNAVAIL",
        };
        vec![VdevView {
            name: top.kind.name(number),
            state: state.to_owned(),
            children,
            ..VdevView::default()
        }]
    }

    /// Names a vdev that lacks more devices than it can lose.
    pub(super) fn too_few(&self) -> Option<String> {
        let mut tops = self.tops(Class::Normal);
        tops.find_map(|(number, top)| {
            let (lacking, spare) = (self.lacking(top), top.kind.redundancy(top.slots.len()));
            (lacking > spare).then(|| {
                let devices = if lacking == 1 { "device" } else { "devices" };
                let name = top.kind.name(number);
                format!("{name} lacks {lacking} {devices}, but can lose only {spare}")
            })
        })
    }

    fn tops(&self, class: Class) -> impl Iterator<Item = (usize, &TopLevelSpec)> {
        let tops = self.config.tree.top_levels.iter().enumerate();
        tops.filter(move |(_, top)| top.class == class && top.kind != TopLevelKind::Hole)
    }

    /// Counts slots without a usable leaf.
    fn lacking(&self, top: &TopLevelSpec) -> usize {
        let is_usable = |leaf: &LeafSpec| {
            leaf.state == LeafState::Online && self.places.contains_key(&leaf.guid)
        };
        let slots = top.slots.iter();
        slots
            .filter(|slot| !slot.leaves.iter().any(is_usable))
            .count()
    }

    /// Returns the device of a leaf, or every device that claims to be the leaf.
    fn leaf(&self, leaf: &LeafSpec) -> Vec<VdevView> {
        let view = |name: String, state: &str, note: Option<String>| VdevView {
            name,
            state: state.to_owned(),
            note,
            ..VdevView::default()
        };
        let guid = format!("{:016x}", leaf.guid);
        if let Some(twins) = self.twins.iter().find(|twins| twins.leaf == guid) {
            let devices = twins.devices.iter();
            return devices
                .map(|twin| view(twin.path.display().to_string(), "TWIN", Some(twin.holds())))
                .collect();
        }
        let (state, note) = match (self.places.contains_key(&leaf.guid), leaf.state) {
            (false, _) => ("UNAVAIL", Some("missing")),
            (true, LeafState::Online) if !self.behind.contains(&leaf.guid) => ("ONLINE", None),
            (true, LeafState::Offline) => ("OFFLINE", None),
            (true, LeafState::Faulted) => ("FAULTED", None),
            (true, LeafState::Online | LeafState::Unavailable | LeafState::Removed) => (
                "DEGRADED",
                Some("is out of date, and is rebuilt when the pool is imported"),
            ),
            (true, LeafState::Detached) => return Vec::new(),
        };
        let place = self.places.get(&leaf.guid);
        let place = place.map(|place| place.display().to_string());
        let name = place.unwrap_or_else(|| name_of(self.config, leaf.guid));
        vec![view(name, state, note.map(str::to_owned))]
    }
}
