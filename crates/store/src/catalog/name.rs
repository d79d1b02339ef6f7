//! Names of datasets, by ZFS's rules: `vms/disk1@monday`. The pool's own name is no part of them.

use std::fmt;

use super::error::{CatalogError, ErrorKind};
use crate::format::dataset::{MAX_NAME, component_fault};

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
    component_fault(component).map_or(Ok(()), |fault| Err(invalid(fault)))
}

/// Checks whether a whole name is short and shallow enough.
pub(super) fn check_size(len: usize, depth: usize, name: &str) -> Result<(), CatalogError> {
    if len > MAX_NAME {
        return Err(invalid(format!(
            "'{name}' would be {len} bytes long; a name has at most {MAX_NAME}"
        )));
    }
    if depth > MAX_DEPTH {
        return Err(invalid(format!(
            "'{name}' would be nested {depth} deep; at most {MAX_DEPTH} levels are possible"
        )));
    }
    Ok(())
}

fn invalid(message: String) -> CatalogError {
    CatalogError::new(
        ErrorKind::InvalidName,
        message,
        "use letters, digits, - _ . : and spaces in each part, '/' between parts, and '@' before a \
         snapshot's name",
    )
}
