//! Authorities whose servers are trusted: the system's, or those of a file.

use std::fs;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Returns the settings of TLS with a server that one of these authorities vouches for.
///
/// # Errors
/// There is no authority: in words.
pub(super) fn tls(ca: Option<&str>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                let added = roots.add(certificate);
                added.map_err(|error| format!("{path}: a certificate is not valid: {error}"))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(
                    "this machine trusts no authority: install the package ca-certificates, or name a file with --ca"
                        .to_owned(),
                );
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}

/// Reads the certificates of a file.
///
/// # Errors
/// The file cannot be read or holds none: in words.
pub(super) fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = fs::read(path).map_err(|error| format!("{path} cannot be read: {error}"))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let all = all.map_err(|error| format!("{path} cannot be read: {error:?}"))?;
    match all.is_empty() {
        true => Err(format!("{path} holds no certificate in PEM")),
        false => Ok(all),
    }
}
