//! Lab of the Debian package under a real systemd: a guest that has it as a service.
//!
//! Two clients use the service while it is upgraded and while its watchdog ends it: our initiator
//! on the host's end of the network, and open-iscsi of the guest.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::{figures, put_packages, system};
use crate::initiator::verified;
use crate::lab::{Bench, Outcome};
use crate::linux_guest::{Guest, Image, make_ext4, run_in};
use crate::machine::network::{self, Namespace};
use crate::machine::process::{self, Finished};
use crate::machine::scratch;
use crate::servers::server::ServerKind;

/// Limit, which a busy machine also keeps.
const LIMIT: Duration = Duration::from_secs(1800);
/// Least time for which the host loads its unit: the load must outlast the restart of an upgrade,
/// and the watchdog. The guest adds to it as much as it is slow.
const LOAD_S: u64 = 120;
const DISK_MIB: u64 = 2048;
const POOL_MIB: u64 = 1024;
const PACKAGES: &str = "adduser,debconf,init-system-helpers,systemd,systemd-sysv,udev,dbus,\
                        open-iscsi,procps,iproute2,kmod";
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_console",
    "virtio_rng",
    "ext4",
    "crc32c_generic",
    "iscsi_tcp",
    "sd_mod",
    "sg",
];
const HOST: &str = "iqn.2026-01.org.sandstone.conformance:host";
const STRANGER: &str = "iqn.2026-01.org.sandstone.conformance:stranger";
const PORTAL: &str = "10.77.0.2:3260";

/// Unit that runs the script once the system is up. The console tells what it prints.
const UNIT: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
ExecStart=/bin/bash /lab/run.sh
StandardOutput=file:/dev/ttyS0
StandardError=inherit
TimeoutStartSec=infinity
[Install]
WantedBy=multi-user.target
";

/// Words for the kernel: names of network cards that are known beforehand, and no logins.
const WORDS: &str = "net.ifnames=0 systemd.show_status=no fsck.mode=skip \
                     systemd.mask=serial-getty@ttyS0.service systemd.mask=getty@tty1.service";

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("the peer has no package".into()));
    };
    if let Some(reason) = network::missing() {
        return Ok(Outcome::Skipped(reason));
    }
    let image = Image::prepare(&bench.tools)?;
    let machines = bench.tools.machines()?;
    let folder = scratch::folder("package-guest")?;
    let root = match system("systemd", PACKAGES, folder.path())? {
        Ok(root) => root,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let version = put_packages(bench, &root)?;
    furnish(&root)?;
    image.modules.install(machines, MODULES, &root)?;
    let (disk, pool) = (folder.path().join("disk"), folder.path().join("pool"));
    make_ext4(machines, &root, &disk, Some(DISK_MIB))?;
    fs::File::create(&pool)?.set_len(POOL_MIB << 20)?;
    let namespace = Namespace::new(1)?;
    let guest = Guest {
        machines,
        image: &image,
        root: &disk,
        disks: &[pool],
        namespace: &namespace,
        memory_mib: 1024,
        words: WORDS,
    };
    let arguments = [version, HOST.to_owned(), LOAD_S.to_string()];
    let mut load = Load {
        program,
        namespace: &namespace,
        run: None,
    };
    let answer = |request: &str| load.act(request);
    let script = include_str!("../../packages/systemd.sh");
    let console =
        run_in(&guest, script, &arguments, LIMIT, answer).context("the package in the guest")?;
    figures(&console)
}

/// Adds to the system what makes it a guest of labs.
fn furnish(root: &Path) -> Result<()> {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let units = root.join("etc/systemd/system");
    fs::write(units.join("lab.service"), UNIT)?;
    let wants = units.join("multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    symlink("../lab.service", wants.join("lab.service"))?;
    // The script starts iscsid itself, with its own settings.
    for unit in ["iscsid.service", "open-iscsi.service", "iscsid.socket"] {
        for link in [
            units.join(unit),
            units.join("sysinit.target.wants").join(unit),
            units.join("sockets.target.wants").join(unit),
        ] {
            let _ = fs::remove_file(link);
        }
        symlink("/dev/null", units.join(unit))?;
    }
    fs::write(
        root.join("etc/iscsi/initiatorname.iscsi"),
        "InitiatorName=iqn.2026-01.org.sandstone.conformance:guest\n",
    )?;
    // A machine with a name of its own is not at its first boot, so presets are left alone.
    fs::write(
        root.join("etc/machine-id"),
        "0123456789abcdef0123456789abcdef\n",
    )?;
    // The first file system changes to this program.
    let first = root.join("lab-init");
    fs::write(&first, "#!/bin/sh\nexec /lib/systemd/systemd\n")?;
    fs::set_permissions(&first, fs::Permissions::from_mode(0o755))?;
    fs::create_dir_all(root.join("lab")).context("make a folder")
}

/// Load of our initiator on the unit of the host.
struct Load<'a> {
    program: &'a Path,
    namespace: &'a Namespace,
    run: Option<JoinHandle<Result<Finished>>>,
}

impl Load<'_> {
    /// Carries out a request of the guest.
    fn act(&mut self, request: &str) -> Result<String> {
        let words: Vec<&str> = request.split_whitespace().collect();
        match words[..] {
            ["stranger", target] => self.stranger(target),
            ["load", "begin", target, seconds] => {
                let mut command = self.bench(target, HOST);
                command.args(["--time", &format!("{seconds}s"), "--json"]);
                let seconds: u64 = seconds.parse().context("seconds")?;
                let limit = Duration::from_secs(seconds) + LIMIT / 4;
                let run = std::thread::spawn(move || process::finish(command, limit));
                self.run = Some(run);
                Ok(String::new())
            }
            ["load", "running"] => {
                let run = self.run.as_ref().context("there is no load")?;
                ensure!(!run.is_finished(), "the load has ended");
                Ok(String::new())
            }
            ["load", "end"] => {
                let run = self.run.take().context("there is no load")?;
                let finished = run
                    .join()
                    .map_err(|_| anyhow::anyhow!("the load panicked"))??;
                let verified = verified(&finished)?;
                Ok(verified.to_string())
            }
            _ => bail!("the guest asked for '{request}', which the host does not know"),
        }
    }

    /// Returns a run that writes to the first unit of the target, and verifies.
    fn bench(&self, target: &str, initiator: &str) -> Command {
        let url = format!("iscsi://{PORTAL}/{target}/0?initiator_name={initiator}");
        let mut command = Command::new(self.program);
        command.args(["bench", "run", &url, "--destroy-data", "--verify"]);
        command.args(["--block", "4096", "--reads", "40", "--random", "100"]);
        command.args(["--outstanding", "16", "--workers", "1", "--ramp-up", "0"]);
        network::inside(Some(&self.namespace.name), command)
    }

    /// Logs in under a name that no host of the guest has. It must be refused.
    fn stranger(&self, target: &str) -> Result<String> {
        let mut command = self.bench(target, STRANGER);
        command.args(["--time", "1s"]);
        let finished = process::finish(command, Duration::from_secs(120))?;
        ensure!(!finished.status.success(), "the stranger was let in");
        let said = finished.tail();
        ensure!(said.contains("refused"), "not explained: {said}");
        Ok(String::new())
    }
}
