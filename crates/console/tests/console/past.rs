//! Charts of the past: drawn from the history, with a table, and honest about what is not known.

use model::access::Role;
use model::figures::UnitSnapshot;

use crate::rig::{Site, Stream};

/// Records a minute in which the unit had commands.
fn with_a_past() -> Site {
    let site = Site::with_one_of_each();
    let viewer = site.token(Role::Viewer);
    // Snapshots are taken while somebody watches.
    let mut stream = site.watch("view=units&ids=u:db", &viewer);
    minute(&site, &mut stream, 0);
    *site.shown.reads.lock().unwrap() += 60_000;
    minute(&site, &mut stream, 60_000);
    site
}

/// Waits for a snapshot that is a second newer than the last and has at least so many reads, and
/// records it.
fn minute(site: &Site, stream: &mut Stream, reads: u64) {
    let before = site.plane.snapshots.latest().at_us;
    loop {
        stream.event("rows").expect("rows");
        let now = site.plane.snapshots.latest();
        let has_reads = |unit: &UnitSnapshot| unit.sums.reads.commands >= reads;
        if now.at_us > before + 1_000_000 && now.units.iter().any(has_reads) {
            break;
        }
    }
    site.plane.record_history();
}

#[test]
fn a_unit_shows_its_past_with_tables_and_a_choice_of_time() {
    let site = with_a_past();
    let viewer = site.token(Role::Viewer);
    let page = site.get("/units/db", &viewer).body;
    for words in [
        "aria-label=\"Throughput of the last 24 h, in MiB/s\"",
        "24 h ago",
        "Table of Latency of whole commands",
        "href=\"/units/db?span=7d#past\"",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // The line of reads has its one point.
    assert!(page.contains("h6\""), "{page}");
    for (span, label) in [("6h", "6 h"), ("7d", "7 d"), ("30d", "30 d"), ("2y", "2 y")] {
        let page = site.get(&format!("/units/db?span={span}"), &viewer).body;
        let words = format!("Commands of the last {label}, in per second");
        assert!(page.contains(&words), "{span}: {page}");
    }
    let nonsense = site.get("/units/db?span=%22%3E%3Cscript%3E", &viewer);
    assert_eq!(nonsense.status, 200);
    assert!(!nonsense.body.contains("<script>"), "{nonsense:?}");
}

#[test]
fn what_was_not_recorded_is_told_and_not_drawn() {
    let site = Site::with_one_of_each();
    let viewer = site.token(Role::Viewer);
    for path in ["/", "/units/db"] {
        let page = site.get(path, &viewer).body;
        assert!(
            page.contains("Nothing was recorded in this time."),
            "{path}: {page}"
        );
    }
}
