//! Logging in: by password and code, by the link of a first start, and by a demo's link.

use std::net::SocketAddr;

use model::access::{AddUser, AuditLine, LoginView, Role};
use model::{Error, ErrorKind};
use shown::plain;

use super::{Access, Entrance, Principal, unix_now};

/// Result of an attempt that succeeded.
const DONE: &str = "done";
/// Name of the user as whom a demo's link logs in.
const DEMO: &str = "demo";

/// An attempt to log in.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// Name of the user.
    pub user: &'a str,
    /// Password of the user.
    pub password: &'a str,
    /// Code of the second factor; empty if there is none.
    pub code: &'a str,
    /// Address of the browser.
    pub from: Option<SocketAddr>,
}

/// A login that began.
#[derive(Clone)]
pub struct LoggedIn {
    /// Secret for the cookie.
    pub secret: String,
}

/// Answers every wrong attempt in the same words, which do not tell what was wrong.
fn not_admitted() -> Error {
    Error::new(
        ErrorKind::NotAuthenticated,
        "not admitted: the name, the password or the code is wrong, or the user is disabled",
        "try again; an admin can set a new password with sandstone user modify NAME --password",
    )
}

impl Access {
    /// Logs a user in. This takes a core for about 60 ms.
    ///
    /// # Errors
    /// The attempt is wrong, or comes too soon.
    pub fn log_in(&self, attempt: &Attempt<'_>) -> Result<LoggedIn, Error> {
        let ip = attempt.from.map(|from| from.ip());
        let now = self.now();
        let admitted = self.throttle().admit(ip, attempt.user, now);
        admitted.map_err(|wait| {
            Error::new(
                ErrorKind::TooMany,
                format!("too many attempts: wait {} s", wait.as_secs() + 1),
                "wait, then try again",
            )
        })?;
        let result = self.try_in(attempt);
        match &result {
            Ok(_) => self.throttle().succeeded(ip, attempt.user),
            // Times of the hash count too.
            Err(_) => self.throttle().failed(ip, attempt.user, self.now()),
        }
        let told = match &result {
            Ok(_) => DONE.to_owned(),
            Err((reason, _)) => format!("not admitted: {reason}"),
        };
        let (user, from) = (attempt.user, attempt.from);
        if result.is_ok() {
            tracing::info!(user, from = ?from, "a user logged in at the console");
        }
        self.note_login("login", user, from, told);
        result.map_err(|(_, error)| error)
    }

    fn try_in(&self, attempt: &Attempt<'_>) -> Result<LoggedIn, (&'static str, Error)> {
        let user = {
            let mut records = self.records();
            records.now.user(attempt.user).ok().cloned()
        };
        let hash = user.as_ref().map(|user| &user.password);
        let is_right = self.hasher.is_right(attempt.password, hash);
        let is_right = is_right.map_err(|error| ("no hash", error))?;
        let user = user.ok_or_else(|| ("no such user", not_admitted()))?;
        if !is_right {
            return Err(("wrong password", not_admitted()));
        }
        if user.is_disabled {
            return Err(("the user is disabled", not_admitted()));
        }
        // The code is judged under the lock, so that no code is accepted twice.
        let now = unix_now();
        let key = self.records().key();
        let kept = self.change(|records| {
            let user = records.user(attempt.user)?;
            if let Some(factor) = &mut user.second_factor
                && !factor.accept(attempt.code, now, &key)
            {
                return Err(not_admitted());
            }
            user.last_login = Some(now);
            Ok(())
        });
        match kept {
            Err(error) if error.kind == ErrorKind::NotAuthenticated => {
                let factor = user.second_factor.as_ref();
                let reason = match factor.is_some_and(|factor| factor.is_closed(&key)) {
                    true => "the key does not open the second factor",
                    false => "wrong code",
                };
                return Err((reason, error));
            }
            // A full state folder must not lock a user out, unless a code has to be used up.
            Err(error) if user.second_factor.is_some() => return Err(("not kept", error)),
            _ => {}
        }
        self.begin(attempt.user, attempt.from)
            .map_err(|error| ("no random bytes", error))
    }

    fn begin(&self, user: &str, from: Option<SocketAddr>) -> Result<LoggedIn, Error> {
        let secret = self.logins().begin(user, from, unix_now(), self.now());
        let secret = secret.map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the kernel gives no random bytes: {error}"),
                "try again later",
            )
        })?;
        Ok(LoggedIn { secret })
    }

    /// Returns the principal of a login's secret.
    ///
    /// # Errors
    /// The login has ended.
    pub fn of_login(&self, secret: &str, from: Option<SocketAddr>) -> Result<Principal, Error> {
        let ended = || {
            Error::new(
                ErrorKind::NotAuthenticated,
                "the login has ended",
                "log in again",
            )
        };
        let login = self.logins().seen(secret, self.now()).ok_or_else(ended)?;
        let entrance = Entrance::Console {
            login: login.id,
            from,
        };
        // The role is that of now, so that a change of it holds at once.
        let mut records = self.records();
        let role = match records.now.user(&login.user) {
            Ok(user) if !user.is_disabled => user.role,
            Err(_) if login.user == DEMO && self.links().has_enter() => Role::Admin,
            _ => return Err(ended()),
        };
        Ok(Principal {
            name: login.user,
            role,
            entrance,
            grant: None,
        })
    }

    /// Ends a login.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn log_out(&self, id: u64) -> Result<(), Error> {
        match self.logins().end(id) {
            Some(_) => Ok(()),
            None => Err(Error::not_found(
                format!("there is no login {id}"),
                "sandstone user logins",
            )),
        }
    }

    /// Lists the logins that have not ended.
    pub fn login_views(&self) -> Vec<LoginView> {
        self.logins().views(self.now())
    }

    /// Returns the secret of a link to add the first admin, or `None` if there was ever a user.
    pub fn first_link(&self) -> Option<String> {
        let has_users = self.records().now.had_users;
        (!has_users).then(|| self.links().first().ok()).flatten()
    }

    /// Reports whether the console waits for the first admin.
    pub fn waits_for_first(&self) -> bool {
        !self.records().now.had_users && !self.links().has_enter()
    }

    /// Reports whether a secret is that of the link to add the first admin.
    pub fn is_first_link(&self, secret: &str) -> bool {
        self.waits_for_first() && self.links().is_first(secret)
    }

    /// Adds the first admin, and logs the admin in.
    ///
    /// # Errors
    /// The link has ended, or the name or password cannot be used.
    pub fn add_first(
        &self,
        secret: &str,
        name: &str,
        password: &str,
        from: Option<SocketAddr>,
    ) -> Result<LoggedIn, Error> {
        if !self.is_first_link(secret) {
            return Err(Error::new(
                ErrorKind::NotAuthenticated,
                "this link was used, or a newer start has given another",
                "see the daemon's log for the link; or, on this machine, sandstone user add NAME --role admin",
            ));
        }
        let request = AddUser {
            name: name.to_owned(),
            role: Role::Admin,
            password: model::access::Password(password.to_owned()),
        };
        let added = self.add_user(&request);
        let told = match &added {
            Ok(_) => DONE.to_owned(),
            Err(error) => error.to_string(),
        };
        self.note_login("first admin", name, from, told);
        added?;
        self.begin(name, from)
    }

    /// Returns the secret of a link that logs in as admin. Only a demo gives one.
    pub fn demo_link(&self) -> Option<String> {
        self.links().enter().ok()
    }

    /// Logs in by a demo's link.
    ///
    /// # Errors
    /// The link is wrong.
    pub fn enter(&self, secret: &str, from: Option<SocketAddr>) -> Result<LoggedIn, Error> {
        if !self.links().is_enter(secret) {
            return Err(Error::new(
                ErrorKind::NotAuthenticated,
                "this link does not log in here",
                "use the link that the demo printed",
            ));
        }
        self.begin(DEMO, from)
    }

    fn note_login(&self, act: &str, user: &str, from: Option<SocketAddr>, result: String) {
        let is_done = result == DONE;
        let line = AuditLine {
            who: plain(&user.chars().take(64).collect::<String>()),
            by: "console".to_owned(),
            from: from.map(|from| from.to_string()).unwrap_or_default(),
            request: act.to_owned(),
            result,
            ..AuditLine::default()
        };
        match is_done {
            true => self.note(line),
            false => self.note_refused(line),
        }
    }
}
