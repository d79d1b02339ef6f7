//! Units keep their volumes while the configuration still has their older names.
//!
//! Either the new name could not be stored, or another user was quicker than the note of it.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use model::pool::dataset::change::DatasetChange;
use testing::wait;

use crate::pools::life::{log_in, pattern};
use crate::process::Process;
use crate::served::{BLOCK, Served, TARGET, free_portal, read, sense, write};
use crate::volumes::stream::{begin, end, well};

/// Starts a daemon with a pool `tank` of the file `a`, and a unit `l1` on its volume `tank/v1`.
///
/// The volume holds a pattern.
fn bench() -> (Process, SocketAddr) {
    let process = Process::start();
    let portal = free_portal();
    for line in set_up(portal) {
        process.done(&line);
    }
    holds_after_write(portal);
    process.done("volume snapshot tank/v1@old");
    (process, portal)
}

fn set_up(portal: SocketAddr) -> [String; 5] {
    [
        "pool create --size 256M tank a".into(),
        "volume create -s -V 64M tank/v1".into(),
        "lu create l1 --volume tank/v1".into(),
        format!("target create {TARGET} --portal {portal}"),
        format!("map add l1 --every-host --target {TARGET} --lun 0"),
    ]
}

fn holds_after_write(portal: SocketAddr) {
    let mut session = log_in(portal);
    assert_eq!(sense(&write(&mut session, 0, &pattern(1))), None);
    assert_holds(portal);
}

fn assert_holds(portal: SocketAddr) {
    let mut session = log_in(portal);
    assert_eq!(read(&mut session, 0, 64), pattern(1)[..64 * BLOCK]);
}

/// Prevents the configuration from being stored from now on; other files of the state folder can be
/// stored.
fn refuse_to_store(process: &Process) {
    std::fs::create_dir(process.folder().join("config.toml.new")).unwrap();
}

fn store_again(process: &Process) {
    std::fs::remove_dir(process.folder().join("config.toml.new")).unwrap();
}

fn column(process: &Process, column: &str) -> String {
    let told = process.done(&format!("lu list -H -o {column} l1"));
    told.trim().to_owned()
}

/// Waits until a column of `l1` has this value.
fn wait_for(process: &Process, name: &str, wanted: &str) {
    let what = format!("the {name} of l1 is {wanted}");
    wait::until_seen(&what, || column(process, name), |told| told == wanted);
}

/// Waits until `l1` is not served for this reason.
fn wait_for_fault(process: &Process, reason: &str) {
    let told = || {
        let told = process.done("lu show l1");
        assert_ne!(column(process, "state"), "online", "{told}");
        told
    };
    wait::until_seen(reason, told, |told| told.contains(reason));
}

fn assert_refused_for_l1(process: &Process, line: &str) {
    let refused = process.refused(line);
    assert!(refused.contains("lu l1 serves it"), "{line}: {refused}");
}

#[test]
fn a_served_volume_whose_new_name_could_not_be_stored_is_not_taken_away() {
    let (process, portal) = bench();
    refuse_to_store(&process);
    let told = process.done("volume rename tank/v1 tank/v2");
    assert!(told.contains("tank/v1") && told.contains("l1"), "{told}");
    for line in [
        "volume destroy -y -r tank/v2",
        "volume rollback tank/v2@old",
        "pool destroy -y tank",
        "pool export tank",
    ] {
        assert_refused_for_l1(&process, line);
    }
    let doomed = process.done("volume destroy -nv -r tank/v2");
    assert!(doomed.contains("l1"), "{doomed}");
    assert_holds(portal);
    // No unit serves another volume of the old name.
    process.done("volume create -s -V 64M tank/v1");
    for line in [
        "lu modify l1 --size 128M",
        "lu modify l1 --volume tank/v1 -y",
    ] {
        let refused = process.refused(line);
        assert!(refused.contains("could not save"), "{line}: {refused}");
    }
    let sizes = process.done("volume list -H -p -o volsize -t volume");
    assert_eq!(sizes, "67108864\n67108864\n");
    process.done("volume destroy -y tank/v1");
    store_again(&process);
    process.done("volume create tank/folder");
    process.done("volume rename tank/folder tank/other");
    assert_eq!(column(&process, "backend"), "tank/v2");
    assert_holds(portal);
}

#[test]
fn a_pool_with_another_name_that_could_not_be_stored_is_not_destroyed_beneath_its_units() {
    let (process, portal) = bench();
    process.done("pool export -f tank");
    refuse_to_store(&process);
    let folder = process.folder().display().to_string();
    let told = process.done(&format!("pool import -d {folder} tank renamed"));
    assert!(told.contains("lu l1 serves renamed/v1"), "{told}");
    assert_refused_for_l1(&process, "pool destroy -y renamed");
    assert_refused_for_l1(&process, "volume destroy -y -r renamed/v1");
    store_again(&process);
    wait_for(&process, "backend", "renamed/v1");
    wait_for(&process, "state", "online");
    assert_holds(portal);
}

#[test]
fn a_stream_replaces_no_served_volume_whose_new_name_could_not_be_stored() {
    let (process, portal) = bench();
    process.done("volume snapshot tank/v1@new");
    let path = process.folder().join("stream");
    let file = File::create(&path).unwrap();
    let send = "volume send -i @old tank/v1@new";
    well(begin(&process, send, Stdio::null(), file.into()));
    process.done("volume destroy -y tank/v1@new");
    refuse_to_store(&process);
    process.done("volume rename tank/v1 tank/v2");
    let stream = File::open(path).unwrap();
    let receive = "volume receive -F tank/v2";
    let receiver = begin(&process, receive, stream.into(), Stdio::null());
    let (is_done, text) = end(receiver);
    assert!(!is_done && text.contains("lu l1 serves it"), "{text}");
    assert_holds(portal);
}

/// The number of a volume has to be noted before the volume gets another name.
#[test]
fn a_volume_that_could_not_be_noted_keeps_its_name() {
    let mut process = Process::start();
    let portal = free_portal();
    for line in set_up(portal) {
        process.done(&line);
    }
    process.kill();
    forget_notes(&process);
    // The start would note it.
    refuse_to_store(&process);
    process.restart();
    holds_after_write(portal);
    let refused = process.refused("volume rename tank/v1 tank/v2");
    assert!(refused.contains("nothing was renamed"), "{refused}");
    assert_eq!(
        process.done("volume list -H -o name -t volume"),
        "tank/v1\n"
    );
    store_again(&process);
    process.done("volume rename tank/v1 tank/v2");
    assert_eq!(column(&process, "backend"), "tank/v2");
    assert_holds(portal);
}

/// Rewrites the configuration as old versions did, which noted no volumes.
fn forget_notes(process: &Process) {
    let folder = process.folder();
    let text = std::fs::read_to_string(folder.join("config.toml")).unwrap();
    let (first, body) = text.split_once('\n').unwrap();
    let mut table: toml::Table = toml::from_str(body).unwrap();
    let identity = table["identity"].as_table_mut().unwrap();
    assert!(identity.remove("volumes").is_some());
    let body = toml::to_string(&table).unwrap();
    let (first, _) = first.rsplit_once(' ').unwrap();
    let sum = crc32fast::hash(body.as_bytes());
    let text = format!("{first} {sum:08x}\n{body}");
    let generation = &table["generation"];
    let copy = folder.join(format!("history/config.{generation}.toml"));
    assert!(copy.exists());
    std::fs::write(copy, &text).unwrap();
    std::fs::write(folder.join("config.toml"), &text).unwrap();
}

/// A destruction waits behind a rename and comes before the new name is noted.
#[test]
fn a_destruction_that_waited_for_a_rename_knows_the_new_name() {
    let served = Served::start(Vec::new());
    let cli = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandstone"));
        command.arg("--state").arg(served.folder());
        command.current_dir(served.folder());
        command.args(line.split_whitespace()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let done = |line: &str| {
        let output = cli(line).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
    };
    for line in [
        "pool create --size 256M tank a",
        "volume create -s -V 64M tank/v1",
        "volume create -s -V 64M tank/v2",
        "lu create l1 --volume tank/v1",
        "map add l1 --every-host --lun 0",
    ] {
        done(line);
    }
    let portal = served.portal;
    holds_after_write(portal);
    let plane = served.daemon.as_ref().unwrap().plane();
    let rename = |from: &str, to: &str| {
        let change = DatasetChange::Rename {
            from: from.into(),
            to: to.into(),
            parents: false,
            recursive: false,
        };
        plane.pools.change(&change).unwrap();
    };
    let renaming = plane.transactions.unchanged();
    let destroyer = cli("volume destroy -y tank/v2").spawn().unwrap();
    // Nothing shows that the destruction waits for the transaction. If it comes even later, it does
    // not test the case, and fails nothing.
    std::thread::sleep(Duration::from_secs(1));
    rename("tank/v2", "tank/v3");
    rename("tank/v1", "tank/v2");
    drop(renaming);
    let output = destroyer.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it was destroyed");
    assert!(text.contains("lu l1 serves it"), "{text}");
    assert_holds(portal);
}

/// A replica, or a new pool, replaces the old one only when an administrator says so.
#[test]
fn another_pool_of_the_name_gives_no_unit_its_volume_by_itself() {
    let (process, portal) = bench();
    process.done("pool export -f tank");
    process.done("pool create --size 256M tank b");
    process.done("volume create -s -V 64M tank/v1");
    wait_for_fault(&process, "tank/v1 is no longer the volume");
    let told = process.done("lu show l1");
    assert!(told.contains("lu modify UNIT --volume tank/v1"), "{told}");
    let told = process.done("lu modify l1 --volume tank/v1");
    assert!(told.contains("another tank/v1 -> tank/v1"), "{told}");
    wait_for(&process, "state", "online");
    let mut session = log_in(portal);
    assert_eq!(read(&mut session, 0, 64), vec![0; 64 * BLOCK]);
    let told = process.done("lu modify l1 --volume tank/v1");
    assert!(told.contains("nothing to change"), "{told}");
}

/// The pool is away at the start and opens later by itself; another volume has the old name by
/// then.
#[test]
fn a_pool_that_opens_by_itself_gives_no_unit_another_volume() {
    let (mut process, portal) = bench();
    refuse_to_store(&process);
    process.done("volume rename tank/v1 tank/v2");
    process.done("volume create -s -V 64M tank/v1");
    process.kill();
    let folder = process.folder().to_owned();
    std::fs::rename(folder.join("a"), folder.join("aside")).unwrap();
    process.restart();
    std::fs::rename(folder.join("aside"), folder.join("a")).unwrap();
    let health = || process.done("pool list -H -o health tank");
    wait::until_seen("the pool opens", health, |told| told.trim() == "ONLINE");
    // The new name cannot be stored: no disk is better than another one.
    wait_for_fault(&process, "tank/v1 is no longer the volume");
    store_again(&process);
    wait_for(&process, "state", "online");
    assert_eq!(column(&process, "backend"), "tank/v2");
    let history = process.done("config history -H -p -o author,summary");
    let last = history.lines().last().unwrap();
    assert!(
        last.starts_with("the daemon\tlu l1 changed: backend"),
        "{last}"
    );
    assert_holds(portal);
}
