//! Condition of a pool: whether it takes changes, whether it is used at all, and how it is to end.

use super::protection::Stop;
use crate::engine::request::{PoolError, PoolErrorKind};

/// Whether a pool takes changes, and how its use is to end.
#[derive(Debug, Default)]
pub(in crate::engine) struct Condition {
    /// Reason why no changes are taken.
    suspended: Option<String>,
    /// Whether changes are refused because the pool is open for reading only.
    is_read_only: bool,
    /// Reason for which all work ended, since another host has the pool or may have it.
    stopped: Option<Stop>,
    /// Whether this host lets the pool go when all is written.
    is_closing: bool,
    /// Whether the labels are to say that any host may import the pool, when all else is written.
    is_export_wanted: bool,
}

impl Condition {
    /// Takes no changes from now on. Returns whether that is news; an earlier reason stays.
    pub(in crate::engine) fn suspend(&mut self, reason: &str) -> bool {
        let is_news = self.suspended.is_none();
        self.suspended.get_or_insert_with(|| reason.to_owned());
        is_news
    }

    /// Takes no changes, since the pool is open for reading only.
    pub(in crate::engine) fn make_read_only(&mut self) {
        self.is_read_only = true;
        self.suspended = Some("it was imported to be read only".into());
    }

    /// Ends all work. This reason replaces that of an earlier suspension, since it is worse.
    pub(in crate::engine) fn stop(&mut self, stop: Stop) {
        self.suspended = Some(stop.reason());
        self.stopped = Some(stop);
    }

    /// Returns the reason why no changes are taken; `None` if they are.
    pub(in crate::engine) fn suspended(&self) -> Option<&str> {
        self.suspended.as_deref()
    }

    pub(in crate::engine) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the reason why all work ended; `None` if it did not.
    pub(in crate::engine) fn stopped(&self) -> Option<&Stop> {
        self.stopped.as_ref()
    }

    /// Returns the error for changes that are no longer taken.
    pub(in crate::engine) fn refusal(&self) -> Option<PoolError> {
        let reason = self.suspended()?;
        let kind = match self.is_read_only {
            true => PoolErrorKind::ReadOnly,
            false => PoolErrorKind::Suspended,
        };
        let context = format!("the pool takes no changes: {reason}");
        Some(PoolError::new(kind, context))
    }

    /// Lets the pool go when all is written. With `is_exported`, any host may import it then.
    pub(in crate::engine) fn begin_closing(&mut self, is_exported: bool) {
        self.is_closing = true;
        self.is_export_wanted = is_exported;
    }

    pub(in crate::engine) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Reports whether the labels are still to say that any host may import the pool.
    pub(in crate::engine) fn is_export_wanted(&self) -> bool {
        self.is_export_wanted
    }

    /// Forgets the wish for labels that say that any host may import the pool: they will say so.
    pub(in crate::engine) fn forget_export(&mut self) {
        self.is_export_wanted = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(condition: &Condition) -> Option<(PoolErrorKind, String)> {
        let refusal = condition.refusal();
        refusal.map(|error| (error.kind, error.context))
    }

    #[test]
    fn a_new_pool_takes_changes_and_stays() {
        let new = Condition::default();
        assert_eq!(told(&new), None);
        assert_eq!(new.suspended(), None);
        assert!(!new.is_read_only() && !new.is_closing() && !new.is_export_wanted());
        assert_eq!(new.stopped(), None);
    }

    #[test]
    fn the_first_reason_to_suspend_stays_and_is_the_news() {
        let mut condition = Condition::default();
        assert!(condition.suspend("a flush failed"));
        assert!(!condition.suspend("a label failed"));
        assert_eq!(condition.suspended(), Some("a flush failed"));
        let expected = "the pool takes no changes: a flush failed".to_owned();
        assert_eq!(told(&condition), Some((PoolErrorKind::Suspended, expected)));
        assert_eq!(condition.stopped(), None);
    }

    #[test]
    fn a_pool_that_is_read_only_says_so_to_those_who_write() {
        let mut condition = Condition::default();
        condition.make_read_only();
        assert!(condition.is_read_only());
        assert!(!condition.suspend("a flush failed"));
        let (kind, context) = told(&condition).expect("a refusal");
        assert_eq!(kind, PoolErrorKind::ReadOnly);
        assert!(context.ends_with("imported to be read only"), "{context}");
    }

    #[test]
    fn a_stop_replaces_the_reason_of_a_suspension() {
        let mut condition = Condition::default();
        condition.suspend("a flush failed");
        let stop = Stop::Silent(2_300_000);
        condition.stop(stop.clone());
        assert_eq!(condition.stopped(), Some(&stop));
        assert_eq!(condition.suspended(), Some(stop.reason().as_str()));
        assert!(!condition.suspend("a label failed"));
        let (kind, context) = told(&condition).expect("a refusal");
        assert_eq!(kind, PoolErrorKind::Suspended);
        assert!(
            context.contains("for 2.3 s no activity record"),
            "{context}"
        );
    }

    #[test]
    fn only_an_export_wants_labels_and_wants_them_once() {
        let mut closed = Condition::default();
        closed.begin_closing(false);
        assert!(closed.is_closing() && !closed.is_export_wanted());
        let mut exported = Condition::default();
        exported.begin_closing(true);
        assert!(exported.is_closing() && exported.is_export_wanted());
        exported.forget_export();
        assert!(exported.is_closing() && !exported.is_export_wanted());
        assert_eq!(told(&exported), None);
    }
}
