//! Names that other systems chose.
//!
//! Some targets compare them byte by byte, and initiators choose names freely.

use initiator::connection::Connection;
use iscsi::initiator::LoginSettings;
use iscsi::pdu::{Isid, LoginStatus};

use super::{back, front, run, run_words};
use crate::initiator::fake_target::{Admission, FakeTarget, World};
use crate::served::TARGET;

/// Names of targets in the field.
const TARGETS: [&str; 7] = [
    "iqn.2000-01.com.synology:DiskStation.Target-1.f0b0a1",
    "Target-911data",
    "iqn.2015-1.workgroup:RAID.vg0.data1",
    "iqn.2004-04.com.vendor:ts-410:iscsi_backup.c4bb1a",
    "a disk",
    "eui.0200",
    "a/b",
];

/// Returns an array that accepts exactly these names. It lists them all, beside names that nobody
/// can use.
fn array() -> FakeTarget {
    let array = FakeTarget::honest(World::of(&[1 << 20]));
    let here = array.address;
    let mut text = String::new();
    for name in TARGETS {
        text.push_str(&format!("TargetName={name}\0TargetAddress={here},1\0"));
    }
    text.push_str("TargetName=two,names\0TargetAddress=evil:3260,1\0");
    text.push_str("TargetName=far\0TargetAddress=[fe80::1%em1]:3260,1\0");
    let mut told = text.into_bytes();
    told.extend_from_slice(b"TargetName=\x1b[2Jcontrol\0TargetAddress=evil:3260,1\0");
    array.tell(&told);
    array.guard(|_, text| {
        let named = text.split_once("TargetName=").map(|(_, rest)| {
            TARGETS
                .iter()
                .any(|name| rest.starts_with(&format!("{name} SessionType")))
        });
        match named {
            Some(false) => Admission::Refused(LoginStatus::NOT_FOUND),
            Some(true) | None => Admission::Usual,
        }
    });
    array
}

#[test]
fn discovery_lists_every_usable_target_and_reports_the_odd_ones() {
    let array = array();
    let folder = tempfile::tempdir().unwrap();
    let portal = array.address;
    let ran = run(folder.path(), &format!("initiator discover {portal} -H"));
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut expected: Vec<String> = TARGETS.map(|name| format!("{name}\t{portal}\t1")).into();
    expected.sort();
    assert_eq!(ran.out.lines().collect::<Vec<_>>(), expected);
    let told: Vec<&str> = ran.err.lines().collect();
    for name in TARGETS {
        let lines = told.iter().filter(|line| line.contains(name)).count();
        assert_eq!(lines, 1, "{name}: {told:?}");
    }
    for left_out in [
        "left out: target \"two,names\": it holds a comma",
        "left out: target far: none of its addresses can be used",
        "control\": malformed text value",
    ] {
        let lines = told.iter().filter(|line| line.contains(left_out)).count();
        assert_eq!(lines, 1, "{left_out}: {told:?}");
    }
    assert!(
        !ran.err.contains('\x1b') && !ran.out.contains("evil"),
        "{ran:?}"
    );
}

#[test]
fn a_portal_with_nothing_usable_says_so() {
    let array = FakeTarget::honest(World::of(&[1 << 20]));
    array.tell(b"TargetName=a,b\0");
    let folder = tempfile::tempdir().unwrap();
    let error = run(
        folder.path(),
        &format!("initiator discover {}", array.address),
    )
    .bad();
    assert!(
        error.contains("cannot be used") && error.contains("holds a comma"),
        "{error}"
    );
}

#[test]
fn logins_and_urls_use_a_target_name_as_it_is_told() {
    let (array, front) = (array(), front());
    let (state, portal) = (front.folder(), array.address.to_string());
    for name in TARGETS {
        let ran = run_words(state, &["initiator", "login", name, "--portal", &portal]);
        assert!(ran.good().contains("logged in, 1 LUN"), "{name}");
        let sessions = run(state, "initiator session list -H -o target").good();
        assert_eq!(sessions, format!("{name}\n"));
        let again = run_words(state, &["initiator", "login", name, "--portal", &portal]).bad();
        assert!(again.contains("already logged in to"), "{again}");
        run_words(state, &["initiator", "logout", name, "-y"]).good();
        let url = format!("iscsi://{portal}/{name}/0");
        let made = run_words(state, &["lu", "create", "unit", "--backend", &url]);
        assert_eq!(made.code, 0, "{name}: {made:?}");
        run(state, "lu delete unit -y").good();
        run_words(state, &["initiator", "logout", name, "-y"]).good();
    }
    // The array compares bytes, and so do we: a name stays as it was typed.
    let lower = TARGETS[0].to_ascii_lowercase();
    let ran = run_words(state, &["initiator", "login", &lower, "--portal", &portal]).bad();
    assert!(ran.contains("target not found"), "{ran}");
}

fn log_in(portal: std::net::SocketAddr, initiator: &str) -> Result<Connection, String> {
    let isid = Isid([0x80, 0, 0, 0, 0, 7]);
    let settings = LoginSettings::new(initiator, Some(TARGET.to_owned()), isid);
    Connection::open(portal, settings).map_err(|error| error.to_string())
}

#[test]
fn a_host_can_be_made_for_each_initiator_that_may_log_in() {
    let back = back();
    let (state, portal) = (back.folder(), back.portal);
    run(state, "map remove vol --all -y").good();
    run(state, "host create h").good();
    run(state, "map add vol --host h").good();
    for name in [
        "iqn.1991-05.com.microsoft:WIN_1.corp",
        "host1",
        "My Initiator",
        "eui.0200",
        "iqn.2026-01.org.example:Größe",
    ] {
        let why = log_in(portal, name).expect_err(name);
        assert!(why.contains("authorization failure"), "{why}");
        run_words(state, &["host", "add-initiator", "h", name]).good();
        let session = log_in(portal, name).expect(name);
        let shown = run(state, "session list -H -o initiator").good();
        assert_eq!(shown, format!("{name}\n"), "as it was told");
        session.close().unwrap();
        let explained = run_words(state, &["map", "explain", name, "vol"]).good();
        assert!(
            explained.contains(&format!("{name} sees vol as LUN 0")),
            "{explained}"
        );
        // Another spelling is the same initiator, to hosts and exceptions alike.
        let other = name.to_ascii_uppercase();
        log_in(portal, &other).expect(&other).close().unwrap();
        let twice = run_words(state, &["host", "create", "i", "--initiator", &other]).bad();
        assert!(
            twice.contains("an initiator belongs to one host"),
            "{twice}"
        );
        run_words(state, &["host", "remove-initiator", "h", &other, "-y"]).good();
        run_words(
            state,
            &[
                "host",
                "create",
                "all",
                "--initiator",
                "*",
                "--except",
                &other,
            ],
        )
        .good();
        run(state, "map add vol --host all").good();
        log_in(portal, name).expect_err("past an exception");
        run(state, "host delete all -y").good();
    }
    for name in ["a*", "?", "a,b", " a", "a\x7f"] {
        let why = log_in(portal, name).expect_err(name);
        assert!(why.contains("initiator error"), "{name:?}: {why}");
    }
}

#[test]
fn an_imported_target_keeps_the_name_that_its_initiators_know() {
    let back = back();
    let state = back.folder();
    let portal = back.portal;
    let name = "iqn.2004-04.com.vendor:TS-410:iscsi_Backup";
    let shown = run(state, "config show").good();
    let file = state.join("renamed.toml");
    std::fs::write(&file, shown.replace(TARGET, name)).unwrap();
    run_words(state, &["config", "apply", file.to_str().unwrap(), "-y"]).good();
    let told = run(state, &format!("initiator discover {portal} -H")).good();
    assert_eq!(told, format!("{name}\t{portal}\t1\n"));
    let isid = Isid([0x80, 0, 0, 0, 0, 7]);
    for spelled in [name.to_owned(), name.to_ascii_lowercase()] {
        let settings = LoginSettings::new("iqn.2026-01.x:y", Some(spelled), isid);
        let session = Connection::open(portal, settings).unwrap();
        let sessions = run(state, "session list -H -o target").good();
        assert_eq!(sessions, format!("{name}\n"));
        session.close().unwrap();
    }
    let strict = run(state, &format!("target create {name}2")).bad();
    assert!(strict.contains("is not a valid target name"), "{strict}");
}
