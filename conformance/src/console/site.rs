//! Daemon whose console is looked at: pools, units, hosts, and initiators that read and write.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::browser::Browser;
use crate::machine::loop_disk::LoopDisk;
use crate::machine::process::{self, Running};
use crate::machine::scratch;
use crate::servers::server;

const LIMIT: Duration = Duration::from_secs(120);
/// Password of all users.
const PASSWORD: &str = "a password for the lab";
/// Target of all units.
pub(super) const TARGET: &str = "iqn.2026-01.io.sandstone:san1";

/// Roles, the least first. A user of each has its name.
pub(super) const ROLES: [&str; 3] = ["viewer", "operator", "admin"];

/// Script that gives a program disks of its own: the loop devices that its first argument names.
/// The other arguments are the program.
const ONLY_THESE_DISKS: &str = "\
mkdir -p /dev/disk
mount -t tmpfs none /sys/class/block
mount -t tmpfs none /dev/disk
mkdir /dev/disk/by-id
number=1
for name in $1; do
    ln -s ../../devices/virtual/block/$name /sys/class/block/$name
    ln -s ../../$name /dev/disk/by-id/disk-$number
    number=$((number + 1))
done
shift
exec \"$@\"";

/// Load on a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    /// Name of the initiator.
    pub(super) initiator: &'a str,
    /// LUN of the unit at the target.
    pub(super) lun: u16,
    /// Options of `bench run`: what is read and written, and how often.
    pub(super) options: &'a str,
}

/// Daemon at work. It ends with the value.
pub(super) struct Site {
    program: PathBuf,
    // Loads end before the daemon, and the folder goes last.
    loads: Vec<Running>,
    process: Running,
    console: u16,
    portal: u16,
    folder: TempDir,
}

impl Site {
    /// Starts a daemon with its console, one user in each role, and nothing else.
    ///
    /// # Errors
    /// The daemon does not come up.
    pub(super) fn start(program: &Path) -> Result<Self> {
        Self::start_by(Command::new(program), program)
    }

    /// Starts a daemon as [`Site::start`] does, which sees these disks and no other ones. They are
    /// below /dev/disk/by-id as `disk-1`, `disk-2` and so on.
    ///
    /// # Errors
    /// The daemon does not come up, or this user may not mount.
    pub(super) fn start_with(program: &Path, disks: &[LoopDisk]) -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", ONLY_THESE_DISKS, "sh"]);
        let names = disks.iter().map(|it| it.node().trim_start_matches("/dev/"));
        command.arg(names.collect::<Vec<_>>().join(" "));
        command.arg(program);
        Self::start_by(command, program)
    }

    /// Starts a daemon by a command, which lacks the daemon's options.
    fn start_by(mut command: Command, program: &Path) -> Result<Self> {
        let folder = scratch::folder("console")?;
        let (console, portal) = (server::free_port()?, server::free_port()?);
        command
            .args(["serve", "--cache", "64M", "--console"])
            .arg(format!("127.0.0.1:{console}"))
            .arg("--state")
            .arg(folder.path().join("state"));
        let process = process::start_logged(command, &server::log_file(folder.path()))?;
        let site = Self {
            program: program.to_owned(),
            loads: Vec::new(),
            process,
            console,
            portal,
            folder,
        };
        process::until("the daemon answers", LIMIT, || site.ask("status").is_ok())?;
        let file = site.file("password");
        fs::write(&file, PASSWORD).context("keep the password")?;
        for role in ROLES {
            site.ask(&format!(
                "user add {role} --role {role} --password-file {file}"
            ))?;
        }
        Ok(site)
    }

    /// Returns the address of a page.
    pub(super) fn page(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.console)
    }

    /// Returns the address at which targets listen.
    pub(super) fn portal(&self) -> String {
        format!("127.0.0.1:{}", self.portal)
    }

    /// Returns the port at which targets listen.
    pub(super) const fn port(&self) -> u16 {
        self.portal
    }

    /// Returns the path of a file in the folder of this lab.
    pub(super) fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs a verb of the command line, whose words have no spaces.
    ///
    /// # Errors
    /// The verb fails.
    pub(super) fn ask(&self, words: &str) -> Result<String> {
        let mut command = Command::new(&self.program);
        command
            .args(words.split_whitespace())
            .arg("--state")
            .arg(self.folder.path().join("state"));
        process::output(command, LIMIT)
    }

    /// Runs a verb for each line.
    ///
    /// # Errors
    /// A verb fails.
    pub(super) fn ask_all(&self, lines: &str) -> Result<()> {
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            self.ask(line)?;
        }
        Ok(())
    }

    /// Reads and writes a unit until the daemon ends.
    ///
    /// # Errors
    /// The load cannot be started.
    pub(super) fn load(&mut self, load: Load<'_>) -> Result<()> {
        self.load_at(TARGET, load)
    }

    /// Reads and writes a unit at a target until the daemon ends.
    ///
    /// # Errors
    /// The load cannot be started.
    pub(super) fn load_at(&mut self, target: &str, load: Load<'_>) -> Result<()> {
        let url = format!(
            "iscsi://{}/{target}/{}?initiator_name={}",
            self.portal(),
            load.lun,
            load.initiator
        );
        let mut command = Command::new(&self.program);
        command
            .args(["bench", "run", &url, "--destroy-data", "--ramp-up", "0"])
            .args(["--time", "30m"])
            .args(load.options.split_whitespace());
        let log = self
            .folder
            .path()
            .join(format!("load-{}.log", self.loads.len()));
        self.loads.push(process::start_logged(command, &log)?);
        Ok(())
    }

    /// Waits until every load has a session.
    ///
    /// # Errors
    /// A load ended, or has no session after a while.
    pub(super) fn loads_run(&mut self) -> Result<()> {
        let wanted = self.loads.len();
        process::until("all initiators are logged in", LIMIT, || {
            self.ask("session list --json")
                .ok()
                .and_then(|text| serde_json::from_str::<Vec<serde_json::Value>>(&text).ok())
                .is_some_and(|sessions| sessions.len() >= wanted)
        })?;
        self.check_alive()
    }

    /// Checks that the daemon and all loads are at work.
    ///
    /// # Errors
    /// One of them ended.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        let ended = self.process.child.try_wait()?;
        ensure!(
            ended.is_none(),
            "the daemon ended; the end of its log:\n{}",
            process::last_lines(&self.log("server.log"), 15)
        );
        for number in 0..self.loads.len() {
            let ended = self.loads[number].child.try_wait()?;
            ensure!(
                ended.is_none(),
                "load {number} ended:\n{}",
                process::last_lines(&self.log(&format!("load-{number}.log")), 15)
            );
        }
        Ok(())
    }

    fn log(&self, name: &str) -> String {
        let text = fs::read(self.file(name)).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Logs a user in, through the form that people use.
    ///
    /// # Errors
    /// The overview does not come up.
    pub(super) fn log_in(&self, browser: &Browser, user: &str) -> Result<()> {
        browser.forget_cookies()?;
        browser.go(&self.page("/login"))?;
        browser.run(&format!(
            "const form = document.querySelector('form[action=\"/login\"]');
             form.elements.name.value = '{user}';
             form.elements.password.value = '{PASSWORD}';
             form.requestSubmit();"
        ))?;
        process::until("the overview follows the login", LIMIT, || {
            browser
                .run(
                    "return location.pathname === '/' && document.readyState === 'complete' \
                     && document.querySelector('main') !== null",
                )
                .is_ok_and(|done| done == true)
        })
        .with_context(|| format!("log {user} in"))
    }
}
