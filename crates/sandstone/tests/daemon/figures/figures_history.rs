//! History of figures: what was measured over iSCSI is there after a restart, its files never grow,
//! and their damage is told.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::Ordering;

use control::Client;
use control::endpoint::history::{LIST, Period, SHOW};
use control::endpoint::status::STATUS;
use model::backend::BackendSpec;
use model::history::HistoryView;
use model::pool::create::CreatePool;
use testing::wait;

use crate::served::{Served, read, unit};

const INITIATOR: &str = "iqn.2026-01.io.sandstone:tester";

fn served() -> Served {
    Served::start(vec![unit("vm1", 0, BackendSpec::Memory { size: 1 << 20 })])
}

fn client(served: &Served) -> Client {
    Client::new(served.daemon.as_ref().unwrap().control().clone())
}

/// Lets a minute of the history pass. Its interval is measured by real snapshots, so a newer one
/// is waited for: one that has at least this many reads since the start of the daemon.
fn minute(served: &Served, reads: u64) {
    let plane = served.daemon.as_ref().unwrap().plane();
    let before = plane.snapshots.latest().at_us;
    wait::until("the snapshot comes", || {
        let now = plane.snapshots.latest();
        let known = now
            .units
            .iter()
            .map(|unit| unit.sums.reads.commands)
            .sum::<u64>();
        // A figure needs an interval of a second.
        now.at_us > before + 1_000_000 && known >= reads
    });
    served.now_s.fetch_add(60, Ordering::Relaxed);
    plane.record_history();
}

fn view(served: &Served, kind: &str, name: &str) -> HistoryView {
    let asked = client(served).ask(&SHOW, &[kind, name], &Period::default(), &());
    asked.unwrap_or_else(|error| panic!("{kind} {name}: {error}"))
}

/// Returns the reads of a view, by time, without the gaps.
fn reads(view: &HistoryView) -> BTreeMap<u64, f64> {
    let reads = view.series.iter().find(|of| of.name == "reads_per_s");
    let points = view.unix_s.iter().zip(&reads.unwrap().values);
    points
        .filter_map(|(at, value)| Some((*at, (*value)?)))
        .collect()
}

/// Returns the lengths of the files with histories.
fn lengths(served: &Served) -> BTreeMap<String, u64> {
    let files = fs::read_dir(served.folder().join("history/figures")).unwrap();
    let files = files.map(|file| file.unwrap());
    let length = |file: &fs::DirEntry| file.metadata().unwrap().len();
    files
        .map(|file| (file.file_name().into_string().unwrap(), length(&file)))
        .collect()
}

#[test]
fn a_restart_keeps_the_history_and_its_files_never_grow() {
    let mut served = served();
    let begin = served.now_s.load(Ordering::Relaxed);
    let mut connection = served.log_in(1);
    (0..20).for_each(|_| drop(read(&mut connection, 0, 8)));
    minute(&served, 20);
    minute(&served, 20);
    let before = lengths(&served);
    drop(connection);
    served.restart();
    served.now_s.fetch_add(240, Ordering::Relaxed);
    minute(&served, 0);
    for (kind, name) in [
        ("unit", "vm1"),
        ("host", INITIATOR),
        ("port-group", "iqn.2026-01.io.sandstone:test,1"),
    ] {
        let told = reads(&view(&served, kind, name));
        assert!(told[&begin] > 0.0, "{kind}: {told:?}");
        assert_eq!(told[&(begin + 60)], 0.0, "{kind}: {told:?}");
        // While the daemon was down, and while the initiator was away, nothing is known.
        let last = told.last_key_value().map(|(at, _)| at - begin);
        let expected = if kind == "unit" { 360 } else { 60 };
        assert_eq!(last, Some(expected), "{kind}: {told:?}");
        assert!(told.len() <= 3, "{kind}: {told:?}");
    }
    let unit = view(&served, "unit", "vm1");
    let p99 = unit
        .series
        .iter()
        .find(|of| of.name == "read_p99_ns")
        .unwrap();
    assert_eq!(p99.values.iter().flatten().count(), 1);
    for _ in 0..3 {
        served.restart();
        minute(&served, 0);
    }
    assert_eq!(lengths(&served), before);
    let listed = client(&served).call(&LIST, &["unit"]).unwrap();
    assert_eq!((listed.len(), listed[0].is_present), (1, true));
    let error = client(&served).call(&LIST, &["volume"]).unwrap_err();
    assert!(error.next.contains("port-group"), "{error}");
}

#[test]
fn pools_and_their_disks_have_a_history() {
    let served = served();
    let plane = served.daemon.as_ref().unwrap().plane();
    let disk = served.folder().join("disk");
    let vdev: serde_json::Value = serde_json::json!({
        "name": "tank", "vdevs": [{"kind": "disk", "paths": [disk]}], "file_size": 256 << 20,
    });
    let request: CreatePool = serde_json::from_value(vdev).unwrap();
    plane.pools.create(&request).unwrap();
    minute(&served, 0);
    let tank = view(&served, "pool", "tank");
    let last = |name: &str| {
        let series = tank.series.iter().find(|of| of.name == name).unwrap();
        *series.values.last().unwrap()
    };
    let shown = plane.pools.view("tank").unwrap();
    assert_eq!(last("size_bytes"), Some(shown.size as f64));
    assert_eq!(last("promised_bytes"), Some(0.0));
    assert!(last("available_bytes").unwrap() > 0.0);
    assert_eq!(tank.key, shown.guid);
    assert_eq!(tank.outlook, None, "a minute is too little to tell");
    // The disk follows with the first interval of a second in which its pool was open.
    let disks = || client(&served).call(&LIST, &["disk"]).unwrap();
    wait::until("the disk comes", || {
        let is_there = !disks().is_empty();
        if !is_there {
            minute(&served, 0);
        }
        is_there
    });
    let told = view(&served, "disk", disk.to_str().unwrap());
    assert_eq!((disks().len(), &told.key), (1, &disks()[0].key));
    assert_eq!(reads(&told).len(), 1);
}

#[test]
fn a_damaged_file_is_a_notice_and_harms_nothing_else() {
    let mut served = served();
    minute(&served, 0);
    minute(&served, 0);
    served.stop();
    let path = served.folder().join("history/figures/units.rings");
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(100_000);
    fs::write(&path, bytes).unwrap();
    served.restart();
    minute(&served, 0);
    let status = client(&served).call(&STATUS, &[]).unwrap();
    let [notice] = &status.notices[..] else {
        panic!("{:?}", status.notices);
    };
    assert!(notice.contains("units.rings is damaged"), "{notice}");
    assert!(notice.contains("it is cut short"), "{notice}");
    assert!(path.with_extension("rings.damaged").exists());
    assert_eq!(
        reads(&view(&served, "unit", "vm1")).len(),
        3,
        "all was in what is there"
    );
    served.restart();
    minute(&served, 0);
    let status = client(&served).call(&STATUS, &[]).unwrap();
    assert_eq!(status.notices, Vec::<String>::new());
}
