//! Plans to set properties, and to let them be inherited again.

use super::request::{Inherit, SetProperties, Texts};
use crate::catalog::Catalog;
use crate::catalog::check::check_settable;
use crate::catalog::error::{CatalogError, ErrorKind};
use crate::catalog::operation::Operation;
use crate::catalog::properties::Properties;
use crate::catalog::property::{Native, Property};
use crate::catalog::value::Value;

impl Catalog {
    /// Parses properties from texts, for a dataset of this size (0 for folders).
    pub(super) fn parse_properties(
        &self,
        texts: &Texts,
        size: u64,
    ) -> Result<Properties, CatalogError> {
        let mut properties = Properties::default();
        for (name, text) in texts {
            let property = Property::parse(name)?;
            if let Property::Native(native) = property {
                check_settable(native)?;
            }
            let is_auto = property == Native::Refreservation.into() && text == "auto";
            let value = match is_auto {
                true => Value::Reservation(Some(size).filter(|size| *size > 0)),
                false => Value::parse(&property, text)?,
            };
            properties.0.insert(property, value);
        }
        Ok(properties)
    }

    /// Plans new values of properties of one dataset, all of them or none. For `volsize` there is
    /// [`Catalog::plan_resize`].
    ///
    /// # Errors
    /// NotFound, InvalidValue, ReadOnly.
    pub fn plan_set(&self, request: &SetProperties) -> Result<Operation, CatalogError> {
        let dataset = self.find(&request.name)?;
        let size = dataset.geometry().map_or(0, |(size, _)| size);
        let properties = self.parse_properties(&request.properties, size)?;
        if properties.is_empty() {
            return Err(CatalogError::new(
                ErrorKind::InvalidValue,
                "no property is named",
                "name at least one, as in compression=zstd",
            ));
        }
        self.planned(Operation::SetProperty {
            id: dataset.id,
            properties,
            is_received: request.is_received,
        })
    }

    /// Plans the end of a dataset's own value: the property is inherited from above, or has its
    /// default.
    ///
    /// # Errors
    /// NotFound, InvalidValue, ReadOnly.
    pub fn plan_inherit(&self, request: &Inherit) -> Result<Operation, CatalogError> {
        let dataset = self.find(&request.name)?;
        let property = Property::parse(&request.property)?;
        let ids = match request.is_recursive {
            true => self
                .subtree(dataset.id)
                .iter()
                .map(|below| below.id)
                .collect(),
            false => vec![dataset.id],
        };
        self.planned(Operation::Inherit {
            ids,
            property: property.to_string(),
            keep_received: request.to_received,
        })
    }
}
