//! A connection with TLS to the console of a daemon on another machine. The daemon's certificate is
//! proven by a file of the user's, or by its fingerprint; nothing is trusted unsaid.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::CONNECT;
use crate::address::Remote;
use model::{Error, ErrorKind};

/// Proof of a daemon's certificate.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// File with the daemon's certificate, or with that of an authority, as PEM.
    pub ca: Option<PathBuf>,
    /// SHA-256 of the daemon's certificate, in hexadecimal digits with or without colons.
    pub fingerprint: Option<String>,
}

/// Connects to a console.
///
/// # Errors
/// It cannot be reached, or its certificate is not proven.
pub(super) async fn connect(remote: &Remote, trust: &Trust) -> Result<TlsStream<TcpStream>, Error> {
    let name = ServerName::try_from(remote.host.clone()).map_err(|_| {
        Error::invalid(
            format!("{:?} is not the name of a host", remote.host),
            "say where the daemon is with --control https://HOST:PORT",
        )
    })?;
    let verifier = Arc::new(Verifier::new(trust)?);
    let provider = Arc::clone(&verifier.provider);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unreachable(remote, &io::Error::other(error)))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&verifier) as Arc<dyn ServerCertVerifier>)
        .with_no_client_auth();
    let shake_hands = async {
        let stream = TcpStream::connect((remote.host.as_str(), remote.port)).await?;
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    };
    let shaken = timeout(CONNECT * 2, shake_hands).await;
    let shaken = shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    shaken.map_err(|error| match verifier.refused() {
        Some((fingerprint, why)) => unproven(remote, &fingerprint, &why),
        None => unreachable(remote, &error),
    })
}

fn unreachable(remote: &Remote, error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the console at https://{remote} cannot be reached: {error}"),
        "say where the daemon is with --control https://HOST:PORT; `sandstone status` on its machine tells the address",
    )
}

fn unproven(remote: &Remote, fingerprint: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::NotAuthenticated,
        format!("the certificate of https://{remote} is not proven: {why}; its fingerprint is {fingerprint}"),
        format!(
            "compare it with `sandstone tls show` on that machine; if they are the same, add --control-fingerprint \
             {fingerprint}, or fetch the certificate with `sandstone tls show --pem` and add --control-ca FILE"
        ),
    )
    .not_changed("nothing was sent, no token either")
}

/// Way to prove a certificate.
#[derive(Debug)]
enum Proof {
    Authority(Arc<WebPkiServerVerifier>),
    /// Fingerprint in capital digits without colons.
    Fingerprint(String),
    None,
}

/// Verifier that remembers which certificate it refused, and why.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    proof: Proof,
    refused: Mutex<Option<(String, String)>>,
}

impl Verifier {
    fn new(trust: &Trust) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let proof = match (&trust.fingerprint, &trust.ca) {
            (Some(fingerprint), _) => Proof::Fingerprint(digits(fingerprint)?),
            (None, Some(ca)) => {
                let unusable = |why: String| {
                    Error::invalid(
                        format!("{} cannot be used: {why}", ca.display()),
                        "give certificates as PEM, such as `sandstone tls show --pem` prints",
                    )
                };
                let mut roots = RootCertStore::empty();
                let certificates = CertificateDer::pem_file_iter(ca)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map_err(|error| unusable(error.to_string()))?;
                for certificate in certificates {
                    roots
                        .add(certificate)
                        .map_err(|error| unusable(error.to_string()))?;
                }
                let builder = WebPkiServerVerifier::builder_with_provider(
                    Arc::new(roots),
                    Arc::clone(&provider),
                );
                Proof::Authority(
                    builder
                        .build()
                        .map_err(|error| unusable(error.to_string()))?,
                )
            }
            (None, None) => Proof::None,
        };
        Ok(Self {
            provider,
            proof,
            refused: Mutex::default(),
        })
    }

    fn refused(&self) -> Option<(String, String)> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.clone()
    }

    fn refuse(&self, certificate: &CertificateDer<'_>, why: String) -> rustls::Error {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused = Some((pairs(certificate).join(":"), why));
        CertificateError::ApplicationVerificationFailure.into()
    }
}

/// Returns the SHA-256 of a certificate in pairs of capital digits.
fn pairs(certificate: &CertificateDer<'_>) -> Vec<String> {
    let hash = digest(&SHA256, certificate);
    hash.as_ref()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}

/// Reads a fingerprint.
fn digits(fingerprint: &str) -> Result<String, Error> {
    let plain: String = fingerprint
        .chars()
        .filter(|it| !matches!(it, ':' | ' '))
        .collect();
    match plain.len() == 64 && plain.chars().all(|it| it.is_ascii_hexdigit()) {
        true => Ok(plain.to_ascii_uppercase()),
        false => Err(Error::invalid(
            format!("{fingerprint:?} is not a fingerprint"),
            "give the 64 hexadecimal digits that `sandstone tls show` prints on the daemon's machine",
        )),
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.proof {
            Proof::Authority(verifier) => verifier
                .verify_server_cert(certificate, chain, name, ocsp, now)
                .map_err(|error| self.refuse(certificate, error.to_string())),
            Proof::Fingerprint(expected) if pairs(certificate).concat() == *expected => {
                Ok(ServerCertVerified::assertion())
            }
            Proof::Fingerprint(_) => Err(self.refuse(
                certificate,
                "it is not the one of --control-fingerprint".to_owned(),
            )),
            Proof::None => Err(self.refuse(
                certificate,
                "neither --control-ca nor --control-fingerprint says what to trust".to_owned(),
            )),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
