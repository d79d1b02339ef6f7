//! `pool upgrade`, in zpool's manner: shows the format features of pools, and enables those that
//! this program knows.

use clap::Args;
use serde::Serialize;

use super::super::{Connection, Done, Terminal};
use super::wanted;
use crate::grammar::completion::pool_names;
use crate::print::table::{ListArgs, left, print};
use control::endpoint::pool;
use model::Error;
use model::pool::properties::FeatureView;
use model::pool::status::PoolView;

#[derive(Debug, Args)]
pub(in super::super) struct Upgrade {
    /// Enable all features in all pools
    #[arg(short = 'a', long, conflicts_with = "pools")]
    all: bool,
    /// Pools in which to enable all features; without any, only list the features
    #[arg(add = pool_names())]
    pools: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

/// Feature of a pool.
#[derive(Debug, Serialize)]
struct Row {
    pool: String,
    #[serde(flatten)]
    feature: FeatureView,
}

pub(super) fn run(t: &mut Terminal<'_>, connection: &Connection, args: &Upgrade) -> Done {
    let mut pools = wanted(connection, &args.pools)?;
    if args.all || !args.pools.is_empty() {
        for pool in pools.iter_mut().filter(|pool| pool.open_for_us.is_some()) {
            *pool = upgrade(connection, pool)?;
        }
    }
    let rows: Vec<Row> = pools.iter().flat_map(rows).collect();
    let columns = [
        left("pool", |row: &Row, _| row.pool.clone()),
        left("feature", |row: &Row, _| row.feature.name.clone()),
        left("state", |row: &Row, _| row.feature.state.clone()),
        left("needed to", |row: &Row, _| row.feature.needed_to.clone()),
        left("what it gives", |row: &Row, _| {
            row.feature.description.clone()
        }),
    ];
    print(t, &args.list, &columns, &rows, "no pools available")?;
    let is_lacking = |row: &Row| row.feature.state == "disabled";
    if rows.iter().any(is_lacking) && !args.list.json {
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        writeln!(
            t.err,
            "`sandstone pool upgrade {}` enables the disabled features; programs that lack a feature cannot \
             use the pool once it is active",
            names.join(" ")
        )?;
    }
    Ok(())
}

fn upgrade(connection: &Connection, pool: &PoolView) -> Result<PoolView, Error> {
    connection.client().call(&pool::UPGRADE, &[&pool.name])
}

fn rows(pool: &PoolView) -> impl Iterator<Item = Row> {
    pool.features.iter().map(|feature| Row {
        pool: pool.name.clone(),
        feature: feature.clone(),
    })
}
