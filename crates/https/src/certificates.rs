//! The certificate in force. Files that an administrator gave are read again when they change. A
//! certificate of this machine's own is made again before it ends, or for new names of the machine.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use ring::digest::{SHA256, digest};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::names::Names;
use super::own::OwnFiles;
use model::{Error, ErrorKind};

/// Seconds before its end at which a certificate of our own is made anew.
const RENEWED: u64 = 30 * 86_400;

/// Files that an administrator gives.
#[derive(Clone, Debug)]
pub struct Given {
    /// Certificate and the chain above it, as PEM.
    pub certificate: PathBuf,
    /// Private key as PEM.
    pub key: PathBuf,
}

/// A certificate, as administrators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateView {
    /// SHA-256 of the certificate, in pairs of hexadecimal digits.
    pub fingerprint: String,
    /// Names and addresses in the certificate.
    pub names: Vec<String>,
    /// Time at which the certificate ends, in seconds since 1970.
    pub ends: u64,
    /// Whether this machine made the certificate.
    pub is_own: bool,
    /// Reason why newer files are not in force.
    pub trouble: Option<String>,
}

/// Certificate in force, and where the next one comes from.
pub struct Certificates {
    files: OwnFiles,
    is_given: bool,
    added_names: Vec<String>,
    now: RwLock<InForce>,
    /// Times of change of the files when they were last read.
    seen: Mutex<Option<(SystemTime, SystemTime)>>,
}

#[derive(Clone)]
struct InForce {
    key: Arc<CertifiedKey>,
    view: CertificateView,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "certificate {}", self.view().fingerprint)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&now.key))
    }
}

impl Certificates {
    /// Reads the given files, or those of the state folder. The latter are made if they are
    /// missing, damaged, about to end, or lack a name of this machine.
    ///
    /// # Errors
    /// The given files cannot be used, or the state folder cannot be written.
    pub fn open(state: &Path, given: Option<Given>, added_names: &[String]) -> Result<Self, Error> {
        let is_given = given.is_some();
        let files = match given {
            Some(given) => OwnFiles {
                certificate: given.certificate,
                key: given.key,
            },
            None => OwnFiles::of(state),
        };
        let seen = changed(&files);
        let now = match is_given {
            true => load(&files)?,
            false => own(&files, &Names::of_this_machine(added_names), unix_now())?,
        };
        Ok(Self {
            files,
            is_given,
            added_names: added_names.to_vec(),
            now: RwLock::new(now.owned(!is_given)),
            seen: Mutex::new(seen),
        })
    }

    /// Returns the certificate in force.
    pub fn view(&self) -> CertificateView {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        now.view.clone()
    }

    /// Reports whether a request may name this host.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        let names = Names::of_this_machine(&self.added_names);
        // A given certificate may have names that this machine does not know, but clients use.
        let in_certificate = self.view().names;
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        names.is_own_host(host)
            || in_certificate
                .iter()
                .any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Looks whether the files have changed, or the certificate is about to end, and puts a new one
    /// in force. If it cannot be used, the present one stays.
    pub fn look_again(&self) {
        let files = changed(&self.files);
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let is_soon = !self.is_given && self.view().ends < unix_now() + RENEWED;
            if *seen == files && !is_soon {
                return;
            }
            *seen = files;
        }
        let new = match self.is_given {
            true => load(&self.files),
            false => own(
                &self.files,
                &Names::of_this_machine(&self.added_names),
                unix_now(),
            ),
        };
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        match new {
            Ok(new) => {
                let new = new.owned(!self.is_given);
                if new.view.fingerprint != now.view.fingerprint {
                    tracing::info!(
                        fingerprint = new.view.fingerprint,
                        "a new certificate is in force"
                    );
                }
                *now = new;
            }
            Err(error) => {
                tracing::warn!(%error, "the new certificate cannot be used; the present one stays");
                now.view.trouble = Some(error.to_string());
            }
        }
    }
}

impl InForce {
    fn owned(mut self, is_own: bool) -> Self {
        self.view.is_own = is_own;
        self
    }
}

fn unix_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

fn changed(files: &OwnFiles) -> Option<(SystemTime, SystemTime)> {
    let of = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    Some((of(&files.certificate)?, of(&files.key)?))
}

/// Returns our own certificate, made anew if the stored one does not serve any longer.
fn own(files: &OwnFiles, names: &Names, now: u64) -> Result<InForce, Error> {
    if let Ok(found) = load(files) {
        let held = names_of(&found.view);
        if names.are_in(&held) && found.view.ends >= now + RENEWED {
            return Ok(found);
        }
    }
    let now = i64::try_from(now).unwrap_or(0);
    let now = OffsetDateTime::from_unix_timestamp(now).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    files.make(names, now)?;
    load(files)
}

fn names_of(view: &CertificateView) -> Names {
    let mut names = Names::default();
    for name in &view.names {
        match name.parse::<IpAddr>() {
            Ok(address) => names.addresses.insert(address),
            Err(_) => names.names.insert(name.clone()),
        };
    }
    names
}

fn load(files: &OwnFiles) -> Result<InForce, Error> {
    let (certificate, key) = (&files.certificate, &files.key);
    let unusable = |path: &Path, why: &dyn fmt::Display| {
        Error::new(
            ErrorKind::Invalid,
            format!("{} cannot be used: {why}", path.display()),
            "give a certificate and its private key as PEM",
        )
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(certificate, &error))?;
    let first = chain
        .first()
        .ok_or_else(|| unusable(certificate, &"it holds no certificate"))?;
    let view = view(first).map_err(|error| unusable(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    let provider = rustls::crypto::ring::default_provider();
    // This also finds a key that does not belong to the certificate.
    let certified =
        CertifiedKey::from_der(chain, private, &provider).map_err(|error| unusable(key, &error))?;
    Ok(InForce {
        key: Arc::new(certified),
        view,
    })
}

fn view(certificate: &CertificateDer<'_>) -> Result<CertificateView, x509_cert::der::Error> {
    let parsed = Certificate::from_der(certificate)?;
    let tbs = parsed.tbs_certificate();
    let ends = tbs.validity().not_after.to_unix_duration().as_secs();
    let mut names = Vec::new();
    if let Some((_, SubjectAltName(all))) = tbs.get_extension::<SubjectAltName>()? {
        names.extend(all.iter().filter_map(name_of));
    }
    let hash = digest(&SHA256, certificate);
    let pairs: Vec<String> = hash
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    Ok(CertificateView {
        fingerprint: pairs.join(":"),
        names,
        ends,
        is_own: false,
        trouble: None,
    })
}

fn name_of(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            let v6 = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
            v4.or(v6).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn names(all: &[&str]) -> Names {
        let view = CertificateView {
            names: all.iter().map(|&name| name.to_owned()).collect(),
            ..CertificateView::default()
        };
        names_of(&view)
    }

    #[test]
    fn an_own_certificate_is_made_once_and_has_all_names() {
        let state = folder();
        let open = || Certificates::open(state.path(), None, &["san.example".to_owned()]);
        let first = open().expect("made").view();
        assert!(first.is_own);
        for name in ["localhost", "san.example", "127.0.0.1"] {
            assert!(first.names.iter().any(|it| it == name), "{name}: {first:?}");
        }
        assert_eq!(first.fingerprint.len(), 32 * 3 - 1);
        assert_eq!(open().expect("read").view(), first);
        use std::os::unix::fs::PermissionsExt as _;
        let key = fs::metadata(state.path().join("tls/key.pem")).expect("is there");
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_own_certificate_is_made_anew_for_new_names_before_its_end_and_if_damaged() {
        let state = folder();
        let files = OwnFiles::of(state.path());
        let now = unix_now();
        let of = |all: &[&str], now| {
            own(&files, &names(all), now)
                .expect("made")
                .view
                .fingerprint
        };
        let first = of(&["san1", "192.0.2.1"], now);
        assert_eq!(of(&["san1"], now), first, "fewer names are served too");
        let second = of(&["san1", "192.0.2.2"], now);
        assert_ne!(second, first);
        let late = now + 824 * 86_400 - RENEWED;
        assert_eq!(of(&["san1"], late - 10), second);
        let third = of(&["san1"], late + 10);
        assert_ne!(third, second);
        fs::write(&files.key, "damaged").expect("written");
        assert_ne!(of(&["san1"], late + 20), third);
    }

    #[test]
    fn given_files_come_into_force_when_they_change_and_only_if_they_are_right() {
        let (given, other) = (folder(), folder());
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).expect("a time");
        let files = OwnFiles::of(given.path());
        files.make(&names(&["one.example"]), now).expect("made");
        let open = || {
            let given = Given {
                certificate: files.certificate.clone(),
                key: files.key.clone(),
            };
            Certificates::open(given_state(), Some(given), &[])
        };
        fn given_state() -> &'static Path {
            Path::new("/nonexistent")
        }
        let certificates = open().expect("read");
        let first = certificates.view();
        assert_eq!(
            (first.names.as_slice(), first.is_own),
            (&["one.example".to_owned()][..], false)
        );
        assert!(certificates.is_own_host("ONE.example:8443"));
        assert!(!certificates.is_own_host("two.example:8443"));
        certificates.look_again();
        assert_eq!(certificates.view(), first);
        let foreign = OwnFiles::of(other.path());
        foreign.make(&names(&["two.example"]), now).expect("made");
        // The certificate changes before its key.
        fs::copy(&foreign.certificate, &files.certificate).expect("copied");
        certificates.look_again();
        let view = certificates.view();
        assert_eq!(view.fingerprint, first.fingerprint, "the present one stays");
        assert!(view.trouble.is_some());
        assert!(
            open()
                .expect_err("they do not belong together")
                .message
                .contains("cannot be used")
        );
        fs::copy(&foreign.key, &files.key).expect("copied");
        certificates.look_again();
        let view = certificates.view();
        assert_eq!(
            (view.names.as_slice(), view.trouble),
            (&["two.example".to_owned()][..], None)
        );
    }
}
