//! The pool joins vdevs, space, maps, the log and the catalogue to the requests that read and write
//! volumes.
//!
//! The pool is one state machine. [`Pool::submit`] takes requests, [`Pool::completed`] takes the
//! answers of devices, and [`Pool::tick`] takes the time. Each call leaves in [`Pool::take_output`]
//! the requests for the devices and the answers to requests that ended. No call waits, and each
//! does a bounded amount of work.
//!
//! State lies below steps. A *part* holds data, and what the data decides by itself. It does not
//! know the pool: `checkpoint/making.rs`, `io/log_end.rs`. In `state.rs`, [`Pool`] joins the parts.
//! A *step* lies above and ties parts together: `checkpoint.rs`, `io/commit.rs`. No part imports a
//! step.
//!
//! At most five files use a field of [`Pool`]. The others use verbs of these files: of
//! `devices/disk_access.rs` for the disks, `io/mapping.rs` for maps, `io/placing.rs` for space,
//! `io/commit.rs` for the log's end, `checkpoint/asking.rs` for the next checkpoint.
//!
//! | question | file |
//! |---|---|
//! | what belongs to an open pool, and what calls what | `state.rs` |
//! | what is asked of the disks | `devices/disk_access.rs`; the part: `devices/disks.rs` |
//! | what do answers of devices belong to | `tags.rs` |
//! | does a pool take changes | `activity/condition.rs` |
//! | what belongs to a volume or snapshot in use | `contents.rs` |
//! | how much memory and time may a pool take | `limits.rs` |
//! | when is background work done | `background_work.rs` |
//! | how is a write taken, and what of a partly overwritten block is read first | `io/write.rs`; what a change is: `io/change.rs` |
//! | where does a write become durable | `io/commit.rs`; what the log's end holds: `io/log_end.rs` |
//! | what lies on cache vdevs | `devices/cache_vdevs.rs`; the devices: `devices/caches.rs` |
//! | what do log vdevs promise | `devices/log_vdevs.rs`; the vdevs: `devices/logs.rs` |
//! | which part of a write is done before the engine gets it | `io/prepared.rs` |
//! | how is a block found and read | `io/read.rs`; which reads are under way: `io/block_reads.rs` |
//! | where does a block get its place | `io/placing.rs` |
//! | where is a label written, and when does it say that a leaf missed something | `devices/label_writes.rs`; its roots: `checkpoint/root_ring.rs` |
//! | what makes the log short | `checkpoint.rs` and the files beside it; what is being made: `checkpoint/making.rs` |
//! | what asks for a checkpoint | `checkpoint/asking.rs`; at rest: `io/checkpoint_at_rest.rs` |
//! | which changes are in no durable checkpoint yet | `io/unmerged.rs`; how they come into maps: `io/mapping.rs` |
//! | what does a checkpoint keep | `manifest.rs` |
//! | when are the blocks of destroyed datasets freed | `checkpoint/free_destroyed.rs` |
//! | how does a pool open after a crash | `open.rs`; how its log continues then: `io/log_start.rs` |
//! | what happens when the pool is full | `room/admission.rs`; what is promised: `room/promises.rs` |
//! | how are datasets changed | `administer.rs`; when there are too many: `room/manifest_room.rs` |
//! | what does a stream carry | `send.rs`; which volume may receive one: `receive.rs` |
//! | how are blocks verified and rebuilt | `scan.rs` |
//! | which free space are devices told of | `trim.rs` |
//! | how much space do datasets take | `room/usage.rs` |
//! | how are devices replaced and vdevs added | `vdevs.rs` |
//! | which devices fail too often | `devices/failures.rs`; which spares stand in: `devices/spares.rs` |
//! | how is the whole pool checked | `check.rs` and the files beside it |
//! | which labels lie among the pool's blocks | `devices/inner_labels.rs` |
//! | how do inner labels restore lost labels | `open/rebuild.rs` |
//! | how many devices can labels name | `room/label_room.rs` |
//! | which host has the pool | `activity.rs` and the files beside it |
//! | how is a pool closed in order | `ownership.rs` |
//! | how does a copy become a pool of its own | `open/reguid.rs` |
//! | which requests does a pool take | `request.rs`; its sizes and limits: `config.rs` |
//! | what must a program know to use a pool | `features.rs` |
//! | which blocks come into the cache before a request wants them | `io/fetch_ahead.rs` |
//! | which properties may administrators set | `properties.rs`; how they set them: `settings.rs` |
//! | which blocks lie twice, and where | `io/second_copy.rs` |
//! | how much of a block's space does raidz leave | `io/padding.rs` |

mod activity;
mod administer;
mod background_work;
pub mod check;
mod checkpoint;
mod config;
mod contents;
mod devices;
pub mod features;
mod io;
mod limits;
mod manifest;
mod old_copies;
mod open;
mod ownership;
mod properties;
pub(crate) mod receive;
mod request;
mod room;
mod scan;
pub(crate) mod send;
mod settings;
mod state;
mod tags;
mod trim;
mod vdevs;

#[cfg(test)]
mod tests;

pub use activity::{
    Circumstances, Pace, Progress, Protected, Protection, RecordRequest, Refusal, Seen, Stop,
    Taken, Takeover, Waits,
};
pub use administer::Plan;
pub use config::PoolConfig;
pub use devices::caches::{CacheStatus, is_cache_io};
pub use devices::logs::LogStatus;
pub use features::Features;
pub use io::padding::Wasteful;
pub use io::prepared::{Prepared, Recipe};
pub use limits::Limits;
pub use manifest::normal_manifest;
pub use open::{
    Back, Behind, Candidate, Examined, LeafLabels, MissingLog, NewLabels, OpenError, OpenErrorKind,
    Opening, Rebuild, Rewound, Short, Standing, Trace, Twin, Twins, examine, front_labels,
    rear_labels, reguid, torn_identity, trace_places, twins,
};
pub use ownership::DatasetSpace;
pub use properties::{PoolProperties, PoolProperty};
pub use request::{
    Answer, Changes, Event, Output, PoolError, PoolErrorKind, Received, Request, RequestId, Span,
    Stored, WantedChanges,
};
pub use room::usage::{BlockBytes, DatasetUsage};
pub use scan::{ScanKind, ScanState, ScanStatus};
pub use state::Pool;
pub use trim::{TrimRefused, TrimState, TrimStatus};
pub use vdevs::PoolStatus;
