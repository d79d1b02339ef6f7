//! Pools at work: the engine of [`store`] joined to devices, threads and clocks, and to the units
//! and administrators that use it.
//!
//! | question | file |
//! |---|---|
//! | Which thread runs a pool's engine? | `engine.rs`; orders reach it by `pool_thread.rs`; its time: `clock.rs` |
//! | Which pools are open? | `registry.rs`; at the daemon's start: `start.rs`; the list that outlives a restart: `devices/known.rs`; a lost list: `administer/rebuilding.rs` |
//! | Where are a pool's devices opened? | `import/opened_devices.rs`, from `devices/disks.rs`; by another host's target: `backends` |
//! | Where are labels read and written from outside the engine? | `devices/label.rs` |
//! | How is a device told from its copy? | `devices/identity.rs`, with facts of the kernel from `devices/system.rs` |
//! | Which disks of other machines did units use, so that no pool takes them for its own? | `devices/lent.rs` |
//! | Which devices did the last run use? | `import/remembered.rs` |
//! | How does a lost device return by itself? | `import/returning.rs`; the next attempt: `engine/attempt.rs`; new names in /dev: `devices/name_watch.rs` |
//! | What happens to devices without a request (autoreplace, autoexpand)? | `import/unasked.rs` |
//! | How is a pool created, exported, destroyed? | `administer/create.rs`; its devices by name: `administer/vdev_request.rs`; all opened or none: `administer/new_devices.rs`; foreign data on them: `devices/foreign.rs` |
//! | How is a pool found and imported? | `import/found.rs`, `import/request.rs`; two copies of one device: `import/twins.rs` |
//! | How is a pool opened, and how does it prove that no other host has it? | `import/opening.rs`, `import/multihost.rs` |
//! | Until when does this host surely own a pool? | `ownership.rs`; its fence around devices: `fence.rs` |
//! | How does a stopped pool go on? | `import/reopening.rs`; the writes that volumes may have lost: `engine/unflushed.rs` |
//! | How does a copy become a pool of its own? | `import/reguid.rs` |
//! | How is a damaged pool opened at an older state? | `import/rewind.rs`; without a write: `import/drive.rs`, `import/overlay.rs` |
//! | How are devices replaced, attached, added, removed? | `administer/vdevs.rs` and the files beside it |
//! | How do scrubs and resilvers run? | `administer/scan.rs`; their progress in words: `progress/scan.rs` |
//! | How is a closed pool checked? | `administer/check.rs` |
//! | Where does `pool status` come from? | `status.rs`; ONLINE or worse: `condition.rs`; what happened and what to do: `advice.rs`; fullness: `fullness.rs`; lost ranges: `import/damaged.rs`; events: `events.rs`, the latest of them: `shared/event_log.rs`; history: `administer/history.rs` |
//! | How is free space trimmed? | `administer/trim.rs`; its progress in words: `progress/trim.rs` |
//! | Where does `pool iostat` come from? | `io.rs` |
//! | Which properties may administrators set? | `administer/properties.rs` |
//! | Which format features does a pool have? | `administer/upgrade.rs` |
//! | How are volumes and snapshots changed? | `dataset.rs`; the volumes that units serve: `served_datasets.rs` |
//! | How are snapshots sent and received? | `stream/` |
//! | How is a damaged volume salvaged? | `administer/salvage.rs` |
//! | How does a logical unit use a volume? | `volume.rs`; answers of the engine: `engine/answer.rs` |
//! | Who is read ahead for? | `read_ahead.rs`; when: `engine/ahead_queue.rs` |

pub mod administer;
mod advice;
mod clock;
mod condition;
pub mod dataset;
pub mod devices;
mod direct;
mod engine;
mod events;
mod fence;
mod fullness;
mod import;
mod io;
pub mod opener_turn;
mod order;
mod ownership;
pub mod pool_thread;
mod progress;
pub(crate) mod read_ahead;
pub mod registry;
pub mod served_datasets;
mod setup;
mod shared;
mod start;
mod status;
pub mod stream;
pub mod volume;
mod volume_places;

#[cfg(test)]
mod tests;

pub use devices::disks::Disks;
pub use devices::inventory::disk_paths;
pub use devices::known::members;
pub use registry::{Pools, PoolsOptions};
pub use shared::HandedOver;
pub use volume::PoolVolume;

/// Returns a random number that is not 0.
fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    // Two pools with one guid, or a secret that can be guessed, would be worse than a panic here.
    getrandom::fill(&mut bytes).expect("the kernel has random numbers");
    u64::from_le_bytes(bytes).max(1)
}
