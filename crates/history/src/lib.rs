//! History of figures: rings of fixed size in the state folder, which survive restarts and never
//! grow beyond a stated bound.
//!
//! | question | file |
//! |---|---|
//! | Which figures does a slot hold, and how are slots summed up? | `fields.rs`; numbers of 16 bits: `compact.rs` |
//! | Which rings are there? | `ring.rs` |
//! | Where does each byte of a file lie? | `format.rs`; entries of objects: `entry.rs` |
//! | How is a minute recorded, and in which order? | `book.rs`; places of objects: `book/places.rs` |
//! | How is a file opened, checked and repaired? | `book/opening.rs`, `file.rs` |
//! | Which points does a chart show? | `book/points.rs` |
//! | How do two readings become the figures of a minute? | `gauge.rs` |
//! | When is a pool full? | `trend.rs` |
//! | Who keeps it all? | `keeper.rs` |
//!
//! All but `file.rs` and `keeper.rs` is pure: it takes bytes and minutes, and knows neither files
//! nor clocks.
//!
//! # Invariants
//! - A minute is recorded or absent. A power cut loses at most the minute that was being written.
//! - What was not recorded is a gap: never zero, and never made up.
//! - No clock, however wrong, removes more than as many minutes as it was wrong for, the oldest
//!   first.
//! - The history is not the user's data. Its failure is told, and stops nothing.

mod book;
mod compact;
mod entry;
mod fields;
mod file;
mod format;
mod gauge;
mod keeper;
mod ring;
mod trend;

pub use gauge::{PoolReading, Readings};
pub use keeper::{Clock, History};

#[cfg(test)]
mod tests;
