//! Status of pools in zpool's words: what happened, what it means, what to do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::cache::Statistics;
use store::catalog::{Catalog, Dataset};
use store::engine::{CacheStatus, LogStatus, PoolStatus, ScanKind, ScanState, Short};
use store::format::SECTOR_SIZE;
use store::vdev::{
    Class, LeafId, LeafStatus, SlotKind, SlotStatus, TopLevelKind, TopLevelStatus, VdevState,
};

use super::advice::advice;
use super::condition::{state, unreadable};
use super::fence::Named;
use super::io;
use super::registry::{AbsentPool, OpenPool, Pools};
use crate::administer::properties::views as property_views;
use crate::administer::upgrade;
use crate::devices::disks::Disks;
use crate::devices::identity::{Identity, Located, locate};
use crate::order::Hands;
use crate::progress::scan::{text, view as scan_view, waiting};
use crate::progress::trim;
use crate::setup::Place;
use crate::shared::Shut;
use model::device_name::is_remote;
use model::pool::damaged::{DamagedView, LostView};
use model::pool::io::IoView;
use model::pool::properties::{FeatureView, PoolPropertyView};
use model::pool::scan::ScanView;
use model::pool::status::{NO_ERRORS, PoolView, capacity};
use model::pool::trim::TrimView;
use model::pool::vdev::{CacheView, LogView, VdevView};
use model::pool::vdev_request::{Additions, VdevKind, VdevRequest};
use model::quantity::format_size;
use model::{Error, ErrorKind};

impl Pools {
    /// Returns all pools, including those that should be open and are not.
    pub fn views(&self) -> Vec<PoolView> {
        let open = self.all();
        let disks = &self.options.disks;
        let views = open.iter().map(|(name, pool)| view(name, pool, disks));
        let mut views: Vec<PoolView> = views.collect();
        let absent = self.absent();
        views.extend(
            absent
                .iter()
                .map(|pool| absent_view(pool, &self.options.disks)),
        );
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// Returns one pool.
    ///
    /// # Errors
    /// No pool has this name.
    pub fn view(&self, name: &str) -> Result<PoolView, Error> {
        let views = self.views();
        views.into_iter().find(|view| view.name == name).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("there is no pool {name}"),
                "see `sandstone pool list`, or `sandstone pool import` for pools that can be imported",
            )
        })
    }
}

fn view(name: &str, pool: &OpenPool, disks: &Disks) -> PoolView {
    let cache = Arc::clone(pool.host.cache());
    let asked = pool.host.handle(move |hands| {
        let lost = hands.unflushed.lost().into_iter();
        let lost = lost.map(|volume| hands.pool.catalog().full_name(volume));
        Asked {
            status: hands.pool.status(),
            fragmentation: hands.pool.fragmentation(),
            trims: Trims::of(hands),
            properties: property_views(&hands.pool.config().properties),
            features: upgrade::views(&hands.pool.config().features),
            ready: hands.devices.ready_spares(),
            lost: lost.collect(),
            damaged: hands.damaged.views(hands.pool.catalog()),
            sums: hands.damaged.sums(hands.pool.catalog()),
            fences: hands.named_devices(),
            promised: promised(hands.pool.catalog()),
            memory: cache.statistics(),
            now_us: hands.now_us,
        }
    });
    asked.map_or_else(
        |_| shut_view(name, pool, disks),
        |asked| of_status(&asked, &pool.host.places()),
    )
}

/// Returns the bytes that all volumes have as their size.
fn promised(catalog: &Catalog) -> u64 {
    let volumes = catalog.datasets().filter_map(Dataset::as_volume);
    volumes.map(|volume| volume.size).sum()
}

/// Facts that a pool's engine reports.
struct Asked {
    status: PoolStatus,
    /// Fragmentation in per cent.
    fragmentation: u8,
    properties: Vec<PoolPropertyView>,
    features: Vec<FeatureView>,
    trims: Trims,
    /// Spares that have a device.
    ready: Vec<u64>,
    /// Volumes that lost unflushed writes.
    lost: Vec<String>,
    /// Blocks for which reads found no right copy.
    damaged: Vec<DamagedView>,
    /// Sums of the damage.
    sums: Vec<LostView>,
    /// Devices that other hosts may be kept from.
    fences: Vec<Named>,
    /// Bytes of all volumes together.
    promised: u64,
    /// Counts of the blocks in memory.
    memory: Statistics,
    now_us: u64,
}

/// Describes a pool without an engine.
fn shut_view(name: &str, pool: &OpenPool, disks: &Disks) -> PoolView {
    let shut = pool.host.shut();
    let shut = shut.unwrap_or_else(|| Shut::defect(name));
    let places = pool.host.places().into_values();
    PoolView {
        name: name.to_owned(),
        guid: format!("{:016x}", pool.guid),
        state: "SUSPENDED".to_owned(),
        status: Some(sentence(&format!(
            "{}. Writes that were acknowledged as durable were on the devices when the pool stopped",
            shut.reason
        ))),
        action: Some(sentence(&shut.next)),
        vdevs: places.map(|at| presence(&at.path, None, disks)).collect(),
        ..not_open()
    }
}

fn absent_view(pool: &AbsentPool, disks: &Disks) -> PoolView {
    let said = format!("pool {} cannot be opened: ", pool.known.name);
    let reason = pool.reason.strip_prefix(&said).unwrap_or(&pool.reason);
    let leaves = pool.known.devices.iter();
    PoolView {
        name: pool.known.name.clone(),
        guid: pool.known.guid.clone(),
        state: "UNAVAIL".to_owned(),
        status: Some(format!("The pool could not be opened: {reason}.")),
        action: Some(sentence(&pool.next)),
        vdevs: leaves
            .map(|leaf| presence(&leaf.path, leaf.identity.as_ref(), disks))
            .collect(),
        ..not_open()
    }
}

fn not_open() -> PoolView {
    PoolView {
        scan: "none requested".to_owned(),
        errors: "unknown while the pool is not open".to_owned(),
        ..PoolView::default()
    }
}

/// Describes a device of a pool that is not open. A known identity reveals another device at its
/// path.
fn presence(path: &Path, was: Option<&Identity>, disks: &Disks) -> VdevView {
    let (is_there, is_other) = match locate(path, was) {
        Located::At(path) => (disks.is_there_now(&path), false),
        Located::Stranger { .. } => (false, true),
    };
    let state = if is_there { "ONLINE" } else { "UNAVAIL" };
    VdevView {
        name: path.display().to_string(),
        state: state.to_owned(),
        note: is_other.then(|| "not the device that was used".to_owned()),
        ..VdevView::default()
    }
}

/// Formats words with a capital letter, a full stop, and commands quoted as in other advice.
fn sentence(words: &str) -> String {
    let words = words.replace('`', "'");
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// Describes a pool in zpool's words.
fn of_status(asked: &Asked, places: &BTreeMap<u64, Place>) -> PoolView {
    let (status, now_us) = (&asked.status, asked.now_us);
    let state = state(status);
    let is_away =
        |leaf: &LeafStatus| matches!(leaf.state, VdevState::Removed | VdevState::Unavailable);
    let slots = status.top_levels.iter().flat_map(|top| &top.slots);
    let goes_on = places.values().any(|place| is_remote(&place.path))
        || slots.flat_map(|slot| &slot.leaves).any(is_away);
    let is_resilvering = status
        .scan
        .as_ref()
        .is_some_and(|scan| scan.kind == ScanKind::Resilver && scan.state == ScanState::Running);
    let teller = Teller {
        places,
        is_resilvering,
        failing: &status.failing,
        behind: &status.behind,
        short: &status.short,
        trims: &asked.trims,
    };
    let name_of = |guid| teller.name(guid);
    let (what, action) = advice(status, &asked.lost, goes_on, &name_of).unzip();
    PoolView {
        name: status.name.clone(),
        guid: format!("{:016x}", status.guid),
        state: state.to_owned(),
        is_read_only: status.is_read_only,
        status: what,
        action,
        multihost: (status.protected.as_ref()).map(|protected| {
            crate::import::multihost::text(protected, &super::fence::text(&asked.fences))
        }),
        scan: scan_text(status, now_us),
        scan_status: status.scan.as_ref().map(|scan| ScanView {
            is_scrub_waiting: status.waiting_scrub == Some(ScanState::Running),
            ..scan_view(scan, now_us)
        }),
        size: bytes(status.counts.size),
        allocated: bytes(status.counts.allocated),
        freeing: bytes(status.counts.deferred),
        free: bytes(status.counts.available),
        available: bytes(status.available),
        is_full: status.is_full,
        promised: asked.promised,
        memory_hits: asked.memory.hits,
        memory_misses: asked.memory.misses,
        capacity: Some(capacity(status.counts.size, status.counts.available)),
        open_for_us: Some(now_us),
        // The history of figures knows it.
        outlook: None,
        vdevs: status
            .top_levels
            .iter()
            .filter(|top| top.kind != TopLevelKind::Hole && top.class == Class::Normal)
            .map(|top| teller.of_blocks(top, status))
            .collect(),
        logs: teller.logs(status),
        caches: status.caches.iter().map(|of| teller.cache(of)).collect(),
        spares: teller.spares(status, &asked.ready),
        fragmentation: Some(asked.fragmentation),
        properties: asked.properties.clone(),
        features: asked.features.clone(),
        auto_trimmed: asked.trims.auto_bytes,
        errors: errors(status, &asked.lost),
        damaged: asked.damaged.clone(),
        lost: asked.sums.clone(),
        written_once: status.written_once,
    }
}

/// Describes the present or last scrubs and resilvers.
fn scan_text(status: &PoolStatus, now_us: u64) -> String {
    let scan = status.scan.as_ref().map(|scan| text(scan, now_us));
    let waiting = status.waiting_scrub.map(|scrub| waiting(scrub).to_owned());
    let lines: Vec<String> = scan.into_iter().chain(waiting).collect();
    match lines.is_empty() {
        true => "none requested".to_owned(),
        false => lines.join("\n"),
    }
}

/// Describes the lost data. `lost` are the volumes that lost unflushed writes.
fn errors(status: &PoolStatus, lost: &[String]) -> String {
    let mut told = Vec::new();
    match unreadable(status) {
        0 => {}
        1 => told.push("1 read found no correct copy of a block".to_owned()),
        count => told.push(format!("{count} reads found no correct copy of a block")),
    }
    if let Some(scan) = status.scan.filter(|scan| scan.unrecoverable > 0) {
        let what = match scan.kind {
            ScanKind::Scrub => "scrub",
            ScanKind::Resilver => "resilver",
        };
        let blocks = match scan.unrecoverable {
            1 => "1 block".to_owned(),
            count => format!("{count} blocks"),
        };
        told.push(format!(
            "the last {what} found {blocks} without a correct copy"
        ));
    }
    if !lost.is_empty() {
        let lost = lost.join(", ");
        told.push(format!("unflushed writes are lost: {lost}"));
    }
    match told.is_empty() {
        true => NO_ERRORS.to_owned(),
        false => told.join("; "),
    }
}

/// Adds the names of new devices to a view, and nothing else.
pub(super) fn layout(view: &mut PoolView, what: Additions<'_>) {
    let named = |name: String, children: Vec<VdevView>| VdevView {
        name,
        children,
        ..VdevView::default()
    };
    let leaf = |path: &PathBuf| named(path.display().to_string(), Vec::new());
    let top = |vdev: &VdevRequest| {
        let mut leaves: Vec<VdevView> = vdev.paths.iter().map(leaf).collect();
        match (vdev.kind, leaves.len()) {
            (VdevKind::Disk, 1) => leaves.remove(0),
            (kind, _) => named(kind.name().to_owned(), leaves),
        }
    };
    view.vdevs.extend(what.vdevs.iter().map(top));
    view.logs.extend(what.logs.iter().map(top));
    view.caches.extend(what.caches.iter().map(leaf));
    view.spares.extend(what.spares.iter().map(leaf));
}

fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR_SIZE as u64
}

/// Facts that the description of leaves needs.
struct Teller<'a> {
    places: &'a BTreeMap<u64, Place>,
    is_resilvering: bool,
    failing: &'a [LeafId],
    behind: &'a [LeafId],
    short: &'a [Short],
    trims: &'a Trims,
}

/// Trims of devices, by their guids.
struct Trims {
    by_leaf: BTreeMap<u64, TrimView>,
    auto_bytes: u64,
}

impl Trims {
    fn of(hands: &Hands<'_>) -> Self {
        let trims = hands.pool.trims();
        let mut by_leaf: BTreeMap<u64, TrimView> =
            trims.iter().map(|of| (of.leaf, trim::view(of))).collect();
        let leaves = hands
            .pool
            .status()
            .top_levels
            .into_iter()
            .flat_map(|top| top.slots);
        let leaves = leaves.flat_map(|slot| slot.leaves);
        // Open devices report in advance that they cannot trim.
        let unable = leaves.filter(|leaf| {
            let device = hands.devices.of(leaf.leaf);
            device.is_some_and(|device| device.geometry().discard == 0)
        });
        let unable = unable
            .map(|leaf| leaf.guid)
            .chain(hands.pool.leaves_without_trim());
        by_leaf.extend(unable.map(|guid| (guid, trim::unsupported())));
        Self {
            by_leaf,
            auto_bytes: hands.pool.auto_trimmed(),
        }
    }
}

impl Teller<'_> {
    /// Describes a top-level vdev for blocks, with its space.
    fn of_blocks(&self, top: &TopLevelStatus, status: &PoolStatus) -> VdevView {
        let mut view = self.top_level(top);
        self.mark_trims(&mut view);
        if let Some(space) = status.space.get(usize::from(top.vdev)) {
            view.allocated = Some(bytes(space.size.saturating_sub(space.available)));
            view.free = Some(bytes(space.available));
        }
        view
    }

    /// Adds the trim of each leaf to the view.
    fn mark_trims(&self, view: &mut VdevView) {
        view.children
            .iter_mut()
            .for_each(|child| self.mark_trims(child));
        let guid = view.guid.as_deref();
        if let Some(guid) = guid.and_then(|guid| u64::from_str_radix(guid, 16).ok()) {
            view.is_trimmed = true;
            view.trim = self.trims.by_leaf.get(&guid).cloned();
        }
    }

    fn top_level(&self, top: &TopLevelStatus) -> VdevView {
        let slots = top.slots.iter().enumerate();
        let mut children: Vec<VdevView> = slots.map(|(at, slot)| self.slot(at, slot)).collect();
        if top.kind == TopLevelKind::Leaf
            && children.len() == 1
            && let Some(leaf) = children.pop()
        {
            return leaf;
        }
        let kind = match top.kind {
            TopLevelKind::Raidz { parity } => format!("raidz{parity}"),
            _ => "mirror".to_owned(),
        };
        VdevView {
            name: format!("{kind}-{}", top.vdev),
            state: top.state.to_string(),
            checksum: top.unreadable,
            io: Some(io::of_blocks(&top.io, &children)),
            children,
            ..VdevView::default()
        }
    }

    /// Describes a leaf, or the leaves that share a slot for a while.
    fn slot(&self, at: usize, slot: &SlotStatus) -> VdevView {
        let mut children: Vec<VdevView> = slot.leaves.iter().map(|leaf| self.leaf(leaf)).collect();
        let what = match slot.kind {
            SlotKind::Replacing => "replacing",
            SlotKind::Single | SlotKind::Spare => "spare",
        };
        if children.len() == 1
            && let Some(leaf) = children.pop()
        {
            return leaf;
        }
        let is_well = slot
            .leaves
            .iter()
            .all(|leaf| leaf.state == VdevState::Online && !leaf.is_incomplete);
        let is_any = slot
            .leaves
            .iter()
            .any(|leaf| matches!(leaf.state, VdevState::Online | VdevState::Degraded));
        let state = match (is_well, is_any) {
            (true, _) => VdevState::Online,
            (false, true) => VdevState::Degraded,
            (false, false) => VdevState::Unavailable,
        };
        VdevView {
            name: format!("{what}-{at}"),
            state: state.to_string(),
            io: Some(IoView::of_all(&children)),
            children,
            ..VdevView::default()
        }
    }

    fn leaf(&self, leaf: &LeafStatus) -> VdevView {
        let place = self.places.get(&leaf.guid);
        let trouble = place.and_then(|place| place.trouble.clone());
        let is_there = matches!(leaf.state, VdevState::Online | VdevState::Degraded);
        let is_old = self.behind.contains(&leaf.leaf);
        let shrank = self.short.iter().find(|of| of.leaf == leaf.guid).map(|of| {
            format!(
                "shrank: has {}, had {}",
                format_size(of.has),
                format_size(of.had)
            )
        });
        let note = match leaf.state {
            _ if is_there && leaf.is_incomplete && is_old => {
                Some("(old copy, does not count until it is resilvered)".to_owned())
            }
            _ if is_there && leaf.is_incomplete && self.is_resilvering => {
                Some("(resilvering)".to_owned())
            }
            _ if is_there && leaf.is_incomplete => Some("missed writes".to_owned()),
            _ if shrank.is_some() => shrank,
            _ if self.failing.contains(&leaf.leaf) => Some("too many errors".to_owned()),
            VdevState::Faulted | VdevState::Removed | VdevState::Unavailable => trouble,
            _ => None,
        };
        VdevView {
            name: self.name(leaf.guid),
            guid: Some(format!("{:016x}", leaf.guid)),
            serial: place
                .and_then(|place| place.identity.as_ref()?.printed())
                .map(str::to_owned),
            is_incomplete: leaf.is_incomplete,
            state: leaf.state.to_string(),
            read: leaf.errors.read,
            write: leaf.errors.write,
            checksum: leaf.errors.checksum,
            note,
            io: Some(io::of_leaf(&leaf.io)),
            ..VdevView::default()
        }
    }

    /// Describes the log vdevs and their work.
    fn logs(&self, status: &PoolStatus) -> Vec<VdevView> {
        let log = |log: &LogStatus| {
            let mut tops = status.top_levels.iter();
            let mut view = self.top_level(tops.find(|top| top.vdev == log.vdev)?);
            let counts = match log.records {
                1 => format!("{} in 1 record", format_size(log.bytes)),
                records => format!("{} in {records} records", format_size(log.bytes)),
            };
            view.note = view.note.or((log.records > 0).then_some(counts));
            view.allocated = Some(bytes(log.held_sectors));
            view.free = Some(bytes(log.ring_sectors.saturating_sub(log.held_sectors)));
            view.log = Some(LogView {
                is_in_use: log.is_in_use,
                records: log.records,
                bytes: log.bytes,
                held: bytes(log.held_sectors),
                failures: log.failures,
            });
            Some(view)
        };
        status.logs.iter().filter_map(log).collect()
    }

    /// Describes a cache vdev and its work.
    fn cache(&self, cache: &CacheStatus) -> VdevView {
        let place = self.places.get(&cache.guid);
        let counts = || {
            format!(
                "{} of {} used, {} hits, {} misses",
                format_size(cache.used),
                format_size(cache.size),
                cache.hits,
                cache.misses
            )
        };
        let note = match cache.state {
            VdevState::Online if cache.is_in_use => Some(counts()),
            VdevState::Online => Some("not used: memory is too small for its index".to_owned()),
            _ => place.and_then(|place| place.trouble.clone()),
        };
        VdevView {
            name: self.name(cache.guid),
            state: cache.state.to_string(),
            read: cache.errors.read,
            write: cache.errors.write,
            checksum: cache.errors.checksum,
            note,
            allocated: Some(cache.used),
            free: Some(cache.size.saturating_sub(cache.used)),
            io: Some(io::of_leaf(&cache.io)),
            cache: Some(CacheView {
                size: cache.size,
                used: cache.used,
                hits: cache.hits,
                misses: cache.misses,
                rejected: cache.rejected,
                written: cache.written_bytes,
            }),
            ..VdevView::default()
        }
    }

    fn name(&self, guid: u64) -> String {
        let place = self.places.get(&guid);
        place.map_or_else(
            || format!("{guid:016x}"),
            |place| place.path.display().to_string(),
        )
    }

    fn spares(&self, status: &PoolStatus, ready: &[u64]) -> Vec<VdevView> {
        let available = status.spares.iter().map(|guid| {
            let is_ready = ready.contains(guid);
            let is_leaving = status.leaving_spares.contains(guid);
            let note = is_leaving
                .then_some("not yet: it is still leaving the vdev where it was last used");
            (guid, if is_ready { "AVAIL" } else { "UNAVAIL" }, note)
        });
        let in_use = status
            .spares_in_use
            .iter()
            .map(|guid| (guid, "INUSE", Some("currently in use")));
        let all = available.chain(in_use);
        all.map(|(guid, state, note)| VdevView {
            name: self.name(*guid),
            state: state.to_owned(),
            note: note
                .map(str::to_owned)
                .or_else(|| self.places.get(guid)?.trouble.clone()),
            ..VdevView::default()
        })
        .collect()
    }
}
