//! What the receiving side says of properties: which of a stream it leaves out, and which it sets itself.

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
    /// What a request says of properties.
    ///
    /// # Errors
    /// There is no such property, it takes no such value, or none that a stream could carry.
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

    /// Takes away what is not wanted of a part of a stream.
    pub(super) fn leave_out(&self, begin: &mut Begin) {
        for name in &self.without {
            if let Some(properties) = &mut begin.properties {
                properties.remove(name);
            }
        }
    }

    /// Sets on a volume, that was received, what counts more than what came with the stream.
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

/// A property that a stream can carry.
fn carried(name: &str) -> Result<Property, Error> {
    let property = Property::parse(name).map_err(refused)?;
    if property.travels() {
        return Ok(property);
    }
    Err(Error::invalid(
        format!("{name} does not come with a stream"),
        "set it afterwards with `sandstone volume set`",
    ))
}
