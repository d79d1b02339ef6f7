//! Quotes from the field reports, word for word: figures that people measured by hand on their own
//! hardware.

use serde::Serialize;

/// A sentence or line of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quote {
    /// Title, author and year of the report.
    pub report: &'static str,
    /// Words of the quote.
    pub text: &'static str,
}

const TEN_GIGABIT: &str = "10GB And Thunderbolt iSCSI SSD Testing, Karim Elatov, 2016";
const ZFS: &str = "ZFS iSCSI Benchmark Tests on ESX, Karim Elatov, 2014";
const HUNDRED_GIGABIT: &str = "ESXi6 100Gb Ethernet vs 56Gb SRP, Cryptz.Com";
const QUEUE: &str = "Performance Increase? Changing Software iSCSI Adapter Queue Depth, vmFocus";
const IOPS_LIMIT: &str = "Performance Increase? Changing Default IOP Maximum, vmFocus";
const STOREVIRTUAL: &str =
    "Gotcha: vSphere Metro Storage Cluster (VMSC) & HP StoreVirtual, vmFocus";

const fn quote(report: &'static str, text: &'static str) -> Quote {
    Quote { report, text }
}

pub(super) const GIGABIT: &[Quote] = &[
    quote(ZFS, "[  4]  0.0-10.0 sec  1.09 GBytes   933 Mbits/sec"),
    quote(ZFS, "3221225472 bytes (3.2 GB) copied, 27.5574 s, 117 MB/s"),
    quote(ZFS, "Almost the full pipe :)"),
];
pub(super) const ROUND_ROBIN: &[Quote] = &[
    quote(TEN_GIGABIT, "16K and 32K output went way up."),
    quote(
        TEN_GIGABIT,
        "Getting 800MB/s (6.4Gb/s) write and read speed is pretty incredible.",
    ),
    quote(
        IOPS_LIMIT,
        "We can see that we get extra performance at the cost of higher latency.",
    ),
];
pub(super) const FIVE_SESSIONS: &[Quote] = &[
    quote(
        HUNDRED_GIGABIT,
        "I ended up creating 5 vmkernel interfaces all associated to the same 100Gb network interface.",
    ),
    quote(
        HUNDRED_GIGABIT,
        "we went from 2189MBps to 3600MBps in our sequential tests so we are certainly heading in the right direction.",
    ),
    quote(
        HUNDRED_GIGABIT,
        "The round robin change had a dramatic impact across the board.",
    ),
];
pub(super) const QUEUE_DEPTH: &[Quote] = &[
    quote(
        QUEUE,
        "Altering the Software iSCSI Adapter Queue Depth to 64 decreases latency by an average of 3.51%.  IOPS are \
         increase on average by 2.12%",
    ),
    quote(
        QUEUE,
        "Altering the Software iSCSI Adapter Queue Depth to 192 decreases latency by an average of 3.03%.  IOPS are \
         increase on average by 2.23%",
    ),
    quote(
        QUEUE,
        "Altering the Software iSCSI Adapter Queue Depth to 64 decreases latency between Storage Device and Software \
         iSCSI Initiator by an average of 0.06%.  VMKernel latency is increased by 501.42%.",
    ),
    quote(
        QUEUE,
        "Altering the Software iSCSI Adapter Queue Depth to 192 increases latency between Storage Device and Software \
         iSCSI Initiator by an average of 6.02%.  VMKernel latency is decreased by 14.29%.",
    ),
];
pub(super) const WRITE_CACHE: &[Quote] = &[
    quote(
        ZFS,
        "time dd if=/dev/zero of=/vmfs/volumes/test/dd.tst bs=1M count=2K … real    10m 12.82s",
    ),
    quote(
        ZFS,
        "time dd if=/dev/zero of=/vmfs/volumes/test/dd.tst bs=1M count=3K … real    0m 40.40s",
    ),
    quote(ZFS, "That is way better, now I am writing at ~80MB/s."),
];
pub(super) const BLOCK_SIZES: &[Quote] = &[
    quote(
        ZFS,
        "I am getting about 105-111 MB/s for small IO sizes between 4K and 32K. We can see that the latency looks good \
         as well 1-9ms.",
    ),
    quote(
        ZFS,
        "Our bandwidth is 107-178MB/s but our latency varies from 24ms to 408ms",
    ),
];
pub(super) const VOLBLOCKSIZE: &[Quote] = &[
    quote(
        ZFS,
        "I tested with both 64KB and 32KB, for me 32KB worked out a little better.",
    ),
    quote(ZFS, "3221225472 bytes (3.2 GB) copied, 34.476 s, 93.4 MB/s"),
    quote(ZFS, "3221225472 bytes (3.2 GB) copied, 31.1633 s, 103 MB/s"),
    quote(ZFS, "Still better than 128KB ZVol Block size."),
];
pub(super) const VOLBLOCKSIZE_RANDOM: &[Quote] = &[
    quote(
        ZFS,
        "64K blocks didn’t really hurt random I/O but helped some on sequential performance, and also gives a better \
         compression ratio.  128K blocks had the best better compression ratio but random I/O started to suffer so I \
         think 64K is a good middle-ground.",
    ),
    quote(ZFS, "In general 4K is too small, 8-16-32 are generally ok."),
];
pub(super) const VOLUME_SETTINGS: &[Quote] = &[
    quote(
        ZFS,
        "I would say the below had minimal if no impact on the performance",
    ),
    quote(
        ZFS,
        "Turn off the checksum (zfs set checksum=off data/test)",
    ),
    quote(
        ZFS,
        "Change Primary Cache (zfs set primarycache=metadata data/test)",
    ),
    quote(
        ZFS,
        "Disable sync … it seems that it mostly applies to NFS, but I decided to give it a try just to see if it helps out \
         (zfs set sync=disabled data/test)",
    ),
];
pub(super) const OUTSTANDING_R2T: &[Quote] = &[quote(
    HUNDRED_GIGABIT,
    "Changing MaxOutstandingR2T to a value of 8 on both the target and initiator showed a decent improvement in \
     sequential workloads.",
)];
pub(super) const JUMBO: &[Quote] = &[
    quote(
        TEN_GIGABIT,
        "[  4]  0.0-30.0 sec  25.7 GBytes  7.36 Gbits/sec",
    ),
    quote(TEN_GIGABIT, "But the iperf test were the same."),
    quote(
        TEN_GIGABIT,
        "[  3]  0.0-10.0 sec  9.18 GBytes  7.89 Gbits/sec",
    ),
];
pub(super) const DD: &[Quote] = &[
    quote(ZFS, "3221225472 bytes (3.2 GB) copied, 54.911 s, 58.7 MB/s"),
    quote(
        ZFS,
        "we now see that the avg wait time went down to ~80ms (from ~1000ms). Lowering the number of requests to 4 … \
         lowered the DAVG to practically nothing, but the speed wasn't that great.",
    ),
    quote(
        ZFS,
        "3221225472 bytes (3.2 GB) copied, 64.5064 s, 49.9 MB/s",
    ),
];
pub(super) const FAILOVER: &[Quote] = &[quote(
    STOREVIRTUAL,
    "it takes around 5 seconds for the iSCSI sessions to be remapped, leaving your VM’s without access to there HDD for \
     this time.",
)];
