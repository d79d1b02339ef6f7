//! What a change does, told: objects, sessions, and a digest by which a preview is recognised.

use super::{Commit, Committed, SessionEffect};
use crate::config::diff::{self, ViewChange};
use crate::config::{Config, Error, ErrorKind};
use crate::control::data_plane::SessionInfo;

impl Committed {
    /// Tells what leads from one configuration to the next.
    pub(super) fn of(
        before: &Config,
        after: &Config,
        sessions: &[SessionInfo],
        how: &Commit,
    ) -> Self {
        let mut told = Self {
            from_generation: before.generation,
            generation: after.generation,
            dry_run: how.dry_run,
            differences: diff::diff(before, after),
            sessions: effects(before, after, sessions),
            effect: String::new(),
            notices: Vec::new(),
        };
        told.effect = told.digest();
        told
    }

    /// Refuses a change that does something else than its preview told.
    pub(super) fn check_effect(&self, how: &Commit) -> Result<(), Error> {
        match &how.if_effect {
            Some(wanted) if *wanted != self.effect => Err(Error::new(
                ErrorKind::Stale,
                format!(
                    "what this does has changed since it was previewed: now it would {}",
                    self.in_words()
                ),
                "see the new preview with --dry-run, then repeat the command",
            )),
            _ => Ok(()),
        }
    }

    /// Generations are left out: what others changed elsewhere makes no difference.
    fn digest(&self) -> String {
        let losing: Vec<(u16, &str)> = self
            .sessions
            .iter()
            .filter(|session| session.loses)
            .map(|session| (session.tsih, session.effect.as_str()))
            .collect();
        // Only numbers, texts and lists of these: it cannot fail.
        let text = serde_json::to_vec(&(&self.differences, losing)).unwrap_or_default();
        let hash = blake3::hash(&text).to_hex();
        hash[..16].to_owned()
    }

    fn in_words(&self) -> String {
        let objects = self.differences.iter().map(|difference| {
            let action = difference.action.as_str();
            format!("{action} {} {}", difference.object, difference.name)
        });
        let losing = self.sessions.iter().filter(|session| session.loses);
        let sessions = losing.map(|it| format!("take from session {}: {}", it.tsih, it.effect));
        let all: Vec<String> = objects.chain(sessions).collect();
        match all.is_empty() {
            true => "change nothing".to_owned(),
            false => all.join("; "),
        }
    }
}

/// What a change means for each session that notices.
fn effects(before: &Config, after: &Config, sessions: &[SessionInfo]) -> Vec<SessionEffect> {
    let of_one = |session: &SessionInfo| {
        let target = session.target.clone()?;
        let (effect, loses) = match diff::view_change(before, after, &session.initiator, &target) {
            ViewChange::Same => return None,
            ViewChange::End(reason) => (format!("ends: {reason}"), true),
            ViewChange::Luns {
                added,
                removed,
                protection,
            } => {
                let parts = [
                    ("gains", &added),
                    ("loses", &removed),
                    ("other write protection of", &protection),
                ];
                let parts = parts.into_iter().filter(|(_, luns)| !luns.is_empty());
                let parts = parts.map(|(word, luns)| format!("{word} {}", lun_list(luns)));
                let parts: Vec<String> = parts.collect();
                (parts.join(", "), !removed.is_empty())
            }
        };
        Some(SessionEffect {
            tsih: session.tsih,
            initiator: session.initiator.clone(),
            target,
            effect,
            loses,
        })
    };
    sessions.iter().filter_map(of_one).collect()
}

fn lun_list(luns: &[u16]) -> String {
    let list: Vec<_> = luns.iter().map(u16::to_string).collect();
    format!("LUN {}", list.join(", "))
}
