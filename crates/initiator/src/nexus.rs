//! An I_T nexus: one session, through one portal, from one place; lost and made again for as long
//! as it is wanted.

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

/// Where a path of a nexus leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathOf {
    pub(super) lun: u64,
    /// Index of the device.
    pub(super) device: usize,
    pub(super) path: PathId,
    /// In this life of the session, and since the target last said that something changed, the unit
    /// has said that it is this device, and it carries I/O.
    pub(super) is_known: bool,
    /// The unit is this device, and carries no I/O before the path takes part in the host's
    /// reservation of it.
    pub(super) waits_to_take_part: bool,
}

/// One session and what is known of it.
#[derive(Debug)]
pub(super) struct Nexus {
    /// Index of the target.
    pub(super) target: usize,
    /// Number of the session among those of its target: the `C` of a runtime name.
    pub(super) channel: u32,
    /// What the session is to be known by; the same for each of its lives, so that a new one ends
    /// the old one (RFC 7143 §6.3.5).
    pub(super) isid: Isid,
    /// The portal as configured.
    pub(super) portal: SocketAddr,
    /// Where a redirection for good led.
    pub(super) moved_to: Option<SocketAddr>,
    /// Where a redirection for now leads: the next try only.
    pub(super) redirected: Option<SocketAddr>,
    pub(super) bind: Option<Bind>,
    pub(super) state: State,
    pub(super) paths: Vec<PathOf>,
    pub(super) scan: Option<Scan>,
    /// The scan goes on, or begins anew, at this time.
    pub(super) scan_at_us: Option<u64>,
    /// Something changed while the scan was under way: what it found counts for nothing.
    pub(super) is_scan_stale: bool,
    /// Scans in a row that did not find all that they should.
    pub(super) vain_scans: u32,
    /// Why a unit is of no use.
    pub(super) refusal: Option<String>,
    /// When the last byte came.
    pub(super) heard_us: u64,
    /// When the ping that has not been answered left, or the other end last took bytes after that.
    pub(super) pinged_us: Option<u64>,
    /// Bytes that it had taken then.
    pub(super) acknowledged: u64,
    /// Bytes up to the end of the ping.
    pub(super) ping_ends: u64,
    pub(super) is_suspect: bool,
    /// The target asked us to log out, and that was sent: nothing new goes down it until the next
    /// login.
    pub(super) is_leaving: bool,
    /// Number of the connection, of those that were begun.
    pub(super) life: u32,
    /// Attempts to log in, and the next offer.
    pub(super) attempts: Attempts,
    /// Tries in a row that failed, and lives that were of no use.
    pub(super) failures: u32,
    /// Redirections followed in a row.
    pub(super) redirections: u32,
    /// When this life began.
    pub(super) up_since_us: u64,
    /// Whether some I/O was answered in this life.
    pub(super) has_served: bool,
    pub(super) last_error: Option<LinkError>,
    /// Where an earlier life may still have commands at the target.
    pub(super) unfenced: Vec<PortalGroup>,
    /// From when on that is ended through another session's portal.
    pub(super) fence_from_us: Option<u64>,
    /// Whether its units have been looked at, in this life or an earlier one.
    pub(super) has_scanned: bool,
    pub(super) logged_in: Option<Box<LoggedIn>>,
    /// Lives so far.
    pub(super) logins: u64,
    /// Not wanted any more: logs out when its commands have ended, at this time at the latest.
    pub(super) parting_until_us: Option<u64>,
}

/// Where a nexus stands.
#[derive(Debug)]
pub(super) enum State {
    /// To be tried again at a time.
    Down { retry_us: u64 },
    /// Connecting or logging in since.
    Coming {
        link: Link,
        since_us: u64,
        /// Through another session's portal, only to end the last life.
        detour: bool,
    },
    /// In the full-feature phase.
    Up { link: Link },
    /// Not wanted any more: waits for the answer to its logout until a time.
    Leaving { link: Link, until_us: u64 },
    /// Logged out.
    Gone,
}

impl Nexus {
    pub(super) fn link(&mut self) -> Option<&mut Link> {
        match &mut self.state {
            State::Coming { link, .. } | State::Up { link } | State::Leaving { link, .. } => {
                Some(link)
            }
            State::Down { .. } | State::Gone => None,
        }
    }

    /// The error of a connection that was lost; `None` where a login failed for what it offered,
    /// and offers less next.
    pub(super) fn attempt_failed(&mut self, error: LinkError) -> Option<LinkError> {
        match &self.state {
            State::Coming { link, detour, .. } if self.parting_until_us.is_none() => {
                let failed = self.attempts.failed(link, error).err();
                if failed.is_none() && !detour {
                    // Also where a redirection led.
                    self.redirected = Some(link.address());
                }
                failed
            }
            _ => Some(error),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// The portal group to which the session leads, or led.
    pub(super) fn portal_group(&self) -> PortalGroup {
        self.logged_in.as_ref()?.portal_group_tag
    }

    /// Whether an earlier life may still have commands at the target.
    pub(super) fn needs_fence(&self) -> bool {
        !self.unfenced.is_empty()
    }

    /// Whether its place may be used for another session.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, State::Gone) && self.paths.is_empty()
    }

    /// Where the next connection goes.
    pub(super) fn address(&mut self) -> SocketAddr {
        self.redirected
            .take()
            .or(self.moved_to)
            .unwrap_or(self.portal)
    }

    /// When this session must be looked at next.
    pub(super) fn deadline_us(
        &self,
        settings: &SessionSettings,
        outstanding: bool,
        alone: bool,
    ) -> Option<u64> {
        match &self.state {
            State::Down { retry_us } => Some(*retry_us),
            State::Coming {
                since_us, detour, ..
            } => {
                let late = since_us + us(settings.login_timeout);
                let fence = self.fence_from_us.filter(|_| !detour);
                Some(fence.map_or(late, |fence| fence.min(late)))
            }
            State::Leaving { until_us, .. } => Some(*until_us),
            State::Up { .. } => {
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
            State::Gone => None,
        }
    }
}

/// After how long without an answer to a ping nothing new is sent down a session.
pub(super) fn suspicion_us(alive: &KeepAlive) -> u64 {
    us(alive.timeout) / 3
}

pub(super) fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2)
}
