//! The console of a daemon: its listener with TLS, its certificate, and the link of a first start.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use cli::serve::{CONSOLE_PORT, ConsoleAddress};
use control::answer::ConsoleStatus;
use control::endpoint::tls::{TlsSource, TlsView};
use control::handlers::{door, router};
use control::{ConsoleCertificate, Plane};
use https::{CertificateView, Certificates, Given, HttpsServer, Source, address_for_people};
use model::Error;
use process::log::EACH;
use state_folder::write_private;

/// Options of the console.
#[derive(Clone, Debug, Default)]
pub struct ConsoleOptions {
    /// Address to listen at. `None` is the port of the console at all addresses, if it is free.
    pub address: Option<ConsoleAddress>,
    /// Certificate of the administrator; `None` for one that this machine makes.
    pub given: Option<Given>,
    /// Further names under which people reach the console.
    pub names: Vec<String>,
    /// Whether a link logs in, at this machine alone.
    pub is_demo: bool,
}

impl ConsoleOptions {
    /// Returns the options of a daemon without a console.
    pub fn off() -> Self {
        Self {
            address: Some(ConsoleAddress::Off),
            ..Self::default()
        }
    }

    /// Returns the options of a demo's console: at the loopback, at any free port.
    pub fn demo() -> Self {
        Self {
            is_demo: true,
            ..Self::default()
        }
    }
}

/// Console that is served. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Console {
    server: HttpsServer,
    certificates: Arc<Certificates>,
}

impl Console {
    /// Serves the console. Where nobody chose its address and it is taken, there is none: storage
    /// must not wait for a port.
    ///
    /// # Errors
    /// The chosen address or certificate cannot be used.
    pub(crate) fn start(
        options: &ConsoleOptions,
        plane: &Arc<Plane>,
    ) -> Result<Option<Self>, Error> {
        let (address, is_chosen) = match options.address {
            Some(ConsoleAddress::Off) => return Ok(None),
            Some(ConsoleAddress::At(address)) => (address, true),
            None if options.is_demo => return Self::start_demo(options, plane).map(Some),
            None => (
                SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), CONSOLE_PORT),
                false,
            ),
        };
        match Self::listen(address, options, plane) {
            Ok(console) => {
                console.tell_first_link(plane);
                console.show_in_status(plane);
                Ok(Some(console))
            }
            Err(error) if !is_chosen && options.given.is_none() => {
                tracing::warn!(%error, "the console is not served: {}", error.next);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Serves the console of a demo at the usual port, or at a free one.
    fn start_demo(options: &ConsoleOptions, plane: &Arc<Plane>) -> Result<Self, Error> {
        let at = |port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let usual = Self::listen(at(CONSOLE_PORT), options, plane);
        let console = usual.or_else(|_| Self::listen(at(0), options, plane))?;
        console.show_in_status(plane);
        Ok(console)
    }

    fn listen(
        address: SocketAddr,
        options: &ConsoleOptions,
        plane: &Arc<Plane>,
    ) -> Result<Self, Error> {
        let given = options.given.clone();
        let certificates = Certificates::open(&plane.state_folder, given, &options.names)?;
        let certificates = Arc::new(certificates);
        let door = Arc::new(door(Arc::clone(plane)));
        let router = console::with_api(door, router(Arc::clone(plane)));
        let server = HttpsServer::start(address, Arc::clone(&certificates), router)?;
        Ok(Self {
            server,
            certificates,
        })
    }

    /// Returns the address for people.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", address_for_people(self.server.address()))
    }

    /// Returns the certificate in force.
    pub(crate) fn certificate(&self) -> CertificateView {
        self.certificates.view()
    }

    /// Shows the console in the status of the daemon.
    fn show_in_status(&self, plane: &Arc<Plane>) {
        let (url, certificates) = (self.url(), Arc::clone(&self.certificates));
        let access = Arc::clone(&plane.access);
        let certificate = Tls {
            url: url.clone(),
            certificates: Arc::clone(&certificates),
        };
        let told = move || {
            let view = certificates.view();
            let waits = access.waits_for_first();
            let file = || access.first_link_file().display().to_string();
            ConsoleStatus {
                url: url.clone(),
                fingerprint: view.fingerprint,
                names: view.names,
                ends: view.ends,
                is_own: view.source == Source::Own,
                first_login: waits.then(file),
                trouble: view.trouble,
            }
        };
        plane.console.set(told, certificate);
    }

    /// Logs and stores the link at which the first admin is added, as long as there is no user.
    fn tell_first_link(&self, plane: &Plane) {
        let Some(secret) = plane.access.first_link() else {
            return;
        };
        let link = format!("{}/first/{secret}", self.url());
        let file = plane.access.first_link_file();
        if let Err(error) = write_private(&file, format!("{link}\n").as_bytes(), true) {
            tracing::warn!(file = %file.display(), %error, "the link of the first start could not be stored");
        }
        tracing::info!(target: EACH, link, "no user can log in at the console yet: open this link once");
    }
}

/// Certificate of the console, as requests see and change it.
struct Tls {
    url: String,
    certificates: Arc<Certificates>,
}

impl Tls {
    fn shown(&self, view: CertificateView) -> TlsView {
        TlsView {
            url: self.url.clone(),
            fingerprint: view.fingerprint,
            names: view.names,
            ends: view.ends,
            source: match view.source {
                Source::Own => TlsSource::Own,
                Source::Given => TlsSource::Given,
                Source::Named => TlsSource::Named,
            },
            trouble: view.trouble,
            pem: self.certificates.pem(),
        }
    }
}

impl ConsoleCertificate for Tls {
    fn view(&self) -> TlsView {
        self.shown(self.certificates.view())
    }

    fn give(&self, certificate: &str, key: &str) -> Result<TlsView, Error> {
        let view = self.certificates.give(certificate, key)?;
        Ok(self.shown(view))
    }

    fn make(&self) -> Result<TlsView, Error> {
        Ok(self.shown(self.certificates.make()?))
    }

    fn reload(&self) -> Result<TlsView, Error> {
        Ok(self.shown(self.certificates.reload()?))
    }
}
