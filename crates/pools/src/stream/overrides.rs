//! Properties that the receiving side decides: those it leaves out of a stream, and those it sets
//! itself.

use store::catalog::request::{SetProperties, Texts};
use store::catalog::{Property, Value};
use store::stream::Begin;

use super::apply;
use crate::dataset::refused;
use crate::registry::OpenPool;
use model::Error;
use model::pool::stream::ReceiveRequest;

/// Properties that a receive does not take as they come.
#[derive(Debug)]
pub(super) struct Overrides {
    set: Texts,
    without: Vec<String>,
}

impl Overrides {
    /// Returns the overrides of a request.
    ///
    /// # Errors
    /// The property does not exist, does not take the value, or cannot travel in a stream.
    pub(super) fn of(request: &ReceiveRequest) -> Result<Self, Error> {
        let mut set = Texts::new();
        for line in request.set.lines() {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            Value::parse(&carried(name)?, value).map_err(refused)?;
            set.insert(name.to_owned(), value.to_owned());
        }
        let without: Vec<String> = request.without.lines().map(str::to_owned).collect();
        for name in &without {
            carried(name)?;
        }
        Ok(Self { set, without })
    }

    /// Removes the excluded properties from a part of a stream.
    pub(super) fn leave_out(&self, begin: &mut Begin) {
        for name in &self.without {
            if let Some(properties) = &mut begin.properties {
                properties.remove(name);
            }
        }
    }

    /// Sets the properties of the request on a received volume. They count more than those of the
    /// stream.
    pub(super) fn set_on(&self, pool: &OpenPool, volume: &str) -> Result<(), Error> {
        if self.set.is_empty() {
            return Ok(());
        }
        let request = SetProperties {
            name: volume.to_owned(),
            properties: self.set.clone(),
            is_received: false,
        };
        apply(pool, move |catalog| catalog.plan_set(&request))
    }
}

/// Returns the property, if a stream can carry it.
fn carried(name: &str) -> Result<Property, Error> {
    let property = Property::parse(name).map_err(refused)?;
    if property.travels() {
        return Ok(property);
    }
    Err(Error::invalid(
        format!("{name} is not part of a stream"),
        "set it afterwards with `sandstone volume set`",
    ))
}
