//! Memory that data lies in and travels through: 4 KiB pages, reference-counted and immutable once
//! shared ([`Page`], [`PageMut`]), and runs of bytes over several of them ([`Pages`], [`PagesMut`]).
//!
//! A crate of its own so that the target, the initiator and the store hand over one another's data
//! without a copy, and so that the raw memory beneath is reachable from nowhere else.

mod page;
mod run;
mod slab;

pub use page::{PAGE_SIZE, Page, PageMut, footprint, prefetch};
pub use run::{Chunks, Pages, PagesMut};
pub use slab::{IDLE_SHARE, idle_bytes, mapped_bytes, trim};
