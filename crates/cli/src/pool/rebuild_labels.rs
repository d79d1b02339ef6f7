//! `pool check --rebuild-labels`: devices that lost all their labels. Exit code 0: they have labels
//! now, or would get labels with `-y`.

use std::io::IsTerminal as _;

use super::super::{Done, Program, Terminal};
use super::check::report;
use crate::print::table::json;
use model::pool::rebuild_labels::{RebuildLabels, RebuildProgress, RebuildView, RebuiltDevice};
use model::quantity::format_size;

pub(super) fn run(
    program: &Program,
    t: &mut Terminal<'_>,
    asked: &RebuildLabels,
    as_json: bool,
) -> Done {
    let is_shown = std::io::stderr().is_terminal() && !as_json;
    let err = &mut *t.err;
    let mut progress = |at: RebuildProgress<'_>| {
        let percent = |done: u64, all: u64| done as f64 * 100.0 / all.max(1) as f64;
        let text = match at {
            _ if !is_shown => return,
            RebuildProgress::Searches(path, done, all) => {
                format!("{:5.1}% of {} searched", percent(done, all), path.display())
            }
            RebuildProgress::Proves(done, all) => {
                format!(
                    "{:5.1}% of {} verified",
                    percent(done, all),
                    format_size(all)
                )
            }
            RebuildProgress::Watches => "watching whether another host uses the devices".to_owned(),
        };
        // If the progress cannot be shown, the work goes on.
        let _ = write!(err, "\r\x1b[K{text} ");
        let _ = err.flush();
    };
    let result = (program.rebuild_labels)(asked, &mut progress);
    if is_shown {
        write!(t.err, "\r\x1b[K")?;
    }
    let view = result?;
    match as_json {
        true => json(t, &view),
        false => Ok(write!(t.out, "{}", told(&view, asked))?),
    }
}

fn told(view: &RebuildView, asked: &RebuildLabels) -> String {
    let mut text = report(&view.proof);
    let had = match view.is_exported {
        true => format!("{}, which exported it", view.host),
        false => format!("{}, which did not export it", view.host),
    };
    text.push_str(&format!(
        " newest: checkpoint {}; the pool was last in use by {had}\n",
        view.epoch
    ));
    for away in &view.unaccounted {
        text.push_str(&format!(
            "warning: the pool may have been used on {away} without these devices; its newest changes are \
             then there only\n"
        ));
    }
    for behind in &view.behind {
        text.push_str(&format!(
            "behind: {behind}; it is rebuilt from the other devices before it is used as a copy\n"
        ));
    }
    text.push('\n');
    for device in &view.devices {
        text.push_str(&device_told(device, view.is_written));
    }
    text.push('\n');
    let named: String = asked
        .paths
        .iter()
        .map(|path| format!(" {}", path.display()))
        .collect();
    let from: String = asked
        .paths
        .iter()
        .map(|path| format!(" -d {}", path.display()))
        .collect();
    let pool = asked
        .pool
        .as_ref()
        .map(|pool| format!(" {pool}"))
        .unwrap_or_default();
    text.push_str(&match view.is_written {
        true => format!(
            "The labels are written. Import the pool with `sandstone pool import{from} {}`.\n",
            view.name
        ),
        false => format!(
            "Nothing was changed. To write these labels: `sandstone pool check --rebuild-labels -y{named}{pool}`\n"
        ),
    });
    text
}

fn device_told(device: &RebuiltDevice, is_written: bool) -> String {
    let (path, leaf) = (device.path.display(), &device.leaf);
    let bytes = |all: &[u64]| {
        let all: Vec<String> = all.iter().map(u64::to_string).collect();
        all.join(", ")
    };
    if device.labels_at.is_empty() {
        return format!("{path} (device {leaf}) has labels of its own; they stay as they are\n");
    }
    let verb = if is_written {
        "are written"
    } else {
        "would be written"
    };
    let found = match &device.found_at[..] {
        [one] => format!("one inner label, at byte {one}; the other is lost"),
        both => format!("inner labels at bytes {}", bytes(both)),
    };
    format!(
        "{path} is device {leaf}: {found}\n\tlabels {verb} at bytes {}\n",
        bytes(&device.labels_at)
    )
}
