//! `bench report`: makes a page of saved results.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use super::saved;
use crate::{Done, Terminal};
use bench::report::{MeasuredPath, Network, Source, html};
use bench::results::Results;
use model::{Error, ErrorKind};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Results of bench run --save and bench sweep --save; several results are compared with the
    /// first
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// Write the page to this file instead of the standard output
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Speed of the link, to show which share of it was reached, as in 10G (bits per second)
    #[arg(long, value_name = "BITS/S", value_parser = link)]
    link: Option<f64>,
    /// Results of bench network --save for the path. They are shown, and throughput is a share of
    /// them. May be given once for each path that the runs used; the paths add up
    #[arg(long, value_name = "FILE", conflicts_with = "link")]
    network: Vec<PathBuf>,
}

/// Reads bits per second with K, M, G, T as powers of 1,000, as networks are sold.
fn link(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is not a speed; write bits per second with M or G, as in 10G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '/');
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" | "mbit" | "mbit/s" | "mb/s" => 1e6,
        "g" | "gbit" | "gbit/s" | "gb/s" => 1e9,
        "t" => 1e12,
        _ => return Err(wrong()),
    };
    match number * factor {
        speed if speed >= 1e3 && speed.is_finite() => Ok(speed),
        _ => Err(wrong()),
    }
}

pub(super) fn run(args: &Args, t: &mut Terminal<'_>) -> Done {
    let mut sources = Vec::new();
    for path in &args.results {
        sources.push(Source {
            label: label(path, &args.results),
            results: saved::results(path)?,
        });
    }
    let mut paths = Vec::new();
    for path in &args.network {
        paths.push(MeasuredPath {
            label: label(path, &args.network),
            result: saved::network(path)?,
        });
    }
    let network = match args.link {
        Some(bits_per_s) => Network::of_link(bits_per_s),
        None => Network::measured(paths),
    };
    let page = html(&sources, &network, 0.05);
    match &args.output {
        None => Ok(write!(t.out, "{page}")?),
        Some(path) => Ok(write(path, &page)?),
    }
}

/// Checks that a page can be written later, before time is spent on its contents.
pub(super) fn prepare(path: &Path) -> Result<(), Error> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.append(true).create(true).open(path);
    opened.map(drop).map_err(|error| not_written(path, error))
}

/// Writes the page of one file of results.
pub(super) fn page(path: &Path, results: &Results) -> Result<(), Error> {
    let source = Source {
        label: results.target.name.clone(),
        results: results.clone(),
    };
    write(path, &html(&[source], &Network::measured(Vec::new()), 0.05))
}

fn write(path: &Path, page: &str) -> Result<(), Error> {
    std::fs::write(path, page).map_err(|error| not_written(path, error))
}

fn not_written(path: &Path, error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Storage,
        format!("could not write {}: {error}", path.display()),
        "name a file in a folder that exists and may be written to",
    )
    .caused_by(error)
}

/// Returns the file's name without its ending, or its whole path if another file has that name.
fn label(path: &Path, all: &[PathBuf]) -> String {
    let is_taken = all
        .iter()
        .filter(|other| other.file_stem() == path.file_stem())
        .count()
        > 1;
    match path.file_stem().filter(|_| !is_taken) {
        Some(stem) => stem.to_string_lossy().into_owned(),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_powers_of_a_thousand() {
        for (text, bits) in [
            ("10G", 1e10),
            ("1000M", 1e9),
            ("2.5Gbit/s", 2.5e9),
            ("1000000", 1e6),
        ] {
            assert_eq!(link(text), Ok(bits), "{text}");
        }
        for text in ["", "G", "-1G", "0", "10 apples", "1e400", "NaN"] {
            assert!(link(text).is_err(), "{text}");
        }
    }

    #[test]
    fn results_are_called_by_their_files() {
        let paths = ["x/a.json", "y/a.json", "b.json"].map(PathBuf::from);
        let labels = [0, 1, 2].map(|index| label(&paths[index], &paths));
        assert_eq!(labels, ["x/a.json", "y/a.json", "b"]);
    }
}
