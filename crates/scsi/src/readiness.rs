//! Causes that keep everybody from a unit's medium.

use std::sync::Arc;

use crate::hindrance::Hindrance;
use crate::nexus::InitiatorPort;
use crate::sense::Sense;

/// Causes that keep everybody from the medium; several may hold at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// The device beneath is away. Set once, for a unit that stands in for another.
    pub(crate) away: bool,
    /// Set by the administrator.
    pub(crate) offline: bool,
    /// START STOP UNIT with START = 0, and whose it was.
    pub(crate) stopped: Option<Arc<InitiatorPort>>,
    /// SANITIZE runs.
    pub(crate) sanitizing: Option<Sanitizing>,
    /// SANITIZE failed; of commands only another SANITIZE leads out (SBC-4 4.11.4).
    pub(crate) sanitize_failed: Option<SanitizeFailure>,
}

/// A SANITIZE that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sanitizing {
    /// How far it is, in 65 536ths.
    pub(crate) progress: u16,
    /// The target port group that it was asked for through.
    pub(crate) target_port_group: u16,
    /// How it may be left where it fails.
    pub(crate) on_failure: SanitizeFailure,
    /// Everything is overwritten; all that is left is to store that.
    pub(crate) is_complete: bool,
}

/// How a SANITIZE that did not end well may be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SanitizeFailure {
    /// AUSE: EXIT FAILURE MODE is allowed.
    pub(crate) allow_exit: bool,
}

impl Readiness {
    /// Everything that keeps the medium from being accessed now, the most lasting first.
    pub(crate) fn hindrances(&self) -> impl Iterator<Item = Hindrance> {
        let stopped = self.stopped.as_ref();
        let all = [
            self.offline.then_some(Hindrance::Offline),
            self.away.then_some(Hindrance::Away),
            self.sanitizing.map(|sanitizing| Hindrance::Sanitizing {
                progress: sanitizing.progress,
            }),
            stopped.map(|by| Hindrance::Stopped {
                by: by.name.clone(),
            }),
            self.sanitize_failed
                .map(|failure| Hindrance::SanitizeFailed {
                    allow_exit: failure.allow_exit,
                }),
        ];
        all.into_iter().flatten()
    }

    /// The sense data of the most lasting of them.
    pub(crate) fn check(&self) -> Result<(), Sense> {
        self.check_but(|_| false)
    }

    /// As [`Self::check`] for START STOP UNIT, which leads out of a stop.
    pub(crate) fn check_but_stop(&self) -> Result<(), Sense> {
        self.check_but(|it| matches!(it, Hindrance::Stopped { .. }))
    }

    /// As [`Self::check`] for SANITIZE, which leads out of a failed SANITIZE.
    pub(crate) fn check_but_sanitize_failure(&self) -> Result<(), Sense> {
        self.check_but(|it| matches!(it, Hindrance::SanitizeFailed { .. }))
    }

    fn check_but(&self, is_led_out_of: impl Fn(&Hindrance) -> bool) -> Result<(), Sense> {
        let mut others = self.hindrances().filter(|it| !is_led_out_of(it));
        others.find_map(|it| it.sense()).map_or(Ok(()), Err)
    }

    /// The state that a restart must find: a SANITIZE failed, or one had not ended.
    pub(crate) fn unfinished_sanitize(&self) -> Option<SanitizeFailure> {
        match self.sanitizing {
            Some(sanitizing) => (!sanitizing.is_complete).then_some(sanitizing.on_failure),
            None => self.sanitize_failed,
        }
    }
}
