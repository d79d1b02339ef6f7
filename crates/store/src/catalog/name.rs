//! Names of datasets, by ZFS's rules: `vms/disk1@monday`. The pool's own name is no part of them.

use std::fmt;

use super::error::{CatalogError, ErrorKind};

/// Length of the longest name of a dataset, in bytes.
pub const MAX_NAME: usize = 255;
/// Greatest depth to which folders and volumes may be nested.
pub const MAX_DEPTH: usize = 50;

/// A name, split into its parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Folders from the root down, and the last folder or volume; empty for the root.
    pub path: Vec<String>,
    /// Name of the snapshot: the part behind `@`.
    pub snapshot: Option<String>,
}

impl Name {
    /// Splits a name. The empty name is the pool's root folder.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`] if a part breaks a rule, or the whole is too long or too deep.
    pub fn parse(text: &str) -> Result<Self, CatalogError> {
        let (path, snapshot) = match text.split_once('@') {
            Some((path, snapshot)) => (path, Some(snapshot)),
            None => (text, None),
        };
        let check = |part: &str| match part {
            "" => Err(invalid(format!("'{text}' has an empty part"))),
            part => check_component(part),
        };
        if let Some(snapshot) = snapshot {
            check(snapshot)?;
        }
        let mut components = Vec::new();
        if !path.is_empty() {
            for component in path.split('/') {
                check(component)?;
                components.push(component.to_owned());
            }
        }
        check_size(text.len(), components.len(), text)?;
        Ok(Self {
            path: components,
            snapshot: snapshot.map(str::to_owned),
        })
    }

    /// Returns the folder above and the last component; `None` for the root. Snapshots are left
    /// aside.
    pub fn split(&self) -> Option<(&[String], &str)> {
        let (last, above) = self.path.split_last()?;
        Some((above, last))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path.join("/"))?;
        match &self.snapshot {
            Some(snapshot) => write!(f, "@{snapshot}"),
            None => Ok(()),
        }
    }
}

/// Checks whether a part of a name, or the name of a snapshot, is allowed.
///
/// # Errors
/// [`ErrorKind::InvalidName`], with the rule that the name breaks.
pub fn check_component(component: &str) -> Result<(), CatalogError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.: ".contains(c);
    // The name may come from anywhere, and is shown to people.
    let shown = component.escape_debug();
    let problem = if component.is_empty() {
        "a part of the name is empty".to_owned()
    } else if component.len() > MAX_NAME {
        format!("'{shown}' is longer than {MAX_NAME} bytes")
    } else if matches!(component, "." | "..") {
        format!("'{shown}' is not allowed as a part of a name")
    } else if component.starts_with(' ') || component.ends_with(' ') {
        format!("'{shown}' begins or ends with a space")
    } else if let Some(wrong) = component.chars().find(|c| !is_allowed(*c)) {
        format!(
            "'{shown}' contains the character '{}'",
            wrong.escape_debug()
        )
    } else {
        return Ok(());
    };
    Err(invalid(problem))
}

/// Checks whether a whole name is short and shallow enough.
pub(super) fn check_size(len: usize, depth: usize, name: &str) -> Result<(), CatalogError> {
    if len > MAX_NAME {
        return Err(invalid(format!(
            "'{name}' would be {len} bytes long; {MAX_NAME} are the most"
        )));
    }
    if depth > MAX_DEPTH {
        return Err(invalid(format!(
            "'{name}' would be nested {depth} deep; {MAX_DEPTH} is the most"
        )));
    }
    Ok(())
}

fn invalid(problem: String) -> CatalogError {
    CatalogError::new(
        ErrorKind::InvalidName,
        problem,
        "use letters, digits and - _ . : and spaces between '/', and '@' before a snapshot's name",
    )
}
