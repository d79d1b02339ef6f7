//! The settings file of the service: options of `serve` that need not be typed.
//!
//! [`KEYS`] lists every key. A key sets one option, and only if the command line left it open. The
//! file that packages install (`packaging/sandstone.toml`) shows all keys; a test holds the two
//! together.

use std::io::ErrorKind as IoErrorKind;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use hint::Place;
use toml::de::{DeTable, DeValue};

use super::{Args, LEVELS, Service, console_address, log_format, metrics_address};
use crate::connection::SERVICE_STATE;
use crate::grammar::completion::size;
use crate::grammar::whole_file;
use crate::target::portal;
use control::ControlAddress;
use model::Error;

/// File that is read if the command line names none.
pub(super) const DEFAULT_FILE: &str = "/etc/sandstone/sandstone.toml";

/// Key of the file.
struct Key {
    /// Name, with the section before it.
    name: &'static str,
    /// Function that sets the option, unless the command line has.
    set: fn(&mut Service, &Value<'_>) -> Result<(), String>,
}

/// Every key, in the order of the file.
const KEYS: &[Key] = &[
    Key {
        name: "state",
        set: |to, value| fill(&mut to.connection.state, value.text()?.into()),
    },
    Key {
        name: "control",
        set: |to, value| {
            let address = value.text()?.parse::<ControlAddress>()?;
            fill(&mut to.connection.control, address)
        },
    },
    Key {
        name: "portals",
        set: |to, value| {
            let texts = value.list()?;
            let portals = texts.iter().map(|text| portal(text));
            let portals = portals.collect::<Result<Vec<_>, _>>()?;
            if to.args.portals.is_empty() {
                to.args.portals = portals;
            }
            Ok(())
        },
    },
    Key {
        name: "threads",
        set: |to, value| {
            let wrong = || "it takes a whole number, at least 1".to_owned();
            let threads = value.text().ok().and_then(|text| text.parse().ok());
            fill(&mut to.args.threads, threads.ok_or_else(wrong)?)
        },
    },
    Key {
        name: "memory_cap",
        set: |to, value| fill(&mut to.args.memory_cap, size(&value.text()?)?),
    },
    Key {
        name: "cache",
        set: |to, value| fill(&mut to.args.cache, size(&value.text()?)?),
    },
    Key {
        name: "io_uring",
        set: |to, value| {
            to.args.no_io_uring |= !value.boolean()?;
            Ok(())
        },
    },
    Key {
        name: "console.listen",
        set: |to, value| fill(&mut to.args.console, console_address(&value.text()?)?),
    },
    Key {
        name: "console.certificate",
        set: |to, value| fill(&mut to.args.console_cert, value.text()?.into()),
    },
    Key {
        name: "console.key",
        set: |to, value| fill(&mut to.args.console_key, value.text()?.into()),
    },
    Key {
        name: "console.names",
        set: |to, value| {
            if to.args.console_names.is_empty() {
                to.args.console_names = value.list()?;
            }
            Ok(())
        },
    },
    Key {
        name: "metrics.listen",
        set: |to, value| fill(&mut to.args.metrics, metrics_address(&value.text()?)?),
    },
    Key {
        name: "log.level",
        set: |to, value| {
            let level = value.text()?;
            if !LEVELS.contains(&level.as_str()) {
                return Err(format!("it takes one of {}", LEVELS.join(", ")));
            }
            fill(&mut to.args.log, level)
        },
    },
    Key {
        name: "log.format",
        set: |to, value| fill(&mut to.args.log_format, log_format(&value.text()?)?),
    },
];

/// Sets an option that nobody has set.
fn fill<T>(option: &mut Option<T>, value: T) -> Result<(), String> {
    option.get_or_insert(value);
    Ok(())
}

/// Fills in what the command line left open, from the settings file.
///
/// # Errors
/// The file cannot be read, or a line of it is wrong.
pub(super) fn fill_in(service: &mut Service) -> Result<(), Error> {
    let Args { config_file, .. } = &service.args;
    let named = config_file.clone();
    let is_the_service = service.connection.state_folder() == Path::new(SERVICE_STATE);
    let path = match &named {
        Some(path) => path,
        None if is_the_service => Path::new(DEFAULT_FILE),
        // The file belongs to the service, not to a daemon beside it.
        None => return Ok(()),
    };
    let text = match whole_file::text(path, whole_file::SETTINGS) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == IoErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let doing = format!("read the settings file {}", path.display());
            return Err(Error::system(Place::File(path), doing, error).not_changed(NOT_SERVED));
        }
    };
    read(&text, service).map_err(|fault| {
        let place = format!("{}:{}", path.display(), fault.line);
        Error::invalid(format!("{place}: {}", fault.message), fault.next).not_changed(NOT_SERVED)
    })
}

/// State after a wrong settings file.
const NOT_SERVED: &str = "nothing is served";

/// Fault of a settings file.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    /// Number of the line, from 1.
    line: usize,
    message: String,
    next: String,
}

/// Reads a whole file.
fn read(text: &str, service: &mut Service) -> Result<(), Fault> {
    let fault = |at: usize, message: String, next: String| Fault {
        line: text.get(..at).unwrap_or(text).matches('\n').count() + 1,
        message,
        next,
    };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let next = "write KEY = VALUE, with quotes around texts, as in cache = \"4G\"";
        fault(at, error.message().to_owned(), next.to_owned())
    })?;
    let mut found = Vec::new();
    for (name, value) in table.get_ref() {
        let (name, at) = (name.get_ref(), name.span());
        match value.get_ref() {
            DeValue::Table(section) if is_section(name) => {
                for (key, value) in section {
                    let of = format!("{name}.{}", key.get_ref());
                    found.push((of, key.span(), Value(value.get_ref())));
                }
            }
            value => found.push((name.to_string(), at, Value(value))),
        }
    }
    // The first fault of the file comes first.
    found.sort_by_key(|(_, at, _): &(_, Range<usize>, _)| at.start);
    for (name, at, value) in found {
        let key = KEYS.iter().find(|key| key.name == name);
        let key = key.ok_or_else(|| {
            let (message, next) = unknown(&name, matches!(value.0, DeValue::Table(_)));
            fault(at.start, message, next)
        })?;
        (key.set)(service, &value).map_err(|why| {
            let next = format!("correct {name}, or remove the line to use the default");
            fault(at.start, format!("{name} cannot be used: {why}"), next)
        })?;
    }
    Ok(())
}

/// Reports whether keys have this section.
fn is_section(name: &str) -> bool {
    sections().any(|section| section == name)
}

fn sections() -> impl Iterator<Item = &'static str> {
    KEYS.iter()
        .filter_map(|key| key.name.split_once('.'))
        .map(|(section, _)| section)
}

/// Returns what is wrong with an unknown name, and the nearest known one.
fn unknown(name: &str, is_table: bool) -> (String, String) {
    if is_table {
        let next = match nearest(name, sections()) {
            Some(section) => format!("did you mean [{section}]?"),
            None => "remove the section".to_owned(),
        };
        return (format!("there is no section [{name}]"), next);
    }
    let keys = KEYS.iter().map(|key| key.name);
    let bare = name.rsplit('.').next().unwrap_or(name);
    let elsewhere = keys.clone().find(|key| {
        let known = key.rsplit('.').next();
        known == Some(bare)
    });
    let next = match elsewhere.or_else(|| nearest(name, keys)) {
        Some(key) => match key.split_once('.') {
            Some((section, key)) => format!("did you mean {key} in section [{section}]?"),
            None if name.contains('.') => format!("did you mean {key}, above all sections?"),
            None => format!("did you mean {key}?"),
        },
        None => "remove the line; `sandstone man serve` lists the options".to_owned(),
    };
    (format!("there is no key {name}"), next)
}

/// Returns the known name that is most like another, if one is.
fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let likeness = |known: &&str| strsim::jaro_winkler(name, known);
    let best = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.filter(|known| likeness(known) > 0.75)
}

/// Value of a key.
struct Value<'a>(&'a DeValue<'a>);

impl Value<'_> {
    /// Returns a text, or a number as one.
    fn text(&self) -> Result<String, String> {
        match self.0 {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => {
                let number = i64::from_str(number.as_str());
                number.map_or_else(
                    |_| Err("the number is too large".to_owned()),
                    |number| Ok(number.to_string()),
                )
            }
            _ => Err("it takes a text in quotes".to_owned()),
        }
    }

    fn boolean(&self) -> Result<bool, String> {
        match self.0 {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err("it takes true or false".to_owned()),
        }
    }

    /// Returns texts: those of an array, or the only one.
    fn list(&self) -> Result<Vec<String>, String> {
        match self.0 {
            DeValue::Array(values) => {
                let values = values.iter();
                values.map(|value| Value(value.get_ref()).text()).collect()
            }
            _ => Ok(vec![self.text()?]),
        }
    }
}

#[cfg(test)]
mod tests {
    use process::log::Format;

    use super::*;

    /// File that packages install.
    const PACKAGED: &str = include_str!("../../../../packaging/sandstone.toml");

    fn fault(text: &str) -> (usize, String, String) {
        let fault = read(text, &mut Service::default()).expect_err(text);
        (fault.line, fault.message, fault.next)
    }

    #[test]
    fn a_file_sets_what_the_command_line_left_open() {
        let text = "state = '/srv/a'\ncontrol = '/run/a.sock'\nportals = ['192.0.2.1', '[::1]:860']\n\
                    threads = 3\nmemory_cap = 1_000\ncache = '2G'\nio_uring = false\n\
                    [log]\nlevel = 'warn'\nformat = 'json'\n";
        let mut service = Service::default();
        service.args.cache = Some(7);
        read(text, &mut service).expect("it is right");
        let Service { args, connection } = service;
        assert_eq!(args.cache, Some(7), "the command line beats the file");
        assert_eq!(connection.state.as_deref(), Some(Path::new("/srv/a")));
        let control = connection.control.map(|control| control.to_string());
        assert_eq!(control.as_deref(), Some("/run/a.sock"));
        let portals: Vec<String> = args.portals.iter().map(ToString::to_string).collect();
        assert_eq!(portals, ["192.0.2.1:3260", "[::1]:860"]);
        assert_eq!(args.threads.map(usize::from), Some(3));
        assert_eq!(args.memory_cap, Some(1000));
        assert!(args.no_io_uring);
        assert_eq!(args.log.as_deref(), Some("warn"));
        assert_eq!(args.log_format, Some(Format::Json));
    }

    #[test]
    fn an_unknown_key_is_told_with_its_line_and_the_nearest_one() {
        let told = fault("# a comment\nthreads = 2\nmemory-cap = '1G'\n");
        assert_eq!(told.0, 3);
        assert_eq!(told.1, "there is no key memory-cap");
        assert_eq!(told.2, "did you mean memory_cap?");
        let (line, message, next) = fault("[logs]\nlevel = 'warn'\n");
        assert_eq!((line, message.as_str()), (1, "there is no section [logs]"));
        assert_eq!(next, "did you mean [log]?");
        for (text, next) in [
            ("level = 'warn'", "did you mean level in section [log]?"),
            (
                "[log]\nlevl = 'warn'",
                "did you mean level in section [log]?",
            ),
            (
                "[log]\ncache = '1G'",
                "did you mean cache, above all sections?",
            ),
            (
                "zzz = 1",
                "remove the line; `sandstone man serve` lists the options",
            ),
        ] {
            assert_eq!(fault(text).2, next, "{text}");
        }
    }

    #[test]
    fn a_wrong_value_is_told_with_its_line() {
        for (text, line, part) in [
            ("\n\nthreads = 0", 3, "at least 1"),
            ("threads = [1]", 1, "at least 1"),
            ("cache = '2X'", 1, "is not a size"),
            ("cache = true", 1, "a text in quotes"),
            ("portals = ['here']", 1, "is not an address"),
            ("control = '192.0.2.1:80'", 1, "is not a loopback address"),
            ("io_uring = 'no'", 1, "true or false"),
            ("log = 'warn'", 1, "there is no key log"),
            ("[log]\nlevel = 'loud'", 2, "error, warn, info, debug"),
            ("[log]\nformat = 'xml'", 2, "auto, text, json, journal"),
            ("threads = 1\nthreads = 2", 2, "duplicate key"),
            ("threads = 1\nthreads", 2, "="),
        ] {
            let told = fault(text);
            assert_eq!(told.0, line, "{text}: {told:?}");
            assert!(told.1.contains(part), "{text}: {told:?}");
        }
    }

    /// Each key stands in the packaged file, in its section, behind a comment sign. All of them
    /// together are a file that can be read.
    #[test]
    fn the_packaged_file_shows_every_key_and_no_other() {
        let (mut section, mut shown) = (String::new(), Vec::new());
        let mut uncommented = String::new();
        for line in PACKAGED.lines() {
            let bare = line.strip_prefix('#').unwrap_or(line);
            let is_key = !bare.starts_with(' ') && bare.contains(" = ");
            if let Some(name) = bare.strip_prefix('[') {
                section = format!("{}.", name.trim_end_matches(']'));
            } else if is_key {
                shown.push(format!("{section}{}", bare.split(' ').next().unwrap_or("")));
            } else {
                continue;
            }
            uncommented.push_str(bare);
            uncommented.push('\n');
        }
        let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        assert_eq!(shown, known);
        for text in [PACKAGED, &uncommented] {
            let read = read(text, &mut Service::default());
            assert_eq!(read, Ok(()), "{text}");
        }
    }
}
