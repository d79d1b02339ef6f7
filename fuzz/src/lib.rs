//! Fuzz targets: one module per untrusted input, each with a function that takes bytes and panics
//! if an invariant breaks.
//!
//! The targets are a library for two reasons. A plain test also replays the corpora where no fuzzer
//! can be built. A crash found by the fuzzer becomes a seed and stays tested.

pub mod application_client;
pub mod catalog;
pub mod cdb;
pub mod framer;
pub mod icf;
pub mod initiator_login;
pub mod initiator_session;
pub mod input;
pub mod iometer_results;
pub mod isns;
pub mod label;
pub mod list;
pub mod log_record;
pub mod login;
pub mod manifest;
pub mod nbd;
pub mod node;
pub mod pdu;
pub mod root;
pub mod stream;
pub mod text_keys;
pub mod unpack;

/// Function that takes the fuzzer's bytes and panics if an invariant breaks.
pub type Target = fn(&[u8]);

/// Targets by name, as the folders of the corpus are named.
pub const TARGETS: &[(&str, Target)] = &[
    ("application_client", application_client::run),
    ("catalog", catalog::run),
    ("cdb", cdb::run),
    ("framer", framer::run),
    ("icf", icf::run),
    ("initiator_login", initiator_login::run),
    ("initiator_session", initiator_session::run),
    ("iometer_results", iometer_results::run),
    ("isns", isns::run),
    ("label", label::run),
    ("list", list::run),
    ("log_record", log_record::run),
    ("login", login::run),
    ("manifest", manifest::run),
    ("nbd", nbd::run),
    ("node", node::run),
    ("pdu", pdu::run),
    ("root", root::run),
    ("stream", stream::run),
    ("text_keys", text_keys::run),
    ("unpack", unpack::run),
];
