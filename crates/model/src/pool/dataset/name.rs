//! Full names of datasets, which begin with the pool's name, as administrators write them.

use crate::Error;

/// Splits a full name into the pool's name and the rest.
pub fn split(name: &str) -> (&str, &str) {
    match name.find(['/', '@']) {
        Some(at) if name[at..].starts_with('/') => (&name[..at], &name[at + 1..]),
        Some(at) => (&name[..at], &name[at..]),
        None => (name, ""),
    }
}

/// Refuses a name with an empty part, for example `tank/` or `tank//vm1`. Otherwise, the pool could
/// be taken for the intended dataset. The part after `@` may stand alone.
///
/// # Errors
/// A part is empty. The error shows the whole name, and the form of names.
pub fn require_whole(name: &str) -> Result<(), Error> {
    let (path, snapshot) = match name.split_once('@') {
        Some((path, snapshot)) => (path, Some(snapshot)),
        None => (name, None),
    };
    let is_told_by_itself = path.is_empty() && snapshot.is_some();
    let has_gap = !is_told_by_itself && path.split('/').any(str::is_empty);
    if !has_gap && snapshot != Some("") {
        return Ok(());
    }
    Err(Error::invalid(
        format!("'{name}' has an empty part"),
        "write the pool's name, one '/' before each further part, no '/' at the end, and a snapshot's name \
         after '@'",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_the_pool() {
        assert_eq!(split("tank"), ("tank", ""));
        assert_eq!(split("tank/a/b@c"), ("tank", "a/b@c"));
        assert_eq!(split("tank@all"), ("tank", "@all"));
        assert_eq!(split("@b"), ("", "@b"));
    }

    #[test]
    fn names_with_an_empty_part_are_refused_as_a_whole() {
        for whole in ["tank", "tank/a", "tank/a/b@c", "tank@c", "@c"] {
            require_whole(whole).expect(whole);
        }
        for name in [
            "", "/", "/tank", "tank/", "tank//a", "tank/a/", "tank/a@", "tank/@c", "/@c", "@",
        ] {
            let error = require_whole(name).expect_err(name);
            assert_eq!(error.message, format!("'{name}' has an empty part"));
        }
    }
}
