//! Description of a change's effect: objects, sessions, and a digest by which a preview is
//! recognised.

use super::{Commit, Committed, SessionEffect};
use config::access::{self, LunView, Refusal};
use config::diff::{self, Action, Difference, FieldChange, ViewChange};
use config::placement;
use model::config::{PortalGroupSpec, UnitSpec};
use model::data_plane::SessionInfo;
use model::{Config, Error, ErrorKind};

impl Committed {
    /// Describes the step from one configuration to the next.
    fn of(before: &Config, after: &Config, sessions: &[SessionInfo], how: &Commit) -> Self {
        let mut told = Self {
            from_generation: before.generation,
            generation: after.generation,
            dry_run: how.dry_run,
            differences: differences(before, after),
            sessions: effects(before, after, sessions),
            effect: String::new(),
            notices: Vec::new(),
        };
        told.effect = told.digest();
        told
    }

    /// Describes the step as [`Self::of`] does, and refuses it if `how` does not allow its effect.
    pub(super) fn checked(
        before: &Config,
        after: &Config,
        sessions: &[SessionInfo],
        how: &Commit,
    ) -> Result<Self, Error> {
        let told = Self::of(before, after, sessions, how);
        told.check_effect(how)?;
        told.check_sessions(how)?;
        Ok(told)
    }

    /// Refuses a change whose effect differs from that of its preview.
    fn check_effect(&self, how: &Commit) -> Result<(), Error> {
        match &how.if_effect {
            Some(wanted) if *wanted != self.effect => Err(Error::new(
                ErrorKind::Stale,
                format!(
                    "the effect of the change differs from the preview: now it would {}",
                    self.in_words()
                ),
                "see the new preview with --dry-run, then repeat the command",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses a change that takes something from a session, if the request forbids this.
    fn check_sessions(&self, how: &Commit) -> Result<(), Error> {
        let losing: Vec<&SessionEffect> = self.sessions.iter().filter(|it| it.loses).collect();
        let Some(first) = losing.first().filter(|_| how.keep_sessions) else {
            return Ok(());
        };
        let SessionEffect {
            tsih,
            initiator,
            target,
            effect,
            ..
        } = first;
        let more = match losing.len() - 1 {
            0 => String::new(),
            more => format!("; and {more} more sessions"),
        };
        Err(Error::new(
            ErrorKind::InUse,
            format!("session {tsih} of {initiator} at {target} {effect}{more}"),
            "ask its host to log out first, or repeat the command with --yes",
        ))
    }

    /// Returns the digest of the effect. Generations are left out, so that changes by others
    /// elsewhere make no difference.
    fn digest(&self) -> String {
        let losing: Vec<(u16, &str)> = self
            .sessions
            .iter()
            .filter(|session| session.loses)
            .map(|session| (session.tsih, session.effect.as_str()))
            .collect();
        // The value has only numbers, texts and lists of these, so writing it cannot fail.
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

/// Returns the differences of two configurations. Units whose volume was replaced by another one of
/// the old name count as changed.
fn differences(before: &Config, after: &Config) -> Vec<Difference> {
    let mut all = diff::diff(before, after);
    let old = before.units_by_naa();
    for unit in placement::moved(before, after) {
        let was = old.get(unit.naa.as_str()).map(|was| &was.backend);
        if let Some(volume) = unit.backend.volume()
            && was == Some(&unit.backend)
        {
            all.push(Difference {
                action: Action::Modify,
                object: "lu".to_owned(),
                name: unit.name.clone(),
                fields: vec![FieldChange {
                    field: "backend".to_owned(),
                    old: Some(format!("another {volume}")),
                    new: Some(volume.to_owned()),
                }],
            });
        }
    }
    all
}

/// Returns the effect of a change on each session that notices it.
fn effects(before: &Config, after: &Config, sessions: &[SessionInfo]) -> Vec<SessionEffect> {
    let units = Units::of(before, after);
    let of_one = |session: &SessionInfo| {
        let target = session.target.clone()?;
        let (effect, loses) = effect(before, after, &units, session, &target)?;
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

/// Units that a session keeps, but cannot use as before.
struct Units<'a> {
    /// Units that now lead to other data.
    moved: Vec<&'a UnitSpec>,
    /// Units that are taken offline.
    offline: Vec<&'a UnitSpec>,
}

impl<'a> Units<'a> {
    fn of(before: &'a Config, after: &'a Config) -> Self {
        let old = before.units_by_naa();
        let was_online =
            |unit: &&UnitSpec| old.get(unit.naa.as_str()).is_some_and(|it| !it.offline);
        let offline = after.units.iter().filter(|unit| unit.offline);
        Self {
            moved: placement::moved(before, after),
            offline: offline.filter(was_online).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.offline.is_empty()
    }
}

/// Returns the effect on a session, and whether the session loses something. `None` means no
/// effect.
fn effect(
    before: &Config,
    after: &Config,
    units: &Units<'_>,
    session: &SessionInfo,
    target: &str,
) -> Option<(String, bool)> {
    let initiator = &session.initiator;
    let (added, removed, protection) = match diff::view_change(before, after, initiator, target) {
        ViewChange::End(reason) => return Some((format!("ends: {reason}"), true)),
        ViewChange::Same => Default::default(),
        ViewChange::Luns {
            added,
            removed,
            protection,
        } => (added, removed, protection),
    };
    if let Some(reason) = portal_change(before, after, session, target) {
        return Some((format!("ends: {reason}"), true));
    }
    if removed.is_empty() && added.is_empty() && protection.is_empty() && units.is_empty() {
        return None;
    }
    let views = access::luns(after, initiator, &target.to_ascii_lowercase());
    let leading_to = |wanted: &[&UnitSpec]| -> Vec<u16> {
        let is_wanted = |view: &&LunView| wanted.iter().any(|unit| unit.naa == view.naa);
        let luns = views.iter().filter(is_wanted);
        luns.map(|view| view.lun).collect()
    };
    let is_protected = |lun: &u16| views.iter().any(|it| it.lun == *lun && it.read_only);
    let (protected, released): (Vec<u16>, _) = protection.into_iter().partition(is_protected);
    let parts = [
        ("gains", added, false),
        ("may write", released, false),
        ("loses", removed, true),
        ("may only read", protected, true),
        ("cannot use", leading_to(&units.offline), true),
        ("finds other data behind", leading_to(&units.moved), true),
    ];
    let parts = parts.iter().filter(|(_, luns, _)| !luns.is_empty());
    let loses = parts.clone().any(|(.., loses)| *loses);
    let parts: Vec<String> = parts
        .map(|(word, luns, _)| format!("{word} {}", lun_list(luns)))
        .collect();
    (!parts.is_empty()).then(|| (parts.join(", "), loses))
}

/// Returns the reason why a session cannot keep its target port, by the rules of the event loops.
fn portal_change(
    before: &Config,
    after: &Config,
    session: &SessionInfo,
    target: &str,
) -> Option<String> {
    let target = target.to_ascii_lowercase();
    let (before, after) = (before.target(&target)?, after.target(&target)?);
    if before.portal_groups == after.portal_groups {
        return None;
    }
    let port =
        |group: &PortalGroupSpec| (group.tag, group.relative_port_id, group.target_port_group);
    session.connections.iter().find_map(|connection| {
        let was = access::portal_group(before, connection.local)?;
        match access::portal_group(after, connection.local) {
            Some(is) if port(is) == port(was) => None,
            Some(_) => Some("its portal will belong to another portal group".to_owned()),
            None => Some(Refusal::WrongPortal.to_string()),
        }
    })
}

fn lun_list(luns: &[u16]) -> String {
    let list: Vec<_> = luns.iter().map(u16::to_string).collect();
    format!("LUN {}", list.join(", "))
}
