//! A certificate for 127.0.0.1 and localhost, made for each test, and the server's side of TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Certificate in a file, and the settings of a server that has it.
pub(crate) struct Certificate {
    /// File that clients are to trust.
    pub(crate) ca: PathBuf,
    /// Settings of the server.
    pub(crate) config: Arc<ServerConfig>,
}

impl Certificate {
    pub(crate) fn new(folder: &Path) -> Self {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let ca = folder.join("ca.pem");
        std::fs::write(&ca, made.cert.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::from(key))
            .unwrap();
        Self {
            ca,
            config: Arc::new(config),
        }
    }

    pub(crate) fn path(&self) -> Option<String> {
        Some(self.ca.display().to_string())
    }
}
