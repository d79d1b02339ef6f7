//! `top -b`, `iostat` and the control API tell the same figures, and those are what a benchmark of
//! known rate, size and mix did.
//!
//! Sums are compared, not rates: a machine that stalls spreads the same commands over more time.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use testing::wait;

use crate::process::Process;
use crate::raw_wire::Wire;
use crate::served::free_portal;

const PATIENCE: Duration = Duration::from_secs(60);
const TARGET: &str = "iqn.2026-01.io.sandstone:terminal";
/// Bytes of an access of the benchmark.
const SIZE: f64 = 8192.0;
/// Seconds of the daemon's clock and of the API's snapshots at which they were taken.
type Moments = Arc<Mutex<BTreeMap<u64, u64>>>;

/// Returns the latest figures.
fn figures(state: &Path) -> Value {
    let mut socket = UnixStream::connect(state.join("control.sock")).unwrap();
    let request = "GET /v1/figures HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// Makes a unit in memory, and a target for it.
fn serve(process: &Process) -> SocketAddr {
    let portal = free_portal();
    process.done("lu create vm1 --size 64M --memory");
    process.done(&format!("target create {TARGET} --portal {portal}"));
    process.done("host create bench --initiator iqn.*");
    process.done(&format!(
        "map add vm1 --host bench --target {TARGET} --lun 0"
    ));
    portal
}

/// `top -b`, with the rows that it has written.
struct Batch {
    child: Child,
    lines: BufReader<ChildStdout>,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Batch {
    fn start(process: &Process) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sandstone"))
            .arg("--state")
            .arg(process.folder())
            .args(["top", "-b", "-d", "1"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut batch = Self {
            child,
            lines,
            header: Vec::new(),
            rows: Vec::new(),
        };
        batch.header = batch.line();
        batch
    }

    /// Reads a line as its fields.
    fn line(&mut self) -> Vec<String> {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "top -b ended");
        let line = line
            .strip_suffix("\"\n")
            .and_then(|line| line.strip_prefix('"'));
        line.expect("quotes")
            .split("\",\"")
            .map(str::to_owned)
            .collect()
    }

    fn next_row(&mut self) {
        let row = self.line();
        assert_eq!(row.len(), self.header.len());
        self.rows.push(row);
    }

    /// Returns the value of a counter of the only object whose path has this text.
    fn value(&self, row: usize, object: &str, counter: &str) -> f64 {
        let is_it =
            |path: &&String| path.contains(object) && path.ends_with(&format!("\\{counter}"));
        let mut found = self
            .header
            .iter()
            .enumerate()
            .filter(|(_, path)| is_it(path));
        let (at, _) = found
            .next()
            .unwrap_or_else(|| panic!("no {object} {counter}"));
        assert!(found.next().is_none(), "{object} {counter}");
        self.rows[row][at].parse().unwrap()
    }

    /// Returns the sum of a counter over the time of all rows but the first. Returns `None` if the
    /// time of a row is not known for sure.
    fn sum(&self, moments: &BTreeMap<u64, u64>, object: &str, counter: &str) -> Option<f64> {
        let moment = |row: usize| moments.get(&second(&self.rows[row][0])).copied();
        (1..self.rows.len())
            .map(|row| {
                let seconds = moment(row)?.checked_sub(moment(row - 1)?)? as f64 / 1e6;
                Some(self.value(row, object, counter) * seconds)
            })
            .sum()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the second of its day at which a row was taken.
fn second(time: &str) -> u64 {
    let parts = time[11..]
        .split(':')
        .map(|part| part.parse::<u64>().unwrap());
    parts.fold(0, |sum, part| sum * 60 + part)
}

/// Notes the moments of all snapshots until told to stop. A row of `top -b` tells the second alone,
/// and two snapshots are never much less than a second apart.
fn note_moments(
    process: &Process,
    moments: &Moments,
    stop: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    let (state, moments, stop) = (
        process.folder().to_owned(),
        Arc::clone(moments),
        Arc::clone(stop),
    );
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let figures = figures(&state);
            let at_us = figures["at_us"].as_u64().unwrap();
            let ms = figures["began_unix_ms"].as_u64().unwrap() + at_us / 1000;
            moments.lock().unwrap().insert(ms / 1000 % 86_400, at_us);
            // Far more often than the snapshots come, so that none is missed.
            std::thread::sleep(Duration::from_millis(100));
        }
    })
}

fn near(told: f64, expected: f64, what: &str) {
    let share = told / expected;
    assert!(
        (0.98..=1.02).contains(&share),
        "{what}: {told} of {expected}"
    );
}

#[test]
fn a_benchmark_of_known_rate_shows_alike_everywhere() {
    let is_known = (0..5).any(|_| benchmark_shows_alike().is_some());
    assert!(is_known, "the moment of a snapshot was missed each time");
}

/// Runs a benchmark of known rate, and compares all that tells of it. Returns `None` if this
/// machine stalled so that the moment of a snapshot was missed: the rates cannot be added up then.
fn benchmark_shows_alike() -> Option<()> {
    let process = Process::start();
    let portal = serve(&process);
    // The session makes the host and the port group known before the columns are fixed.
    let mut wire = Wire::log_in(portal, TARGET);
    let ready = wire.command([0; 16], (false, false), 0, &[], false);
    assert!(ready.status == 0 || ready.status == 2);
    let session = || figures(process.folder())["sessions"][0].clone();
    wait::until_seen("the session shows", session, |told| {
        told["luns"][0]["unit"] == "vm1"
    });
    let (moments, stop) = (Moments::default(), Arc::<AtomicBool>::default());
    let noting = note_moments(&process, &moments, &stop);
    let mut batch = Batch::start(&process);
    batch.next_row();
    let before = figures(process.folder());
    let report = process.done(&format!(
        "bench run iscsi://{portal}/{TARGET}/0 --destroy-data --block 8K --reads 70 --random 100 \
         --rate 200 --time 4s --ramp-up 0 --json"
    ));
    // Remarks follow the JSON.
    let report = serde_json::Deserializer::from_str(&report).into_iter::<Value>();
    let report = report.into_iter().next().unwrap().unwrap();
    let results = &report["runs"][0]["measurement"];
    let of = |kind: &str| {
        let accesses = results[kind]["accesses"].as_f64();
        accesses.unwrap_or_else(|| panic!("{results}"))
    };
    let (reads, writes) = (of("read"), of("write"));
    assert!(
        reads > 400.0 && writes > 100.0,
        "{reads} reads, {writes} writes"
    );
    // The figures of the API, once the last commands are in a snapshot.
    let sums = |figures: &Value, kind: &str, what: &str| {
        let unit = &figures["units"][0];
        unit[kind][what]
            .as_f64()
            .unwrap_or_else(|| panic!("{unit}"))
    };
    let grown =
        |kind, what| sums(&figures(process.folder()), kind, what) - sums(&before, kind, what);
    wait::until("the snapshot comes", || {
        grown("writes", "commands") >= writes && grown("reads", "commands") >= reads
    });
    near(grown("reads", "commands"), reads, "reads of the API");
    near(grown("writes", "commands"), writes, "writes of the API");
    near(grown("writes", "bytes"), writes * SIZE, "bytes of the API");
    // The benchmark looked at the unit before it began, by few reads that are larger.
    let read_bytes = grown("reads", "bytes");
    // Two rows more have everything.
    batch.next_row();
    while batch.rows.len() < 3
        || ["Reads/sec", "Writes/sec"]
            .iter()
            .any(|counter| batch.value(batch.rows.len() - 1, "SCSI Device", counter) > 0.0)
    {
        batch.next_row();
    }
    stop.store(true, Ordering::Relaxed);
    noting.join().unwrap();
    let moments = moments.lock().unwrap();
    let sum = |object, counter| batch.sum(&moments, object, counter);
    for object in ["SCSI Device(naa.", "Physical Disk Adapter("] {
        near(sum(object, "Reads/sec")?, reads, object);
        near(sum(object, "Writes/sec")?, writes, object);
        near(
            sum(object, "MBytes Read/sec")? * 1048576.0,
            read_bytes,
            object,
        );
        near(
            sum(object, "MBytes Written/sec")? * 1048576.0,
            writes * SIZE,
            object,
        );
    }
    // The benchmark's session was gone before a snapshot had its last commands.
    let of_host = sum("Virtual Disk(bench:scsi0:0)", "Reads/sec")?;
    assert!(
        of_host > 0.0 && of_host <= reads * 1.02,
        "{of_host} of {reads}"
    );
    // iostat, since the daemon began.
    let all = figures(process.folder());
    let json: Value = serde_json::from_str(&process.done("iostat vm1 --json")).unwrap();
    let interval = json[0]["interval_s"].as_f64().unwrap();
    for kind in ["reads", "writes"] {
        let told = json[0][kind]["per_s"].as_f64().unwrap() * interval;
        near(told, sums(&all, kind, "commands"), kind);
    }
    let told = process.done("iostat -x -o JSON vm1");
    let sysstat: Value = serde_json::from_str(&told).unwrap();
    let disk = &sysstat["sysstat"]["hosts"][0]["statistics"][0]["disk"][0];
    assert_eq!(disk["disk_device"], "vm1");
    assert_eq!(disk["wareq-sz"], 8.0, "{disk}");
    let (r, w) = (disk["r/s"].as_f64().unwrap(), disk["w/s"].as_f64().unwrap());
    let expected = sums(&all, "reads", "commands") / sums(&all, "writes", "commands");
    assert!((r / w / expected - 1.0).abs() < 0.02, "{disk}");
    Some(())
}

/// Discards, flushes and failures reach the figures with their bytes.
#[test]
fn what_is_rare_is_counted() {
    let process = Process::start();
    let portal = serve(&process);
    let mut wire = Wire::log_in(portal, TARGET);
    while wire.command([0; 16], (false, false), 0, &[], false).status != 0 {}
    // UNMAP of 2048 blocks of 512 bytes from block 0 on.
    let mut list = [0_u8; 24];
    (list[1], list[3]) = (22, 16);
    list[16..20].copy_from_slice(&2048_u32.to_be_bytes());
    let mut unmap = [0; 16];
    (unmap[0], unmap[8]) = (0x42, 24);
    assert_eq!(
        wire.command(unmap, (false, true), 24, &list, true).status,
        0
    );
    let mut flush = [0; 16];
    flush[0] = 0x35;
    assert_eq!(wire.command(flush, (false, false), 0, &[], false).status, 0);
    // READ (10) far beyond the end.
    let mut read = [0; 16];
    read[0] = 0x28;
    read[2..6].copy_from_slice(&u32::MAX.to_be_bytes());
    read[8] = 1;
    assert_eq!(wire.command(read, (true, false), 512, &[], false).status, 2);
    let look = || figures(process.folder())["units"][0].clone();
    let unit = wait::until_seen("the snapshot comes", look, |unit| {
        unit["flushes"]["commands"] == 1 && unit["failures"]["reads"] == 1
    });
    assert_eq!(unit["discards"]["commands"], 1);
    assert_eq!(unit["discards"]["bytes"], 1 << 20);
    assert_eq!(unit["failures"]["read_bytes"], 512);
    assert_eq!(unit["failures"]["writes"], 0);
    assert_eq!(unit["active"], 0);
    let json: Value = serde_json::from_str(&process.done("iostat vm1 --json")).unwrap();
    let interval = json[0]["interval_s"].as_f64().unwrap();
    let discarded = json[0]["discards"]["bytes_per_s"].as_f64().unwrap() * interval;
    assert!((discarded - 1048576.0).abs() < 1.0, "{json}");
    let group = &figures(process.folder())["port_groups"][0]["failures"];
    assert_eq!(group["reads"], 1, "{group}");
    let header = process.done("top -b -d 1 -n 1");
    assert!(header.contains("\\Failed Reads/sec\""), "{header}");
    assert_eq!(header.lines().count(), 2);
}

#[test]
fn wrong_uses_say_what_to_do() {
    let process = Process::start();
    serve(&process);
    let said = process.refused("top");
    assert!(said.contains("sandstone top -b"), "{said}");
    for (line, expected) in [
        ("top -b -d 0.5", "the shortest delay is 1 second"),
        ("top -b -n 0", "0 is not in"),
        ("iostat -o JSON", "sandstone iostat -x -o JSON"),
        ("iostat -x -o name", "the columns of -x are fixed"),
        ("iostat -x -n -o JSON", "Solaris has neither"),
        ("iostat -x --json", "-x -o JSON has sysstat's keys"),
        ("iostat --disks -s", "disks have no sessions"),
    ] {
        let said = process.refused(line);
        assert!(said.contains(expected), "{line}: {said}");
    }
    let disks = process.done("iostat --disks");
    assert!(disks.contains("no disks of open pools"), "{disks}");
}

/// A closed window must not leave a program behind that reads its terminal without end.
#[test]
fn top_ends_when_its_terminal_hangs_up() {
    let process = Process::start();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let mut top = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .arg("--state")
        .arg(process.folder())
        .arg("top")
        .env("TERM", "xterm")
        .stdin(slave.try_clone().unwrap())
        .stdout(slave.try_clone().unwrap())
        .stderr(slave)
        .spawn()
        .unwrap();
    let mut master = std::fs::File::from(master);
    // The screen is drawn before the terminal goes away.
    assert!(master.read(&mut [0; 64]).unwrap() > 0);
    drop(master);
    let pid = Pid::from_child(&top);
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(top.wait().unwrap()));
    let ended = ended.recv_timeout(PATIENCE);
    if ended.is_err() {
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    assert!(!ended.expect("it ends").success());
}
