//! Figures of the data plane: how many commands there were, and where their time went.
//!
//! Figures are sums that only grow. A reader looks twice and takes the difference.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use self::initiator::DeviceFigures;
use self::latency::{Latencies, LatencyCounts};
use self::network::InterfaceFigures;
use self::rare::{DiscardSums, FailureSums, FlushSums, RareSums};

pub mod initiator;
pub mod latency;
pub mod network;
pub mod rare;

/// Stage of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CommandStage {
    /// Data-out arrives: from the command to the last byte of its data.
    WireIn,
    /// The command waits for its turn in the task set, for a range, for other commands, or for the
    /// next turn of the loop.
    Queue,
    /// The device works on requests of the command.
    Device,
    /// The answer leaves: from the end of the work to the last byte in the socket's buffer.
    Reply,
}

impl CommandStage {
    /// All stages, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::WireIn, Self::Queue, Self::Device, Self::Reply];
}

/// Kind of a command, as far as tallies tell kinds apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CommandKind {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// Any other command.
    Other,
    /// Command that frees blocks. It counts among the others, and has sums of its own.
    Discard,
    /// Command that makes earlier writes durable. It counts among the others, and has sums of its
    /// own.
    Flush,
    /// RESERVE or PERSISTENT RESERVE OUT. It counts among the others.
    Reserve,
}

impl CommandKind {
    /// Returns the place of the kind among the kinds that have sums by stage.
    #[inline]
    pub fn place(self) -> usize {
        (self as usize).min(Self::Other as usize)
    }
}

/// Number of kinds that have sums by stage: reads, writes, others.
pub const KINDS: usize = CommandKind::Other as usize + 1;
/// Number of stages.
pub const STAGES: usize = CommandStage::ALL.len();

/// Kinds of commands that have histograms: reads and writes.
pub const WITH_HISTOGRAM: usize = 2;

/// Sums of the commands of one kind at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindTotals {
    /// Commands whose answers have left.
    pub commands: u64,
    /// Bytes that these commands moved.
    pub bytes: u64,
    /// Nanoseconds that these commands spent in each stage.
    pub stages_ns: [u64; STAGES],
}

impl KindTotals {
    /// Adds sums.
    pub fn add(&mut self, more: &Self) {
        self.commands += more.commands;
        self.bytes += more.bytes;
        for (sum, more) in self.stages_ns.iter_mut().zip(more.stages_ns) {
            *sum += more;
        }
    }

    /// Returns the sums of the commands that came after an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            commands: self.commands.saturating_sub(earlier.commands),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            stages_ns: std::array::from_fn(|at| {
                self.stages_ns[at].saturating_sub(earlier.stages_ns[at])
            }),
        }
    }
}

/// Sums by kind at one moment.
pub type StageTotals = [KindTotals; KINDS];

/// Latencies of the reads or of the writes of a port group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageLatency {
    /// Whole latencies.
    pub whole: LatencyCounts,
    /// Latencies of each stage.
    pub stages: [LatencyCounts; STAGES],
}

/// Returns the number of commands of all kinds.
pub fn commands(totals: &StageTotals) -> u64 {
    totals.iter().map(|kind| kind.commands).sum()
}

/// Figures of all objects at one moment.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Logical units, by name.
    pub units: Vec<UnitFigures>,
    /// Sessions, by TSIH.
    pub sessions: Vec<SessionFigures>,
    /// Port groups, by target and tag.
    pub port_groups: Vec<PortGroupFigures>,
    /// Devices behind the sessions of this machine as an initiator. `None` means that the initiator
    /// is busy, and that they are those of the last reading.
    pub devices: Option<Vec<DeviceFigures>>,
}

/// Commands under way at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnderWay {
    /// Commands that run.
    pub active: u32,
    /// Commands that wait for their turn in the task set.
    pub queued: u32,
}

/// Figures of one logical unit.
#[derive(Clone, Debug, Default)]
pub struct UnitFigures {
    /// Name of the unit.
    pub name: String,
    /// Number of the object that counts. A unit that was opened anew has another number, and counts
    /// from zero.
    pub number: u64,
    /// Identifier of the unit, 32 hexadecimal digits.
    pub naa: String,
    /// Commands under way.
    pub under_way: UnderWay,
    /// Sums by kind.
    pub totals: StageTotals,
    /// Commands that ended with an error of the medium or the backend.
    pub errors: u64,
    /// Sums of discards, flushes and failures.
    pub rare: RareSums,
    /// Latencies of reads, and those of writes. `None` means that they are those of the last
    /// reading. Most units rest, so that the space of the counters is not part of every unit.
    pub latency: Option<Box<[LatencyCounts; WITH_HISTOGRAM]>>,
}

/// Commands of units at the last reading, by the number of the object that counts. Most units of a
/// large machine rest, and need not be read again.
pub type CommandsRead = HashMap<u64, u64>;

/// Figures of one session.
#[derive(Clone, Debug, Default)]
pub struct SessionFigures {
    /// Number of the session in `session list`.
    pub tsih: u16,
    /// Number of the object that counts. Another session with the same TSIH has another number.
    pub number: u64,
    /// iSCSI name of the initiator.
    pub initiator: String,
    /// Host to which the initiator belongs. `None` means that it belongs to none.
    pub host: Option<String>,
    /// iSCSI name of the target.
    pub target: String,
    /// Portal group tag.
    pub portal_group: u16,
    /// Most commands that the session may have under way.
    pub queue_depth: u32,
    /// Sums by kind.
    pub totals: StageTotals,
    /// Sums by unit, of units that the session has used.
    pub luns: Vec<LunFigures>,
}

/// Figures of one unit as one session uses it.
#[derive(Clone, Debug, Default)]
pub struct LunFigures {
    /// LUN under which the session sees the unit.
    pub lun: u16,
    /// Name of the unit.
    pub unit: String,
    /// Commands under way.
    pub under_way: UnderWay,
    /// Sums by kind.
    pub totals: StageTotals,
}

/// Figures of one port group of a target, since the daemon began.
#[derive(Clone, Debug, Default)]
pub struct PortGroupFigures {
    /// iSCSI name of the target.
    pub target: String,
    /// Portal group tag.
    pub portal_group: u16,
    /// Sums by kind.
    pub totals: StageTotals,
    /// Commands that failed, or were aborted.
    pub failures: FailureSums,
    /// Latencies of reads, and those of writes.
    pub latency: [StageLatency; WITH_HISTOGRAM],
}

/// Figures of everything that serves, at one moment. All sums count from the start of the daemon;
/// the difference of two snapshots holds for the time between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Time at which the daemon began to count, in milliseconds since 1970. Snapshots with another
    /// value have nothing to do with this one.
    pub began_unix_ms: u64,
    /// Microseconds from the start of the daemon to the moment of the snapshot.
    pub at_us: u64,
    /// Logical units, by name.
    pub units: Vec<UnitSnapshot>,
    /// Sessions at this machine's targets, by number.
    pub sessions: Vec<SessionSnapshot>,
    /// Port groups of targets that had sessions, by target and tag.
    pub port_groups: Vec<PortGroupSnapshot>,
    /// Devices of other machines that this machine uses as an initiator, by name.
    #[serde(default)]
    pub devices: Vec<DeviceFigures>,
    /// Network interfaces of this machine, by number.
    #[serde(default)]
    pub interfaces: Vec<InterfaceFigures>,
}

/// Commands of one kind, with the time that they spent in each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommandSums {
    /// Number of commands whose answers have left.
    pub commands: u64,
    /// Bytes that these commands moved.
    pub bytes: u64,
    /// Nanoseconds in which their data-out arrived.
    pub wire_in_ns: u64,
    /// Nanoseconds in which they waited in the queue: for their turn, for a range, for others.
    pub queue_ns: u64,
    /// Nanoseconds in which the device worked.
    pub device_ns: u64,
    /// Nanoseconds from the end of the work to the last byte of the answer in the socket's buffer.
    pub reply_ns: u64,
}

impl From<KindTotals> for CommandSums {
    fn from(totals: KindTotals) -> Self {
        let [wire_in_ns, queue_ns, device_ns, reply_ns] = totals.stages_ns;
        Self {
            commands: totals.commands,
            bytes: totals.bytes,
            wire_in_ns,
            queue_ns,
            device_ns,
            reply_ns,
        }
    }
}

impl CommandSums {
    /// Returns the sums of the commands that came after an earlier snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            commands: self.commands.saturating_sub(earlier.commands),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            wire_in_ns: self.wire_in_ns.saturating_sub(earlier.wire_in_ns),
            queue_ns: self.queue_ns.saturating_sub(earlier.queue_ns),
            device_ns: self.device_ns.saturating_sub(earlier.device_ns),
            reply_ns: self.reply_ns.saturating_sub(earlier.reply_ns),
        }
    }

    /// Returns the sums of these and other commands.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            commands: self.commands + other.commands,
            bytes: self.bytes + other.bytes,
            wire_in_ns: self.wire_in_ns + other.wire_in_ns,
            queue_ns: self.queue_ns + other.queue_ns,
            device_ns: self.device_ns + other.device_ns,
            reply_ns: self.reply_ns + other.reply_ns,
        }
    }

    /// Returns the nanoseconds of each stage, in their order.
    pub fn stages_ns(&self) -> [u64; STAGES] {
        [
            self.wire_in_ns,
            self.queue_ns,
            self.device_ns,
            self.reply_ns,
        ]
    }

    /// Returns the nanoseconds from the arrival of each command to the end of its answer, summed.
    pub fn latency_ns(&self) -> u64 {
        self.stages_ns().iter().sum()
    }
}

/// Sums of a unit, a session or a port group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KindSums {
    /// READ commands.
    pub reads: CommandSums,
    /// WRITE commands.
    pub writes: CommandSums,
    /// All other commands.
    pub others: CommandSums,
}

impl From<StageTotals> for KindSums {
    fn from([reads, writes, others]: StageTotals) -> Self {
        Self {
            reads: reads.into(),
            writes: writes.into(),
            others: others.into(),
        }
    }
}

/// Figures of one logical unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UnitSnapshot {
    /// Name of the unit.
    pub name: String,
    /// Identifier of the unit, 32 hexadecimal digits.
    #[serde(default)]
    pub naa: String,
    /// Commands under way at the moment of the snapshot.
    #[serde(default, flatten)]
    pub under_way: UnderWay,
    /// Sums of its commands.
    #[serde(flatten)]
    pub sums: KindSums,
    /// Number of commands that ended with an error of the medium or the backend.
    #[serde(default)]
    pub errors: u64,
    /// Commands that free blocks.
    #[serde(default)]
    pub discards: DiscardSums,
    /// Commands that make earlier writes durable.
    #[serde(default)]
    pub flushes: FlushSums,
    /// Commands that failed, or were aborted.
    #[serde(default)]
    pub failures: FailureSums,
    /// Latencies of READ commands.
    pub read_latency: Latencies,
    /// Latencies of WRITE commands.
    pub write_latency: Latencies,
}

/// Figures of one session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionSnapshot {
    /// Number of the session in `session list`.
    pub tsih: u16,
    /// Number that no other session has, not even one with the same TSIH later.
    pub key: u64,
    /// iSCSI name of the initiator.
    pub initiator: String,
    /// Host to which the initiator belongs. `None` means that it belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// iSCSI name of the target.
    pub target: String,
    /// Portal group tag.
    pub portal_group: u16,
    /// Most commands that the session may have under way.
    #[serde(default)]
    pub queue_depth: u32,
    /// Sums of its commands.
    #[serde(flatten)]
    pub sums: KindSums,
    /// Logical units that the session has used, by LUN.
    pub luns: Vec<LunSnapshot>,
}

/// Figures of one logical unit as one session uses it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LunSnapshot {
    /// LUN under which the session sees the unit.
    pub lun: u16,
    /// Name of the unit.
    pub unit: String,
    /// Commands of the session that are under way at the moment of the snapshot.
    #[serde(default, flatten)]
    pub under_way: UnderWay,
    /// Sums of the session's commands for the unit.
    #[serde(flatten)]
    pub sums: KindSums,
}

/// Figures of one port group of a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PortGroupSnapshot {
    /// iSCSI name of the target.
    pub target: String,
    /// Portal group tag.
    pub portal_group: u16,
    /// Sums of its commands.
    #[serde(flatten)]
    pub sums: KindSums,
    /// Commands that failed, or were aborted.
    #[serde(default)]
    pub failures: FailureSums,
    /// Latencies of READ commands.
    pub reads_by_stage: LatencyByStage,
    /// Latencies of WRITE commands.
    pub writes_by_stage: LatencyByStage,
}

/// Latencies of the reads or of the writes of a port group: whole, and by stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatencyByStage {
    /// Whole time, from the arrival of the command to the end of its answer.
    pub whole: Latencies,
    /// Arrival of data-out.
    pub wire_in: Latencies,
    /// Wait in the queue.
    pub queue: Latencies,
    /// Work of the device.
    pub device: Latencies,
    /// Departure of the answer.
    pub reply: Latencies,
}
