//! A unit keeps its identity and its maps whatever happens to its data.
//!
//! The unit is rolled back, renamed, and moved to another pool or another back end.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

use initiator::connection::Connection;

use crate::pools::life::{log_in, pattern};
use crate::process::Process;
use crate::served::{BLOCK, TARGET, cdb, free_portal, read, sense, test_unit_ready, write};

/// Daemon with a unit `l1` on a volume `tank/v1` of 64M, shown to everybody.
///
/// The pool `tank` has one file.
struct Bench {
    process: Process,
    portal: SocketAddr,
}

impl Bench {
    fn new() -> Self {
        let process = Process::start();
        let portal = free_portal();
        process.done("pool create --size 256M tank a");
        process.done("volume create -s -V 64M tank/v1");
        process.done("lu create l1 --volume tank/v1");
        process.done(&format!("target create {TARGET} --portal {portal}"));
        process.done(&format!(
            "map add l1 --every-host --target {TARGET} --lun 0"
        ));
        Self { process, portal }
    }

    fn backend(&self) -> String {
        self.process
            .done("lu list -H -o backend l1")
            .trim()
            .to_owned()
    }

    /// Returns author, summary and command of the newest generation.
    fn last_change(&self) -> String {
        let history = "config history -H -p -o author,summary,command";
        let history = self.process.done(history);
        history.lines().last().unwrap().to_owned()
    }

    /// Returns the answer to a PATCH.
    fn patch(&self, path: &str, body: &str) -> String {
        let socket = self.process.folder().join("control.sock");
        let mut stream = UnixStream::connect(socket).unwrap();
        let length = body.len();
        let request = format!(
            "PATCH {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: \
             {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Returns the identity by which hosts know the disk, and the maps.
    fn identity(&self) -> String {
        self.process.done("lu list -H -o naa,serial,maps l1") + &self.process.done("map list -H")
    }
}

/// Returns all waiting unit attentions; then the unit is GOOD.
fn attentions(session: &mut Connection) -> Vec<[u8; 2]> {
    let mut heard = Vec::new();
    while let Some([key, code, qualifier]) = test_unit_ready(session) {
        assert_eq!(key, 6, "{code:02x}/{qualifier:02x}");
        heard.push([code, qualifier]);
    }
    heard
}

const INQUIRY_DATA: [u8; 2] = [0x3f, 0x03];
const CAPACITY_DATA: [u8; 2] = [0x2a, 0x09];

/// Returns the size in bytes from READ CAPACITY(16).
fn capacity(session: &mut Connection) -> u64 {
    let mut command = cdb(0x9e, 0, 32);
    command[1] = 0x10;
    let told = session.read(0, &command, 32).unwrap();
    assert_eq!(sense(&told), None, "{told:?}");
    let last = u64::from_be_bytes(told.data_in[..8].try_into().unwrap());
    (last + 1) * BLOCK as u64
}

fn holds(session: &mut Connection, tag: u8) {
    assert_eq!(read(session, 0, 64), pattern(tag)[..64 * BLOCK], "{tag}");
}

#[test]
fn offline_is_enough_for_a_rollback_and_hosts_hear_of_it() {
    let bench = Bench::new();
    let process = &bench.process;
    let mut session = log_in(bench.portal);
    assert_eq!(sense(&write(&mut session, 0, &pattern(1))), None);
    process.done("volume snapshot tank/v1@b");
    assert_eq!(sense(&write(&mut session, 0, &pattern(2))), None);
    let before = bench.identity();
    let refused = process.refused("volume rollback tank/v1@b");
    assert!(refused.contains("sandstone lu offline l1"), "{refused}");
    assert!(
        !refused.contains("delete"),
        "it drops identity and maps: {refused}"
    );
    process.done("lu offline -y l1");
    process.done("volume rollback tank/v1@b");
    process.done("lu online l1");
    let heard = attentions(&mut session);
    assert!(
        heard.contains(&INQUIRY_DATA) && heard.contains(&CAPACITY_DATA),
        "{heard:x?}"
    );
    holds(&mut session, 1);
    assert_eq!(bench.identity(), before);
}

/// A snapshot has another size: the unit has the size of its volume.
#[test]
fn a_rollback_to_another_size_is_told() {
    let bench = Bench::new();
    let process = &bench.process;
    process.done("volume snapshot tank/v1@small");
    process.done("volume set volsize=80M tank/v1");
    let mut session = log_in(bench.portal);
    assert_eq!(capacity(&mut session), 80 << 20);
    process.done("lu offline -y l1");
    process.done("volume rollback tank/v1@small");
    process.done("lu online l1");
    attentions(&mut session);
    assert_eq!(capacity(&mut session), 64 << 20);
}

#[test]
fn what_cannot_be_taken_from_a_unit_is_refused_with_advice_that_keeps_the_disk() {
    let bench = Bench::new();
    let process = &bench.process;
    process.done("volume snapshot tank/v1@b");
    process.done("volume create -s -V 64M tank/other");
    for line in [
        "volume destroy -y -r tank/v1",
        "pool destroy -y tank",
        "pool export tank",
    ] {
        let refused = process.refused(line);
        assert!(
            refused.contains("sandstone lu modify l1 --volume POOL/NAME"),
            "{line}: {refused}"
        );
        assert!(!refused.contains("lu delete"), "{line}: {refused}");
    }
    let preview = process.done("pool destroy -n tank");
    assert!(!preview.contains("lu delete"), "{preview}");
    let before = bench.identity();
    process.done("lu modify l1 --volume tank/other");
    process.done("volume destroy -y -r tank/v1");
    assert_eq!(bench.identity(), before);
}

#[test]
fn units_follow_renamed_volumes_folders_and_snapshots_without_a_word_to_hosts() {
    let mut bench = Bench::new();
    let process = &bench.process;
    let mut session = log_in(bench.portal);
    assert_eq!(sense(&write(&mut session, 0, &pattern(1))), None);
    process.done("volume rename tank/v1 tank/v2");
    assert_eq!(bench.backend(), "tank/v2");
    process.done("volume rename -p tank/v2 tank/deep/er/v3");
    process.done("volume rename tank/deep tank/flat");
    assert_eq!(bench.backend(), "tank/flat/er/v3");
    assert_eq!(attentions(&mut session), [[0_u8; 2]; 0]);
    holds(&mut session, 1);
    // A new volume of the old name is another volume.
    process.done("volume create -s -V 64M tank/v1");
    assert_eq!(bench.backend(), "tank/flat/er/v3");
    process.done("volume snapshot tank/flat/er/v3@s");
    process.done("lu create ro --volume tank/flat/er/v3@s --read-only");
    process.done("volume rename tank/flat/er/v3@s @t");
    assert_eq!(
        process.done("lu list -H -o backend ro"),
        "tank/flat/er/v3@t\n"
    );
    process.done("volume clone tank/flat/er/v3@t tank/clone");
    process.done("volume promote tank/clone");
    assert_eq!(process.done("lu list -H -o backend ro"), "tank/clone@t\n");
    bench.process.kill();
    bench.process.restart();
    assert_eq!(bench.backend(), "tank/flat/er/v3");
    holds(&mut log_in(bench.portal), 1);
}

#[test]
fn a_unit_that_follows_its_volume_has_the_author_of_the_rename_in_the_history() {
    let bench = Bench::new();
    let earlier = bench.last_change();
    let (me, _) = earlier.split_once('\t').unwrap();
    assert!(!["the daemon", "unknown"].contains(&me), "{earlier}");
    bench.process.done("volume rename tank/v1 tank/v2");
    let told = bench.last_change();
    let begin = format!("{me}\tlu l1 changed: backend");
    assert!(told.starts_with(&begin), "{told}");
    assert!(told.contains("volume rename tank/v1 tank/v2"), "{told}");
}

/// A configuration from before a rename has the old name.
#[test]
fn a_unit_stays_on_its_volume_where_the_configuration_goes_back_behind_a_rename() {
    let bench = Bench::new();
    let process = &bench.process;
    let mut session = log_in(bench.portal);
    assert_eq!(sense(&write(&mut session, 0, &pattern(1))), None);
    let status: serde_json::Value = serde_json::from_str(&process.done("status --json")).unwrap();
    let generation = &status["generation"];
    process.done("volume rename tank/v1 tank/v2");
    process.done("lu modify l1 --threshold 80");
    process.done("volume create -s -V 64M tank/v1");
    process.done(&format!("config rollback {generation} --yes"));
    assert_eq!(bench.backend(), "tank/v2");
    assert_eq!(process.done("lu list -H -o threshold l1"), "-\n");
    attentions(&mut session);
    holds(&mut session, 1);
}

/// The power fails between the rename and the change of the configuration.
///
/// The daemon then finds the configuration from before the rename.
#[test]
fn a_unit_follows_where_the_daemon_died_before_it_noted_the_name() {
    let mut bench = Bench::new();
    let mut session = log_in(bench.portal);
    assert_eq!(sense(&write(&mut session, 0, &pattern(1))), None);
    drop(session);
    let folder = bench.process.folder().to_owned();
    let kept = ["config.toml", "history"];
    let aside = tempfile::tempdir().unwrap();
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        for name in kept {
            let copied = std::process::Command::new("cp")
                .arg("-a")
                .arg(from.join(name))
                .arg(to)
                .status();
            assert!(copied.unwrap().success());
        }
    };
    copy(&folder, aside.path());
    bench.process.done("volume rename tank/v1 tank/v2");
    // The new volume takes the old name at the worst moment.
    bench.process.done("volume create -s -V 64M tank/v1");
    bench.process.kill();
    std::fs::remove_dir_all(folder.join("history")).unwrap();
    copy(aside.path(), &folder);
    bench.process.restart();
    assert_eq!(bench.backend(), "tank/v2");
    let told = bench.last_change();
    let begin = "the daemon\tlu l1 changed: backend";
    assert!(told.starts_with(begin), "{told}");
    holds(&mut log_in(bench.portal), 1);
}

#[test]
fn units_follow_a_pool_that_is_imported_under_another_name() {
    let bench = Bench::new();
    let process = &bench.process;
    let mut session = log_in(bench.portal);
    assert_eq!(sense(&write(&mut session, 0, &pattern(1))), None);
    let before = bench.identity();
    process.done("pool export -f tank");
    let folder = process.folder().display().to_string();
    process.done(&format!("pool import -d {folder} tank renamed"));
    assert_eq!(bench.backend(), "renamed/v1");
    assert_eq!(bench.identity(), before);
    assert_eq!(process.done("lu list -H -o state l1"), "online\n");
    let heard = attentions(&mut session);
    assert!(
        heard.contains(&INQUIRY_DATA) && heard.contains(&CAPACITY_DATA),
        "{heard:x?}"
    );
    holds(&mut session, 1);
}

#[test]
fn a_unit_is_pointed_to_other_data_and_stays_the_disk_that_hosts_know() {
    let mut bench = Bench::new();
    let process = &bench.process;
    process.done("volume create -s -V 96M tank/v2");
    let mut session = log_in(bench.portal);
    assert_eq!(sense(&write(&mut session, 0, &pattern(1))), None);
    let before = bench.identity();
    // A host has it mounted: the command asks for confirmation.
    let refused = process.refused("lu modify l1 --volume tank/v2");
    assert!(
        refused.contains("finds other data behind LUN 0"),
        "{refused}"
    );
    assert!(refused.contains("--yes"), "{refused}");
    process.done("lu modify l1 --volume tank/v2 --yes");
    let heard = attentions(&mut session);
    assert!(
        heard.contains(&INQUIRY_DATA) && heard.contains(&CAPACITY_DATA),
        "{heard:x?}"
    );
    assert_eq!(capacity(&mut session), 96 << 20);
    assert_eq!(read(&mut session, 0, 64), vec![0; 64 * BLOCK]);
    assert_eq!(sense(&write(&mut session, 0, &pattern(2))), None);
    drop(session);
    std::fs::write(process.folder().join("f.img"), vec![0; 96 << 20]).unwrap();
    // The session may still be known for a moment.
    process.done("lu modify l1 --file f.img --yes");
    let mut session = log_in(bench.portal);
    assert_eq!(sense(&write(&mut session, 0, &pattern(3))), None);
    drop(session);
    process.done("lu modify l1 --volume tank/v2 --yes");
    assert_eq!(bench.identity(), before);
    bench.process.kill();
    bench.process.restart();
    assert_eq!(bench.identity(), before);
    holds(&mut log_in(bench.portal), 2);
}

#[test]
fn a_unit_is_pointed_to_nothing_that_does_not_fit_it() {
    let bench = Bench::new();
    let process = &bench.process;
    process.done("volume create -s -V 32M tank/small");
    process.done("volume create tank/folder");
    process.done("lu create other --file other.img --size 64M");
    let folder = process.folder();
    std::fs::write(folder.join("odd.img"), vec![0; 1_000_300]).unwrap();
    let before = process.done("config show");
    for (line, words) in [
        (
            "lu modify l1 --volume tank/small",
            "sandstone volume set volsize=64M tank/small",
        ),
        ("lu modify l1 --volume tank/gone", "tank/gone"),
        ("lu modify l1 --volume tank/folder", "folder"),
        ("lu modify l1 --file gone.img", "name an existing file"),
        ("lu modify l1 --file odd.img", "1000300 bytes"),
        ("lu modify l1 --file other.img", "other"),
        ("lu modify l1 --device /dev/null", "/dev/null"),
        (
            "lu modify l1 --volume tank/v1 --file f.img",
            "cannot be used with",
        ),
    ] {
        let refused = process.refused(line);
        assert!(refused.contains(words), "{line}: {refused}");
    }
    assert_eq!(process.done("config show"), before);
    // Refused commands left nothing behind.
    assert!(!folder.join("gone.img").exists());
}

/// The pool of the unit is away: the unit is pointed to the present place of its data.
#[test]
fn a_unit_whose_data_is_away_is_pointed_to_its_new_place() {
    let bench = Bench::new();
    let process = &bench.process;
    process.done("pool create --size 256M pond b");
    process.done("volume create -s -V 64M pond/copy");
    let before = bench.identity();
    process.done("pool export -f tank");
    process.done("lu modify l1 --volume pond/copy");
    assert_eq!(process.done("lu list -H -o state l1"), "online\n");
    assert_eq!(bench.identity(), before);
}

#[test]
fn the_size_of_a_unit_on_a_volume_is_that_of_its_volume() {
    let bench = Bench::new();
    let process = &bench.process;
    let mut session = log_in(bench.portal);
    let would = process.done("lu modify l1 --size 128M -n");
    assert!(would.contains("volsize"), "{would}");
    assert_eq!(
        process.done("volume list -H -p -o volsize tank/v1"),
        "67108864\n"
    );
    let told = process.done("lu modify l1 --size 128M");
    assert!(
        told.contains("volume tank/v1: volsize 64M -> 128M"),
        "{told}"
    );
    assert_eq!(
        process.done("volume list -H -p -o volsize tank/v1"),
        "134217728\n"
    );
    assert!(attentions(&mut session).contains(&CAPACITY_DATA));
    assert_eq!(capacity(&mut session), 128 << 20);
    let again = process.done("lu modify l1 --size 128M");
    assert!(again.contains("nothing to change"), "{again}");
    let smaller = process.refused("lu modify l1 --size 64M");
    assert!(smaller.contains("would cut off data"), "{smaller}");
    assert_eq!(capacity(&mut session), 128 << 20);
    // In the words of zfs.
    assert!(
        process
            .done("pool history tank")
            .contains("sandstone lu modify l1 --size 128M")
    );
}

#[test]
fn a_deleted_unit_claims_data_only_where_there_is_some() {
    let bench = Bench::new();
    let process = &bench.process;
    process.done("lu create l2 --size 16M");
    let told = process.done("lu delete l2");
    assert!(told.contains("its data stays in tank/l2"), "{told}");
    process.done("pool export -f tank");
    let told = process.done("lu delete l1 -y");
    assert!(!told.contains("stays"), "{told}");
    assert!(told.contains("was not served"), "{told}");
}

/// A change that is refused, or that the user does not confirm, has not grown the volume either.
#[test]
fn a_volume_grows_only_with_the_change_that_asked_for_it() {
    let bench = Bench::new();
    let process = &bench.process;
    process.done("volume create -s -V 64M tank/b");
    let _session = log_in(bench.portal);
    let sizes = || process.done("volume list -H -p -o volsize tank/v1 tank/b");
    let before = sizes();
    for (line, words) in [
        ("lu modify l1 --volume tank/b --size 128M", "--yes"),
        (
            "lu modify l1 --volume tank/b --size 128M -n",
            "finds other data",
        ),
        (
            "lu modify l1 --volume tank/b --size 32M --yes",
            "would cut off data",
        ),
        ("lu modify l1 --size 128M --threshold 101", "threshold"),
    ] {
        let (_, told) = process.verb(line);
        assert!(told.contains(words), "{line}: {told}");
        assert_eq!(sizes(), before, "{line}");
    }
    assert_eq!(bench.backend(), "tank/v1");
    for query in ["if_generation=0", "if_effect=0123456789abcdef"] {
        for more in ["", "&dry_run=true"] {
            let told = bench.patch(
                &format!("/v1/lus/l1?{query}{more}"),
                r#"{"size": 134217728}"#,
            );
            assert!(told.starts_with("HTTP/1.1 412"), "{query}: {told}");
            assert_eq!(sizes(), before, "{query}");
        }
    }
    process.done("lu modify l1 --volume tank/b --size 128M --yes");
    let grown = process.done("volume list -H -p -o volsize tank/b");
    assert_eq!(grown, "134217728\n");
    assert_eq!(bench.backend(), "tank/b");
}
