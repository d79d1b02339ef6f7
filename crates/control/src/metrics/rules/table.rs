//! The table of conditions that metrics can express.

use super::Severity::{Critical, Error, Warning};
use super::{Recording, Rule};

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
        condition: "pool-suspended",
        severity: Critical,
        expression: "sandstone_pool_state{state=\"SUSPENDED\"} == 1",
        hold_s: 0,
        finding: "Pool {pool} is suspended: its units serve nothing",
        next: "Look at `sandstone pool status`, bring its devices back, then `sandstone pool clear`.",
    },
    Rule {
        condition: "pool-not-open",
        severity: Critical,
        expression: "sandstone_pool_state{state=\"UNAVAIL\"} == 1",
        hold_s: 10,
        finding: "Pool {pool} cannot be opened",
        next: "Look at `sandstone pool status`: it names the devices that are missing.",
    },
    Rule {
        condition: "data-lost",
        severity: Critical,
        expression: "\
sandstone_pool_lost_bytes > 0
  or on (job, instance, pool) sandstone_pool_scan_unrecoverable_blocks > 0",
        hold_s: 0,
        finding: "Pool {pool} has data without a correct copy",
        next: "Look at `sandstone pool status -v`: it names the volumes and ranges to restore.",
    },
    Rule {
        condition: "pool-degraded",
        severity: Error,
        expression: "sandstone_pool_state{state=\"DEGRADED\"} == 1",
        hold_s: 10,
        finding: "Pool {pool} is degraded: a part of its redundancy is missing",
        next: "Look at `sandstone pool status`, and replace the device that it names.",
    },
    Rule {
        condition: "spare-in-use",
        severity: Error,
        expression: "sandstone_pool_vdev_state{class=\"spare\", state=\"INUSE\"} == 1",
        hold_s: 0,
        finding: "Spare {vdev} of pool {pool} stands in for a device that failed",
        next: "Replace the failed device with `sandstone pool replace`; the spare then becomes free.",
    },
    Rule {
        condition: "no-spare-left",
        severity: Error,
        expression: "\
count by (job, instance, pool) (sandstone_pool_vdev_state{class=\"spare\", state=\"INUSE\"} == 1)
  unless on (job, instance, pool) (sandstone_pool_vdev_state{class=\"spare\", state=\"AVAIL\"} == 1)",
        hold_s: 60,
        finding: "Pool {pool} has no spare left",
        next: "Add a spare with `sandstone pool add`, or replace the failed device.",
    },
    Rule {
        condition: "device-faulted",
        severity: Error,
        expression: "\
sandstone_pool_vdev_state{class!=\"spare\", state=~\"FAULTED|UNAVAIL|REMOVED\"} == 1",
        hold_s: 5,
        finding: "Device {vdev} of pool {pool} is {state}",
        next: "Replace the device with `sandstone pool replace`, or bring it back.",
    },
    Rule {
        condition: "device-errors-growing",
        severity: Error,
        expression: "increase(sandstone_pool_vdev_errors_total{kind=~\"read|write\"}[1h]) > 0",
        hold_s: 0,
        finding: "Device {vdev} of pool {pool} has {kind} errors",
        next: "Look at cable and disk; then `sandstone pool clear`, or replace the device.",
    },
    Rule {
        condition: "checksum-errors",
        severity: Error,
        expression: "increase(sandstone_pool_vdev_errors_total{kind=\"checksum\"}[1h]) > 0",
        hold_s: 0,
        finding: "Device {vdev} of pool {pool} returned wrong data",
        next: "The pool corrected what had a copy. Scrub it with `sandstone pool scrub`, and watch the device.",
    },
    Rule {
        condition: "slower-than-mirror",
        severity: Warning,
        expression: "\
sandstone:pool_vdev_disk_wait_seconds:mean10m
  > on (job, instance, pool, class, parent) group_left ()
    (3 * min by (job, instance, pool, class, parent) (sandstone:pool_vdev_disk_wait_seconds:mean10m))",
        hold_s: 600,
        finding: "Device {vdev} of pool {pool} takes three times as long as another of {parent}",
        next: "Look at its errors and its SMART data; a disk often becomes slow before it fails.",
    },
    Rule {
        condition: "pool-80-percent",
        severity: Warning,
        expression: "\
1 - sandstone_pool_free_bytes / sandstone_pool_size_bytes > 0.8 <= 0.9",
        hold_s: 60,
        finding: "Pool {pool} is more than 80 % full",
        next: "Add a vdev, or remove snapshots and volumes: `sandstone volume list -t all -o name,used`.",
    },
    Rule {
        condition: "pool-90-percent",
        severity: Error,
        expression: "\
1 - sandstone_pool_free_bytes / sandstone_pool_size_bytes > 0.9
  unless on (job, instance, pool) sandstone_pool_available_bytes == 0",
        hold_s: 60,
        finding: "Pool {pool} is more than 90 % full",
        next: "Add a vdev now, or remove snapshots and volumes; writes are refused once nothing is free.",
    },
    Rule {
        condition: "pool-full",
        severity: Critical,
        expression: "\
sandstone_pool_available_bytes == 0
  unless on (job, instance, pool) sandstone_pool_read_only == 1",
        hold_s: 0,
        finding: "Pool {pool} is full: it refuses writes that need space",
        next: "Remove snapshots, or add a vdev.",
    },
    Rule {
        condition: "full-within-14-days",
        severity: Warning,
        expression: "\
predict_linear(sandstone_pool_free_bytes[2d], 14 * 86400) < 0
  and on (job, instance, pool) sandstone_pool_free_bytes offset 2d > 0",
        hold_s: 3600,
        finding: "Pool {pool} will be full within 14 days if it goes on as in the last two",
        next: "Plan for another vdev, or remove snapshots.",
    },
    Rule {
        condition: "pool-promised-too-much",
        severity: Warning,
        expression: "sandstone_pool_promised_bytes > 3 * sandstone_pool_size_bytes",
        hold_s: 60,
        finding: "Volumes of pool {pool} promise more than three times its size",
        next: "Hosts may write more than there is. Watch how full the pool is, or add a vdev.",
    },
    Rule {
        condition: "scrub-overdue",
        severity: Warning,
        expression: "\
time() - sandstone_pool_scan_end_timestamp_seconds{scan=\"scrub\"} > 62 * 86400",
        hold_s: 0,
        finding: "The last scrub of pool {pool} ended more than two months ago",
        next: "Start one with `sandstone pool scrub`, monthly.",
    },
    Rule {
        condition: "unit-faulted",
        severity: Critical,
        expression: "sandstone_lu_state{state=\"faulted\"} == 1",
        hold_s: 30,
        finding: "Logical unit {lu} cannot be served",
        next: "Look at `sandstone lu list -o name,state,remedy` and `sandstone status` for the reason.",
    },
    Rule {
        condition: "unit-lost-writes",
        severity: Critical,
        expression: "sandstone_lu_hindrances{kind=~\"lost-writes|sanitize-failed\"} > 0",
        hold_s: 0,
        finding: "Logical unit {lu} is in the state {kind}: it refuses I/O until it is cleared",
        next: "Look at `sandstone lu list -o name,hindrances,remedy`, then `sandstone lu clear`.",
    },
    Rule {
        condition: "unit-full",
        severity: Critical,
        expression: "sandstone_lu_hindrances{kind=\"full\"} > 0",
        hold_s: 10,
        finding: "Logical unit {lu} refuses writes, because no space is left beneath it",
        next: "Make space in the pool or file system beneath; writes then go on by themselves.",
    },
    Rule {
        condition: "unit-threshold",
        severity: Warning,
        expression: "\
sandstone_lu_hindrances{kind=\"threshold\"} > 0
  unless on (job, instance, lu) sandstone_lu_hindrances{kind=\"full\"} > 0",
        hold_s: 60,
        finding: "Logical unit {lu} has reached its soft threshold",
        next: "Make space in the pool or file system beneath before writes are refused.",
    },
    Rule {
        condition: "unit-one-path",
        severity: Warning,
        expression: "\
sandstone_lu_sessions == 1
  and on (job, instance, lu) max_over_time(sandstone_lu_sessions[1d]) > 1",
        hold_s: 300,
        finding: "Logical unit {lu} is used by one session, and had more",
        next: "Look at `sandstone session list`, and at the links of the host.",
    },
    Rule {
        condition: "host-lost-paths",
        severity: Warning,
        expression: "\
sandstone_host_portals < on (job, instance, host) max_over_time(sandstone_host_portals[1d])",
        hold_s: 60,
        finding: "Host {host} has fewer paths than it had within a day",
        next: "Look at `sandstone session list`, and at the links of the host.",
    },
    Rule {
        condition: "device-one-path",
        severity: Warning,
        expression: "\
count by (job, instance, device) (sandstone_initiator_path_state{state=\"dead\"} == 0) == 1
  and on (job, instance, device)
    count by (job, instance, device) (sandstone_initiator_path_state{state=\"dead\"}) > 1",
        hold_s: 30,
        finding: "One path of this machine to device {device} is left",
        next: "Look at `sandstone initiator path list` for the dead ones and the reason.",
    },
    Rule {
        condition: "device-no-path",
        severity: Critical,
        expression: "\
min by (job, instance, device) (sandstone_initiator_path_state{state=\"dead\"}) == 1",
        hold_s: 10,
        finding: "No path of this machine to device {device} is alive",
        next: "Look at `sandstone initiator session list`, at the other machine and at the network.",
    },
    Rule {
        condition: "digest-errors",
        severity: Warning,
        expression: "increase(sandstone_session_digest_errors_total[15m]) > 0",
        hold_s: 0,
        finding: "Session {tsih} sends data with wrong digests",
        next: "Something between the host and this machine changes data: look at switches and cards.",
    },
    Rule {
        condition: "tcp-retransmits",
        severity: Warning,
        expression: "\
rate(sandstone_tcp_retransmits_total[5m]) / (rate(sandstone_tcp_segments_total[5m]) > 10) > 0.001",
        hold_s: 300,
        finding: "More than 0.1 % of what portal {portal} sends is lost on the way",
        next: "Look at drops of switches and cards on this link, and at the MTU of its whole way.",
    },
    Rule {
        condition: "kavg-high",
        severity: Warning,
        expression: "sandstone:lu_stage_seconds:mean5m{stage=\"queue\"} > 0.001",
        hold_s: 300,
        finding: "Commands of logical unit {lu} wait longer than 1 ms for their turn",
        next: "Look at `sandstone iostat`: a smaller queue depth of hosts, or a faster device, helps.",
    },
    Rule {
        condition: "davg-high",
        severity: Warning,
        expression: "sandstone:lu_stage_seconds:mean5m{stage=\"device\"} > 0.02",
        hold_s: 300,
        finding: "The device of logical unit {lu} takes longer than 20 ms",
        next: "Look at `sandstone pool iostat -v -l`: which disk is slow, and how long its queue is.",
    },
    Rule {
        condition: "portal-not-listening",
        severity: Error,
        expression: "sandstone_portal_listening == 0",
        hold_s: 30,
        finding: "Portal {portal} of target {target} does not listen",
        next: "Look at `sandstone target list`: the address is missing on this machine, or taken.",
    },
    Rule {
        condition: "daemon-restarted",
        severity: Warning,
        expression: "changes(sandstone_daemon_start_timestamp_seconds[15m]) > 0",
        hold_s: 0,
        finding: "The daemon at {instance} has started again",
        next: "If no administrator restarted it, look at its log for the reason.",
    },
    Rule {
        condition: "daemon-readings-old",
        severity: Error,
        expression: "sandstone_daemon_readings_age_seconds > 30",
        hold_s: 30,
        finding: "States of the daemon at {instance} are old: a pool or a device does not answer",
        next: "Look at the daemon's log and the kernel's for a device that hangs.",
    },
    Rule {
        condition: "daemon-silent",
        severity: Critical,
        expression: "up{job=\"sandstone\"} == 0",
        hold_s: 60,
        finding: "The daemon at {instance} does not answer",
        next: "Look whether the machine and its service run: `systemctl status sandstone`.",
    },
];
