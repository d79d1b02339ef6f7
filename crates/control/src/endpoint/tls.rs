//! Endpoints for the certificate of the console.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoints;
use model::access::Password;

const TLS: &str = "/v1/tls";

endpoints! {
    "tls":
    /// Shows the certificate with which the console and the API serve TLS.
    SHOW = Viewer GET TLS "tls_show" ((), ()) -> TlsView;
    /// Gives the console a certificate and its key. They are in force at once, and kept. If they
    /// cannot be used, the present certificate stays.
    GIVE = Admin PUT TLS "tls_give" ((), GiveTls) -> TlsView;
    /// Makes a new certificate of this machine's own, in place of the present one.
    MAKE = Admin POST "/v1/tls/make" "tls_make" ((), ()) -> TlsView;
    /// Reads the files of the certificate again, and puts them in force.
    RELOAD = Admin POST "/v1/tls/reload" "tls_reload" ((), ()) -> TlsView;
}

/// Certificate of the console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TlsView {
    /// Address of the console for people.
    pub url: String,
    /// SHA-256 of the certificate, in pairs of hexadecimal digits. Clients that trust no authority
    /// compare it.
    pub fingerprint: String,
    /// Names and addresses in the certificate.
    pub names: Vec<String>,
    /// Time at which the certificate ends, in seconds since 1970.
    pub ends: u64,
    /// Origin of the certificate.
    pub source: TlsSource,
    /// Reason why newer files are not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Certificate with the chain above it, as PEM, for clients that are to trust it.
    pub pem: String,
}

/// Origin of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TlsSource {
    /// The daemon made it.
    Own,
    /// An administrator gave it to the daemon.
    Given,
    /// The options of the daemon name its files.
    Named,
}

impl TlsSource {
    /// Returns the word in listings and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Given => "given",
            Self::Named => "named",
        }
    }
}

/// Certificate to use, and its key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GiveTls {
    /// Certificate and the chain above it, as PEM.
    pub certificate: String,
    /// Private key as PEM.
    pub key: Password,
}
