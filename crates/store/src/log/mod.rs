//! The log: what makes changes durable, group by group.
//!
//! Changes gather in the open group ([`group`]). A sealed group becomes one record and its data,
//! which leave as one write. The record's place in the chain ([`chain`]) tells what came before it.
//! Several groups may be under way, but they count in their order only. After a crash, the chain is
//! followed from the last checkpoint to its end ([`replay`]). Log vdevs hold copies of groups, in a
//! [`ring`].

pub mod chain;
pub mod group;
pub mod replay;
pub mod ring;
