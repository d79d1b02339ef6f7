//! Tests of the command line against a real control server on a unix socket, over a data plane that
//! only records. They cover every verb, its words, its exit code, and that nothing is half done.

// A test that cannot go on has failed.
#![allow(clippy::unwrap_used)]

mod command_line {
    mod advice;
    mod api;
    mod backup;
    pub(crate) mod daemon;
    mod edits;
    mod figures_history;
    mod history;
    mod listings;
    mod openapi;
    mod parallel;
    mod roles;
    mod whole;
}
