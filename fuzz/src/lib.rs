//! What is fuzzed: one module per untrusted input, each a function from bytes to nothing that
//! panics where an invariant breaks.
//!
//! The targets are a library, so that the corpora are also replayed by a plain test where no fuzzer
//! can be built, and so that a crash found by the fuzzer becomes a seed and stays tested.

pub mod application_client;
pub mod cdb;
pub mod framer;
pub mod icf;
pub mod initiator_login;
pub mod initiator_session;
pub mod input;
pub mod isns;
pub mod login;
pub mod nbd;
pub mod pdu;
pub mod text_keys;
pub mod unpack;

/// Takes the fuzzer's bytes and panics where an invariant breaks.
pub type Target = fn(&[u8]);

/// Every target by name, as the folders of the corpus are named.
pub const TARGETS: &[(&str, Target)] = &[
    ("application_client", application_client::run),
    ("cdb", cdb::run),
    ("framer", framer::run),
    ("icf", icf::run),
    ("initiator_login", initiator_login::run),
    ("initiator_session", initiator_session::run),
    ("isns", isns::run),
    ("login", login::run),
    ("nbd", nbd::run),
    ("pdu", pdu::run),
    ("text_keys", text_keys::run),
    ("unpack", unpack::run),
];
