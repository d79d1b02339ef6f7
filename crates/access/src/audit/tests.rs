//! Tests of the audit log: its chain, its files, and power cuts.

use super::*;

const NOW: u64 = 1_800_000_000;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn line(request: &str) -> AuditLine {
    AuditLine {
        at: NOW,
        who: "ann".to_owned(),
        by: "socket".to_owned(),
        request: request.to_owned(),
        result: "done".to_owned(),
        ..AuditLine::default()
    }
}

fn log_of(state: &Path, lines: usize) -> Audit {
    let mut audit = Audit::open(state, NOW);
    for number in 0..lines {
        audit.append(line(&format!("POST /v1/{number}\n\"ä")));
    }
    audit
}

#[test]
fn a_whole_chain_is_whole_after_each_start() {
    let state = folder();
    for start in 0..4_u64 {
        let audit = log_of(state.path(), 3);
        let check = audit.check().expect("reads");
        assert_eq!(check.breaks, Vec::<String>::new());
        assert_eq!(
            (check.first, check.last, check.lines),
            (1, 3 * (start + 1), 3 * (start + 1))
        );
        assert_eq!(audit.notice(), None);
    }
}

#[test]
fn every_changed_removed_or_moved_line_is_found() {
    let state = folder();
    let whole = log_of(state.path(), 6);
    let path = whole.file(0);
    let text = fs::read_to_string(&path).expect("reads");
    let lines: Vec<&str> = text.lines().collect();
    for at in 0..lines.len() {
        let mut changed: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        changed[at] = changed[at].replace("ann", "bob");
        let mut removed = changed.clone();
        removed.remove(at);
        let mut moved: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        moved.swap(at, (at + 1) % lines.len());
        for wrong in [changed, removed, moved] {
            fs::write(&path, wrong.join("\n") + "\n").expect("written");
            let check = whole.check().expect("reads");
            assert!(!check.breaks.is_empty(), "line {at}");
        }
    }
    fs::write(&path, &text).expect("written");
    assert!(whole.check().expect("reads").breaks.is_empty());
}

#[test]
fn a_torn_line_is_removed_at_the_start_and_told() {
    let state = folder();
    let path = log_of(state.path(), 2).file(0);
    let text = fs::read(&path).expect("reads");
    let first = text.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    for cut in first + 1..text.len() {
        fs::write(&path, &text[..cut]).expect("written");
        let audit = Audit::open(state.path(), NOW);
        let check = audit.check().expect("reads");
        assert_eq!(check.breaks, Vec::<String>::new(), "cut at {cut}");
        let newest = audit.newest(None, 9).expect("reads");
        assert_eq!(newest.len(), 2);
        assert!(newest[0].result.contains("torn line"), "{newest:?}");
    }
}

#[test]
fn full_files_make_room_and_the_chain_goes_on() {
    let state = folder();
    let mut audit = Audit::with_full_length(state.path(), NOW, 1000);
    for number in 0..60_u64 {
        audit.append(line("POST /v1/lus"));
        let check = audit.check().expect("reads");
        assert_eq!((check.breaks, check.last), (Vec::new(), number + 1));
    }
    assert_eq!(audit.files().len(), FILES);
    assert!(
        audit
            .files()
            .iter()
            .all(|path| fs::metadata(path).expect("is there").len() <= 1000)
    );
    let check = Audit::with_full_length(state.path(), NOW, 1000)
        .check()
        .expect("reads");
    assert_eq!((check.breaks, check.last), (Vec::new(), 60));
    assert!(check.first > 1);
}

#[test]
fn lines_are_read_page_by_page_from_the_newest() {
    let state = folder();
    let mut audit = Audit::with_full_length(state.path(), NOW, 1000);
    for _ in 0..12 {
        audit.append(line("POST /v1/lus"));
    }
    let numbers = |before, most| -> Vec<u64> {
        let lines = audit.newest(before, most).expect("reads");
        lines.iter().map(|line| line.seq).collect()
    };
    assert_eq!(numbers(None, 5), [12, 11, 10, 9, 8]);
    assert_eq!(numbers(Some(8), 3), [7, 6, 5]);
    assert_eq!(numbers(Some(2), 3), [1]);
}

#[test]
fn a_folder_that_cannot_be_written_is_told_until_it_can() {
    let state = folder();
    let mut audit = Audit::open(state.path(), NOW);
    fs::write(state.path().join("audit"), "a file is in the way").expect("written");
    audit.append(line("POST /v1/lus"));
    assert!(
        audit
            .notice()
            .expect("a notice")
            .contains("cannot be written")
    );
    fs::remove_file(state.path().join("audit")).expect("removed");
    audit.append(line("POST /v1/lus"));
    assert_eq!(audit.notice(), None);
    assert_eq!(audit.check().expect("reads").last, 1);
}
