//! `bench import` and `bench export`: reads and writes the files of other tools.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};

use super::options::{self, How};
use super::saved;
use crate::grammar::whole_file;
use crate::print::table;
use crate::{Done, Terminal};
use bench::fio;
use bench::iometer::conversion::{self, Imported};
use bench::iometer::results;
use bench::parameters::Parameters;
use bench::workload::{Profile, Workload};
use hint::Place;
use model::Error;

#[derive(Debug, ClapArgs)]
pub(crate) struct ImportArgs {
    /// IOmeter configuration (.icf) or IOmeter results (.csv)
    file: PathBuf,
    /// Write to this file instead of the standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Format that another tool reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Configuration that IOmeter opens
    Icf,
    /// IOmeter results, version 1.1.0
    Csv,
    /// fio's JSON output
    Fio,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    /// Results of bench run --save; for icf also a profile: its name, or its file
    source: String,
    /// Format of the tool to write for
    #[arg(long = "as", value_name = "FORMAT")]
    format: Format,
    /// Write to this file instead of the standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

pub(super) fn import(args: &ImportArgs, t: &mut Terminal<'_>) -> Done {
    let name = args.file.display().to_string();
    let bytes = whole_file::bytes(&args.file, whole_file::DOCUMENT)
        .map_err(|error| Error::system(Place::File(&args.file), format!("read {name}"), error))?;
    let text = iometer::text::decode(&bytes);
    let refused = |error: iometer::read::ReadError| {
        Error::invalid(format!("{name}, {error}"), "correct that line")
    };
    let is_configuration = text
        .trim_start()
        .get(..7)
        .is_some_and(|word| word.eq_ignore_ascii_case("Version"));
    let converted = if is_configuration {
        let Imported {
            profile,
            parameters,
            notes,
        } = conversion::read(&text, &stem(&args.file)).map_err(refused)?;
        for note in notes {
            writeln!(t.err, "note: {note}")?;
        }
        // The parameters are in the file too: the profile alone would be another test.
        to_json(&Profile {
            parameters: Some(parameters),
            ..profile
        })?
    } else {
        let (results, notes) = results::read(&text, &name).map_err(refused)?;
        for note in notes {
            writeln!(t.err, "note: {note}")?;
        }
        to_json(&results)?
    };
    put(t, args.output.as_deref(), &converted)
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    stem.to_string_lossy().into_owned()
}

fn to_json<T: serde::Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| {
            Error::invalid(
                format!("the result cannot be written as JSON: {error}"),
                "report this as a defect",
            )
        })
}

pub(super) fn export(args: &ExportArgs, t: &mut Terminal<'_>) -> Done {
    if args.format == Format::Icf {
        return export_configuration(args, t);
    }
    let results = saved::results(Path::new(&args.source))?;
    if args.format == Format::Csv {
        return put(t, args.output.as_deref(), &results::write(&results));
    }
    let (exported, notes) = fio::export(&results);
    for note in notes {
        writeln!(t.err, "note: {note}")?;
    }
    match &args.output {
        None => table::json(t, &exported),
        Some(path) => put(t, Some(path), &to_json(&exported)?),
    }
}

fn export_configuration(args: &ExportArgs, t: &mut Terminal<'_>) -> Done {
    let (profile, parameters) = match saved::results(Path::new(&args.source)) {
        Ok(results) => {
            let mut workloads: Vec<Workload> = Vec::new();
            for run in &results.runs {
                if !workloads.contains(&run.workload) {
                    workloads.push(run.workload.clone());
                }
            }
            let parameters = results.runs.first().map(|run| run.parameters.clone());
            let profile = Profile {
                name: stem(Path::new(&args.source)),
                about: String::new(),
                workloads,
                parameters: None,
            };
            (profile, parameters.unwrap_or_default())
        }
        Err(_) => {
            let chosen = options::load(&args.source)?;
            chosen.say_notes(t)?;
            (chosen.profile, chosen.parameters)
        }
    };
    let parameters: Parameters = args.how.over(parameters);
    let (configuration, notes) = conversion::from_profile(&profile, &parameters);
    let text = iometer::write::write(&configuration)
        .map_err(|error| Error::invalid(error.to_string(), "choose another name"))?;
    for note in notes {
        writeln!(t.err, "note: {note}")?;
    }
    put(t, args.output.as_deref(), &text)
}

fn put(t: &mut Terminal<'_>, output: Option<&Path>, text: &str) -> Done {
    match output {
        None => Ok(write!(t.out, "{text}")?),
        Some(path) => {
            let failed = |error| {
                Error::system(
                    Place::File(path),
                    format!("write {}", path.display()),
                    error,
                )
            };
            Ok(std::fs::write(path, text).map_err(failed)?)
        }
    }
}
