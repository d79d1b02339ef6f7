//! The keeper over real files: restarts, damage, and folders that cannot be written.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::ErrorKind;
use model::figures::{CommandSums, KindSums, Snapshot, UnitSnapshot};
use model::history::HistoryView;
use model::pool::status::PoolView;

use super::*;
use crate::{Clock, History, PoolReading, Readings};

const BEGIN_S: u64 = 1_790_000_040;
const GIB: u64 = 1 << 30;

/// Keeper with a clock that the test turns.
struct Kept {
    history: History,
    now_s: Arc<AtomicU64>,
    /// Seconds since the daemon began.
    up_s: u64,
    reads: u64,
}

impl Kept {
    fn start(folder: &Path, at_s: u64) -> Self {
        let now_s = Arc::new(AtomicU64::new(at_s));
        let clock = Arc::clone(&now_s);
        Self {
            history: History::new(folder, Clock::of(move || clock.load(Ordering::Relaxed))),
            now_s,
            up_s: 0,
            reads: 0,
        }
    }

    /// Lets a minute pass, with this many reads a second, and records it.
    fn minute(&mut self, reads: u64, pools: Option<Vec<PoolReading>>) {
        self.pass(60, reads, pools);
    }

    /// Lets time pass, with this many reads a second, and records its last minute.
    fn pass(&mut self, seconds: u64, reads: u64, pools: Option<Vec<PoolReading>>) {
        self.now_s.fetch_add(seconds, Ordering::Relaxed);
        self.up_s += seconds;
        self.reads += reads * seconds;
        let unit = UnitSnapshot {
            name: "vm1".into(),
            sums: KindSums {
                reads: CommandSums {
                    commands: self.reads,
                    ..CommandSums::default()
                },
                ..KindSums::default()
            },
            ..UnitSnapshot::default()
        };
        let snapshot = Snapshot {
            at_us: self.up_s * 1_000_000,
            units: vec![unit],
            ..Snapshot::default()
        };
        self.history.record(&Readings {
            snapshot: Arc::new(snapshot),
            pools,
            host_of: &|name| name.to_owned(),
        });
    }

    fn view(&self, span: Span) -> HistoryView {
        let view = self.history.view(KIND, "vm1", span);
        view.expect("a history")
    }
}

/// Returns the reads of a view, by time, without the gaps.
fn reads(view: &HistoryView) -> BTreeMap<u64, f64> {
    assert_eq!(view.series[0].name, "reads_per_s");
    let points = view.unix_s.iter().zip(&view.series[0].values);
    points
        .filter_map(|(at, reads)| Some((*at, (*reads)?)))
        .collect()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns the lengths of all files with histories.
fn lengths(folder: &Path) -> BTreeMap<String, u64> {
    let files = fs::read_dir(folder.join("history/figures")).expect("a folder");
    files
        .map(|file| {
            let file = file.expect("a file");
            let length = file.metadata().expect("its length").len();
            (file.file_name().to_string_lossy().into_owned(), length)
        })
        .collect()
}

#[test]
fn a_restart_is_a_gap_and_nothing_else() {
    let folder = folder();
    let mut kept = Kept::start(folder.path(), BEGIN_S);
    (1..=3).for_each(|reads| kept.minute(reads * 10, None));
    let lengths_before = lengths(folder.path());
    let mut kept = Kept::start(folder.path(), BEGIN_S + 300);
    kept.minute(50, None);
    let view = kept.view(Span::SixHours);
    assert_eq!((view.step_s, view.unix_s.len()), (60, 360));
    assert_eq!(view.unix_s.last(), Some(&(BEGIN_S + 300)));
    let expected = [(0, 10.0), (60, 20.0), (120, 30.0), (300, 50.0)];
    let expected = expected.map(|(after, reads)| (BEGIN_S + after, reads));
    assert_eq!(reads(&view), BTreeMap::from(expected));
    assert_eq!(lengths(folder.path()), lengths_before);
    assert_eq!(kept.history.notices(), Vec::<String>::new());
    let error = kept.history.view(KIND, "vm2", Span::SixHours);
    let error = error.expect_err("it is unknown");
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("vm2"), "{error}");
}

#[test]
fn a_damaged_file_is_told_and_set_aside_and_harms_no_other() {
    let folder = folder();
    let mut kept = Kept::start(folder.path(), BEGIN_S);
    (1..=5).for_each(|reads| kept.minute(reads * 10, None));
    let path = folder.path().join("history/figures/units.rings");
    let mut bytes = fs::read(&path).expect("read");
    bytes[4096 + 8192 + 208 * 2 + 40] ^= 1;
    fs::write(&path, &bytes).expect("written");
    for round in 0..2 {
        let mut kept = Kept::start(folder.path(), BEGIN_S + 600);
        kept.minute(60, None);
        let told = kept.history.notices();
        assert_eq!(told.len(), 1 - round, "{told:?}");
        for part in ["units.rings", "units.rings.damaged", "checksum"] {
            assert!(told.iter().all(|told| told.contains(part)), "{told:?}");
        }
        // One of five minutes was in the damaged row.
        assert_eq!(reads(&kept.view(Span::SixHours)).len(), 5);
        assert!(
            kept.history
                .objects(HistoryKind::Pool)
                .expect("read")
                .is_empty()
        );
    }
    let aside = fs::read(path.with_extension("rings.damaged")).expect("read");
    assert_eq!(aside, bytes);
}

#[test]
fn a_foreign_file_is_set_aside_whole() {
    let folder = folder();
    let path = folder.path().join("history/figures/units.rings");
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(&path, "not ours").expect("written");
    let mut kept = Kept::start(folder.path(), BEGIN_S);
    kept.minute(10, None);
    assert_eq!(reads(&kept.view(Span::SixHours)).len(), 1);
    let told = kept.history.notices();
    assert!(told[0].contains("nothing in it can be used"), "{told:?}");
    let aside = fs::read(path.with_extension("rings.damaged")).expect("read");
    assert_eq!(aside, b"not ours");
}

#[test]
fn a_folder_that_cannot_be_used_is_a_notice_until_it_can() {
    let folder = folder();
    // Root may write everywhere, so a file in the place of the folder does it.
    let blocked = folder.path().join("history");
    fs::write(&blocked, "").expect("written");
    let mut kept = Kept::start(folder.path(), BEGIN_S);
    kept.minute(10, None);
    let told = kept.history.notices();
    assert_eq!(told.len(), 1, "one reason: {told:?}");
    assert!(
        told[0].starts_with("units.rings, pools.rings, ") && told[0].contains("cannot be written"),
        "{told:?}"
    );
    let error = kept.history.view(KIND, "vm1", Span::SixHours);
    assert_eq!(error.expect_err("no file").kind, ErrorKind::Unavailable);
    fs::remove_file(&blocked).expect("removed");
    kept.minute(10, None);
    assert_eq!(kept.history.notices(), Vec::<String>::new());
    assert_eq!(reads(&kept.view(Span::SixHours)).len(), 1);
}

#[test]
fn a_pool_has_an_outlook_from_two_days_on() {
    let folder = folder();
    let mut kept = Kept::start(folder.path(), BEGIN_S);
    let pool = |minute: u64| {
        // The pool fills by 14.4 GiB a day.
        let used = 100 * GIB + minute * GIB / 100;
        let view = PoolView {
            name: "tank".into(),
            guid: "f00d".into(),
            size: 1000 * GIB,
            available: 1000 * GIB - used,
            allocated: used,
            open_for_us: Some(minute * 60_000_000),
            ..PoolView::default()
        };
        let reading = PoolReading {
            view,
            promised: None,
        };
        Some(vec![reading])
    };
    for step in 1..=289 {
        kept.pass(600, 1, pool(step * 10));
        let told = kept.history.outlook("f00d", 720 * GIB);
        assert_eq!(told.is_some(), step > 288, "{step}: {told:?}");
    }
    let told = kept.history.outlook("f00d", 720 * GIB).expect("known");
    assert_eq!(told.text, "full in 50 days");
    assert_eq!(kept.history.outlook("other", GIB), None);
    // What was known is known again after a restart, with the first minute.
    let mut kept = Kept::start(folder.path(), BEGIN_S + 2890 * 60);
    kept.minute(1, pool(2891));
    let again = kept.history.outlook("f00d", 720 * GIB).expect("known");
    assert_eq!(again.text, "full in 50 days");
}
