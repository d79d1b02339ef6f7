//! `top -b`: rows of CSV as Windows' Performance Monitor and esxtop write them, for programs that
//! read those.
//!
//! - Every field stands in double quotes, with commas between, and a line ends with a line feed.
//! - The columns are those of the first snapshot, and those of one object stand together: readers
//!   begin a new record at each change of the object, and drop rows of another length. So an object
//!   that comes later is not told. One that goes away counts as 0: readers take each field for a
//!   number, and a blank stops some of them.
//! - The first row comes after one interval.

use std::collections::{BTreeMap, BTreeSet};

use model::date;
use model::figures::Snapshot;

use self::objects::{Measured, measured};
use super::Top;
use super::rows::Side;
use crate::figures::rates::fetch;
use crate::grammar::repeated::Plan;
use crate::{Connection, Done, Terminal};

mod counters;
mod objects;

/// Objects of the first snapshot, in their order, with their columns.
#[derive(Debug)]
struct Columns {
    /// Identity of each object, and its counters.
    objects: Vec<(String, &'static [&'static str])>,
    /// Path of each object without its counter: `\\san1\Category(instance)`.
    paths: Vec<String>,
}

/// Writes rows until the count is reached or the output is closed.
pub(super) fn run(args: &Top, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let plan = Plan::rows(args.delay.unwrap_or(super::DELAY), args.count);
    let mut before = Snapshot::default();
    let mut sheet: Option<(Columns, Side)> = None;
    plan.follow(|shown| {
        let now = fetch::after(&client, &before)?;
        let earlier = fetch::comparable(std::mem::take(&mut before), &now);
        match &sheet {
            None => {
                let side = args.side().unwrap_or_else(|| Side::of(&now));
                let columns = Columns::of(&measured(side, &earlier, &now), &machine());
                write!(t.out, "{}", columns.header())?;
                sheet = Some((columns, side));
            }
            Some((columns, side)) if shown.is_some() => {
                let measured = measured(*side, &earlier, &now);
                let time = (now.began_unix_ms + now.at_us / 1000) / 1000;
                write!(t.out, "{}", columns.row(time, measured))?;
            }
            Some(_) => {}
        }
        t.out.flush()?;
        before = now;
        Ok(())
    })
}

/// Returns the name of this machine.
fn machine() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

impl Columns {
    /// Returns the columns of these objects.
    fn of(measured: &[Measured], machine: &str) -> Self {
        let mut taken = BTreeSet::new();
        let mut paths = Vec::with_capacity(measured.len());
        for of in measured {
            let path = |number: u32| {
                let instance = plain(&of.instance);
                let instance = match number {
                    1 => instance,
                    number => format!("{instance}_{number}"),
                };
                format!("\\\\{}\\{}({instance})", plain(machine), of.category)
            };
            // Names that differ only in what an instance cannot have would be one column.
            let mut number = 1;
            while !taken.insert(path(number)) {
                number += 1;
            }
            paths.push(path(number));
        }
        let objects = measured.iter();
        Self {
            objects: objects.map(|of| (of.key.clone(), of.counters)).collect(),
            paths,
        }
    }

    /// Returns the line with the names of all columns.
    fn header(&self) -> String {
        let mut fields = vec!["(PDH-CSV 4.0) (UTC)(0)".to_owned()];
        for ((_, counters), path) in self.objects.iter().zip(&self.paths) {
            fields.extend(counters.iter().map(|counter| format!("{path}\\{counter}")));
        }
        line(&fields)
    }

    /// Returns the line of a moment, in seconds since 1970.
    fn row(&self, time_s: u64, measured: Vec<Measured>) -> String {
        let mut by_key: BTreeMap<String, Vec<f64>> =
            measured.into_iter().map(|of| (of.key, of.values)).collect();
        let mut fields = vec![date::month_first(time_s)];
        for (key, counters) in &self.objects {
            let values = by_key.remove(key).unwrap_or_default();
            let values = values.into_iter().chain(std::iter::repeat(0.0));
            fields.extend(
                values
                    .take(counters.len())
                    .map(|value| format!("{value:.2}")),
            );
        }
        line(&fields)
    }
}

fn line(fields: &[String]) -> String {
    format!("\"{}\"\n", fields.join("\",\""))
}

/// Returns a name without what would end an instance, a path, a field or a line.
fn plain(name: &str) -> String {
    let is_harmful = |c: char| c.is_control() || matches!(c, '(' | ')' | '\\' | '"' | ',');
    name.chars()
        .map(|c| if is_harmful(c) { '_' } else { c })
        .collect()
}

#[cfg(test)]
mod tests;
