//! `pool set` and `pool get`: properties of pools that administrators choose. They lie in the
//! pool's labels ([`store::engine::PoolProperties`]) and move with it from machine to machine.

use store::catalog::PropertyInfo;
use store::engine::{PoolProperties, PoolProperty};

use crate::import::multihost::{self, Change};
use crate::registry::Pools;
use model::pool::properties::{PoolPropertyView, SetPoolProperty, elsewhere};
use model::{Error, ErrorKind};

/// Returns all properties that can be set, by name.
pub(crate) fn views(properties: &PoolProperties) -> Vec<PoolPropertyView> {
    let all = PoolProperty::ALL.into_iter();
    let views = all.map(|property| PoolPropertyView {
        name: property.name().to_owned(),
        value: match (property, properties.get(property)) {
            (PoolProperty::Multihost, None) => "auto",
            _ => word(properties.is_on(property)),
        }
        .to_owned(),
        source: match properties.get(property) {
            Some(_) => "local",
            None => "default",
        }
        .to_owned(),
    });
    views.collect()
}

fn word(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

impl Pools {
    /// Sets a property of a pool, and returns once its labels hold the value.
    ///
    /// # Errors
    /// The property or value does not exist, or the pool takes no changes.
    pub fn set_property(&self, name: &str, request: &SetPoolProperty) -> Result<(), Error> {
        let (property, is_on) = parse(&request.property, &request.value)?;
        let _changing = self.changing();
        let pool = self.get(name)?;
        pool.require_writable()?;
        let host = self.host_id();
        let set = pool.host.handle(move |hands| {
            hands.pool.set_property(property, is_on);
            match property {
                PoolProperty::Multihost => multihost::set(hands, &host, &[]),
                _ => Change::None,
            }
        });
        let synced = match set {
            Ok(change) => {
                change.begin(&pool).map_err(|error| {
                    error.not_changed(
                        "only the pool's activity records protect it; set the property off and on again to \
                         retry",
                    )
                })?;
                let synced = pool.host.sync();
                change.end(&pool);
                synced
            }
            Err(error) => Err(error),
        };
        // The pool may treat its devices differently from now on.
        self.options.disks.look_again();
        synced.map_err(|error| {
            Error::new(
                ErrorKind::Refused,
                format!("pool {name} cannot change its {}: {error}", property.name()),
                format!("see `sandstone pool status {name}`"),
            )
            .not_changed("the change may be in force, and may be lost when the daemon ends")
        })
    }
}

fn parse(property: &str, value: &str) -> Result<(PoolProperty, Option<bool>), Error> {
    let known = PoolProperty::named(property).ok_or_else(|| {
        let all = PoolProperty::ALL.map(PoolProperty::name).join(", ");
        Error::invalid(
            format!("pools have no settable property '{property}'"),
            elsewhere(property, PropertyInfo::named(property).is_some())
                .map_or_else(|| format!("choose from {all}"), str::to_owned),
        )
    })?;
    let is_on = match value {
        "on" => Some(true),
        "off" => Some(false),
        "auto" if known == PoolProperty::Multihost => None,
        _ => {
            return Err(Error::invalid(
                format!("'{value}' is not a value of {property}"),
                format!("use {property}=on or {property}=off"),
            ));
        }
    };
    Ok((known, is_on))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_set_by_name_and_unknown_ones_are_refused_with_what_there_is() {
        assert_eq!(
            parse("autotrim", "on").expect("set"),
            (PoolProperty::Autotrim, Some(true))
        );
        assert_eq!(
            parse("autoexpand", "off").expect("set"),
            (PoolProperty::Autoexpand, Some(false))
        );
        assert_eq!(
            parse("multihost", "auto").expect("set"),
            (PoolProperty::Multihost, None)
        );
        let error = parse("size", "on").expect_err("it is a figure");
        assert!(
            error.next.contains("autoreplace, autotrim, multihost"),
            "{error}"
        );
        for (name, next) in [
            (
                "ashift",
                "omit it: pools always write whole blocks of 4096 bytes, as zpool's ashift=12 does",
            ),
            (
                "compression",
                "it is a property of datasets: `sandstone volume set NAME=VALUE POOL` sets it for the whole pool",
            ),
            (
                "colour",
                "choose from autoexpand, autoreplace, autotrim, multihost",
            ),
        ] {
            let error = parse(name, "12").expect_err("pools have no such property");
            assert_eq!(
                error.message,
                format!("pools have no settable property '{name}'")
            );
            assert_eq!(error.next, next);
        }
        let error = parse("autotrim", "maybe").expect_err("no value");
        assert!(error.next.contains("autotrim=on"), "{error}");
    }

    #[test]
    fn views_say_what_somebody_has_set() {
        let mut properties = PoolProperties::default();
        properties.set(PoolProperty::Autotrim, true);
        let told = views(&properties);
        let told: Vec<_> = told
            .iter()
            .map(|of| (of.name.as_str(), of.value.as_str(), of.source.as_str()))
            .collect();
        assert!(told.contains(&("autotrim", "on", "local")), "{told:?}");
        assert!(told.contains(&("autoexpand", "off", "default")), "{told:?}");
    }
}
