//! An I_T nexus: one session, through one portal, from one place. A lost session is made again for
//! as long as it is wanted.

use std::net::SocketAddr;
use std::time::Duration;

use iscsi::initiator::LoggedIn;
use iscsi::pdu::Isid;

use super::attempts::Attempts;
use super::fabric::PortalGroup;
use super::link::{Link, LinkError};
use super::scan::Scan;
use model::initiator::settings::{Bind, KeepAlive, SessionSettings};
use multipath::PathId;

/// Path of a nexus: the device to which it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathOf {
    pub(super) lun: u64,
    /// Index of the device.
    pub(super) device: usize,
    pub(super) path: PathId,
    /// Whether the unit has identified itself as this device and carries I/O. The identification
    /// must date from this life of the session, and from after the target's last report of a
    /// change.
    pub(super) is_known: bool,
    /// Whether the unit is this device, but carries no I/O until the path takes part in the host's
    /// reservation.
    pub(super) waits_to_take_part: bool,
}

/// One session and its state.
#[derive(Debug)]
pub(super) struct Nexus {
    /// Index of the target.
    pub(super) target: usize,
    /// Number of the session among those of its target: the `C` of a runtime name.
    pub(super) channel: u32,
    /// ISID of the session. It stays for each of its lives, so that a new life ends the old one
    /// (RFC 7143 §6.3.5).
    pub(super) isid: Isid,
    /// Portal as configured.
    pub(super) portal: SocketAddr,
    /// Address from a permanent redirection.
    pub(super) moved_to: Option<SocketAddr>,
    /// Address from a temporary redirection, for the next try only.
    pub(super) redirected: Option<SocketAddr>,
    pub(super) bind: Option<Bind>,
    pub(super) state: NexusState,
    pub(super) paths: Vec<PathOf>,
    pub(super) scan: Option<Scan>,
    /// Time at which the scan goes on, or begins anew.
    pub(super) scan_at_us: Option<u64>,
    /// Whether something changed while the scan was under way, so that its results do not count.
    pub(super) is_scan_stale: bool,
    /// Number of scans in a row that did not find all expected units.
    pub(super) vain_scans: u32,
    /// Reason why a unit cannot be used.
    pub(super) refusal: Option<String>,
    /// Time at which the last byte came.
    pub(super) heard_us: u64,
    /// Time at which the unanswered ping left, or at which the other end last took bytes after
    /// that.
    pub(super) pinged_us: Option<u64>,
    /// Bytes that the other end had taken at `pinged_us`.
    pub(super) acknowledged: u64,
    /// Bytes up to the end of the ping.
    pub(super) ping_ends: u64,
    pub(super) is_suspect: bool,
    /// Whether the logout that the target asked for was sent. No new I/O goes down the session
    /// until the next login.
    pub(super) is_leaving: bool,
    /// Number of the present connection, counted from the first one.
    pub(super) life: u32,
    /// Attempts to log in, and the next offer.
    pub(super) attempts: Attempts,
    /// Number of tries in a row that failed, and of lives without use.
    pub(super) failures: u32,
    /// Number of redirections followed in a row.
    pub(super) redirections: u32,
    /// Time at which this life began.
    pub(super) up_since_us: u64,
    /// Whether some I/O was answered in this life.
    pub(super) has_served: bool,
    pub(super) last_error: Option<LinkError>,
    /// Portal groups in which an earlier life may still have commands.
    pub(super) unfenced: Vec<PortalGroup>,
    /// Time from which earlier lives are ended through another session's portal.
    pub(super) fence_from_us: Option<u64>,
    /// Whether the units have been scanned, in this life or an earlier one.
    pub(super) has_scanned: bool,
    pub(super) logged_in: Option<Box<LoggedIn>>,
    /// Number of lives so far.
    pub(super) logins: u64,
    /// Latest time at which an unwanted session logs out; it does so earlier if its commands have
    /// ended.
    pub(super) parting_until_us: Option<u64>,
}

/// State of a nexus.
#[derive(Debug)]
pub(super) enum NexusState {
    /// The session is down, and is tried again at a time.
    Down { retry_us: u64 },
    /// The session has been connecting or logging in since a time.
    Coming {
        link: Link,
        since_us: u64,
        /// Whether the way leads through another session's portal, only to end the last life.
        detour: bool,
    },
    /// The session is in the full-feature phase.
    Up { link: Link },
    /// The session is not wanted any more, and waits for the answer to its logout until a time.
    Leaving { link: Link, until_us: u64 },
    /// The session is logged out.
    Gone,
}

impl Nexus {
    pub(super) fn link(&mut self) -> Option<&mut Link> {
        match &mut self.state {
            NexusState::Coming { link, .. }
            | NexusState::Up { link }
            | NexusState::Leaving { link, .. } => Some(link),
            NexusState::Down { .. } | NexusState::Gone => None,
        }
    }

    /// Handles a lost connection, and returns its error. Returns `None` if a login failed because
    /// of its offer; the next one offers less.
    pub(super) fn attempt_failed(&mut self, error: LinkError) -> Option<LinkError> {
        match &self.state {
            NexusState::Coming { link, detour, .. } if self.parting_until_us.is_none() => {
                let failed = self.attempts.failed(link, error).err();
                if failed.is_none() && !detour {
                    // This also holds for the target of a redirection.
                    self.redirected = Some(link.address());
                }
                failed
            }
            _ => Some(error),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, NexusState::Up { .. })
    }

    /// Returns the portal group to which the session leads, or led.
    pub(super) fn portal_group(&self) -> PortalGroup {
        self.logged_in.as_ref()?.portal_group_tag
    }

    /// Reports whether an earlier life may still have commands at the target.
    pub(super) fn needs_fence(&self) -> bool {
        !self.unfenced.is_empty()
    }

    /// Reports whether another session may use this place.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, NexusState::Gone) && self.paths.is_empty()
    }

    /// Returns the address for the next connection.
    pub(super) fn address(&mut self) -> SocketAddr {
        self.redirected
            .take()
            .or(self.moved_to)
            .unwrap_or(self.portal)
    }

    /// Returns the time at which this session must be handled next.
    pub(super) fn deadline_us(
        &self,
        settings: &SessionSettings,
        outstanding: bool,
        alone: bool,
    ) -> Option<u64> {
        match &self.state {
            NexusState::Down { retry_us } => Some(*retry_us),
            NexusState::Coming {
                since_us, detour, ..
            } => {
                let late = since_us + us(settings.login_timeout);
                let fence = self.fence_from_us.filter(|_| !detour);
                Some(fence.map_or(late, |fence| fence.min(late)))
            }
            NexusState::Leaving { until_us, .. } => Some(*until_us),
            NexusState::Up { .. } => {
                let alive = settings.keep_alive;
                let silence = match self.pinged_us {
                    Some(pinged) if alone => pinged + us(alive.patience),
                    Some(pinged) if self.is_suspect => pinged + us(alive.timeout),
                    Some(pinged) => pinged + suspicion_us(&alive),
                    None => self.heard_us + us(if outstanding { alive.quiet } else { alive.idle }),
                };
                let due = [self.scan_at_us, self.parting_until_us];
                due.into_iter().flatten().chain([silence]).min()
            }
            NexusState::Gone => None,
        }
    }
}

/// Returns the time without an answer to a ping after which a session gets no new I/O.
pub(super) fn suspicion_us(alive: &KeepAlive) -> u64 {
    us(alive.timeout) / 3
}

pub(super) fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2)
}
