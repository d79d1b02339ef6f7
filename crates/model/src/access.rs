//! Roles; users, tokens and audit lines as the API shows them; requests that change them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Error;

/// Role of a user or token. Each role may do all that the roles before it may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads everything but secrets.
    Viewer,
    /// Takes snapshots, clones and scrubs too, and logs sessions out.
    Operator,
    /// Does everything.
    Admin,
}

impl Role {
    /// All roles, the least first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// Returns the name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut all = Self::ALL.into_iter();
        all.find(|role| role.as_str() == text).ok_or_else(|| {
            Error::invalid(
                format!("{text:?} is not a role"),
                "choose viewer, operator or admin",
            )
        })
    }
}

/// Limit of a token to one folder of a pool. The token reaches the datasets below the folder, the
/// logical units on them, and maps of these units to the named hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FolderGrant {
    /// Folder as `pool/folder`.
    pub folder: String,
    /// Hosts to which the token may map units.
    #[serde(default)]
    pub hosts: Vec<String>,
}

impl FolderGrant {
    /// Reports whether a dataset or snapshot lies below the folder. The folder itself does not.
    pub fn holds(&self, dataset: &str) -> bool {
        let below = dataset.strip_prefix(self.folder.as_str());
        below.is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
    }
}

/// User of the console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserView {
    /// Name of the user.
    pub name: String,
    /// Role of the user.
    pub role: Role,
    /// Whether the user may not log in.
    pub is_disabled: bool,
    /// Whether a login takes a code beside the password.
    pub has_second_factor: bool,
    /// Number of recovery codes that are left.
    pub recovery_codes: usize,
    /// Time at which the user was added, in seconds since 1970.
    pub added: u64,
    /// Time of the last login, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_login: Option<u64>,
}

/// Login of a user that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginView {
    /// Number of the login, by which it is ended.
    pub id: u64,
    /// Name of the user.
    pub user: String,
    /// Address from which the user logged in.
    pub from: String,
    /// Time of the login, in seconds since 1970.
    pub began: u64,
    /// Time of the last request, in seconds since 1970.
    pub last_seen: u64,
}

/// Token of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// Name of the token.
    pub name: String,
    /// Role of the token.
    pub role: Role,
    /// Limit to a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<FolderGrant>,
    /// Author of the token.
    pub added_by: String,
    /// Time at which the token was added, in seconds since 1970.
    pub added: u64,
    /// Time at which the token ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Time of the last use, in seconds since 1970. It is exact to an hour after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<u64>,
}

/// Kind of a name of this machine.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum AccountKind {
    /// A user.
    User,
    /// A group, with all its members.
    Group,
}

impl fmt::Display for AccountKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::User => "user",
            Self::Group => "group",
        })
    }
}

/// Role of a user or group of this machine at the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SocketRole {
    /// Kind of the name.
    pub kind: AccountKind,
    /// Name of the user or group.
    pub name: String,
    /// Role of the user, or of each member.
    pub role: Role,
}

/// Password in a request. `Debug` never prints it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = Password)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// User to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddUser {
    /// Name of the user.
    pub name: String,
    /// Role of the user.
    pub role: Role,
    /// Password of the user.
    pub password: Password,
}

/// Changes of a user. An absent value stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModifyUser {
    /// New role.
    #[serde(default)]
    pub role: Option<Role>,
    /// New password. All logins of the user end.
    #[serde(default)]
    pub password: Option<Password>,
    /// Whether the user may not log in. All logins of the user end.
    #[serde(default)]
    pub is_disabled: Option<bool>,
    /// Whether the second factor is removed.
    #[serde(default)]
    pub without_second_factor: bool,
}

/// Token to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddToken {
    /// Name of the token.
    pub name: String,
    /// Role of the token.
    pub role: Role,
    /// Limit to a folder.
    #[serde(default)]
    pub grant: Option<FolderGrant>,
    /// Days after which the token ends. Absent means never.
    #[serde(default)]
    pub days: Option<u32>,
}

/// A token that was made. Its text is never shown again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// Text of the token, to be sent as `Authorization: Bearer …`.
    pub token: String,
    /// The token.
    pub view: TokenView,
}

/// Line of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditLine {
    /// Number of the line.
    pub seq: u64,
    /// Time of the attempt, in seconds since 1970.
    pub at: u64,
    /// Name of the user or token; empty if unknown.
    pub who: String,
    /// Entrance: `socket`, `console`, `token`, or `daemon`.
    pub by: String,
    /// Address of the client; empty at the socket.
    #[serde(default)]
    pub from: String,
    /// Role of the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Method and path of the request, or the name of an act such as `login`.
    pub request: String,
    /// Typed command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Body of the request, without secrets, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Generation of the configuration before the attempt.
    pub before: u64,
    /// Generation of the configuration after the attempt.
    pub after: u64,
    /// Result: `done`, or the kind and words of the refusal.
    pub result: String,
    /// SHA-256 of the line before, in hexadecimal digits.
    pub previous: String,
}

/// Result of a check of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditCheck {
    /// Number of lines.
    pub lines: u64,
    /// Number of the first line that is kept.
    pub first: u64,
    /// Number of the last line.
    pub last: u64,
    /// SHA-256 of the last line. A copy of it, kept elsewhere, proves the log up to it.
    pub head: String,
    /// Breaks of the chain, each with its file and line.
    pub breaks: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_stand_in_their_order_and_have_names() {
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
        for role in Role::ALL {
            assert_eq!(role.as_str().parse::<Role>().expect("a role"), role);
        }
        let error = "root".parse::<Role>().expect_err("not a role");
        assert!(error.next.contains("viewer"), "{error}");
    }

    #[test]
    fn a_folder_holds_what_lies_below_it() {
        let grant = FolderGrant {
            folder: "tank/pve".to_owned(),
            hosts: Vec::new(),
        };
        for inside in ["tank/pve/a", "tank/pve/a/b", "tank/pve/a@snap"] {
            assert!(grant.holds(inside), "{inside}");
        }
        for outside in [
            "tank/pve",
            "tank/pve/",
            "tank/pve@a",
            "tank/pve2/a",
            "tank/pv",
            "tank",
            "tank/x/tank/pve/a",
            "",
        ] {
            assert!(!grant.holds(outside), "{outside}");
        }
    }
}
