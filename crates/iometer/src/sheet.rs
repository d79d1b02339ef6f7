//! Lines as cells. IOmeter puts commas between cells. A spreadsheet puts the separator of its
//! language there, encloses some cells in quotes, and fills lines up with empty ones.

/// Separators of cells, of which a file has one.
const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// Way in which the lines of a file are split into cells. Each header sets it anew, because files
/// are joined from several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sheet {
    pub(crate) separator: char,
    /// Separator inside a line that is one cell of the sheet.
    inner: Option<char>,
}

impl Default for Sheet {
    fn default() -> Self {
        Self {
            separator: ',',
            inner: None,
        }
    }
}

impl Sheet {
    /// Learns the separators from a header, which begins with an apostrophe.
    pub(crate) fn learn(&mut self, header: &str) {
        let Some(separator) = outside_quotes(header) else {
            // A header of one word shows no separator, unless it is a whole line in quotes.
            if let Ok(cells) = split(header, self.separator) {
                self.inner = cells[0]
                    .find(SEPARATORS)
                    .map_or(self.inner, |at| cells[0][at..].chars().next());
            }
            return;
        };
        self.separator = separator;
        let cells = split(header, separator).unwrap_or_default();
        let filled: Vec<&String> = cells.iter().filter(|cell| !cell.is_empty()).collect();
        self.inner = match filled.as_slice() {
            [one] => one.chars().find(|c| SEPARATORS.contains(c)),
            _ => None,
        };
    }

    /// Returns the cells of a line, without blanks around them and without the empty ones at its
    /// end.
    pub(crate) fn cells(&self, line: &str) -> Result<Vec<String>, String> {
        let mut cells = split(line, self.separator)?;
        trim_end(&mut cells);
        if let (Some(inner), [one]) = (self.inner, cells.as_slice()) {
            cells = split(one, inner)?;
            trim_end(&mut cells);
        }
        Ok(cells)
    }

    /// Returns the separator of the cells that have a meaning.
    pub(crate) fn innermost(&self) -> char {
        self.inner.unwrap_or(self.separator)
    }
}

/// Reports whether a line is a header, in quotes or not.
pub(crate) fn is_header(line: &str) -> bool {
    line.trim_start().trim_start_matches('"').starts_with('\'')
}

fn trim_end(cells: &mut Vec<String>) {
    while cells.len() > 1 && cells.last().is_some_and(String::is_empty) {
        cells.pop();
    }
}

fn outside_quotes(line: &str) -> Option<char> {
    let mut quoted = false;
    line.chars().find(|c| {
        quoted ^= *c == '"';
        !quoted && SEPARATORS.contains(c)
    })
}

/// Splits a line into cells, at least one. A quote encloses a cell only if the cell begins with it.
/// Two quotes in a cell in quotes mean one.
fn split(line: &str, separator: char) -> Result<Vec<String>, String> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let begin = rest.trim_start_matches([' ', '\u{a0}']);
        let (cell, behind) = match begin.strip_prefix('"') {
            Some(quoted) => enclosed(quoted)?,
            None => {
                let end = rest.find(separator).unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        cells.push(cell.trim().to_owned());
        let behind = behind.trim_start_matches([' ', '\r']);
        match behind.strip_prefix(separator) {
            Some(next) => rest = next,
            None if behind.trim().is_empty() => return Ok(cells),
            None => return Err(format!("{behind:?} follows the closing quote of a cell")),
        }
    }
}

/// Returns the content of a cell in quotes, of which the first was read, and the text behind the
/// last quote.
fn enclosed(text: &str) -> Result<(String, &str), String> {
    let mut cell = String::new();
    let mut rest = text;
    while let Some(end) = rest.find('"') {
        cell.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                cell.push('"');
                rest = next;
            }
            None => return Ok((cell, rest)),
        }
    }
    Err("a quote is not closed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(header: &str, line: &str) -> Vec<String> {
        let mut sheet = Sheet::default();
        sheet.learn(header);
        sheet.cells(line).expect("cells")
    }

    #[test]
    fn lines_of_each_kind_of_file_have_the_same_cells() {
        let expected = ["ALL", "a, \"b\"; c", "1,5"];
        for (header, line) in [
            (
                "'Target Type,Target Name,IOps",
                "ALL,\"a, \"\"b\"\"; c\",\"1,5\"",
            ),
            (
                "'Target Type,Target Name,IOps,,,",
                "ALL,\"a, \"\"b\"\"; c\",\"1,5\",,,",
            ),
            (
                "'Target Type;Target Name;IOps",
                "ALL;\"a, \"\"b\"\"; c\";1,5;;",
            ),
            (
                "'Target Type\tTarget Name\tIOps",
                "ALL\t\"a, \"\"b\"\"; c\"\t1,5\t",
            ),
            (
                "\"'Target Type\",\"Target Name\"",
                "\"ALL\" , \"a, \"\"b\"\"; c\",\"1,5\"",
            ),
        ] {
            assert_eq!(cells(header, line), expected, "{line}");
        }
        let whole = cells("\"'Target Type,Target Name,IOps\"", "\"ALL,All,1.5\"");
        assert_eq!(whole, ["ALL", "All", "1.5"]);
        let whole = cells("\"'Target Type,Target Name,IOps\";;", "\"ALL,All,1.5\";;");
        assert_eq!(whole, ["ALL", "All", "1.5"]);
    }

    #[test]
    fn quotes_that_enclose_no_cell_are_refused() {
        let sheet = Sheet::default();
        assert!(sheet.cells("\"fast\" disk,0").is_err());
        assert!(sheet.cells("\"fast,0").is_err());
        assert_eq!(
            sheet.cells("15\" disk,0").expect("cells"),
            ["15\" disk", "0"]
        );
    }
}
