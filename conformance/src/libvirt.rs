//! Lab of libvirt's iscsi-direct storage pool, by which libvirt, and the programs built on it, find
//! units.
//!
//! The backend of libvirt 9 offers no upload or download. So data goes through `vol-wipe` (libvirt
//! writes), and through the URL in a volume's XML (qemu-img).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::packages::on_path;
use crate::machine::process;
use crate::qemu_img;
use crate::servers::server::{Server, Spec};

const LIMIT: Duration = Duration::from_secs(30);
const SIZE_MIB: u64 = 32;
const BLOCK: u64 = 512;

/// Lab of the life of a pool.
pub(crate) const LABS: &[Lab] = &[Lab {
    name: "libvirt-pool",
    about: "libvirt's iscsi-direct pool: define, start, list, size, wipe, stop",
    room: Room::Shared,
    run,
}];

fn run(bench: &Bench) -> Result<Outcome> {
    if on_path("unshare").is_none() {
        return Ok(Outcome::Skipped(
            "no `unshare` (Debian package util-linux)".to_owned(),
        ));
    }
    let mut probe = Command::new("unshare");
    probe.args(["--user", "true"]);
    if let Err(error) = process::output(probe, LIMIT) {
        return Ok(Outcome::Skipped(format!(
            "no user namespace for a private libvirtd: {error:#}"
        )));
    }
    let mut server = bench.serve(Spec {
        size_mib: SIZE_MIB,
        ..Spec::default()
    })?;
    let home = crate::machine::scratch::folder("libvirt")?;
    let mut daemon = private(bench, home.path(), "libvirtd")?;
    daemon.args(["--timeout", "120"]);
    let _daemon = process::start_logged(daemon, &home.path().join("libvirtd.log"))?;
    let virsh = |arguments: &[&str]| -> Result<String> {
        let mut command = private(bench, home.path(), "virsh")?;
        command.args(["-c", "storage:///session"]).args(arguments);
        process::output(command, LIMIT)
    };
    process::until("libvirtd answers", LIMIT, || virsh(&["uri"]).is_ok())?;

    let definition = home.path().join("pool.xml");
    fs::write(&definition, pool(&server)?)?;
    virsh(&["pool-define", &definition.to_string_lossy()])?;
    virsh(&["pool-start", "lab"])?;
    let volume = format!("unit:0:0:{}", server.lun);
    let list = virsh(&["vol-list", "--details", "lab"])?;
    ensure!(
        list.contains(&volume),
        "the pool does not list {volume}:\n{list}"
    );
    let info = virsh(&["vol-info", "--bytes", "--pool", "lab", &volume])?;
    // libvirt takes the address of the last block for the number of blocks, so one block is
    // missing.
    let size = SIZE_MIB << 20;
    let capacity = [size, size - BLOCK]
        .into_iter()
        .find(|bytes| info.contains(&format!(" {bytes} bytes")));
    let capacity = capacity.with_context(|| format!("wrong capacity:\n{info}"))?;

    let url = server.url(0);
    let data = home.path().join("data.raw");
    fs::write(&data, qemu_img::pattern((SIZE_MIB << 20) as usize))?;
    let image = |arguments: &[&str]| process::output(qemu_img::tool(bench, arguments)?, LIMIT);
    image(&[
        "convert",
        "-n",
        "-f",
        "raw",
        "-O",
        "raw",
        &data.to_string_lossy(),
        &url,
    ])?;
    virsh(&["vol-wipe", "--pool", "lab", &volume])?;
    image(&[
        "convert",
        "-f",
        "raw",
        "-O",
        "raw",
        &url,
        &data.to_string_lossy(),
    ])?;
    let wiped = fs::read(&data)?;
    ensure!(
        wiped.iter().take(capacity as usize).all(|byte| *byte == 0),
        "vol-wipe left data behind"
    );
    virsh(&["pool-refresh", "lab"])?;
    virsh(&["pool-destroy", "lab"])?;
    virsh(&["pool-undefine", "lab"])?;
    server.check_alive()?;
    Ok(Outcome::passed(format!(
        "{volume} of {SIZE_MIB} MiB found and wiped"
    )))
}

/// Builds a command of libvirt in a user namespace without a root user. Then libvirt keeps
/// everything below the folders that we name, and touches nothing of the machine's own libvirt.
fn private(bench: &Bench, home: &Path, program: &str) -> Result<Command> {
    let inner = bench.tools.machines()?.command(program)?;
    let mut command = Command::new("unshare");
    command
        .arg("--user")
        .arg(inner.get_program())
        .args(inner.get_args());
    for (key, value) in inner.get_envs() {
        if let Some(value) = value {
            command.env(key, value);
        }
    }
    for key in [
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
    ] {
        command.env_remove(key);
    }
    let run = home.join("run");
    fs::create_dir_all(&run)?;
    command
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", run)
        .env("LC_ALL", "C");
    Ok(command)
}

fn pool(server: &Server) -> Result<String> {
    let portal = server.portal(0);
    let (host, port) = portal.rsplit_once(':').context("a portal without a port")?;
    Ok(format!(
        "<pool type='iscsi-direct'><name>lab</name><source><host name='{host}' port='{port}'/>\
         <device path='{}'/><initiator><iqn name='iqn.2026-01.org.sandstone.conformance:libvirt'/></initiator>\
         </source></pool>",
        server.target
    ))
}
