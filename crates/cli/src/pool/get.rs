//! `pool get`: properties of pools, in zpool's manner. They are figures, facts of the import, and
//! choices that administrators make with `pool set`.

use clap::Args;
use serde::Serialize;
use store::catalog::PropertyInfo;
use store::engine::PoolProperty;

use super::super::{Connection, Done, Terminal};
use super::list::{capacity, fragmentation, space};
use super::wanted;
use crate::grammar::completion::pool_names;
use crate::print::table::{ListArgs, Numbers, left, print};
use model::Error;
use model::pool::properties::{PoolPropertyView, elsewhere};
use model::pool::status::PoolView;

#[derive(Debug, Args)]
pub(in super::super) struct Get {
    /// Properties, comma-separated, or all
    properties: String,
    /// Names of the pools [default: all]
    #[arg(add = pool_names())]
    names: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

/// Property of pools that is a figure.
struct Property {
    name: &'static str,
    value: fn(&PoolView, Numbers) -> String,
}

/// Property that `get` shows.
enum Shown {
    Figure(&'static Property),
    /// Property that can be set.
    Choice(PoolProperty),
}

impl Shown {
    fn name(&self) -> &'static str {
        match self {
            Self::Figure(property) => property.name,
            Self::Choice(property) => property.name(),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let figures = PROPERTIES.iter().map(Self::Figure);
        figures.chain(PoolProperty::ALL.into_iter().map(Self::Choice))
    }
}

const PROPERTIES: [Property; 9] = [
    Property {
        name: "size",
        value: |pool, numbers| space(pool, numbers, pool.size),
    },
    Property {
        name: "capacity",
        value: |pool, numbers| match (pool.open_for_us, numbers) {
            (None, _) => "-".to_owned(),
            (Some(_), Numbers::Short) => format!("{}%", capacity(pool)),
            (Some(_), Numbers::Exact) => capacity(pool).to_string(),
        },
    },
    Property {
        name: "health",
        value: |pool, _| pool.state.clone(),
    },
    Property {
        name: "guid",
        value: |pool, _| pool.guid.clone(),
    },
    Property {
        name: "readonly",
        value: |pool, _| if pool.is_read_only { "on" } else { "off" }.to_owned(),
    },
    Property {
        name: "free",
        value: |pool, numbers| space(pool, numbers, pool.free),
    },
    Property {
        name: "allocated",
        value: |pool, numbers| space(pool, numbers, pool.allocated),
    },
    Property {
        name: "freeing",
        value: |pool, numbers| space(pool, numbers, pool.freeing),
    },
    Property {
        name: "fragmentation",
        value: fragmentation,
    },
];

/// Property of a pool, as `get` shows it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    name: String,
    property: &'static str,
    value: String,
    #[serde(skip)]
    rounded: String,
    source: String,
}

pub(super) fn run(t: &mut Terminal<'_>, connection: &Connection, args: &Get) -> Done {
    let properties = selected(&args.properties)?;
    let pools = wanted(connection, &args.names)?;
    let rows: Vec<Row> = pools
        .iter()
        .flat_map(|pool| properties.iter().map(|property| row(pool, property)))
        .collect();
    let columns = [
        left("name", |r: &Row, _| r.name.clone()),
        left("property", |r: &Row, _| r.property.to_owned()),
        left("value", |r: &Row, n| match n {
            Numbers::Short => r.rounded.clone(),
            Numbers::Exact => r.value.clone(),
        }),
        left("source", |r: &Row, _| r.source.clone()),
    ];
    print(t, &args.list, &columns, &rows, "no pools available")
}

/// Returns the properties that the words name, also by zpool's short names.
fn selected(words: &str) -> Result<Vec<Shown>, Error> {
    if words == "all" {
        return Ok(Shown::all().collect());
    }
    let find = |word: &str| {
        let word = word.trim();
        let name = match word {
            "alloc" => "allocated",
            "cap" => "capacity",
            "frag" => "fragmentation",
            word => word,
        };
        let found = Shown::all().find(|shown| shown.name() == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = Shown::all().map(|shown| shown.name()).collect();
            Error::invalid(
                format!("pools have no property '{word}'"),
                elsewhere(word, PropertyInfo::named(word).is_some()).map_or_else(
                    || format!("choose from all,{}", known.join(",")),
                    str::to_owned,
                ),
            )
        })
    };
    words.split(',').map(find).collect()
}

fn row(pool: &PoolView, shown: &Shown) -> Row {
    let (value, rounded, source) = match shown {
        Shown::Figure(property) => (
            (property.value)(pool, Numbers::Exact),
            (property.value)(pool, Numbers::Short),
            "-".to_owned(),
        ),
        Shown::Choice(property) => {
            let mut all = pool.properties.iter();
            let own = all.find(|own| own.name == property.name());
            // The value is unknown for a pool that is not open.
            let told = |text: fn(&PoolPropertyView) -> &String| {
                own.map_or_else(|| "-".to_owned(), |own| text(own).clone())
            };
            let value = told(|own| &own.value);
            (value.clone(), value, told(|own| &own.source))
        }
    };
    Row {
        name: pool.name.clone(),
        property: shown.name(),
        value,
        rounded,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_have_zpools_names_and_values() {
        let pool = PoolView {
            name: "tank".to_owned(),
            state: "ONLINE".to_owned(),
            size: 4 << 30,
            free: 3 << 30,
            fragmentation: Some(7),
            open_for_us: Some(1),
            properties: vec![PoolPropertyView {
                name: "autotrim".to_owned(),
                value: "on".to_owned(),
                source: "local".to_owned(),
            }],
            ..PoolView::default()
        };
        let told = |words: &str, numbers| -> Vec<String> {
            let properties = selected(words).expect("properties");
            let rows = properties.iter().map(|of| row(&pool, of));
            let values = rows.map(|row| match numbers {
                Numbers::Short => row.rounded,
                Numbers::Exact => row.value,
            });
            values.collect()
        };
        assert_eq!(
            told("size,cap,health,frag,readonly", Numbers::Short),
            ["4G", "25%", "ONLINE", "7%", "off"]
        );
        assert_eq!(told("free,capacity", Numbers::Exact), ["3221225472", "25"]);
        let all = PROPERTIES.len() + PoolProperty::ALL.len();
        assert_eq!(told("all", Numbers::Short).len(), all);
        assert_eq!(told("autotrim,autoexpand", Numbers::Exact), ["on", "-"]);
        let error = selected("size,colour").err().expect("there is none");
        assert!(error.message.contains("'colour'"), "{error}");
        assert!(error.next.contains("all,size,capacity"), "{error}");
    }

    #[test]
    fn of_a_pool_that_is_not_open_nobody_knows_the_figures() {
        let pool = PoolView {
            state: "UNAVAIL".to_owned(),
            ..PoolView::default()
        };
        let value = |name| row(&pool, &selected(name).expect("one")[0]).value;
        assert_eq!(
            ["size", "cap", "frag", "health"].map(value),
            ["-", "-", "-", "UNAVAIL"]
        );
    }
}
