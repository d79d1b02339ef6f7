//! The output of commands: tables, wrapped text, hindrances, lines to type at clients.

pub mod client_instructions;
pub(super) mod hindrances;
pub(super) mod table;
pub(super) mod wire;
pub(super) mod wrap;
