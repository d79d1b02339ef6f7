//! One-time links. The first start gives a link at which the first admin chooses a name and a
//! password; `demo` gives one that logs in.

use super::secret;

/// Purpose of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Adds the first admin.
    First,
    /// Logs a user in, as often as it is opened.
    Enter,
}

/// Links that are open, by the digests of their secrets. They lie in memory: each start gives new
/// ones.
#[derive(Debug, Default)]
pub(crate) struct Links {
    open: Vec<(String, Purpose)>,
}

impl Links {
    /// Returns the secret of a new link to add the first admin. Older ones end.
    pub(crate) fn first(&mut self) -> Result<String, getrandom::Error> {
        self.add(Purpose::First)
    }

    /// Returns the secret of a new link that logs in.
    pub(crate) fn enter(&mut self) -> Result<String, getrandom::Error> {
        self.add(Purpose::Enter)
    }

    fn add(&mut self, purpose: Purpose) -> Result<String, getrandom::Error> {
        let secret = secret::new("")?;
        self.open.retain(|(_, of)| *of != purpose);
        self.open.push((secret::digest(&secret), purpose));
        Ok(secret)
    }

    /// Reports whether a secret is that of the link to add the first admin.
    pub(crate) fn is_first(&self, secret: &str) -> bool {
        self.open
            .contains(&(secret::digest(secret), Purpose::First))
    }

    /// Reports whether a secret is that of the link that logs in.
    pub(crate) fn is_enter(&self, secret: &str) -> bool {
        self.open
            .contains(&(secret::digest(secret), Purpose::Enter))
    }

    /// Reports whether there is a link that logs in.
    pub(crate) fn has_enter(&self) -> bool {
        let mut open = self.open.iter();
        open.any(|(_, purpose)| *purpose == Purpose::Enter)
    }

    /// Ends the link to add the first admin.
    pub(crate) fn end_first(&mut self) {
        self.open.retain(|(_, purpose)| *purpose != Purpose::First);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_one_purpose_and_ends() {
        let mut links = Links::default();
        let (old, enter) = (
            links.first().expect("a link"),
            links.enter().expect("a link"),
        );
        let first = links.first().expect("a link");
        assert!(links.is_first(&first) && !links.is_first(&old));
        assert!(links.is_enter(&enter) && !links.is_enter(&first) && !links.is_first(&enter));
        links.end_first();
        assert!(!links.is_first(&first) && links.is_enter(&enter));
        assert!(!links.is_first("") && !links.is_enter(""));
    }
}
