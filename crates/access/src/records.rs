//! Records of users, tokens, and roles at the control socket: `access.json` in the state folder.

use std::path::Path;
use std::sync::Arc;

use model::access::{FolderGrant, Role, SocketRole, TokenView, UserView};
use model::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use state_folder::{KeptFile, SecretKey, open_json, seal_json};

use super::password::Hash;
use super::second_factor::SecondFactor;

const FILE: &str = "access.json";
/// Name of the file's kind in its first line.
const KIND: &str = "access";
/// Number of earlier generations that are kept.
const HISTORY: usize = 4;

/// Everything that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Records {
    #[serde(default)]
    pub(crate) users: Vec<User>,
    #[serde(default)]
    pub(crate) tokens: Vec<Token>,
    #[serde(default)]
    pub(crate) socket_roles: Vec<SocketRole>,
    /// Whether there was ever a user, so that no first link is given again.
    #[serde(default)]
    pub(crate) had_users: bool,
}

/// A user of the console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) password: Hash,
    #[serde(default)]
    pub(crate) is_disabled: bool,
    #[serde(default)]
    pub(crate) second_factor: Option<SecondFactor>,
    pub(crate) added: u64,
    #[serde(default)]
    pub(crate) last_login: Option<u64>,
}

/// A token of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) role: Role,
    #[serde(default)]
    pub(crate) grant: Option<FolderGrant>,
    pub(crate) added_by: String,
    pub(crate) added: u64,
    #[serde(default)]
    pub(crate) expires: Option<u64>,
    #[serde(default)]
    pub(crate) last_used: Option<u64>,
}

impl User {
    pub(crate) fn view(&self) -> UserView {
        let factor = self.second_factor.as_ref();
        UserView {
            name: self.name.clone(),
            role: self.role,
            is_disabled: self.is_disabled,
            has_second_factor: factor.is_some(),
            recovery_codes: factor.map_or(0, SecondFactor::recovery_codes),
            added: self.added,
            last_login: self.last_login,
        }
    }
}

impl Token {
    pub(crate) fn view(&self) -> TokenView {
        TokenView {
            name: self.name.clone(),
            role: self.role,
            grant: self.grant.clone(),
            added_by: self.added_by.clone(),
            added: self.added,
            expires: self.expires,
            last_used: self.last_used,
        }
    }
}

impl Records {
    pub(crate) fn user(&mut self, name: &str) -> Result<&mut User, Error> {
        let mut users = self.users.iter_mut();
        users.find(|user| user.name == name).ok_or_else(|| {
            Error::not_found(format!("there is no user {name:?}"), "sandstone user list")
        })
    }

    fn factors(&mut self) -> impl Iterator<Item = &mut SecondFactor> {
        let factors = self.users.iter_mut();
        factors.filter_map(|user| user.second_factor.as_mut())
    }

    /// Returns the number of admins who can log in.
    pub(crate) fn admins(&self) -> usize {
        let able = |user: &&User| user.role == Role::Admin && !user.is_disabled;
        self.users.iter().filter(able).count()
    }
}

/// The file, and what it holds.
#[derive(Debug)]
pub(crate) struct KeptRecords {
    file: KeptFile,
    key: Arc<SecretKey>,
    pub(crate) now: Records,
}

impl KeptRecords {
    /// Loads the file, and returns a notice if it is damaged.
    ///
    /// If the newest generation is lost, only users of the socket are let in: an older generation
    /// may have a token that was revoked.
    ///
    /// Secrets of an older version, which did not seal them, are sealed.
    pub(crate) fn open(state: &Path, key: Arc<SecretKey>) -> (Self, Option<String>) {
        let mut file = KeptFile::at(state.join(FILE), HISTORY);
        let found = file.load(|bytes| open_json::<Records>(KIND, bytes));
        let (generation, mut now) = match found.content {
            Some((generation, records)) => (Some(generation), records),
            None => (None, Records::default()),
        };
        let notice = found.trouble.map(|trouble| {
            if trouble.is_newer {
                now = Records { had_users: true, ..Records::default() };
                return format!("{}; no user can log in at the console; install that version again", trouble.reason);
            }
            let kept = generation.filter(|_| !trouble.is_newest_lost);
            file.put_right(kept);
            if kept.is_some() {
                return format!("{}; the copy in {HISTORY_FOLDER} was put in its place", trouble.reason);
            }
            now = Records { had_users: true, ..Records::default() };
            format!(
                "{}; no user and no token is let in, because an older copy may hold some that were removed: add \
                 them again with sandstone user add and sandstone token add",
                trouble.reason
            )
        });
        let mut kept = Self { file, key, now };
        if let Err(error) = kept.change(|_| Ok(())) {
            // The next change seals them.
            tracing::warn!(%error, "second factors of an older version could not be sealed yet");
        }
        (kept, notice)
    }

    /// Returns the users whose second factors the key does not open.
    pub(crate) fn closed(&self) -> Vec<&str> {
        let is_closed = |user: &&User| {
            let factor = user.second_factor.as_ref();
            factor.is_some_and(|factor| factor.is_closed(&self.key))
        };
        let closed = self.now.users.iter().filter(is_closed);
        closed.map(|user| user.name.as_str()).collect()
    }

    /// Returns the key that seals second factors.
    pub(crate) fn key(&self) -> Arc<SecretKey> {
        Arc::clone(&self.key)
    }

    /// Makes a change, and keeps it. If it cannot be kept, it does not hold.
    ///
    /// # Errors
    /// The change is refused, or the state folder cannot be written.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Records) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut next = self.now.clone();
        let result = change(&mut next)?;
        next.had_users |= !next.users.is_empty();
        next.factors()
            .try_for_each(|factor| factor.seal(&self.key))
            .map_err(|error| Error::storage("seal a second factor", error))?;
        if next == self.now {
            return Ok(result);
        }
        let generation = self.file.next_generation();
        let saved =
            seal_json(KIND, generation, &next).and_then(|bytes| self.file.save(generation, &bytes));
        saved.map_err(|error| {
            Error::new(
                ErrorKind::Storage,
                format!(
                    "{} could not be written: {error}",
                    self.file.path().display()
                ),
                "free space in the state folder, and try again",
            )
            .caused_by(error)
        })?;
        let had_open_secrets = !self.now.factors().all(|factor| factor.is_sealed());
        self.now = next;
        if had_open_secrets {
            // Copies of an older version hold the secrets open. A copy never counts here once the
            // newest generation is lost, so none is missed.
            if let Err(error) = self.file.forget_older() {
                tracing::warn!(%error, "copies with open second factors could not be removed");
            }
        }
        Ok(result)
    }
}

const HISTORY_FOLDER: &str = "history";
