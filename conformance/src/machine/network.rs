//! Network of its own for a lab: a namespace with taps, of which each is one path between a guest
//! and the server. The host side of path N is 10.77.N.1, the guest side 10.77.N.2.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::machine::packages::on_path;
use crate::machine::process;

const LIMIT: Duration = Duration::from_secs(20);
const PREFIX: &str = "sandstone-";
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Network namespace, which is removed with this value.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// Name for `ip netns exec`.
    pub(crate) name: String,
    /// Number of taps.
    pub(crate) paths: usize,
}

impl Namespace {
    /// Makes a namespace with `paths` taps.
    ///
    /// # Errors
    /// `ip` fails.
    pub(crate) fn new(paths: usize) -> Result<Self> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = Self {
            name: format!("{PREFIX}{}-{number}", std::process::id()),
            paths,
        };
        ip(&["netns", "add", &namespace.name])?;
        let inside = ["-n", namespace.name.as_str()];
        ip(&[&inside[..], &["link", "set", "lo", "up"]].concat())?;
        for path in 0..paths {
            let tap = format!("tap{path}");
            let address = format!("{}/24", host_address(path));
            ip(&[&inside[..], &["tuntap", "add", &tap, "mode", "tap"]].concat())?;
            ip(&[&inside[..], &["addr", "add", &address, "dev", &tap]].concat())?;
            ip(&[&inside[..], &["link", "set", &tap, "up"]].concat())?;
        }
        Ok(namespace)
    }

    /// Cuts or restores a path on the host's side.
    ///
    /// # Errors
    /// There is no such path, or `ip` fails.
    pub(crate) fn set_link(&self, path: usize, up: bool) -> Result<()> {
        if path >= self.paths {
            bail!("there is no path {path}");
        }
        let state = if up { "up" } else { "down" };
        ip(&[
            "-n",
            &self.name,
            "link",
            "set",
            &format!("tap{path}"),
            state,
        ])
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "del", &self.name]) {
            eprintln!("cannot remove the namespace {}: {error:#}", self.name);
        }
    }
}

/// Runs `command` inside the namespace `name`, or unchanged without a name.
pub(crate) fn inside(name: Option<&str>, command: Command) -> Command {
    let Some(name) = name else { return command };
    let mut wrapped = Command::new("ip");
    wrapped
        .args(["netns", "exec", name])
        .arg(command.get_program())
        .args(command.get_args());
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            wrapped.env(key, value);
        }
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}

/// Returns the host's address on path `path`.
pub(crate) fn host_address(path: usize) -> String {
    format!("10.77.{path}.1")
}

/// Returns the reason why this machine cannot make namespaces with taps, if it cannot.
pub(crate) fn missing() -> Option<String> {
    if on_path("ip").is_none() {
        return Some("no `ip` (Debian package iproute2)".to_owned());
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Some("no /dev/net/tun, so no tap for a guest".to_owned());
    }
    Namespace::new(1).err().map(|error| {
        let text = format!("{error:#}").replace('\n', " ");
        format!("cannot make a network namespace with a tap (needs root): {text}")
    })
}

/// Removes the namespaces of runs that were killed.
pub(crate) fn remove_stale() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else {
        return;
    };
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        let Some(owner) = owner.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        if !std::path::Path::new(&format!("/proc/{owner}")).exists() {
            let _ = ip(&["netns", "del", &name]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(arguments);
    process::output(command, LIMIT)
        .map(drop)
        .context("network namespace")
}
