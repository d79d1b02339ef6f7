//! Entries of the machine's journal, in its native protocol (systemd's JOURNAL_NATIVE_PROTOCOL).
//!
//! An entry has the fields of its event, so `journalctl SANDSTONE_UNIT=vm1` finds all that concerns
//! one unit. Its message has them too: `journalctl -u sandstone` shows messages only, and without
//! its fields *a target listens* says little. The crate tracing-journald sends messages without
//! fields, so it is not used.

use std::fmt::{self, Write as _};
use std::os::linux::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::line::Line;

/// Socket of the journal.
const SOCKET: &str = "/run/systemd/journal/socket";
/// Name of this program in the journal.
const IDENTIFIER: &str = "sandstone";
/// Most bytes of one field. Longer values would not fit into a datagram together with the others.
const MOST: usize = 4000;

/// Layer that writes entries of the journal.
#[derive(Debug)]
pub(super) struct JournalLayer {
    path: PathBuf,
    socket: Option<UnixDatagram>,
}

impl Default for JournalLayer {
    fn default() -> Self {
        Self::at(Path::new(SOCKET))
    }
}

impl JournalLayer {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::unbound().and_then(|socket| {
            // A journal that does not keep up must not hold an event loop.
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        Self {
            path: path.to_owned(),
            socket: socket.ok(),
        }
    }

    fn send(&self, entry: &[u8]) -> bool {
        let sent = self
            .socket
            .as_ref()
            .map(|socket| socket.send_to(entry, &self.path));
        matches!(sent, Some(Ok(_)))
    }
}

impl<S: Subscriber> Layer<S> for JournalLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let entry = Entry::of(event);
        if !self.send(&entry.bytes) {
            // The line is lost only if stderr is closed as well.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("<{}>{}\n", priority(event.metadata().level()), entry.text),
            );
        }
    }
}

/// Reports whether stderr leads to the journal, as the service manager says in `JOURNAL_STREAM`.
pub(super) fn is_stderr() -> bool {
    let told = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    // The link names what is open there, without a file of its own.
    std::fs::metadata("/proc/self/fd/2")
        .is_ok_and(|file| is_stream(&told, file.st_dev(), file.st_ino()))
}

/// Reports whether the text names this device and inode, as in `8:1234`.
fn is_stream(told: &str, device: u64, inode: u64) -> bool {
    told.split_once(':')
        .is_some_and(|(at, number)| at.parse() == Ok(device) && number.parse() == Ok(inode))
}

/// Returns the level as syslog and the journal number it.
fn priority(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// Entry as the journal takes it.
struct Entry {
    bytes: Vec<u8>,
    /// Message with its fields.
    text: String,
}

impl Entry {
    fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let text = Line::of(event).text;
        let mut entry = Self {
            bytes: Vec::with_capacity(512),
            text: String::new(),
        };
        entry.put("MESSAGE", &text);
        entry.put("PRIORITY", &priority(metadata.level()).to_string());
        entry.put("SYSLOG_IDENTIFIER", IDENTIFIER);
        if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
            entry.put("CODE_FILE", file);
            entry.put("CODE_LINE", &line.to_string());
        }
        event.record(&mut entry);
        entry.text = text;
        entry
    }

    /// Adds a field. A value of several lines is written with its length before it.
    fn put(&mut self, name: &str, value: &str) {
        let value = &value[..value.floor_char_boundary(MOST)];
        self.bytes.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            self.bytes.push(b'\n');
            let length = value.len() as u64;
            self.bytes.extend_from_slice(&length.to_le_bytes());
        } else {
            self.bytes.push(b'=');
        }
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(b'\n');
    }
}

impl Visit for Entry {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() != "message" {
            self.put(&name_of(field.name()), value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "message" {
            let mut text = String::new();
            // Writing to a String cannot fail.
            let _ = write!(text, "{value:?}");
            self.put(&name_of(field.name()), &text);
        }
    }
}

/// Returns the name of a field in the journal, which takes capital letters, digits and `_`.
fn name_of(field: &str) -> String {
    let name = field.chars().map(|of| match of.to_ascii_uppercase() {
        of @ ('A'..='Z' | '0'..='9') => of,
        _ => '_',
    });
    "SANDSTONE_".chars().chain(name).collect()
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Returns the entries that the journal receives from `log`.
    fn received(log: impl FnOnce()) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!("journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("socket");
        let journal = UnixDatagram::bind(&path).expect("a socket");
        let subscriber = tracing_subscriber::registry().with(JournalLayer::at(&path));
        tracing::subscriber::with_default(subscriber, log);
        journal.set_nonblocking(true).expect("a flag");
        let mut entries = Vec::new();
        let mut bytes = [0; 8192];
        while let Ok(length) = journal.recv(&mut bytes) {
            entries.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        }
        std::fs::remove_dir_all(&folder).expect("its removal");
        entries
    }

    #[test]
    fn an_entry_has_a_message_for_people_and_fields_for_searches() {
        let entries = received(|| {
            let unit = "vm1";
            tracing::error!(unit, errors = 3, "a block request failed");
            tracing::info!(why = "first\nsecond", "told");
        });
        assert_eq!(entries.len(), 2);
        let lines: Vec<&str> = entries[0].lines().collect();
        assert_eq!(
            lines[0],
            "MESSAGE=a block request failed unit=\"vm1\" errors=3"
        );
        assert_eq!(lines[1], "PRIORITY=3");
        for line in [
            "SYSLOG_IDENTIFIER=sandstone",
            "SANDSTONE_UNIT=vm1",
            "SANDSTONE_ERRORS=3",
        ] {
            assert!(lines.contains(&line), "{lines:?}");
        }
        // Twelve bytes, in little endian, stand before a value of two lines.
        let long = "SANDSTONE_WHY\n\u{c}\0\0\0\0\0\0\0first\nsecond\n";
        assert!(entries[1].contains(long), "{:?}", entries[1]);
        assert!(entries[1].contains("PRIORITY=6\n"));
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        assert!(is_stream("8:1234", 8, 1234));
        for other in ["8:1235", "9:1234", "", "8", "8:", ":1234", "8:1234:1"] {
            assert!(!is_stream(other, 8, 1234), "{other}");
        }
    }

    #[test]
    fn names_of_fields_are_those_that_the_journal_takes() {
        assert_eq!(name_of("unit"), "SANDSTONE_UNIT");
        assert_eq!(name_of("io.error-kind"), "SANDSTONE_IO_ERROR_KIND");
    }
}
