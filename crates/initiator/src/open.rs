//! Opens a device from an `iscsi://` URL, or from a configured device's name.

use std::sync::Arc;
use std::time::Duration;

use super::adapter::{Adapter, AdapterError};
use super::device::MultipathDevice;
use super::named::{NameError, NamedDevice};
use super::own_name::initiator_name;
use block::Lane;
use model::initiator::InitiatorSpec;
use model::initiator::settings::{DeviceSettings, SessionSettings};
use model::initiator::url::{LunUrl, UrlError};

/// Time for all sessions of a URL. After it, the sessions that are up must suffice.
const LIMIT: Duration = Duration::from_secs(10);

/// Reason why a URL could not be opened.
#[derive(Debug)]
pub enum OpenUrlError {
    /// The URL is malformed.
    Url(UrlError),
    /// The name or an option is malformed.
    Name(NameError),
    /// The target did not give the device.
    Adapter(AdapterError),
}

impl std::fmt::Display for OpenUrlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url(error) => error.fmt(f),
            Self::Name(error) => error.fmt(f),
            Self::Adapter(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenUrlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Url(error) => Some(error),
            Self::Name(error) => Some(error),
            Self::Adapter(error) => Some(error),
        }
    }
}

/// Logs in and opens the logical unit. The sessions live in `lane` from then on. Blocks until every
/// session is up or failed once.
///
/// # Errors
/// The URL is malformed, no session was established, or the target does not show the unit.
pub fn open_url(url: &str, lane: &mut Lane) -> Result<Arc<MultipathDevice>, OpenUrlError> {
    let session = SessionSettings::new(initiator_name());
    let url = LunUrl::parse(url, session, DeviceSettings::default()).map_err(OpenUrlError::Url)?;
    open(url, lane).map_err(OpenUrlError::Adapter)
}

/// Logs in and opens the logical unit, like [`open_url`] but from parsed settings.
///
/// # Errors
/// No session was established, or the target does not show the unit.
pub fn open(url: LunUrl, lane: &mut Lane) -> Result<Arc<MultipathDevice>, AdapterError> {
    let adapter = Adapter::new(lane, url.device)?;
    let (name, lun) = (url.target.name.clone(), url.target.lun);
    let target = adapter.log_in(url.target)?;
    adapter.settle(target, LIMIT, lane)?;
    let device = adapter.device(target, lun);
    device.map(Arc::new).ok_or(AdapterError::NoUnit {
        target: name,
        lun,
        why: None,
    })
}

/// Logs in to the targets of a configuration and opens the device of this name, which may have
/// options.
///
/// # Errors
/// The name or an option is malformed, no session was established, or none shows the device.
pub fn open_named(
    text: &str,
    spec: &InitiatorSpec,
    lane: &mut Lane,
) -> Result<Arc<MultipathDevice>, OpenUrlError> {
    let named = NamedDevice::parse(text, spec).map_err(OpenUrlError::Name)?;
    let adapter = Adapter::new(lane, named.device).map_err(OpenUrlError::Adapter)?;
    let begun = named
        .targets
        .into_iter()
        .map(|target| adapter.log_in(target));
    // A target without a login does not matter if another target leads to the device.
    let (targets, mut failed): (Vec<_>, Vec<_>) = begun.partition(Result::is_ok);
    for target in targets.into_iter().flatten() {
        failed.extend(adapter.settle(target, LIMIT, lane).err().map(Err));
    }
    if let Some(device) = adapter.device_called(&named.name) {
        return Ok(Arc::new(device));
    }
    let first = failed.into_iter().find_map(Result::err);
    Err(OpenUrlError::Adapter(
        first.unwrap_or(AdapterError::NoDevice { name: named.name }),
    ))
}
