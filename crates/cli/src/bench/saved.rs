//! Files of results, written as JSON and read back. If the user named another kind of file, the
//! error says which.

use std::path::Path;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::grammar::whole_file;
use bench::network::client::Direction;
use bench::network::result::{self, NetworkResult};
use bench::results::{self, Results};
use model::{Error, ErrorKind};

/// Writes results to a file.
pub(super) fn write(path: &Path, results: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(results).map_err(|error| {
        Error::invalid(
            format!("the results cannot be written as JSON: {error}"),
            "report this as a defect",
        )
    })?;
    replace(path, &text).map_err(|error| {
        Error::new(
            ErrorKind::Storage,
            format!("could not write {}: {error}", path.display()),
            "name a file in a folder that exists and may be written to",
        )
        .caused_by(error)
    })
}

/// Writes a file beside the old one, which stays until the new one is whole: it holds hours of
/// measurements.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let is_other = std::fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file());
    if is_other {
        // A pipe, a terminal or a link stays in place.
        return std::fs::write(path, text);
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

/// Reads results of `bench run`, `bench sweep` or `bench import`.
pub(super) fn results(path: &Path) -> Result<Results, Error> {
    read(path, &STORAGE)
}

/// Reads the findings of `bench network`.
pub(super) fn network(path: &Path) -> Result<NetworkResult, Error> {
    let result: NetworkResult = read(path, &NETWORK)?;
    let ways = [Direction::Send, Direction::Receive];
    let is_measured = ways.iter().any(|way| result.survey.carried(*way).is_some());
    match is_measured {
        true => Ok(result),
        false => Err(Error::invalid(
            format!("{} has no throughput in either direction", path.display()),
            "measure the path again, and let the measurement finish",
        )),
    }
}

/// Kind of file.
struct SavedKind {
    /// Contents of the file, in words.
    holds: &'static str,
    /// Format that this program reads.
    format: u32,
    /// File that the user should name instead.
    next: &'static str,
    /// Function that reports whether the user named the other kind of file.
    is_other: fn(&Outline) -> bool,
    /// Name of the other kind, and the verb that takes it.
    other: (&'static str, &'static str),
}

const STORAGE: SavedKind = SavedKind {
    holds: "results",
    format: results::FORMAT,
    next: "name a file that bench run --save wrote; convert files of other tools with bench import first",
    is_other: |outline| outline.survey.is_some() && outline.runs.is_none(),
    other: (
        "a result of bench network",
        "give it to bench report as --network FILE, beside results of bench run",
    ),
};

const NETWORK: SavedKind = SavedKind {
    holds: "result of bench network",
    format: result::FORMAT,
    next: "measure the path with `sandstone bench network HOST --save FILE` and name that file",
    is_other: |outline| outline.runs.is_some() && outline.survey.is_none(),
    other: (
        "a result of storage, not of a network path",
        "name it without --network, which takes a file of bench network --save",
    ),
};

/// Part of a file that tells its kind.
#[derive(Deserialize)]
struct Outline {
    format: Option<u32>,
    runs: Option<IgnoredAny>,
    survey: Option<IgnoredAny>,
}

fn read<T: DeserializeOwned>(path: &Path, kind: &SavedKind) -> Result<T, Error> {
    let name = path.display();
    let text = whole_file::text(path, whole_file::DOCUMENT).map_err(|error| {
        let message = format!("could not read {name}: {error}");
        Error::new(ErrorKind::Storage, message, kind.next).caused_by(error)
    })?;
    let wrong = |error: serde_json::Error| {
        let message = format!("{name} holds no {}: {error}", kind.holds);
        Error::invalid(message, kind.next)
    };
    // The outline is read first, because another format may have another shape.
    let outline: Outline = serde_json::from_slice(text.as_bytes()).map_err(wrong)?;
    if (kind.is_other)(&outline) {
        let (what, next) = kind.other;
        return Err(Error::invalid(format!("{name} is {what}"), next));
    }
    match outline.format {
        Some(format) if format > kind.format => Err(Error::invalid(
            format!("{name} was written by a newer version (format {format})"),
            "use that version",
        )),
        Some(format) if format < kind.format => Err(Error::invalid(
            format!(
                "{name} has format {format}, and this version reads {}",
                kind.format
            ),
            "measure again with this version",
        )),
        // A file without a format lacks a field like any other.
        _ => serde_json::from_slice(text.as_bytes()).map_err(wrong),
    }
}
