//! The author of a change, who travels with a request, so that the log and the history of the
//! configuration name the author.
//!
//! Changes without a request are the daemon's own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use access::{Entrance, Principal, user_name};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use super::asker::Asker;
use super::plane::Shared;
use super::transaction::Committed;
use config::diff::Difference;
use config::history::NotedChange;
use process::log::EACH;
use shown::plain;

tokio::task_local! {
    static AUTHOR: Arc<Author>;
}

/// The author of a request, and the words of the request.
#[derive(Debug)]
pub struct Author {
    /// User of this machine, or empty if unknown.
    user: String,
    /// Description of the author for the log.
    by: String,
    command: String,
    is_internal: bool,
    /// Whether the log already has the changes of the request.
    is_told: AtomicBool,
}

impl Author {
    /// Returns the author who is a user of this machine.
    pub(super) fn user(uid: u32, user: &str, command: &str) -> Self {
        Self {
            user: plain(user),
            ..Self::somebody(&format!("{user} (uid {uid})"), command)
        }
    }

    /// Returns the author whom the gate knows.
    pub(super) fn principal(principal: &Principal, command: &str) -> Self {
        let by = principal.to_string();
        match principal.entrance {
            Entrance::Socket { uid } => Self::user(uid, &principal.name, command),
            Entrance::Token(_) | Entrance::Console { .. } => Self {
                user: plain(&principal.name),
                ..Self::somebody(&by, command)
            },
        }
    }

    /// Returns an author who is not known to be a user of this machine.
    pub(super) fn somebody(by: &str, command: &str) -> Self {
        Self {
            user: String::new(),
            by: plain(by),
            command: plain(command),
            is_internal: false,
            is_told: AtomicBool::new(false),
        }
    }

    /// Returns the daemon as author of a change that it makes on its own.
    pub fn daemon(what: &str) -> Self {
        Self {
            is_internal: true,
            ..Self::somebody("the daemon", what)
        }
    }

    /// Returns the user of this process as author, with the typed command.
    pub fn here(command: &str) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        Self::user(uid, &user_name(uid), command)
    }

    /// Returns the author of the request for which this thread works.
    pub(super) fn current() -> Arc<Self> {
        let own = |_| Arc::new(Self::daemon(""));
        AUTHOR.try_with(Arc::clone).unwrap_or_else(own)
    }

    /// Returns the author's entry for the history of the configuration.
    pub fn noted(&self) -> NotedChange {
        NotedChange {
            user: self.user.clone(),
            command: self.command.clone(),
            is_internal: self.is_internal,
            ..NotedChange::default()
        }
    }

    /// Logs that the request was carried out, unless the log has its changes already.
    pub(super) fn tell_done(&self) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::info!(target: EACH, by = %self, command = self.command, "done");
        }
    }

    /// Marks the current request as one that changes nothing.
    pub(super) fn asks_only() {
        Self::current().is_told.store(true, Ordering::Relaxed);
    }

    /// Runs `work` on behalf of this author, on any thread.
    pub fn works<T>(self: Arc<Self>, work: impl FnOnce() -> T) -> T {
        AUTHOR.sync_scope(self, work)
    }
}

/// Shows the user, with the number if the socket knows it.
impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.by)
    }
}

/// Logs the author of a change of the configuration, with a line for each object.
pub(super) fn note(committed: &Committed) {
    note_differences(&committed.differences, committed.generation);
}

/// Logs the author of side effects of a change, such as a volume that grew, with a line for each
/// object.
pub(super) fn note_differences(differences: &[Difference], generation: u64) {
    let author = Author::current();
    for difference in differences {
        let what = plain(&difference.in_words());
        tracing::info!(target: EACH, by = %author, command = author.command, generation, "{what}");
    }
    author.is_told.store(true, Ordering::Relaxed);
}

/// Finds out whose request it is, and logs the authors of changes outside the configuration: pools,
/// volumes, sessions.
pub(super) async fn carry(
    State(plane): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let asker = Asker::of(&parts, &plane.access);
    request = Request::from_parts(parts, body);
    let author = Arc::new(asker.author());
    request.extensions_mut().insert(asker);
    request.extensions_mut().insert(plane);
    let is_change = request.method() != Method::GET && !asks_only(request.uri().query());
    let answer = AUTHOR.scope(Arc::clone(&author), next.run(request)).await;
    if is_change && answer.status().is_success() {
        author.tell_done();
    }
    answer
}

/// Finds out whose request it is, for pages. Their changes pass the door, which logs the authors.
pub(super) async fn introduce(
    State(plane): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.extensions().get::<Asker>().is_none() {
        let (parts, body) = request.into_parts();
        let asker = Asker::of(&parts, &plane.access);
        request = Request::from_parts(parts, body);
        request.extensions_mut().insert(asker);
    }
    next.run(request).await
}

/// Reports whether the query of a request asks for a dry run, so that nothing changes.
pub(super) fn asks_only(query: Option<&str>) -> bool {
    let mut words = query.unwrap_or_default().split('&');
    words.any(|word| word == "dry_run=true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_no_change() {
        assert!(asks_only(Some("cascade=true&dry_run=true")));
        assert!(!asks_only(Some("dry_run=false&cascade=true")));
        assert!(!asks_only(None));
    }

    #[test]
    fn work_on_another_thread_has_its_author() {
        let author = Arc::new(Author::user(0, "root", "sandstone lu offline a"));
        let told = std::thread::spawn(|| author.works(Author::current));
        let told = told.join().expect("it ends");
        assert_eq!(told.to_string(), "root (uid 0)");
        let noted = told.noted();
        assert_eq!(noted.user, "root");
        assert_eq!(noted.command, "sandstone lu offline a");
        assert!(!noted.is_internal);
        assert_eq!(Author::current().to_string(), "the daemon");
        assert!(Author::current().noted().is_internal);
    }
}
