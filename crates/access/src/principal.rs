//! A principal: the author of a request once it is known, with its role and its limits.

use std::fmt;
use std::net::SocketAddr;

use model::access::{FolderGrant, Role};
use model::{Error, ErrorKind};

/// Author of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Name of the user or token.
    pub name: String,
    /// Role of the user or token.
    pub role: Role,
    /// Entrance through which the request came.
    pub entrance: Entrance,
    /// Limit of a token to a folder.
    pub grant: Option<FolderGrant>,
}

/// Entrance of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// Control socket. The kernel told the number of the user.
    Socket {
        /// Number of the user.
        uid: u32,
    },
    /// Token, from a client at this address; `None` at the control socket.
    Token(Option<SocketAddr>),
    /// Login at the console, by the number of the login.
    Console {
        /// Number of the login.
        login: u64,
        /// Address of the browser.
        from: Option<SocketAddr>,
    },
}

impl Entrance {
    /// Returns the name of the entrance for the audit log.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Socket { .. } => "socket",
            Self::Token(_) => "token",
            Self::Console { .. } => "console",
        }
    }

    /// Returns the address of the client, if there is one.
    pub fn from(&self) -> Option<SocketAddr> {
        match self {
            Self::Socket { .. } => None,
            Self::Token(from) | Self::Console { from, .. } => *from,
        }
    }
}

impl Principal {
    /// Refuses a request that needs a higher role.
    ///
    /// # Errors
    /// The role is too low.
    pub fn require(&self, role: Role) -> Result<(), Error> {
        if self.role >= role {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NotPermitted,
            format!(
                "this needs the role {role}, and {self} has the role {}",
                self.role
            ),
            format!(
                "ask an admin to do it, or to give {} the role {role}",
                self.name
            ),
        ))
    }
}

/// Shows the author as the log names it.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entrance {
            Entrance::Socket { uid } => write!(f, "{} (uid {uid})", self.name),
            Entrance::Token(None) => write!(f, "token {}", self.name),
            Entrance::Token(Some(from)) => write!(f, "token {} at {from}", self.name),
            Entrance::Console { from: None, .. } => f.write_str(&self.name),
            Entrance::Console {
                from: Some(from), ..
            } => write!(f, "{} at {from}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_may_do_what_lower_roles_may() {
        for own in Role::ALL {
            let principal = Principal {
                name: "ann".to_owned(),
                role: own,
                entrance: Entrance::Socket { uid: 7 },
                grant: None,
            };
            for needed in Role::ALL {
                let answer = principal.require(needed);
                assert_eq!(answer.is_ok(), own >= needed, "{own} {needed}");
                if let Err(error) = answer {
                    assert_eq!(error.kind, ErrorKind::NotPermitted);
                    let told =
                        format!("needs the role {needed}, and ann (uid 7) has the role {own}");
                    assert!(error.message.contains(&told), "{error}");
                }
            }
        }
    }
}
