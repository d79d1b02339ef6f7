//! The volume beneath the measured unit, whose properties a sweep turns: found at the daemon that serves it.

use std::collections::{BTreeMap, BTreeSet};

use hyper::Method;

use crate::bench::reached::Unit;
use crate::cli::Connection;
use crate::config::model::BackendSpec;
use crate::config::{Error, ErrorKind};
use crate::control::Client;
use crate::control::answer::UnitView;
use crate::pool::dataset::{DatasetChange, DatasetView};

/// A volume, and how it was.
pub(super) struct Volume {
    client: Client,
    name: String,
    before: Vec<DatasetChange>,
}

impl Volume {
    /// The volume of a unit, by its NAA, with what these properties of it are now.
    pub(super) fn of(
        unit: Option<&Unit>,
        properties: &BTreeSet<&String>,
        connection: &Connection,
    ) -> Result<Self, Error> {
        let client = connection.client();
        let naa = unit.map_or("", |unit| unit.name.as_str());
        let words: Vec<&str> = properties.iter().map(|name| name.as_str()).collect();
        let words = words.join(", ");
        let elsewhere = "name the state folder of the daemon that serves it (--state, or SANDSTONE_STATE); for another \
                         array, set it there between runs of bench run --save and compare them";
        let units: Vec<UnitView> = client.get("/v1/lus").map_err(|error| {
            let message = format!("{words}: the volume's daemon is not found: {error}");
            Error::new(ErrorKind::Unavailable, message, elsewhere)
        })?;
        let is_it = |view: &&UnitView| {
            let digits = naa.strip_prefix("naa.");
            digits.is_some_and(|digits| digits.eq_ignore_ascii_case(&view.spec.naa))
        };
        let Some(view) = units.iter().find(is_it) else {
            let message = format!(
                "{words}: the daemon at {} serves no unit {naa}",
                client.address()
            );
            return Err(Error::not_found(message, elsewhere));
        };
        let name = match &view.spec.backend {
            BackendSpec::Volume { volume } if !view.spec.backend.is_snapshot() => volume.clone(),
            _ => {
                return Err(Error::invalid(
                    format!("{words}: the unit {} lies on no volume", view.spec.name),
                    "measure a unit on a volume of a pool: sandstone lu create NAME --size 10G makes one",
                ));
            }
        };
        let datasets: Vec<DatasetView> = client.get("/v1/volumes")?;
        let dataset = datasets.iter().find(|dataset| dataset.name == name);
        let views = dataset.map_or(&[][..], |dataset| &dataset.properties);
        let views = views.iter().filter(|view| properties.contains(&view.name));
        let before = views.map(|view| {
            let source = view.source.as_str();
            match source == "default" || source.starts_with("inherited") {
                true => DatasetChange::Inherit {
                    name: name.clone(),
                    property: view.name.clone(),
                    recursive: false,
                },
                false => set(&name, [(view.name.clone(), view.value.clone())].into()),
            }
        });
        Ok(Self {
            before: before.collect(),
            client,
            name,
        })
    }

    /// Sets properties.
    pub(super) fn set(&self, properties: &BTreeMap<String, String>) -> Result<(), Error> {
        self.change(&set(&self.name, properties.clone()))
    }

    /// Makes everything as it was.
    pub(super) fn put_back(&self) -> Result<(), Error> {
        let put_back = self.before.iter().map(|change| self.change(change));
        // One that cannot be put back does not keep the others as they are.
        let failed: Vec<Error> = put_back.filter_map(Result::err).collect();
        match failed.into_iter().next() {
            None => Ok(()),
            Some(mut error) => {
                error.message = format!(
                    "the properties of {} cannot all be put back: {error}",
                    self.name
                );
                error.next = format!("see sandstone volume get all {}, and set them", self.name);
                Err(error)
            }
        }
    }

    fn change(&self, change: &DatasetChange) -> Result<(), Error> {
        self.client.send(&Method::POST, "/v1/volumes", change)
    }
}

fn set(name: &str, properties: BTreeMap<String, String>) -> DatasetChange {
    DatasetChange::Set {
        name: name.to_owned(),
        properties,
        shrink: false,
    }
}
