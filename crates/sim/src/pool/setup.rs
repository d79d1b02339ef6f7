//! The setup of a pool of the laboratory: vdevs, bounds and properties, drawn from a seed.
//!
//! Bounds are small, so that a history of fifty steps sees many checkpoints, each made in many
//! steps.

use std::ops::Range;

use store::catalog::request::Texts;
use store::engine::Limits;
use store::vdev::{self, Class, LeafSpec, TopLevelKind, TopLevelSpec, VdevTree};

use crate::operation::VolumeId;
use crate::random::Random;

/// Guid of the first spare. Guids of leaves lie below, or far above.
const FIRST_SPARE: u64 = 900;

/// Setup of a pool.
#[derive(Clone, Debug)]
pub struct PoolSetup {
    /// Kinds of its top-level vdevs, with their numbers of leaves.
    pub shape: Vec<(TopLevelKind, usize)>,
    /// Kinds of its log vdevs, with their numbers of leaves. They are on the disks behind those of
    /// `shape`.
    pub logs: Vec<(TopLevelKind, usize)>,
    /// Sectors that are used of each log vdev's disk; `None` for all.
    pub log_sectors: Option<u64>,
    /// Number of disks behind these that are not used yet.
    pub spare_disks: usize,
    /// Number of spares of the pool, on the disks behind all others.
    pub spares: usize,
    /// Bounds of the pool.
    pub limits: Limits,
    /// Bounds of the pool's vdevs.
    pub vdev_limits: vdev::Limits,
    /// Bytes of the block cache.
    pub cache_bytes: usize,
    /// Guid of the pool.
    pub guid: u64,
    /// Secret with which its records are keyed.
    pub secret: u64,
    /// Whether blocks may go without checksums.
    pub without_checksums: bool,
    /// Whether volumes may have `sync=always`.
    pub with_sync_always: bool,
    /// Whether disks are automatically told which sectors become free.
    pub autotrim: bool,
    /// Whether opening must not be refused, whatever happened.
    pub must_open: bool,
    /// Whether the pool must never stop taking changes.
    pub never_suspends: bool,
    /// Whether its vdevs have inner labels, if they are large enough.
    pub with_inner_labels: bool,
    /// Whether volumes lie in folders.
    pub with_folders: bool,
    /// Whether lanes read beside the engine, and prepare writes.
    pub with_lanes: bool,
}

impl PoolSetup {
    /// Makes the setup of a seed, with one of these shapes.
    pub fn random(seed: u64, shapes: &[&[(TopLevelKind, usize)]]) -> Self {
        let mut random = Random::new(seed ^ 0x706f_6f6c).fork();
        let shape = random.one_of(shapes).to_vec();
        let limits = Limits {
            dirty_bytes: random.one_of(&[4 << 10, 64 << 10, 1 << 20, 64 << 20]),
            node_bytes: random.one_of(&[0, 32 << 10, 256 << 10, 4 << 20]),
            updates: random.one_of(&[2, 5, 20, 100, 1 << 20]),
            groups: random.one_of(&[1, 3, 8, 30, 1 << 16]),
            checkpoint_us: random.one_of(&[500, 3_000, 50_000, 60_000_000]),
            gather_us: random.one_of(&[0, 30, 300, 2_000]),
            budget: random.one_of(&[1, 2, 5, 64]),
            freed_blocks: random.one_of(&[2, 20, 1 << 18]),
            ..Limits::default()
        };
        let vdev_limits = vdev::Limits {
            max_write: random.one_of(&[4 << 10, 16 << 10, 1 << 20]),
            sync_writes: random.one_of(&[1, 2, 64]),
            async_writes: random.one_of(&[1, 2, 32]),
            hedge_us: 20_000,
            give_up_us: 300_000,
            ..vdev::Limits::default()
        };
        Self {
            shape,
            logs: Vec::new(),
            log_sectors: None,
            spare_disks: 0,
            spares: 0,
            limits,
            vdev_limits,
            cache_bytes: random.one_of(&[64 << 10, 4 << 20]),
            guid: super::GUID,
            secret: random.within(1..u64::MAX),
            without_checksums: false,
            with_sync_always: true,
            autotrim: false,
            must_open: false,
            never_suspends: false,
            with_inner_labels: false,
            with_folders: false,
            with_lanes: false,
        }
    }

    /// Returns the name of a volume.
    pub(super) fn name_of(&self, volume: VolumeId) -> String {
        let number = volume.0;
        match self.with_folders {
            true => format!("{}/v{number}", folder_name(volume.folder())),
            false => format!("v{number}"),
        }
    }

    /// Returns the number of disks that the pool needs.
    pub fn disks(&self) -> usize {
        let all = self.shape.iter().chain(&self.logs);
        all.map(|(_, leaves)| leaves).sum()
    }

    /// Returns the disks of its log vdevs.
    pub fn log_disks(&self) -> Range<usize> {
        let first = self.shape.iter().map(|(_, leaves)| leaves).sum();
        first..self.disks()
    }

    /// Returns the number of disks whose room is for data, without copies and parity.
    pub(super) fn columns(&self) -> u64 {
        let of = |(kind, leaves): &(TopLevelKind, usize)| match kind {
            TopLevelKind::Raidz { parity } => *leaves as u64 - u64::from(*parity),
            TopLevelKind::Leaf | TopLevelKind::Hole | TopLevelKind::Mirror => 1,
        };
        self.shape.iter().map(of).sum()
    }

    /// Returns the number of all disks of its laboratory.
    pub fn all_disks(&self) -> usize {
        self.disks() + self.spare_disks + self.spares
    }

    /// Returns its spares, on disks of `size` bytes.
    pub(super) fn spare_specs(&self, size: u64) -> Vec<LeafSpec> {
        let guids = (FIRST_SPARE..).take(self.spares);
        guids.map(|guid| LeafSpec::new(guid, size)).collect()
    }

    /// Returns the disk of the spare with this guid.
    pub(super) fn spare_disk(&self, guid: u64) -> Option<usize> {
        let number = usize::try_from(guid.checked_sub(FIRST_SPARE)?).ok()?;
        (number < self.spares).then(|| self.disks() + self.spare_disks + number)
    }

    /// Returns its vdevs, on disks of `size` bytes.
    pub fn tree(&self, size: u64) -> VdevTree {
        let mut guid = 100;
        let mut leaf = || {
            guid += 1;
            LeafSpec::new(guid, size)
        };
        let mut top = |(kind, leaves): &(TopLevelKind, usize), class| {
            let leaves: Vec<LeafSpec> = (0..*leaves).map(|_| leaf()).collect();
            let mut top = TopLevelSpec::new(*kind, class, leaves);
            if class == Class::Log {
                top.leaf_sectors = self.log_sectors;
            }
            match self.with_inner_labels {
                true => top.with_inner_labels(),
                false => top,
            }
        };
        let blocks = self.shape.iter().map(|of| (of, Class::Normal));
        let logs = self.logs.iter().map(|of| (of, Class::Log));
        VdevTree {
            top_levels: blocks
                .chain(logs)
                .map(|(of, class)| top(of, class))
                .collect(),
        }
    }

    /// Returns the number of disks that may be lost at once, whichever they are.
    pub fn redundancy(&self) -> usize {
        let all = self.shape.iter().chain(&self.logs);
        let of = |(kind, leaves): &(TopLevelKind, usize)| kind.redundancy(*leaves);
        all.map(of).min().unwrap_or(0)
    }

    /// Returns a property as it is set later.
    pub(super) fn changed_property(&self, choice: u32) -> Texts {
        let choices = [
            ("compression", "off"),
            ("compression", "lz4"),
            ("compression", "zstd"),
            ("primarycache", "all"),
            ("primarycache", "metadata"),
            ("primarycache", "none"),
            ("checksum", "xxh3"),
            ("checksum", "blake3"),
            ("sync", "standard"),
            (
                "sync",
                if self.with_sync_always {
                    "always"
                } else {
                    "standard"
                },
            ),
        ];
        let (name, value) = choices[choice as usize % choices.len()];
        Texts::from([(name.to_owned(), value.to_owned())])
    }

    /// Returns the properties of a volume.
    pub(super) fn properties(&self, volume: VolumeId) -> Texts {
        let mut random = Random::new(self.secret ^ u64::from(volume.0)).fork();
        let mut texts = Texts::new();
        let mut set = |name: &str, value: &str| texts.insert(name.to_owned(), value.to_owned());
        set("compression", random.one_of(&["off", "lz4", "zstd", "on"]));
        set("primarycache", random.one_of(&["all", "metadata", "none"]));
        if self.with_lanes && random.per_mille(800) {
            // Only blocks that the cache may keep are read beside the engine.
            set("primarycache", "all");
        }
        if self.without_checksums && random.per_mille(400) {
            set("checksum", "off");
        }
        if self.with_sync_always && random.per_mille(200) {
            set("sync", "always");
        }
        texts
    }
}

/// Returns the name of a folder of volumes.
pub(super) fn folder_name(folder: u32) -> String {
    format!("f{folder}")
}
