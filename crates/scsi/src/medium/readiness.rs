//! Causes that keep everybody from a unit's medium.

use std::sync::Arc;

use crate::hindrance::Hindrance;
use crate::nexus::InitiatorPort;
use crate::sense::Sense;

/// Causes that keep everybody from the medium. Several may hold at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// Whether the device beneath is away. Set once, for a unit that stands in for another.
    pub(crate) away: bool,
    /// Whether the administrator took the unit offline.
    pub(crate) offline: bool,
    /// Initiator that stopped the unit by START STOP UNIT with START = 0.
    pub(crate) stopped: Option<Arc<InitiatorPort>>,
    /// SANITIZE that runs.
    pub(crate) sanitizing: Option<Sanitizing>,
    /// SANITIZE that failed. The only command that leads out is another SANITIZE (SBC-4 4.11.4).
    pub(crate) sanitize_failed: Option<SanitizeFailure>,
}

/// SANITIZE under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sanitizing {
    /// Progress in 65 536ths.
    pub(crate) progress: u16,
    /// Target port group through which the SANITIZE was asked for.
    pub(crate) target_port_group: u16,
    /// Exit from the failed state that is allowed if the operation fails.
    pub(crate) on_failure: SanitizeFailure,
    /// Whether everything is overwritten, so that only the end is left to be stored.
    pub(crate) is_complete: bool,
}

/// Exit that is allowed from the state after a failed SANITIZE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SanitizeFailure {
    /// AUSE: whether EXIT FAILURE MODE is allowed.
    pub(crate) allow_exit: bool,
}

impl Readiness {
    /// Returns everything that keeps the medium from being accessed now, the most lasting first.
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

    /// Returns the sense data of the most lasting cause.
    pub(crate) fn check(&self) -> Result<(), Sense> {
        self.check_but(|_| false)
    }

    /// Checks as [`Self::check`] does, for START STOP UNIT, which leads out of a stop.
    pub(crate) fn check_but_stop(&self) -> Result<(), Sense> {
        self.check_but(|it| matches!(it, Hindrance::Stopped { .. }))
    }

    /// Checks as [`Self::check`] does, for SANITIZE, which leads out of a failed SANITIZE.
    pub(crate) fn check_but_sanitize_failure(&self) -> Result<(), Sense> {
        self.check_but(|it| matches!(it, Hindrance::SanitizeFailed { .. }))
    }

    fn check_but(&self, is_led_out_of: impl Fn(&Hindrance) -> bool) -> Result<(), Sense> {
        let mut others = self.hindrances().filter(|it| !is_led_out_of(it));
        others.find_map(|it| it.sense()).map_or(Ok(()), Err)
    }

    /// Returns the state that a restart must find: a SANITIZE failed, or one had not ended.
    pub(crate) fn unfinished_sanitize(&self) -> Option<SanitizeFailure> {
        match self.sanitizing {
            Some(sanitizing) => (!sanitizing.is_complete).then_some(sanitizing.on_failure),
            None => self.sanitize_failed,
        }
    }
}
