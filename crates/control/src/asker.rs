//! The author of a change and the words of the request, as far as they are known. Histories of
//! pools and of the configuration record both.
//!
//! A unix socket knows the user at its other end, but a TCP address does not. The command line
//! sends the typed command in a header. For any other client, the request itself is kept. No
//! permission depends on either: a client that may talk to the daemon at all may do everything.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::serve::IncomingStream;
use serde::Serialize;
use tokio::net::{TcpListener, UnixListener};

use super::author::Author;
use model::pool::history::Deed;

/// Name of the header that holds the typed command line, percent-encoded.
pub(super) const COMMAND: &str = "sandstone-command";
/// Most bytes of a command line that are recorded.
const MAX_COMMAND: usize = 2048;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    uid: Option<u32>,
    /// Address of the client, over TCP.
    address: Option<SocketAddr>,
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let known = stream.io().peer_cred().ok();
        let uid = known.map(|known| known.uid());
        Self { uid, address: None }
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self {
            uid: None,
            address: Some(*stream.remote_addr()),
        }
    }
}

/// The author of a request, and the request.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    peer: Option<Peer>,
    user: String,
    command: Option<String>,
    /// Method and path of the request.
    request: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // The names of users are looked up once for each request.
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        let peer = parts.extensions.get::<ConnectInfo<Peer>>();
        let peer = peer.map(|ConnectInfo(peer)| *peer);
        let uid = peer.and_then(|peer| peer.uid);
        let command = parts.headers.get(COMMAND).and_then(|it| it.to_str().ok());
        Ok(Self {
            peer,
            user: uid.map(user_name).unwrap_or_default(),
            command: command.map(unescape).filter(|command| !command.is_empty()),
            request: format!("{} {}", parts.method, parts.uri),
        })
    }
}

impl Asker {
    /// Returns the author for the log and the history of the configuration. The body of the request
    /// is left out, because it may hold secrets.
    pub(super) fn author(&self) -> Author {
        let command = self.command.as_ref().unwrap_or(&self.request);
        match self.peer {
            Some(Peer { uid: Some(uid), .. }) => Author::user(uid, &self.user, command),
            Some(Peer {
                address: Some(address),
                ..
            }) => Author::somebody(&format!("an unknown user at {address}"), command),
            _ => Author::somebody("an unknown user", command),
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
        let user = self.user.clone();
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

/// Returns the name of a user of this machine, or the number if the user has no name here.
pub(super) fn user_name(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| uid.to_string())
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

    #[test]
    fn users_are_named_where_the_machine_knows_them() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_001), "4000000001");
    }
}
