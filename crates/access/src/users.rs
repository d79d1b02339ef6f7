//! Users of the console: adding, changing, removing them, and their second factors.

use model::access::{AddUser, ModifyUser, UserView};
use model::{Error, ErrorKind};

use super::records::{Records, User};
use super::second_factor::SecondFactor;
use super::{Access, check_name, check_room, password, unix_now};

impl Access {
    /// Lists the users.
    pub fn users(&self) -> Vec<UserView> {
        self.records().now.users.iter().map(User::view).collect()
    }

    /// Adds a user. This takes a core for about 60 ms.
    ///
    /// # Errors
    /// The name or password cannot be used, or the state folder cannot be written.
    pub fn add_user(&self, request: &AddUser) -> Result<UserView, Error> {
        check_name(&request.name)?;
        password::check(&request.name, &request.password.0)?;
        let hash = self.hasher.hash(&request.password.0)?;
        let added = self.change(|records| {
            if records.users.iter().any(|user| user.name == request.name) {
                return Err(Error::exists(
                    format!("there is a user {:?} already", request.name),
                    "sandstone user modify NAME changes the role or the password",
                ));
            }
            check_room(records.users.len())?;
            let user = User {
                name: request.name.clone(),
                role: request.role,
                password: hash,
                is_disabled: false,
                second_factor: None,
                added: unix_now(),
                last_login: None,
            };
            let view = user.view();
            records.users.push(user);
            records.users.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(view)
        })?;
        // The link of the first start is of no use any more.
        self.links().end_first();
        let _ = std::fs::remove_file(self.first_link_file());
        Ok(added)
    }

    /// Changes a user. A new password, another role, and a user who is disabled end all logins of
    /// the user.
    ///
    /// # Errors
    /// There is no such user, no admin would be left, or the state folder cannot be written.
    pub fn modify_user(&self, name: &str, request: &ModifyUser) -> Result<UserView, Error> {
        let hash = match &request.password {
            None => None,
            Some(password) => {
                password::check(name, &password.0)?;
                Some(self.hasher.hash(&password.0)?)
            }
        };
        let ends_logins = hash.is_some() || request.is_disabled == Some(true);
        let (view, has_other_role) = self.change(|records| {
            let admins = records.admins();
            let user = records.user(name)?;
            let has_other_role = request.role.is_some_and(|role| role != user.role);
            if let Some(role) = request.role {
                user.role = role;
            }
            if let Some(hash) = hash {
                user.password = hash;
            }
            if let Some(is_disabled) = request.is_disabled {
                user.is_disabled = is_disabled;
            }
            if request.without_second_factor {
                user.second_factor = None;
            }
            let view = user.view();
            require_an_admin(records, admins)?;
            Ok((view, has_other_role))
        })?;
        if ends_logins || has_other_role {
            self.logins().end_of_user(name);
        }
        Ok(view)
    }

    /// Removes a user, and ends the user's logins.
    ///
    /// # Errors
    /// There is no such user, no admin would be left, or the state folder cannot be written.
    pub fn remove_user(&self, name: &str) -> Result<(), Error> {
        self.change(|records| {
            let admins = records.admins();
            records.user(name)?;
            records.users.retain(|user| user.name != name);
            require_an_admin(records, admins)
        })?;
        self.logins().end_of_user(name);
        Ok(())
    }

    /// Changes the password of a user who knows the present one. The other logins of the user end.
    ///
    /// # Errors
    /// The present password is wrong, or the new one cannot be used.
    pub fn change_password(&self, name: &str, present: &str, new: &str) -> Result<(), Error> {
        self.prove(name, present)?;
        let request = ModifyUser {
            password: Some(model::access::Password(new.to_owned())),
            ..ModifyUser::default()
        };
        self.modify_user(name, &request).map(drop)
    }

    /// Sets the second factor of a user, once a code proves that the app has the secret. Returns
    /// recovery codes, which are never shown again.
    ///
    /// # Errors
    /// The password or the code is wrong, or the state folder cannot be written.
    pub fn enrol(
        &self,
        name: &str,
        password: &str,
        secret: &str,
        code: &str,
    ) -> Result<Vec<String>, Error> {
        self.prove(name, password)?;
        let (factor, codes) = SecondFactor::enrol(secret, code, unix_now())?;
        self.change(|records| {
            records.user(name)?.second_factor = Some(factor);
            Ok(codes)
        })
    }

    fn prove(&self, name: &str, password: &str) -> Result<(), Error> {
        let now = self.now();
        let admitted = self.throttle().admit(None, name, now);
        admitted.map_err(|wait| {
            Error::new(
                ErrorKind::TooMany,
                format!("too many attempts: wait {} s", wait.as_secs() + 1),
                "wait, then try again",
            )
        })?;
        let hash = self
            .records()
            .now
            .user(name)
            .map(|user| user.password.clone())?;
        if self.hasher.is_right(password, Some(&hash))? {
            return Ok(());
        }
        self.throttle().failed(None, name, self.now());
        Err(Error::invalid(
            "the present password is wrong",
            "enter the password with which you logged in",
        ))
    }
}

/// Refuses a change that takes the last admin away from the console.
fn require_an_admin(records: &Records, before: usize) -> Result<(), Error> {
    if before == 0 || records.admins() > 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Refused,
        "no admin would be left at the console",
        "give another user the role admin first",
    ))
}
