//! File of results, as IOmeter writes it and as a spreadsheet saves it again.
//!
//! It is read by the names of the columns, never by their places. Version 1.1.0 has 80 columns,
//! with megabytes both decimal and binary and a count of latencies by class. Version 2006.07.27 has
//! 52 columns. Of each test the row for all managers is read.

use std::collections::HashMap;

use crate::access::{AccessLine, AccessSpecification, Assignment};
use crate::decimal::{Decimal, whole};
use crate::read::{MAX_FILE, ReadError};
use crate::sheet::{Sheet, is_header};

/// Value that IOmeter writes if the workers differ.
const AMBIGUOUS: &str = "-2";

/// File of results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Version of IOmeter, as in the file.
    pub version: String,
    /// Tests in the order of the file.
    pub tests: Vec<Test>,
    /// Lines of which less was read than IOmeter wrote.
    pub notes: Vec<ReadError>,
}

/// Test, with the sums of all managers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Test {
    /// Name of the specification that all workers had, empty if they had several.
    pub name: String,
    /// Specifications of the test.
    pub specifications: Vec<AccessSpecification>,
    /// Number of workers.
    pub workers: u32,
    /// Number of targets of all workers.
    pub disks: u32,
    /// Accesses in flight at each target, or `None` if the workers differ.
    pub queue_depth: Option<u32>,
    /// Accesses per second.
    pub iops: f64,
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// Mean response time in milliseconds.
    pub mean_ms: f64,
    /// Greatest response time in milliseconds.
    pub max_ms: f64,
}

/// Accesses of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Direction {
    /// Number of accesses.
    pub accesses: f64,
    /// Bytes of the accesses.
    pub bytes: f64,
    /// Number of accesses that failed.
    pub errors: f64,
    /// Mean response time in milliseconds.
    pub mean_ms: f64,
    /// Greatest response time in milliseconds.
    pub max_ms: f64,
}

/// Reads a whole file.
///
/// # Errors
/// The line, and the reason: a value is not understood, or the file is no file of results.
pub fn read(text: &str) -> Result<Results, ReadError> {
    let wrong = |line, reason: String| ReadError { line, reason };
    if text.len() > MAX_FILE {
        return Err(wrong(1, "the file is longer than 16 MiB".to_owned()));
    }
    let mut reader = Reader::default();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        reader.line = index + 1;
        reader
            .read(line)
            .map_err(|reason| wrong(index + 1, reason))?;
    }
    if reader.results.tests.is_empty() {
        let reason = "there is no row of results for ALL: this is not a file of IOmeter's results";
        return Err(wrong(text.lines().count().max(1), reason.to_owned()));
    }
    Ok(reader.results)
}

#[derive(Default)]
enum Expecting {
    #[default]
    Nothing,
    Version,
    Name,
    Lines,
    Rows,
}

#[derive(Default)]
struct Reader {
    line: usize,
    sheet: Sheet,
    expecting: Expecting,
    specifications: Vec<AccessSpecification>,
    columns: Vec<String>,
    results: Results,
}

impl Reader {
    fn read(&mut self, line: &str) -> Result<(), String> {
        if is_header(line) {
            self.sheet.learn(line);
            let cells = self.sheet.cells(line)?;
            return self.header(&cells);
        }
        if matches!(self.expecting, Expecting::Nothing) {
            return Ok(());
        }
        let cells = self.sheet.cells(line)?;
        if cells.iter().all(String::is_empty) {
            return Ok(());
        }
        match self.expecting {
            Expecting::Nothing => {}
            Expecting::Version => {
                // A program that turns points into commas does so in the version too.
                self.results.version = cells[0].replace(',', ".");
                self.expecting = Expecting::Nothing;
            }
            Expecting::Name => {
                // A name with a comma in it stands without quotes, before the default assignment.
                let separator = self.sheet.innermost().to_string();
                let name = match cells.split_last() {
                    Some((_, name)) if !name.is_empty() => name.join(&separator),
                    _ => cells[0].clone(),
                };
                self.specifications.push(AccessSpecification {
                    name,
                    assignment: Assignment::None,
                    lines: Vec::new(),
                });
            }
            Expecting::Lines => {
                let line = access_line(&cells)?;
                let specification = self.specifications.last_mut();
                let specification = specification
                    .ok_or("a line of an access specification comes before its name")?;
                specification.lines.push(line);
            }
            Expecting::Rows if cells[0].eq_ignore_ascii_case("ALL") => {
                let test = self.test(&cells)?;
                self.results.tests.push(test);
            }
            Expecting::Rows => {}
        }
        Ok(())
    }

    fn header(&mut self, cells: &[String]) -> Result<(), String> {
        let names: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
        let first = names[0].trim_start_matches('\'').trim();
        self.expecting = match first {
            "version" => Expecting::Version,
            "access specifications" => {
                self.specifications.clear();
                Expecting::Nothing
            }
            "access specification name" => Expecting::Name,
            "size" => Expecting::Lines,
            "target type" => Expecting::Rows,
            _ => Expecting::Nothing,
        };
        if first == "target type" {
            self.columns = names;
            if self.columns.len() < 2 {
                return Err("the header of the results has only one column".to_owned());
            }
        }
        Ok(())
    }

    fn test(&mut self, cells: &[String]) -> Result<Test, String> {
        let row = Row::new(&self.columns, cells, self.sheet.innermost())?;
        let (read, write) = (
            row.direction("Read", "Bytes Read")?,
            row.direction("Write", "Bytes Written")?,
        );
        let iops = row.needed("IOps")?;
        row.adds_up(iops, "Read IOps", "Write IOps")?;
        let queue_depth = match row.cell("Queue Depth") {
            Some(AMBIGUOUS) => None,
            _ => Some(row.optional("Queue Depth")?.max(1.0) as u32),
        };
        let name = row.cell("Access Specification Name").unwrap_or_default();
        let test = Test {
            name: name.to_owned(),
            specifications: self.of(name),
            workers: row.optional("# Workers")?.max(1.0) as u32,
            disks: row.optional("# Disks")?.max(1.0) as u32,
            queue_depth,
            iops,
            read,
            write,
            mean_ms: row.optional("Average Response Time")?,
            max_ms: row.optional("Maximum Response Time")?,
        };
        let mut notes = Vec::new();
        if queue_depth.is_none() {
            notes.push("the workers had different queue depths: 1 is used".to_owned());
        }
        if let Some((column, text)) = row.rounded() {
            notes.push(format!(
                "a spreadsheet has rounded column {column:?} to {text}"
            ));
        }
        let line = self.line;
        let notes = notes.into_iter().map(|reason| ReadError { line, reason });
        self.results.notes.extend(notes);
        Ok(test)
    }

    /// Returns the specification of that name, or all if none has it, because several then ran side
    /// by side.
    fn of(&self, name: &str) -> Vec<AccessSpecification> {
        let named = self.specifications.iter().filter(|s| s.name == name);
        let named: Vec<AccessSpecification> = named.cloned().collect();
        match named.is_empty() {
            true => self.specifications.clone(),
            false => named,
        }
    }
}

/// Returns a name of a column in plain form, however a program has written it.
fn plain(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

fn access_line(cells: &[String]) -> Result<AccessLine, String> {
    if cells.len() > 8 {
        let (count, more) = (cells.len(), &cells[8]);
        return Err(format!("a line has eight numbers, not {count}: {more:?}"));
    }
    let mut values = cells.iter();
    let mut number = |what: &str, most: u32| -> Result<u32, String> {
        let text = values.next().map_or("", String::as_str);
        let number =
            whole(text).ok_or_else(|| format!("{what} must be a whole number, not {text:?}"))?;
        if number > f64::from(most) {
            return Err(format!("{what} must be at most {most}, not {text}"));
        }
        Ok(number as u32)
    };
    let line = AccessLine {
        size: number("the size", u32::MAX)?,
        of_size_percent: number("the share of the size", 100)? as u8,
        reads_percent: number("the share of reads", 100)? as u8,
        random_percent: number("the random share", 100)? as u8,
        delay_ms: number("the delay", u32::MAX)?,
        burst: number("the burst", u32::MAX)?,
        align: number("the alignment", u32::MAX)?,
        reply: number("the reply size", u32::MAX)?,
    };
    line.check()?;
    Ok(line)
}

/// Columns that are read as numbers.
const NUMBERS: [&str; 18] = [
    "# workers",
    "# disks",
    "iops",
    "read iops",
    "write iops",
    "average response time",
    "average read response time",
    "average write response time",
    "maximum response time",
    "maximum read response time",
    "maximum write response time",
    "read errors",
    "write errors",
    "bytes read",
    "bytes written",
    "read i/os",
    "write i/os",
    "queue depth",
];

/// Values of a row by the names of their columns.
struct Row<'a> {
    cells: HashMap<&'a str, &'a str>,
    decimal: Decimal,
}

impl<'a> Row<'a> {
    fn new(columns: &'a [String], cells: &'a [String], separator: char) -> Result<Self, String> {
        if cells.len() > columns.len() {
            return Err(format!(
                "there are {} values for {} columns: {separator:?} separates the values, so no number may \
                 contain it",
                cells.len(),
                columns.len()
            ));
        }
        let mut found = HashMap::new();
        for (column, cell) in columns.iter().zip(cells) {
            found.entry(column.as_str()).or_insert(cell.as_str());
        }
        let numbers = NUMBERS.iter().filter_map(|name| found.get(name).copied());
        let decimal = Decimal::of(numbers, separator)?;
        Ok(Self {
            cells: found,
            decimal,
        })
    }

    fn cell(&self, name: &str) -> Option<&'a str> {
        let cell = self.cells.get(plain(name).as_str()).copied();
        cell.filter(|cell| !cell.is_empty())
    }

    fn parse(&self, name: &str, text: &str) -> Result<f64, String> {
        self.decimal
            .parse(text)
            .ok_or_else(|| format!("column {name:?} holds {text:?}, which is not a number"))
    }

    fn needed(&self, name: &str) -> Result<f64, String> {
        match self.cell(name) {
            Some(text) => self.parse(name, text),
            None if self.cells.contains_key(plain(name).as_str()) => {
                Err(format!("column {name:?} is empty"))
            }
            None => Err(format!("there is no column {name:?}")),
        }
    }

    fn optional(&self, name: &str) -> Result<f64, String> {
        self.cell(name)
            .map_or(Ok(0.0), |text| self.parse(name, text))
    }

    fn direction(&self, word: &str, bytes: &str) -> Result<Direction, String> {
        Ok(Direction {
            accesses: self.needed(&format!("{word} I/Os"))?,
            bytes: self.needed(bytes)?,
            errors: self.optional(&format!("{word} Errors"))?,
            mean_ms: self.optional(&format!("Average {word} Response Time"))?,
            max_ms: self.optional(&format!("Maximum {word} Response Time"))?,
        })
    }

    /// Checks that two columns add up to a third. A spreadsheet of another language takes
    /// `1.234567` for a million, and the sum shows it.
    fn adds_up(&self, sum: f64, one: &str, other: &str) -> Result<(), String> {
        let (Some(_), Some(_)) = (self.cell(one), self.cell(other)) else {
            return Ok(());
        };
        let parts = self.optional(one)? + self.optional(other)?;
        if (parts - sum).abs() > 0.001 * sum.max(parts) + 0.01 {
            return Err(format!(
                "{one} and {other} add up to {parts}, not to the IOps of {sum}: another program has changed \
                 one of them"
            ));
        }
        Ok(())
    }

    /// Returns a count that has lost its last digits.
    fn rounded(&self) -> Option<(&'static str, &'a str)> {
        let counts = ["Read I/Os", "Write I/Os", "Bytes Read", "Bytes Written"];
        let mut cells = counts
            .iter()
            .filter_map(|name| Some((*name, self.cell(name)?)));
        cells.find(|(_, text)| text.contains(['e', 'E']))
    }
}

#[cfg(test)]
mod tests;
