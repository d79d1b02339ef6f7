//! The grammar of the command line: help, manual pages, completion, words of other programs,
//! and files that arguments name.

#[cfg(test)]
mod advised;
pub(super) mod completion;
pub(super) mod elsewhere;
pub(super) mod help;
pub(super) mod later;
pub(super) mod manual;
pub(super) mod repeated;
pub(super) mod typed;
pub(super) mod whole_file;
