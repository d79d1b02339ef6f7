//! The author of a request and the words of the request, as far as they are known. Histories of
//! pools and of the configuration record both, and the gate asks for the author's role.
//!
//! A unix socket knows the user at its other end. Any other client shows a token, or the cookie of
//! a login. The command line sends the typed command in a header, on which no permission depends.
//! For any other client, the request itself is kept.

use std::convert::Infallible;
use std::net::SocketAddr;

use access::{Access, Account, Principal};
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::request::Parts;
use serde::Serialize;
use tokio::net::unix::UCred;

use super::author::Author;
use super::origin;
use model::pool::history::Deed;
use model::{Error, ErrorKind};
use shown::plain;

/// Name of the header that holds the typed command line, percent-encoded.
pub(super) const COMMAND: &str = "sandstone-command";
/// Most bytes of a command line that are recorded.
const MAX_COMMAND: usize = 2048;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// User and group at the other end of a unix socket.
    user: Option<(u32, u32)>,
    /// Address of the client, over TCP.
    address: Option<SocketAddr>,
}

impl Peer {
    /// Returns the other end of a unix socket.
    pub(super) fn of_user(user: Option<UCred>) -> Self {
        Self {
            user: user.map(|user| (user.uid(), user.gid())),
            address: None,
        }
    }

    /// Returns the other end of a TCP connection.
    pub(super) fn at(address: SocketAddr) -> Self {
        Self {
            user: None,
            address: Some(address),
        }
    }
}

/// Name of the cookie that holds the secret of a login. Browsers keep such a cookie to this host
/// alone, and never send it unencrypted.
pub const COOKIE_NAME: &str = "__Host-sandstone";

/// The author of a request, and the request.
#[derive(Clone, Debug)]
pub struct Asker {
    peer: Option<Peer>,
    /// User at the other end of a unix socket.
    user: String,
    principal: Result<Principal, Error>,
    command: Option<String>,
    /// Method and path of the request.
    request: String,
}

/// Finds the asker that [`super::author::carry`] has noted.
impl<S: Send + Sync> FromRequestParts<S> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<Self>();
        Ok(known.cloned().unwrap_or_else(|| Self::unknown(parts)))
    }
}

impl Asker {
    /// Finds out whose request it is.
    pub(super) fn of(parts: &Parts, access: &Access) -> Self {
        let unknown = Self::unknown(parts);
        let from = unknown.address();
        let account = unknown.peer.and_then(|peer| peer.user);
        let account = account.map(|(uid, gid)| Account::of(uid, gid));
        let principal = match (bearer(parts), &account, cookie(parts)) {
            (Some(token), ..) => access.of_token(&token, from),
            (None, Some(account), _) => access.at_socket(account),
            (None, None, Some(secret)) => {
                origin::require_own(parts).and_then(|()| access.of_login(&secret, from))
            }
            (None, None, None) => unknown.principal,
        };
        Self {
            user: account.map(|account| account.name).unwrap_or_default(),
            principal,
            ..unknown
        }
    }

    /// Returns the asker of a request that says nothing of its author.
    pub fn unknown(parts: &Parts) -> Self {
        let peer = parts.extensions.get::<ConnectInfo<Peer>>();
        let peer = peer.map(|ConnectInfo(peer)| *peer);
        // Listeners of other crates tell the address alone.
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = peer.or(address.map(|ConnectInfo(address)| Peer::at(*address)));
        let command = parts.headers.get(COMMAND).and_then(|it| it.to_str().ok());
        Self {
            peer,
            user: String::new(),
            principal: Err(Error::new(
                ErrorKind::NotAuthenticated,
                "the request does not say whose it is",
                "send a token (Authorization: Bearer sst_…), or ask at the control socket",
            )),
            command: command
                .map(|command| plain(&unescape(command)))
                .filter(|command| !command.is_empty()),
            // A URI may hold any character beyond ASCII.
            request: plain(&format!("{} {}", parts.method, parts.uri)),
        }
    }

    /// Returns the asker of a page's own request, in place of the request for the page.
    pub(super) fn of_page(&self, request: String) -> Self {
        Self {
            request,
            command: None,
            ..self.clone()
        }
    }

    /// Returns the author with its role.
    ///
    /// # Errors
    /// The author is unknown.
    pub fn principal(&self) -> Result<&Principal, Error> {
        self.principal.as_ref().map_err(Error::clone)
    }

    /// Returns the method and path of the request.
    pub(super) fn request(&self) -> &str {
        &self.request
    }

    /// Returns the typed command line.
    pub(super) fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    /// Returns the address of the client, over TCP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.peer.and_then(|peer| peer.address)
    }

    /// Returns the author for the log and the history of the configuration. The body of the request
    /// is left out, because it may hold secrets.
    pub(super) fn author(&self) -> Author {
        let command = self.command.as_ref().unwrap_or(&self.request);
        match &self.principal {
            Ok(principal) => Author::principal(principal, command),
            Err(_) => match self.peer {
                Some(Peer {
                    user: Some((uid, _)),
                    ..
                }) => Author::user(uid, &self.user, command),
                Some(Peer {
                    address: Some(address),
                    ..
                }) => Author::somebody(&format!("an unknown user at {address}"), command),
                _ => Author::somebody("an unknown user", command),
            },
        }
    }

    /// Returns the user at the other end of a unix socket. A TCP address has no known user.
    pub(super) fn known_user(&self) -> Option<&str> {
        Some(self.user.as_str()).filter(|user| !user.is_empty())
    }

    /// Returns the entry for a pool's history, with the body of the request.
    pub(super) fn deed(&self, body: &impl Serialize) -> Deed {
        let text = self.command.clone().unwrap_or_else(|| {
            // A body that cannot be written was not read either.
            let body = serde_json::to_string(body).unwrap_or_default();
            match body.as_str() {
                "null" => self.request.clone(),
                body => format!("{} {body}", self.request),
            }
        });
        let user = match &self.principal {
            Ok(principal) => principal.name.clone(),
            Err(_) => self.user.clone(),
        };
        let is_internal = false;
        Deed {
            user,
            text,
            is_internal,
        }
    }
}

/// Encodes a command line for the header.
pub(super) fn header_of(command: &str) -> String {
    let end = command.floor_char_boundary(MAX_COMMAND);
    super::endpoint::escape(&command[..end])
}

/// Restores a text that [`super::endpoint::escape`] wrote.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the token of a request.
fn bearer(parts: &Parts) -> Option<String> {
    let value = parts.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim().to_owned())
}

/// Returns the secret of a login that a browser sends.
fn cookie(parts: &Parts) -> Option<String> {
    let mut lines = parts
        .headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|line| line.to_str().ok());
    lines.find_map(|line| {
        let mut pairs = line
            .split(';')
            .filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(name, value)| (name == COOKIE_NAME).then(|| value.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_comes_through_a_header_as_it_was_typed() {
        for text in [
            "pool create tank 'a b'",
            "100% ä€",
            "%41",
            "",
            "a%zz%",
            "tab\t",
        ] {
            assert_eq!(unescape(&header_of(text)), text, "{text}");
        }
        assert_eq!(unescape("a%zz%4"), "a%zz%4");
        let long = "ä".repeat(MAX_COMMAND);
        assert_eq!(unescape(&header_of(&long)), "ä".repeat(MAX_COMMAND / 2));
    }

    #[test]
    fn who_does_not_say_what_was_typed_is_told_by_the_request() {
        let scrub = &crate::endpoint::pool::SCRUB;
        let request = format!("{} {}", scrub.method, scrub.at(&["tank"]));
        let mut asker = Asker {
            peer: None,
            user: "root".to_owned(),
            principal: Err(Error::not_found("nobody", "")),
            command: None,
            request: request.clone(),
        };
        let body = serde_json::json!({"action": "start"});
        let deed = asker.deed(&body);
        assert_eq!(deed.text, request.clone() + r#" {"action":"start"}"#);
        assert_eq!(asker.deed(&()).text, request);
        asker.command = Some("sandstone pool scrub tank".to_owned());
        assert_eq!(asker.deed(&body).text, "sandstone pool scrub tank");
        assert_eq!(asker.deed(&body).user, "root");
    }
}
