//! Debian's tgt as the peer: a private daemon with its own control socket, configured by tgtadm.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::machine::network;
use crate::machine::packages::Tools;
use crate::machine::process;
use crate::servers::server::{self, Backend, Spec, Started};

const TARGET: &str = "iqn.2026-01.org.sandstone.conformance:peer";
const LIMIT: Duration = Duration::from_secs(10);
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Starts tgtd and configures it. The real portals open last, so that no initiator that retries
/// sees a target without its logical unit.
pub(crate) fn launch(tools: &Tools, spec: &Spec, folder: &Path) -> Result<Started> {
    if spec.isns.is_some() {
        bail!("the peer is not registered with iSNS");
    }
    let control = control_port(folder)?;
    let file = backing_file(spec, folder)?;
    let mut command = tools.client("tgtd")?;
    let parking = format!("portal=127.0.0.1:{}", server::free_port()?);
    command.args(["-f", "-C", &control, "--iscsi", &parking]);
    let command = network::inside(spec.namespace.as_deref(), command);
    let process = process::start_logged(command, &server::log_file(folder))?;
    let admin = |arguments: &[&str]| -> Result<()> {
        let mut command = tools.client("tgtadm")?;
        command
            .args(["-C", &control, "--lld", "iscsi"])
            .args(arguments);
        process::output(network::inside(spec.namespace.as_deref(), command), LIMIT).map(drop)
    };
    process::until("tgtd answers", LIMIT, || {
        admin(&["--op", "show", "--mode", "sys"]).is_ok()
    })?;
    let block_size = spec.block_size.to_string();
    let path = file.to_string_lossy();
    admin(&[
        "--op", "new", "--mode", "target", "--tid", "1", "-T", TARGET,
    ])?;
    admin(&[
        "--op",
        "new",
        "--mode",
        "logicalunit",
        "--tid",
        "1",
        "--lun",
        "1",
        "-b",
        &path,
        "--blocksize",
        &block_size,
    ])?;
    let parameters = "vendor_id=PEER,product_id=TGT,scsi_sn=peer0001,thin_provisioning=1";
    admin(&[
        "--op",
        "update",
        "--mode",
        "logicalunit",
        "--tid",
        "1",
        "--lun",
        "1",
        "--params",
        parameters,
    ])?;
    for digest in ["HeaderDigest", "DataDigest"] {
        admin(&[
            "--op",
            "update",
            "--mode",
            "target",
            "--tid",
            "1",
            "--name",
            digest,
            "--value",
            "None,CRC32C",
        ])?;
    }
    let accounts = [(&spec.chap, None), (&spec.mutual, Some("--outgoing"))];
    for (account, direction) in accounts {
        if let Some((user, secret)) = account {
            let new = ["--op", "new", "--mode", "account", "--user", user];
            admin(&[&new[..], &["--password", secret]].concat())?;
            let mut bind = vec!["--op", "bind", "--mode", "account", "--tid", "1"];
            bind.extend(["--user", user.as_str()]);
            bind.extend(direction);
            admin(&bind)?;
        }
    }
    admin(&[
        "--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL",
    ])?;
    for address in &spec.addresses {
        let portal = format!("portal={address}:{}", spec.port);
        admin(&["--op", "new", "--mode", "portal", "--param", &portal])?;
    }
    let visible = (spec.backend == Backend::File).then_some(file);
    Ok(Started {
        process,
        target: TARGET.to_owned(),
        lun: 1,
        file: visible,
    })
}

/// Removes the files that tgtd leaves in /run.
pub(crate) fn remove_sockets(folder: &Path) {
    if let Ok(control) = control_port(folder) {
        let _ = fs::remove_file(format!("/var/run/tgtd/socket.{control}"));
        let _ = fs::remove_file(format!("/var/run/tgtd/socket.{control}.lock"));
    }
    let _ = fs::remove_file(memory_file(folder));
}

/// Returns the one control port for the life of a server, also over restarts.
fn control_port(folder: &Path) -> Result<String> {
    let note = folder.join("control");
    if let Ok(port) = fs::read_to_string(&note) {
        return Ok(port);
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let port = (1000 + (std::process::id() * 16 + number) % 30_000).to_string();
    fs::write(&note, &port).context("note the control port")?;
    Ok(port)
}

fn backing_file(spec: &Spec, folder: &Path) -> Result<PathBuf> {
    let path = match spec.backend {
        Backend::File | Backend::Preallocated | Backend::Pool => folder.join("unit.img"),
        Backend::Memory => memory_file(folder),
    };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)?;
    file.set_len(spec.size_mib << 20)
        .context("make the backing file")?;
    Ok(path)
}

fn memory_file(folder: &Path) -> PathBuf {
    Path::new("/dev/shm").join(folder.file_name().unwrap_or_default())
}
