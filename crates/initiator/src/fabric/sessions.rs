//! A session's life: connecting, LOGIN, pings, loss, and the next life.

use std::net::SocketAddr;

use iscsi::initiator::SessionEvent;
use iscsi::pdu::{AsyncEvent, LogoutResult};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::super::attempts::Attempts;
use super::super::link::{Link, LinkError, Received};
use super::super::lookup::{Elsewhere, LOOKUP_US, Lookup};
use super::super::nexus::{Nexus, NexusState, PathOf, suspicion_us, us};
use super::super::scan::Scan;
use super::fencing::DETOUR_AFTER_US;
use super::traffic::Exchange;
use super::{Fabric, READS_PER_TURN, Readiness};
use model::initiator::settings::Bind;
use multipath::Actions;
use net::entropy::random_isid;

/// Life time from which a session counts as useful, as it does if it served I/O. After a useful
/// life the next one is tried at once.
const USEFUL_US: u64 = 2_000_000;
/// Longest pause before a session is tried again if no other path serves I/O.
const ALONE_US: u64 = 1_000_000;
/// Most redirections followed in a row.
const MAX_REDIRECTIONS: u32 = 8;
/// Time for which an answer to a logout is waited for.
const LOGOUT_US: u64 = 2_000_000;

impl Fabric {
    /// Adds a session, which connects at once.
    pub(super) fn new_nexus(
        &self,
        target: usize,
        channel: u32,
        portal: SocketAddr,
        bind: Option<Bind>,
        now: u64,
    ) -> Nexus {
        Nexus {
            target,
            channel,
            isid: random_isid(&mut &*self.outside),
            portal,
            moved_to: None,
            redirected: None,
            bind,
            state: NexusState::Down { retry_us: now },
            paths: Vec::new(),
            scan: None,
            scan_at_us: None,
            is_scan_stale: false,
            vain_scans: 0,
            refusal: None,
            heard_us: now,
            pinged_us: None,
            acknowledged: 0,
            ping_ends: 0,
            is_suspect: false,
            is_leaving: false,
            life: 0,
            attempts: Attempts::default(),
            failures: 0,
            redirections: 0,
            up_since_us: now,
            has_served: false,
            last_error: None,
            unfenced: Vec::new(),
            fence_from_us: None,
            has_scanned: false,
            logged_in: None,
            logins: 0,
            parting_until_us: None,
        }
    }

    /// Handles the passing of time for a session.
    pub(super) fn tick_nexus(&mut self, at: usize, now: u64) {
        let alone = self.is_alone(at);
        let has_left =
            self.nexuses[at].parting_until_us.is_some() && !self.waits_for_fence(at, now);
        let (target, nexus) = (self.nexuses[at].target, &mut self.nexuses[at]);
        let session = &self.targets[target].settings.session;
        match &nexus.state {
            NexusState::Down { .. } if has_left => self.take_leave(at, now),
            NexusState::Down { retry_us } if *retry_us <= now => self.connect(at, None, now),
            NexusState::Coming {
                since_us, detour, ..
            } => {
                let slow = now >= since_us + us(session.login_timeout);
                let detour_due = nexus.fence_from_us.is_some_and(|due| due <= now) && !detour;
                if slow {
                    let limit = session.login_timeout;
                    self.lose(at, LinkError::Slow(limit));
                } else if detour_due {
                    self.take_detour(at, now);
                }
            }
            NexusState::Up { .. } => {
                self.listen(at, alone, now);
                self.take_leave(at, now);
            }
            NexusState::Leaving { until_us, .. } if *until_us <= now => {
                self.drop_link(at);
                self.nexuses[at].state = NexusState::Gone;
            }
            NexusState::Down { .. } | NexusState::Leaving { .. } | NexusState::Gone => {}
        }
    }

    pub(super) fn nexus_deadline_us(&mut self, at: usize) -> Option<u64> {
        let alone = self.is_alone(at);
        let nexus = &self.nexuses[at];
        let outstanding = matches!(&nexus.state, NexusState::Up { link } if link.outstanding() > 0);
        let settings = &self.targets[nexus.target].settings.session;
        nexus.deadline_us(settings, outstanding, alone)
    }

    /// Pings a silent session, stops using one that does not answer, and finally gives it up. The
    /// ping waits in line behind writes, which on a slow link with a deep queue may take longer
    /// than any timeout. So time does not count while the other end takes bytes before the ping.
    /// After the ping it does: a kernel acknowledges even for a program that hangs.
    fn listen(&mut self, at: usize, alone: bool, now: u64) {
        let nexus = &mut self.nexuses[at];
        let alive = self.targets[nexus.target].settings.session.keep_alive;
        let NexusState::Up { link } = &mut nexus.state else {
            return;
        };
        let Some((session, out)) = link.session() else {
            return;
        };
        let silence = now.saturating_sub(nexus.heard_us);
        match nexus.pinged_us {
            None => {
                let limit = if session.outstanding() > 0 {
                    alive.quiet
                } else {
                    alive.idle
                };
                if silence >= us(limit) {
                    session.ping(out);
                    nexus.pinged_us = Some(now);
                    nexus.acknowledged = link.acknowledged();
                    nexus.ping_ends = link.queued_bytes();
                    self.mark_dirty(at);
                }
            }
            Some(pinged) => {
                let limit = if alone { alive.patience } else { alive.timeout };
                let suspicion = pinged + suspicion_us(&alive);
                let is_due = now.saturating_sub(pinged) >= us(limit)
                    || (!nexus.is_suspect && !alone && now >= suspicion);
                let acknowledged = if is_due { link.acknowledged() } else { 0 };
                if acknowledged > nexus.acknowledged && acknowledged <= nexus.ping_ends {
                    nexus.acknowledged = acknowledged;
                    nexus.pinged_us = Some(now);
                } else if now.saturating_sub(pinged) >= us(limit) {
                    let silence = std::time::Duration::from_micros(silence);
                    return self.lose(at, LinkError::Silent(silence));
                } else if !nexus.is_suspect && !alone && now >= suspicion {
                    nexus.is_suspect = true;
                    self.each_path(at, now, |policy, path, now, out| {
                        policy.path_suspect(path, now, out)
                    });
                }
            }
        }
        if self.nexuses[at].scan_at_us.is_some_and(|due| due <= now) {
            self.nexuses[at].scan_at_us = None;
            if self.nexuses[at].scan.is_some() {
                self.send_scan(at);
            } else {
                self.scan_again(at);
            }
        }
    }

    /// Reports whether no other session could take over this session's I/O.
    fn is_alone(&self, at: usize) -> bool {
        let mine = &self.nexuses[at].paths;
        let leads_there = |nexus: &Nexus| {
            let mut theirs = nexus.paths.iter();
            theirs.any(|path| mine.iter().any(|other| other.device == path.device))
        };
        !self.nexuses.iter().enumerate().any(|(other, nexus)| {
            other != at && nexus.is_up() && !nexus.is_suspect && leads_there(nexus)
        })
    }

    /// Begins a life. A detour leads through another session's portal, only to end the last life.
    pub(super) fn connect(
        &mut self,
        at: usize,
        detour: Option<(SocketAddr, Option<Bind>)>,
        now: u64,
    ) {
        let settings = &self.targets[self.nexuses[at].target].settings;
        let nexus = &mut self.nexuses[at];
        let is_detour = detour.is_some();
        if !is_detour && nexus.needs_fence() {
            // This also holds if the connection cannot even be begun: the local way may be what
            // failed.
            nexus.fence_from_us.get_or_insert(now + DETOUR_AFTER_US);
        }
        let (address, bind) = detour.unwrap_or_else(|| (nexus.address(), nexus.bind.clone()));
        let mut login = settings.session.login(&settings.name, nexus.isid);
        login.offer = nexus.attempts.offer;
        let (tcp, outside) = (&settings.session.tcp, &*self.outside);
        let link = match Link::connect(address, bind.as_ref(), tcp, login, outside) {
            Ok(link) => link,
            Err(error) => return self.lose(at, error),
        };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        nexus.life = nexus.life.wrapping_add(1);
        let data = EventData::new_u64(Readiness::new(at, nexus.life).to_bits());
        if let Err(error) = epoll::add(&*self.epoll, &link, data, flags) {
            return self.lose(at, LinkError::Connect(error.into()));
        }
        nexus.state = NexusState::Coming {
            link,
            since_us: now,
            detour: is_detour,
        };
    }

    /// Handles a ready socket.
    pub(super) fn socket_ready(&mut self, readiness: Readiness, flags: EventFlags) {
        let at = readiness.nexus as usize;
        if self.nexuses[at].life != readiness.life {
            // The event is of a connection that is closed by now.
            return;
        }
        if flags.contains(EventFlags::OUT) {
            let Some(link) = self.nexuses[at].link() else {
                return;
            };
            match link.writable() {
                Ok(true) if self.nexuses[at].needs_fence() => self.ask_for_fence(at),
                Ok(_) => {}
                Err(error) => return self.lose(at, error),
            }
        }
        if !flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
        {
            return;
        }
        // Behind a closing peer's last bytes the end must be read too, and no new event will come
        // for it.
        let is_closing = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        for _ in 0..READS_PER_TURN {
            if self.nexuses[at].life != readiness.life || self.nexuses[at].link().is_none() {
                return;
            }
            match self.receive(at) {
                Ok(true) => {}
                Ok(false) if is_closing => {}
                Ok(false) => return,
                Err(error) => return self.lose(at, error),
            }
        }
        self.ready.push((readiness, flags - EventFlags::OUT));
    }

    /// Reads once from a session, and reports whether there may be more.
    fn receive(&mut self, at: usize) -> Result<bool, LinkError> {
        let mut exchange = Exchange {
            devices: &mut self.devices,
            errands: &mut self.errands,
            endings: &mut self.endings,
            news: Vec::new(),
            start: self.start,
        };
        let nexus = &mut self.nexuses[at];
        let Some(link) = nexus.link() else {
            return Ok(false);
        };
        let received = link.receive(&mut self.buffer, &mut exchange, &*self.outside);
        let news = exchange.news;
        let has_output = !link.out.is_empty();
        let now = self.now_us();
        // Commands that ended before an error have ended.
        self.settle(at, now);
        let received = received?;
        if has_output {
            self.mark_dirty(at);
        }
        for event in news {
            self.heed(at, event)?;
        }
        match received {
            Received::Data { more } => {
                self.hear(at, now);
                Ok(more)
            }
            Received::LoggedIn(login) => {
                self.logged_in(at, login, now);
                Ok(true)
            }
        }
    }

    /// Notes that bytes came.
    fn hear(&mut self, at: usize, now: u64) {
        let nexus = &mut self.nexuses[at];
        nexus.heard_us = now;
        if nexus.is_leaving {
            return;
        }
        nexus.pinged_us = None;
        if nexus.is_suspect {
            nexus.is_suspect = false;
            self.each_known_path(at, now, |policy, path, now, out| {
                policy.path_up(path, now, out)
            });
        }
    }

    /// Handles an unsolicited message of the target.
    fn heed(&mut self, at: usize, event: SessionEvent) -> Result<(), LinkError> {
        match event {
            SessionEvent::Pong | SessionEvent::Text(_) => Ok(()),
            SessionEvent::TaskManagement { cookie, result } => {
                let now = self.now_us();
                self.abort_answered(at, cookie, result, now);
                Ok(())
            }
            SessionEvent::Rejected(reason) => {
                tracing::warn!(session = %self.nexuses[at].isid, ?reason, "the target rejected a PDU");
                Ok(())
            }
            SessionEvent::LoggedOut(LogoutResult::Closed) => Err(LinkError::Ended("logged out")),
            SessionEvent::LoggedOut(_) => Err(LinkError::Ended("the logout failed at the target")),
            SessionEvent::Async { message, .. } => match message.async_event {
                AsyncEvent::Scsi => Ok(()),
                AsyncEvent::RequestLogout => {
                    self.leave(at);
                    Ok(())
                }
                AsyncEvent::DropConnection => {
                    Err(LinkError::Ended("the target dropped the connection"))
                }
                AsyncEvent::DropAllConnections => {
                    Err(LinkError::Ended("the target dropped the session"))
                }
                _ => Ok(()),
            },
        }
    }

    /// Logs out at the target's request (RFC 7143 §11.9.1, event 1), to log in anew. Commands that
    /// have not ended when the logout is answered are repeated then. The answer is waited for as
    /// long as the answer to a ping.
    fn leave(&mut self, at: usize) {
        let now = self.now_us();
        let nexus = &mut self.nexuses[at];
        let NexusState::Up { link } = &mut nexus.state else {
            return;
        };
        let Some((session, out)) = link.session().filter(|_| !nexus.is_leaving) else {
            return;
        };
        tracing::info!(portal = %nexus.portal, session = %nexus.isid, "the target asked for a logout");
        session.logout(out);
        nexus.acknowledged = link.acknowledged();
        nexus.ping_ends = link.queued_bytes();
        (nexus.is_leaving, nexus.is_suspect, nexus.pinged_us) = (true, true, Some(now));
        (nexus.scan, nexus.scan_at_us) = (None, None);
        self.mark_dirty(at);
        self.each_path(at, now, |policy, path, now, out| {
            policy.path_suspect(path, now, out)
        });
    }

    fn logged_in(&mut self, at: usize, login: Box<iscsi::initiator::LoggedIn>, now: u64) {
        let nexus = &mut self.nexuses[at];
        let NexusState::Coming { detour, .. } = nexus.state else {
            return;
        };
        if let Some(offer) = nexus.attempts.succeeded() {
            tracing::info!(portal = %nexus.portal, session = %nexus.isid, "logged in at another attempt, which offered {offer}");
        }
        nexus.fence_from_us = None;
        nexus.heard_us = now;
        nexus.pinged_us = None;
        (nexus.is_suspect, nexus.is_leaving) = (false, false);
        self.login_fences(at, login.portal_group_tag, now);
        let is_parting = self.nexuses[at].parting_until_us.is_some();
        if is_parting && self.waits_for_fence(at, now) && self.detour(at).is_some() {
            // The session's own portal leads elsewhere by now; its remains at the earlier place
            // must still be ended.
            return self.take_detour(at, now);
        }
        if detour {
            // The detour has done its duty. The session itself belongs to its own portal.
            self.drop_link(at);
            let back_off = self.targets[self.nexuses[at].target]
                .settings
                .session
                .back_off;
            self.nexuses[at].state = NexusState::Down {
                retry_us: now + us(back_off.after(1)),
            };
            return self.take_leave(at, now);
        }
        let lun = self.targets[self.nexuses[at].target].settings.lun;
        let nexus = &mut self.nexuses[at];
        if let NexusState::Coming { link, .. } =
            std::mem::replace(&mut nexus.state, NexusState::Gone)
        {
            nexus.state = NexusState::Up { link };
        }
        nexus.redirections = 0;
        nexus.up_since_us = now;
        nexus.has_served = false;
        nexus.vain_scans = 0;
        nexus.last_error = None;
        nexus.logins += 1;
        nexus.logged_in = Some(login);
        if nexus.parting_until_us.is_some() {
            return self.take_leave(at, now);
        }
        nexus.scan = Some(Scan::new(lun));
        self.send_scan(at);
    }

    /// Closes a connection without a logout.
    pub(super) fn drop_link(&mut self, at: usize) {
        let state = std::mem::replace(&mut self.nexuses[at].state, NexusState::Gone);
        match state {
            NexusState::Coming { link, .. }
            | NexusState::Up { link }
            | NexusState::Leaving { link, .. } => {
                // Closing takes it out of the poller as well.
                link.abort();
            }
            NexusState::Down { .. } | NexusState::Gone => {}
        }
        self.errands.retain(|_, errand| errand.nexus != at);
        self.aborts.retain(|abort| abort.nexus != at);
        let nexus = &mut self.nexuses[at];
        nexus.scan = None;
        nexus.scan_at_us = None;
        nexus.is_scan_stale = false;
        for path in &mut nexus.paths {
            (path.is_known, path.waits_to_take_part) = (false, false);
        }
        self.drop_reserving(at);
    }

    /// Logs in at once, with an offer that is less than the one that failed. After a detour, the
    /// session uses its own portal again.
    fn try_another_offer(&mut self, at: usize, now: u64) {
        self.drop_link(at);
        self.nexuses[at].state = NexusState::Down { retry_us: now };
    }

    /// Handles a session that is lost, or that was not established.
    pub(in super::super) fn lose(&mut self, at: usize, error: LinkError) {
        let now = self.now_us();
        let state = &self.nexuses[at].state;
        let was_up = matches!(state, NexusState::Up { .. });
        let was_detour = matches!(state, NexusState::Coming { detour: true, .. });
        let leaving = matches!(state, NexusState::Leaving { .. } | NexusState::Gone);
        let was_scanning = self.nexuses[at].scan.is_some();
        let error = match self.nexuses[at].attempt_failed(error) {
            Some(error) => error,
            None => return self.try_another_offer(at, now),
        };
        self.drop_link(at);
        if leaving {
            return;
        }
        if was_up {
            self.note_unfenced(at);
        }
        if self.nexuses[at].parting_until_us.is_some() {
            return self.take_leave(at, now);
        }
        let back_off = self.targets[self.nexuses[at].target]
            .settings
            .session
            .back_off;
        let is_alone = !self.nexuses[at].paths.is_empty() && self.is_alone(at);
        let nexus = &mut self.nexuses[at];
        // A detour's portal speaks for the session that owns the portal.
        let may_follow = !was_detour && nexus.redirections < MAX_REDIRECTIONS;
        let elsewhere = Elsewhere::of(&error).filter(|_| may_follow);
        let mut follow_us = None;
        match elsewhere {
            Some((Elsewhere::Address(address), permanent)) => {
                nexus.redirected = Some(address);
                if permanent {
                    nexus.moved_to = Some(address);
                }
                follow_us = Some(now);
            }
            Some((Elsewhere::Name(portal), is_permanent)) => {
                self.lookups.push(Lookup {
                    nexus: at,
                    isid: nexus.isid,
                    portal,
                    from: nexus.portal,
                    is_permanent,
                });
                follow_us = Some(now + LOOKUP_US);
            }
            // A portal named by a redirection may be gone, so the next try begins at the configured
            // portal.
            None if !was_up && !was_detour => nexus.moved_to = None,
            None => {}
        }
        tracing::info!(portal = %nexus.portal, session = %nexus.isid, %error, "session lost");
        nexus.last_error = Some(error);
        let lasted = !was_scanning && now.saturating_sub(nexus.up_since_us) >= USEFUL_US;
        let was_useful = nexus.has_served || lasted;
        let retry_us = if let Some(follow_us) = follow_us {
            nexus.redirections += 1;
            follow_us
        } else if was_up && was_useful {
            nexus.failures = 0;
            now
        } else {
            nexus.redirections = 0;
            nexus.failures = nexus.failures.saturating_add(1);
            let wait = us(back_off.after(nexus.failures));
            now + if is_alone { wait.min(ALONE_US) } else { wait }
        };
        nexus.state = NexusState::Down { retry_us };
        self.changes += u64::from(was_up);
        if was_up {
            self.each_path(at, now, |policy, path, now, out| {
                policy.path_dead(path, now, out)
            });
            self.give_up_confirmation(at, now);
        } else if self.nexuses[at].needs_fence() && self.nexuses[at].fence_from_us.is_some() {
            // The session's own portal refuses it, so waiting for it is useless.
            self.take_detour(at, now);
        }
    }

    /// Reports an event to the policy for every path of a session.
    pub(super) fn each_path(
        &mut self,
        at: usize,
        now: u64,
        tell: impl Fn(&mut multipath::Device, multipath::PathId, u64, &mut Actions),
    ) {
        self.each_path_if(at, now, |_| true, tell);
    }

    /// Reports an event to the policy for those paths whose unit has identified itself in this
    /// life.
    fn each_known_path(
        &mut self,
        at: usize,
        now: u64,
        tell: impl Fn(&mut multipath::Device, multipath::PathId, u64, &mut Actions),
    ) {
        self.each_path_if(at, now, |path| path.is_known, tell);
    }

    fn each_path_if(
        &mut self,
        at: usize,
        now: u64,
        wanted: impl Fn(&PathOf) -> bool,
        tell: impl Fn(&mut multipath::Device, multipath::PathId, u64, &mut Actions),
    ) {
        for index in 0..self.nexuses[at].paths.len() {
            let path = self.nexuses[at].paths[index];
            if !wanted(&path) {
                continue;
            }
            tell(
                &mut self.devices[path.device].policy,
                path.path,
                now,
                &mut self.actions,
            );
            self.carry_out(path.device, now);
        }
    }

    /// Logs out of all targets without waiting.
    pub(in super::super) fn log_out(&mut self) {
        let now = self.now_us();
        for at in 0..self.nexuses.len() {
            self.log_out_of(at, now);
        }
    }

    /// Logs out through one session.
    pub(super) fn log_out_of(&mut self, at: usize, now: u64) {
        let state = std::mem::replace(&mut self.nexuses[at].state, NexusState::Gone);
        if let NexusState::Up { mut link } = state {
            if let Some((session, out)) = link.session() {
                session.logout(out);
            }
            // If the logout is not sent, the target notices the closed connection.
            let _ = link.flush();
            self.nexuses[at].state = NexusState::Leaving {
                link,
                until_us: now + LOGOUT_US,
            };
        }
    }
}
