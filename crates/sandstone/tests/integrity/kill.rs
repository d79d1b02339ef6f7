//! The daemon is killed, with connections cut before, while sessions over two portals write: no
//! acknowledged write is lost, whether durable or not, for the kernel has it; nothing is torn; nothing
//! happens after its session was made anew.

use iscsi::initiator::LoginSettings;
use iscsi::negotiation::{DigestPolicy, Limits};
use iscsi::pdu::Isid;

use super::model::{Crash, Model};
use super::process::{Process, TARGET, file_unit, free_portal, target};
use super::random::{seeds, with_seed};
use super::session::PipelinedSession;
use super::workload::{Unit, Workload};

/// Commands between two kills.
const COMMANDS: usize = 250;
const KILLS: usize = 5;
/// Logical units by block size, number of blocks, and whether they have a write cache.
const UNITS: [(u32, u64, bool); 2] = [(512, 1024, true), (4096, 128, false)];

/// Sessions of different hosts that move data in different ways.
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
    let sessions = (0..6)
        .map(|number| PipelinedSession::new(portals[usize::from(number) % 2], settings(number)));
    let units = (0..)
        .zip(UNITS)
        .map(|(lun, (block_len, blocks, write_cache))| Unit {
            lun,
            block_len: block_len as usize,
            write_cache,
            model: Model::new(blocks),
        });
    let mut workload = Workload::new(seed, sessions.collect(), units.collect());
    for _ in 0..KILLS {
        workload.connect_all();
        workload.run(COMMANDS, true);
        process.kill();
        workload.crash(Crash::Process);
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
}
