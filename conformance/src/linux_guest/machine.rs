//! Runner of one script in a guest, which also answers the requests of the script to the host.
//!
//! The guest talks to the host over a virtio port. One line asks (`link 0 down`, `server restart`),
//! and one line answers (`ok …` or `error …`). The last line is `exit STATUS`.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::linux_guest::cpio::Archive;
use crate::machine::network::{self, Namespace};
use crate::machine::packages::Bundle;
use crate::machine::process::{self, Running};

use super::image::Image;

const BASICS: &str = include_str!("../../guest/basics.sh");
const LIBRARY: &str = include_str!("../../guest/library.sh");
/// Second part of a guest's start: it runs the script, with a line to the host.
const RUN: &str = include_str!("../../guest/run.sh");
/// Document for users, which holds its part of multipath.conf.
const CLIENTS: &str = include_str!("../../../docs/clients.md");

/// Guest to boot: its disks, and its network.
#[derive(Debug)]
pub(crate) struct Guest<'a> {
    /// Bundle with QEMU.
    pub(crate) machines: &'a Bundle,
    /// Kernel and first file system.
    pub(crate) image: &'a Image,
    /// Root disk. Guests write to a throw-away copy.
    pub(crate) root: &'a Path,
    /// Further disks, with throw-away copies too.
    pub(crate) disks: &'a [PathBuf],
    /// Network with a card of the guest on each of its paths.
    pub(crate) namespace: &'a Namespace,
    /// Memory.
    pub(crate) memory_mib: u32,
    /// Further words of the kernel's command line.
    pub(crate) words: &'a str,
}

/// Boots a guest, runs `script` with `arguments` in it, and returns its output. `answer` carries
/// out the requests of the guest.
///
/// # Errors
/// The script's status is not 0, the guest dies, or `limit` is over. The message ends with the end
/// of the console.
pub(crate) fn run(
    guest: &Guest<'_>,
    script: &str,
    arguments: &[String],
    limit: Duration,
    mut answer: impl FnMut(&str) -> Result<String>,
) -> Result<String> {
    let folder = crate::machine::scratch::folder("guest")?;
    let initrd = folder.path().join("initrd");
    let mut bytes = std::fs::read(&guest.image.initrd)?;
    bytes.extend_from_slice(&lab_archive(script, arguments));
    std::fs::write(&initrd, bytes)?;
    let command = qemu(guest, folder.path(), &initrd)?;
    let mut machine = process::start_logged(
        network::inside(Some(&guest.namespace.name), command),
        &folder.path().join("qemu.log"),
    )?;
    let outcome = converse(&mut machine, folder.path(), limit, &mut answer);
    machine.kill();
    let read = |name: &str| {
        let bytes = std::fs::read(folder.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    };
    let console = read("console.log");
    let tail = || {
        format!(
            "{}\n{}",
            process::last_lines(&console, 40),
            process::last_lines(&read("qemu.log"), 5)
        )
    };
    match outcome {
        Ok(0) => Ok(console),
        Ok(status) => {
            let reason = console.lines().rfind(|line| line.starts_with("FAILED: "));
            let reason = reason.map(|line| format!(": {line}")).unwrap_or_default();
            bail!("the guest's script ended with {status}{reason}\n{}", tail())
        }
        Err(error) => Err(error.context(format!("the guest; the end of its console:\n{}", tail()))),
    }
}

/// Returns the script and its arguments as a further first file system.
fn lab_archive(script: &str, arguments: &[String]) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.folder("lab");
    archive.file("lab/run.sh", 0o644, RUN.as_bytes());
    archive.file("lab/basics.sh", 0o644, BASICS.as_bytes());
    archive.file("lab/library.sh", 0o644, LIBRARY.as_bytes());
    archive.file("lab/script.sh", 0o755, script.as_bytes());
    archive.file("lab/devices.conf", 0o644, devices_section().as_bytes());
    let lines: String = arguments
        .iter()
        .map(|argument| format!("{argument}\n"))
        .collect();
    archive.file("lab/arguments", 0o644, lines.as_bytes());
    archive.finish()
}

/// Returns the `devices` section of multipath.conf as the document shows it.
fn devices_section() -> String {
    CLIENTS
        .lines()
        .skip_while(|line| *line != "    devices {")
        .take_while(|line| line.starts_with("    "))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn qemu(guest: &Guest<'_>, folder: &Path, initrd: &Path) -> Result<Command> {
    let mut command = guest.machines.command("qemu-system-x86_64")?;
    firmware(&mut command, guest.machines);
    command.args(["-M", "q35,usb=off", "-accel", "tcg,thread=multi"]);
    command.args(["-cpu", "max", "-smp", "2"]);
    command.args(["-m", &guest.memory_mib.to_string()]);
    command.args([
        "-display",
        "none",
        "-vga",
        "none",
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
    ]);
    command
        .arg("-kernel")
        .arg(&guest.image.kernel)
        .arg("-initrd")
        .arg(initrd);
    let (paths, words) = (guest.namespace.paths, guest.words);
    command.arg("-append").arg(format!(
        "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off random.trust_cpu=on no_timer_check clocksource=hpet tsc=unstable lab.paths={paths} {words}"
    ));
    let disks = std::iter::once(guest.root).chain(guest.disks.iter().map(PathBuf::as_path));
    for (number, disk) in disks.enumerate() {
        let drive = format!(
            "file={},if=none,id=disk{number},format=raw,snapshot=on,cache=unsafe",
            disk.display()
        );
        let device = format!("virtio-blk-pci,drive=disk{number}");
        command.args(["-drive", &drive, "-device", &device]);
    }
    command.args(["-device", "virtio-rng-pci"]);
    command
        .arg("-serial")
        .arg(format!("file:{}", folder.join("console.log").display()));
    let socket = folder.join("control");
    command.arg("-chardev").arg(format!(
        "socket,id=control,path={},server=on,wait=off",
        socket.display()
    ));
    command.args([
        "-device",
        "virtio-serial-pci",
        "-device",
        "virtserialport,chardev=control,name=control",
    ]);
    for path in 0..paths {
        command.arg("-netdev").arg(format!(
            "tap,id=net{path},ifname=tap{path},script=no,downscript=no"
        ));
        command.arg("-device").arg(format!(
            "virtio-net-pci,netdev=net{path},mac=52:54:00:77:00:{path:02x},romfile="
        ));
    }
    Ok(command)
}

/// Points a command to the firmware of the unpacked QEMU.
pub(crate) fn firmware(command: &mut Command, machines: &Bundle) {
    for folder in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
        command.arg("-L").arg(machines.root.join(folder));
    }
}

fn converse(
    machine: &mut Running,
    folder: &Path,
    limit: Duration,
    answer: &mut impl FnMut(&str) -> Result<String>,
) -> Result<i32> {
    let end = Instant::now() + limit;
    let socket = folder.join("control");
    // QEMU makes the socket before it listens there.
    let mut connected = None;
    process::until(
        "QEMU opens the control port",
        Duration::from_secs(20),
        || {
            connected = UnixStream::connect(&socket).ok();
            connected.is_some()
        },
    )?;
    let mut stream = connected.context("connect to the guest")?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = Vec::new();
    loop {
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => bail!("the guest died without an exit status"),
            Ok(_) if line.ends_with(b"\n") => {
                let request = String::from_utf8_lossy(&line).trim().to_owned();
                line.clear();
                if let Some(status) = request.strip_prefix("exit ") {
                    return status
                        .parse()
                        .with_context(|| format!("exit status '{status}'"));
                }
                let reply = match answer(&request) {
                    Ok(text) => format!("ok {}\n", text.replace('\n', " ")),
                    Err(error) => format!("error {}\n", format!("{error:#}").replace('\n', " ")),
                };
                stream
                    .write_all(reply.as_bytes())
                    .context("answer the guest")?;
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error).context("listen to the guest"),
        }
        if Instant::now() >= end {
            bail!("not finished after {} s", limit.as_secs());
        }
        if let Some(status) = machine.child.try_wait()? {
            bail!("QEMU ended: {}", process::ended(status));
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_has_a_devices_section() {
        let text = super::devices_section();
        assert!(text.contains("SNDSTONE") && text.trim_end().ends_with('}'));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
