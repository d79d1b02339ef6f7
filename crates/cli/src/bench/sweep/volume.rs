//! The volume beneath the measured unit, whose properties a sweep turns.

use std::collections::{BTreeMap, BTreeSet};

use super::beneath::Beneath;
use control::Client;
use control::endpoint::volume;
use control::endpoint::volume::How;
use model::Error;
use model::pool::dataset::Changed;
use model::pool::dataset::change::DatasetChange;

/// Volume, with its properties before the sweep.
pub(super) struct Volume {
    client: Client,
    name: String,
    before: Vec<DatasetChange>,
}

impl Volume {
    /// Returns the volume, with the current values of these properties.
    pub(super) fn of(beneath: Beneath, properties: &BTreeSet<&String>) -> Self {
        let name = beneath.volume.name;
        let views = beneath.volume.properties.iter();
        let views = views.filter(|view| properties.contains(&view.name));
        let before = views.map(|view| {
            let source = view.source.as_str();
            match source == "default" || source.starts_with("inherited") {
                true => DatasetChange::Inherit {
                    name: name.clone(),
                    property: view.name.clone(),
                    recursive: false,
                    received: false,
                },
                false => set(&name, [(view.name.clone(), view.value.clone())].into()),
            }
        });
        Self {
            before: before.collect(),
            client: beneath.client,
            name,
        }
    }

    /// Returns the changes that put everything back.
    pub(super) fn before(&self) -> &[DatasetChange] {
        &self.before
    }

    /// Sets properties.
    pub(super) fn set(&self, properties: &BTreeMap<String, String>) -> Result<(), Error> {
        self.change(&set(&self.name, properties.clone()))
    }

    /// Puts everything back.
    pub(super) fn put_back(&self) -> Result<(), Error> {
        let put_back = self.before.iter().map(|change| self.change(change));
        // A change that cannot be put back does not block the others.
        let failed: Vec<Error> = put_back.filter_map(Result::err).collect();
        match failed.into_iter().next() {
            None => Ok(()),
            Some(mut error) => {
                error.message = format!(
                    "not all properties of {} could be put back: {error}",
                    self.name
                );
                let commands: Vec<String> = self.before.iter().map(command).collect();
                error.next = format!("put them back by hand: {}", commands.join("; "));
                Err(error)
            }
        }
    }

    fn change(&self, change: &DatasetChange) -> Result<(), Error> {
        let _: Changed = self
            .client
            .ask(&volume::CHANGE, &[], &How::default(), change)?;
        Ok(())
    }
}

/// Returns the command for a change of properties.
pub(super) fn command(change: &DatasetChange) -> String {
    match change {
        DatasetChange::Inherit { name, property, .. } => {
            format!("sandstone volume inherit {property} {name}")
        }
        DatasetChange::Set {
            names, properties, ..
        } => {
            let set = properties.iter();
            let set: Vec<String> = set.map(|(name, value)| format!("{name}={value}")).collect();
            format!("sandstone volume set {} {}", set.join(" "), names.join(" "))
        }
        other => format!("{other:?}"),
    }
}

/// Returns the change that sets properties of the named volume.
pub(super) fn set(name: &str, properties: BTreeMap<String, String>) -> DatasetChange {
    DatasetChange::Set {
        names: vec![name.to_owned()],
        properties,
        shrink: false,
    }
}
