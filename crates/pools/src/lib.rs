//! Pools at work: the engine of [`store`] joined to devices, threads and clocks, and to those who
//! use it.
//!
//! | question | file |
//! |---|---|
//! | who runs a pool's engine | `engine.rs` (the thread), `pool_thread.rs` (the way to it) |
//! | what are its devices | `import/opened_devices.rs`; where they come from, also from other machines: `devices/disks.rs`; their labels: `devices/label.rs` |
//! | which did units have meanwhile | `devices/lent.rs` |
//! | which come back by themselves | `import/returning.rs`; when that is tried again: `engine/attempt.rs`; how it is noticed: `devices/name_watch.rs` |
//! | what else is done to them unasked | `import/unasked.rs` |
//! | how does a pool go on that had stopped | `import/reopening.rs`; what its volumes may have lost: `engine/unflushed.rs` |
//! | how does it come up | `import/opening.rs`; that no other host has it: `import/multihost.rs` |
//! | which pools are there | `registry.rs`; those of the last run: `devices/known.rs`, and where that is lost: `administer/rebuilding.rs` |
//! | how is it made, exported, destroyed | `administer/create.rs`; which devices are named for it: `administer/vdev_request.rs`; how these are opened, all or none: `administer/new_devices.rs`; what others keep there: `devices/foreign.rs` |
//! | how is it found and imported | `import/found.rs`, `import/request.rs`; what if there are two of one device: `import/twins.rs` |
//! | which devices had it at the last run | `import/remembered.rs` |
//! | what tells a device from its copy | `devices/identity.rs`; what the kernel says of it: `devices/system.rs` |
//! | how does a copy become a pool of its own | `import/reguid.rs` |
//! | how is one opened that is damaged | `import/rewind.rs`; without writing anything: `import/overlay.rs` |
//! | how are its devices replaced, put aside, attached, spared, added, removed | `administer/vdevs.rs` and the files beside it |
//! | scrubs and resilvers | `administer/scan.rs`; the proof of a pool that is not open: `administer/check.rs` |
//! | how is it, in zpool's words | `status.rs`, what that means and what to do: `advice.rs`; how full it is: `fullness.rs`; which of its bytes are lost: `import/damaged.rs`; what happened to it: `events.rs`; what was done to it: `administer/history.rs` |
//! | which free space are devices told of | `administer/trim.rs` |
//! | what do its devices read and write | `io.rs` |
//! | what may administrators set | `administer/properties.rs` |
//! | which format features has it | `administer/upgrade.rs` |
//! | volumes, snapshots and their properties | `dataset.rs`; those that units serve: `served.rs` |
//! | snapshots go to other pools and come from them | `stream/` |
//! | what can be read of a volume that lost blocks | `administer/salvage.rs` |
//! | what a logical unit is made of | `volume.rs`; who is read ahead for: `read_ahead.rs`, and when: `engine/ahead_queue.rs`; what it is answered: `engine/answer.rs` |

pub mod administer;
mod advice;
pub mod dataset;
pub mod devices;
mod engine;
mod events;
mod fence;
mod fullness;
mod import;
mod io;
mod placed;
pub mod pool_thread;
pub(crate) mod read_ahead;
pub mod registry;
pub mod served;
mod status;
pub mod stream;
pub mod turn;
pub mod volume;

#[cfg(test)]
mod tests;

pub use devices::disks::Disks;
pub use devices::known::members;
pub use registry::{Pools, PoolsOptions};
pub use volume::PoolVolume;

/// Returns a random number that is not 0.
fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    // Two pools with one guid, or a secret that can be guessed, would be worse than a panic here.
    getrandom::fill(&mut bytes).expect("the kernel has random numbers");
    u64::from_le_bytes(bytes).max(1)
}
