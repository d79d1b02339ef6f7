//! Access, or who may do what: users, tokens, logins, roles at the control socket; the audit log.
//!
//! | question | file |
//! |---|---|
//! | Who is the author of a request, and what may it do? | `principal.rs` |
//! | What is kept of users and tokens? | `records.rs` |
//! | How does a user log in? | `login.rs`, with `password.rs`, `second_factor.rs`, `throttle.rs` |
//! | Which logins have not ended? | `logins.rs` |
//! | How does the first user come to be? | `links.rs` |
//! | How are attempts to change something noted? | `audit.rs` |
//!
//! # Invariants
//! - A secret that the daemon made is kept as a digest, and shown once. A password is kept as a
//!   hash. Neither is in any view, log line or error.
//! - A change that could not be kept does not hold.
//! - Where the newest records are lost, only users of the control socket are let in.
//! - A stranger cannot push lines out of the audit log by a flood of attempts.

mod accounts;
mod audit;
mod links;
mod login;
mod logins;
mod password;
mod principal;
mod records;
mod second_factor;
mod secret;
mod standing;
mod throttle;
mod tokens;
mod users;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use model::access::{AccountKind, AuditCheck, AuditLine, Role, SocketRole};
use model::{Error, ErrorKind};
use state_folder::SecretKey;

pub use accounts::{Account, group_id, user_name};
pub use audit::without_secrets;
pub use login::{Attempt, LoggedIn};
pub use principal::{Entrance, Principal};
pub use second_factor::Enrolment;

use audit::Audit;
use links::Links;
use logins::Logins;
use password::Hasher;
use records::{KeptRecords, Records};
use throttle::{Strangers, Throttle};

/// Group of this machine whose members are admins at the control socket.
pub const ADMINS: &str = "sandstone";
/// Most names of one kind.
const MOST: usize = 1000;

/// Users, tokens, logins and the audit log of a daemon.
#[derive(Debug)]
pub struct Access {
    records: Mutex<KeptRecords>,
    logins: Mutex<Logins>,
    links: Mutex<Links>,
    throttle: Mutex<Throttle>,
    hasher: Hasher,
    audit: Mutex<Audit>,
    strangers: Mutex<Strangers>,
    notice: Option<String>,
    /// Control socket whose mode follows the roles.
    socket: Mutex<Option<PathBuf>>,
    state: PathBuf,
    since: Instant,
    /// User as whom the daemon runs, who is an admin at the control socket.
    own_uid: u32,
}

impl Access {
    /// Opens what a state folder keeps. `key` seals its secrets. A damaged file, and secrets that
    /// the key does not open, are told by [`Self::notices`].
    pub fn open(state: &Path, own_uid: u32, key: Arc<SecretKey>) -> Self {
        let (records, notice) = KeptRecords::open(state, key);
        let access = Self {
            links: Mutex::new(Links::default()),
            records: Mutex::new(records),
            logins: Mutex::default(),
            throttle: Mutex::default(),
            hasher: Hasher::default(),
            strangers: Mutex::default(),
            audit: Mutex::new(Audit::open(state, unix_now())),
            notice,
            socket: Mutex::default(),
            state: state.to_owned(),
            since: Instant::now(),
            own_uid,
        };
        for notice in access.notices() {
            tracing::error!("{notice}");
        }
        access
    }

    /// Returns the file that holds the link of a first start until it is used.
    pub fn first_link_file(&self) -> PathBuf {
        self.state.join("first-login")
    }

    /// Returns the principal of a user at the control socket.
    ///
    /// # Errors
    /// The user has no role there.
    pub fn at_socket(&self, account: &Account) -> Result<Principal, Error> {
        let role = self.role_at_socket(account).ok_or_else(|| {
            Error::new(
                ErrorKind::NotPermitted,
                format!("the user {} has no role at the control socket", account.name),
                format!(
                    "an admin gives one: sandstone role set {} viewer; or adds the user to the group {ADMINS}",
                    account.name
                ),
            )
        })?;
        Ok(Principal {
            name: account.name.clone(),
            role,
            entrance: Entrance::Socket { uid: account.uid },
            grant: None,
        })
    }

    /// Returns the highest of the roles that a user has by name and by groups.
    fn role_at_socket(&self, account: &Account) -> Option<Role> {
        let is_of = |name: &String| account.groups.contains(name);
        if account.uid == 0 || account.uid == self.own_uid || is_of(&ADMINS.to_owned()) {
            return Some(Role::Admin);
        }
        let records = self.records();
        let mine = records
            .now
            .socket_roles
            .iter()
            .filter(|given| match given.kind {
                AccountKind::User => given.name == account.name,
                AccountKind::Group => is_of(&given.name),
            });
        mine.map(|given| given.role).max()
    }

    /// Lists the roles at the control socket.
    pub fn socket_roles(&self) -> Vec<SocketRole> {
        self.records().now.socket_roles.clone()
    }

    /// Gives a user or group of this machine a role at the control socket.
    ///
    /// # Errors
    /// The name cannot be one, or the state folder cannot be written.
    pub fn set_socket_role(&self, role: SocketRole) -> Result<(), Error> {
        check_name(&role.name)?;
        self.change(|records| {
            let is_same = |it: &SocketRole| (it.kind, &it.name) == (role.kind, &role.name);
            records.socket_roles.retain(|it| !is_same(it));
            check_room(records.socket_roles.len())?;
            records.socket_roles.push(role);
            records
                .socket_roles
                .sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
            Ok(())
        })?;
        self.guard_again();
        Ok(())
    }

    /// Takes a role at the control socket away.
    ///
    /// # Errors
    /// There is none, or the state folder cannot be written.
    pub fn remove_socket_role(&self, kind: AccountKind, name: &str) -> Result<(), Error> {
        self.change(|records| {
            let before = records.socket_roles.len();
            records
                .socket_roles
                .retain(|it| (it.kind, it.name.as_str()) != (kind, name));
            match records.socket_roles.len() < before {
                true => Ok(()),
                false => Err(Error::not_found(
                    format!("the {kind} {name:?} has no role of its own"),
                    "sandstone role list",
                )),
            }
        })?;
        self.guard_again();
        Ok(())
    }

    /// Opens a control socket to the users who have a role there. Without such users, only root and
    /// the group of admins reach it.
    ///
    /// The gate refuses everybody else in any case. The mode keeps those who have no business here
    /// from even connecting.
    pub fn guard_socket(&self, socket: &Path) -> std::io::Result<()> {
        let mut guarded = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        *guarded = Some(socket.to_owned());
        let has_roles = !self.records().now.socket_roles.is_empty();
        set_mode(socket, has_roles)
    }

    /// Sets the mode of the control socket after a change of roles.
    fn guard_again(&self) {
        let guarded = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let has_roles = !self.records().now.socket_roles.is_empty();
        if let Some(socket) = &*guarded
            && let Err(error) = set_mode(socket, has_roles)
        {
            let socket = socket.display();
            tracing::warn!(%socket, %error, "the mode of the control socket could not be set");
        }
    }

    /// Returns what administrators have to know of the files.
    pub fn notices(&self) -> Vec<String> {
        let audit = self.audit().notice();
        let notices = self.notice.iter().cloned().chain(audit);
        notices.chain(self.closed_factors()).collect()
    }

    /// Tells of second factors that the key does not open.
    fn closed_factors(&self) -> Option<String> {
        let records = self.records();
        let closed = records.closed();
        let first = closed.first()?;
        let users = match closed.len() {
            1 => format!("of {first}"),
            more => format!("of {more} users, such as {first}"),
        };
        Some(format!(
            "the key does not open the second factors {users}, so that only recovery codes are accepted: restore \
             secrets.key in {} and restart, or take such a factor away with `sandstone user modify NAME \
             --no-second-factor`",
            self.state.display()
        ))
    }

    /// Notes an attempt to change something.
    pub fn note(&self, line: AuditLine) {
        let at = unix_now();
        self.audit().append(AuditLine { at, ..line });
    }

    /// Notes an attempt that was not let in. Of many attempts by authors without a role, some are
    /// only counted, or else a stranger could push the lines of others out of the log.
    pub fn note_refused(&self, line: AuditLine) {
        let noted = match line.role {
            Some(_) => Some(0),
            None => self.strangers().admit(self.now()),
        };
        let Some(left_out) = noted else {
            return;
        };
        let AuditLine {
            who, from, request, ..
        } = &line;
        tracing::warn!(
            who,
            from,
            request,
            result = line.result,
            "an attempt was refused"
        );
        let result = match left_out {
            0 => line.result,
            some => format!(
                "{} ({some} such attempts before it were not noted)",
                line.result
            ),
        };
        self.note(AuditLine { result, ..line });
    }

    /// Returns the newest lines of the audit log, the newest first; with `before`, of those with
    /// lower numbers.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn audit_lines(&self, before: Option<u64>, most: usize) -> Result<Vec<AuditLine>, Error> {
        let lines = self.audit().newest(before, most);
        lines.map_err(|error| Error::storage("the audit log cannot be read", error))
    }

    /// Checks the chain of the audit log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn check_audit(&self) -> Result<AuditCheck, Error> {
        let check = self.audit().check();
        check.map_err(|error| Error::storage("the audit log cannot be read", error))
    }

    fn records(&self) -> MutexGuard<'_, KeptRecords> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn logins(&self) -> MutexGuard<'_, Logins> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn audit(&self) -> MutexGuard<'_, Audit> {
        self.audit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Records) -> Result<T, Error>) -> Result<T, Error> {
        self.records().change(change)
    }

    fn now(&self) -> Duration {
        self.since.elapsed()
    }
}

/// Sets the group and the mode of a socket.
fn set_mode(socket: &Path, is_open_to_all: bool) -> std::io::Result<()> {
    if let Some(group) = group_id(ADMINS) {
        // Only root may give a file away. The socket of any other user is that user's own.
        let _ = chown(socket, None, Some(group));
    }
    let mode = match (is_open_to_all, group_id(ADMINS)) {
        (true, _) => 0o666,
        (false, Some(_)) => 0o660,
        (false, None) => 0o600,
    };
    fs::set_permissions(socket, Permissions::from_mode(mode))
}

/// Returns the time in seconds since 1970.
fn unix_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// Refuses a name that a log line or a page could not show as it is.
fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "._@-".contains(it);
    let begins_well = name.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '_');
    if begins_well && name.len() <= 64 && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("{name:?} cannot be a name"),
        "use at most 64 letters, digits, dots, hyphens, underscores and at signs, and begin with a letter or digit",
    ))
}

fn check_room(number: usize) -> Result<(), Error> {
    if number < MOST {
        return Ok(());
    }
    Err(Error::invalid(
        format!("there are {MOST} of them already, which is the most"),
        "remove those that are no longer used",
    ))
}

#[cfg(test)]
mod tests;
