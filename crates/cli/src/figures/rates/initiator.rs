//! Rates of the devices that this machine uses as an initiator, and of the paths to them.

use multipath::{Counters, IoSums};

use super::hosts::together;
use super::{Activity, FailureRates, Queue, Rates, seconds};
use model::figures::Snapshot;
use model::figures::initiator::{DeviceFigures, PathFigures};
use model::figures::rare::FailureSums;

/// A device with the rates of its paths.
#[derive(Clone, Debug)]
pub(crate) struct DeviceUse<'a> {
    /// The device.
    pub(crate) device: &'a DeviceFigures,
    /// Commands for the device.
    pub(crate) activity: Activity,
    /// Commands on each path.
    pub(crate) paths: Vec<(&'a PathFigures, Activity)>,
}

/// Returns the rates of all devices.
pub(crate) fn of_devices<'a>(before: &Snapshot, now: &'a Snapshot) -> Vec<DeviceUse<'a>> {
    let seconds = seconds(before, now);
    let none = DeviceFigures::default();
    let devices = now.devices.iter().map(|device| {
        let is_same = |of: &&DeviceFigures| (of.key, &of.name) == (device.key, &device.name);
        let earlier = before.devices.iter().find(is_same).unwrap_or(&none);
        of_device(earlier, device, seconds)
    });
    devices.collect()
}

fn of_device<'a>(
    earlier: &DeviceFigures,
    device: &'a DeviceFigures,
    seconds: f64,
) -> DeviceUse<'a> {
    let (then, now) = (&earlier.sums, &device.sums);
    let sums = [
        now.reads.since(&then.reads),
        now.writes.since(&then.writes),
        now.others.since(&then.others),
    ];
    let activity = Activity {
        name: device.name.clone(),
        queue: Some(Queue {
            depth: device.queue_depth,
            active: device.active,
            queued: device.queued,
        }),
        failures: Some(FailureRates::new(
            &failures(now).since(&failures(then)),
            seconds,
        )),
        ..of_ios(sums, seconds)
    };
    let none = PathFigures::default();
    let paths = device.paths.iter().map(|path| {
        let is_same = |of: &&PathFigures| of.runtime_name == path.runtime_name;
        let earlier = earlier.paths.iter().find(is_same).unwrap_or(&none);
        let sums = [
            path.reads.since(&earlier.reads),
            path.writes.since(&earlier.writes),
            path.others.since(&earlier.others),
        ];
        let activity = Activity {
            name: path.runtime_name.clone(),
            queue: Some(Queue {
                depth: path.queue_depth,
                active: path.active,
                queued: 0,
            }),
            ..of_ios(sums, seconds)
        };
        (path, activity)
    });
    DeviceUse {
        activity,
        paths: paths.collect(),
        device,
    }
}

/// A session with the paths that lead through it.
#[derive(Clone, Debug)]
pub(crate) struct SessionUse<'a> {
    /// Runtime name of the session: `vmhba64:C0:T0`.
    pub(crate) name: String,
    /// Commands on all paths together.
    pub(crate) activity: Activity,
    /// Paths, with their commands.
    pub(crate) paths: Vec<(&'a PathFigures, Activity)>,
}

/// Returns the rates of the sessions, by name.
pub(crate) fn of_sessions<'a>(devices: &[DeviceUse<'a>]) -> Vec<SessionUse<'a>> {
    let mut sessions: Vec<SessionUse<'a>> = Vec::new();
    for (path, activity) in devices.iter().flat_map(|device| &device.paths) {
        let name = session_of(&path.runtime_name);
        let at = sessions.iter().position(|session| session.name == name);
        let at = at.unwrap_or_else(|| {
            sessions.push(SessionUse {
                name: name.to_owned(),
                activity: Activity::default(),
                paths: Vec::new(),
            });
            sessions.len() - 1
        });
        sessions[at].paths.push((*path, activity.clone()));
    }
    for session in &mut sessions {
        session.activity = Activity {
            name: session.name.clone(),
            ..together(session.paths.iter().map(|(_, activity)| activity))
        };
    }
    sessions.sort_by(|a, b| a.name.cmp(&b.name));
    sessions
}

/// Returns the session's part of a path's runtime name: all but the LUN.
fn session_of(runtime_name: &str) -> &str {
    runtime_name
        .rsplit_once(":L")
        .map_or(runtime_name, |(session, _)| session)
}

fn failures(sums: &Counters) -> FailureSums {
    FailureSums {
        commands: sums.failed,
        reads: sums.failed_reads,
        writes: sums.failed_writes,
        read_bytes: sums.failed_read_bytes,
        written_bytes: sums.failed_written_bytes,
        reserves: sums.conflicts,
        aborts: sums.aborts,
        // The initiator resets nothing.
        resets: 0,
    }
}

/// Returns the rates of reads, writes and others.
fn of_ios(sums: [IoSums; 3], seconds: f64) -> Activity {
    let [reads, writes, others] = sums.map(|sums| rates(&sums, seconds));
    let one = |rates: &Rates| Activity {
        reads: rates.clone(),
        ..Activity::default()
    };
    let (of_reads, of_writes, of_others) = (one(&reads), one(&writes), one(&others));
    let both = together([&of_reads, &of_writes].into_iter()).reads;
    let all = together([&of_reads, &of_writes, &of_others].into_iter()).reads;
    Activity {
        interval_s: seconds,
        others_per_s: others.per_s,
        reads,
        writes,
        both,
        all: Rates {
            // Bytes of others are not moved.
            bytes_per_s: of_reads.reads.bytes_per_s + of_writes.reads.bytes_per_s,
            ..all
        },
        ..Activity::default()
    }
}

fn rates(sums: &IoSums, seconds: f64) -> Rates {
    let commands = sums.commands as f64;
    let each = |us: u64| (sums.commands > 0).then(|| us as f64 * 1e3 / commands);
    let busy = |us: u64| us as f64 / 1e6 / seconds;
    Rates {
        per_s: commands / seconds,
        bytes_per_s: sums.bytes as f64 / seconds,
        latency_ns: each(sums.guest_us),
        queue_ns: each(sums.queue_us),
        device_ns: each(sums.device_us),
        waiting: busy(sums.guest_us.saturating_sub(sums.device_us)),
        active: busy(sums.device_us),
        ..Rates::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ios(commands: u64) -> IoSums {
        IoSums {
            commands,
            bytes: commands * 4096,
            guest_us: commands * 150,
            device_us: commands * 100,
            queue_us: commands * 30,
        }
    }

    fn device(reads: u64) -> DeviceFigures {
        let path = |name: &str, reads| PathFigures {
            runtime_name: name.into(),
            queue_depth: 64,
            active: 2,
            reads: ios(reads),
            ..PathFigures::default()
        };
        DeviceFigures {
            name: "naa.1".into(),
            key: 1,
            queue_depth: 128,
            active: 4,
            queued: 1,
            sums: Counters {
                commands: reads,
                reads: ios(reads),
                failed: reads / 10,
                ..Counters::default()
            },
            paths: vec![
                path("vmhba64:C0:T0:L0", reads / 4),
                path("vmhba64:C0:T1:L0", reads * 3 / 4),
            ],
        }
    }

    #[test]
    fn devices_and_sessions_add_their_paths_up() {
        let snapshot = |at_s: u64, reads| Snapshot {
            at_us: at_s * 1_000_000,
            devices: vec![device(reads)],
            ..Snapshot::default()
        };
        let (before, now) = (snapshot(1, 400), snapshot(3, 1200));
        let devices = of_devices(&before, &now);
        let told = &devices[0].activity;
        assert_eq!((told.reads.per_s, told.all.per_s), (400.0, 400.0));
        assert_eq!(told.all.latency_ns, Some(150_000.0));
        assert_eq!(told.all.kernel_ns(), Some(50_000.0));
        assert_eq!(told.all.queue_ns, Some(30_000.0));
        assert_eq!(told.failures.map(|it| it.commands), Some(40.0));
        let sessions = of_sessions(&devices);
        let names: Vec<&str> = sessions.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["vmhba64:C0:T0", "vmhba64:C0:T1"]);
        assert_eq!(sessions[1].activity.reads.per_s, 300.0);
        assert_eq!(sessions[1].activity.queue.map(|it| it.depth), Some(64));
    }
}
