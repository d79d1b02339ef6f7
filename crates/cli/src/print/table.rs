//! The listings of all verbs: aligned columns for people, tab-separated for scripts, JSON for
//! programs.

use clap::Args;
use serde::Serialize;

use self::fold::align;
use crate::Terminal;
use model::Error;
use model::quantity::format_size;
use shown::{is_obeyed, plain};

mod fold;

/// Options for the form of a listing.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ListArgs {
    /// Columns to show, comma-separated; `-o help` lists them
    #[arg(
        short = 'o',
        long = "columns",
        value_name = "a,b",
        value_delimiter = ','
    )]
    columns: Vec<String>,
    /// No header, columns separated by one tab
    #[arg(short = 'H', long = "scripted")]
    scripted: bool,
    /// Exact numbers: bytes and seconds
    #[arg(short = 'p', long = "exact")]
    exact: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["columns", "scripted", "exact"])]
    pub(crate) json: bool,
}

impl ListArgs {
    /// Reports whether people, and no program, read the output.
    pub(crate) fn is_for_people(&self) -> bool {
        !self.scripted && !self.json
    }

    /// Returns the columns that `-o` names, or none without it.
    pub(crate) fn named_columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the form in which numbers are written.
    pub(crate) fn numbers(&self) -> Numbers {
        match self.exact {
            true => Numbers::Exact,
            false => Numbers::Short,
        }
    }
}

/// One column of a listing of `T`.
pub(crate) struct Column<T> {
    name: &'static str,
    right: bool,
    default: bool,
    /// Whether the cells hold colours of our own.
    has_colours: bool,
    cell: fn(&T, Numbers) -> String,
}

impl<T> Column<T> {
    /// Returns the cell of a row. A terminal obeys nothing in it but our own colours.
    fn shown(&self, row: &T, numbers: Numbers) -> String {
        let text = (self.cell)(row, numbers);
        match self.has_colours {
            true => text,
            false => plain(&text),
        }
    }

    /// Returns the cell of a row.
    #[cfg(test)]
    pub(crate) fn cell(&self, row: &T, numbers: Numbers) -> String {
        (self.cell)(row, numbers)
    }
}

/// Returns a column of words.
pub(crate) const fn left<T>(name: &'static str, cell: fn(&T, Numbers) -> String) -> Column<T> {
    Column {
        name,
        right: false,
        default: true,
        has_colours: false,
        cell,
    }
}

/// Returns a column of numbers.
pub(crate) const fn right<T>(name: &'static str, cell: fn(&T, Numbers) -> String) -> Column<T> {
    Column {
        name,
        right: true,
        default: true,
        has_colours: false,
        cell,
    }
}

/// Returns a column that is shown only if `-o` names it.
pub(crate) const fn extra<T>(mut column: Column<T>) -> Column<T> {
    column.default = false;
    column
}

/// Returns a column whose cells hold colours. Their texts are all our own.
pub(crate) const fn coloured<T>(mut column: Column<T>) -> Column<T> {
    column.has_colours = true;
    column
}

/// Form in which numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Short numbers, such as `10G` and `3d 4h`.
    Short,
    /// Exact numbers, in bytes and seconds.
    Exact,
}

impl Numbers {
    pub(crate) fn size(self, bytes: u64) -> String {
        match self {
            Self::Short => format_size(bytes),
            Self::Exact => bytes.to_string(),
        }
    }

    /// Returns a span of time, by its two largest units.
    pub(crate) fn span(self, seconds: u64) -> String {
        if self == Self::Exact {
            return seconds.to_string();
        }
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => format!("{seconds}s"),
            (0, 0, m) => format!("{m}m {}s", seconds % 60),
            (0, h, m) => format!("{h}h {m}m"),
            (d, h, _) => format!("{d}d {h}h"),
        }
    }
}

/// Returns `-` for an empty text: an empty cell would shift the columns of a script.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.to_owned()
    }
}

/// Prints `rows`. If there are none, prints `none` to people.
pub(crate) fn print<T: Serialize>(
    t: &mut Terminal<'_>,
    args: &ListArgs,
    columns: &[Column<T>],
    rows: &[T],
    none: &str,
) -> crate::Done {
    if args.json {
        return json(t, rows);
    }
    let shown = select(args, columns)?;
    let numbers = args.numbers();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            shown
                .iter()
                .map(|column| column.shown(row, numbers))
                .collect()
        })
        .collect();
    let header = shown.iter().map(|column| (column.name, column.right));
    print_cells(t, args, &header.collect::<Vec<_>>(), &cells, none)
}

/// Prints a table of columns, given by their names and their alignment (`true` is right). If the
/// table has no rows, prints `none` to people.
pub(crate) fn print_cells(
    t: &mut Terminal<'_>,
    args: &ListArgs,
    columns: &[(&str, bool)],
    cells: &[Vec<String>],
    none: &str,
) -> crate::Done {
    if args.scripted {
        for row in cells {
            writeln!(t.out, "{}", row.join("\t"))?;
        }
        return Ok(());
    }
    if cells.is_empty() {
        writeln!(t.err, "{none}")?;
        return Ok(());
    }
    let header: Vec<String> = columns
        .iter()
        .map(|(name, _)| name.to_uppercase())
        .collect();
    let right: Vec<bool> = columns.iter().map(|(_, right)| *right).collect();
    for line in align(&header, &right, cells, t.width) {
        writeln!(t.out, "{line}")?;
    }
    Ok(())
}

/// Returns one row as a line of its own, for listings that never end.
pub(crate) fn line<T>(args: &ListArgs, columns: &[Column<T>], row: &T) -> Result<String, Error> {
    let shown = select(args, columns)?;
    let cells = shown.iter().map(|column| column.shown(row, args.numbers()));
    let gap = if args.scripted { "\t" } else { "  " };
    Ok(cells.collect::<Vec<_>>().join(gap))
}

/// Prints anything as JSON.
pub(crate) fn json<T: Serialize + ?Sized>(t: &mut Terminal<'_>, value: &T) -> crate::Done {
    let text = serde_json::to_string_pretty(value).map_err(unwritable)?;
    Ok(writeln!(t.out, "{}", escaped(&text))?)
}

/// Prints anything as JSON on one line, for one of several reports.
pub(crate) fn json_line<T: Serialize + ?Sized>(t: &mut Terminal<'_>, value: &T) -> crate::Done {
    let text = serde_json::to_string(value).map_err(unwritable)?;
    Ok(writeln!(t.out, "{}", escaped(&text))?)
}

/// Escapes what JSON may hold as it is, and a terminal obeys. The value stays the same.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match is_obeyed(letter) && letter != '\n' {
            true => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            false => out.push(letter),
        }
    }
    out
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::invalid(
        format!("the answer cannot be written as JSON: {error}"),
        "report this as a defect",
    )
}

fn select<'a, T>(args: &ListArgs, columns: &'a [Column<T>]) -> Result<Vec<&'a Column<T>>, Error> {
    if args.columns.is_empty() {
        return Ok(columns.iter().filter(|column| column.default).collect());
    }
    let find = |wanted: &String| {
        let known = || {
            columns
                .iter()
                .map(|column| column.name)
                .collect::<Vec<_>>()
                .join(",")
        };
        let found = columns
            .iter()
            .find(|column| column.name.eq_ignore_ascii_case(wanted.trim()));
        found.ok_or_else(|| {
            let message = match wanted.as_str() {
                "help" => "no column was chosen".to_owned(),
                other => format!("there is no column {other:?}"),
            };
            Error::invalid(message, format!("choose from -o {}", known()))
        })
    };
    args.columns.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_text_of_others() {
        let column: Column<&str> = left("name", |text, _| (*text).to_owned());
        assert_eq!(
            column.shown(&"a\u{1b}[2J\tb\n", Numbers::Short),
            "a\\u{1b}[2J\\tb\\n"
        );
        let text = "\u{9b}2J\u{7f}\n ä";
        let json = escaped(&serde_json::to_string_pretty(&[text]).expect("JSON"));
        assert!(!json.contains(['\u{9b}', '\u{7f}']), "{json}");
        let read: Vec<String> = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read, [text]);
    }

    #[test]
    fn spans_show_their_two_largest_units() {
        let short = |seconds| Numbers::Short.span(seconds);
        assert_eq!(
            [short(7), short(67), short(3661), short(90_061)],
            ["7s", "1m 7s", "1h 1m", "1d 1h"]
        );
        assert_eq!(Numbers::Exact.span(90_061), "90061");
    }
}
