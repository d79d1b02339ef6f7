//! Pools that lose disks, rebuild, rot and are repaired under load.
//!
//! Our own multipath initiator writes to them over two portals and verifies all its reads. No
//! command may fail, and no data may be wrong.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::fs::OFlags;
use testing::wait;

use crate::pools::devices::{flat, line_of, resilvered, scrubbed_clean, verify_all, write_all};
use crate::pools::over_iscsi::{Array, until};
use crate::process::Process;
use crate::served::{TARGET, free_portal};

const DISK: u64 = 128 << 20;
/// Bytes that the load writes to; the bytes behind them stay as they are.
const BUSY: u64 = 16 << 20;
/// Numbers of the writes of 256 KiB behind the busy part.
const STILL: std::ops::Range<u64> = 128..192;
/// Number of 16 KiB blocks of the still part.
const STILL_BLOCKS: u64 = 64 * 16;
/// Time for which one run of the load writes; then it reads everything back.
const RUN: &str = "2s";

/// Serves a volume over two portals.
fn serve(process: &Process) -> [SocketAddr; 2] {
    let portals = [free_portal(), free_portal()];
    process.done("volume create -s -V 64M -o compression=off tank/vm1");
    process.done("lu create vm1 --volume tank/vm1");
    let [one, other] = portals;
    process.done(&format!(
        "target create {TARGET} --portal {one} --portal {other}"
    ));
    process.done(&format!(
        "map add vm1 --every-host --target {TARGET} --lun 0"
    ));
    portals
}

/// Runs of `bench run --verify`, one after the other, over both portals.
struct Load {
    is_over: Arc<AtomicBool>,
    runs: Arc<AtomicU64>,
    runner: JoinHandle<()>,
}

impl Load {
    fn begin([one, other]: [SocketAddr; 2]) -> Self {
        let url = format!("iscsi://{one}/{TARGET}/0?portal={other}&psp=rr&iops=1");
        let (is_over, runs) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&runs));
        let runner = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let number = count.load(Ordering::Relaxed);
                verified(&url, number);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let load = Self {
            is_over,
            runs,
            runner,
        };
        load.goes_on();
        load
    }

    /// Waits until a run that began after this call has ended well.
    fn goes_on(&self) {
        let wanted = self.runs.load(Ordering::Relaxed) + 2;
        wait::until("the load goes on", || {
            assert!(!self.runner.is_finished(), "the load failed");
            self.runs.load(Ordering::Relaxed) >= wanted
        });
    }

    /// Waits for the run under way, the last one.
    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.runner.join().expect("nothing fails, nothing is wrong");
    }
}

/// Makes one run, in which nothing fails and nothing is wrong.
fn verified(url: &str, seed: u64) {
    let seed = seed.to_string();
    let busy = BUSY.to_string();
    let ran = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .args(["bench", "run", url, "--destroy-data", "--verify", "--json"])
        .args(["--block", "4096", "--reads", "40", "--random", "100"])
        .args(["--outstanding", "16", "--workers", "1", "--ramp-up", "0"])
        .args(["--time", RUN, "--working-set", &busy, "--seed", &seed])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let results: serde_json::Value = serde_json::from_slice(&ran.stdout).expect(&said);
    let measured = &results["runs"][0]["measurement"];
    let verify = &measured["verify"];
    assert_eq!(verify["mismatches"], 0, "{verify}: {said}");
    assert!(verify["checked"].as_u64() > Some(0), "{verify}: {said}");
    let failures = measured["failures"].as_array();
    assert!(failures.is_none_or(Vec::is_empty), "{measured}: {said}");
}

#[repr(align(4096))]
struct Sector([u8; 4096]);

/// Overwrites every second data sector of a device in use with random bytes.
///
/// The writes are direct if the file system allows that. Otherwise dirty data of a page in the
/// kernel's cache makes it refuse the pool's own writes to that page.
fn rot_half(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true);
    let mut direct = options.clone();
    direct.custom_flags(OFlags::DIRECT.bits() as i32);
    let file = direct.open(path).or_else(|_| options.open(path)).unwrap();
    let sectors = DISK / 4096;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    // Labels lie at both ends.
    for number in (256..sectors - 256).step_by(2) {
        let mut sector = Sector([0; 4096]);
        for part in sector.0.chunks_exact_mut(8) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            part.copy_from_slice(&random.rotate_right(29).to_le_bytes());
        }
        file.write_all_at(&sector.0, number * 4096).unwrap();
    }
}

/// Returns the number of checksum errors that the pool counted on a device.
fn counted(process: &Process, device: &str) -> u64 {
    let told = process.done("pool status --json tank");
    let told: serde_json::Value = serde_json::from_str(&told).expect(&told);
    count_in(&told, device).unwrap_or_else(|| panic!("no {device} in {told}"))
}

fn count_in(told: &serde_json::Value, device: &str) -> Option<u64> {
    match told {
        serde_json::Value::Array(all) => all.iter().find_map(|one| count_in(one, device)),
        serde_json::Value::Object(fields) => {
            let name = fields.get("name").and_then(|name| name.as_str());
            match name.is_some_and(|name| name.ends_with(device)) {
                true => fields.get("checksum")?.as_u64(),
                false => fields.values().find_map(|one| count_in(one, device)),
            }
        }
        _ => None,
    }
}

#[test]
fn a_mirror_under_load_loses_a_disk_gains_a_spare_and_is_healed_of_rot() {
    let mut lost = Array::start(1, DISK);
    let process = Process::start();
    lost.log_in(&process);
    process.done(&format!(
        "pool create --size {DISK} tank mirror d0 {} spare ready",
        lost.naa
    ));
    let portals = serve(&process);
    write_all(portals[0], STILL);
    let load = Load::begin(portals);

    lost.process.kill();
    until(&process, "pool status tank", "INUSE     currently in use");
    let status = resilvered(&process);
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    load.goes_on();
    process.done(&format!("pool detach tank {}", lost.naa));
    let status = process.done("pool status tank");
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    scrubbed_clean(&process);

    rot_half(&process.folder().join("d0"));
    process.done("pool scrub -w tank");
    let status = process.done("pool status tank");
    assert!(status.contains(" with 0 errors on "), "{status}");
    let repaired = counted(&process, "d0");
    assert!(
        repaired >= STILL_BLOCKS,
        "{repaired} of {STILL_BLOCKS}: {status}"
    );
    assert_eq!(counted(&process, "ready"), 0, "{status}");
    // After this many errors the device is not trusted any more. It is still used, and is whole
    // when the administrator clears it.
    assert_eq!(line_of(&process, "d0")[0], "DEGRADED", "{status}");
    process.done("pool clear tank");
    assert_eq!(line_of(&process, "d0")[0], "ONLINE");
    load.goes_on();
    scrubbed_clean(&process);
    load.end();
    // The rotten data is whole again, on this device alone.
    process.done("pool offline tank ready");
    verify_all(portals[1], STILL);
}

/// Waits until a disk that does not answer any more is given up.
fn removed(process: &Process, disk: &str) {
    let line = || line_of(process, disk);
    wait::until_seen("the disk is given up", line, |line| line[0] == "REMOVED");
}

#[test]
fn a_raidz2_under_load_loses_three_disks_and_gets_a_spare_and_two_others() {
    let mut lost = [1, 2, 3].map(|number| Array::start(number, DISK));
    let process = Process::start();
    lost.iter().for_each(|lost| lost.log_in(&process));
    process.done(&format!(
        "pool create --size {DISK} tank raidz2 d0 {} d1 {} {} spare ready",
        lost[0].naa, lost[1].naa, lost[2].naa
    ));
    let portals = serve(&process);
    write_all(portals[0], STILL);
    let load = Load::begin(portals);

    // The spare stands in for the first one by itself.
    lost[0].process.kill();
    until(&process, "pool status tank", "INUSE     currently in use");
    let status = resilvered(&process);
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    assert!(status.contains("\t    spare-1  "), "{status}");
    assert_eq!(line_of(&process, &lost[0].naa)[0], "REMOVED");
    load.goes_on();
    scrubbed_clean(&process);

    // Two more may therefore go, which nobody stands in for.
    for array in &mut lost[1..] {
        array.process.kill();
        removed(&process, &array.naa);
        load.goes_on();
    }
    let status = process.done("pool status tank");
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    for needed in ["d0", "ready"] {
        let refused = process.refused(&format!("pool offline tank {needed}"));
        assert!(flat(&refused).contains("no valid replicas"), "{refused}");
    }
    verify_all(portals[1], STILL);

    for (array, new) in lost[1..].iter().zip(["n1", "n2"]) {
        process.done(&format!(
            "pool replace -w --size {DISK} tank {} {new}",
            array.naa
        ));
    }
    process.done(&format!("pool detach tank {}", lost[0].naa));
    let status = process.done("pool status tank");
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    assert!(!status.contains("spare"), "{status}");
    load.goes_on();
    scrubbed_clean(&process);
    load.end();
    // All three are whole: two others may go.
    process.done("pool offline tank d0");
    process.done("pool offline tank d1");
    verify_all(portals[0], STILL);
}
