//! Rows of a small target and of a small initiator.

use multipath::{Counters, IoSums};

use super::*;
use model::figures::initiator::{DeviceFigures, PathFigures};
use model::figures::latency::{Latencies, bucket};
use model::figures::network::{InterfaceFigures, InterfaceSums};
use model::figures::{
    CommandSums, KindSums, LunSnapshot, PortGroupSnapshot, SessionSnapshot, UnderWay, UnitSnapshot,
};

const TARGET: &str = "iqn.2026-01.io.sandstone:t";

fn sums(reads: u64) -> KindSums {
    let each = |commands: u64| CommandSums {
        commands,
        bytes: commands << 20,
        wire_in_ns: 0,
        queue_ns: commands * 100_000,
        device_ns: commands * 700_000,
        reply_ns: commands * 200_000,
    };
    KindSums {
        reads: each(reads),
        writes: each(reads / 2),
        others: CommandSums::default(),
    }
}

/// Returns the figures of a target after this many seconds: two hosts, one of them with two
/// sessions, with 100 reads a second on each session.
pub(in super::super) fn target(at_s: u64) -> Sample {
    let session = |tsih: u16, initiator: &str, unit: &str| SessionSnapshot {
        tsih,
        key: tsih.into(),
        initiator: initiator.to_owned(),
        host: initiator.rsplit_once(':').map(|(_, host)| host.to_owned()),
        target: TARGET.to_owned(),
        portal_group: 1,
        queue_depth: 32,
        sums: sums(100 * at_s),
        luns: vec![LunSnapshot {
            lun: 4,
            unit: unit.to_owned(),
            under_way: UnderWay {
                active: 2,
                queued: 1,
            },
            sums: sums(100 * at_s),
        }],
    };
    let unit = |name: &str, reads| UnitSnapshot {
        name: name.to_owned(),
        naa: format!("6e00000000000001000000000000000{}", name.len()),
        under_way: UnderWay {
            active: 4,
            queued: 2,
        },
        sums: sums(reads),
        read_latency: Latencies::of_buckets([(bucket(1_000_000), reads)]),
        ..UnitSnapshot::default()
    };
    let snapshot = Snapshot {
        began_unix_ms: 1_795_320_300_000,
        at_us: at_s * 1_000_000,
        units: vec![unit("vm1", 200 * at_s), unit("db", 100 * at_s)],
        sessions: vec![
            session(1, "iqn.x:esx1", "vm1"),
            session(2, "iqn.x:esx1", "vm1"),
            session(3, "iqn.x:esx2", "db"),
        ],
        port_groups: vec![PortGroupSnapshot {
            target: TARGET.to_owned(),
            portal_group: 1,
            sums: sums(300 * at_s),
            ..PortGroupSnapshot::default()
        }],
        devices: Vec::new(),
        interfaces: vec![InterfaceFigures {
            name: "eth0".to_owned(),
            number: 2,
            portals: vec!["10.0.0.1:3260".to_owned()],
            sums: InterfaceSums {
                sent_packets: 50 * at_s,
                sent_bytes: 125_000 * at_s,
                ..InterfaceSums::default()
            },
            ..InterfaceFigures::default()
        }],
    };
    Sample {
        snapshot,
        pools: Vec::new(),
    }
}

/// Returns the figures of an initiator after this many seconds.
pub(in super::super) fn initiator(at_s: u64) -> Sample {
    let ios = IoSums {
        commands: 10 * at_s,
        bytes: at_s << 20,
        guest_us: 9_000 * at_s,
        device_us: 8_000 * at_s,
        queue_us: 500 * at_s,
    };
    let path = PathFigures {
        runtime_name: "vmhba64:C0:T0:L1".to_owned(),
        portal: "10.0.0.9:3260".to_owned(),
        queue_depth: 64,
        active: 1,
        reads: ios,
        ..PathFigures::default()
    };
    let device = DeviceFigures {
        name: "naa.600".to_owned(),
        key: 1,
        queue_depth: 128,
        active: 1,
        sums: Counters {
            commands: ios.commands,
            reads: ios,
            ..Counters::default()
        },
        paths: vec![path],
        ..DeviceFigures::default()
    };
    Sample {
        snapshot: Snapshot {
            at_us: at_s * 1_000_000,
            devices: vec![device],
            ..Snapshot::default()
        },
        pools: Vec::new(),
    }
}

fn cell(view: View, row: &Row, title: &str) -> String {
    row.cells[view.field(title).expect(title)].text()
}

#[test]
fn every_row_has_a_cell_for_every_column() {
    fn check(view: View, row: &Row) {
        assert_eq!(row.cells.len(), view.fields().len(), "{view:?} {row:?}");
        row.children.iter().for_each(|child| check(view, child));
        row.paths.iter().for_each(|path| check(view, path));
    }
    for view in View::ALL {
        for (side, of) in [
            (Side::Target, target as fn(u64) -> Sample),
            (Side::Initiator, initiator),
        ] {
            rows(view, side, &of(1), &of(3))
                .iter()
                .for_each(|row| check(view, row));
        }
    }
}

#[test]
fn units_have_hosts_and_sessions_beneath() {
    let told = rows(View::Devices, Side::Target, &target(1), &target(3));
    let [vm1, db] = &told[..] else {
        panic!("{told:?}");
    };
    let text = |title| cell(View::Devices, vm1, title);
    assert_eq!(text("DEVICE"), "vm1");
    assert_eq!([text("DQLEN"), text("WQLEN")], ["64", "-"]);
    assert_eq!([text("ACTV"), text("QUED")], ["4", "2"]);
    assert_eq!([text("%USD"), text("LOAD")], ["6.25", "0.09"]);
    assert_eq!([text("CMDS/s"), text("READS/s")], ["300.00", "200.00"]);
    assert_eq!(text("MBWRTN/s"), "100.00");
    let times = ["DAVG/cmd", "KAVG/cmd", "GAVG/cmd", "QAVG/cmd"].map(text);
    assert_eq!(times, ["0.70", "0.30", "1.00", "0.10"]);
    assert_eq!(text("DAVG/rd"), "0.70");
    assert_ne!(text("P99/rd"), "-");
    let [host] = &vm1.children[..] else {
        panic!("{vm1:?}");
    };
    let text = |title| cell(View::Devices, host, title);
    assert_eq!(text("PATH/WORLD/PARTITION"), "esx1");
    assert_eq!([text("DQLEN"), text("WQLEN")], ["-", "64"]);
    assert_eq!(text("READS/s"), "200.00");
    assert_eq!(text("P99/rd"), "-");
    assert_eq!((vm1.paths.len(), db.paths.len()), (2, 1));
    let path = cell(View::Devices, &db.paths[0], "PATH/WORLD/PARTITION");
    assert_eq!(path, "session 3 esx2");
}

#[test]
fn adapters_hosts_and_ports_are_told() {
    let told = rows(View::Adapters, Side::Target, &target(1), &target(3));
    let text = |title| cell(View::Adapters, &told[0], title);
    assert_eq!(text("ADAPTR"), format!("{TARGET},1"));
    assert_eq!([text("NPTH"), text("AQLEN")], ["3", "96"]);
    assert_eq!(text("READS/s"), "300.00");
    let told = rows(View::Hosts, Side::Target, &target(1), &target(3));
    let text = |title| cell(View::Hosts, &told[0], title);
    assert_eq!(
        [text("GID"), text("VMNAME"), text("NVDISK")],
        ["1", "esx1", "1"]
    );
    assert_eq!([text("LAT/rd"), text("WRITES/s")], ["1.00", "100.00"]);
    assert_eq!(
        cell(View::Hosts, &told[0].children[0], "VDEVNAME"),
        "scsi0:4 vm1"
    );
    assert_eq!(told[0].children[0].paths.len(), 2);
    let told = rows(View::Network, Side::Target, &target(1), &target(3));
    let text = |title| cell(View::Network, &told[0], title);
    assert_eq!(text("USED-BY"), "eth0 (10.0.0.1:3260)");
    assert_eq!(
        [text("PKTTX/s"), text("MbTX/s"), text("DNAME")],
        ["50.00", "1.00", "-"]
    );
}

#[test]
fn an_initiator_has_devices_and_sessions() {
    assert_eq!(Side::of(&initiator(1).snapshot), Side::Initiator);
    assert_eq!(Side::of(&target(1).snapshot), Side::Target);
    let told = rows(View::Devices, Side::Initiator, &initiator(1), &initiator(2));
    let text = |title| cell(View::Devices, &told[0], title);
    assert_eq!(
        [text("DQLEN"), text("ACTV"), text("READS/s")],
        ["128", "1", "10.00"]
    );
    let times = ["DAVG/cmd", "KAVG/cmd", "GAVG/cmd", "QAVG/cmd"].map(text);
    assert_eq!(times, ["0.80", "0.10", "0.90", "0.05"]);
    let told = rows(
        View::Adapters,
        Side::Initiator,
        &initiator(1),
        &initiator(2),
    );
    let text = |title| cell(View::Adapters, &told[0], title);
    assert_eq!(
        [text("ADAPTR"), text("PATH")],
        ["vmhba64:C0:T0", "10.0.0.9:3260"]
    );
    assert!(rows(View::Hosts, Side::Initiator, &initiator(1), &initiator(2)).is_empty());
}

#[test]
fn names_of_others_cannot_command_the_terminal() {
    let name = Cell::Words("iqn.x:\u{1b}[2Jevil\r\n".to_owned());
    assert_eq!(name.text(), "iqn.x:?[2Jevil??");
}
