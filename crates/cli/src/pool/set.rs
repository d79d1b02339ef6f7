//! `pool set`: properties of pools that administrators choose, in zpool's manner.

use clap::Args;

use super::super::{Connection, Done};
use crate::grammar::completion::{pool_assignments, pool_names};
use control::endpoint::pool;
use model::Error;
use model::pool::properties::SetPoolProperty;

#[derive(Debug, Args)]
pub(in super::super) struct Set {
    /// autoexpand, autoreplace or autotrim, each on or off: `autotrim=on`; multihost, on, off or
    /// auto
    #[arg(value_name = "PROPERTY=VALUE", value_parser = assignment, add = pool_assignments())]
    assignment: SetPoolProperty,
    /// Name of the pool
    #[arg(add = pool_names())]
    pool: String,
}

/// Reads `PROPERTY=VALUE`.
fn assignment(text: &str) -> Result<SetPoolProperty, Error> {
    let (property, value) = text.split_once('=').ok_or_else(|| {
        Error::invalid(
            format!("'{text}' sets no property"),
            "write PROPERTY=VALUE, as in autotrim=on",
        )
    })?;
    Ok(SetPoolProperty {
        property: property.to_owned(),
        value: value.to_owned(),
    })
}

pub(super) fn run(connection: &Connection, args: &Set) -> Done {
    let client = connection.client();
    client.ask(&pool::SET_PROPERTY, &[&args.pool], &(), &args.assignment)?;
    Ok(())
}
