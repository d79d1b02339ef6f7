//! Properties of a pool that administrators set.
//!
//! They lie in the labels' configuration, as texts by their names. A property that is not set has
//! its default.

use std::collections::BTreeMap;

use super::open::error::{OpenError, OpenErrorKind};

/// Property of a pool. Each of them is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolProperty {
    /// A vdev grows as soon as the devices of all its leaves have grown.
    Autoexpand,
    /// A new, blank device in the place of a failed one replaces it.
    Autoreplace,
    /// Devices are told of space that becomes free.
    Autotrim,
    /// The pool is protected against being open on two hosts. By default it is, if another host
    /// could reach its devices.
    Multihost,
}

impl PoolProperty {
    /// All properties, by name.
    pub const ALL: [Self; 4] = [
        Self::Autoexpand,
        Self::Autoreplace,
        Self::Autotrim,
        Self::Multihost,
    ];

    /// Returns the property's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Autoexpand => "autoexpand",
            Self::Autoreplace => "autoreplace",
            Self::Autotrim => "autotrim",
            Self::Multihost => "multihost",
        }
    }

    /// Finds the property of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|of| of.name() == name)
    }

    /// Reports whether the property is on by default.
    pub fn default(self) -> bool {
        match self {
            Self::Autoexpand | Self::Autoreplace | Self::Autotrim | Self::Multihost => false,
        }
    }
}

/// Properties that an administrator has set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolProperties(BTreeMap<PoolProperty, bool>);

impl PoolProperties {
    /// Returns the value that an administrator set; `None` if there is none.
    pub fn get(&self, property: PoolProperty) -> Option<bool> {
        self.0.get(&property).copied()
    }

    /// Reports whether the property is on, set or by default.
    pub fn is_on(&self, property: PoolProperty) -> bool {
        self.get(property).unwrap_or(property.default())
    }

    /// Sets the property. Returns whether that changes anything.
    pub fn set(&mut self, property: PoolProperty, is_on: bool) -> bool {
        self.0.insert(property, is_on) != Some(is_on)
    }

    /// Resets the property to its default. Returns whether that changes anything.
    pub fn unset(&mut self, property: PoolProperty) -> bool {
        self.0.remove(&property).is_some()
    }

    /// Returns the properties as labels keep them.
    pub(super) fn stored(&self) -> BTreeMap<String, String> {
        let texts = self.0.iter().map(|(property, is_on)| {
            let value = if *is_on { "on" } else { "off" };
            (property.name().to_owned(), value.to_owned())
        });
        texts.collect()
    }

    /// Reads the properties of a label.
    ///
    /// # Errors
    /// One has a name or value that only later programs know.
    pub(super) fn open(stored: &BTreeMap<String, String>) -> Result<Self, OpenError> {
        let properties = stored.iter().map(|(name, value)| {
            let is_on = match value.as_str() {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            };
            PoolProperty::named(name).zip(is_on).ok_or_else(|| {
                let context = format!("'{name}={value}' in a label is not a property of pools");
                OpenError::new(OpenErrorKind::Damaged, context)
            })
        });
        Ok(Self(properties.collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_that_is_set_is_found_again_and_others_are_as_by_default() {
        let mut properties = PoolProperties::default();
        assert!(properties.set(PoolProperty::Autotrim, true));
        assert!(!properties.set(PoolProperty::Autotrim, true), "it was on");
        assert!(properties.set(PoolProperty::Autoexpand, false));
        let again = PoolProperties::open(&properties.stored()).expect("properties");
        assert_eq!(again, properties);
        let told = PoolProperty::ALL.map(|of| (again.get(of), again.is_on(of)));
        let expected = [
            (Some(false), false),
            (None, false),
            (Some(true), true),
            (None, false),
        ];
        assert!(properties.unset(PoolProperty::Autotrim), "it was set");
        assert_eq!(properties.get(PoolProperty::Autotrim), None);
        assert_eq!(told, expected);
    }

    #[test]
    fn names_and_values_that_nobody_knows_are_refused() {
        for (name, value) in [("autofly", "on"), ("autotrim", "perhaps"), ("autotrim", "")] {
            let stored = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            let error = PoolProperties::open(&stored).expect_err(name);
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
