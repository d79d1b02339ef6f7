//! What is fuzzed: one module per untrusted input, each a function from bytes to nothing that
//! panics where an invariant breaks.
//!
//! The targets are a library, so that the corpora are also replayed by a plain test where no fuzzer
//! can be built, and so that a crash found by the fuzzer becomes a seed and stays tested.

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

/// Takes the fuzzer's bytes and panics where an invariant breaks.
pub type Target = fn(&[u8]);

/// Every target by name, as the folders of the corpus are named.
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
