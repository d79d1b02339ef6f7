//! `pool get`: properties of pools, in zpool's manner. All of them are figures or follow from how the pool was imported, so
//! there is nothing to set.

use clap::Args;
use serde::Serialize;

use super::super::completion::pool_names;
use super::super::table::{ListArgs, Numbers, left, print};
use super::super::{Connection, Done, Terminal};
use super::list::{capacity, fragmentation, space};
use super::wanted;
use crate::config::Error;
use crate::pool::status::PoolView;

#[derive(Debug, Args)]
pub(in super::super) struct Get {
    /// Properties, comma-separated, or all
    properties: String,
    /// Of these pools [default: all]
    #[arg(add = pool_names())]
    names: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

/// A property of pools.
struct Property {
    name: &'static str,
    value: fn(&PoolView, Numbers) -> String,
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

/// A property of a pool, as `get` shows it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    name: String,
    property: &'static str,
    value: String,
    #[serde(skip)]
    rounded: String,
    source: &'static str,
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
        left("source", |r: &Row, _| r.source.to_owned()),
    ];
    print(t, &args.list, &columns, &rows, "no pools available")
}

/// The properties that words mean; zpool's short names do too.
fn selected(words: &str) -> Result<Vec<&'static Property>, Error> {
    if words == "all" {
        return Ok(PROPERTIES.iter().collect());
    }
    let find = |word: &str| {
        let word = word.trim();
        let name = match word {
            "alloc" => "allocated",
            "cap" => "capacity",
            "frag" => "fragmentation",
            word => word,
        };
        let found = PROPERTIES.iter().find(|property| property.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = PROPERTIES.iter().map(|property| property.name).collect();
            Error::invalid(
                format!("pools have no property '{word}'"),
                format!("choose from all,{}", known.join(",")),
            )
        })
    };
    words.split(',').map(find).collect()
}

fn row(pool: &PoolView, property: &Property) -> Row {
    Row {
        name: pool.name.clone(),
        property: property.name,
        value: (property.value)(pool, Numbers::Exact),
        rounded: (property.value)(pool, Numbers::Short),
        source: "-",
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
            ..PoolView::default()
        };
        let told = |words: &str, numbers| -> Vec<String> {
            let properties = selected(words).expect("properties");
            let values = properties.iter().map(|of| (of.value)(&pool, numbers));
            values.collect()
        };
        assert_eq!(
            told("size,cap,health,frag,readonly", Numbers::Short),
            ["4G", "25%", "ONLINE", "7%", "off"]
        );
        assert_eq!(told("free,capacity", Numbers::Exact), ["3221225472", "25"]);
        assert_eq!(told("all", Numbers::Short).len(), PROPERTIES.len());
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
        let value = |name| row(&pool, selected(name).expect("one")[0]).value;
        assert_eq!(
            ["size", "cap", "frag", "health"].map(value),
            ["-", "-", "-", "UNAVAIL"]
        );
    }
}
