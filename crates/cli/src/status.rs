//! `status` and `openapi`: the state of the daemon, and its API.

use clap::Args as ClapArgs;

use crate::print::hindrances;
use crate::print::table::{self, Numbers};
use crate::print::wrap::wrapped;
use crate::{Connection, Done, Terminal, unwell};
use control::ControlAddress;
use control::answer::{ConsoleStatus, DiskSummary, PathSummary, Status};
use control::endpoint::status;
use model::alert::AlertView;
use model::pool::health::PoolHealth;
use model::pool::status::NO_ERRORS;

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let status: Status = client.call(&status::STATUS, &[])?;
    if args.json {
        table::json(t, &status)?;
    } else {
        tell(t, client.address(), &status)?;
    }
    unwell(status.health)
}

fn tell(t: &mut Terminal<'_>, control: &ControlAddress, status: &Status) -> Done {
    writeln!(
        t.out,
        "Sandstone {}, process {}, up {}",
        status.version,
        status.pid,
        Numbers::Short.span(status.uptime_s)
    )?;
    alert_lines(t, &status.alerts)?;
    writeln!(
        t.out,
        "state     {} (generation {})",
        status.state, status.generation
    )?;
    writeln!(t.out, "control   {control}")?;
    if let Some(console) = &status.console {
        console_lines(t, console)?;
    }
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
    let DiskSummary { all, unwell } = status.disks;
    if all > 0 {
        let unwell = match unwell {
            0 => String::new(),
            unwell => format!(" ({unwell} not in use as they should be)"),
        };
        writeln!(
            t.out,
            "disks     {all} in {} pools{unwell}",
            status.pools.len()
        )?;
    }
    let PathSummary {
        devices,
        paths,
        dead,
    } = status.paths;
    if devices > 0 {
        let dead = match dead {
            0 => String::new(),
            dead => format!(" ({dead} dead)"),
        };
        writeln!(
            t.out,
            "paths     {paths} to {devices} disks of other machines{dead}"
        )?;
    }
    for pool in &status.pools {
        pool_lines(t, pool, &status.alerts)?;
    }
    for job in &status.jobs {
        writeln!(t.out, "job       {}: {}", job.pool, job.text)?;
    }
    let found = status.hindrances.iter().flat_map(|of| {
        let name = of.unit.as_str();
        of.hindrances.iter().map(move |it| (name, it))
    });
    for line in hindrances::lines(found) {
        writeln!(t.out, "hindered  {line}")?;
    }
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

/// Prints where the console is, and what has to be done about it.
fn console_lines(t: &mut Terminal<'_>, console: &ConsoleStatus) -> Done {
    writeln!(t.out, "console   {}", console.url)?;
    if let Some(file) = &console.first_login {
        writeln!(
            t.out,
            "  action  No user can log in yet. Open the link in {file}."
        )?;
    }
    if let Some(trouble) = &console.trouble {
        writeln!(t.out, "  status  {}", wrapped(trouble, 72, "          "))?;
    }
    Ok(())
}

/// Prints the open alerts, each with what to do.
fn alert_lines(t: &mut Terminal<'_>, alerts: &[AlertView]) -> Done {
    for alert in alerts {
        let known = match &alert.acknowledged {
            Some(known) => format!(", known to {}", known.by),
            None => String::new(),
        };
        writeln!(
            t.out,
            "alert     {}: {} {} {}{known}",
            alert.number,
            alert.severity.as_str(),
            alert.condition,
            alert.object
        )?;
        for (title, words) in [("found ", &alert.text), ("next  ", &alert.next)] {
            writeln!(t.out, "  {title}  {}", wrapped(words, 72, "          "))?;
        }
    }
    Ok(())
}

/// Prints the state of a pool. If the pool is not well, also prints what happened and what to do,
/// or the alert that has already said so.
fn pool_lines(t: &mut Terminal<'_>, pool: &PoolHealth, alerts: &[AlertView]) -> Done {
    write!(t.out, "pool      {} {}", pool.name, pool.state)?;
    let says_so =
        |alert: &&AlertView| alert.object == pool.name && Some(&alert.text) == pool.status.as_ref();
    let (status, action) = match alerts.iter().find(says_so) {
        Some(alert) => {
            write!(t.out, " (alert {})", alert.number)?;
            (None, None)
        }
        None => (pool.status.as_ref(), pool.action.as_ref()),
    };
    writeln!(t.out)?;
    let errors = Some(&pool.errors).filter(|errors| *errors != NO_ERRORS);
    let told = [("status", status), ("action", action), ("errors", errors)];
    for (title, words) in told {
        if let Some(words) = words {
            writeln!(t.out, "  {title}  {}", wrapped(words, 72, "          "))?;
        }
    }
    Ok(())
}

/// Prints the document without a daemon: it is made from the types.
pub(super) fn openapi(t: &mut Terminal<'_>) -> Done {
    table::json(t, &control::handlers::openapi())
}
