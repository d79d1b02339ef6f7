//! A machine that has one of everything, with names that break what does not escape them; and a
//! large one.

use std::sync::Arc;

use super::Reading;
use model::alert::AlertView;
use model::config::{Config, HostSpec};
use model::data_plane::{ConnectionInfo, PortalStatus, PortalTcp, SessionInfo, UnitStatus};
use model::figures::latency::{Latencies, bucket};
use model::figures::{
    CommandSums, KindSums, LatencyByStage, LunSnapshot, PortGroupSnapshot, SessionSnapshot,
    Snapshot, UnitSnapshot,
};
use model::health::Health;
use model::hindrance::{Hindrance, HindranceKind, Stops};
use model::initiator::view::{InitiatorDevice, InitiatorPath, InitiatorSession};
use model::pool::io::{IoCounts, IoView};
use model::pool::outlook::FillOutlook;
use model::pool::scan::ScanView;
use model::pool::status::{NO_ERRORS, PoolView};
use model::pool::vdev::{CacheView, LogView, VdevView};
use multipath::{DeviceSnapshot, PathSnapshot, Psp, QueueSnapshot, RoundRobin, Satp};

/// A name with everything that the formats have to escape, and what they look like.
pub(super) const HOSTILE: &str =
    "a\"b\\c\nd} 1\n# TYPE sandstone_evil counter\nsandstone_evil{x=\"\u{fc}\",";

fn latencies(count: u64, ns: u64) -> Latencies {
    Latencies::of_buckets([(bucket(ns), count)])
}

fn kind_sums(commands: u64) -> KindSums {
    let sums = CommandSums {
        commands,
        bytes: commands * 4096,
        wire_in_ns: 0,
        queue_ns: commands * 100_000,
        device_ns: commands * 400_000,
        reply_ns: commands * 100_000,
    };
    KindSums {
        reads: sums,
        writes: sums,
        others: sums,
    }
}

fn unit_snapshot(name: &str) -> UnitSnapshot {
    UnitSnapshot {
        name: name.to_owned(),
        sums: kind_sums(10),
        errors: 1,
        read_latency: latencies(10, 600_000),
        write_latency: latencies(10, 600_000),
        ..UnitSnapshot::default()
    }
}

fn session_snapshot(tsih: u16, initiator: &str, unit: &str) -> SessionSnapshot {
    SessionSnapshot {
        tsih,
        key: tsih.into(),
        initiator: initiator.to_owned(),
        target: HOSTILE.to_owned(),
        portal_group: 1,
        sums: kind_sums(10),
        luns: vec![LunSnapshot {
            lun: 0,
            unit: unit.to_owned(),
            sums: kind_sums(10),
            ..LunSnapshot::default()
        }],
        ..SessionSnapshot::default()
    }
}

fn session_info(tsih: u16, initiator: &str) -> SessionInfo {
    SessionInfo {
        tsih,
        initiator: initiator.to_owned(),
        alias: Some(HOSTILE.to_owned()),
        target: Some(HOSTILE.to_owned()),
        portal_group: 1,
        connections: vec![ConnectionInfo {
            cid: 0,
            local: "[2001:db8::1]:3260".parse().unwrap(),
            peer: "[2001:db8::2]:40000".parse().unwrap(),
            header_digest: true,
            data_digest: true,
        }],
        in_flight: 3,
        digest_errors: 1,
        ..SessionInfo::default()
    }
}

fn unit_status(name: &str) -> UnitStatus {
    UnitStatus {
        name: name.to_owned(),
        online: true,
        size: 1 << 30,
        allocated: Some(1 << 20),
        available: Some(1 << 29),
        ..UnitStatus::default()
    }
}

fn by_stage() -> LatencyByStage {
    LatencyByStage {
        whole: latencies(10, 600_000),
        wire_in: latencies(10, 0),
        queue: latencies(10, 100_000),
        device: latencies(10, 400_000),
        reply: latencies(10, 100_000),
    }
}

fn io() -> IoView {
    let counts = IoCounts {
        operations: 5,
        bytes: 5 * 4096,
        requests: 5,
        disk_wait_us: 500,
        total_wait_us: 700,
    };
    IoView {
        read: counts,
        write: counts,
    }
}

fn vdev(name: &str, state: &str) -> VdevView {
    VdevView {
        name: name.to_owned(),
        guid: Some("00ff".to_owned()),
        state: state.to_owned(),
        allocated: Some(1 << 20),
        free: Some(1 << 30),
        io: Some(io()),
        checksum: 2,
        ..VdevView::default()
    }
}

fn pool() -> PoolView {
    let mirror = VdevView {
        guid: None,
        children: vec![
            vdev(HOSTILE, "ONLINE"),
            vdev("/dev/disk/by-id/b", "FAULTED"),
        ],
        ..vdev("mirror-0", "DEGRADED")
    };
    PoolView {
        name: HOSTILE.to_owned(),
        guid: "00aa".to_owned(),
        state: "DEGRADED".to_owned(),
        errors: NO_ERRORS.to_owned(),
        scan_status: Some(ScanView {
            kind: "scrub".to_owned(),
            state: "finished".to_owned(),
            started_s: 1_790_000_000,
            ended_s: 1_790_000_100,
            ..ScanView::default()
        }),
        size: 1 << 31,
        free: 1 << 30,
        promised: 1 << 33,
        fragmentation: Some(5),
        outlook: Some(FillOutlook::new([1e9, 2e9, 3e9], 1 << 30, 200_000)),
        open_for_us: Some(1),
        vdevs: vec![mirror],
        logs: vec![VdevView {
            log: Some(LogView::default()),
            ..vdev("/log", "ONLINE")
        }],
        caches: vec![VdevView {
            cache: Some(CacheView::default()),
            ..vdev("/cache", "ONLINE")
        }],
        spares: vec![VdevView {
            state: "INUSE".to_owned(),
            name: "/spare".to_owned(),
            ..VdevView::default()
        }],
        ..PoolView::default()
    }
}

fn device() -> InitiatorDevice {
    InitiatorDevice {
        nmp: DeviceSnapshot {
            name: "naa.6001".to_owned(),
            display_name: HOSTILE.to_owned(),
            satp: Satp::Alua,
            satp_device_config: String::new(),
            psp: Psp::RoundRobin,
            psp_device_config: String::new(),
            working_paths: Vec::new(),
            round_robin: RoundRobin::default(),
            paths: vec![PathSnapshot {
                uid: String::new(),
                runtime_name: "vmhba64:C0:T0:L0".to_owned(),
                group_state: "active unoptimized".to_owned(),
                satp_path_config: String::new(),
                psp_path_config: String::new(),
                active: 1,
                window: 32,
                latency_us: 250.0,
            }],
            queue: QueueSnapshot {
                dqlen: 128,
                actv: 1,
                qued: 0,
                used_percent: 1.0,
                load: 0.0,
                held: 0,
                ghosts: 0,
            },
        },
        ways: vec![InitiatorPath {
            target: HOSTILE.to_owned(),
            portal: "192.0.2.9:3260".to_owned(),
            source: None,
            lun: Some(0),
            reason: None,
        }],
        vendor: HOSTILE.to_owned(),
        model: HOSTILE.to_owned(),
        revision: String::new(),
        serial: None,
        size: 1 << 30,
        block_size: 512,
        max_io: 1 << 20,
        apd_timeout_s: 140,
        fence_timeout_ms: None,
        fence_settle_ms: 0,
        fault: None,
    }
}

/// Returns a machine that has one of everything.
pub(super) fn everything() -> (Reading, Snapshot) {
    let mut config = Config::default();
    config.hosts.push(HostSpec {
        name: HOSTILE.to_owned(),
        initiators: vec!["*".to_owned()],
        except: Vec::new(),
        chap: None,
    });
    let mut unit = unit_status(HOSTILE);
    unit.hindrances.push(Hindrance {
        kind: HindranceKind::Threshold,
        stops: Stops::Nothing,
        by: None,
        binds_only: None,
        target_port_group: None,
        finding: String::new(),
        end: None,
    });
    let portal = "[2001:db8::1]:3260".parse().unwrap();
    let reading = Reading {
        health: Some(Health::Attention),
        alerts: vec![AlertView {
            condition: "pool-degraded".to_owned(),
            object: HOSTILE.to_owned(),
            ..AlertView::default()
        }],
        config: Arc::new(config),
        units: vec![unit],
        pools: vec![pool()],
        sessions: vec![session_info(7, HOSTILE)],
        portals: vec![PortalStatus {
            address: portal,
            target: HOSTILE.to_owned(),
            tag: 1,
            error: None,
        }],
        portal_tcp: vec![PortalTcp {
            address: portal,
            segments: 1000,
            retransmits: 1,
        }],
        initiator_sessions: vec![InitiatorSession {
            target: HOSTILE.to_owned(),
            portal: "192.0.2.9:3260".to_owned(),
            ..InitiatorSession::default()
        }],
        initiator_devices: vec![device()],
        ..Reading::default()
    };
    let snapshot = Snapshot {
        began_unix_ms: 1_790_000_000_000,
        units: vec![unit_snapshot(HOSTILE)],
        sessions: vec![session_snapshot(7, HOSTILE, HOSTILE)],
        port_groups: vec![PortGroupSnapshot {
            target: HOSTILE.to_owned(),
            portal_group: 1,
            sums: kind_sums(10),
            reads_by_stage: by_stage(),
            writes_by_stage: by_stage(),
            ..PortGroupSnapshot::default()
        }],
        ..Snapshot::default()
    };
    (reading, snapshot)
}

/// Returns a machine with this many units and sessions, beside one of everything else.
pub(super) fn large(units: u16, sessions: u16) -> (Reading, Snapshot) {
    let (mut reading, mut snapshot) = everything();
    let name = |number| format!("unit-{number:04}");
    let iqn = |number| format!("iqn.1998-01.com.vmware:esx-{number:04}");
    reading.units = (0..units).map(|of| unit_status(&name(of))).collect();
    snapshot.units = (0..units).map(|of| unit_snapshot(&name(of))).collect();
    let tsihs = 1..=sessions;
    reading.sessions = tsihs.clone().map(|of| session_info(of, &iqn(of))).collect();
    snapshot.sessions = tsihs
        .map(|of| session_snapshot(of, &iqn(of), &name(of % units)))
        .collect();
    (reading, snapshot)
}
