//! `user`, `token`, `role`, `tls` and `audit`: who may do what, and who did what.

mod audit;
mod role;
mod tls;
mod token;
mod user;

pub(super) use audit::{AuditVerb, run as audit};
pub(super) use role::{RoleVerb, run as role};
pub(super) use tls::{TlsVerb, run as tls};
pub(super) use token::{TokenVerb, run as token};
pub(super) use user::{UserVerb, run as user};

use crate::print::table::Numbers;

/// Returns a time for people, or in seconds for programs.
fn time(unix: u64, numbers: Numbers) -> String {
    match numbers {
        Numbers::Exact => unix.to_string(),
        Numbers::Short => model::date::utc(unix),
    }
}

/// Returns a time that may be absent.
fn time_or_dash(unix: Option<u64>, numbers: Numbers) -> String {
    unix.map_or("-".to_owned(), |unix| time(unix, numbers))
}
