//! The experiments: their variants, their links, and their demands on the result.

use serde::Serialize;

use super::pool_experiments;
use super::reports::{self, Quote};
pub use super::target::{Unit, Volume};

pub(super) const GIGABIT: f64 = 1e9;
pub(super) const TEN_GIGABIT: f64 = 1e10;

/// Experiment that compares variants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// Purpose of the experiment.
    pub about: &'static str,
    /// Number of links between initiator and target.
    pub links: usize,
    /// Speed of each link, in bits per second.
    pub link_bits_per_s: f64,
    /// Figure in which variants are compared.
    pub figure: Figure,
    /// Settings that are compared.
    pub variants: &'static [Variant],
    /// Index of the variant that shows what this machine's cores reach without shaping.
    pub calibrate: usize,
    /// Demands on the result.
    pub demands: &'static [Demand],
    /// Quotes from the field reports.
    pub quotes: &'static [Quote],
    /// Differences from the reports, or parts that are missing here.
    pub remark: &'static str,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Bytes per second; more is better.
    Throughput,
    /// Accesses per second; more is better.
    Iops,
    /// Longest time without a completion; less is better.
    Gap,
}

/// Setting of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// Name in words.
    pub name: &'static str,
    /// Load of a run.
    pub load: Load,
    /// Options of the URL.
    pub options: &'static str,
    /// Number of links that are used.
    pub paths: usize,
    /// MTU of the links.
    pub mtu: u32,
    /// Unit that is read and written.
    pub unit: Unit,
    /// Disturbance during the run.
    pub disturbance: Disturbance,
    /// Index of the variant with which this one is compared; none for a base of comparisons.
    pub against: Option<usize>,
    /// The report's figure for this variant, if it has one.
    pub reported: &'static str,
}

/// Load of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A single TCP stream.
    Tcp {
        /// Whether data flows from the target to the initiator.
        receive: bool,
    },
    /// Accesses to the unit.
    Storage {
        /// Bytes of an access.
        block: u32,
        /// Percentage of reads.
        reads: u8,
        /// Percentage of random accesses.
        random: u8,
        /// Number of accesses in flight at once.
        outstanding: u32,
    },
}

/// Disturbance of the first link in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Nothing.
    None,
    /// The link swallows everything from then on.
    Silence,
    /// The connections of the link are reset.
    Reset,
}

/// Demand on the result of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// A variant reaches at least this share of another's figure.
    Ratio {
        /// Index of the variant.
        variant: usize,
        /// Index of the variant of comparison.
        of: usize,
        /// Least ratio of the two figures.
        at_least: f64,
    },
    /// A variant's longest gap stays below this.
    GapBelow {
        /// Index of the variant.
        variant: usize,
        /// Limit in milliseconds.
        ms: f64,
    },
}

pub(super) const fn storage(block: u32, reads: u8, random: u8, outstanding: u32) -> Load {
    Load::Storage {
        block,
        reads,
        random,
        outstanding,
    }
}

pub(super) const KIB: u32 = 1024;

/// Returns a variant on one path, on memory, with an MTU of 1500.
pub(super) const fn variant(name: &'static str, load: Load, options: &'static str) -> Variant {
    Variant {
        name,
        load,
        options,
        paths: 1,
        mtu: 1500,
        unit: Unit::Memory,
        disturbance: Disturbance::None,
        against: None,
        reported: "",
    }
}

impl Variant {
    const fn over(mut self, paths: usize) -> Self {
        self.paths = paths;
        self
    }

    pub(super) const fn against(mut self, other: usize) -> Self {
        self.against = Some(other);
        self
    }

    pub(super) const fn reported(mut self, figure: &'static str) -> Self {
        self.reported = figure;
        self
    }

    const fn mtu(mut self, mtu: u32) -> Self {
        self.mtu = mtu;
        self
    }

    pub(super) const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    const fn disturbed(mut self, disturbance: Disturbance) -> Self {
        self.disturbance = disturbance;
        self
    }
}

const READ_256K: Load = storage(256 * KIB, 100, 0, 32);
const WRITE_256K: Load = storage(256 * KIB, 0, 0, 32);
const DEEP: Load = storage(64 * KIB, 100, 0, 64);
const SHALLOW: Load = storage(64 * KIB, 100, 0, 2);
const RANDOM_8K: Load = storage(8 * KIB, 70, 100, 256);
pub(super) const DD_1M: Load = storage(1024 * KIB, 0, 0, 4);
const FAILOVER: Load = storage(4 * KIB, 70, 100, 16);

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "one-gigabit",
        about: "one 1 Gb/s link: 117 MB/s is all of the wire",
        links: 1,
        link_bits_per_s: GIGABIT,
        figure: Figure::Throughput,
        variants: &[
            variant("TCP to the target", Load::Tcp { receive: false }, "")
                .reported("933 Mb/s = 117 MB/s"),
            variant("TCP from the target", Load::Tcp { receive: true }, ""),
            variant("256K writes", WRITE_256K, "")
                .against(0)
                .reported("117 MB/s"),
            variant("256K reads", READ_256K, "").against(1),
        ],
        calibrate: 2,
        demands: &[
            Demand::Ratio {
                variant: 2,
                of: 0,
                at_least: 0.98,
            },
            Demand::Ratio {
                variant: 3,
                of: 1,
                at_least: 0.98,
            },
        ],
        quotes: reports::GIGABIT,
        remark: "",
    },
    Experiment {
        name: "round-robin",
        about: "two paths: one path alone, and round robin after 1000 I/Os and after each I/O, with deep and \
                shallow queues",
        links: 2,
        link_bits_per_s: TEN_GIGABIT,
        figure: Figure::Throughput,
        variants: &[
            variant("one path, 64 deep", DEEP, "psp=rr&iops=1"),
            variant("iops=1000, 64 deep", DEEP, "psp=rr&iops=1000")
                .over(2)
                .against(0),
            variant("iops=1, 64 deep", DEEP, "psp=rr&iops=1")
                .over(2)
                .against(1)
                .reported("800 MB/s"),
            variant("one path, 2 deep", SHALLOW, "psp=rr&iops=1"),
            variant("iops=1000, 2 deep", SHALLOW, "psp=rr&iops=1000")
                .over(2)
                .against(3),
            variant("iops=1, 2 deep", SHALLOW, "psp=rr&iops=1")
                .over(2)
                .against(4),
        ],
        calibrate: 2,
        demands: &[Demand::Ratio {
            variant: 2,
            of: 0,
            at_least: 1.9,
        }],
        quotes: reports::ROUND_ROBIN,
        remark: "64 KiB sequential reads from memory; the report's volume was two SSDs behind one controller",
    },
    Experiment {
        name: "five-sessions",
        about: "five sessions over one fast link against one session",
        links: 1,
        link_bits_per_s: 1e11,
        figure: Figure::Throughput,
        variants: &[
            variant("one session", READ_256K, "").reported("2189 MB/s"),
            variant("five, iops=1000", READ_256K, "sessions=5&psp=rr&iops=1000")
                .against(0)
                .reported("3600 MB/s"),
            variant("five, iops=1", READ_256K, "sessions=5&psp=rr&iops=1").against(1),
        ],
        calibrate: 0,
        demands: &[],
        quotes: reports::FIVE_SESSIONS,
        remark: "more sessions help where one session is bound to a core: this initiator runs all sessions \
                 of a device on one core, so here only the target can gain",
    },
    Experiment {
        name: "queue-depth",
        about: "queue depth 64, 128 and 192 under 256 outstanding 8K random accesses, 70 % reads",
        links: 1,
        link_bits_per_s: GIGABIT,
        figure: Figure::Iops,
        variants: &[
            variant("128 (default)", RANDOM_8K, "queue_depth=128"),
            variant("64", RANDOM_8K, "queue_depth=64")
                .against(0)
                .reported("+2.12 % IOPS, KAVG +501 %"),
            variant("192", RANDOM_8K, "queue_depth=192")
                .against(0)
                .reported("+2.23 % IOPS, KAVG -14 %"),
        ],
        calibrate: 0,
        demands: &[],
        quotes: reports::QUEUE_DEPTH,
        remark: "",
    },
    Experiment {
        name: "write-cache",
        about: "write-through against write-back: dd of 1M blocks to a file",
        links: 1,
        link_bits_per_s: GIGABIT,
        figure: Figure::Throughput,
        variants: &[
            variant("write-through", DD_1M, "")
                .unit(Unit::WriteThrough)
                .reported("3.5 MB/s (2 GiB in 612.82 s)"),
            variant("write-back", DD_1M, "")
                .unit(Unit::WriteBack)
                .against(0)
                .reported("80 MB/s (3 GiB in 40.40 s)"),
            variant("volume, write-through", DD_1M, "").unit(Unit::Volume(Volume::NORMAL)),
            variant("volume, write-back", DD_1M, "")
                .unit(Unit::Volume(Volume {
                    write_cache: true,
                    ..Volume::NORMAL
                }))
                .against(2),
        ],
        calibrate: 1,
        demands: &[],
        quotes: reports::WRITE_CACHE,
        remark: "the disk is this machine's own; the last two are on a pool, whose log makes the writes durable",
    },
    pool_experiments::VOLBLOCKSIZE,
    pool_experiments::VOLBLOCKSIZE_RANDOM,
    pool_experiments::SYNC,
    pool_experiments::CHECKSUM,
    pool_experiments::PRIMARYCACHE,
    Experiment {
        name: "block-sizes",
        about: "sequential writes of 4K to 1M",
        links: 1,
        link_bits_per_s: GIGABIT,
        figure: Figure::Throughput,
        variants: &[
            variant("4K", storage(4 * KIB, 0, 0, 32), "").reported("105-111 MB/s"),
            variant("16K", storage(16 * KIB, 0, 0, 32), "")
                .against(0)
                .reported("105-111 MB/s"),
            variant("32K", storage(32 * KIB, 0, 0, 32), "")
                .against(0)
                .reported("105-111 MB/s"),
            variant("128K", storage(128 * KIB, 0, 0, 32), "")
                .against(0)
                .reported("107-178 MB/s"),
            variant("1M", storage(1024 * KIB, 0, 0, 32), "")
                .against(0)
                .reported("107-178 MB/s"),
        ],
        calibrate: 4,
        demands: &[],
        quotes: reports::BLOCK_SIZES,
        remark: "sizes of accesses only; for the block size of the volume see volblocksize",
    },
    Experiment {
        name: "outstanding-r2t",
        about: "MaxOutstandingR2T 1 against 8: 1M writes in bursts of 64K",
        links: 1,
        link_bits_per_s: TEN_GIGABIT,
        figure: Figure::Throughput,
        variants: &[
            variant(
                "MaxOutstandingR2T=1",
                DD_1M,
                "max_outstanding_r2t=1&max_burst=64K&first_burst=64K",
            ),
            variant(
                "MaxOutstandingR2T=8",
                DD_1M,
                "max_outstanding_r2t=8&max_burst=64K&first_burst=64K",
            )
            .against(0),
        ],
        calibrate: 1,
        demands: &[],
        quotes: reports::OUTSTANDING_R2T,
        remark: "the round trip between two namespaces is far shorter than through a switch, so waiting for \
                 an R2T costs less",
    },
    Experiment {
        name: "jumbo",
        about: "MTU 9000 against 1500: a TCP stream, and 256K reads",
        links: 1,
        link_bits_per_s: TEN_GIGABIT,
        figure: Figure::Throughput,
        variants: &[
            variant("TCP, 1500", Load::Tcp { receive: true }, "").reported("7.36 Gb/s = 920 MB/s"),
            variant("TCP, 9000", Load::Tcp { receive: true }, "")
                .mtu(9000)
                .against(0)
                .reported("7.89 Gb/s = 986 MB/s"),
            variant("256K reads, 1500", READ_256K, ""),
            variant("256K reads, 9000", READ_256K, "")
                .mtu(9000)
                .against(2),
        ],
        calibrate: 2,
        demands: &[],
        quotes: reports::JUMBO,
        remark: "virtual links hand over 64K at once, so the interrupts that large frames save do not show; \
                 the headers that they save do (4.4 %)",
    },
    Experiment {
        name: "dd",
        about: "dd from a VM: I/O size and number of requests limited (max_sectors_kb, DiskMaxIOSize, nr_requests)",
        links: 1,
        link_bits_per_s: GIGABIT,
        figure: Figure::Throughput,
        variants: &[
            variant("512K, 128 requests", storage(512 * KIB, 0, 0, 128), "")
                .reported("58.7 MB/s, await 1320 ms"),
            variant("32K, 128 requests", storage(32 * KIB, 0, 0, 128), "")
                .against(0)
                .reported("57.4 MB/s, await 80 ms"),
            variant("32K, 4 requests", storage(32 * KIB, 0, 0, 4), "")
                .against(1)
                .reported("49.9 MB/s, await 4 ms"),
            variant(
                "512K, DiskMaxIOSize 32K",
                storage(512 * KIB, 0, 0, 128),
                "max_io=32K",
            )
            .against(0),
        ],
        calibrate: 0,
        demands: &[],
        quotes: reports::DD,
        remark: "",
    },
    Experiment {
        name: "failover-silent",
        about: "a link goes silent: the longest time without a completion",
        links: 2,
        link_bits_per_s: GIGABIT,
        figure: Figure::Gap,
        variants: &[
            variant("undisturbed", FAILOVER, "psp=rr&iops=1").over(2),
            variant("silent link", FAILOVER, "psp=rr&iops=1")
                .over(2)
                .disturbed(Disturbance::Silence)
                .against(0)
                .reported("about 5 s"),
        ],
        calibrate: 0,
        demands: &[Demand::GapBelow {
            variant: 1,
            ms: 1000.0,
        }],
        quotes: reports::FAILOVER,
        remark: "4K random accesses, 70 % reads, 16 outstanding; the report's array moves a session to another node",
    },
    Experiment {
        name: "failover-reset",
        about: "connections are reset: the longest time without a completion",
        links: 2,
        link_bits_per_s: GIGABIT,
        figure: Figure::Gap,
        variants: &[
            variant("undisturbed", FAILOVER, "psp=rr&iops=1").over(2),
            variant("reset", FAILOVER, "psp=rr&iops=1")
                .over(2)
                .disturbed(Disturbance::Reset)
                .against(0)
                .reported("about 5 s"),
        ],
        calibrate: 0,
        demands: &[Demand::GapBelow {
            variant: 1,
            ms: 100.0,
        }],
        quotes: reports::FAILOVER,
        remark: "4K random accesses, 70 % reads, 16 outstanding; the report's array moves a session to another node",
    },
];

/// Finds the experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|one| one.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::initiator::settings::{DeviceSettings, SessionSettings};
    use model::initiator::url::LunUrl;

    #[test]
    fn experiments_are_consistent() {
        for one in EXPERIMENTS {
            assert_eq!(find(one.name), Some(one), "{}", one.name);
            assert!(!one.quotes.is_empty(), "{}", one.name);
            let storage = matches!(one.variants[one.calibrate].load, Load::Storage { .. });
            assert!(storage, "{}", one.name);
            for (index, variant) in one.variants.iter().enumerate() {
                assert!(variant.paths <= one.links, "{}", variant.name);
                assert!(
                    variant.against.is_none_or(|other| other < index),
                    "{}",
                    variant.name
                );
                let url = format!("iscsi://10.77.0.2/iqn.2026-01.a:b/0?{}", variant.options);
                let settings = SessionSettings::new("iqn.2026-01.a:c");
                LunUrl::parse(&url, settings, DeviceSettings::default()).expect(variant.name);
            }
            for demand in one.demands {
                let (Demand::Ratio { variant, .. } | Demand::GapBelow { variant, .. }) = demand;
                assert!(*variant < one.variants.len(), "{}", one.name);
            }
        }
    }
}
