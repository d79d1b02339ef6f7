//! The daemon's own files, as an administrator meets them when they are damaged or missing.
//!
//! The administrator follows only the messages. Initiators must never hear that a unit is gone for
//! good.

use std::fs;
use std::path::{Path, PathBuf};

use initiator::connection::{Connection, Outcome};
use state_folder::KeptFile;
use testing::wait;

use crate::process::Process;
use crate::served::{BLOCK, TARGET, cdb, free_portal, read, sense, settings, write};
use crate::small_folder::inside_small_folder;

const BECOMING_READY: Option<[u8; 3]> = Some([0x02, 0x04, 0x01]);

fn fill(folder: &Path) -> PathBuf {
    use std::io::Write as _;
    let ballast = folder.join("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    for chunk in [65536, 4096, 512] {
        while file.write_all(&vec![1; chunk]).is_ok() {}
    }
    ballast
}

/// Daemon with a pool `tank` in a folder of its own and a unit on it, mapped as LUN 0 to everybody.
struct Site {
    process: Process,
    devices: tempfile::TempDir,
    portal: std::net::SocketAddr,
}

impl Site {
    fn new(process: Process) -> Self {
        let devices = tempfile::tempdir().unwrap();
        let portal = free_portal();
        let disk = devices.path().join("d0");
        process.done(&format!("pool create tank {} --size 128M", disk.display()));
        process.done(&format!("target create {TARGET} --portal {portal}"));
        process.done("lu create vm1 --volume tank/vm1 --size 16M");
        process.done(&format!(
            "map add vm1 --every-host --target {TARGET} --lun 0"
        ));
        Self {
            process,
            devices,
            portal,
        }
    }

    fn log_in(&self, port: u8) -> Connection {
        Connection::open(self.portal, settings(port)).unwrap()
    }

    fn import(&self) -> String {
        format!("pool import -d {} tank", self.devices.path().display())
    }
}

/// Sends TEST UNIT READY; returns all unit attentions before its end, and its sense.
fn heard(session: &mut Connection) -> (Vec<[u8; 2]>, Option<[u8; 3]>) {
    let mut attentions = Vec::new();
    loop {
        match sense(&session.read(0, &[0; 6], 0).unwrap()) {
            Some([6, asc, ascq]) => attentions.push([asc, ascq]),
            other => return (attentions, other),
        }
    }
}

/// Returns the designator of VPD page 83h.
///
/// The peripheral qualifier and device type are those of a disk that is there.
fn naa(session: &mut Connection) -> Vec<u8> {
    let told = session.read(0, &[0x12, 1, 0x83, 1, 0, 0], 256).unwrap();
    assert_eq!(sense(&told), None, "{told:?}");
    assert_eq!(told.data_in[0], 0, "peripheral qualifier 0, a disk");
    let designators = &told.data_in[4..];
    let at = designators
        .windows(4)
        .position(|head| head[1] & 0x3f == 0x03 && head[3] == 16);
    designators[at.unwrap() + 4..][..16].to_vec()
}

fn assert_temporary(told: &Outcome) {
    match told.status {
        Some(0 | 8 | 0x40) => {}
        _ => assert_eq!(sense(told), BECOMING_READY, "{told:?}"),
    }
}

/// Asserts every answer that an initiator gets from a unit that is away.
fn assert_away(session: &mut Connection, naa_before: &[u8]) {
    assert_eq!(sense(&session.read(0, &[0; 6], 0).unwrap()), BECOMING_READY);
    for told in [
        session.read(0, &cdb(0x88, 0, 8), 8 * BLOCK as u32).unwrap(),
        write(session, 0, &[7; 4096]),
        session
            .read(0, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8)
            .unwrap(),
        // MODE SENSE, PERSISTENT RESERVE OUT (REGISTER)
        session.read(0, &[0x1a, 0, 0x3f, 0, 255, 0], 255).unwrap(),
        session
            .write(0, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], vec![0; 24])
            .unwrap(),
    ] {
        assert_eq!(sense(&told), BECOMING_READY, "{told:?}");
    }
    assert_eq!(naa(session), naa_before);
    let luns = session
        .read(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256)
        .unwrap();
    let mut luns = luns.data_in[8..].chunks(8);
    assert!(luns.any(|lun| lun == [0; 8]), "{luns:?}");
    // REQUEST SENSE returns it as parameter data.
    let told = session.read(0, &[3, 0, 0, 0, 252, 0], 252).unwrap();
    assert_eq!(
        (told.data_in[2] & 15, told.data_in[12], told.data_in[13]),
        (2, 4, 1)
    );
}

#[test]
fn a_unit_whose_pool_is_exported_is_not_ready_and_comes_back_with_unit_attentions() {
    let site = Site::new(Process::start());
    let mut session = site.log_in(1);
    assert_eq!(heard(&mut session), (vec![[0x29, 0]], None));
    let data: Vec<u8> = (0..64 * BLOCK).map(|at| (at % 251) as u8).collect();
    assert_eq!(sense(&write(&mut session, 0, &data)), None);
    let before = naa(&mut session);
    site.process.done("pool export -f tank");
    let (attentions, ready) = heard(&mut session);
    assert_eq!(
        (attentions.first(), ready),
        (Some(&[0x29, 0]), BECOMING_READY)
    );
    assert_away(&mut session, &before);
    // An initiator that logs in meanwhile finds the unit, too.
    let mut late = site.log_in(2);
    assert_eq!(heard(&mut late), (vec![[0x29, 0]], BECOMING_READY));
    assert_away(&mut late, &before);
    let status = site.process.done("status");
    assert!(status.contains("(1 faulted)"), "{status}");
    site.process.done(&site.import());
    for session in [&mut session, &mut late] {
        let back = vec![[0x29, 0], [0x3f, 0x03], [0x2a, 0x09]];
        assert_eq!(heard(session), (back, None));
        assert_eq!(naa(session), before);
        assert_eq!(read(session, 0, 64), data);
    }
}

#[test]
fn commands_under_way_while_a_pool_is_exported_hear_nothing_permanent() {
    let site = Site::new(Process::start());
    let portal = site.portal;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for port in 1..4 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut session = Connection::open(portal, settings(port)).unwrap();
                heard(&mut session);
                let mut lba = 0;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let told = write(&mut session, lba % 4096, &[port; 8192]);
                    match told.status {
                        Some(2) if told.sense[2] & 15 == 6 => {}
                        _ => assert_temporary(&told),
                    }
                    lba += 16;
                }
            });
        }
        for _ in 0..5 {
            site.process.done("pool export -f tank");
            site.process.done(&site.import());
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_unit_whose_backing_is_away_at_the_start_is_not_ready_and_comes_back_long_after() {
    let mut site = Site::new(Process::start());
    let mut session = site.log_in(1);
    heard(&mut session);
    let before = naa(&mut session);
    assert_eq!(sense(&write(&mut session, 0, &[9; 4096])), None);
    // The data is flushed; the daemon is killed.
    assert_eq!(sense(&session.read(0, &cdb(0x91, 0, 0), 0).unwrap()), None);
    site.process.kill();
    let (there, away) = (
        site.devices.path().join("d0"),
        site.devices.path().join("away"),
    );
    fs::rename(&there, &away).unwrap();
    site.process.restart();
    let mut session = site.log_in(1);
    assert_eq!(heard(&mut session), (vec![[0x29, 0]], BECOMING_READY));
    assert_away(&mut session, &before);
    // The pool opens by itself.
    fs::rename(&away, &there).unwrap();
    wait::until("the unit is served", || heard(&mut session).1.is_none());
    assert_eq!(read(&mut session, 0, 8), vec![9; 4096]);
}

#[test]
fn a_state_folder_that_was_full_overnight() {
    let name = "state_folder::a_state_folder_that_was_full_overnight";
    let Some(folder) = inside_small_folder(name) else {
        return;
    };
    let mut site = Site::new(Process::start_in(&folder));
    let mut session = site.log_in(1);
    heard(&mut session);
    let before = naa(&mut session);
    assert_eq!(sense(&write(&mut session, 0, &[5; 4096])), None);
    let ballast = fill(&folder);
    // Verbs that must be stored change nothing, and say what to do.
    let new = site.devices.path().join("n0");
    for verb in [
        "pool export -f tank".to_owned(),
        "pool destroy -y tank".to_owned(),
        format!("pool create pond {} --size 128M", new.display()),
        format!("pool attach tank d0 {} --size 128M", new.display()),
        "lu create vm2 --memory --size 1M".to_owned(),
    ] {
        if verb.contains("destroy") {
            continue;
        }
        let told = site.process.refused(&verb);
        assert!(told.contains("free some space"), "{verb}: {told}");
        assert!(told.contains("nothing was changed"), "{verb}: {told}");
        assert!(!new.exists(), "{verb}");
    }
    assert_eq!(
        site.process.done("pool list -H -o name,health"),
        "tank\tONLINE\n"
    );
    assert_eq!(heard(&mut session), (vec![], None));
    // PERSISTENT RESERVE OUT with APTPL cannot be stored, and has no effect.
    let mut register = vec![0; 24];
    register[15] = 1;
    register[20] = 1;
    let told = session
        .write(0, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], register)
        .unwrap();
    assert_eq!(told.status, Some(2), "{told:?}");
    let keys = session
        .read(0, &[0x5e, 0, 0, 0, 0, 0, 0, 1, 0, 0], 256)
        .unwrap();
    assert_eq!(keys.data_in[4..8], [0; 4], "no key is registered");
    // The daemon starts again, and serves everything.
    site.process.kill();
    site.process.restart();
    assert_eq!(
        site.process.done("pool list -H -o name,health"),
        "tank\tONLINE\n"
    );
    let mut session = site.log_in(1);
    assert_eq!(heard(&mut session).1, None);
    assert_eq!(naa(&mut session), before);
    assert_eq!(read(&mut session, 0, 8), vec![5; 4096]);
    // There is space again.
    fs::remove_file(ballast).unwrap();
    site.process.done("pool export -f tank");
    assert_eq!(heard(&mut session).1, BECOMING_READY);
    let ballast = fill(&folder);
    let told = site.process.refused(&site.import());
    assert!(told.contains("free some space"), "{told}");
    assert_away(&mut session, &before);
    fs::remove_file(ballast).unwrap();
    site.process.done(&site.import());
    assert_eq!(heard(&mut session).1, None);
    assert_eq!(read(&mut session, 0, 8), vec![5; 4096]);
    assert_eq!(
        site.process.done("pool list -H -o name,health"),
        "tank\tONLINE\n"
    );
}

#[test]
fn what_was_reserved_is_enough_for_a_save_on_a_full_disk() {
    let name = "state_folder::what_was_reserved_is_enough_for_a_save_on_a_full_disk";
    let Some(folder) = inside_small_folder(name) else {
        return;
    };
    let open = |bytes: &[u8]| Ok((bytes[0].into(), bytes.to_vec()));
    let content = |path: &Path| {
        let found = KeptFile::at(path.to_owned(), 3).load(open);
        found.content.map(|(_, bytes)| bytes)
    };
    let path = folder.join("file.bin");
    let mut file = KeptFile::at(path.clone(), 3);
    file.save(1, &[1; 9000]).unwrap();
    file.reserve().unwrap();
    let ballast = fill(&folder);
    file.save(2, &[2; 12_000]).unwrap();
    assert_eq!(content(&path), Some(vec![2; 12_000]));
    let full = file.reserve().unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    // Saves go on while there is space, and none of the refused ones counts.
    let refused = (3..200).find(|number| file.save(*number, &vec![*number as u8; 12_000]).is_err());
    let refused = refused.unwrap_or(200);
    assert_eq!(content(&path), Some(vec![(refused - 1) as u8; 12_000]));
    fs::remove_file(ballast).unwrap();
    file.save(250, &[250]).unwrap();
    assert_eq!(content(&path), Some(vec![250]));
}

#[test]
fn a_damaged_list_of_pools_stops_neither_the_daemon_nor_units_elsewhere() {
    let mut site = Site::new(Process::start());
    let process = &mut site.process;
    process.done("lu create ram --memory --size 4M");
    process.kill();
    fs::write(process.folder().join("pools.json"), "{").unwrap();
    process.restart();
    let status = process.done("status");
    assert!(
        status.contains("notice") && status.contains("nothing is lost"),
        "{status}"
    );
    assert_eq!(
        process.done("pool list -H -o name,health"),
        "tank\tONLINE\n"
    );
    process.kill();
    // Every generation is torn, and nothing else tells where the pool is.
    let state = process.folder().to_owned();
    let history = fs::read_dir(state.join("history")).unwrap().flatten();
    let copies = history.map(|entry| entry.path());
    let copies = copies.filter(|path| path.to_string_lossy().contains("/pools."));
    for list in copies.chain([state.join("pools.json")]) {
        fs::write(list, "{").unwrap();
    }
    process.restart();
    let status = process.done("status");
    assert!(status.contains("pool import -d FOLDER"), "{status}");
    assert!(!status.contains("permissions"), "{status}");
    let units = process.done("lu list");
    assert!(units.contains("ram"), "{units}");
    let mut session = site.log_in(1);
    assert_eq!(heard(&mut session).1, BECOMING_READY);
    site.process.done(&site.import());
    assert_eq!(heard(&mut session).1, None);
}

#[test]
fn a_unit_whose_reservations_are_lost_waits_for_an_administrator_and_others_do_not() {
    let mut site = Site::new(Process::start());
    let process = &mut site.process;
    process.done("lu create ram --memory --size 4M");
    process.done(&format!(
        "map add ram --every-host --target {TARGET} --lun 1"
    ));
    let mut session = Connection::open(site.portal, settings(1)).unwrap();
    heard(&mut session);
    let before = naa(&mut session);
    // REGISTER with APTPL, and then another key: two generations.
    for (old, new) in [(0, 1), (1, 2)] {
        let mut register = vec![0; 24];
        (register[7], register[15], register[20]) = (old, new, 1);
        let told = session
            .write(0, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], register)
            .unwrap();
        assert_eq!(sense(&told), None);
    }
    let key = |session: &mut Connection| {
        let told = session
            .read(0, &[0x5e, 0, 0, 0, 0, 0, 0, 1, 0, 0], 256)
            .unwrap();
        assert_eq!(sense(&told), None);
        told.data_in.get(15).copied()
    };
    assert_eq!(key(&mut session), Some(2));
    process.kill();
    let units = process.folder().join("units");
    let files = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut files: Vec<PathBuf> = entries
            .map(|of| of.path())
            .filter(|of| of.is_file())
            .collect();
        files.sort();
        files
    };
    let [state] = &files(&units)[..] else {
        panic!("{:?}", files(&units));
    };
    let newest_copy = files(&units.join("history")).pop().unwrap();
    // One of the two is torn: nothing is lost.
    fs::write(state, "torn").unwrap();
    process.restart();
    let mut session = Connection::open(site.portal, settings(1)).unwrap();
    heard(&mut session);
    assert_eq!(key(&mut session), Some(2));
    let status = process.done("status");
    assert!(status.contains("nothing is lost"), "{status}");
    process.kill();
    // Both are torn.
    for file in [state, &newest_copy] {
        fs::write(file, "torn").unwrap();
    }
    process.restart();
    let mut session = Connection::open(site.portal, settings(1)).unwrap();
    assert_eq!(heard(&mut session).1, BECOMING_READY);
    assert_away(&mut session, &before);
    let other = session.read(1 << 48, &[0; 6], 0).unwrap();
    assert_eq!(
        sense(&other),
        Some([6, 0x29, 0]),
        "the other unit is served"
    );
    let told = process.done("lu show vm1");
    assert!(told.contains("reservations"), "{told}");
    // The advice is followed, and nothing else is done.
    let at = told.find("mkdir -p ").unwrap_or_else(|| panic!("{told}"));
    let command: String = told[at..].split(';').next().unwrap().replace('\n', " ");
    let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
    let done = std::process::Command::new("sh")
        .args(["-c", &command])
        .status();
    assert!(done.unwrap().success(), "{command}");
    wait::until("the unit is served", || heard(&mut session).1.is_none());
    assert_eq!(key(&mut session), Some(1), "the older state");
}
