//! Notes on generations of the configuration: the time of each, its author, and the objects that it
//! changed.
//!
//! A note is a comment in the file of its generation, covered by the file's checksum. So it is kept
//! and lost with the file. Files of older versions have no notes, and older versions skip them.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::diff::{Action, Difference};

/// Beginning of a note's line.
const MARK: &str = "# made: ";
/// Most objects of one change that are named. An import may make thousands.
const MOST_OBJECTS: usize = 32;

/// Note on the origin of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Time of the generation, in seconds since 1970.
    pub time_s: u64,
    /// Changes in their order. Changes that came together make one generation.
    pub changes: Vec<NotedChange>,
}

/// Change of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotedChange {
    /// User of this machine who asked for the change; empty if not known.
    pub user: String,
    /// Command line, or request of the API.
    pub command: String,
    /// Whether the daemon made the change by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_internal: bool,
    /// Objects that the change touched.
    pub objects: Vec<NotedObject>,
    /// Number of touched objects that are not named.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others: usize,
}

/// Object that a change touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotedObject {
    /// Action on the object.
    pub action: Action,
    /// Kind of the object, as in a difference.
    pub object: String,
    /// Name of the object.
    pub name: String,
    /// Fields that changed, if the object stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// Generation of the configuration that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GenerationView {
    /// Number of the generation.
    pub generation: u64,
    /// Whether it is in force.
    pub in_force: bool,
    /// Time of the generation, in seconds since 1970; `None` if not known.
    pub time_s: Option<u64>,
    /// Changes that made the generation; `None` if they are not known.
    pub changes: Option<Vec<NotedChange>>,
}

impl Note {
    /// Creates the note of changes made just now.
    pub fn of(changes: Vec<NotedChange>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            // A clock before 1970 tells nothing.
            time_s: since.map_or(0, |since| since.as_secs()),
            changes,
        }
    }

    /// Describes a change that the program made by itself just now.
    pub fn now(what: &str) -> Self {
        Self::of(vec![NotedChange {
            command: what.to_owned(),
            is_internal: true,
            ..NotedChange::default()
        }])
    }

    /// Returns the note's line for a file, including the line end.
    pub(super) fn line(&self) -> String {
        // Text and numbers can always be written on one line. JSON may contain DEL unescaped, but
        // comments of TOML may not.
        let json = serde_json::to_string(self).unwrap_or_default();
        let json = json.replace('\x7f', "\\u007f");
        format!("{MARK}{json}\n")
    }

    /// Finds the note in the comments at the beginning of a file.
    pub(super) fn find(text: &str) -> Option<Self> {
        let mut comments = text.lines().take_while(|line| line.starts_with('#'));
        let json = comments.find_map(|line| line.strip_prefix(MARK))?;
        serde_json::from_slice(json.as_bytes()).ok()
    }
}

impl NotedChange {
    /// Adds the objects of these differences to the change, up to the limit.
    pub fn touching(self, differences: &[Difference]) -> Self {
        let noted = |difference: &Difference| NotedObject {
            action: difference.action,
            object: difference.object.clone(),
            name: difference.name.clone(),
            fields: match difference.action {
                Action::Modify => difference
                    .fields
                    .iter()
                    .map(|of| of.field.clone())
                    .collect(),
                Action::Add | Action::Remove => Vec::new(),
            },
        };
        Self {
            objects: differences.iter().take(MOST_OBJECTS).map(noted).collect(),
            others: differences.len().saturating_sub(MOST_OBJECTS),
            ..self
        }
    }

    /// Describes each object in a clause.
    pub fn clauses(&self) -> Vec<String> {
        let mut clauses: Vec<String> = self.objects.iter().map(NotedObject::clause).collect();
        if clauses.is_empty() && !self.command.is_empty() {
            clauses.push(self.command.clone());
        }
        if self.others > 0 {
            clauses.push(format!("{} more objects", self.others));
        }
        clauses
    }
}

impl NotedObject {
    fn clause(&self) -> String {
        let Self { object, name, .. } = self;
        match self.action {
            Action::Add => format!("{object} {name} created"),
            Action::Remove => format!("{object} {name} removed"),
            Action::Modify => format!("{object} {name} changed: {}", self.fields.join(", ")),
        }
    }
}

impl GenerationView {
    /// Creates the view of a generation from its number and its note.
    pub(super) fn new(generation: u64, in_force: bool, note: Option<Note>) -> Self {
        let (time_s, changes) = note.map(|note| (note.time_s, note.changes)).unzip();
        Self {
            generation,
            in_force,
            time_s,
            changes,
        }
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::super::diff::FieldChange;
    use super::*;

    fn difference(action: Action, name: &str) -> Difference {
        Difference {
            action,
            object: "lu".into(),
            name: name.into(),
            fields: vec![FieldChange {
                field: "size".into(),
                old: Some("1".into()),
                new: Some("2".into()),
            }],
        }
    }

    fn note(differences: &[Difference]) -> Note {
        let change = NotedChange {
            user: "anna".into(),
            command: "sandstone lu create 'a\n# made: b'".into(),
            ..NotedChange::default()
        };
        Note {
            time_s: 1_795_320_306,
            changes: vec![change.touching(differences)],
        }
    }

    #[test]
    fn a_note_is_one_line_and_reads_back() {
        let note = note(&[
            difference(Action::Add, "a"),
            difference(Action::Modify, "b"),
        ]);
        let line = note.line();
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let text = format!("# sandstone configuration\n# more\n{line}generation = 1\n");
        assert_eq!(Note::find(&text), Some(note.clone()));
        let clauses = ["lu a created", "lu b changed: size"];
        assert_eq!(note.changes[0].clauses(), clauses);
    }

    #[test]
    fn a_note_leaves_the_file_readable_whatever_objects_are_called() {
        for letter in (0..=0x2ff).filter_map(char::from_u32) {
            let note = note(&[difference(Action::Add, &format!("t10.a{letter}b"))]);
            let text = format!("{}generation = 1\n", note.line());
            assert_eq!(Note::find(&text), Some(note), "{letter:?}");
            let read: Result<toml::Table, _> = toml::from_str(&text);
            assert!(read.is_ok(), "{letter:?}: {read:?}");
        }
    }

    #[test]
    fn what_stands_behind_the_comments_is_no_note() {
        let line = note(&[]).line();
        assert_eq!(Note::find(&format!("# one\nname = 1\n{line}")), None);
        assert_eq!(Note::find("# made: nonsense\n"), None);
        assert_eq!(Note::find(""), None);
    }

    #[test]
    fn a_change_of_thousands_of_objects_names_some_and_counts_the_rest() {
        let many: Vec<_> = (0..1000)
            .map(|n| difference(Action::Remove, &format!("u{n}")))
            .collect();
        let noted = note(&many);
        assert!(noted.line().len() < 8192);
        let clauses = noted.changes[0].clauses();
        assert_eq!(clauses.first().map(String::as_str), Some("lu u0 removed"));
        assert_eq!(clauses.last().map(String::as_str), Some("968 more objects"));
    }
}
