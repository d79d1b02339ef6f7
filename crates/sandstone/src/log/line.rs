//! What a line of the log is about.
//!
//! Two lines are the same news where they come from one place in the program, about one object and one client, and for
//! one reason. Objects and clients are fields of the event. Numbers in the message and in other fields (an offset, a
//! port, how often) make no other news.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// A place in the program: file and line.
pub(super) type Kind = (&'static str, u32);

/// Fields whose numbers matter: they name objects and clients.
const NAMES: [&str; 14] = [
    "unit",
    "pool",
    "device",
    "path",
    "portal",
    "target",
    "server",
    "host",
    "initiator",
    "name",
    "volume",
    "local",
    "lun",
    "command",
];
/// The most of a line that is kept, in bytes.
const MOST: usize = 1000;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// How grave it is.
    pub(super) level: Level,
    /// Where it comes from.
    pub(super) kind: Kind,
    /// What it says, without what makes no other news.
    pub(super) about: String,
    /// The message and its fields.
    pub(super) text: String,
}

impl Line {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut reader = Reader::default();
        event.record(&mut reader);
        let Reader {
            message,
            fields,
            mut about,
        } = reader;
        let mut text = message + &fields;
        text.truncate(text.floor_char_boundary(MOST));
        about.truncate(about.floor_char_boundary(MOST));
        Self {
            level: *metadata.level(),
            kind: (
                metadata.file().unwrap_or_default(),
                metadata.line().unwrap_or_default(),
            ),
            about,
            text,
        }
    }
}

/// Reads the fields of an event.
#[derive(Default)]
struct Reader {
    message: String,
    fields: String,
    about: String,
}

impl Visit for Reader {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            return self.record_debug(field, &format_args!("{value}"));
        }
        self.record_debug(field, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        let name = field.name();
        let told = match name {
            // A client comes from another port each time.
            "peer" => address_of(&value).to_owned(),
            _ if NAMES.contains(&name) => value.clone(),
            _ => without_numbers(&value),
        };
        // Nothing fails that writes to a String.
        let _ = writeln!(self.about, "{name}={told}");
        match name {
            "message" => self.message = value,
            _ => drop(write!(self.fields, " {name}={value}")),
        }
    }
}

/// An address without its port.
fn address_of(peer: &str) -> &str {
    peer.rsplit_once(':').map_or(peer, |(address, _)| address)
}

/// A text with one sign for each number in it; hexadecimal ones count where they begin with a digit.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_number = false;
    for letter in text.chars() {
        is_number = letter.is_ascii_digit() || is_number && letter.is_ascii_hexdigit();
        match is_number {
            false => out.push(letter),
            true if out.ends_with('#') => {}
            true => out.push('#'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_make_no_other_news_and_names_do() {
        assert_eq!(
            without_numbers("4096 bytes at 0x1f00 of vm: no space"),
            "# bytes at #x# of vm: no space"
        );
        assert_eq!(address_of("10.0.0.1:40312"), "10.0.0.1");
        assert_eq!(address_of("[fd00::1]:40312"), "[fd00::1]");
    }
}
