//! A router served over TLS, to people and programs on a network.
//!
//! | question | file |
//! |---|---|
//! | Where do certificates come from, and when do they change? | `certificates.rs` |
//! | How does this machine make a certificate of its own? | `own.rs` |
//! | How are connections taken, and how many? | `server.rs` |
//! | Which names and addresses does this machine have? | `names.rs` |
//!
//! # Invariants
//! - A certificate that cannot be used never takes the place of one that can.
//! - Connections, handshakes and headers are bounded in number and time.
//! - A request that names a foreign host is refused.

mod certificates;
mod names;
mod own;
mod server;

pub use certificates::{CertificateView, Certificates, Given, Source};
pub use names::address_for_people;
pub use server::HttpsServer;
