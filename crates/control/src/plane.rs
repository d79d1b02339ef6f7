//! The plane: the state of a daemon that requests work on, and what all of them ask of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::answer::ConsoleStatus;
use super::endpoint::tls::TlsView;
use super::metrics::Readings;
use super::names_in_use::NamesInUse;
use super::snapshots::Snapshots;
use super::transaction::{Commit, Committed, Transactions};
use ::access::Access;
use ::alert::{Alerts, Journal};
use ::config::change::Change;
use ::history::History;
use model::{Config, Error};
use pools::Pools;

/// State that the routes work on.
#[derive(Debug)]
pub struct Plane {
    /// Configuration and its changes.
    pub transactions: Transactions,
    /// Pools of the daemon.
    pub pools: Arc<Pools>,
    /// Users, tokens and the audit log.
    pub access: Arc<Access>,
    /// Path of the state folder, as the status shows it.
    pub state_folder: PathBuf,
    /// Portals of a target that is made without any. An empty list means every address, at port
    /// 3260.
    pub default_portals: Vec<SocketAddr>,
    /// Time at which the daemon started.
    pub since: Instant,
    /// Figures of the data plane, second by second.
    pub snapshots: Snapshots,
    /// Tells about the console, once it is served.
    pub console: ConsoleTeller,
    /// Figures of the past, minute by minute and coarser.
    pub history: History,
    /// States as metrics tell them.
    pub readings: Readings,
    /// Events of the whole daemon.
    pub journal: Arc<Journal>,
    /// Alerts.
    pub alerts: Alerts,
    /// Health of this machine's disks, once they are asked for it.
    pub disk_health: OnceLock<smart::Rounds>,
    /// Benchmarks of logical units.
    pub benchmarks: benchmarks::Benchmarks,
    /// Names of units and volumes that are being made.
    pub making: NamesInUse,
}

impl Plane {
    pub(crate) fn config(&self) -> Arc<Config> {
        self.transactions.config()
    }

    /// Returns the generation of the configuration in force.
    pub(crate) fn generation(&self) -> u64 {
        self.config().generation
    }

    /// Returns the damage to files of the state folder, each with its remedy.
    pub(crate) fn notices(&self) -> Vec<String> {
        let mut notices: Vec<String> = self.transactions.notice().into_iter().collect();
        notices.extend(self.pools.notices());
        notices.extend(self.transactions.data_plane().notices());
        notices.extend(self.access.notices());
        notices.extend(self.history.notices());
        notices.extend(self.benchmarks.notices());
        notices
    }

    pub(crate) fn commit(&self, change: Change, how: Commit) -> Result<Committed, Error> {
        self.transactions.commit(&change, &how)
    }
}

pub(crate) type Shared = Arc<Plane>;

/// Certificate of the console, as its listener keeps it.
pub trait ConsoleCertificate: Send + Sync {
    /// Returns the certificate in force.
    fn view(&self) -> TlsView;

    /// Takes a certificate and its key as PEM, keeps them, and puts them in force.
    ///
    /// # Errors
    /// The certificate or the key cannot be used or kept. The present ones stay.
    fn give(&self, certificate: &str, key: &str) -> Result<TlsView, Error>;

    /// Makes a new certificate of this machine's own, and puts it in force.
    ///
    /// # Errors
    /// The options of the daemon name another, or the state folder cannot be written.
    fn make(&self) -> Result<TlsView, Error>;

    /// Reads the files of the certificate again.
    ///
    /// # Errors
    /// They cannot be used. The present certificate stays.
    fn reload(&self) -> Result<TlsView, Error>;
}

/// Knowledge of the console, set when the console is served.
#[derive(Default)]
pub struct ConsoleTeller {
    status: OnceLock<Box<dyn Fn() -> ConsoleStatus + Send + Sync>>,
    certificate: OnceLock<Box<dyn ConsoleCertificate>>,
}

impl std::fmt::Debug for ConsoleTeller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a console")
    }
}

impl ConsoleTeller {
    /// Sets the function that tells the status, and the certificate. The first ones stay.
    pub fn set(
        &self,
        told: impl Fn() -> ConsoleStatus + Send + Sync + 'static,
        certificate: impl ConsoleCertificate + 'static,
    ) {
        let _ = self.status.set(Box::new(told));
        let _ = self.certificate.set(Box::new(certificate));
    }

    pub(crate) fn get(&self) -> Option<&(dyn Fn() -> ConsoleStatus + Send + Sync)> {
        self.status.get().map(|told| &**told)
    }

    /// Returns the certificate; `None` if no console is served.
    pub(crate) fn certificate(&self) -> Option<&dyn ConsoleCertificate> {
        self.certificate.get().map(|it| &**it)
    }
}
