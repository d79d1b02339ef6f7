//! Lines of a table that fit the terminal. If a row is too long, its last columns continue below
//! it, each cell whole. A terminal would break the line within an NAA or an iSCSI name, which then
//! cannot be copied.

use std::ops::Range;

/// Blanks between two columns.
const GAP: usize = 2;
/// Blanks before the rest of a row on the lines below.
const INDENT: usize = 4;

/// Returns the lines of a table, its header first. None is longer than `limit`, unless a single
/// cell is.
pub(super) fn align(
    header: &[String],
    right: &[bool],
    rows: &[Vec<String>],
    limit: Option<usize>,
) -> Vec<String> {
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            let cells = rows.iter().map(|row| width(&row[column]));
            cells.chain([width(&header[column])]).max().unwrap_or(0)
        })
        .collect();
    let limit = limit.unwrap_or(usize::MAX);
    let parts = parts(&widths, limit);
    let mut lines = Vec::new();
    for row in std::iter::once(header).chain(rows.iter().map(Vec::as_slice)) {
        for (number, part) in parts.iter().enumerate() {
            let indent = if number == 0 { 0 } else { INDENT };
            if part.len() == 1 && indent + widths[part.start] > limit {
                let pieces = pieces(&row[part.start], limit.saturating_sub(indent));
                lines.extend(pieces.map(|piece| format!("{}{piece}", " ".repeat(indent))));
                continue;
            }
            let mut line = " ".repeat(indent);
            for column in part.clone() {
                push(&mut line, &row[column], widths[column], right[column]);
            }
            lines.push(line.trim_end().to_owned());
        }
    }
    lines
}

/// Returns the columns of each line: as many as fit, and at least one.
fn parts(widths: &[usize], limit: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (column, width) in widths.iter().enumerate() {
        if column > start && used + width > limit {
            parts.push(start..column);
            (start, used) = (column, INDENT);
        }
        used += width + GAP;
    }
    parts.push(start..widths.len());
    parts
}

/// Splits a cell of several names into as few lines as hold them. A name that is longer than a line
/// gets its own.
fn pieces(cell: &str, limit: usize) -> impl Iterator<Item = String> {
    let mut pieces = vec![String::new()];
    for word in cell.split_whitespace() {
        let last = pieces.last_mut();
        match last.filter(|last| last.is_empty() || width(last) + 1 + width(word) <= limit) {
            Some(last) if last.is_empty() => last.push_str(word),
            Some(last) => last.push_str(&format!(" {word}")),
            None => pieces.push(word.to_owned()),
        }
    }
    pieces.into_iter()
}

fn push(line: &mut String, cell: &str, wide: usize, is_right: bool) {
    let gap = " ".repeat(wide - width(cell));
    let (before, after) = if is_right {
        (gap, String::new())
    } else {
        (String::new(), gap)
    };
    line.push_str(&format!("{before}{cell}{after}{}", " ".repeat(GAP)));
}

/// Returns the columns that a text takes. Escapes that colour the text take none.
fn width(text: &str) -> usize {
    let mut is_escape = false;
    let is_seen = |letter: &char| {
        let was_escape = is_escape;
        is_escape = match is_escape {
            true => *letter != 'm',
            false => *letter == '\u{1b}',
        };
        !was_escape && !is_escape
    };
    text.chars().filter(is_seen).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn numbers_stand_right_and_lines_have_no_trailing_blanks() {
        let cells = vec![texts(&["a", "10G", "x"]), texts(&["long", "1", ""])];
        let header = texts(&["NAME", "SIZE", "NOTE"]);
        assert_eq!(
            align(&header, &[false, true, false], &cells, None),
            ["NAME  SIZE  NOTE", "a      10G  x", "long     1"]
        );
    }

    #[test]
    fn what_is_too_long_goes_on_below_its_row() {
        let header = texts(&["NAME", "SIZE", "NAA", "TARGET"]);
        let naa = "naa.652534e0000000000000100000000001";
        let iqn = "iqn.2026-01.com.example:storage.of-the-second-floor";
        let rows = vec![
            texts(&["vm1", "10G", naa, iqn]),
            texts(&["v", "1G", naa, "-"]),
        ];
        let right = [false, true, false, false];
        let header_below = "    TARGET";
        assert_eq!(
            align(&header, &right, &rows, Some(80)),
            [
                "NAME  SIZE  NAA",
                header_below,
                &format!("vm1    10G  {naa}"),
                &format!("    {iqn}"),
                &format!("v       1G  {naa}"),
                "    -",
            ]
        );
        assert_eq!([width("a\u{1b}[2mbc\u{1b}[0md"), width("")], [4, 0]);
        let whole = align(&header, &right, &rows, Some(200));
        assert_eq!(whole, align(&header, &right, &rows, None));
        assert_eq!(whole.len(), 3);
    }

    proptest! {
        #[test]
        fn no_line_is_longer_than_the_terminal_and_no_cell_is_broken(
            (columns, cells) in (1..9usize).prop_flat_map(|columns| {
                (Just(columns), proptest::collection::vec(
                    proptest::collection::vec("[a-z.:0-9-]{1,90}( [a-z]{1,30}){0,3}", columns), 0..6))
            }),
            right in proptest::collection::vec(any::<bool>(), 9),
            limit in 40..120usize,
        ) {
            let header: Vec<String> = (0..columns).map(|column| format!("C{column}")).collect();
            let lines = align(&header, &right, &cells, Some(limit));
            for line in &lines {
                let words = line.split_whitespace().count();
                prop_assert!(width(line) <= limit || words == 1, "{line}");
            }
            let told: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
            let all = header.iter().chain(cells.iter().flatten());
            let all: Vec<&str> = all.flat_map(|cell| cell.split_whitespace()).collect();
            prop_assert_eq!(told, all);
        }
    }
}
