//! Hindrances of logical units, in lines for people, and `lu clear`, which ends those that have no
//! other verb.

use clap::Args;

use crate::edit::{EditArgs, go_on};
use crate::grammar::completion::lu_names;
use crate::print::table;
use crate::{Connection, Done, Terminal};
use control::endpoint::lu;
use model::Error;
use model::hindrance::{Cleared, Hindrance, HindranceKind};

/// Most lines at the end of a listing.
const MOST_LINES: usize = 12;
/// Most units that a line names.
const MOST_UNITS: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct Clear {
    /// Name of the logical unit
    #[arg(add = lu_names())]
    name: String,
    /// Word of the state in `lu list NAME`
    #[arg(value_name = "STATE", value_parser = clap::builder::PossibleValuesParser::new(HindranceKind::clearable()))]
    kind: String,
    #[command(flatten)]
    edit: EditArgs,
}

/// Ends a state that stops I/O of a unit.
pub(crate) fn clear(args: &Clear, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let (name, edit) = (&args.name, &args.edit);
    let ask = |dry_run: bool| -> Result<Cleared, Error> {
        let how = lu::Clear { dry_run };
        client.ask(&lu::CLEAR, &[name, &args.kind], &how, &())
    };
    let kind = HindranceKind::of_word(&args.kind);
    let danger = kind.and_then(HindranceKind::danger);
    if let Some(danger) = danger.filter(|_| !edit.dry_run && !edit.yes) {
        let found = ask(true)?.ended;
        if !found.is_empty() {
            confirm(t, name, &found, danger)?;
        }
    }
    let cleared = ask(edit.dry_run)?;
    if edit.json {
        return table::json(t, &cleared);
    }
    for hindrance in &cleared.ended {
        let (word, finding) = (hindrance.kind.word(), &hindrance.finding);
        let end = if edit.dry_run { "would end" } else { "ended" };
        writeln!(t.out, "lu {name}: {end}: {word} ({finding})")?;
    }
    if cleared.ended.is_empty() {
        writeln!(t.out, "nothing to end: lu {name} has no {}", args.kind)?;
    }
    if edit.dry_run {
        writeln!(t.out, "nothing was changed (--dry-run)")?;
    }
    Ok(())
}

fn confirm(t: &mut Terminal<'_>, name: &str, found: &[Hindrance], danger: &str) -> Done {
    for hindrance in found {
        let (word, finding) = (hindrance.kind.word(), &hindrance.finding);
        writeln!(t.err, "lu {name}: it would end: {word} ({finding})")?;
    }
    writeln!(t.err, "{danger}")?;
    go_on(t)
}

/// Returns one line for each hindrance found, with its units, the gravest first.
pub(crate) fn lines<'a>(found: impl Iterator<Item = (&'a str, &'a Hindrance)>) -> Vec<String> {
    let mut groups: Vec<(&Hindrance, Vec<&str>)> = Vec::new();
    for (unit, hindrance) in found {
        match groups.iter_mut().find(|(other, _)| *other == hindrance) {
            Some((_, units)) => units.push(unit),
            None => groups.push((hindrance, vec![unit])),
        }
    }
    groups.sort_by_key(|(hindrance, _)| rank(hindrance.kind));
    let mut lines: Vec<String> = groups
        .iter()
        .map(|(hindrance, units)| format!("lu {}: {}", named(units), hindrance.told()))
        .collect();
    if lines.len() > MOST_LINES {
        let left = lines.len() - MOST_LINES;
        lines.truncate(MOST_LINES);
        lines.push(format!(
            "and {left} more: sandstone lu list -o name,hindrances"
        ));
    }
    lines
}

/// Returns the rank of a kind. Troubles come first, reservations of clusters late, and wishes of
/// the administrator last.
fn rank(kind: HindranceKind) -> u8 {
    match kind {
        HindranceKind::Fault
        | HindranceKind::LostWrites
        | HindranceKind::Full
        | HindranceKind::Stopped
        | HindranceKind::Sanitize
        | HindranceKind::SanitizeFailed
        | HindranceKind::WriteProtect => 0,
        HindranceKind::AluaChoice | HindranceKind::Threshold => 1,
        HindranceKind::Reservation | HindranceKind::PersistentReservation => 2,
        HindranceKind::Offline
        | HindranceKind::Alua
        | HindranceKind::ReadOnly
        | HindranceKind::ReadOnlyBeneath => 3,
    }
}

fn named(units: &[&str]) -> String {
    let shown = units[..units.len().min(MOST_UNITS)].join(", ");
    match units.len().checked_sub(MOST_UNITS) {
        Some(more @ 1..) => format!("{shown} and {more} more"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::hindrance::Stops;

    fn found(kind: HindranceKind, finding: &str) -> Hindrance {
        Hindrance {
            kind,
            stops: Stops::Everything,
            by: None,
            binds_only: None,
            target_port_group: None,
            finding: finding.into(),
            end: Some("sandstone do it".into()),
        }
    }

    #[test]
    fn units_with_one_trouble_share_a_line_and_many_troubles_are_counted() {
        let alua = found(HindranceKind::Alua, "group 2 is standby");
        let stopped = found(HindranceKind::Stopped, "x stopped it");
        let units = ["a", "b", "c", "d", "e", "f"];
        let all = units.iter().map(|unit| (*unit, &alua));
        let told = lines(all.chain([("b", &stopped)]));
        assert_eq!(
            told,
            [
                "lu b: stopped: x stopped it; to end it: sandstone do it",
                "lu a, b, c, d and 2 more: alua: group 2 is standby; to end it: sandstone do it",
            ]
        );
        let many: Vec<Hindrance> = (0..15)
            .map(|n| found(HindranceKind::Reservation, &format!("{n} reserved it")))
            .collect();
        let told = lines(many.iter().map(|it| ("a", it)));
        assert_eq!(told.len(), MOST_LINES + 1);
        assert_eq!(
            told[MOST_LINES],
            "and 3 more: sandstone lu list -o name,hindrances"
        );
    }
}
