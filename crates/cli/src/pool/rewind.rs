//! The cost of going back to an earlier checkpoint, in words for the administrator who decides.

use std::io;

use super::super::Terminal;
use model::date::utc;
use model::pool::rewind::RewindView;

/// Most checkpoints that are listed.
const TOLD: usize = 12;

/// Prints the cost of going back. With `is_read_only`, nothing on the devices is given up.
pub(super) fn tell(
    t: &mut Terminal<'_>,
    pool: &str,
    rewind: &RewindView,
    is_read_only: bool,
) -> io::Result<()> {
    if rewind.is_whole {
        let (did, next) = match rewind.is_done {
            true => ("was imported", String::new()),
            false => (
                "can be imported",
                format!("\nNothing was changed; `sandstone pool import {pool}` does it."),
            ),
        };
        writeln!(
            t.out,
            "Pool {pool} {did} as it is: nothing is discarded.{next}"
        )?;
        return match rewind.is_done {
            true => Ok(()),
            false => write!(t.out, "{}", older(rewind)),
        };
    }
    let (verb, gave) = match (rewind.is_done, is_read_only) {
        (true, false) => ("is back at", "Discarded"),
        (true, true) => ("is read at", "Not read"),
        (false, _) => ("can go back to", "Going back discards"),
    };
    let groups = match rewind.groups {
        0 => String::new(),
        1 => ", and one group of changes after it".to_owned(),
        more => format!(", and {more} groups of changes after it"),
    };
    writeln!(
        t.out,
        "Pool {pool} {verb} its checkpoint of {}{groups}.",
        utc(rewind.checkpoint_s)
    )?;
    match rewind.checkpoints {
        0 => writeln!(
            t.out,
            "{gave}: all changes after those, up to the moment when the pool was last in use."
        )?,
        more => writeln!(
            t.out,
            "{gave}: {more} newer checkpoint{}, the newest of {} ({} later), and all changes after {}.",
            if more == 1 { "" } else { "s" },
            utc(rewind.newest_s),
            seconds(rewind.newest_s.saturating_sub(rewind.checkpoint_s)),
            if more == 1 { "it" } else { "them" },
        )?,
    }
    if let Some(damage) = &rewind.damage {
        writeln!(t.out, "Damage there: {damage}.")?;
    }
    if rewind.is_doubtful {
        writeln!(
            t.out,
            "Blocks of a state this old may have been overwritten: reading them gives errors, never wrong \
             bytes.{}",
            match is_read_only {
                true => "",
                false => " A scrub names all of them.",
            }
        )?;
    }
    let volumes = match rewind.datasets.is_empty() {
        true => "none".to_owned(),
        false => rewind.datasets.join(", "),
    };
    writeln!(t.out, "Volumes and snapshots there: {volumes}")?;
    match &rewind.gone {
        None => writeln!(
            t.out,
            "The newest state cannot be read, so it is unknown which volumes and snapshots it has."
        )?,
        Some(gone) => {
            for (what, names) in [
                ("Not there, but in the newest state", gone),
                ("There, but not in the newest state", &rewind.returned),
            ] {
                if !names.is_empty() {
                    writeln!(t.out, "{what}: {}", names.join(", "))?;
                }
            }
        }
    }
    match rewind.is_done {
        true if is_read_only => writeln!(
            t.out,
            "Nothing was changed. Next: copy what is needed, then `sandstone pool export {pool}`."
        ),
        true => writeln!(t.out, "Next: `sandstone pool scrub {pool}`."),
        false => {
            let told = "Nothing was changed. The same command without -n goes back; discarded changes cannot \
                        be recovered.";
            write!(t.out, "{told}\n{}", older(rewind))
        }
    }
}

/// Returns the checkpoints that the pool could go back to instead.
fn older(rewind: &RewindView) -> String {
    let others = rewind.known.iter();
    let others = others.filter(|of| of.number < rewind.checkpoint);
    let others: Vec<String> = others
        .map(|of| format!("    {:>8}  {}\n", of.number, utc(of.time_s)))
        .collect();
    if others.is_empty() {
        return String::new();
    }
    let mut text = "Older checkpoints (-T goes back to one, `pool check -T` first verifies what is left of it):\n".to_owned();
    text.extend(others.iter().take(TOLD).cloned());
    if others.len() > TOLD {
        text.push_str(&format!(
            "    and {} more; --json lists all\n",
            others.len() - TOLD
        ));
    }
    text
}

fn seconds(s: u64) -> String {
    match s {
        1 => "1 second".to_owned(),
        more => format!("{more} seconds"),
    }
}
