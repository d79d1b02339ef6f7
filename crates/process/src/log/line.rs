//! The subject of a log line.
//!
//! Two lines are repeats if they come from one place in the program, concern one object and one
//! client, and have one reason. Objects and clients are fields of the event, or words of its
//! message. Numbers (an offset, a port, a count) do not make a line new, unless they are a part of
//! a name.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};

use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// A place in the program: file and line.
pub(super) type CallSite = (&'static str, u32);

/// Fields in which numbers matter, because they name objects and clients.
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
/// Most bytes of a line that are kept.
const MOST: usize = 1000;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Severity of the line.
    pub(super) level: Level,
    /// Place in the program from which the line comes.
    pub(super) kind: CallSite,
    /// Words of the line, without the numbers that do not make it new.
    pub(super) about: String,
    /// Message and its fields.
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

/// Visitor that reads the fields of an event.
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
            // A client comes from a different port each time.
            "peer" => address_of(&value).to_owned(),
            _ if NAMES.contains(&name) => value.clone(),
            _ => without_numbers(&value),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.about, "{name}={told}");
        match name {
            "message" => self.message = value,
            _ => drop(write!(self.fields, " {name}={value}")),
        }
    }
}

/// Returns an address without its port.
fn address_of(peer: &str) -> &str {
    peer.rsplit_once(':').map_or(peer, |(address, _)| address)
}

/// Separators between the words of a text. Names of initiators and targets contain none of these.
const SEPARATORS: [char; 8] = [' ', '=', ',', ';', '(', ')', '"', '\n'];

/// Replaces each number of a text by one sign. Addresses, and numbers that are a part of a name,
/// stay.
fn without_numbers(text: &str) -> String {
    let words = text.split_inclusive(SEPARATORS);
    let mut out = String::with_capacity(text.len());
    for word in words {
        let bare = word.trim_end_matches(SEPARATORS);
        match bare.parse::<SocketAddr>() {
            Ok(address) => out.push_str(&address.ip().to_string()),
            Err(_) if is_number(bare) => out.push('#'),
            Err(_) => out.push_str(bare),
        }
        out.push_str(&word[bare.len()..]);
    }
    out
}

fn is_number(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ':', '%']);
    match word.strip_prefix("0x") {
        Some(digits) => digits.chars().all(|of| of.is_ascii_hexdigit()),
        None => {
            let has_digits = word.contains(|of: char| of.is_ascii_digit());
            let is_address = word.parse::<IpAddr>().is_ok();
            let is_plain = word
                .chars()
                .all(|of| of.is_ascii_digit() || "./-+".contains(of));
            has_digits && is_plain && !is_address
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_make_no_other_news_and_names_do() {
        for (text, told) in [
            (
                "4096 bytes at 0x1f00: MaxBurst=262144, no space (0200)",
                "# bytes at # MaxBurst=#, no space (#)",
            ),
            (
                "login of iqn.1991-05.com.microsoft:host1 to vm2 refused",
                "login of iqn.1991-05.com.microsoft:host1 to vm2 refused",
            ),
            (
                "from 10.0.0.1:40312 by 10.0.0.2",
                "from 10.0.0.1 by 10.0.0.2",
            ),
            ("from [fd00::1]:40312", "from fd00::1"),
        ] {
            assert_eq!(without_numbers(text), told);
        }
        assert_eq!(address_of("10.0.0.1:40312"), "10.0.0.1");
        assert_eq!(address_of("[fd00::1]:40312"), "[fd00::1]");
    }
}
