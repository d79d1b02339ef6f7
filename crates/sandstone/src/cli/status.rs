//! `status` and `openapi`: the daemon itself.

use clap::Args as ClapArgs;

use super::table::{self, Numbers};
use super::{Connection, Done, Terminal};
use crate::control::answer::Status;

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let status: Status = client.get("/v1/status")?;
    if args.json {
        return table::json(t, &status);
    }
    writeln!(
        t.out,
        "Sandstone {}, process {}, up {}",
        status.version,
        status.pid,
        Numbers::Short.span(status.uptime_s)
    )?;
    writeln!(
        t.out,
        "state     {} (generation {})",
        status.state, status.generation
    )?;
    writeln!(t.out, "control   {}", client.address())?;
    let faulted = if status.faulted_units == 0 {
        String::new()
    } else {
        format!(" ({} faulted)", status.faulted_units)
    };
    writeln!(
        t.out,
        "serving   {} logical units{faulted}, {} targets, {} hosts, {} sessions",
        status.units, status.targets, status.hosts, status.sessions
    )?;
    for notice in &status.notices {
        writeln!(t.out, "notice    {notice}.")?;
    }
    for portal in &status.portals {
        let state = portal
            .error
            .as_ref()
            .map_or("listening".to_owned(), |error| {
                format!("NOT listening: {error}")
            });
        writeln!(
            t.out,
            "portal    {},{} {} {state}",
            portal.address, portal.tag, portal.target
        )?;
    }
    Ok(())
}

/// Prints the document without a daemon: it is made from the types.
pub(super) fn openapi(t: &mut Terminal<'_>) -> Done {
    table::json(t, &crate::control::api::openapi())
}
