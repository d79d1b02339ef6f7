//! Pool that is damaged beyond its redundancy.
//!
//! The user is told which changes a rewind gives up before it is done. Data that was whole is
//! served again.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::pools::devices::{flat, resilvered, scrubbed_clean, serve, verify_all, write_all};
use crate::process::Process;

const SECTOR: usize = 4096;
/// Byte at which the sectors begin that addresses name.
const DATA: u64 = 1 << 20;

/// Overwrites the manifests of the newest `count` checkpoints on all devices.
///
/// `docs/format.md` gives their places.
fn destroy_newest_manifests(devices: &[PathBuf], count: usize) {
    let number = |sector: &[u8], at: usize| {
        u64::from_le_bytes(sector[at..at + 8].try_into().expect("eight bytes"))
    };
    let labels = |path: &PathBuf| {
        let mut front = vec![0; DATA as usize];
        let file = OpenOptions::new().read(true).open(path).expect("a device");
        file.read_exact_at(&mut front, 0).expect("its front");
        front
    };
    let fronts: Vec<Vec<u8>> = devices.iter().map(labels).collect();
    let sectors = fronts.iter().flat_map(|front| front.chunks_exact(SECTOR));
    let roots = sectors.filter(|sector| sector.starts_with(b"SANDROOT"));
    let by_epoch: BTreeMap<u64, &[u8]> = roots.map(|root| (number(root, 24), root)).collect();
    assert!(by_epoch.len() > count, "there are older ones");
    for root in by_epoch.values().rev().take(count) {
        let blocks = usize::from(u16::from_le_bytes([root[10], root[11]]));
        for block in 0..blocks {
            let sector = number(root, 96 + 32 * block) & ((1 << 48) - 1);
            for path in devices {
                let file = OpenOptions::new().write(true).open(path).expect("a device");
                file.write_all_at(&[0xee; SECTOR], DATA + sector * SECTOR as u64)
                    .expect("destroyed");
            }
        }
    }
}

/// Brings all changes so far into a checkpoint: a change of devices does that.
fn checkpoint(process: &Process) {
    process.done("pool offline tank b");
    process.done("pool online tank b");
    resilvered(process);
}

fn devices(folder: &Path) -> Vec<PathBuf> {
    ["a", "b"].map(|name| folder.join(name)).to_vec()
}

#[test]
fn a_destroyed_checkpoint_is_given_up_when_that_is_asked_for() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let portal = serve(&process, "64M");
    write_all(portal, 0..20);
    checkpoint(&process);
    write_all(portal, 20..30);
    process.kill();
    destroy_newest_manifests(&devices(process.folder()), 1);
    process.restart();
    let status = flat(&process.done("pool status tank"));
    assert!(status.contains("UNAVAIL"), "{status}");
    assert!(
        status.contains("pool import -F -n -d PATH tank"),
        "{status}"
    );
    let import = format!("pool import -d {} tank", process.folder().display());
    let refused = process.refused(&import);
    assert!(
        refused.contains("no copy has the right checksum"),
        "{refused}"
    );

    let told = process.done(&format!("{import} -F -n"));
    assert!(told.contains("can go back to its checkpoint of"), "{told}");
    assert!(told.contains("Nothing was changed"), "{told}");
    assert!(told.contains("tank/vm1"), "{told}");
    process.refused(&import);

    // The remaining data can be read before anything is given up.
    let told = process.done(&format!("{import} -F -o readonly=on"));
    assert!(told.contains("is read at its checkpoint of"), "{told}");
    assert!(told.contains("Not read: 1 newer checkpoint"), "{told}");
    verify_all(portal, 0..20);
    let status = flat(&process.done("pool status tank"));
    assert!(status.contains("imported to be read only"), "{status}");
    process.done("pool export -f tank");
    process.refused(&import);

    let told = process.done(&format!("{import} -F"));
    assert!(told.contains("Discarded: 1 newer checkpoint"), "{told}");

    // The log behind the older checkpoint was followed up to the one that is given up, and no
    // further.
    goes_on(&mut process, portal);
}

#[test]
fn a_pool_that_is_whole_gives_nothing_up() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    process.done("volume create -s -V 64M tank/vm1");
    process.done("pool export tank");
    let import = format!("pool import -d {} tank -F", process.folder().display());
    let told = process.done(&format!("{import} -n"));
    assert!(told.contains("nothing is discarded"), "{told}");
    process.done(&import);
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
}

/// A user destroyed data that is needed. The previous checkpoint has it, and the preview names the
/// cost.
#[test]
fn an_older_checkpoint_of_a_pool_that_is_whole_is_had_when_that_is_asked_for() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    process.done("volume create -s -V 64M tank/old");
    checkpoint(&process);
    process.done("volume destroy -y tank/old");
    process.done("volume create -s -V 64M tank/new");
    process.done("pool export tank");
    process.kill();
    let before = contents(&process);
    process.restart();
    let path = process.folder().display().to_string();
    let import = format!("pool import -d {path} tank -F");
    let told = process.done(&format!("{import} -n"));
    assert!(told.contains("can be imported as it is"), "{told}");
    assert!(
        told.contains("Older checkpoints (-T goes back to one"),
        "{told}"
    );

    let rewind = |line: &str| -> serde_json::Value {
        let text = process.done(line);
        let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        all[0]["rewind"].clone()
    };
    let known = rewind(&format!("{import} -n --json"));
    let numbers = known["known"].as_array().expect("checkpoints").clone();
    let numbers = numbers.iter().map(|of| of["number"].to_string());
    // The newest checkpoint in which it is still there.
    let mut previews = numbers.map(|of| (rewind(&format!("{import} -T {of} -n --json")), of));
    let found = previews.find(|(view, _)| view["returned"] == serde_json::json!(["tank/old"]));
    let (view, number) = found.expect("a checkpoint has it");
    assert_eq!(view["gone"], serde_json::json!(["tank/new"]), "{view}");
    assert_eq!(view["is_done"], false);
    assert_eq!(
        (&view["groups"], &view["damage"]),
        (&0.into(), &serde_json::Value::Null)
    );

    let told = process.done(&format!("{import} -T {number} -n"));
    for line in [
        "Not there, but in the newest state: tank/new",
        "There, but not in the newest state: tank/old",
        "Nothing was changed",
    ] {
        assert!(told.contains(line), "{told}");
    }
    let proven = process.done(&format!("pool check -d {path} -T {number} tank"));
    assert!(proven.contains("every copy is right"), "{proven}");
    let refused = flat(&process.refused(&format!("{import} -T 999999999")));
    assert!(
        refused.contains("the labels do not hold checkpoint 999999999"),
        "{refused}"
    );
    process.refused(&format!("pool import -d {path} tank -T {number}"));
    assert!(contents(&process) == before, "so far nothing was changed");

    let told = process.done(&format!("{import} -T {number}"));
    assert!(told.contains("is back at its checkpoint of"), "{told}");
    let volumes = process.done("volume list -H -o name");
    assert_eq!(volumes, "tank\ntank/old\n");
    scrubbed_clean(&process);
    process.kill();
    process.restart();
    assert_eq!(process.done("volume list -H -o name"), volumes);
}

/// Returns the bytes of the devices.
fn contents(process: &Process) -> Vec<Vec<u8>> {
    let devices = devices(process.folder());
    let read = |path| std::fs::read(path).expect("a device");
    devices.iter().map(read).collect()
}

#[test]
fn a_pool_goes_back_as_far_as_it_takes_only_when_that_is_asked_for() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let portal = serve(&process, "64M");
    write_all(portal, 0..20);
    process.done("volume snapshot tank/vm1@early");
    for numbers in [20..22, 22..24, 24..26] {
        write_all(portal, numbers);
        checkpoint(&process);
    }
    process.kill();
    destroy_newest_manifests(&devices(process.folder()), 3);
    let damaged = contents(&process);
    process.restart();
    let import = format!("pool import -d {} tank", process.folder().display());

    // This is more than -F alone may give up; the refusal names the option that would do.
    for line in [format!("{import} -F -n"), format!("{import} -F")] {
        let refused = flat(&process.refused(&line));
        assert!(
            refused.contains("even if its newest changes are discarded"),
            "{refused}"
        );
        assert!(refused.contains("pool import -F -X -n"), "{refused}");
    }
    process.refused(&format!("{import} -X -n"));

    let told = process.done(&format!("{import} -F -X -n"));
    assert!(told.contains("can go back to its checkpoint of"), "{told}");
    assert!(
        told.contains("Going back discards: 3 newer checkpoints"),
        "{told}"
    );
    assert!(told.contains("may have been overwritten"), "{told}");
    assert!(told.contains("tank/vm1@early"), "{told}");
    assert!(told.contains("Nothing was changed"), "{told}");
    let foreseen = process.done(&format!("{import} -F -X -n --json"));
    assert!(contents(&process) == damaged, "a preview changes nothing");
    process.refused(&import);

    let done = process.done(&format!("{import} -F -X --json"));
    let rewind = |text: &str| -> serde_json::Value {
        let all: serde_json::Value = serde_json::from_str(text).expect(text);
        all[0]["rewind"].clone()
    };
    let (mut foreseen, done) = (rewind(&foreseen), rewind(&done));
    assert_eq!(foreseen["is_done"], false);
    assert_eq!(foreseen["checkpoints"], 3, "{foreseen}");
    assert_eq!(foreseen["is_doubtful"], true, "{foreseen}");
    foreseen["is_done"] = true.into();
    assert_eq!(done, foreseen, "what was foreseen is what was done");

    goes_on(&mut process, portal);
}

/// Checks that earlier data is there and stays, and that new writes stay too.
fn goes_on(process: &mut Process, portal: SocketAddr) {
    verify_all(portal, 0..20);
    scrubbed_clean(process);
    write_all(portal, 30..40);
    process.kill();
    process.restart();
    verify_all(portal, 0..20);
    verify_all(portal, 30..40);
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
}
