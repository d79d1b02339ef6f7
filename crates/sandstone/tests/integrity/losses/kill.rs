//! The daemon is killed, after cuts of connections, while sessions over two portals write.
//!
//! They write to files and to volumes of a pool. Nothing durable is lost, and no acknowledged write
//! to a file is lost, since the kernel has it. Nothing is torn, and nothing happens after its
//! session was made anew. At the end the pool is proven offline.

use iscsi::initiator::LoginSettings;
use iscsi::negotiation::{DigestPolicy, Limits};
use iscsi::pdu::Isid;

use crate::rig::model::{Crash, Model};
use crate::rig::process::{Process, TARGET, file_unit, free_portal, target};
use crate::rig::random::{seeds, with_seed};
use crate::rig::session::PipelinedSession;
use crate::rig::workload::{Unit, Workload};

/// Number of commands between two kills.
const COMMANDS: usize = 400;
const KILLS: usize = 5;
/// Logical units by block size, number of blocks, and whether they have a write cache.
const UNITS: [(u32, u64, bool); 2] = [(512, 1024, true), (4096, 128, false)];
/// Logical units on volumes of a pool, behind those in files.
const VOLUMES: [(u32, u64, bool); 2] = [(512, 1024, true), (4096, 128, false)];

/// Returns settings of sessions of different hosts that move data in different ways.
pub(crate) fn settings(number: u8) -> LoginSettings {
    let mut settings = LoginSettings::new(
        format!("iqn.2026-01.io.sandstone:host-{number}"),
        Some(TARGET.into()),
        Isid([0x80, 0, 0, 0, 0, number]),
    );
    let solicited = Limits {
        initial_r2t: true,
        immediate_data: false,
        max_burst_length: 8192,
        first_burst_length: 4096,
        max_outstanding_r2t: 3,
        ..settings.limits.clone()
    };
    let small = Limits {
        max_recv_data_segment_length: 1024,
        first_burst_length: 2048,
        header_digest: DigestPolicy::Prefer,
        data_digest: DigestPolicy::Prefer,
        ..settings.limits.clone()
    };
    match number % 3 {
        1 => settings.limits = solicited,
        2 => settings.limits = small,
        _ => {}
    }
    settings
}

#[test]
fn nothing_is_lost_or_torn_when_the_daemon_is_killed() {
    for seed in seeds(1..6) {
        with_seed(seed, killed_again_and_again);
    }
}

fn killed_again_and_again(seed: u64) {
    let portals = [free_portal(), free_portal()];
    let arguments: &[&str] = if seed.is_multiple_of(2) {
        &["--threads", "2"]
    } else {
        &["--threads", "2", "--no-io-uring"]
    };
    let mut process = Process::start(arguments, |config| {
        config.targets.push(target(&portals));
        for (lun, (block_size, blocks, write_cache)) in (0..).zip(UNITS) {
            let (unit, map) = file_unit(lun, blocks, block_size, write_cache);
            config.units.push(unit);
            config.maps.push(map);
        }
    });
    // The daemon listens when it takes a session.
    PipelinedSession::new(portals[0], settings(0)).log_in();
    make_volumes(&process);
    let sessions = (0..6)
        .map(|number| PipelinedSession::new(portals[usize::from(number) % 2], settings(number)));
    let units = (0..).zip(UNITS.into_iter().chain(VOLUMES)).map(
        |(lun, (block_len, blocks, write_cache))| Unit {
            lun,
            block_len: block_len as usize,
            write_cache,
            model: Model::new(blocks),
        },
    );
    let mut workload = Workload::new(seed, sessions.collect(), units.collect());
    for _ in 0..KILLS {
        workload.connect_all();
        workload.run(COMMANDS, true);
        process.kill();
        workload.crash(what_is_lost);
        process.restart();
        workload.connect_all();
        workload.verify();
    }
    workload.run(COMMANDS, true);
    workload.drain();
    workload.verify();
    for happened in [
        "write",
        "read",
        "compare and write",
        "miscompare",
        "unanswered",
    ] {
        assert!(workload.ended.contains_key(happened), "no {happened}");
    }
    process.kill();
    let proven = process.run(&format!("pool check -d {}", process.state().display()));
    assert!(proven.contains("every copy is right"), "{proven}");
}

/// Returns the loss of a unit when the daemon is killed.
///
/// A pool keeps data that is not durable yet in its own memory. The data of a file is in the
/// kernel's.
fn what_is_lost(unit: &Unit) -> Crash {
    match usize::from(unit.lun) < UNITS.len() {
        true => Crash::Process,
        false => Crash::Power,
    }
}

fn make_volumes(process: &Process) {
    let [one, other] = ["d0", "d1"].map(|name| process.state().join(name).display().to_string());
    process.run(&format!(
        "pool create --size 128M tank mirror {one} {other}"
    ));
    for (lun, (block_size, blocks, write_cache)) in (UNITS.len()..).zip(VOLUMES) {
        let (size, cache) = (
            blocks * u64::from(block_size),
            if write_cache { "--write-cache" } else { "" },
        );
        process.run(&format!("volume create -s -V {size} -b 4K tank/v{lun}"));
        process.run(&format!(
            "lu create v{lun} --volume tank/v{lun} --block-size {block_size} {cache}"
        ));
        process.run(&format!(
            "map add v{lun} --every-host --target {TARGET} --lun {lun}"
        ));
    }
}
