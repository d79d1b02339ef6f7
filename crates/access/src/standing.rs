//! Standing of a principal whose request goes on for long, such as a stream of figures.

use model::access::Role;

use super::{Access, Entrance, Principal, unix_now};

impl Access {
    /// Returns the present role of a principal that was let in before. `None` means that the login
    /// has ended, or that the user or token may no longer come in. Unlike a request, the question
    /// does not keep a login from ending.
    pub fn standing(&self, principal: &Principal) -> Option<Role> {
        let name = &principal.name;
        match principal.entrance {
            Entrance::Socket { .. } => Some(principal.role),
            Entrance::Token(_) => {
                let records = self.records();
                let mut tokens = records.now.tokens.iter().map(super::records::Token::view);
                let token = tokens.find(|token| token.name == *name)?;
                let has_ended = token.expires.is_some_and(|end| end <= unix_now());
                (!has_ended).then_some(token.role)
            }
            Entrance::Console { login, .. } => {
                let is_open = self.login_views().iter().any(|view| view.id == login);
                if !is_open {
                    return None;
                }
                let mut records = self.records();
                match records.now.user(name) {
                    Ok(user) if !user.is_disabled => Some(user.role),
                    Err(_) if self.links().has_enter() => Some(principal.role),
                    _ => None,
                }
            }
        }
    }
}
