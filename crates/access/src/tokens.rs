//! Tokens of programs: adding and removing them, and finding the principal of one.

use std::net::SocketAddr;

use model::access::{AddToken, FolderGrant, NewToken, Role, TokenView};
use model::{Error, ErrorKind};

use super::records::Token;
use super::{Access, Entrance, Principal, check_name, check_room, secret, unix_now};

/// Text with which each token begins, so that scanners of leaked secrets know it.
const PREFIX: &str = "sst_";
/// Age in seconds at which the kept time of the last use is renewed.
const USE_IS_KEPT: u64 = 60 * 60;

impl Access {
    /// Lists the tokens.
    pub fn tokens(&self) -> Vec<TokenView> {
        self.records().now.tokens.iter().map(Token::view).collect()
    }

    /// Adds a token for a program.
    ///
    /// # Errors
    /// The name or the limit cannot be used, or the state folder cannot be written.
    pub fn add_token(&self, request: &AddToken, by: &str) -> Result<NewToken, Error> {
        check_name(&request.name)?;
        if let Some(grant) = &request.grant {
            check_grant(grant, request.role)?;
        }
        if request.days == Some(0) {
            return Err(Error::invalid(
                "a token of 0 days has ended already",
                "give at least one day, or none for a token that never ends",
            ));
        }
        let text = secret::new(PREFIX).map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the kernel gives no random bytes: {error}"),
                "try again later",
            )
        })?;
        let now = unix_now();
        let token = Token {
            name: request.name.clone(),
            digest: secret::digest(&text),
            role: request.role,
            grant: request.grant.clone(),
            added_by: by.to_owned(),
            added: now,
            expires: request.days.map(|days| now + u64::from(days) * 86_400),
            last_used: None,
        };
        let view = token.view();
        self.change(|records| {
            if records.tokens.iter().any(|it| it.name == token.name) {
                return Err(Error::exists(
                    format!("there is a token {:?} already", token.name),
                    "choose another name, or remove it: sandstone token remove NAME",
                ));
            }
            check_room(records.tokens.len())?;
            records.tokens.push(token);
            records.tokens.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(())
        })?;
        Ok(NewToken { token: text, view })
    }

    /// Removes a token. Requests with it are refused from now on.
    ///
    /// # Errors
    /// There is none of this name, or the state folder cannot be written.
    pub fn remove_token(&self, name: &str) -> Result<(), Error> {
        self.change(|records| {
            let before = records.tokens.len();
            records.tokens.retain(|token| token.name != name);
            match records.tokens.len() < before {
                true => Ok(()),
                false => Err(Error::not_found(
                    format!("there is no token {name:?}"),
                    "sandstone token list",
                )),
            }
        })
    }

    /// Returns the principal of a token.
    ///
    /// # Errors
    /// The token is wrong, or has ended.
    pub fn of_token(&self, text: &str, from: Option<SocketAddr>) -> Result<Principal, Error> {
        let refused = |message: String, next: &str| {
            Err(Error::new(ErrorKind::NotAuthenticated, message, next))
        };
        let digest = secret::digest(text);
        let now = unix_now();
        let mut records = self.records();
        let found = records
            .now
            .tokens
            .iter_mut()
            .find(|token| token.digest == digest);
        let Some(token) = found else {
            return refused(
                "the token is wrong, or was removed".to_owned(),
                "an admin makes one: sandstone token add NAME --role ROLE",
            );
        };
        if token.expires.is_some_and(|end| end <= now) {
            let message = format!("the token {} has ended", token.name);
            return refused(
                message,
                "an admin makes a new one: sandstone token add NAME --role ROLE",
            );
        }
        let principal = Principal {
            name: token.name.clone(),
            role: token.role,
            entrance: Entrance::Token(from),
            grant: token.grant.clone(),
        };
        if token.last_used.is_none_or(|last| now >= last + USE_IS_KEPT) {
            let name = token.name.clone();
            // The time is for people. A folder that cannot be written must not refuse the token.
            let _ = records.change(|records| {
                let mut tokens = records.tokens.iter_mut();
                if let Some(token) = tokens.find(|token| token.name == name) {
                    token.last_used = Some(now);
                }
                Ok(())
            });
        }
        Ok(principal)
    }
}

/// Refuses a limit that means nothing.
fn check_grant(grant: &FolderGrant, role: Role) -> Result<(), Error> {
    let parts: Vec<&str> = grant.folder.split('/').collect();
    if parts.len() < 2 || parts.iter().any(|part| part.is_empty()) || grant.folder.contains('@') {
        return Err(Error::invalid(
            format!("{:?} is not a folder below a pool", grant.folder),
            "name a folder such as tank/pve; sandstone volume list -t folder lists them",
        ));
    }
    if role == Role::Operator {
        return Err(Error::invalid(
            "a token with a folder is a viewer or an admin of the folder",
            "choose --role viewer or --role admin",
        ));
    }
    Ok(())
}
