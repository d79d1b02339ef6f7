//! The experiments on volumes of a pool. Each varies one property; everything else has its default.

use super::experiments::{
    DD_1M, Experiment, Figure, GIGABIT, KIB, Load, TEN_GIGABIT, Unit, Variant, Volume, storage,
    variant,
};
use super::reports;

const RANDOM_8K_WRITES: Load = storage(8 * KIB, 0, 100, 32);
const RANDOM_4K_READS: Load = storage(4 * KIB, 100, 100, 32);
const RANDOM_8K_MIXED: Load = storage(8 * KIB, 70, 100, 32);

/// Returns a variant on a volume.
const fn on(name: &'static str, load: Load, volume: Volume) -> Variant {
    variant(name, load, "").unit(Unit::Volume(volume))
}

const fn of_block_size(kib: u32) -> Volume {
    Volume {
        block_size: kib * KIB,
        write_cache: true,
        ..Volume::NORMAL
    }
}

const fn of_sync(sync: &'static str, write_cache: bool) -> Volume {
    Volume {
        sync,
        write_cache,
        ..Volume::NORMAL
    }
}

const fn of_checksum(checksum: &'static str) -> Volume {
    Volume {
        checksum,
        write_cache: true,
        ..Volume::NORMAL
    }
}

const fn of_cache(primary_cache: &'static str) -> Volume {
    Volume {
        primary_cache,
        ..Volume::NORMAL
    }
}

pub(super) const VOLBLOCKSIZE: Experiment = Experiment {
    name: "volblocksize",
    about: "the block size of the volume: dd of 1M blocks to volumes of 8K to 128K",
    links: 1,
    link_bits_per_s: GIGABIT,
    figure: Figure::Throughput,
    variants: &[
        on("128K", DD_1M, of_block_size(128)).reported("58.7 MB/s"),
        on("64K", DD_1M, of_block_size(64))
            .against(0)
            .reported("93.4 MB/s"),
        on("32K", DD_1M, of_block_size(32))
            .against(0)
            .reported("103 MB/s"),
        on("16K", DD_1M, of_block_size(16)).against(0),
        on("8K", DD_1M, of_block_size(8)).against(0),
    ],
    calibrate: 0,
    demands: &[],
    quotes: reports::VOLBLOCKSIZE,
    remark: "with write-back, as in the report; where the link is the limit, all are equal",
};

pub(super) const VOLBLOCKSIZE_RANDOM: Experiment = Experiment {
    name: "volblocksize-random",
    about: "the block size of the volume: 8K random accesses, 70 % reads, to volumes of 4K to 128K",
    links: 1,
    link_bits_per_s: TEN_GIGABIT,
    figure: Figure::Iops,
    variants: &[
        on("64K", RANDOM_8K_MIXED, of_block_size(64)),
        on("16K (default)", RANDOM_8K_MIXED, of_block_size(16)).against(0),
        on("128K", RANDOM_8K_MIXED, of_block_size(128)).against(0),
        on("8K", RANDOM_8K_MIXED, of_block_size(8)).against(0),
        on("4K", RANDOM_8K_MIXED, of_block_size(4)).against(0),
    ],
    calibrate: 0,
    demands: &[],
    quotes: reports::VOLBLOCKSIZE_RANDOM,
    remark: "a block that is written in part is read and written whole",
};

pub(super) const SYNC: Experiment = Experiment {
    name: "sync",
    about: "when writes are durable (sync): 8K random writes, with and without write cache",
    links: 1,
    link_bits_per_s: TEN_GIGABIT,
    figure: Figure::Iops,
    variants: &[
        on(
            "standard, write-through",
            RANDOM_8K_WRITES,
            of_sync("standard", false),
        ),
        on(
            "standard, write-back",
            RANDOM_8K_WRITES,
            of_sync("standard", true),
        )
        .against(0),
        on("always", RANDOM_8K_WRITES, of_sync("always", true)).against(0),
        on("disabled", RANDOM_8K_WRITES, of_sync("disabled", false)).against(1),
    ],
    calibrate: 1,
    demands: &[],
    quotes: reports::VOLUME_SETTINGS,
    remark: "sync=disabled loses acknowledged writes in a power cut, flushed ones too; write-back alone \
             keeps flushed writes",
};

pub(super) const CHECKSUM: Experiment = Experiment {
    name: "checksum",
    about: "checksums on (XXH3), off, and of BLAKE3: 1M writes, and 4K random reads that miss the cache",
    links: 1,
    link_bits_per_s: TEN_GIGABIT,
    figure: Figure::Throughput,
    variants: &[
        on("on, writes", DD_1M, of_checksum("on")),
        on("off, writes", DD_1M, of_checksum("off")).against(0),
        on("blake3, writes", DD_1M, of_checksum("blake3")).against(0),
        on(
            "on, reads",
            RANDOM_4K_READS,
            Volume {
                primary_cache: "metadata",
                ..of_checksum("on")
            },
        ),
        on(
            "off, reads",
            RANDOM_4K_READS,
            Volume {
                primary_cache: "metadata",
                ..of_checksum("off")
            },
        )
        .against(3),
    ],
    calibrate: 0,
    demands: &[],
    quotes: reports::VOLUME_SETTINGS,
    remark: "a pool without checksums cannot tell right data from wrong, nor heal",
};

pub(super) const PRIMARYCACHE: Experiment = Experiment {
    name: "primarycache",
    about: "contents of the memory cache (primarycache): 4K random reads",
    links: 1,
    link_bits_per_s: TEN_GIGABIT,
    figure: Figure::Iops,
    variants: &[
        on("all", RANDOM_4K_READS, of_cache("all")),
        on("metadata", RANDOM_4K_READS, of_cache("metadata")).against(0),
        on("none", RANDOM_4K_READS, of_cache("none")).against(0),
    ],
    calibrate: 0,
    demands: &[],
    quotes: reports::VOLUME_SETTINGS,
    remark: "all of the volume fits into memory here",
};
