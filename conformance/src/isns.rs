//! Lab of a real iSNS server (open-isns): the daemon registers, and other hosts can find it there,
//! our initiator too.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process;
use crate::servers::server::{self, ServerKind, Spec};

const LIMIT: Duration = Duration::from_secs(15);
const SOURCE: &str = "iqn.2026-01.org.sandstone.conformance";

/// Lab of registration as other hosts see it.
pub(crate) const LABS: &[Lab] = &[Lab {
    name: "isns",
    about: "the daemon registers its target and portal with open-isns; the initiator finds them there",
    room: Room::Shared,
    run,
}];

fn run(bench: &Bench) -> Result<Outcome> {
    if bench.is_peer() {
        return Ok(Outcome::Skipped(
            "tgt takes no iSNS server at start; this lab is about Sandstone's client".into(),
        ));
    }
    let folder = crate::machine::scratch::folder("isns")?;
    let port = server::free_port()?;
    let address = format!("127.0.0.1:{port}");
    let _isnsd = start(bench, folder.path(), &address)?;
    let query = |kind: &str| -> Result<String> {
        let mut command = bench.tools.client("isnsadm")?;
        command
            .arg("--config")
            .arg(folder.path().join("isnsadm.conf"))
            .args(["--local", "--list", kind]);
        process::output(command, LIMIT)
    };
    process::until("isnsd answers", LIMIT, || query("nodes").is_ok())?;
    let mut server = bench.serve(Spec {
        size_mib: 32,
        isns: Some(address.clone()),
        ..Spec::default()
    })?;
    let mut nodes = String::new();
    let found = process::until("the target is registered", LIMIT, || {
        nodes = query("nodes").unwrap_or_default();
        nodes.contains(&server.target)
    });
    ensure!(
        found.is_ok(),
        "isnsd does not list {}:\n{nodes}\n{}",
        server.target,
        server.log()
    );
    let portals = query("portals")?;
    let (host, port) = ("127.0.0.1", server.portal(0));
    let port = port.rsplit(':').next().unwrap_or_default();
    ensure!(
        portals.contains(host) && portals.contains(port),
        "isnsd does not list portal {host}:{port}:\n{portals}"
    );
    let told = discovered(bench, &address)?;
    ensure!(
        told.contains(&format!("{}\t127.0.0.1:{port}\t1", server.target)),
        "our initiator finds through isnsd only:\n{told}"
    );
    server.check_alive()?;
    Ok(Outcome::passed(
        "target and portal registered; our initiator finds them there",
    ))
}

/// Returns the targets that `initiator discover` finds at the server.
fn discovered(bench: &Bench, server: &str) -> Result<String> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(String::new());
    };
    let mut command = Command::new(program);
    command.args(["initiator", "discover", "-H", "--isns", server]);
    process::output(command, LIMIT)
}

fn start(bench: &Bench, folder: &Path, address: &str) -> Result<process::Running> {
    let database = folder.join("database");
    fs::create_dir_all(&database)?;
    let control = folder.join("control");
    let shared = format!("Security = 0\nControlSocket = {}\n", control.display());
    let text = format!(
        "SourceName = {SOURCE}:isnsd\nBindAddress = {address}\nDatabase = {}\nPIDFile = {}\nSLPRegister = 0\n\
         DefaultDiscoveryDomain = 1\n{shared}",
        database.display(),
        folder.join("pid").display(),
    );
    fs::write(folder.join("isnsd.conf"), &text)?;
    let client = format!("SourceName = {SOURCE}:isnsadm\nServerAddress = {address}\n{shared}");
    fs::write(folder.join("isnsadm.conf"), client)?;
    let mut command: Command = bench.tools.client("isnsd")?;
    command
        .args(["--foreground", "--config"])
        .arg(folder.join("isnsd.conf"));
    process::start_logged(command, &folder.join("isnsd.log"))
}
