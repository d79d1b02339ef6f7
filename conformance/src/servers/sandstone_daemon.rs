//! Sandstone as the server under test: `sandstone demo --json` for one portal on 127.0.0.1,
//! `sandstone serve` with an applied configuration for all other cases.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::machine::network;
use crate::machine::process::{self, Running};
use crate::servers::server::{self, Backend, Spec, Started};

const LIMIT: Duration = Duration::from_secs(20);
const TARGET: &str = "iqn.2026-01.org.sandstone.conformance:disk";
const LUN: u16 = 1;

/// Starts the daemon. `first` is false for a restart on the state in `folder`.
pub(crate) fn launch(program: &Path, spec: &Spec, folder: &Path, first: bool) -> Result<Started> {
    let plain = spec.addresses.len() == 1
        && spec.addresses[0] == "127.0.0.1"
        && spec.chap.is_none()
        && spec.isns.is_none()
        && spec.namespace.is_none()
        && !spec.read_only
        && spec.backend == Backend::Memory;
    if plain {
        demo(program, spec, folder)
    } else {
        serve(program, spec, folder, first)
    }
}

fn demo(program: &Path, spec: &Spec, folder: &Path) -> Result<Started> {
    let mut command = Command::new(program);
    command
        .args(["demo", "--json", "--memory"])
        .arg(format!("{}M", spec.size_mib))
        .args(["--block-size", &spec.block_size.to_string()])
        .args([
            "--physical-block-size",
            &spec.physical_block_size.to_string(),
        ])
        .args(["--port", &spec.port.to_string()])
        .arg("--state")
        .arg(folder.join("state"));
    let mut process = process::start_logged(command, &server::log_file(folder))?;
    let mut line = None;
    wait(&mut process, "the JSON line of `sandstone demo`", || {
        let text = fs::read_to_string(server::log_file(folder)).unwrap_or_default();
        line = text
            .lines()
            .find(|line| line.starts_with('{'))
            .map(str::to_owned);
        line.is_some()
    })?;
    let line = line.context("no JSON line")?;
    let report: serde_json::Value =
        serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))?;
    let text = |key: &str| {
        report[key]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("the JSON line has no {key}: {line}"))
    };
    let (target, portal) = (text("target")?, text("portal")?);
    let wanted = format!("127.0.0.1:{}", spec.port);
    if !portal.starts_with(&wanted) {
        bail!("asked for portal {wanted}, got {portal}");
    }
    let lun = report["lun"]
        .as_u64()
        .and_then(|lun| u16::try_from(lun).ok())
        .context("lun is no number")?;
    Ok(Started {
        process,
        target,
        lun,
        file: None,
    })
}

fn serve(program: &Path, spec: &Spec, folder: &Path, first: bool) -> Result<Started> {
    let state = folder.join("state");
    let mut command = Command::new(program);
    command
        .args(["serve", "--console", "off", "--state"])
        .arg(&state);
    let command = network::inside(spec.namespace.as_deref(), command);
    let mut process = process::start_logged(command, &server::log_file(folder))?;
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).arg("--state").arg(&state);
        process::output(command, LIMIT)
    };
    wait(&mut process, "`sandstone serve` answers", || {
        ask(&["session", "list"]).is_ok()
    })?;
    if first && spec.backend == Backend::Pool {
        let device = folder.join("device.img").display().to_string();
        let room = format!("{}M", 2 * spec.size_mib);
        ask(&["pool", "create", "--size", &room, POOL, &device])?;
        let size = format!("{}M", spec.size_mib);
        ask(&["volume", "create", "-s", "-V", &size, VOLUME])?;
    }
    if first {
        let file = folder.join("config.toml");
        fs::write(&file, configuration(spec)).context("write the configuration")?;
        ask(&["config", "apply", &file.to_string_lossy()])?;
    }
    let is_file = matches!(spec.backend, Backend::File | Backend::Preallocated);
    let file = is_file.then(|| state.join(FILE));
    Ok(Started {
        process,
        target: TARGET.to_owned(),
        lun: LUN,
        file,
    })
}

/// Place of the logical unit's file below the state folder.
const FILE: &str = "volumes/disk.img";
const POOL: &str = "tank";
const VOLUME: &str = "tank/disk";

fn configuration(spec: &Spec) -> String {
    let bytes = spec.size_mib << 20;
    let backend = match spec.backend {
        Backend::Memory => format!("{{ kind = \"memory\", size = {bytes} }}"),
        Backend::File => format!("{{ kind = \"file\", path = \"{FILE}\", size = {bytes} }}"),
        Backend::Preallocated => {
            format!("{{ kind = \"file\", path = \"{FILE}\", size = {bytes}, preallocate = true }}")
        }
        Backend::Pool => format!("{{ kind = \"volume\", volume = \"{VOLUME}\" }}"),
    };
    let thin = spec.backend != Backend::Preallocated;
    let mut text = String::new();
    if let Some(server) = &spec.isns {
        let _ = writeln!(text, "isns_servers = [\"{server}\"]");
    }
    let _ = writeln!(
        text,
        "[[units]]\nname = \"disk\"\nnaa = \"60a9800043346c2d5234753154757a70\"\nserial = \"CONFORMANCE0001\"\n\
         backend = {backend}\nblock_size = {}\nphysical_block_size = {}\nwrite_cache = true\nthin = {thin}\n\
         read_only = {}\n\
         \n[[targets]]\niqn = \"{TARGET}\"\nalias = \"conformance\"",
        spec.block_size, spec.physical_block_size, spec.read_only
    );
    if let Some((user, secret)) = &spec.mutual {
        let _ = writeln!(
            text,
            "mutual_chap = {{ user = \"{user}\", secret = \"{secret}\" }}"
        );
    }
    for (index, address) in spec.addresses.iter().enumerate() {
        let tag = index + 1;
        let _ = writeln!(
            text,
            "[[targets.portal_groups]]\ntag = {tag}\nrelative_port_id = {tag}\ntarget_port_group = {tag}\n\
             portals = [\"{address}:{}\"]\nalua_state = \"{}\"",
            spec.port,
            if index == 0 {
                "active-optimized"
            } else {
                "active-non-optimized"
            },
        );
    }
    let _ = write!(
        text,
        "\n[[hosts]]\nname = \"clients\"\ninitiators = [\"*\"]\n"
    );
    if let Some((user, secret)) = &spec.chap {
        let _ = writeln!(
            text,
            "chap = {{ user = \"{user}\", secret = \"{secret}\" }}"
        );
    }
    let _ = write!(
        text,
        "\n[[maps]]\nunit = \"disk\"\nhost = \"clients\"\ntarget = \"{TARGET}\"\nlun = {LUN}\n"
    );
    text
}

/// Waits for `condition`, but not for a dead daemon.
fn wait(process: &mut Running, what: &str, mut condition: impl FnMut() -> bool) -> Result<()> {
    let mut dead = None;
    process::until(what, LIMIT, || {
        dead = process.child.try_wait().ok().flatten();
        dead.is_some() || condition()
    })?;
    match dead {
        Some(status) => bail!("the daemon ended at once: {}", process::ended(status)),
        None => Ok(()),
    }
}
