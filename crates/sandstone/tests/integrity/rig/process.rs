//! Real daemon as a process of its own: `sandstone serve` on a state folder, killed and started
//! again at will.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use block::file::{FileDevice, FileOptions};
use config::history::Note;
use config::store::Store;
use model::config::{
    AluaMode, BackendSpec, Config, MapSpec, PortalGroupSpec, TargetSpec, UnitSpec,
};

pub(crate) const TARGET: &str = "iqn.2026-01.io.sandstone:integrity";

/// Daemon with its state folder.
pub(crate) struct Process {
    state: tempfile::TempDir,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Process {
    /// Writes the configuration, creates the files of its units and starts to serve them.
    pub(crate) fn start(arguments: &[&str], configure: impl FnOnce(&mut Config)) -> Self {
        let state = tempfile::tempdir().unwrap();
        {
            let (mut store, mut config) = Store::open(state.path()).unwrap();
            configure(&mut config);
            config.generation += 1;
            store.save(&config, &Note::default()).unwrap();
            for unit in &config.units {
                let backend = &unit.backend;
                let (Some(path), Some(size)) = (backend.path(state.path()), backend.size()) else {
                    continue;
                };
                let options = FileOptions {
                    block_size: unit.block_size,
                    preallocate: backend.is_preallocated(),
                    direct: true,
                };
                FileDevice::create(&path, size, options).unwrap();
            }
        }
        let mut process = Self {
            state,
            arguments: arguments
                .iter()
                .map(|argument| (*argument).to_owned())
                .collect(),
            child: None,
        };
        process.restart();
        process
    }

    /// Returns the state folder.
    pub(crate) fn state(&self) -> &std::path::Path {
        self.state.path()
    }

    /// Starts the daemon after it was killed or has ended.
    pub(crate) fn restart(&mut self) {
        assert!(self.child.is_none());
        let child = Command::new(env!("CARGO_BIN_EXE_sandstone"))
            .args(["serve", "--console", "off", "--log", "error", "--state"])
            .arg(self.state.path())
            .args(&self.arguments)
            .stdin(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
    }

    /// Returns a line of its `/proc/PID/status`, in bytes: VmRSS, or VmHWM for the peak.
    pub(crate) fn memory(&self, line: &str) -> u64 {
        let child = self.child.as_ref().expect("it runs");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let found = status
            .lines()
            .find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
        let kib = found
            .and_then(|text| text.split_whitespace().next())
            .unwrap();
        kib.parse::<u64>().unwrap() * 1024
    }

    /// Terminates the daemon, and waits until it has ended.
    pub(crate) fn terminate(&mut self) {
        let mut child = self.child.take().expect("it runs");
        let told = Command::new("kill").arg(child.id().to_string()).status();
        assert!(told.unwrap().success());
        assert!(child.wait().unwrap().success(), "it ends in order");
    }

    /// Runs a verb of the command line against the daemon.
    pub(crate) fn run(&self, line: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_sandstone"))
            .arg("--state")
            .arg(self.state.path())
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(output.status.success(), "{line}: {text}");
        text
    }

    /// Kills the daemon: nothing of its own gets a chance to run.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The daemon may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns a portal that nobody else takes while the daemon is down.
///
/// Its port is below those that the kernel gives to outgoing connections.
pub(crate) fn free_portal() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 10_000 + (std::process::id() % 1000) as u16 * 20;
    for _ in 0..20_000 {
        let port = base + NEXT.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port is free");
}

/// Returns a target with a portal group for each portal.
pub(crate) fn target(portals: &[SocketAddr]) -> TargetSpec {
    let portal_groups = portals
        .iter()
        .zip(1..)
        .map(|(portal, tag)| PortalGroupSpec {
            tag,
            relative_port_id: tag,
            target_port_group: tag,
            portals: vec![*portal],
            alua_state: Default::default(),
        });
    TargetSpec {
        iqn: TARGET.into(),
        alias: String::new(),
        portal_groups: portal_groups.collect(),
        alua: AluaMode::Both,
        redirect: None,
        mutual_chap: None,
        parameters: Default::default(),
        offline: false,
    }
}

/// Returns a thin unit in a file, and its map to every initiator.
pub(crate) fn file_unit(
    lun: u16,
    blocks: u64,
    block_size: u32,
    write_cache: bool,
) -> (UnitSpec, MapSpec) {
    let name = format!("unit-{lun}");
    let unit = UnitSpec {
        name: name.clone(),
        naa: format!("6e0000000000000100000000000000{lun:02x}"),
        serial: format!("serial-{lun}"),
        backend: BackendSpec::File {
            path: format!("volumes/{name}.img").into(),
            size: blocks * u64::from(block_size),
            preallocate: false,
        },
        block_size,
        physical_block_size: block_size,
        write_cache,
        read_only: false,
        thin: true,
        threshold_percent: None,
        offline: false,
    };
    let map = MapSpec {
        unit: name,
        host: None,
        target: None,
        lun,
        read_only: false,
    };
    (unit, map)
}
