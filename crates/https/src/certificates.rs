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

/// Origin of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The machine made it.
    #[default]
    Own,
    /// An administrator gave it, and the state folder keeps it.
    Given,
    /// The options of the daemon name its files.
    Named,
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
    /// Origin of the certificate.
    pub source: Source,
    /// Reason why newer files are not in force.
    pub trouble: Option<String>,
}

/// Certificate in force, and where the next one comes from.
pub struct Certificates {
    state: PathBuf,
    /// Files that the daemon's options name.
    named: Option<Given>,
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
    /// Reads the named files, or those of the state folder: what an administrator gave, or else
    /// what this machine makes. The latter are made again if they are missing, damaged, about to
    /// end, or lack a name of this machine.
    ///
    /// # Errors
    /// The named files cannot be used, or the state folder cannot be written.
    pub fn open(state: &Path, named: Option<Given>, added_names: &[String]) -> Result<Self, Error> {
        let (source, files) = source(state, named.as_ref());
        let seen = changed(&files);
        let mut trouble = None;
        let now = match source {
            Source::Named => load(&files)?,
            Source::Given => match load(&files) {
                Ok(now) => now,
                // The console must open, or else nobody gives a better one.
                Err(error) => {
                    trouble = Some(error.to_string());
                    own(state, added_names)?
                }
            },
            Source::Own => own(state, added_names)?,
        };
        let source = trouble.as_ref().map_or(source, |_| Source::Own);
        let mut now = now.of(source);
        now.view.trouble = trouble;
        Ok(Self {
            state: state.to_owned(),
            named,
            added_names: added_names.to_vec(),
            now: RwLock::new(now),
            seen: Mutex::new(seen),
        })
    }

    /// Returns the certificate in force.
    pub fn view(&self) -> CertificateView {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        now.view.clone()
    }

    /// Returns the certificate in force, with the chain above it, as PEM.
    pub fn pem(&self) -> String {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let chain = now.key.cert.iter();
        let chain: Vec<pem::Pem> = chain
            .map(|of| pem::Pem::new("CERTIFICATE", of.to_vec()))
            .collect();
        let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        pem::encode_many_config(&chain, config)
    }

    /// Reports whether a request may name this host.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        let names = Names::of_this_machine(&self.added_names);
        // A given certificate may have names that this machine does not know, but clients use.
        let in_certificate = self.view().names;
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        names.is_own_host(host) || in_certificate.iter().any(|own| is_named(own, name))
    }

    /// Looks whether the files have changed, or the certificate is about to end, and puts a new one
    /// in force. If it cannot be used, the present one stays.
    pub fn look_again(&self) {
        let (source, files) = self.source();
        let files = changed(&files);
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let is_soon = source == Source::Own && self.view().ends < unix_now() + RENEWED;
            if *seen == files && !is_soon {
                return;
            }
            *seen = files;
        }
        if let Err(error) = self.reload() {
            tracing::warn!(%error, "the new certificate cannot be used; the present one stays");
            let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
            now.view.trouble = Some(error.to_string());
        }
    }

    /// Reads the files again, and puts them in force.
    ///
    /// # Errors
    /// They cannot be used. The present certificate stays.
    pub fn reload(&self) -> Result<CertificateView, Error> {
        let (source, files) = self.source();
        let new = match source {
            Source::Named | Source::Given => load(&files)?,
            Source::Own => own(&self.state, &self.added_names)?,
        };
        Ok(self.put_in_force(new.of(source)))
    }

    /// Makes a new certificate of this machine's own, and puts it in force. One that was given is
    /// forgotten.
    ///
    /// # Errors
    /// The daemon's options name files, or the state folder cannot be written.
    pub fn make(&self) -> Result<CertificateView, Error> {
        self.require_choice()?;
        let files = OwnFiles::of(&self.state);
        let names = Names::of_this_machine(&self.added_names);
        files.make(&names, clock(unix_now()))?;
        let new = load(&files)?;
        OwnFiles::given(&self.state).remove()?;
        Ok(self.put_in_force(new.of(Source::Own)))
    }

    /// Takes a certificate and its key, as PEM, and puts it in force.
    ///
    /// # Errors
    /// They cannot be used, the options name others, or the state folder cannot be written.
    pub fn give(&self, certificate: &str, key: &str) -> Result<CertificateView, Error> {
        self.require_choice()?;
        let new = in_force(
            certificate.as_bytes(),
            key.as_bytes(),
            "the certificate",
            "the key",
        )?;
        if new.view.ends <= unix_now() {
            return Err(Error::invalid(
                "the certificate has ended",
                "give one that is valid now; or let this machine make one: sandstone tls make",
            ));
        }
        OwnFiles::given(&self.state).keep(certificate, key)?;
        Ok(self.put_in_force(new.of(Source::Given)))
    }

    fn source(&self) -> (Source, OwnFiles) {
        source(&self.state, self.named.as_ref())
    }

    /// Refuses a choice where the options of the daemon have made it.
    fn require_choice(&self) -> Result<(), Error> {
        let Some(named) = &self.named else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::Refused,
            format!(
                "the daemon's options name the certificate: {}",
                named.certificate.display()
            ),
            "replace that file, which is read again; or start the daemon without --console-cert",
        ))
    }

    fn put_in_force(&self, new: InForce) -> CertificateView {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = changed(&self.source().1);
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        if new.view.fingerprint != now.view.fingerprint {
            let fingerprint = &new.view.fingerprint;
            tracing::info!(fingerprint, "a new certificate is in force");
        }
        let view = new.view.clone();
        *now = new;
        view
    }
}

impl InForce {
    fn of(mut self, source: Source) -> Self {
        self.view.source = source;
        self
    }
}

/// Returns the files of the certificate, and where they come from.
fn source(state: &Path, named: Option<&Given>) -> (Source, OwnFiles) {
    if let Some(named) = named {
        let files = OwnFiles {
            certificate: named.certificate.clone(),
            key: named.key.clone(),
        };
        return (Source::Named, files);
    }
    let given = OwnFiles::given(state);
    match given.certificate.exists() {
        true => (Source::Given, given),
        false => (Source::Own, OwnFiles::of(state)),
    }
}

/// Reports whether a name of a certificate is that of a host. `*` stands for one label.
fn is_named(own: &str, host: &str) -> bool {
    let zone = own.strip_prefix("*.");
    let is_in = |zone: &str| {
        host.split_once('.')
            .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(zone))
    };
    own.eq_ignore_ascii_case(host) || zone.is_some_and(is_in)
}

fn unix_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

fn changed(files: &OwnFiles) -> Option<(SystemTime, SystemTime)> {
    let of = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    Some((of(&files.certificate)?, of(&files.key)?))
}

/// Returns the certificate of this machine's own.
fn own(state: &Path, added_names: &[String]) -> Result<InForce, Error> {
    let names = Names::of_this_machine(added_names);
    own_for(&OwnFiles::of(state), &names, unix_now())
}

fn clock(unix: u64) -> OffsetDateTime {
    let unix = i64::try_from(unix).unwrap_or(0);
    OffsetDateTime::from_unix_timestamp(unix).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Returns our own certificate, made anew if the stored one does not serve any longer.
fn own_for(files: &OwnFiles, names: &Names, now: u64) -> Result<InForce, Error> {
    if let Ok(found) = load(files) {
        let held = names_of(&found.view);
        if names.are_in(&held) && found.view.ends >= now + RENEWED {
            return Ok(found);
        }
    }
    files.make(names, clock(now))?;
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
    let read = |path: &Path| {
        let bytes = std::fs::read(path);
        bytes.map_err(|error| unusable(&path.display(), &error))
    };
    let (certificate, key) = (&files.certificate, &files.key);
    let (places, bytes) = (
        (certificate.display(), key.display()),
        (read(certificate)?, read(key)?),
    );
    in_force(
        &bytes.0,
        &bytes.1,
        &places.0.to_string(),
        &places.1.to_string(),
    )
}

fn unusable(place: &dyn fmt::Display, why: &dyn fmt::Display) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("{place} cannot be used: {why}"),
        "give a certificate and its private key as PEM",
    )
}

/// Reads a certificate with the chain above it, and its key.
fn in_force(
    certificate: &[u8],
    key: &[u8],
    place: &str,
    place_of_key: &str,
) -> Result<InForce, Error> {
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(&place, &error))?;
    let first = chain
        .first()
        .ok_or_else(|| unusable(&place, &"it holds no certificate"))?;
    let view = view(first).map_err(|error| unusable(&place, &error))?;
    let private =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable(&place_of_key, &error))?;
    let provider = rustls::crypto::ring::default_provider();
    // This also finds a key that does not belong to the certificate.
    let certified = CertifiedKey::from_der(chain, private, &provider)
        .map_err(|error| unusable(&place_of_key, &error))?;
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
        source: Source::Own,
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
        assert_eq!(first.source, Source::Own);
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
            own_for(&files, &names(all), now)
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
    fn a_certificate_is_given_kept_and_replaced_by_one_of_our_own() {
        let (state, other) = (folder(), folder());
        let files = OwnFiles::of(other.path());
        files
            .make(&names(&["one.example"]), clock(unix_now()))
            .expect("made");
        let (certificate, key) = (read(&files.certificate), read(&files.key));
        let certificates = Certificates::open(state.path(), None, &[]).expect("made");
        let first = certificates.view();
        let wrong = certificates.give(&certificate, &certificate);
        assert!(
            wrong
                .expect_err("it is no key")
                .message
                .contains("the key cannot be used")
        );
        let foreign = certificates.give(&read(&OwnFiles::of(state.path()).certificate), &key);
        foreign.expect_err("the key belongs to another certificate");
        assert_eq!(certificates.view(), first);
        let given = certificates
            .give(&certificate, &key)
            .expect("they are right");
        assert_eq!(
            (given.source, &given),
            (Source::Given, &certificates.view())
        );
        assert_eq!(certificates.pem(), certificate);
        let again = Certificates::open(state.path(), None, &[]).expect("read");
        assert_eq!(again.view(), given);
        let made = again.make().expect("made");
        assert_eq!(made.source, Source::Own);
        assert_ne!(made.fingerprint, first.fingerprint);
        assert_eq!(
            Certificates::open(state.path(), None, &[])
                .expect("read")
                .view(),
            made
        );
        let old = files.clone();
        old.make(&names(&["old.example"]), clock(1_000_000_000))
            .expect("made");
        let ended = again.give(&read(&old.certificate), &read(&old.key));
        assert!(ended.expect_err("it is over").message.contains("has ended"));
    }

    #[test]
    fn a_given_certificate_that_is_damaged_does_not_close_the_console() {
        let state = folder();
        let given = OwnFiles::given(state.path());
        given.keep("damaged", "damaged").expect("kept");
        let certificates = Certificates::open(state.path(), None, &[]).expect("opens");
        let view = certificates.view();
        assert_eq!(view.source, Source::Own);
        assert!(view.trouble.is_some_and(|it| it.contains("cannot be used")));
        certificates.reload().expect_err("it is still damaged");
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).expect("text")
    }

    #[test]
    fn a_wildcard_stands_for_one_label() {
        for own in ["san1.example", "SAN1.Example"] {
            assert!(is_named("*.example", own), "{own}");
        }
        for foreign in ["a.san1.example", "example", ".example", "san1.example.evil"] {
            assert!(!is_named("*.example", foreign), "{foreign}");
        }
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
            (first.names.as_slice(), first.source),
            (&["one.example".to_owned()][..], Source::Named)
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
