//! A visit: the request for a page, its reader, and the ways to ask the API on the reader's behalf.

use std::sync::{Arc, OnceLock};

use access::Principal;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use control::endpoint::disk;
use control::{Asker, Endpoint};
use model::Error;
use model::access::Role;
use model::disk::DiskView;

use super::answer::Told;
use super::state::Console;

/// Names and values of a query or of a form, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(pub(crate) Vec<(String, String)>);

impl Fields {
    /// Reads a query or the body of a form. Text that is neither has no fields.
    pub(crate) fn read(text: &[u8]) -> Self {
        Self(serde_urlencoded::from_bytes(text).unwrap_or_default())
    }

    /// Returns the value of a field without spaces around it. An absent field is empty.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.exact(name).trim()
    }

    /// Returns the value of a field as it was sent, such as a password.
    pub(crate) fn exact(&self, name: &str) -> &str {
        let mut fields = self.0.iter();
        let found = fields.find(|(of, _)| of == name);
        found.map_or("", |(_, value)| value)
    }

    /// Returns the value of a field that is neither absent nor empty.
    pub(crate) fn some(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.is_empty())
    }

    /// Reports whether a box is checked.
    pub(crate) fn is_checked(&self, name: &str) -> bool {
        self.some(name).is_some()
    }
}

/// Colours of the pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Colours of the reader's system.
    #[default]
    System,
    /// Dark letters on light ground.
    Light,
    /// Light letters on dark ground.
    Dark,
}

impl Theme {
    /// All themes.
    pub(crate) const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];
    /// Name of the cookie that keeps the choice.
    pub(crate) const COOKIE: &str = "__Host-theme";

    /// Returns the name of the theme.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// Returns the theme of a name. A name that is not known means the system's.
    pub(crate) fn of(name: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|theme| theme.as_str() == name).unwrap_or_default()
    }
}

/// Request for a page.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) console: Arc<Console>,
    pub(crate) asker: Asker,
    /// Arguments in the path.
    pub(crate) at: Vec<String>,
    /// Path and query as they were asked.
    pub(crate) address: String,
    /// Query parameters.
    pub(crate) query: Fields,
    /// Fields of a form.
    pub(crate) form: Fields,
    /// Colours that the reader chose.
    pub(crate) theme: Theme,
    /// Message of the page before.
    pub(crate) told: Option<Told>,
    /// Disks of this machine, once they were asked for. Each look at them reads all disks.
    pub(crate) disks: Arc<OnceLock<Vec<DiskView>>>,
}

impl Visit {
    /// Returns the path that was asked, without the query.
    pub(crate) fn path(&self) -> &str {
        self.address.split('?').next().unwrap_or_default()
    }

    /// Returns an argument of the path by its place.
    pub(crate) fn name(&self, place: usize) -> &str {
        self.at.get(place).map_or("", String::as_str)
    }

    /// Returns the reader; `None` if nobody is logged in.
    pub(crate) fn reader(&self) -> Option<&Principal> {
        self.asker.principal().ok()
    }

    /// Reports whether the reader's role is high enough for an endpoint, so that its button is
    /// shown. The gate decides when the button is used.
    pub(crate) fn may<Q, B, A>(&self, endpoint: &Endpoint<Q, B, A>) -> bool {
        self.has_role(endpoint.role)
    }

    /// Reports whether the reader has at least this role.
    pub(crate) fn has_role(&self, role: Role) -> bool {
        self.reader().is_some_and(|reader| reader.role >= role)
    }

    /// Returns the disks of this machine, as they were at the first look of this visit.
    ///
    /// # Errors
    /// The reader may not see them.
    pub(crate) fn disks(&self) -> Result<&[DiskView], Error> {
        if let Some(disks) = self.disks.get() {
            return Ok(disks);
        }
        let disks = self.call(&disk::LIST, &[])?;
        Ok(self.disks.get_or_init(|| disks))
    }

    /// Asks an endpoint that takes neither a query nor a body.
    ///
    /// # Errors
    /// The reader may not do this, or the endpoint refuses.
    pub(crate) fn call<A: 'static>(
        &self,
        endpoint: &Endpoint<(), (), A>,
        at: &[&str],
    ) -> Result<A, Error> {
        self.console.door.call(&self.asker, endpoint, at)
    }

    /// Asks an endpoint.
    ///
    /// # Errors
    /// The reader may not do this, or the endpoint refuses.
    pub(crate) fn ask<Q, B, A>(
        &self,
        endpoint: &Endpoint<Q, B, A>,
        at: &[&str],
        query: Q,
        body: B,
    ) -> Result<A, Error>
    where
        Q: serde::Serialize + 'static,
        B: serde::Serialize + 'static,
        A: 'static,
    {
        let door = &self.console.door;
        door.ask(&self.asker, endpoint, at, query, body)
    }
}

/// Returns the value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter();
    let mut pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(of, value)| (of == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_kept_apart() {
        let form = Fields::read(b"name=+a%26b+&password=+x+&to=1&to=2&box=on");
        assert_eq!(form.get("name"), "a&b");
        assert_eq!(form.exact("password"), " x ");
        assert!(form.is_checked("box") && !form.is_checked("other"));
        assert_eq!(form.some("other"), None);
        assert!(Fields::read(b"\xff%zz=&&==").0.len() < 4);
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; __Host-theme=dark".parse().expect("a header"));
        headers.append(COOKIE, "b=2".parse().expect("a header"));
        assert_eq!(cookie(&headers, Theme::COOKIE), Some("dark"));
        assert_eq!(cookie(&headers, "b"), Some("2"));
        assert_eq!(cookie(&headers, "theme"), None);
        assert_eq!(Theme::of("dark\"><script>"), Theme::System);
    }
}
