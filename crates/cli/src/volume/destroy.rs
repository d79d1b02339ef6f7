//! `volume destroy`: lists the datasets that would go, asks, and destroys them.

use std::io::{self, Write};

use clap::Args;
use store::catalog::size::print_size;

use crate::grammar::completion::dataset_names;
use crate::pool::confirm;
use crate::{Connection, Done, Terminal};
use control::endpoint::volume;
use control::endpoint::volume::How;
use model::pool::dataset::Changed;
use model::pool::dataset::change::DatasetChange;

#[derive(Debug, Args)]
pub(crate) struct Destroy {
    /// Destroy all datasets below too; of a snapshot those of its name below its folder or volume
    #[arg(short = 'r')]
    recursive: bool,
    /// Destroy clones too, wherever they are
    #[arg(short = 'R')]
    clones: bool,
    /// Show only whether it can be done; with -v also what would go
    #[arg(short = 'n', long = "dry-run", visible_alias = "dryrun")]
    dry_run: bool,
    /// Show what goes
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Do not ask
    #[arg(short = 'y', long, visible_short_alias = 'f', visible_alias = "force")]
    yes: bool,
    /// Datasets to destroy; snapshots of a volume also as tank/vm1@a,b or tank/vm1@first%last
    #[arg(required = true, add = dataset_names())]
    names: Vec<String>,
}

pub(super) fn destroy(args: Destroy, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let all = args.names.join(" ");
    let change = DatasetChange::Destroy {
        names: args.names,
        recursive: args.recursive,
        clones: args.clones,
    };
    let client = connection.client();
    if args.dry_run || args.verbose || !args.yes {
        let preview: Changed = client.ask(&volume::CHANGE, &[], &How { dry_run: true }, &change)?;
        match (args.dry_run, args.verbose) {
            (true, true) => tell(t.out, &preview, "would destroy", "would free")?,
            (false, true) => tell(t.err, &preview, "will destroy", "will free")?,
            (true, false) => {}
            (false, false) => tell(t.err, &preview, "this destroys", "and frees")?,
        }
        if args.dry_run {
            return Ok(());
        }
    }
    if !args.yes {
        let question = format!("Everything in {all} is lost. Destroy it? [y/N] ");
        confirm(t, &question, &format!("sandstone volume destroy -y {all}"))?;
    }
    let _: Changed = client.ask(&volume::CHANGE, &[], &How::default(), &change)?;
    Ok(())
}

fn tell(out: &mut dyn Write, preview: &Changed, destroys: &str, frees: &str) -> io::Result<()> {
    for doomed in &preview.destroyed {
        let (kind, name) = (&doomed.kind, &doomed.name);
        write!(out, "{destroys} {kind} {name}")?;
        match doomed.units.is_empty() {
            true => writeln!(out)?,
            false => {
                let units = doomed.units.join(", lu ");
                writeln!(out, " (refused while lu {units} serves it)")?;
            }
        }
    }
    writeln!(out, "{frees} {} at least", print_size(preview.freed))
}
