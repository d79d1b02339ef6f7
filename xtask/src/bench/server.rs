//! Targets under test. Each is started privately on one core with a unit of 1 GiB: RAM-backed, or a
//! volume of a pool on files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::debian;

/// Core of the target.
const CORE: &str = "0";
const UNIT_LEN: u64 = 1 << 30;
const TGT_IQN: &str = "iqn.2026-01.org.example:bench-tgt";

/// Target under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TargetKind {
    Tgt,
    Sandstone,
    /// Sandstone, whose unit is a volume of a pool.
    Pool,
}

impl TargetKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tgt => "tgt",
            Self::Sandstone => "Sandstone",
            Self::Pool => "Sandstone's pool",
        }
    }
}

/// Running target, which is stopped when dropped.
#[derive(Debug)]
pub(super) struct Server {
    pub kind: TargetKind,
    pub portal: SocketAddr,
    pub target: String,
    pub lun: u8,
    child: Child,
    /// Backing file and control number of tgt.
    tgt: Option<(PathBuf, String)>,
}

/// Line that `sandstone demo --json` prints once it serves.
#[derive(Deserialize)]
struct DemoLine {
    portal: SocketAddr,
    target: String,
    lun: u8,
}

impl Server {
    pub(super) fn start(kind: TargetKind, sandstone: &Path) -> Result<Self, String> {
        match kind {
            TargetKind::Tgt => start_tgt(),
            TargetKind::Sandstone | TargetKind::Pool => start_sandstone(kind, sandstone),
        }
    }

    /// Takes over a daemon that somebody else started, to load LUN 0 of one of its targets.
    pub(super) fn serving(child: Child, portal: SocketAddr, target: &str) -> Self {
        Self {
            kind: TargetKind::Sandstone,
            portal,
            target: target.to_owned(),
            lun: 0,
            child,
            tgt: None,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the address in libiscsi's form.
    pub(super) fn url(&self) -> String {
        format!("iscsi://{}/{}/{}", self.portal, self.target, self.lun)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Even if a step here fails, the process is ended and waited for, so that its core is free.
        if let Some((_, control)) = &self.tgt {
            let _ = tgtadm(
                control,
                &[
                    "--op", "delete", "--mode", "target", "--tid", "1", "--force",
                ],
            );
            let _ = tgtadm(control, &["--op", "delete", "--mode", "system"]);
        }
        // The files of a demo are deleted when it ends by itself.
        if self.kind != TargetKind::Tgt {
            let _ = Command::new("kill").arg(self.pid().to_string()).status();
        }
        let patience = match self.kind {
            TargetKind::Tgt => Duration::from_millis(500),
            TargetKind::Sandstone | TargetKind::Pool => Duration::from_secs(20),
        };
        let patience = Instant::now() + patience;
        while Instant::now() < patience && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some((file, _)) = &self.tgt {
            let _ = fs::remove_file(file);
        }
    }
}

/// Installs tgt, and the tool that pins processes.
pub(super) fn install_tgt() -> Result<(), String> {
    debian::ensure("/usr/sbin/tgtd", "tgt")?;
    debian::ensure("/usr/bin/taskset", "util-linux")
}

/// Returns the binary to test: the given one, or one that is built now.
pub(super) fn sandstone_binary(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = given {
        return path
            .canonicalize()
            .map_err(|e| format!("--server {}: {e}", path.display()));
    }
    let folder = super::build(&["--package", "sandstone"])?;
    Ok(folder.join("sandstone"))
}

/// Returns a port that was free a moment ago.
pub(super) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| format!("no free port: {e}"))?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.port())
}

fn start_tgt() -> Result<Server, String> {
    let port = free_port()?;
    let control = (std::process::id() % 30_000 + 100).to_string();
    let file = PathBuf::from(format!("/dev/shm/sandstone-bench-{port}.img"));
    let made = fs::File::create(&file).and_then(|f| f.set_len(UNIT_LEN));
    made.map_err(|e| {
        format!(
            "cannot make {} (1 GiB of memory is needed there): {e}",
            file.display()
        )
    })?;
    let child = Command::new("taskset")
        .args([
            "-c",
            CORE,
            "tgtd",
            "-f",
            "-C",
            &control,
            "--iscsi",
            &format!("portal=127.0.0.1:{port}"),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot start tgtd: {e}"))?;
    let server = Server {
        kind: TargetKind::Tgt,
        portal: SocketAddr::from(([127, 0, 0, 1], port)),
        target: TGT_IQN.into(),
        lun: 1,
        child,
        tgt: Some((file.clone(), control.clone())),
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    let new_target = [
        "--op",
        "new",
        "--mode",
        "target",
        "--tid",
        "1",
        "--targetname",
        TGT_IQN,
    ];
    while let Err(e) = tgtadm(&control, &new_target) {
        if Instant::now() > deadline {
            return Err(format!("tgtd does not come up (it must run as root): {e}"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let file = file.to_string_lossy();
    tgtadm(
        &control,
        &[
            "--op",
            "new",
            "--mode",
            "logicalunit",
            "--tid",
            "1",
            "--lun",
            "1",
            "--backing-store",
            &file,
        ],
    )?;
    for digest in ["HeaderDigest", "DataDigest"] {
        // The digest is offered only on request. Initiators that say None still get None.
        tgtadm(
            &control,
            &[
                "--op", "update", "--mode", "target", "--tid", "1", "--name", digest, "--value",
                "CRC32C",
            ],
        )?;
    }
    tgtadm(
        &control,
        &[
            "--op",
            "bind",
            "--mode",
            "target",
            "--tid",
            "1",
            "--initiator-address",
            "ALL",
        ],
    )?;
    Ok(server)
}

fn tgtadm(control: &str, words: &[&str]) -> Result<(), String> {
    let output = Command::new("tgtadm")
        .args(["-C", control, "--lld", "iscsi"])
        .args(words)
        .output();
    let output = output.map_err(|e| format!("cannot run tgtadm: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "tgtadm {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

fn start_sandstone(kind: TargetKind, binary: &Path) -> Result<Server, String> {
    let unit = match kind {
        TargetKind::Pool => "--size",
        TargetKind::Sandstone | TargetKind::Tgt => "--memory",
    };
    let mut child = Command::new("taskset")
        .args(["-c", CORE])
        .arg(binary)
        .args(["demo", unit, "1G", "--threads", "1", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", binary.display()))?;
    let mut line = String::new();
    let read = child
        .stdout
        .take()
        .map(|out| BufReader::new(out).read_line(&mut line));
    let served: Result<DemoLine, String> = match read {
        Some(Ok(n)) if n > 0 => {
            serde_json::from_str(&line).map_err(|e| format!("{}: {e}", line.trim()))
        }
        _ => Err("it ended before it served".into()),
    };
    match served {
        Ok(DemoLine {
            portal,
            target,
            lun,
        }) => Ok(Server {
            kind,
            portal,
            target,
            lun,
            child,
            tgt: None,
        }),
        Err(e) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(format!(
                "{} demo {unit} 1G --threads 1 --json: {e}",
                binary.display()
            ))
        }
    }
}
