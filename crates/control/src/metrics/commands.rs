//! Metrics of commands: how many, how long they took, and in which stage. Units, sessions and port
//! groups share their labels `op` and `stage`.

use std::fmt;

use super::family::{Exposition, Family, Samples, counter, histogram, seconds};
use model::figures::{CommandSums, KindSums, LatencyByStage, PortGroupSnapshot, Snapshot};

/// Names of the stages, in their order.
const STAGES: [&str; 4] = ["wire_in", "queue", "device", "reply"];

const LU_COMMANDS: Family = counter(
    "sandstone_lu_commands_total",
    &["lu", "op"],
    "Commands completed: read, write and other.",
);
const LU_BYTES: Family = counter(
    "sandstone_lu_bytes_total",
    &["lu", "op"],
    "Bytes that commands read and wrote.",
);
const LU_ERRORS: Family = counter(
    "sandstone_lu_errors_total",
    &["lu"],
    "Commands that ended with an error of the medium or the backend.",
);
const LU_DURATION: Family = histogram(
    "sandstone_lu_command_duration_seconds",
    &["lu", "op"],
    "Time from the arrival of a command to the last byte of its answer.",
);
const LU_STAGES: Family = counter(
    "sandstone_lu_stage_seconds_total",
    &["lu", "op", "stage"],
    "Time that commands spent in each stage.",
);
const SESSION_COMMANDS: Family = counter(
    "sandstone_session_commands_total",
    &["tsih", "op"],
    "Commands of the session completed: read, write and other.",
);
const SESSION_BYTES: Family = counter(
    "sandstone_session_bytes_total",
    &["tsih", "op"],
    "Bytes that commands of the session read and wrote.",
);
const SESSION_STAGES: Family = counter(
    "sandstone_session_stage_seconds_total",
    &["tsih", "stage"],
    "Time that commands of the session spent in each stage.",
);
const GROUP_COMMANDS: Family = counter(
    "sandstone_port_group_commands_total",
    &["target", "tag", "op"],
    "Commands of the sessions of a port group completed: read, write and other.",
);
const GROUP_BYTES: Family = counter(
    "sandstone_port_group_bytes_total",
    &["target", "tag", "op"],
    "Bytes that commands of a port group read and wrote.",
);
const GROUP_DURATION: Family = histogram(
    "sandstone_port_group_command_duration_seconds",
    &["target", "tag", "op"],
    "Time from the arrival of a command of a port group to the last byte of its answer.",
);
const GROUP_STAGES: Family = histogram(
    "sandstone_port_group_stage_duration_seconds",
    &["target", "tag", "op", "stage"],
    "Time that a command of a port group spent in each stage.",
);

/// Adds the metrics of units.
pub(super) fn tell_units(out: &mut Exposition<'_>, snapshot: &Snapshot) -> fmt::Result {
    let units = &snapshot.units;
    out.family(&LU_COMMANDS, &mut |to| {
        units
            .iter()
            .try_for_each(|unit| commands(to, &[&unit.name], &unit.sums))
    })?;
    out.family(&LU_BYTES, &mut |to| {
        units
            .iter()
            .try_for_each(|unit| bytes(to, &[&unit.name], &unit.sums))
    })?;
    out.family(&LU_ERRORS, &mut |to| {
        units
            .iter()
            .try_for_each(|unit| to.put(&[&unit.name], unit.errors))
    })?;
    out.family(&LU_DURATION, &mut |to| {
        units.iter().try_for_each(|unit| {
            let latencies = [&unit.read_latency, &unit.write_latency];
            for ((op, sums), latencies) in moving(&unit.sums).into_iter().zip(latencies) {
                to.put_latencies(&[&unit.name, op], latencies, sums.latency_ns())?;
            }
            Ok(())
        })
    })?;
    out.family(&LU_STAGES, &mut |to| {
        units.iter().try_for_each(|unit| {
            for (op, sums) in kinds(&unit.sums) {
                stages(to, &[&unit.name, op], sums)?;
            }
            Ok(())
        })
    })
}

/// Adds the metrics of sessions. Histograms of two thousand sessions would be fifty thousand
/// series, so there are none.
pub(super) fn tell_sessions(out: &mut Exposition<'_>, snapshot: &Snapshot) -> fmt::Result {
    let sessions: Vec<(String, &KindSums)> = snapshot
        .sessions
        .iter()
        .map(|session| (session.tsih.to_string(), &session.sums))
        .collect();
    out.family(&SESSION_COMMANDS, &mut |to| {
        sessions
            .iter()
            .try_for_each(|(tsih, sums)| commands(to, &[tsih], sums))
    })?;
    out.family(&SESSION_BYTES, &mut |to| {
        sessions
            .iter()
            .try_for_each(|(tsih, sums)| bytes(to, &[tsih], sums))
    })?;
    out.family(&SESSION_STAGES, &mut |to| {
        sessions.iter().try_for_each(|(tsih, sums)| {
            let all = kinds(sums).into_iter().map(|(_, sums)| *sums);
            let all = all.fold(CommandSums::default(), |all, sums| all.plus(&sums));
            stages(to, &[tsih], &all)
        })
    })
}

/// Adds the metrics of port groups.
pub(super) fn tell_port_groups(out: &mut Exposition<'_>, snapshot: &Snapshot) -> fmt::Result {
    let groups: Vec<(String, &PortGroupSnapshot)> = snapshot
        .port_groups
        .iter()
        .map(|group| (group.portal_group.to_string(), group))
        .collect();
    out.family(&GROUP_COMMANDS, &mut |to| {
        groups
            .iter()
            .try_for_each(|(tag, group)| commands(to, &[&group.target, tag], &group.sums))
    })?;
    out.family(&GROUP_BYTES, &mut |to| {
        groups
            .iter()
            .try_for_each(|(tag, group)| bytes(to, &[&group.target, tag], &group.sums))
    })?;
    out.family(&GROUP_DURATION, &mut |to| {
        groups.iter().try_for_each(|(tag, group)| {
            for (op, sums, by_stage) in by_stage(group) {
                let labels = [&group.target, tag, op];
                to.put_latencies(&labels, &by_stage.whole, sums.latency_ns())?;
            }
            Ok(())
        })
    })?;
    out.family(&GROUP_STAGES, &mut |to| {
        groups.iter().try_for_each(|(tag, group)| {
            for (op, sums, by_stage) in by_stage(group) {
                let stages = [
                    &by_stage.wire_in,
                    &by_stage.queue,
                    &by_stage.device,
                    &by_stage.reply,
                ];
                for ((stage, ns), latencies) in STAGES.iter().zip(sums.stages_ns()).zip(stages) {
                    to.put_latencies(&[&group.target, tag, op, stage], latencies, ns)?;
                }
            }
            Ok(())
        })
    })
}

fn by_stage(group: &PortGroupSnapshot) -> [(&'static str, &CommandSums, &LatencyByStage); 2] {
    [
        ("read", &group.sums.reads, &group.reads_by_stage),
        ("write", &group.sums.writes, &group.writes_by_stage),
    ]
}

fn commands(to: &mut Samples<'_>, labels: &[&str], sums: &KindSums) -> fmt::Result {
    let mut kinds = kinds(sums).into_iter();
    kinds.try_for_each(|(op, sums)| to.put(&[labels, &[op]].concat(), sums.commands))
}

fn bytes(to: &mut Samples<'_>, labels: &[&str], sums: &KindSums) -> fmt::Result {
    let mut kinds = moving(sums).into_iter();
    kinds.try_for_each(|(op, sums)| to.put(&[labels, &[op]].concat(), sums.bytes))
}

fn stages(to: &mut Samples<'_>, labels: &[&str], sums: &CommandSums) -> fmt::Result {
    let mut stages = STAGES.iter().zip(sums.stages_ns());
    stages.try_for_each(|(stage, ns)| to.put(&[labels, &[*stage]].concat(), seconds(ns)))
}

fn kinds(sums: &KindSums) -> [(&'static str, &CommandSums); 3] {
    [
        ("read", &sums.reads),
        ("write", &sums.writes),
        ("other", &sums.others),
    ]
}

/// Returns the kinds that move data.
fn moving(sums: &KindSums) -> [(&'static str, &CommandSums); 2] {
    [("read", &sums.reads), ("write", &sums.writes)]
}
