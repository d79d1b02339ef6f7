//! The part of a view that is on the screen: rows sorted, filtered and opened, in the columns for
//! which there is room, as text.

use std::cmp::Ordering;

use ratatui::text::Span;

use super::fields::{Field, View};
use super::rows::{Cell, Row};
use super::saved::Layout;
use super::screen::Opened;

/// Fewest characters of a column of names.
const NARROWEST: u16 = 8;

/// Column by which rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// The natural order of the view.
    #[default]
    Natural,
    /// The numbers of a column, the largest first.
    Largest(usize),
}

/// Line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Identity of the row.
    pub(super) key: String,
    /// Identity of the outermost row above it, or its own.
    pub(super) top: String,
    /// Text of the line.
    pub(super) text: String,
}

/// Lines of a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// Titles of the columns.
    pub(super) header: String,
    /// Columns, each with its first character and its number.
    pub(super) columns: Vec<(u16, usize)>,
    /// All lines, also those below the end of the screen.
    pub(super) lines: Vec<Line>,
}

/// Form of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form<'a> {
    /// View that is shown.
    pub(super) view: View,
    /// Chosen columns.
    pub(super) layout: &'a Layout,
    /// Whether quantiles are shown.
    pub(super) quantiles: bool,
    /// Most characters of names.
    pub(super) name_width: u16,
    /// Order of the rows.
    pub(super) sort: Sort,
    /// Text that a row or one beneath it must have.
    pub(super) filter: &'a str,
    /// Rows that show what is beneath them.
    pub(super) opened: &'a Opened,
}

impl Form<'_> {
    /// Returns the table of these rows on a screen with this many columns.
    pub(super) fn table(&self, mut rows: Vec<Row>, width: u16) -> Table {
        let filter = self.filter.to_lowercase();
        rows.retain(|row| matches(row, &filter));
        let fields = self.view.fields();
        let columns = self.fitting(width, self.longest_name(&rows));
        let mut table = Table::default();
        let mut at = 0;
        for (number, width) in &columns {
            table.columns.push((at, *number));
            at += width + 1;
        }
        let titles = columns.iter().map(|(number, width)| {
            let field = &fields[*number];
            pad(field.title, *width, field.is_words)
        });
        table.header = titles.collect::<Vec<_>>().join(" ");
        self.add(rows, &columns, None, &mut table.lines);
        table
    }

    fn add(
        &self,
        mut rows: Vec<Row>,
        columns: &[(usize, u16)],
        top: Option<&str>,
        lines: &mut Vec<Line>,
    ) {
        if let Sort::Largest(column) = self.sort {
            rows.sort_by(|a, b| largest_first(a.cells.get(column), b.cells.get(column)));
        }
        for row in rows {
            let top = top.unwrap_or(&row.key).to_owned();
            let cells = columns.iter().map(|(number, width)| {
                let text = row.cells.get(*number).map_or_else(String::new, Cell::text);
                pad(&text, *width, self.view.fields()[*number].is_words)
            });
            lines.push(Line {
                text: cells.collect::<Vec<_>>().join(" "),
                key: row.key.clone(),
                top: top.clone(),
            });
            if self.opened.shows_children(self.view, &row.key) {
                self.add(row.children, columns, Some(&top), lines);
            } else if self.opened.shows_paths(self.view, &row.key) {
                self.add(row.paths, columns, Some(&top), lines);
            }
        }
    }

    /// Returns the columns for which there is room, each with its width. The least important give
    /// way first, then names become narrower.
    fn fitting(&self, width: u16, longest_name: u16) -> Vec<(usize, u16)> {
        let fields = self.view.fields();
        let is_shown = |number: &&usize| !fields[**number].is_quantile;
        let chosen = self.layout.columns.iter().filter(is_shown).copied();
        let quantiles = (0..fields.len()).filter(|n| self.quantiles && fields[*n].is_quantile);
        let mut columns: Vec<(usize, u16)> = chosen
            .chain(quantiles)
            .map(|number| match fields[number].width {
                // Names leave room for figures.
                0 => (number, longest_name.min((width / 3).max(NARROWEST))),
                width => (number, width),
            })
            .collect();
        while total(&columns) > width {
            let least = columns.iter().enumerate();
            let least = least.max_by_key(|(at, (number, _))| (self.rank(&fields[*number]), *at));
            match least.map(|(at, (number, _))| (at, self.rank(&fields[*number]))) {
                Some((at, rank)) if rank > 0 => drop(columns.remove(at)),
                _ => break,
            }
        }
        let missing = total(&columns).saturating_sub(width);
        for (number, own) in &mut columns {
            if fields[*number].width == 0 {
                *own = own.saturating_sub(missing).max(NARROWEST);
            }
        }
        columns
    }

    /// Returns the order in which a column gives way. What tells rows beneath others apart matters
    /// while any are shown.
    fn rank(&self, field: &Field) -> u8 {
        match field.is_words && field.rank > 1 && self.opened.any(self.view) && field.width >= 16 {
            true => 1,
            false => field.rank,
        }
    }

    /// Returns the characters that the names of these rows take, at most as many as the user wants.
    fn longest_name(&self, rows: &[Row]) -> u16 {
        let Some(field) = self.view.fields().iter().position(|field| field.width == 0) else {
            return 0;
        };
        let title = self.view.fields()[field].title.len();
        let longest = longest(rows, field).max(title).max(NARROWEST.into());
        u16::try_from(longest)
            .unwrap_or(u16::MAX)
            .min(self.name_width)
    }
}

fn longest(rows: &[Row], field: usize) -> usize {
    let own = |row: &Row| {
        row.cells
            .get(field)
            .map_or(0, |cell| Span::raw(cell.text()).width())
    };
    let beneath = |row: &Row| longest(&row.children, field).max(longest(&row.paths, field));
    rows.iter()
        .map(|row| own(row).max(beneath(row)))
        .max()
        .unwrap_or(0)
}

fn total(columns: &[(usize, u16)]) -> u16 {
    let widths: u16 = columns.iter().map(|(_, width)| width).sum();
    widths + (columns.len() as u16).saturating_sub(1)
}

/// Reports whether a row or one beneath it has words with this text.
fn matches(row: &Row, filter: &str) -> bool {
    let in_words =
        |cell: &Cell| matches!(cell, Cell::Words(words) if words.to_lowercase().contains(filter));
    filter.is_empty()
        || row.cells.iter().any(in_words)
        || row.children.iter().any(|child| matches(child, filter))
        || row.paths.iter().any(|path| matches(path, filter))
}

/// Orders cells: larger numbers first, cells without a number last.
fn largest_first(a: Option<&Cell>, b: Option<&Cell>) -> Ordering {
    let number = |cell: Option<&Cell>| cell.and_then(Cell::number);
    match (number(a), number(b)) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// Returns a text with exactly this width. What is left out of a long text is its middle: names of
/// one kind differ at their ends.
fn pad(text: &str, width: u16, is_words: bool) -> String {
    let width = usize::from(width);
    let text = match Span::raw(text).width() > width {
        true if is_words => shortened(text, width),
        true => "#".repeat(width),
        false => text.to_owned(),
    };
    let blanks = " ".repeat(width.saturating_sub(Span::raw(text.as_str()).width()));
    match is_words {
        true => text + &blanks,
        false => blanks + &text,
    }
}

fn shortened(text: &str, width: usize) -> String {
    let head = width / 3;
    let take = |chars: &mut dyn Iterator<Item = char>, most: usize| {
        let mut taken = Vec::new();
        let mut used = 0;
        for c in chars {
            let own = Span::raw(c.to_string()).width();
            if used + own > most {
                break;
            }
            used += own;
            taken.push(c);
        }
        taken
    };
    let first: String = take(&mut text.chars(), head).into_iter().collect();
    let mut last = take(&mut text.chars().rev(), width.saturating_sub(head + 1));
    last.reverse();
    let last: String = last.into_iter().collect();
    format!("{first}~{last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, reads: f64) -> Row {
        let mut cells = vec![Cell::Unknown; View::Devices.fields().len()];
        cells[0] = Cell::Words(name.into());
        let column = View::Devices.field("READS/s").expect("a column");
        cells[column] = Cell::Number(reads);
        Row {
            key: name.into(),
            cells,
            ..Row::default()
        }
    }

    fn table(rows: Vec<Row>, width: u16, change: impl FnOnce(&mut Form<'_>)) -> Table {
        let (layout, opened) = (Layout::of(View::Devices), Opened::default());
        let mut form = Form {
            view: View::Devices,
            layout: &layout,
            quantiles: false,
            name_width: 28,
            sort: Sort::Natural,
            filter: "",
            opened: &opened,
        };
        change(&mut form);
        form.table(rows, width)
    }

    #[test]
    fn columns_give_way_by_rank_and_never_the_name() {
        for width in 10..=220 {
            let told = table(vec![row("vm1", 1.0)], width, |_| ());
            let mut lines = told.lines.iter().map(|line| line.text.as_str());
            let widest = lines.clone().chain([told.header.as_str()]).map(str::len);
            assert!(widest.max() <= Some(width.into()), "{width}: {told:?}");
            assert!(told.header.starts_with("DEVICE"), "{width}");
            assert!(lines.all(|line| line.starts_with("vm1")), "{width}");
        }
        let header = table(Vec::new(), 80, |_| ()).header;
        for title in ["CMDS/s", "READS/s", "MBWRTN/s", "DAVG/cmd", "KAVG/cmd"] {
            assert!(header.contains(title), "{header}");
        }
        let header = table(Vec::new(), 200, |_| ()).header;
        let all = "PATH/WORLD/PARTITION  DQLEN  WQLEN  ACTV  QUED   %USD   LOAD    CMDS/s   \
                   READS/s  WRITES/s  MBREAD/s  MBWRTN/s DAVG/cmd KAVG/cmd GAVG/cmd QAVG/cmd";
        assert!(header.ends_with(all), "{header}");
        let header = table(Vec::new(), 80, |form| form.quantiles = true).header;
        assert!(
            header.contains("P99/rd") && header.contains("P99/wr"),
            "{header}"
        );
    }

    #[test]
    fn rows_are_sorted_and_filtered() {
        let rows = || vec![row("a", 1.0), row("B", 3.0), row("ab", 2.0)];
        let keys =
            |told: Table| -> Vec<String> { told.lines.into_iter().map(|line| line.key).collect() };
        let column = View::Devices.field("READS/s").expect("a column");
        assert_eq!(keys(table(rows(), 80, |_| ())), ["a", "B", "ab"]);
        let sorted = table(rows(), 80, |form| form.sort = Sort::Largest(column));
        assert_eq!(keys(sorted), ["B", "ab", "a"]);
        let filtered = table(rows(), 80, |form| form.filter = "b");
        assert_eq!(keys(filtered), ["B", "ab"]);
    }

    #[test]
    fn long_names_lose_their_middle_and_numbers_never_a_digit() {
        assert_eq!(pad("iqn.2026-01.io.sandstone:a", 10, true), "iqn~tone:a");
        assert_eq!(pad("vm1", 5, true), "vm1  ");
        assert_eq!(pad("12.50", 8, false), "   12.50");
        assert_eq!(pad("1234567.00", 8, false), "########");
        assert_eq!(pad("\u{6f22}\u{5b57}", 6, true), "\u{6f22}\u{5b57}  ");
    }
}
