//! `pool check`: verifies a pool that is not open. Exit code 0: the pool is whole; 1: something is
//! wrong.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::super::{Done, Failure, Program, Terminal};
use super::absolute;
use crate::print::table::json;
use model::date::utc;
use model::pool::check::{CheckPool, CheckView, WrongDevice};
use model::pool::rebuild_labels::RebuildLabels;
use model::quantity::format_size;

/// Most findings of one kind that are printed in full for people.
const TOLD: usize = 10;

#[derive(Debug, Args)]
pub(in super::super) struct CheckArgs {
    /// Look at this file or device, or at those in this folder; may be given several times
    /// [default: /dev]
    #[arg(short = 'd', value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Check the pool as it would be after going back to the checkpoint of this number; `pool
    /// import -F -n` lists them
    #[arg(short = 'T', value_name = "CHECKPOINT")]
    checkpoint: Option<u64>,
    /// Omit missing log devices, as `pool import -m` does
    #[arg(short = 'm', long)]
    without_log: bool,
    /// Look for remains of the labels of these devices, which have lost all of them. Verify what
    /// the remains lead to, and show what would be written. Name the POOL if the devices have
    /// traces of several
    #[arg(long, conflicts_with_all = ["paths", "checkpoint", "without_log"], requires = "what")]
    rebuild_labels: bool,
    /// Write the labels, with --rebuild-labels
    #[arg(short = 'y', long, requires = "rebuild_labels")]
    yes: bool,
    /// JSON: everything that was found
    #[arg(long)]
    json: bool,
    /// Name or number of the pool, or files and devices of it
    #[arg(value_name = "POOL|FILE", value_hint = ValueHint::AnyPath)]
    what: Vec<String>,
}

pub(in super::super) fn run(program: &Program, t: &mut Terminal<'_>, args: &CheckArgs) -> Done {
    let mut paths = args.paths.clone();
    let mut pool = None;
    for word in &args.what {
        if word.contains('/') || std::path::Path::new(word).exists() {
            paths.push(PathBuf::from(word));
        } else {
            pool = Some(word.clone());
        }
    }
    let paths: Result<Vec<PathBuf>, _> = paths.iter().map(|path| absolute(path)).collect();
    if args.rebuild_labels {
        let asked = RebuildLabels {
            paths: paths?,
            pool,
            write: args.yes,
        };
        return super::rebuild_labels::run(program, t, &asked, args.json);
    }
    let is_shown = std::io::stderr().is_terminal() && !args.json;
    let err = &mut *t.err;
    let mut progress = |done: u64, all: u64| {
        if is_shown {
            let percent = done as f64 * 100.0 / all.max(1) as f64;
            // If the progress cannot be shown, the check goes on.
            let _ = write!(err, "\r{percent:5.1}% of {} verified ", format_size(all));
            let _ = err.flush();
        }
    };
    let asked = CheckPool {
        paths: paths?,
        pool,
        checkpoint: args.checkpoint,
        without_log: args.without_log,
    };
    let result = (program.check_pool)(&asked, &mut progress);
    if is_shown {
        write!(t.err, "\r{:40}\r", "")?;
    }
    let view = result?;
    if args.json {
        json(t, &view)?;
    } else {
        write!(t.out, "{}", report(&view))?;
    }
    match view.findings.is_empty() {
        true => Ok(()),
        false => Err(Failure::Said),
    }
}

pub(super) fn report(view: &CheckView) -> String {
    let mut text = format!(
        "   pool: {}\n     id: {}\n  as of: {}\n",
        view.name,
        view.guid,
        utc(view.checkpoint_s)
    );
    for device in &view.missing {
        text.push_str(&format!(
            "missing: {device}; its contents were not checked\n"
        ));
    }
    text.push_str(&format!(
        "checked: {}, {}, {}, {}; {} verified in all copies\n",
        counted(view.datasets, "dataset"),
        counted(view.blocks, "block"),
        counted(view.nodes, "node"),
        format_size(view.needed),
        view.verified
    ));
    for device in &view.wrong {
        text.push_str(&format!("  wrong: {}\n", what_it_did(device)));
    }
    if view.findings.is_empty() {
        let copies = match view.missing.is_empty() {
            true => "every copy is right",
            false => "every checked copy is right",
        };
        text.push_str(&format!(
            " result: no two blocks share a place, and {copies}\n"
        ));
        return text;
    }
    let total = view.findings.len() as u64 + view.more_findings;
    text.push_str(&format!(" result: {}\n", counted(total, "finding")));
    // The findings of one kind follow each other, the worst first.
    let found = view.findings.iter();
    let mut kinds: Vec<&str> = found.map(|found| found.kind.as_str()).collect();
    kinds.dedup();
    for kind in kinds {
        let found: Vec<_> = view
            .findings
            .iter()
            .filter(|one| one.kind == kind)
            .collect();
        text.push_str(&format!(
            "\n{kind} ({}): {}\n",
            found.len(),
            found[0].action
        ));
        for finding in found.iter().take(TOLD) {
            text.push_str(&format!("\t{}\n", finding.text));
        }
        if found.len() > TOLD {
            text.push_str(&format!(
                "\tand {} more; --json lists all\n",
                found.len() - TOLD
            ));
        }
    }
    text
}

fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        more => format!("{more} {what}s"),
    }
}

/// Returns, in words, what a device did wrong.
fn what_it_did(device: &WrongDevice) -> String {
    let times = |count: u64, what: &str| match count {
        0 => None,
        1 => Some(format!("{what} once")),
        more => Some(format!("{what} {more} times")),
    };
    let what = [
        times(device.checksum, "gave wrong bytes"),
        times(device.read, "failed to read"),
    ];
    let what: Vec<String> = what.into_iter().flatten().collect();
    format!("{} {}", device.path, what.join(" and "))
}
