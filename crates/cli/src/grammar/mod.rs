//! The grammar of the command line: help, manual pages, completion, and words of other programs.

pub(super) mod completion;
pub(super) mod elsewhere;
pub(super) mod help;
pub(super) mod later;
pub(super) mod manual;
pub(super) mod repeated;
pub(super) mod typed;
