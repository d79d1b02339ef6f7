//! The pool: vdevs, space, maps, the log and the catalogue, joined to what reads and writes volumes.
//!
//! One state machine. [`Pool::submit`] takes requests, [`Pool::completed`] what devices answered,
//! [`Pool::tick`] the time; each leaves in [`Pool::take_output`] what the devices have to do and which
//! requests ended. No call waits, and each does a bounded amount of work.
//!
//! | question | file |
//! |---|---|
//! | what is there of an open pool, and what calls what | `state.rs` |
//! | how is a write taken, what it overwrites in part first | `write.rs` |
//! | where does a write become durable | `commit.rs` |
//! | what lies on cache vdevs | `cache_vdevs.rs` |
//! | what do log vdevs promise | `log_vdevs.rs` |
//! | what of a write is done before the engine gets it | `prepared.rs` |
//! | how is a block found and read | `read.rs` |
//! | when do labels say that a leaf missed something | `labels.rs` |
//! | what makes the log short | `checkpoint.rs` and the files beside it; when it is time for one: `rest.rs` |
//! | what is in no durable checkpoint yet | `unmerged.rs` |
//! | what does a checkpoint keep | `manifest.rs` |
//! | how does a pool open after a crash | `open.rs`; how does its log go on then: `anew.rs` |
//! | what happens when it is full | `admission.rs` |
//! | how are datasets changed | `administer.rs`; when are there too many: `manifest_room.rs` |
//! | what does a stream carry | `send.rs`; who may receive one: `receive.rs` |
//! | how are blocks verified and rebuilt | `scan.rs` |
//! | what are devices told of free space | `trim.rs` |
//! | what do datasets take | `usage.rs` |
//! | how are devices replaced, vdevs added | `vdevs.rs`; which fail too often: `failures.rs`; what stands in: `spares.rs` |
//! | how is all of it proven | `check.rs` and the files beside it |
//! | which labels lie among its blocks | `inner_labels.rs`; how do they bring lost ones back: `open/rebuild.rs` |
//! | how many devices can labels name | `label_room.rs` |
//! | which host has it | `activity.rs` and the files beside it |
//! | how does it end in order | `closing.rs` |
//! | how does a copy become a pool of its own | `open/reguid.rs` |
//! | what may be asked of it | `request.rs`; of which sizes and limits: `config.rs` |
//! | what must a program know to use it | `features.rs` |
//! | what is brought into the cache before anybody asks | `read_ahead.rs` |
//! | what may administrators set | `properties.rs` |
//! | what lies twice, and where | `second.rs` |
//! | what raidz leaves of a block's space | `padding.rs` |

mod activity;
mod administer;
mod admission;
mod anew;
mod cache_vdevs;
pub mod check;
mod checkpoint;
mod closing;
mod commit;
mod config;
mod failures;
pub mod features;
mod inner_labels;
mod label_room;
mod labels;
mod log_vdevs;
mod manifest;
mod manifest_room;
mod old_copies;
mod open;
mod padding;
mod prepared;
mod properties;
mod read;
mod read_ahead;
mod receive;
mod request;
mod rest;
mod scan;
mod second;
mod send;
mod signpost;
mod spares;
mod state;
mod trim;
mod unmerged;
mod usage;
mod vdevs;
mod write;

#[cfg(test)]
mod tests;

pub use activity::{
    Circumstances, Pace, Progress, Protected, Protection, RecordRequest, Refusal, Seen, Stop,
    Taken, Takeover, Waits,
};
pub use administer::Plan;
pub use cache_vdevs::{CacheStatus, is_cache_io};
pub use closing::DatasetSpace;
pub use config::PoolConfig;
pub use features::Features;
pub use log_vdevs::LogStatus;
pub use manifest::normal_manifest;
pub use open::{
    Back, Behind, Candidate, Examined, LeafLabels, MissingLog, NewLabels, OpenError, OpenErrorKind,
    Opening, Rebuild, Rewound, Short, Standing, Trace, Twin, Twins, examine, front_labels,
    rear_labels, reguid, torn_identity, trace_places, twins,
};
pub use padding::Wasteful;
pub use prepared::{Prepared, Recipe};
pub use properties::{PoolProperties, PoolProperty};
pub use request::{
    Answer, Changes, Event, Output, PoolError, PoolErrorKind, Received, Request, RequestId, Span,
    Stored, WantedChanges,
};
pub use scan::{ScanKind, ScanState, ScanStatus};
pub use state::{Limits, Pool};
pub use trim::{TrimRefused, TrimState, TrimStatus};
pub use usage::{BlockBytes, DatasetUsage};
pub use vdevs::PoolStatus;
