//! `pool export` and `pool destroy`: a pool goes, after a word about all that goes with it.

use clap::Args;

use super::super::{Connection, Done, Terminal};
use super::confirm;
use crate::grammar::completion::pool_names;
use control::answer::UnitView;
use control::endpoint::volume::Listed;
use control::endpoint::{lu, pool, volume};
use model::pool::create::ExportView;
use model::pool::dataset::DatasetView;
use model::pool::status::PoolView;
use model::quantity::format_size;
use model::{Error, ErrorKind};

#[derive(Debug, Args)]
pub(in super::super) struct Export {
    /// Export even while logical units serve its volumes: they are not ready until the pool is
    /// imported
    #[arg(short = 'f', long)]
    force: bool,
    /// Name of the pool
    #[arg(add = pool_names())]
    name: String,
}

#[derive(Debug, Args)]
pub(in super::super) struct Destroy {
    /// Do not ask
    #[arg(short = 'y', long, visible_short_alias = 'f', visible_alias = "force")]
    yes: bool,
    /// Show only what would be lost, and what stands in the way
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Name of the pool
    #[arg(add = pool_names())]
    name: String,
}

pub(super) fn export(t: &mut Terminal<'_>, connection: &Connection, args: &Export) -> Done {
    let how = pool::Letting { force: args.force };
    let client = connection.client();
    let exported: ExportView = client.ask(&pool::EXPORT, &[&args.name], &how, &())?;
    if let Some(reason) = exported.forgotten {
        writeln!(
            t.err,
            "pool {} was not open ({reason}): it is forgotten, and nothing was written to its devices",
            args.name
        )?;
    }
    Ok(())
}

pub(super) fn destroy(t: &mut Terminal<'_>, connection: &Connection, args: &Destroy) -> Done {
    let client = connection.client();
    if args.dry_run || !args.yes {
        let (preview, is_served) = preview(connection, &args.name)?;
        if args.dry_run {
            return Ok(write!(t.out, "{preview}")?);
        }
        write!(t.err, "{preview}")?;
        if is_served {
            // Nobody is asked to agree to what is refused.
            return Err(Error::new(
                ErrorKind::InUse,
                format!("logical units serve volumes of pool {}", args.name),
                "point each of them elsewhere, or remove it, then repeat the command",
            )
            .into());
        }
        confirm(
            t,
            &format!(
                "Everything in pool {} is lost. Destroy it? [y/N] ",
                args.name
            ),
            &format!("sandstone pool destroy -y {}", args.name),
        )?;
    }
    Ok(client.call(&pool::DESTROY, &[&args.name])?)
}

/// Returns the contents of a pool and its users, in words, and whether there are users.
fn preview(connection: &Connection, name: &str) -> Result<(String, bool), Error> {
    let client = connection.client();
    let pool: PoolView = client.call(&pool::SHOW, &[name])?;
    let mut datasets: Vec<DatasetView> =
        client.ask(&volume::LIST, &[], &Listed::names_only(), &())?;
    let within = format!("{name}/");
    datasets.retain(|dataset| dataset.name.starts_with(&within));
    let units: Vec<UnitView> = client.call(&lu::LIST, &[])?;
    let mut serving = Vec::new();
    for unit in units {
        if let Some(volume) = unit.spec.backend.volume()
            && volume.starts_with(&within)
        {
            serving.push((unit.spec.name.clone(), volume.to_owned()));
        }
    }
    Ok((told(&pool, &datasets, &serving), !serving.is_empty()))
}

/// Most datasets that are named; the rest is counted.
const NAMED: usize = 20;

fn told(pool: &PoolView, datasets: &[DatasetView], serving: &[(String, String)]) -> String {
    let mut text = format!(
        "would destroy pool {} ({} in use of {}, {})\n",
        pool.name,
        format_size(pool.allocated),
        format_size(pool.size),
        pool.state
    );
    for dataset in datasets.iter().take(NAMED) {
        text.push_str(&format!(
            "would destroy {} {}\n",
            dataset.kind, dataset.name
        ));
    }
    if datasets.len() > NAMED {
        let more = datasets.len() - NAMED;
        text.push_str(&format!(
            "would destroy {more} more volumes, folders and snapshots\n"
        ));
    }
    for (unit, volume) in serving {
        text.push_str(&format!(
            "refused while lu {unit} serves {volume}: `sandstone lu modify {unit} --volume POOL/NAME` points it elsewhere\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_lost_is_named_and_the_rest_counted() {
        let pool = PoolView {
            name: "tank".to_owned(),
            state: "ONLINE".to_owned(),
            size: 4 << 30,
            allocated: 1 << 30,
            ..PoolView::default()
        };
        let dataset = |number: usize| DatasetView {
            name: format!("tank/v{number}"),
            kind: "volume".to_owned(),
            ..DatasetView::default()
        };
        let datasets: Vec<DatasetView> = (0..NAMED + 2).map(dataset).collect();
        let serving = [("vm1".to_owned(), "tank/v1".to_owned())];
        let text = told(&pool, &datasets, &serving);
        assert!(text.starts_with("would destroy pool tank (1G in use of 4G, ONLINE)\n"));
        assert!(text.contains("would destroy volume tank/v19\n"), "{text}");
        assert!(!text.contains("tank/v20"), "{text}");
        assert!(text.contains("would destroy 2 more "), "{text}");
        let refusal = "refused while lu vm1 serves tank/v1: `sandstone lu modify vm1 --volume POOL/NAME` points it \
                       elsewhere\n";
        assert!(text.ends_with(refusal), "{text}");
    }
}
