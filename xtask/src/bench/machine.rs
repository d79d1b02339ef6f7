//! Description of the machine and of versions, without which figures mean nothing.

use std::fs;
use std::process::Command;

use serde::Serialize;

/// Machine on which the benchmark ran.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub kernel: String,
    /// Load average of the last minute before the run. Any other load spoils the figures.
    pub load_before: f64,
}

impl Machine {
    /// Inspects the machine, and fails if two cores are not available.
    pub(super) fn look() -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores < 2 {
            return Err("two cores are needed: one for the target, one for the client".into());
        }
        let cpuinfo = read("/proc/cpuinfo");
        let field = |text: &str, key: &str| {
            let value = text
                .lines()
                .find(|line| line.starts_with(key))?
                .split_once(':')?
                .1;
            Some(value.trim().to_owned())
        };
        let memory_kib = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|v| v.split(' ').next()?.parse::<u64>().ok());
        Ok(Self {
            cpu: field(&cpuinfo, "model name").unwrap_or_else(|| "unknown".into()),
            cores,
            memory_gib: memory_kib.unwrap_or(0) >> 20,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_before: read("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|v| v.parse().ok())
                .unwrap_or(0.0),
        })
    }
}

/// Returns the version of an installed Debian package.
pub(super) fn package_version(package: &str) -> String {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Version}", package])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "not installed".into(),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
