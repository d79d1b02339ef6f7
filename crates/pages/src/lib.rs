//! Memory in which data lies and travels. Pages are 4 KiB, reference-counted, and immutable once
//! shared ([`Page`], [`PageMut`]). Runs are bytes over several pages ([`Pages`], [`PagesMut`]).
//!
//! This is a crate of its own for two reasons. The target, the initiator and the store hand data to
//! each other without a copy. The raw memory beneath is reachable from nowhere else.

mod page;
mod run;
mod slab;

pub use page::{PAGE_SIZE, Page, PageMut, footprint, prefetch};
pub use run::{Chunks, Pages, PagesMut};
pub use slab::{IDLE_SHARE, idle_bytes, mapped_bytes, trim};
