//! The order of `volume list`: by properties, as with zfs.

use std::cmp::Ordering;

use clap::{Arg, ArgAction, ArgMatches, Command};

use model::Error;
use model::pool::dataset::DatasetView;

/// Properties to sort by, the most significant first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sort(Vec<Key>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    property: String,
    is_descending: bool,
}

/// Value that is sorted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Number(u64),
    Text(String),
}

const ASCENDING: &str = "ascending";
const DESCENDING: &str = "descending";

/// Arguments parsed by hand, since the order in which `-s` and `-S` were given counts.
impl clap::Args for Sort {
    fn augment_args(command: Command) -> Command {
        let arg = |id: &'static str, short: char| {
            Arg::new(id)
                .short(short)
                .value_name("PROPERTY")
                .action(ArgAction::Append)
        };
        command
            .arg(arg(ASCENDING, 's').help(
                "Sort by this property, as in -s used; may be repeated, and the first then has precedence",
            ))
            .arg(arg(DESCENDING, 'S').help("Sort by this property, the largest first; may be repeated"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Sort {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut keys: Vec<(usize, Key)> = Vec::new();
        for (id, is_descending) in [(ASCENDING, false), (DESCENDING, true)] {
            let given = matches.get_many::<String>(id).into_iter().flatten();
            let places = matches.indices_of(id).into_iter().flatten();
            keys.extend(places.zip(given).map(|(place, property)| {
                let property = property.clone();
                let key = Key {
                    property,
                    is_descending,
                };
                (place, key)
            }));
        }
        keys.sort_by_key(|(place, _)| *place);
        Ok(Self(keys.into_iter().map(|(_, key)| key).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Sort {
    /// Returns the properties to sort by.
    pub(super) fn properties(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|key| key.property.as_str())
    }

    /// Sorts datasets. In both directions, those without a property come last, and equal ones keep
    /// their order.
    ///
    /// # Errors
    /// None of the datasets has one of the properties.
    pub(super) fn sort(&self, datasets: &mut [DatasetView]) -> Result<(), Error> {
        for Key { property, .. } in &self.0 {
            let is_known = is_own(property)
                || property.contains(':')
                || datasets.is_empty()
                || datasets.iter().any(|of| value(of, property).is_some());
            if !is_known {
                return Err(Error::invalid(
                    format!("there is no property {property:?} to sort by"),
                    "list the properties with `sandstone volume get all`",
                ));
            }
        }
        datasets.sort_by(|a, b| {
            let keys = self.0.iter().map(|key| key.compare(a, b));
            keys.fold(Ordering::Equal, Ordering::then)
        });
        Ok(())
    }
}

impl Key {
    fn compare(&self, a: &DatasetView, b: &DatasetView) -> Ordering {
        match (value(a, &self.property), value(b, &self.property)) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) if self.is_descending => b.cmp(&a),
            (Some(a), Some(b)) => a.cmp(&b),
        }
    }
}

/// Reports whether some dataset may have the property, though none of the listed ones has.
fn is_own(property: &str) -> bool {
    matches!(property, "origin" | "volsize" | "volblocksize" | "volblock")
        || matches!(property, "avail" | "available" | "refer" | "referenced")
}

/// Returns the value of a property or of a column of a listing.
fn value(of: &DatasetView, property: &str) -> Option<Value> {
    let number = |number: Option<u64>| number.map(Value::Number);
    match property {
        "name" => Some(Value::Text(of.name.clone())),
        "type" => Some(Value::Text(of.kind.clone())),
        "used" => number(Some(of.used)),
        "avail" | "available" => number(of.available),
        "refer" | "referenced" => number(of.referenced),
        "volsize" => number(of.size),
        "volblock" | "volblocksize" => number(of.block_size.map(u64::from)),
        "creation" => number(Some(of.created_s)),
        "origin" => of.origin.clone().map(Value::Text),
        other => {
            let found = of.properties.iter().find(|found| found.name == other)?;
            let text = || Value::Text(found.value.clone());
            match found.value.as_str() {
                "-" => None,
                // Two decimals, always.
                ratio if property.ends_with("compressratio") => {
                    number(ratio.replace('.', "").parse().ok())
                }
                value => Some(value.parse().map_or_else(|_| text(), Value::Number)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;
    use model::pool::dataset::PropertyView;

    fn sort(line: &str) -> Sort {
        let command = Sort::augment_args(Command::new("list"));
        let words = std::iter::once("list").chain(line.split_whitespace());
        Sort::from_arg_matches(&command.get_matches_from(words)).expect("keys")
    }

    fn dataset(name: &str, used: u64, size: Option<u64>, sync: &str) -> DatasetView {
        let property = PropertyView {
            name: "sync".to_owned(),
            value: sync.to_owned(),
            rounded: sync.to_owned(),
            source: "default".to_owned(),
        };
        DatasetView {
            name: name.to_owned(),
            kind: "volume".to_owned(),
            created_s: 0,
            size,
            block_size: None,
            used,
            referenced: None,
            available: None,
            origin: None,
            properties: vec![property],
            ..DatasetView::default()
        }
    }

    fn sorted(line: &str) -> Result<String, Error> {
        let mut all = vec![
            dataset("a", 900, None, "standard"),
            dataset("b", 1000, Some(10), "always"),
            dataset("c", 20, Some(9), "standard"),
            dataset("d", 1000, Some(7), "always"),
        ];
        sort(line).sort(&mut all)?;
        Ok(all.iter().map(|of| of.name.as_str()).collect())
    }

    #[test]
    fn numbers_sort_as_numbers_and_what_is_missing_comes_last() {
        for (line, order) in [
            ("", "abcd"),
            ("-s used", "cabd"),
            ("-S used", "bdac"),
            ("-s volsize", "dcba"),
            ("-S volsize", "bcda"),
            ("-S name", "dcba"),
            ("-s origin", "abcd"),
        ] {
            assert_eq!(sorted(line).as_deref(), Ok(order), "{line}");
        }
    }

    #[test]
    fn keys_count_in_the_order_in_which_they_are_given() {
        assert_eq!(sorted("-s sync -S name").as_deref(), Ok("dbca"));
        assert_eq!(sorted("-S used -s volsize").as_deref(), Ok("dbac"));
        assert_eq!(sorted("-S name -s sync").as_deref(), Ok("dcba"));
    }

    #[test]
    fn a_property_that_nobody_has_is_refused() {
        let error = sorted("-s colour").expect_err("no such property");
        assert!(error.message.contains("\"colour\""), "{error}");
        assert_eq!(sorted("-s my:colour").as_deref(), Ok("abcd"));
    }
}
