//! Each condition with facts in which it holds, and with facts in which all is well.

use std::sync::Arc;

use super::*;
use crate::facts::{Certificate, Forecast, StateFolder, Unreached};
use crate::journal::RefusedLogins;
use model::data_plane::{ConnectionInfo, PortalStatus, PortalTcp, SessionInfo, UnitStatus};
use model::disk::{DiskHealth, DiskVerdict};
use model::figures::{CommandSums, KindSums, LunSnapshot, SessionSnapshot, Snapshot, UnitSnapshot};
use model::hindrance::{Hindrance, HindranceKind, Stops};
use model::initiator::view::InitiatorDevice;
use model::pool::io::{IoCounts, IoView};
use model::pool::scan::ScanView;
use model::pool::status::{NO_ERRORS, PoolView};
use model::pool::vdev::VdevView;

const DAY_S: u64 = 86_400;
/// Seconds since 1970 of the evaluations.
const NOW_S: u64 = 1_795_000_000;

fn moment(second: u64) -> Moment {
    Moment {
        wall_ms: (NOW_S + second) * 1000,
        run_ms: second * 1000,
    }
}

fn leaf(name: &str) -> VdevView {
    VdevView {
        name: name.to_owned(),
        state: "ONLINE".to_owned(),
        io: Some(IoView::default()),
        ..VdevView::default()
    }
}

fn pool() -> PoolView {
    PoolView {
        name: "tank".to_owned(),
        state: "ONLINE".to_owned(),
        errors: NO_ERRORS.to_owned(),
        size: 1000,
        allocated: 100,
        available: 900,
        open_for_us: Some(1),
        vdevs: vec![VdevView {
            children: vec![leaf("/dev/a"), leaf("/dev/b")],
            ..leaf("mirror-0")
        }],
        ..PoolView::default()
    }
}

fn of_pool(pool: PoolView) -> Facts {
    Facts {
        pools: Arc::new(vec![pool]),
        ..well()
    }
}

fn unit() -> UnitStatus {
    UnitStatus {
        name: "vm1".to_owned(),
        online: true,
        ..UnitStatus::default()
    }
}

fn session(tsih: u16, portal: &str) -> SessionInfo {
    SessionInfo {
        tsih,
        initiator: "iqn.esx1".to_owned(),
        target: Some("iqn.san".to_owned()),
        connections: vec![ConnectionInfo {
            cid: 0,
            local: portal.parse().unwrap(),
            peer: "192.0.2.9:5555".parse().unwrap(),
            header_digest: true,
            data_digest: true,
        }],
        age_s: 3600,
        ..SessionInfo::default()
    }
}

/// Facts of a daemon where all is well.
fn well() -> Facts {
    let portal = PortalStatus {
        address: "192.0.2.1:3260".parse().unwrap(),
        target: "iqn.san".to_owned(),
        tag: 1,
        error: None,
    };
    Facts {
        pools: Arc::new(vec![pool()]),
        scrubbed_s: Arc::new(vec![("tank".to_owned(), NOW_S - 40 * DAY_S)]),
        units: Arc::new(vec![unit()]),
        portals: Arc::new(vec![portal]),
        sessions: Arc::new(vec![session(1, "192.0.2.1:3260")]),
        state_folder: StateFolder {
            path: "/var/lib/sandstone".to_owned(),
            size: 10 << 30,
            available: 5 << 30,
            trouble: None,
        },
        uptime_ms: 10_000,
        clock_error_ms: Some(15_999),
        certificate: Some(Certificate {
            ends_s: NOW_S + 60 * DAY_S,
            is_own: false,
        }),
        forecasts: vec![Forecast {
            pool: "tank".to_owned(),
            soonest_days: 30,
            latest_days: None,
        }],
        refused: vec![RefusedLogins {
            initiator: "iqn.x".to_owned(),
            count: 4,
            ..RefusedLogins::default()
        }],
        ..Facts::default()
    }
}

fn found(watch: &mut Watch, facts: &Facts, second: u64) -> Vec<(&'static str, String)> {
    let found = watch.findings(facts, moment(second));
    found
        .into_iter()
        .map(|it| (it.condition.id, it.object))
        .collect()
}

fn once(facts: &Facts) -> Vec<(&'static str, String)> {
    found(&mut Watch::default(), facts, 0)
}

/// Asserts that exactly this condition holds for this object.
fn holds(facts: &Facts, condition: &'static str, object: &str) {
    assert_eq!(once(facts), [(condition, object.to_owned())]);
}

#[test]
fn where_all_is_well_nothing_is_found() {
    let mut watch = Watch::default();
    for second in 0..1000 {
        assert_eq!(found(&mut watch, &well(), second), []);
    }
    assert_eq!(once(&Facts::default()), []);
}

#[test]
fn states_of_pools() {
    for (state, condition) in [
        ("SUSPENDED", "pool-suspended"),
        ("UNAVAIL", "pool-not-open"),
        ("DEGRADED", "pool-degraded"),
    ] {
        let state = state.to_owned();
        holds(&of_pool(PoolView { state, ..pool() }), condition, "tank");
    }
    let errors = "1 read found no correct copy of a block".to_owned();
    holds(&of_pool(PoolView { errors, ..pool() }), "data-lost", "tank");
    // It is not known of a pool that is not open.
    let absent = PoolView {
        state: "UNAVAIL".to_owned(),
        errors: "unknown while the pool is not open".to_owned(),
        open_for_us: None,
        ..pool()
    };
    holds(&of_pool(absent), "pool-not-open", "tank");
}

#[test]
fn devices_of_pools() {
    let of_leaf = |change: fn(&mut VdevView)| {
        let mut pool = pool();
        change(&mut pool.vdevs[0].children[1]);
        of_pool(pool)
    };
    for state in ["FAULTED", "UNAVAIL", "REMOVED"] {
        let mut pool = pool();
        pool.vdevs[0].children[0].state = state.to_owned();
        holds(&of_pool(pool), "device-faulted", "tank /dev/a");
    }
    // The administrator took it offline.
    assert_eq!(once(&of_leaf(|leaf| leaf.state = "OFFLINE".to_owned())), []);
    let bad = of_leaf(|leaf| leaf.checksum = 3);
    holds(&bad, "checksum-errors", "tank /dev/b");
    let spare = |state: &str| VdevView {
        state: state.to_owned(),
        ..leaf("/dev/s")
    };
    let with = |spares| PoolView { spares, ..pool() };
    assert_eq!(once(&of_pool(with(vec![spare("AVAIL")]))), []);
    let used = once(&of_pool(with(vec![spare("INUSE")])));
    let ids: Vec<_> = used.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, ["spare-in-use", "no-spare-left"]);
    let broken = of_pool(with(vec![spare("UNAVAIL")]));
    holds(&broken, "no-spare-left", "tank");
}

#[test]
fn a_device_whose_pool_closed_is_still_faulted() {
    let mut watch = Watch::default();
    let mut hurt = pool();
    hurt.vdevs[0].children[0].state = "FAULTED".to_owned();
    found(&mut watch, &of_pool(hurt), 0);
    let shut = PoolView {
        state: "SUSPENDED".to_owned(),
        open_for_us: None,
        vdevs: Vec::new(),
        ..pool()
    };
    let ids = found(&mut watch, &of_pool(shut), 1);
    let ids: Vec<_> = ids.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, ["pool-suspended", "device-faulted"]);
    let gone = Facts {
        pools: Arc::default(),
        ..well()
    };
    assert_eq!(found(&mut watch, &gone, 2), []);
}

#[test]
fn disks_that_tell_of_themselves() {
    let with = |verdict| {
        let health = DiskHealth {
            verdict,
            reasons: vec!["2 media errors more than before".to_owned()],
            ..DiskHealth::default()
        };
        Facts {
            disks: [("/dev/disk/by-id/ata-x".to_owned(), health)].into(),
            ..well()
        }
    };
    let disk = "/dev/disk/by-id/ata-x";
    holds(&with(DiskVerdict::Failing), "disk-failing", disk);
    holds(&with(DiskVerdict::Wearing), "disk-wearing", disk);
    assert_eq!(once(&with(DiskVerdict::Well)), []);
    // A disk that cannot be asked is no alert: most machines have one.
    assert_eq!(once(&with(DiskVerdict::Unknown)), []);
}

#[test]
fn errors_that_grow() {
    let mut watch = Watch::default();
    let with = |read: u64| {
        let mut pool = pool();
        pool.vdevs[0].children[0].read = read;
        of_pool(pool)
    };
    // Old errors, and one more, are no growth.
    assert_eq!(found(&mut watch, &with(5), 0), []);
    assert_eq!(found(&mut watch, &with(6), 1), []);
    let grown = found(&mut watch, &with(9), 300);
    assert_eq!(grown, [("device-errors-growing", "tank /dev/a".to_owned())]);
    assert_eq!(found(&mut watch, &with(9), 500), grown);
    assert_eq!(found(&mut watch, &with(9), 602), []);
    // The number was cleared: it begins anew.
    assert_eq!(found(&mut watch, &with(0), 603), []);
    assert_eq!(found(&mut watch, &with(1), 604), []);
}

#[test]
fn a_slow_half_of_a_mirror() {
    let after = |requests: u64, waits_us: [u64; 2]| {
        let mut pool = pool();
        for (leaf, wait_us) in pool.vdevs[0].children.iter_mut().zip(waits_us) {
            let read = IoCounts {
                requests,
                disk_wait_us: requests * wait_us,
                ..IoCounts::default()
            };
            leaf.io = Some(IoView {
                read,
                ..IoView::default()
            });
        }
        of_pool(pool)
    };
    let judged = |requests, waits_us| {
        let mut watch = Watch::default();
        assert_eq!(found(&mut watch, &well(), 0), []);
        assert_eq!(found(&mut watch, &after(requests, waits_us), 59), []);
        found(&mut watch, &after(requests, waits_us), 60)
    };
    let slow = ("slower-than-mirror", "tank /dev/b".to_owned());
    assert_eq!(judged(1000, [1000, 9000]), [slow]);
    // Twice as slow, slow together, both fast, or too little to tell.
    assert_eq!(judged(1000, [4000, 9000]), []);
    assert_eq!(judged(1000, [9000, 9000]), []);
    assert_eq!(judged(1000, [100, 1900]), []);
    assert_eq!(judged(10, [1000, 9000]), []);
}

#[test]
fn space_of_pools() {
    let with = |percent: u64| {
        of_pool(PoolView {
            allocated: percent * 10,
            is_full: percent == 100,
            ..pool()
        })
    };
    assert_eq!(once(&with(79)), []);
    holds(&with(80), "pool-80-percent", "tank");
    holds(&with(90), "pool-90-percent", "tank");
    holds(&with(100), "pool-full", "tank");
    // A pool that breathes about a threshold stays in its state.
    let mut watch = Watch::default();
    let of =
        |watch: &mut Watch, percent| found(watch, &with(percent), percent).first().map(|it| it.0);
    assert_eq!(of(&mut watch, 80), Some("pool-80-percent"));
    assert_eq!(of(&mut watch, 78), Some("pool-80-percent"));
    assert_eq!(of(&mut watch, 76), None);
    assert_eq!(of(&mut watch, 78), None);
    let read_only = PoolView {
        is_read_only: true,
        is_full: true,
        ..pool()
    };
    assert_eq!(once(&of_pool(read_only)), []);
    let soon = Facts {
        forecasts: vec![Forecast {
            pool: "tank".to_owned(),
            soonest_days: 13,
            latest_days: Some(20),
        }],
        ..well()
    };
    holds(&soon, "full-within-14-days", "tank");
}

#[test]
fn promises_of_pools() {
    let with = |promised| of_pool(PoolView { promised, ..pool() });
    assert_eq!(once(&with(3000)), []);
    holds(&with(3001), "pool-promised-too-much", "tank");
}

#[test]
fn old_scrubs() {
    let scrubbed = |days: u64, scan: Option<&str>| Facts {
        scrubbed_s: Arc::new(vec![("tank".to_owned(), NOW_S - days * DAY_S)]),
        ..of_pool(PoolView {
            scan_status: scan.map(|state| ScanView {
                kind: "scrub".to_owned(),
                state: state.to_owned(),
                ..ScanView::default()
            }),
            ..pool()
        })
    };
    assert_eq!(once(&scrubbed(61, None)), []);
    holds(&scrubbed(62, None), "scrub-overdue", "tank");
    holds(&scrubbed(62, Some("canceled")), "scrub-overdue", "tank");
    assert_eq!(once(&scrubbed(62, Some("running"))), []);
}

#[test]
fn units_and_portals() {
    let with = |unit| Facts {
        units: Arc::new(vec![unit]),
        ..well()
    };
    let faulted = UnitStatus {
        fault: Some("its pool is not open".to_owned()),
        ..unit()
    };
    holds(&with(faulted), "unit-faulted", "vm1");
    for (kind, condition) in [
        (HindranceKind::LostWrites, Some("unit-lost-writes")),
        (HindranceKind::SanitizeFailed, Some("unit-lost-writes")),
        (HindranceKind::Full, Some("unit-full")),
        (HindranceKind::Threshold, Some("unit-threshold")),
        (HindranceKind::Offline, None),
        (HindranceKind::PersistentReservation, None),
    ] {
        let hindrance = Hindrance {
            kind,
            stops: Stops::Writes,
            by: None,
            binds_only: None,
            target_port_group: None,
            finding: "so it is".to_owned(),
            end: None,
        };
        let hindered = with(UnitStatus {
            hindrances: vec![hindrance],
            ..unit()
        });
        match condition {
            Some(condition) => holds(&hindered, condition, "vm1"),
            None => assert_eq!(once(&hindered), []),
        }
    }
    let mut unbound = well();
    let mut portal = unbound.portals[0].clone();
    portal.error = Some("address in use".to_owned());
    unbound.portals = Arc::new(vec![portal]);
    holds(&unbound, "portal-not-listening", "192.0.2.1:3260");
}

#[test]
fn commands_that_wait_or_take_long() {
    let after = |commands: u64, queue_ms: u64, device_ms: u64| {
        let sums = CommandSums {
            commands,
            queue_ns: commands * queue_ms * 1_000_000,
            device_ns: commands * device_ms * 1_000_000,
            ..CommandSums::default()
        };
        let sums = KindSums {
            writes: sums,
            ..KindSums::default()
        };
        let unit = UnitSnapshot {
            name: "vm1".to_owned(),
            sums,
            ..UnitSnapshot::default()
        };
        Facts {
            snapshot: Arc::new(Snapshot {
                units: vec![unit],
                ..Snapshot::default()
            }),
            ..well()
        }
    };
    let judged = |commands, queue_ms, device_ms| {
        let mut watch = Watch::default();
        assert_eq!(found(&mut watch, &after(0, 0, 0), 0), []);
        let facts = after(commands, queue_ms, device_ms);
        assert_eq!(found(&mut watch, &facts, 59), []);
        let ids = found(&mut watch, &facts, 60);
        // The unit rests from now on.
        assert_eq!(found(&mut watch, &facts, 120), []);
        ids.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(judged(1000, 0, 19), Vec::<&str>::new());
    assert_eq!(judged(1000, 0, 21), ["davg-high"]);
    assert_eq!(judged(1000, 2, 0), ["kavg-high"]);
    assert_eq!(judged(10, 2, 21), Vec::<&str>::new());
}

#[test]
fn initiators() {
    let mut facts = well();
    let refused = RefusedLogins {
        count: 5,
        ..facts.refused[0].clone()
    };
    facts.refused = vec![refused];
    holds(&facts, "login-refused-repeatedly", "iqn.x");

    let damaged = |digest_errors| Facts {
        sessions: Arc::new(vec![SessionInfo {
            digest_errors,
            ..session(1, "192.0.2.1:3260")
        }]),
        ..well()
    };
    let mut watch = Watch::default();
    assert_eq!(found(&mut watch, &damaged(0), 0), []);
    let hurt = [("digest-errors", "iqn.esx1".to_owned())];
    assert_eq!(found(&mut watch, &damaged(2), 1), hurt);
    assert_eq!(found(&mut watch, &damaged(2), 600), hurt);
    assert_eq!(found(&mut watch, &damaged(2), 601), []);
}

#[test]
fn paths_of_initiators() {
    let with = |portals: &[&str]| {
        let sessions = portals
            .iter()
            .zip(1..)
            .map(|(portal, tsih)| session(tsih, portal));
        Facts {
            sessions: Arc::new(sessions.collect()),
            ..well()
        }
    };
    let (one, two) = ("192.0.2.1:3260", "198.51.100.1:3260");
    let mut watch = Watch::default();
    let lost = [("host-lost-paths", "iqn.esx1".to_owned())];
    assert_eq!(found(&mut watch, &with(&[one, two]), 0), []);
    assert_eq!(found(&mut watch, &with(&[one]), 1), lost);
    // It is off: that is no alert. It comes back with one path.
    assert_eq!(found(&mut watch, &with(&[]), 2), []);
    assert_eq!(found(&mut watch, &with(&[one]), 3), lost);
    // The memory outlives a restart.
    let json = serde_json::to_string(watch.known_paths()).unwrap();
    let mut watch = Watch::restored(serde_json::from_str(&json).unwrap());
    assert_eq!(found(&mut watch, &with(&[one]), 4), lost);
    assert_eq!(found(&mut watch, &with(&[two, one]), 5), []);
    assert_eq!(found(&mut watch, &with(&[two]), 6), lost);
    // It was meant: a day later it is forgotten.
    assert_eq!(found(&mut watch, &with(&[two]), 6 + DAY_S), []);
    // A path that was there for a moment only was never known.
    let mut watch = Watch::default();
    let mut brief = with(&[one, two]);
    Arc::make_mut(&mut brief.sessions)[1].age_s = 5;
    assert_eq!(found(&mut watch, &brief, 0), []);
    assert_eq!(found(&mut watch, &with(&[one]), 1), []);
}

#[test]
fn segments_that_were_sent_again() {
    let address = "192.0.2.1:3260".parse().unwrap();
    let after = |segments, retransmits| {
        let portal = PortalTcp {
            address,
            segments,
            retransmits,
        };
        Facts {
            portal_tcp: Arc::new(vec![portal]),
            ..well()
        }
    };
    let judged = |segments: u64, retransmits: u64| {
        let mut watch = Watch::default();
        // Segments that were sent again before the first look do not count.
        assert_eq!(found(&mut watch, &after(1000, 900), 0), []);
        let facts = after(1000 + segments, 900 + retransmits);
        assert_eq!(found(&mut watch, &facts, 59), []);
        let ids = found(&mut watch, &facts, 60);
        assert_eq!(found(&mut watch, &facts, 119), ids);
        assert_eq!(found(&mut watch, &facts, 120), []);
        ids
    };
    let lossy = ("tcp-retransmits", "192.0.2.1:3260".to_owned());
    assert_eq!(judged(10_000, 11), [lossy]);
    assert_eq!(judged(10_000, 10), []);
    assert_eq!(judged(599, 300), []);
}

#[test]
fn units_with_one_session_left() {
    let with = |units_of_sessions: &[&[&str]]| {
        let lun = |unit: &&str| LunSnapshot {
            unit: (*unit).to_owned(),
            ..LunSnapshot::default()
        };
        let sessions = units_of_sessions.iter().map(|units| SessionSnapshot {
            luns: units.iter().map(lun).collect(),
            ..SessionSnapshot::default()
        });
        let units = ["vm1", "vm2"].map(|name| UnitSnapshot {
            name: name.to_owned(),
            ..UnitSnapshot::default()
        });
        Facts {
            snapshot: Arc::new(Snapshot {
                sessions: sessions.collect(),
                units: units.to_vec(),
                ..Snapshot::default()
            }),
            ..well()
        }
    };
    let left = [("unit-one-path", "vm1".to_owned())];
    let several = |watch: &mut Watch, seconds: u64| {
        for second in 0..=seconds {
            let facts = with(&[&["vm1", "vm2"], &["vm1"]]);
            assert_eq!(found(watch, &facts, second), []);
        }
    };
    let mut watch = Watch::default();
    several(&mut watch, 60);
    assert_eq!(found(&mut watch, &with(&[&["vm1", "vm2"]]), 61), left);
    // Its host is off: that is no alert.
    assert_eq!(found(&mut watch, &with(&[]), 62), []);
    assert_eq!(found(&mut watch, &with(&[&["vm1"]]), 63), left);
    assert_eq!(found(&mut watch, &with(&[&["vm1"]]), 60 + DAY_S), []);
    // A client that looked at it for a moment was no path.
    let mut watch = Watch::default();
    several(&mut watch, 59);
    assert_eq!(found(&mut watch, &with(&[&["vm1"]]), 60), []);
}

#[test]
fn the_daemon_itself() {
    let folder = |size: u64, available: u64, trouble: Option<&str>| {
        let mut facts = well();
        facts.state_folder = StateFolder {
            size,
            available,
            trouble: trouble.map(str::to_owned),
            ..facts.state_folder
        };
        facts
    };
    let path = "/var/lib/sandstone";
    holds(&folder(1 << 30, 10 << 20, None), "state-folder-full", path);
    holds(
        &folder(10 << 30, 400 << 20, None),
        "state-folder-full",
        path,
    );
    assert_eq!(once(&folder(10 << 30, 600 << 20, None)), []);
    // A large file system has enough left.
    assert_eq!(once(&folder(1 << 40, 2 << 30, None)), []);
    let trouble = folder(1 << 40, 1 << 39, Some("read-only file system"));
    holds(&trouble, "state-folder-full", path);
    let noticed = Facts {
        notices: vec!["one".to_owned(), "two".to_owned()],
        ..well()
    };
    holds(&noticed, "state-file-damaged", path);
    let killed = |uptime_ms| Facts {
        killed: Some("the daemon was killed"),
        uptime_ms,
        ..well()
    };
    holds(&killed(1000), "daemon-was-killed", "daemon");
    assert_eq!(once(&killed(3_600_000)), []);
    let silent = Facts {
        silent: vec![("pools", 40_000)],
        ..well()
    };
    holds(&silent, "watch-stalled", "pools");
    for (is_mail, condition) in [(true, "mail-not-reached"), (false, "webhook-not-reached")] {
        let unreached = Unreached {
            way: "desk".to_owned(),
            is_mail,
            error: "connection refused".to_owned(),
            queued: 2,
        };
        let facts = Facts {
            unreached: vec![unreached],
            ..well()
        };
        holds(&facts, condition, "desk");
    }
}

#[test]
fn a_clock_that_no_time_server_sets() {
    let bound_by = |clock_error_ms| Facts {
        clock_error_ms,
        ..well()
    };
    holds(&bound_by(Some(16_000)), "clock-off", "clock");
    // In a container the kernel may not tell.
    assert_eq!(once(&bound_by(None)), []);
    assert_eq!(once(&bound_by(Some(0))), []);
}

#[test]
fn a_certificate_that_ends() {
    let ends = |ends_s, is_own| Facts {
        certificate: Some(Certificate { ends_s, is_own }),
        ..well()
    };
    let told = |ends_s, is_own| {
        let facts = ends(ends_s, is_own);
        holds(&facts, "certificate-ends", "console");
        let finding = Watch::default().findings(&facts, moment(0)).remove(0);
        (finding.text, finding.next)
    };
    let (text, next) = told(NOW_S + 21 * DAY_S, false);
    assert_eq!(text, "It ends in 21 days, at 2026-12-09 11:06 UTC.");
    assert!(next.contains("tls give"), "{next}");
    let (text, next) = told(NOW_S, true);
    assert_eq!(text, "It ended at 2026-11-18 11:06 UTC.");
    assert_eq!(next, "sandstone tls make");
    assert!(told(NOW_S - 1, false).0.starts_with("It ended"));
    assert_eq!(once(&ends(NOW_S + 21 * DAY_S + 1, false)), []);
    let none = Facts {
        certificate: None,
        ..well()
    };
    assert_eq!(once(&none), []);
}

/// Returns a disk of another machine whose paths are dead for these reasons.
fn disk(reasons: &[Option<&str>]) -> InitiatorDevice {
    let ways = reasons.iter().map(|reason| {
        serde_json::json!({
            "target": "iqn.other", "portal": "203.0.113.1:3260", "source": null, "lun": 0,
            "reason": reason,
        })
    });
    serde_json::from_value(serde_json::json!({
        "nmp": {
            "name": "naa.6001", "display_name": "disk", "satp": "VMW_SATP_ALUA",
            "satp_device_config": "", "psp": "VMW_PSP_RR", "psp_device_config": "",
            "working_paths": [], "round_robin": {}, "paths": [],
            "queue": {
                "dqlen": 64, "actv": 0, "qued": 0, "used_percent": 0.0, "load": 0.0, "held": 0,
                "ghosts": 0,
            },
        },
        "ways": ways.collect::<Vec<_>>(), "vendor": "", "model": "", "revision": "",
        "serial": null, "size": 0, "block_size": 512, "max_io": 0, "apd_timeout_s": 140,
        "fence_timeout_ms": null, "fence_settle_ms": 0, "fault": null,
    }))
    .unwrap()
}

#[test]
fn disks_of_other_machines() {
    let with = |reasons: &[Option<&str>]| Facts {
        devices: Arc::new(vec![disk(reasons)]),
        ..well()
    };
    let dead = Some("no answer");
    assert_eq!(once(&with(&[None])), []);
    assert_eq!(once(&with(&[None, None, dead])), []);
    assert_eq!(once(&with(&[])), []);
    holds(&with(&[None, dead]), "device-one-path", "naa.6001");
    holds(&with(&[dead, dead]), "device-no-path", "naa.6001");
    holds(&with(&[dead]), "device-no-path", "naa.6001");
}

#[test]
fn each_condition_is_tested() {
    let text = include_str!("tests.rs");
    for condition in crate::CONDITIONS {
        let name = format!("\"{}\"", condition.id);
        assert!(text.contains(&name), "{name}");
    }
}
