//! Lab of two of our hosts and a pool on a disk that tgt serves. A foreign target grants the
//! persistent reservation that keeps the pool.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::initiator::{attached, nbd, no_initiator, same, serve};
use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process::{self, Running};
use crate::qemu_img::{SIZE_MIB, sparse_pattern};
use crate::servers::server::{self, Backend, Server, ServerKind, Spec, free_port};

/// Time limit of an import, which watches for longer than the previous host promised to be silent.
const LIMIT: Duration = Duration::from_secs(120);
const TARGET: &str = "iqn.2026-01.org.sandstone.conformance:vm1";

/// Lab in which one host is paused and another one takes its pool.
pub(crate) const LABS: &[Lab] = &[Lab {
    name: "pool-hosts-tgt",
    about: "a pool on a disk of tgt: a host is paused, another takes the pool by force, and tgt keeps the first one off",
    room: Room::Shared,
    run: take_over,
}];

/// Daemon with a state folder of its own.
struct LabHost {
    program: PathBuf,
    process: Running,
    portal: String,
    // The folder is the last field, so that it is removed after the process that uses it.
    folder: tempfile::TempDir,
}

impl LabHost {
    fn start(program: &Path) -> Result<Self> {
        let folder = crate::machine::scratch::folder("host")?;
        let mut command = Command::new(program);
        command
            .args(["serve", "--console", "off", "--state"])
            .arg(folder.path().join("state"));
        let process = process::start_logged(command, &server::log_file(folder.path()))?;
        let host = Self {
            program: program.to_owned(),
            process,
            portal: format!("127.0.0.1:{}", free_port()?),
            folder,
        };
        host.until("session list", "")?;
        Ok(host)
    }

    fn ask(&self, words: &str) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(words.split(' ')).arg("--state");
        command.arg(self.folder.path().join("state"));
        process::output(command, LIMIT)
    }

    /// Asks until the answer contains `wanted`.
    fn until(&self, words: &str, wanted: &str) -> Result<String> {
        let mut told = String::new();
        let what = format!("`{words}` says '{wanted}'");
        let found = process::until(&what, LIMIT, || match self.ask(words) {
            Ok(answer) => {
                told = answer;
                told.contains(wanted)
            }
            Err(error) => {
                told = format!("{error:#}");
                false
            }
        });
        found.with_context(|| told.clone())?;
        Ok(told)
    }

    /// Logs in to the array, and returns the name of its disk.
    fn reach(&self, array: &Server) -> Result<String> {
        self.ask(&format!(
            "initiator login {} --portal {}",
            array.target,
            array.portal(0)
        ))?;
        let listed = self.until("initiator device list --json", "\"name\"")?;
        let listed: serde_json::Value = serde_json::from_str(&listed).context("the devices")?;
        let name = listed.pointer("/0/state/nmp/name");
        let disk = name.and_then(|name| name.as_str());
        let disk = disk.context("no device's name")?;
        Ok(disk.to_owned())
    }

    /// Serves the pool's volume.
    fn serve_volume(&self) -> Result<String> {
        self.ask("lu create vm1 --volume tank/vm1")?;
        self.ask(&format!("target create {TARGET} --portal {}", self.portal))?;
        self.ask(&format!(
            "map add vm1 --every-host --target {TARGET} --lun 0"
        ))?;
        Ok(format!("iscsi://{}/{TARGET}/0", self.portal))
    }

    fn stop_serving(&self) -> Result<()> {
        self.ask("map remove vm1 --all --yes")?;
        self.ask("lu delete vm1 --yes").map(drop)
    }
}

fn take_over(bench: &Bench) -> Result<Outcome> {
    if let Some(skipped) = no_initiator(bench) {
        return Ok(skipped);
    }
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("the peer knows no pools".to_owned()));
    };
    let spec = Spec {
        backend: Backend::File,
        size_mib: 2 * SIZE_MIB,
        ..Spec::default()
    };
    let mut array = serve(bench, true, spec)?;
    let (first, second) = (LabHost::start(program)?, LabHost::start(program)?);
    let disk = first.reach(&array)?;
    ensure!(second.reach(&array)? == disk, "two names for one disk");
    first.ask(&format!("pool create tank {disk}"))?;
    let is_fenced = |host: &LabHost| -> Result<()> {
        let status = host.ask("pool status tank")?;
        let words: Vec<&str> = status.split_whitespace().collect();
        let is_reserved = words.join(" ").contains("(persistent reservations)");
        ensure!(is_reserved && status.contains("state: ONLINE"), "{status}");
        Ok(())
    };
    is_fenced(&first)?;
    first.ask(&format!("volume create -s -V {SIZE_MIB}M tank/vm1"))?;
    let url = first.serve_volume()?;
    let folder = crate::machine::scratch::folder("pool-hosts")?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (source, back) = (path("source.raw"), path("back.raw"));
    sparse_pattern(Path::new(&source))?;
    let host = attached(bench, &url)?;
    nbd(bench, "nbdcopy", &["--flush", &source, &host.uri])?;
    host.end()?;

    first.process.signal("STOP");
    second.ask("pool import -f tank")?;
    is_fenced(&second)?;
    let url = second.serve_volume()?;
    let host = attached(bench, &url)?;
    nbd(bench, "nbdcopy", &[&host.uri, &back])?;
    same(&source, &back)?;
    first.process.signal("CONT");
    first.until("pool status tank", "SUSPENDED")?;
    nbd(bench, "nbdcopy", &["--flush", &source, &host.uri])?;
    nbd(bench, "nbdcopy", &[&host.uri, &back])?;
    same(&source, &back)?;
    host.end()?;
    second.ask("pool scrub -w tank")?;
    let status = second.ask("pool status tank")?;
    ensure!(status.contains("with 0 errors on "), "{status}");
    is_fenced(&second)?;

    // After an orderly export, the pool goes back to the first host without force.
    second.stop_serving()?;
    second.ask("pool export tank")?;
    first.ask("pool clear tank")?;
    is_fenced(&first)?;
    let host = attached(bench, &format!("iscsi://{}/{TARGET}/0", first.portal))?;
    nbd(bench, "nbdcopy", &[&host.uri, &back])?;
    same(&source, &back)?;
    host.end()?;
    array.check_alive()?;
    Ok(Outcome::passed(format!(
        "{SIZE_MIB} MiB through a pool on tgt's disk, taken by a second host and given back"
    )))
}
