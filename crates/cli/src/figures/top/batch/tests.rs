//! The CSV of `top -b`, read by a strict reader, also with names that would break it.

use proptest::prelude::*;

use super::super::rows::tests::{initiator, target};
use super::*;

/// Reads a line as strict readers do: every field quoted, commas between, nothing else.
fn fields(line: &str) -> Vec<String> {
    let inner = line
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let inner = inner.unwrap_or_else(|| panic!("not quoted: {line:?}"));
    let fields: Vec<String> = inner.split("\",\"").map(str::to_owned).collect();
    assert!(fields.iter().all(|field| !field.contains('"')), "{line:?}");
    fields
}

/// Reads the path of a column: machine, category, instance, counter.
fn parts(path: &str) -> [String; 4] {
    let parts: Vec<&str> = path.split('\\').collect();
    let ["", "", machine, object, counter] = parts[..] else {
        panic!("no path of a counter: {path:?}");
    };
    let (category, instance) = object.split_once('(').expect("an instance");
    let instance = instance.strip_suffix(')').expect("an end of the instance");
    assert!(!instance.contains(['(', ')', ',']), "{path:?}");
    [machine, category, instance, counter].map(str::to_owned)
}

/// Checks a header and its rows as a whole, and returns the paths.
fn check(text: &str) -> Vec<[String; 4]> {
    let body = text.strip_suffix('\n').expect("an end of the last line");
    let lines: Vec<&str> = body.split('\n').collect();
    let header = fields(lines[0]);
    assert_eq!(header[0], "(PDH-CSV 4.0) (UTC)(0)");
    let paths: Vec<[String; 4]> = header[1..].iter().map(|path| parts(path)).collect();
    // The columns of an object stand together, and no two columns are the same.
    let mut objects: Vec<_> = paths
        .iter()
        .map(|[_, category, it, _]| (category, it))
        .collect();
    objects.dedup();
    let runs = objects.len();
    objects.sort_unstable();
    objects.dedup();
    assert_eq!(objects.len(), runs);
    let mut unique = paths.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), paths.len());
    for line in &lines[1..] {
        let row = fields(line);
        assert_eq!(row.len(), header.len());
        let time: Vec<char> = row[0]
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        assert_eq!(time.iter().collect::<String>(), "00/00/0000 00:00:00");
        for value in &row[1..] {
            let (whole, decimals) = value.split_once('.').expect("two decimals");
            assert!(decimals.len() == 2 && !whole.is_empty(), "{value}");
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{value}");
        }
    }
    paths
}

fn sheet(side: Side, first: &Snapshot, later: &[(&Snapshot, &Snapshot)]) -> String {
    let columns = Columns::of(&measured(side, &Snapshot::default(), first), "san1");
    let rows = later.iter().map(|(before, now)| {
        columns.row(
            now.began_unix_ms / 1000 + now.at_us / 1_000_000,
            measured(side, before, now),
        )
    });
    columns.header() + &rows.collect::<String>()
}

#[test]
fn header_and_rows_are_those_that_readers_know() {
    let (first, second) = (target(1).snapshot, target(3).snapshot);
    let text = sheet(Side::Target, &first, &[(&first, &second)]);
    let paths = check(&text);
    let objects: Vec<String> = paths
        .iter()
        .map(|[_, category, it, _]| format!("{category}({it})"))
        .collect();
    let mut distinct = objects.clone();
    distinct.dedup();
    assert_eq!(
        distinct,
        [
            "Physical Disk Adapter(iqn.2026-01.io.sandstone:t_1)",
            "Physical Disk SCSI Device(naa.6e000000000000010000000000000003)",
            "Physical Disk SCSI Device(naa.6e000000000000010000000000000002)",
            "Virtual Disk(esx1:scsi0:4)",
            "Virtual Disk(esx2:scsi0:4)",
            "Network Port(vSwitch0:2:eth0)",
        ]
    );
    let start = "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\san1\\Physical Disk Adapter(iqn.2026-01.io.sandstone:t_1)\\Adapter Q Depth\",\
                 \"\\\\san1\\Physical Disk Adapter(iqn.2026-01.io.sandstone:t_1)\\Commands/sec\",";
    assert!(text.starts_with(start), "{text}");
    let row = fields(text.lines().nth(1).expect("a row"));
    assert_eq!(row[0], "11/22/2026 04:05:03");
    let value = |instance: &str, counter: &str| {
        let is_it = |[_, _, it, of]: &[String; 4]| it == instance && of == counter;
        let at = paths.iter().position(is_it).expect("a column");
        row[1 + at].clone()
    };
    let vm1 = "naa.6e000000000000010000000000000003";
    for (counter, expected) in [
        ("Device Q Depth", "64.00"),
        ("World Q Depth", "0.00"),
        ("Active Commands", "4.00"),
        ("Queued Commands", "2.00"),
        ("% Used", "6.25"),
        ("Commands/sec", "300.00"),
        ("Reads/sec", "200.00"),
        ("MBytes Written/sec", "100.00"),
        ("Average Driver MilliSec/Command", "0.70"),
        ("Average Kernel MilliSec/Read", "0.30"),
        ("Average Guest MilliSec/Write", "1.00"),
        ("Average Queue MilliSec/Write", "0.10"),
        ("Failed Commands/sec", "0.00"),
        ("Resets/sec", "0.00"),
    ] {
        assert_eq!(value(vm1, counter), expected, "{counter}");
    }
    assert_eq!(value("esx1:scsi0:4", "Average MilliSec/Read"), "1.00");
    assert_eq!(value("esx1:scsi0:4", "Reads/sec"), "200.00");
    assert_eq!(value("vSwitch0:2:eth0", "MBits Transmitted/sec"), "1.00");
}

#[test]
fn an_initiator_has_sessions_paths_and_devices() {
    let (first, second) = (initiator(1).snapshot, initiator(3).snapshot);
    let text = sheet(Side::Initiator, &first, &[(&first, &second)]);
    let mut categories: Vec<String> = check(&text).into_iter().map(|[_, it, ..]| it).collect();
    categories.dedup();
    let expected = [
        "Physical Disk Adapter",
        "Physical Disk Path",
        "Physical Disk SCSI Device",
    ];
    assert_eq!(categories, expected);
}

#[test]
fn what_goes_away_counts_as_zero_and_what_comes_is_not_told() {
    let (first, second) = (target(1).snapshot, target(3).snapshot);
    let mut third = target(4).snapshot;
    third.units.remove(0);
    let mut new = third.units[0].clone();
    new.name = "new".to_owned();
    new.naa = "77".to_owned();
    third.units.push(new);
    let text = sheet(
        Side::Target,
        &first,
        &[(&first, &second), (&second, &third)],
    );
    let paths = check(&text);
    assert!(!text.contains("naa.77"));
    let at = paths
        .iter()
        .position(|[_, _, it, of]| it.ends_with("03") && of == "Reads/sec");
    let at = 1 + at.expect("a column");
    let value = |line| fields(text.lines().nth(line).expect("a row"))[at].clone();
    assert_eq!([value(1), value(2)], ["200.00", "0.00"]);
}

#[test]
fn counters_of_all_categories_have_as_many_values() {
    for side in [Side::Target, Side::Initiator] {
        for sample in [target(2), initiator(2)] {
            for of in measured(side, &Snapshot::default(), &sample.snapshot) {
                assert_eq!(of.values.len(), of.counters.len(), "{of:?}");
                assert!(of.counters.iter().all(|counter| !counter.is_empty()));
            }
        }
    }
}

proptest! {
    /// Names that hosts, targets and the system choose never break the file.
    #[test]
    fn hostile_names_break_nothing(
        names in proptest::collection::vec("[\"\\\\,()\n\r\t\u{0}%a;:'\u{fc}]{0,12}", 6),
        machine in "[\"\\\\,()\na]{0,6}",
    ) {
        let mut first = target(1).snapshot;
        for (session, name) in first.sessions.iter_mut().zip(&names) {
            session.initiator.clone_from(name);
            session.host = None;
        }
        first.port_groups[0].target.clone_from(&names[3]);
        first.units[0].naa.clone_from(&names[4]);
        first.units[1].naa.clone_from(&names[4]);
        first.interfaces[0].name.clone_from(&names[5]);
        first.interfaces[0].bridge = Some(names[2].clone());
        let columns = Columns::of(&measured(Side::Target, &Snapshot::default(), &first), &machine);
        let row = columns.row(0, measured(Side::Target, &Snapshot::default(), &first));
        check(&(columns.header() + &row));
    }
}
