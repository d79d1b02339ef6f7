//! Logins at the console that have not ended. They lie in memory, under the digests of their
//! secrets, so that no file and no dump of one holds a key to the console.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use model::access::LoginView;

use super::secret;

/// Time without a request after which a login ends.
pub(crate) const IDLE: Duration = Duration::from_secs(30 * 60);
/// Longest time of a login.
pub(crate) const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// Most logins of one user. Beyond it, the one that rested longest ends.
const MOST_OF_USER: usize = 32;

/// A login.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) id: u64,
    pub(crate) user: String,
    from: Option<SocketAddr>,
    /// Time of the login since 1970, for people.
    began_unix: u64,
    began: Duration,
    last_seen: Duration,
}

/// Logins by the digests of their secrets. Times are those since the start of the daemon.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    all: HashMap<String, Login>,
    last_id: u64,
}

impl Logins {
    /// Begins a login, and returns its secret for the cookie.
    pub(crate) fn begin(
        &mut self,
        user: &str,
        from: Option<SocketAddr>,
        unix: u64,
        now: Duration,
    ) -> Result<String, getrandom::Error> {
        let secret = secret::new("")?;
        self.end_old(now);
        let own = |login: &&Login| login.user == user;
        if self.all.values().filter(own).count() >= MOST_OF_USER {
            let oldest = self
                .all
                .values()
                .filter(own)
                .min_by_key(|login| login.last_seen);
            if let Some(id) = oldest.map(|login| login.id) {
                self.end(id);
            }
        }
        self.last_id += 1;
        let login = Login {
            id: self.last_id,
            user: user.to_owned(),
            from,
            began_unix: unix,
            began: now,
            last_seen: now,
        };
        self.all.insert(secret::digest(&secret), login);
        Ok(secret)
    }

    /// Returns the login of a secret, unless it has ended.
    pub(crate) fn seen(&mut self, secret: &str, now: Duration) -> Option<Login> {
        let digest = secret::digest(secret);
        let login = self.all.get_mut(&digest)?;
        if is_over(login, now) {
            self.all.remove(&digest);
            return None;
        }
        login.last_seen = now;
        Some(login.clone())
    }

    /// Ends a login. Reports whether it was there.
    pub(crate) fn end(&mut self, id: u64) -> Option<Login> {
        let digest = self.all.iter().find(|(_, login)| login.id == id);
        let digest = digest.map(|(digest, _)| digest.clone())?;
        self.all.remove(&digest)
    }

    /// Ends all logins of a user.
    pub(crate) fn end_of_user(&mut self, user: &str) {
        self.all.retain(|_, login| login.user != user);
    }

    /// Lists the logins, the oldest first.
    pub(crate) fn views(&mut self, now: Duration) -> Vec<LoginView> {
        self.end_old(now);
        let mut views: Vec<LoginView> = self
            .all
            .values()
            .map(|login| LoginView {
                id: login.id,
                user: login.user.clone(),
                from: login
                    .from
                    .map(|it| it.ip().to_canonical().to_string())
                    .unwrap_or_default(),
                began: login.began_unix,
                last_seen: login.began_unix + (login.last_seen - login.began).as_secs(),
            })
            .collect();
        views.sort_by_key(|view| view.id);
        views
    }

    fn end_old(&mut self, now: Duration) {
        self.all.retain(|_, login| !is_over(login, now));
    }
}

fn is_over(login: &Login, now: Duration) -> bool {
    now.saturating_sub(login.last_seen) > IDLE || now.saturating_sub(login.began) > LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_login_ends_when_it_rests_and_after_half_a_day() {
        let mut logins = Logins::default();
        let begin = |logins: &mut Logins| logins.begin("ann", None, 1000, MINUTE).expect("begun");
        let (rests, works) = (begin(&mut logins), begin(&mut logins));
        assert_ne!(rests, works);
        let mut now = MINUTE;
        while now < LONGEST {
            assert!(logins.seen(&works, now).is_some(), "{now:?}");
            now += 29 * MINUTE;
        }
        assert!(logins.seen(&rests, now).is_none());
        assert!(logins.seen(&works, MINUTE + LONGEST + MINUTE).is_none());
        assert!(logins.seen("", now).is_none());
        assert!(logins.views(now).is_empty());
    }

    #[test]
    fn logins_are_listed_without_their_secrets_and_ended() {
        let mut logins = Logins::default();
        let from = Some("[::ffff:192.0.2.1]:99".parse().expect("an address"));
        let secrets: Vec<String> = ["ann", "bob", "ann"]
            .map(|user| logins.begin(user, from, 1000, MINUTE).expect("begun"))
            .into();
        assert!(logins.seen(&secrets[1], 3 * MINUTE).is_some());
        let views = logins.views(3 * MINUTE);
        let users: Vec<&str> = views.iter().map(|view| view.user.as_str()).collect();
        assert_eq!(users, ["ann", "bob", "ann"]);
        assert_eq!(
            (views[1].last_seen, views[1].from.as_str()),
            (1120, "192.0.2.1")
        );
        assert!(!format!("{views:?} {logins:?}").contains(&secrets[0]));
        logins.end(views[1].id).expect("was there");
        assert!(logins.seen(&secrets[1], 3 * MINUTE).is_none());
        logins.end_of_user("ann");
        assert!(logins.views(3 * MINUTE).is_empty());
        assert!(logins.end(views[0].id).is_none());
    }

    #[test]
    fn one_user_has_a_bounded_number_of_logins() {
        let mut logins = Logins::default();
        let other = logins.begin("bob", None, 0, MINUTE).expect("begun");
        let first = logins.begin("ann", None, 0, MINUTE).expect("begun");
        for second in 0..MOST_OF_USER as u64 {
            let now = MINUTE + Duration::from_secs(second + 1);
            logins.begin("ann", None, 0, now).expect("begun");
        }
        assert_eq!(logins.views(2 * MINUTE).len(), MOST_OF_USER + 1);
        assert!(logins.seen(&first, 2 * MINUTE).is_none());
        assert!(logins.seen(&other, 2 * MINUTE).is_some());
    }
}
