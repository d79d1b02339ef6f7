//! The table of conditions that metrics can express.

use super::{Recording, Rule};
use alert::{Condition, condition as of};
use model::event::Severity;

/// Condition of the daemon that only others can see.
static DAEMON_RESTARTED: Condition = Condition {
    id: "daemon-restarted",
    severity: Severity::Warning,
    hold_s: 0,
    object: "daemon",
    meaning: "The daemon has started again.",
    look: "Its log says what ended the last run: `journalctl -u sandstone`.",
    remedy: "If no administrator restarted it, find out what did.",
    outranked_by: &[],
};

/// Condition of the daemon that only others can see.
static DAEMON_READINGS_OLD: Condition = Condition {
    id: "daemon-readings-old",
    severity: Severity::Error,
    hold_s: 30,
    object: "daemon",
    meaning: "States that the daemon tells are old: a pool or a device does not answer.",
    look: "The daemon's log, and `dmesg` for a device that hangs.",
    remedy: "A disk that hangs is the usual cause: pull or reset it.",
    outranked_by: &[],
};

/// Condition of the daemon that only others can see.
static DAEMON_SILENT: Condition = Condition {
    id: "daemon-silent",
    severity: Severity::Critical,
    hold_s: 60,
    object: "daemon",
    meaning: "The daemon does not answer.",
    look: "`systemctl status sandstone` on its machine.",
    remedy: "Start the machine or its service. Data that was acknowledged as durable is kept.",
    outranked_by: &[],
};

/// Expressions that several rules need.
pub const RECORDINGS: &[Recording] = &[
    Recording {
        name: "sandstone:pool_vdev_disk_wait_seconds:mean10m",
        expression: "\
(
  sum by (job, instance, pool, class, vdev) (rate(sandstone_pool_vdev_disk_wait_seconds_total[10m]))
    / sum by (job, instance, pool, class, vdev) (rate(sandstone_pool_vdev_requests_total[10m]) > 0)
)
* on (job, instance, pool, class, vdev) group_left (parent)
  sandstone_pool_vdev_info{parent!=\"\"}",
    },
    Recording {
        name: "sandstone:lu_stage_seconds:mean5m",
        expression: "\
sum by (job, instance, lu, stage) (rate(sandstone_lu_stage_seconds_total[5m]))
  / on (job, instance, lu) group_left ()
    (sum by (job, instance, lu) (rate(sandstone_lu_commands_total[5m])) > 0)",
    },
];

/// Conditions, by object. Where two conditions exclude each other, the graver one holds alone.
pub const RULES: &[Rule] = &[
    Rule {
        condition: &of::POOL_SUSPENDED,
        expression: "sandstone_pool_state{state=\"SUSPENDED\"} == 1",
        finding: "Pool {pool} is suspended: its units serve nothing",
    },
    Rule {
        condition: &of::POOL_NOT_OPEN,
        expression: "sandstone_pool_state{state=\"UNAVAIL\"} == 1",
        finding: "Pool {pool} cannot be opened",
    },
    Rule {
        condition: &of::DATA_LOST,
        expression: "\
sandstone_pool_lost_bytes > 0
  or on (job, instance, pool) sandstone_pool_scan_unrecoverable_blocks > 0",
        finding: "Pool {pool} has data without a correct copy",
    },
    Rule {
        condition: &of::POOL_DEGRADED,
        expression: "sandstone_pool_state{state=\"DEGRADED\"} == 1",
        finding: "Pool {pool} is degraded: a part of its redundancy is missing",
    },
    Rule {
        condition: &of::SPARE_IN_USE,
        expression: "sandstone_pool_vdev_state{class=\"spare\", state=\"INUSE\"} == 1",
        finding: "Spare {vdev} of pool {pool} stands in for a device that failed",
    },
    Rule {
        condition: &of::NO_SPARE_LEFT,
        expression: "\
count by (job, instance, pool) (sandstone_pool_vdev_state{class=\"spare\", state=\"INUSE\"} == 1)
  unless on (job, instance, pool) (sandstone_pool_vdev_state{class=\"spare\", state=\"AVAIL\"} == 1)",
        finding: "Pool {pool} has no spare left",
    },
    Rule {
        condition: &of::DEVICE_FAULTED,
        expression: "\
sandstone_pool_vdev_state{class!=\"spare\", state=~\"FAULTED|UNAVAIL|REMOVED\"} == 1",
        finding: "Device {vdev} of pool {pool} is {state}",
    },
    Rule {
        condition: &of::DEVICE_ERRORS_GROWING,
        expression: "increase(sandstone_pool_vdev_errors_total{kind=~\"read|write\"}[1h]) > 0",
        finding: "Device {vdev} of pool {pool} has {kind} errors",
    },
    Rule {
        condition: &of::CHECKSUM_ERRORS,
        expression: "increase(sandstone_pool_vdev_errors_total{kind=\"checksum\"}[1h]) > 0",
        finding: "Device {vdev} of pool {pool} returned wrong data",
    },
    Rule {
        condition: &of::SLOWER_THAN_MIRROR,
        expression: "\
sandstone:pool_vdev_disk_wait_seconds:mean10m
  > on (job, instance, pool, class, parent) group_left ()
    (3 * min by (job, instance, pool, class, parent) (sandstone:pool_vdev_disk_wait_seconds:mean10m))",
        finding: "Device {vdev} of pool {pool} takes three times as long as another of {parent}",
    },
    Rule {
        condition: &of::POOL_80_PERCENT,
        expression: "\
1 - sandstone_pool_free_bytes / sandstone_pool_size_bytes > 0.8 <= 0.9",
        finding: "Pool {pool} is more than 80 % full",
    },
    Rule {
        condition: &of::POOL_90_PERCENT,
        expression: "\
1 - sandstone_pool_free_bytes / sandstone_pool_size_bytes > 0.9
  unless on (job, instance, pool) sandstone_pool_available_bytes == 0",
        finding: "Pool {pool} is more than 90 % full",
    },
    Rule {
        condition: &of::POOL_FULL,
        expression: "\
sandstone_pool_available_bytes == 0
  unless on (job, instance, pool) sandstone_pool_read_only == 1",
        finding: "Pool {pool} is full: it refuses writes that need space",
    },
    Rule {
        condition: &of::FULL_WITHIN_14_DAYS,
        expression: "\
predict_linear(sandstone_pool_free_bytes[2d], 14 * 86400) < 0
  and on (job, instance, pool) sandstone_pool_free_bytes offset 2d > 0",
        finding: "Pool {pool} will be full within 14 days if it goes on as in the last two",
    },
    Rule {
        condition: &of::POOL_PROMISED_TOO_MUCH,
        expression: "sandstone_pool_promised_bytes > 3 * sandstone_pool_size_bytes",
        finding: "Volumes of pool {pool} promise more than three times its size",
    },
    Rule {
        condition: &of::SCRUB_OVERDUE,
        expression: "\
time() - sandstone_pool_scan_end_timestamp_seconds{scan=\"scrub\"} > 62 * 86400",
        finding: "The last scrub of pool {pool} ended more than two months ago",
    },
    Rule {
        condition: &of::UNIT_FAULTED,
        expression: "sandstone_lu_state{state=\"faulted\"} == 1",
        finding: "Logical unit {lu} cannot be served",
    },
    Rule {
        condition: &of::UNIT_LOST_WRITES,
        expression: "sandstone_lu_hindrances{kind=~\"lost-writes|sanitize-failed\"} > 0",
        finding: "Logical unit {lu} is in the state {kind}: it refuses I/O until it is cleared",
    },
    Rule {
        condition: &of::UNIT_FULL,
        expression: "sandstone_lu_hindrances{kind=\"full\"} > 0",
        finding: "Logical unit {lu} refuses writes, because no space is left beneath it",
    },
    Rule {
        condition: &of::UNIT_THRESHOLD,
        expression: "\
sandstone_lu_hindrances{kind=\"threshold\"} > 0
  unless on (job, instance, lu) sandstone_lu_hindrances{kind=\"full\"} > 0",
        finding: "Logical unit {lu} has reached its soft threshold",
    },
    Rule {
        condition: &of::UNIT_ONE_PATH,
        expression: "\
sandstone_lu_sessions == 1
  and on (job, instance, lu) max_over_time(sandstone_lu_sessions[1d]) > 1",
        finding: "Logical unit {lu} is used by one session, and had more",
    },
    Rule {
        condition: &of::HOST_LOST_PATHS,
        expression: "\
sandstone_host_portals < on (job, instance, host) max_over_time(sandstone_host_portals[1d])",
        finding: "Host {host} has fewer paths than it had within a day",
    },
    Rule {
        condition: &of::DEVICE_ONE_PATH,
        expression: "\
count by (job, instance, device) (sandstone_initiator_path_state{state=\"dead\"} == 0) == 1
  and on (job, instance, device)
    count by (job, instance, device) (sandstone_initiator_path_state{state=\"dead\"}) > 1",
        finding: "One path of this machine to device {device} is left",
    },
    Rule {
        condition: &of::DEVICE_NO_PATH,
        expression: "\
min by (job, instance, device) (sandstone_initiator_path_state{state=\"dead\"}) == 1",
        finding: "No path of this machine to device {device} is alive",
    },
    Rule {
        condition: &of::DIGEST_ERRORS,
        expression: "increase(sandstone_session_digest_errors_total[15m]) > 0",
        finding: "Session {tsih} sends data with wrong digests",
    },
    Rule {
        condition: &of::TCP_RETRANSMITS,
        expression: "\
rate(sandstone_tcp_retransmits_total[5m]) / (rate(sandstone_tcp_segments_total[5m]) > 10) > 0.001",
        finding: "More than 0.1 % of what portal {portal} sends is lost on the way",
    },
    Rule {
        condition: &of::KAVG_HIGH,
        expression: "sandstone:lu_stage_seconds:mean5m{stage=\"queue\"} > 0.001",
        finding: "Commands of logical unit {lu} wait longer than 1 ms for their turn",
    },
    Rule {
        condition: &of::DAVG_HIGH,
        expression: "sandstone:lu_stage_seconds:mean5m{stage=\"device\"} > 0.02",
        finding: "The device of logical unit {lu} takes longer than 20 ms",
    },
    Rule {
        condition: &of::PORTAL_NOT_LISTENING,
        expression: "sandstone_portal_listening == 0",
        finding: "Portal {portal} of target {target} does not listen",
    },
    Rule {
        condition: &DAEMON_RESTARTED,
        expression: "changes(sandstone_daemon_start_timestamp_seconds[15m]) > 0",
        finding: "The daemon at {instance} has started again",
    },
    Rule {
        condition: &DAEMON_READINGS_OLD,
        expression: "sandstone_daemon_readings_age_seconds > 30",
        finding: "States of the daemon at {instance} are old: a pool or a device does not answer",
    },
    Rule {
        condition: &DAEMON_SILENT,
        expression: "up{job=\"sandstone\"} == 0",
        finding: "The daemon at {instance} does not answer",
    },
];
