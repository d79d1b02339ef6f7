//! The output of commands: tables, wrapped text, hindrances, lines to type at clients.

pub(super) mod hindrances;
pub(super) mod table;
pub(super) mod wire;
pub(super) mod wrap;

pub use hint::client_instructions;
