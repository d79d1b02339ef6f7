//! Certificates of the server, in a folder with the names that NBD tools use: `server-cert.pem`,
//! `server-key.pem` and, to recognize clients, `ca-cert.pem`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Settings of TLS.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Folder with the certificates.
    pub certificates: PathBuf,
    /// Whether clients must use TLS; otherwise they may.
    pub require: bool,
    /// Whether clients must have a certificate that `ca-cert.pem` signed.
    pub verify_clients: bool,
}

/// Reason why certificates cannot be used.
#[derive(Debug)]
pub struct TlsError {
    file: PathBuf,
    message: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.message)
    }
}

impl std::error::Error for TlsError {}

/// Reads the certificates.
///
/// # Errors
/// A file is missing, has the wrong content, or key and certificate do not belong together.
pub(super) fn load(options: &TlsOptions) -> Result<Arc<ServerConfig>, TlsError> {
    let certificate = options.certificates.join("server-cert.pem");
    let key = options.certificates.join("server-key.pem");
    let chain = certificates(&certificate)?;
    let private = PrivateKeyDer::from_pem_file(&key).map_err(|error| failed(&key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&certificate, error))?;
    let builder = if options.verify_clients {
        let authority = options.certificates.join("ca-cert.pem");
        let mut roots = RootCertStore::empty();
        for root in certificates(&authority)? {
            roots.add(root).map_err(|error| failed(&authority, error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| failed(&authority, error))?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let config = builder
        .with_single_cert(chain, private)
        .map_err(|error| failed(&certificate, error))?;
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(file).map_err(|error| failed(file, error))?;
    let chain: Vec<_> = read
        .collect::<Result<_, _>>()
        .map_err(|error| failed(file, error))?;
    if chain.is_empty() {
        return Err(failed(file, "it holds no certificate"));
    }
    Ok(chain)
}

fn failed(file: &Path, message: impl fmt::Display) -> TlsError {
    TlsError {
        file: file.to_owned(),
        message: message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = TlsOptions {
            certificates: folder.path().to_owned(),
            require: true,
            verify_clients: false,
        };
        let error = load(&options).expect_err("nothing is there").to_string();
        assert!(error.contains("server-cert.pem"), "{error}");
        std::fs::write(folder.path().join("server-cert.pem"), "no certificate").expect("a file");
        let error = load(&options).expect_err("that is none").to_string();
        assert!(error.contains("it holds no certificate"), "{error}");
    }
}
