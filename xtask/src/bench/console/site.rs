//! Daemon with very many objects.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Extent;
use super::http::Client;
use crate::bench::client::{self, Held};
use crate::bench::progress;
use crate::bench::server::{Server, free_port};
use crate::bench::workload::{Cell, WORKLOADS, Workload};

/// Core of the daemon.
const CORE: &str = "0";
/// Target of all units but the one that is loaded.
const TARGET: &str = "iqn.2026-01.io.sandstone:many";
/// Target of the unit that is loaded.
const LOADED: &str = "iqn.2026-01.io.sandstone:loaded";
/// Workload that viewers may slow down.
const READS: &str = "lean-read-4k-qd64";

/// Daemon that is measured.
pub(super) struct Site {
    // The daemon ends before its folder is removed.
    server: Server,
    program: PathBuf,
    folder: Folder,
    console: SocketAddr,
}

/// Folder that is removed when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Site {
    /// Starts a daemon, and fills it.
    pub(super) fn start(program: &Path, extent: &Extent) -> Result<Self, String> {
        let folder = crate::target_folder().join(format!("bench-console-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| format!("make {}: {e}", folder.display()))?;
        let folder = Folder(folder);
        let portal = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let console = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let log = fs::File::create(folder.0.join("log")).map_err(|e| format!("make a log: {e}"))?;
        let child = Command::new("taskset")
            .args(["-c", CORE])
            .arg(program)
            .args(["serve", "--threads", "1", "--cache", "256M", "--state"])
            .arg(folder.0.join("state"))
            .args(["--console", &console.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
        let site = Self {
            server: Server::serving(child, portal, LOADED),
            program: program.to_owned(),
            folder,
            console,
        };
        site.wait()?;
        site.fill(extent)?;
        Ok(site)
    }

    /// Returns the number of the daemon's process.
    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    fn ask(&self, words: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.program)
            .args(words)
            .arg("--state")
            .arg(self.folder.0.join("state"))
            .output()
            .map_err(|e| format!("cannot run {}: {e}", self.program.display()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!(
                "sandstone {}: {}",
                words.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        }
    }

    fn wait(&self) -> Result<(), String> {
        let patience = Instant::now() + Duration::from_secs(30);
        loop {
            match self.ask(&["status"]) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > patience => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn fill(&self, extent: &Extent) -> Result<(), String> {
        progress(&format!(
            "making {} volumes and {} snapshots",
            extent.units,
            extent.units * extent.snapshots
        ));
        let disk = self.folder.0.join("disk").display().to_string();
        self.ask(&["pool", "create", "--size", "8G", "tank", &disk])?;
        self.ask(&["volume", "create", "tank/vm"])?;
        for unit in 0..extent.units {
            let name = format!("tank/vm/{}", unit_name(unit));
            self.ask(&["volume", "create", "-s", "-V", "64M", &name])?;
        }
        for day in 0..extent.snapshots {
            let name = format!("tank/vm@day-{day:02}");
            self.ask(&["volume", "snapshot", "-r", &name])?;
        }
        let file = self.folder.0.join("config.toml");
        fs::write(&file, configuration(extent, self.server.portal))
            .map_err(|e| format!("keep the configuration: {e}"))?;
        self.ask(&["config", "apply", "--yes", &file.to_string_lossy()])?;
        // Until the console has a user, it answers nothing but its first page.
        let password = self.folder.0.join("password");
        fs::write(&password, "a password for the benchmark")
            .map_err(|e| format!("keep a password: {e}"))?;
        let file = password.display().to_string();
        self.ask(&[
            "user",
            "add",
            "bench",
            "--role",
            "admin",
            "--password-file",
            &file,
        ])?;
        client::fill(&self.server)
    }

    /// Logs sessions in, ten from each host.
    pub(super) fn hold_sessions(&self, number: usize) -> Result<Held, String> {
        Held::log_in_to(self.server.portal, TARGET, number)
    }

    /// Returns a client of the console with the rights of an admin.
    pub(super) fn client(&self) -> Result<Client, String> {
        let told = self.ask(&["token", "add", "bench", "--role", "admin"])?;
        let token = told
            .split_whitespace()
            .find(|word| word.starts_with("sst_"));
        Ok(Client {
            origin: format!("https://{}", self.console),
            token: token.ok_or("no token was made")?.to_owned(),
        })
    }

    /// Reads for a while, and returns thousands of reads per second.
    pub(super) fn reads(&self, seconds: f64) -> Result<f64, String> {
        let workload: &Workload = WORKLOADS
            .iter()
            .find(|workload| workload.name == READS)
            .ok_or("the workload is gone")?;
        let cell = Cell::measure(workload, &self.server, Path::new(""), seconds)?;
        Ok(cell.kiops())
    }
}

fn unit_name(number: usize) -> String {
    format!("vm-{number:04}")
}

/// Writes the configuration: units, targets, hosts with their initiators, and a map for each unit.
fn configuration(extent: &Extent, portal: SocketAddr) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = writeln!(
        text,
        "[[units]]\nname = \"loaded\"\nnaa = \"6a9800{:026x}\"\nserial = \"LOADED\"\n\
         backend = {{ kind = \"memory\", size = {} }}\nblock_size = 512\n",
        0xffff_ffff_u32,
        1_u64 << 28
    );
    for unit in 0..extent.units {
        let name = unit_name(unit);
        let _ = writeln!(
            text,
            "[[units]]\nname = \"{name}\"\nnaa = \"6a9800{unit:026x}\"\nserial = \"MANY{unit:06}\"\n\
             backend = {{ kind = \"volume\", volume = \"tank/vm/{name}\" }}\nblock_size = 512\n"
        );
    }
    for target in [TARGET, LOADED] {
        let _ = writeln!(
            text,
            "[[targets]]\niqn = \"{target}\"\nalias = \"\"\n[[targets.portal_groups]]\ntag = 1\n\
             target_port_group = 1\nportals = [\"{portal}\"]\n"
        );
    }
    let per_host = extent.sessions / extent.hosts;
    for host in 0..extent.hosts {
        let initiators: Vec<String> = (host * per_host..(host + 1) * per_host)
            .map(|number| format!("\"iqn.2026-01.org.example:lean-{number}\""))
            .collect();
        let _ = writeln!(
            text,
            "[[hosts]]\nname = \"host-{host:03}\"\ninitiators = [{}]\n",
            initiators.join(", ")
        );
    }
    for unit in 0..extent.units {
        let _ = writeln!(
            text,
            "[[maps]]\nunit = \"{}\"\nhost = \"host-{:03}\"\ntarget = \"{TARGET}\"\nlun = {}\n",
            unit_name(unit),
            unit % extent.hosts,
            unit / extent.hosts
        );
    }
    let _ = writeln!(
        text,
        "[[maps]]\nunit = \"loaded\"\nhost = \"host-000\"\ntarget = \"{LOADED}\"\nlun = 0"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::console::QUICK;

    #[test]
    fn each_unit_has_a_map_and_each_session_a_host() {
        let text = configuration(&QUICK, SocketAddr::from(([127, 0, 0, 1], 3260)));
        let count = |what: &str| text.matches(what).count();
        assert_eq!(count("[[units]]"), QUICK.units + 1);
        assert_eq!(count("[[maps]]"), QUICK.units + 1);
        assert_eq!(count(":lean-"), QUICK.sessions);
        assert_eq!(count("[[hosts]]"), QUICK.hosts);
    }
}
