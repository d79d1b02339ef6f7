//! The volume beneath the measured unit, found at the daemon that serves it.

use crate::Connection;
use bench::reached::Unit;
use control::Client;
use control::answer::UnitView;
use control::endpoint::volume::Listed;
use control::endpoint::{lu, volume};
use model::pool::dataset::DatasetView;
use model::{Error, ErrorKind};

/// Logical unit and its volume.
pub(super) struct Beneath {
    pub(super) client: Client,
    pub(super) unit: UnitView,
    pub(super) volume: DatasetView,
}

impl Beneath {
    /// Finds the unit and its volume by the NAA of the measured unit. `words` are the knobs that
    /// need the volume.
    pub(super) fn of(
        unit: Option<&Unit>,
        words: &str,
        connection: &Connection,
    ) -> Result<Self, Error> {
        let client = connection.client();
        let naa = unit.map_or("", |unit| unit.name.as_str());
        let elsewhere = "name the state folder of the daemon that serves the volume (--state or \
                         SANDSTONE_STATE); on another array, change the setting there, and compare runs of \
                         bench run --save";
        let units: Vec<UnitView> = client.call(&lu::LIST, &[]).map_err(|error| {
            let message = format!("{words}: the daemon of the volume cannot be reached: {error}");
            Error::new(ErrorKind::Unavailable, message, elsewhere)
        })?;
        let is_it = |view: &UnitView| {
            let digits = naa.strip_prefix("naa.");
            digits.is_some_and(|digits| digits.eq_ignore_ascii_case(&view.spec.naa))
        };
        let Some(unit) = units.into_iter().find(is_it) else {
            let message = format!(
                "{words}: the daemon at {} serves no unit {naa}",
                client.address()
            );
            return Err(Error::not_found(message, elsewhere));
        };
        let no_volume = || {
            Error::invalid(
                format!("{words}: the unit {} is not on a volume", unit.spec.name),
                "measure a unit on a volume of a pool: sandstone lu create NAME --size 10G makes one",
            )
        };
        let name = unit.spec.backend.writable_volume().ok_or_else(no_volume)?;
        let datasets: Vec<DatasetView> = client.ask(&volume::LIST, &[], &Listed::default(), &())?;
        let volume = datasets.into_iter().find(|dataset| dataset.name == name);
        let volume = volume.ok_or_else(no_volume)?;
        Ok(Self {
            client,
            unit,
            volume,
        })
    }
}
