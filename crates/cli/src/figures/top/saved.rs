//! The choice of views, columns and orders that `W` saves, and that the next `top` begins with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use hint::Place;
use model::Error;

use super::fields::View;
use super::table::Sort;
use crate::grammar::whole_file;

/// Columns of a view that are shown, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Numbers of the columns.
    pub(super) columns: Vec<usize>,
    /// Order of the rows.
    pub(super) sort: Sort,
}

impl Layout {
    /// Returns the layout of a view for which nobody chose another.
    pub(super) fn of(view: View) -> Self {
        let fields = view.fields().iter().enumerate();
        let shown = fields.filter(|(_, field)| field.is_default);
        Self {
            columns: shown.map(|(number, _)| number).collect(),
            sort: Sort::Natural,
        }
    }
}

/// Everything that is saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Saved {
    /// View at the start.
    pub(super) view: View,
    /// Seconds from update to update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay: Option<f64>,
    /// Most characters of names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name_width: Option<u16>,
    /// Whether quantiles are shown.
    pub(super) quantiles: bool,
    /// Columns of each view, by its name.
    pub(super) views: BTreeMap<String, SavedView>,
}

/// Columns of a view, by their titles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SavedView {
    /// Columns that are shown, in their order.
    pub(super) fields: Vec<String>,
    /// Column by which rows are sorted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sort: Option<String>,
}

impl SavedView {
    /// Returns a layout as it is saved.
    pub(super) fn from(view: View, layout: &Layout) -> Self {
        let title = |number: usize| view.fields()[number].title.to_owned();
        Self {
            fields: layout.columns.iter().map(|number| title(*number)).collect(),
            sort: match layout.sort {
                Sort::Natural => None,
                Sort::Largest(number) => Some(title(number)),
            },
        }
    }

    /// Returns the layout. Columns that this program does not have are left out.
    pub(super) fn layout(&self, view: View) -> Layout {
        let mut columns: Vec<usize> = Vec::new();
        for number in self.fields.iter().filter_map(|title| view.field(title)) {
            if !columns.contains(&number) {
                columns.push(number);
            }
        }
        if columns.is_empty() {
            columns = Layout::of(view).columns;
        }
        let sort = self.sort.as_ref().and_then(|title| view.field(title));
        Layout {
            columns,
            sort: sort.map_or(Sort::Natural, Sort::Largest),
        }
    }
}

/// Returns the file for the choice of the user; `None` if the user has no folder for it.
pub(super) fn default_file() -> Option<PathBuf> {
    let folder = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let configuration =
        folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(configuration.join("sandstone").join("top.toml"))
}

/// Reads a choice. Returns `None` if there is no such file.
///
/// # Errors
/// The file cannot be read, or says what this program does not understand.
pub(super) fn read(file: &Path) -> Result<Option<Saved>, Error> {
    let text = match whole_file::text(file, whole_file::SETTINGS) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let what = format!("read {}", file.display());
            return Err(Error::system(Place::File(file), what, error));
        }
    };
    let saved = toml::from_str(&text).map_err(|error| {
        Error::invalid(
            format!(
                "{} is no saved choice of top: {}",
                file.display(),
                error.message()
            ),
            "remove the file, or save another one with W",
        )
    })?;
    Ok(Some(saved))
}

/// Writes a choice.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(file: &Path, saved: &Saved) -> Result<(), String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("{} was not written: {error}", file.display());
    let text = toml::to_string(saved).map_err(|error| failed(&error))?;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    std::fs::write(file, text).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("deep").join("top.toml");
        assert_eq!(read(&file), Ok(None));
        let mut layout = Layout::of(View::Hosts);
        layout.columns.swap(0, 3);
        layout.sort = Sort::Largest(4);
        let saved = Saved {
            view: View::Network,
            delay: Some(2.5),
            name_width: Some(40),
            quantiles: true,
            views: BTreeMap::from([("hosts".to_owned(), SavedView::from(View::Hosts, &layout))]),
        };
        write(&file, &saved).expect("a file");
        let again = read(&file).expect("what was written").expect("a file");
        assert_eq!(again, saved);
        assert_eq!(again.views["hosts"].layout(View::Hosts), layout);
        std::fs::write(&file, "view = \"moon\"").expect("a file");
        let error = read(&file).expect_err("nonsense");
        assert!(error.message.contains("top.toml"), "{error}");
    }

    #[test]
    fn unknown_and_repeated_columns_are_left_out() {
        let titles = |titles: &[&str]| SavedView {
            fields: titles.iter().map(|title| (*title).to_owned()).collect(),
            sort: Some("MOON".to_owned()),
        };
        let layout = titles(&["CMDS/s", "MOON", "DEVICE", "CMDS/s"]).layout(View::Devices);
        let told = layout
            .columns
            .iter()
            .map(|it| View::Devices.fields()[*it].title);
        assert_eq!(told.collect::<Vec<_>>(), ["CMDS/s", "DEVICE"]);
        assert_eq!(layout.sort, Sort::Natural);
        assert_eq!(
            titles(&["MOON"]).layout(View::Pools),
            Layout::of(View::Pools)
        );
    }
}
