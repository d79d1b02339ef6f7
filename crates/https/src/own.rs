//! A certificate that this machine makes for itself. Browsers ask once whether to trust it; its
//! fingerprint, which the daemon prints, tells it from a forged one.

use std::fs;
use std::io::ErrorKind as ErrorKindOfIo;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use state_folder::write_private;
use time::{Duration, OffsetDateTime};

use super::names::Names;
use model::{Error, ErrorKind};

/// Days of a certificate. Some clients refuse one that lasts longer.
const DAYS: i64 = 825;

/// Files of the certificate in a state folder.
#[derive(Clone, Debug)]
pub(crate) struct OwnFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl OwnFiles {
    pub(crate) fn of(state: &Path) -> Self {
        let folder = state.join("tls");
        Self {
            certificate: folder.join("cert.pem"),
            key: folder.join("key.pem"),
        }
    }

    /// Returns the files of a certificate that an administrator gave to the daemon.
    pub(crate) fn given(state: &Path) -> Self {
        let folder = state.join("tls");
        Self {
            certificate: folder.join("given-cert.pem"),
            key: folder.join("given-key.pem"),
        }
    }

    /// Makes a certificate for these names, and stores it with its key.
    ///
    /// # Order of writes
    /// The key is written before the certificate. A power cut between the two leaves a pair that
    /// does not belong together, which the next start finds and replaces.
    pub(crate) fn make(&self, names: &Names, now: OffsetDateTime) -> Result<(), Error> {
        let (certificate, key) = make(names, now).map_err(|error| failed("made", &error))?;
        self.keep(&certificate, &key)
    }

    /// Stores a certificate and its key, the key first.
    pub(crate) fn keep(&self, certificate: &str, key: &str) -> Result<(), Error> {
        let folder = self.key.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| failed("stored", &error))?;
        write_private(&self.key, key.as_bytes(), true)
            .and_then(|()| write_private(&self.certificate, certificate.as_bytes(), true))
            .map_err(|error| failed("stored", &error))
    }

    /// Removes the files, the certificate first, so that no certificate without a key is found.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        for path in [&self.certificate, &self.key] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKindOfIo::NotFound => {
                    return Err(failed("removed", &error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Storage,
        format!("the console's certificate could not be {what}: {error}"),
        "free space in the state folder, or give a certificate: --console-cert FILE --console-key FILE",
    )
}

/// Returns a certificate and its key as PEM.
fn make(names: &Names, now: OffsetDateTime) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new(names.list())?;
    let mut subject = DistinguishedName::new();
    let common = names.names.iter().find(|name| *name != "localhost");
    let common = common.map_or("localhost", String::as_str);
    subject.push(DnType::CommonName, format!("Sandstone on {common}"));
    params.distinguished_name = subject;
    // The clock of a client may be behind.
    params.not_before = now - Duration::days(1);
    params.not_after = now + Duration::days(DAYS - 1);
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
