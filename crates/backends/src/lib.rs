//! From what a user or the configuration names to a device that is open.
//!
//! | question | where |
//! |---|---|
//! | which device serves a logical unit of the configuration | `open.rs` |
//! | which device a command line names | `locate.rs` |
//! | whether two backends are one disk | `backing.rs` |

pub mod backing;
pub mod locate;
pub mod open;
