//! Labs of a real Linux initiator: Debian's kernel, open-iscsi and dm-multipath in an emulated
//! machine. It reaches the server over two network paths that can be cut.
//!
//! Each scenario is a script in `guest/`. The last line that the script notes as `figures: …` is
//! shown.

pub(super) mod cpio;
mod image;
mod machine;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::network::{self, Namespace, host_address};
use crate::servers::server::{Backend, Server, Spec};

pub(crate) use image::{Image, make_ext4};
pub(crate) use machine::{Guest, firmware, run as run_in};

const PORT: u16 = 3260;
const LIMIT: Duration = Duration::from_secs(420);

struct Scenario {
    script: &'static str,
    backend: Backend,
    block_size: u32,
    /// Reason why the peer cannot run the scenario.
    peer_lacks: Option<&'static str>,
}

/// Labs of the scenarios.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "guest-two-paths",
        about: "Linux: two paths, ext4 and xfs, writes with fsync, checksums after remount",
        room: Room::Guest,
        run: |bench| {
            run(
                bench,
                &scenario(
                    include_str!("../../guest/two-paths.sh"),
                    Backend::Memory,
                    512,
                ),
            )
        },
    },
    Lab {
        name: "guest-path-cut",
        about: "Linux, ext4 and xfs: one of two paths is cut while writing; failover, nothing lost",
        room: Room::Guest,
        run: |bench| {
            run(
                bench,
                &scenario(
                    include_str!("../../guest/path-cut.sh"),
                    Backend::Memory,
                    512,
                ),
            )
        },
    },
    Lab {
        name: "guest-server-killed",
        about: "Linux, ext4 and xfs: the daemon is killed (-9) and restarted while writing; nothing durable is lost",
        room: Room::Guest,
        run: |bench| {
            run(
                bench,
                &scenario(
                    include_str!("../../guest/server-killed.sh"),
                    Backend::File,
                    512,
                ),
            )
        },
    },
    Lab {
        name: "guest-reservations",
        about: "Linux: sg_persist with APTPL; registrations and the reservation survive kill -9",
        room: Room::Guest,
        run: |bench| {
            let mut scenario = scenario(
                include_str!("../../guest/reservations.sh"),
                Backend::File,
                512,
            );
            scenario.peer_lacks = Some("tgt forgets reservations when it restarts (no APTPL)");
            run(bench, &scenario)
        },
    },
    Lab {
        name: "guest-trim",
        about: "Linux: fstrim becomes UNMAP and gives space back to the host",
        room: Room::Guest,
        run: |bench| {
            run(
                bench,
                &scenario(include_str!("../../guest/trim.sh"), Backend::File, 4096),
            )
        },
    },
    Lab {
        name: "guest-alua",
        about: "Linux: ALUA states and priorities in multipath -ll, sg_rtpg, sg_vpd, sg_opcodes",
        room: Room::Guest,
        run: |bench| {
            let mut scenario = scenario(include_str!("../../guest/alua.sh"), Backend::Memory, 512);
            scenario.peer_lacks = Some("tgt has no ALUA");
            run(bench, &scenario)
        },
    },
    Lab {
        name: "guest-digests",
        about: "Linux: header and data digests on, file system and checksums",
        room: Room::Guest,
        run: |bench| {
            run(
                bench,
                &scenario(
                    include_str!("../../guest/digests.sh"),
                    Backend::Memory,
                    4096,
                ),
            )
        },
    },
];

const fn scenario(script: &'static str, backend: Backend, block_size: u32) -> Scenario {
    Scenario {
        script,
        backend,
        block_size,
        peer_lacks: None,
    }
}

fn run(bench: &Bench, scenario: &Scenario) -> Result<Outcome> {
    if let Some(reason) = scenario.peer_lacks.filter(|_| bench.is_peer()) {
        return Ok(Outcome::Skipped(reason.to_owned()));
    }
    if let Some(reason) = network::missing() {
        return Ok(Outcome::Skipped(reason));
    }
    let image = Image::prepare(&bench.tools)?;
    let namespace = Namespace::new(2)?;
    let mut server = bench.serve(Spec {
        backend: scenario.backend,
        size_mib: 512,
        block_size: scenario.block_size,
        addresses: (0..namespace.paths).map(host_address).collect(),
        port: PORT,
        namespace: Some(namespace.name.clone()),
        ..Spec::default()
    })?;
    let arguments = [server.target.clone(), server.portal(0), server.portal(1)];
    let answer = |request: &str| act(request, &namespace, &mut server, bench);
    let guest = Guest {
        machines: bench.tools.machines()?,
        image: &image,
        root: &image.disk,
        disks: &[],
        namespace: &namespace,
        memory_mib: 768,
        words: "",
    };
    let console = machine::run(&guest, scenario.script, &arguments, LIMIT, answer)
        .with_context(|| "in the Linux guest".to_owned());
    let alive = server.check_alive();
    let console = match (console, alive) {
        (Ok(console), Ok(())) => console,
        (Ok(_), Err(error)) => return Err(error),
        (Err(error), Ok(())) => {
            return Err(error.context(format!("the end of the server's log:\n{}", server.log())));
        }
        (Err(error), Err(dead)) => return Err(error.context(dead)),
    };
    let figures = console
        .lines()
        .filter_map(|line| line.trim().strip_prefix("figures: "))
        .next_back();
    Ok(Outcome::passed(
        figures.context("the guest's script noted no figures")?,
    ))
}

/// Carries out a request of a guest to the host.
fn act(request: &str, namespace: &Namespace, server: &mut Server, bench: &Bench) -> Result<String> {
    let words: Vec<&str> = request.split_whitespace().collect();
    match words[..] {
        ["link", path, state @ ("up" | "down")] => namespace
            .set_link(path.parse().context("path")?, state == "up")
            .map(|()| String::new()),
        ["server", "kill"] => {
            server.check_alive()?;
            server.kill_hard();
            Ok(String::new())
        }
        ["server", "start"] => server.restart(&bench.tools).map(|()| String::new()),
        ["allocated"] => Ok(server
            .allocated()
            .context("the unit is not a file")?
            .to_string()),
        _ => bail!("the guest asked for '{request}', which the host does not know"),
    }
}
