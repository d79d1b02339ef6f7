//! The power goes while several sessions write.
//!
//! Data that was acknowledged as durable (FUA, no write cache, or a SYNCHRONIZE CACHE after it) is
//! there afterwards, in order. Other data may be gone.

use std::sync::{Arc, Mutex};

use block::BlockDevice;

use super::kill::settings;
use super::volatile_disk::{Jitter, VolatileDisk};
use crate::rig::model::{Crash, Model};
use crate::rig::process::free_portal;
use crate::rig::random::{Random, seeds, with_seed};
use crate::rig::served::{self, Served};
use crate::rig::session::PipelinedSession;
use crate::rig::workload::{Unit, Workload};

const CUTS: usize = 8;
const BLOCKS: u64 = 192;
/// Logical units by block size, and whether they have a write cache.
const UNITS: [(usize, bool); 3] = [(512, true), (4096, true), (512, false)];

#[test]
fn what_is_durable_outlives_a_power_cut() {
    for seed in seeds(1..9) {
        with_seed(seed, cut_again_and_again);
    }
}

fn cut_again_and_again(seed: u64) {
    let portals = [free_portal(), free_portal()];
    let disks: Vec<Arc<VolatileDisk>> = (0..)
        .zip(UNITS)
        .map(|(number, (block_len, _))| {
            Arc::new(VolatileDisk::new(
                Random::new(seed + number),
                BLOCKS,
                block_len,
            ))
        })
        .collect();
    let serve = || {
        let device = |disk: &Arc<VolatileDisk>| -> Arc<dyn BlockDevice> {
            Arc::new(Jitter {
                disk: disk.clone(),
                random: Mutex::new(Random::new(seed)),
            })
        };
        let units = (0..).zip(UNITS);
        let units = units.map(|(lun, (block_len, write_cache))| {
            served::unit(lun, BLOCKS, block_len as u32, write_cache)
        });
        let devices = disks.iter().map(device).collect();
        Served::start(&portals, units.collect(), devices, served::limits())
    };
    let sessions = (0..5)
        .map(|number| PipelinedSession::new(portals[usize::from(number) % 2], settings(number)));
    let units = (0..)
        .zip(UNITS)
        .map(|(lun, (block_len, write_cache))| Unit {
            lun,
            block_len,
            write_cache,
            model: Model::new(BLOCKS),
        });
    let mut workload = Workload::new(seed, sessions.collect(), units.collect());
    for _ in 0..CUTS {
        let target = serve();
        workload.connect_all();
        workload.run(100, true);
        for disk in &disks {
            disk.cut_after(workload.random.within(0..40));
        }
        let powered = disks.clone();
        workload.run_until(150, move || powered.iter().any(|disk| disk.is_off()));
        // One power supply feeds all of them: the others stop where they are.
        disks.iter().for_each(|disk| disk.cut());
        workload.crash(|_| Crash::Power);
        target.stop();
        disks.iter().for_each(|disk| disk.power_on());
        let target = serve();
        workload.connect_all();
        workload.verify();
        workload.disconnect_all();
        target.stop();
    }
    for happened in [
        "write",
        "synchronize cache",
        "compare and write",
        "unanswered",
    ] {
        assert!(workload.ended.contains_key(happened), "no {happened}");
    }
}
