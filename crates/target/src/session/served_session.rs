//! A session on the loop that owns it: the protocol's state, its view, its sockets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi::name;
use iscsi::pdu::{AsyncEvent, AsyncMessage};
use iscsi::target::discovery::{DiscoveredPortal, DiscoveredTarget, TargetDirectory};
use iscsi::target::login::{LoginResult, SessionKind};
use iscsi::target::{ConnectionSettings, Session, SessionSettings};
use scsi::UnitAttention;
use scsi::nexus::{InitiatorPort, Nexus, NexusId, TargetPort};

use super::login::DEFAULT_QUEUE_DEPTH;
use super::registry::{RegisteredSession, SessionName};
use super::view::View;
use crate::directory::Directory;
use crate::payload::{DataIn, DataOut};
use crate::shared::Shared;
use block::budget::Share;
use block::clock;
use config::access::{self, Access};
use config::directory;
use model::config::Config;
use unit::nexus::MappedUnit;
use unit::timing::tally::PortGroupTally;

/// Default silence after which an initiator is pinged.
const DEFAULT_PING_INTERVAL_S: u32 = 15;
/// Factor by which owed data may stand still longer than during want of memory.
const DATA_OUT_PATIENCE: u32 = 2;
/// Divisor of the number of commands that a session may have in flight while memory is short.
const NARROWED: u32 = 8;
/// Time that a ping may stay unanswered.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Seconds that an initiator should wait before it comes back after its session was ended
/// (Time2Wait).
const COME_BACK_S: u16 = 2;

/// Session on its loop.
#[derive(Debug)]
pub(crate) struct ServedSession {
    /// Session as the other loops know it.
    pub registered: Arc<RegisteredSession>,
    /// Name of the session.
    pub name: SessionName,
    /// Result of the session's first login.
    pub login: LoginResult,
    /// State of the protocol.
    pub protocol: Session<DataIn, DataOut>,
    /// Logical units that the session sees.
    pub view: View,
    /// I_T nexus; `None` in a discovery session.
    pub nexus: Option<Nexus>,
    /// Times of the commands of its port group; `None` in a discovery session.
    pub port_group_tally: Option<Arc<PortGroupTally>>,
    /// Slots of the loop's connection table, by the protocol's connection index.
    pub connections: BTreeMap<usize, usize>,
    /// Session's part of the memory for data in flight.
    pub share: Arc<Share>,
    /// Amount that moved so far, and the time at which anything moved last.
    progress: (Progress, Duration),
    /// Queue depth that the administrator allows.
    pub queue_depth: u32,
    /// Task management functions that wait for tasks to become quiet.
    pub functions_waiting: u32,
    /// Time at which the session began.
    pub since: Instant,
    /// Deadline at which its initiator was asked to have logged it out.
    pub logout_due: Option<Instant>,
}

impl ServedSession {
    /// Returns a session that begins, with the view that the configuration gives it.
    pub(crate) fn new(
        login: LoginResult,
        registered: Arc<RegisteredSession>,
        local: SocketAddr,
        shared: &Shared,
    ) -> Self {
        let directory = shared.directory();
        let name = SessionName::of(&login.identity, login.portal_group_tag);
        let target = directory.config.target(&name.target);
        let parameters = target
            .map(|target| target.parameters.clone())
            .unwrap_or_default();
        let queue_depth = u32::from(parameters.queue_depth.unwrap_or(DEFAULT_QUEUE_DEPTH));
        let ping = parameters
            .nop_in_interval_s
            .unwrap_or(DEFAULT_PING_INTERVAL_S);
        let settings = SessionSettings {
            discovery: login.identity.session_kind == SessionKind::Discovery,
            max_burst_length: login.session.max_burst_length,
            first_burst_length: login.session.first_burst_length,
            max_outstanding_r2t: login.session.max_outstanding_r2t,
            initial_r2t: login.session.initial_r2t,
            immediate_data: login.session.immediate_data,
            exp_cmd_sn: login.exp_cmd_sn,
            queue_depth,
            ping_after: (ping > 0).then(|| Duration::from_secs(u64::from(ping))),
            ping_timeout: PING_TIMEOUT,
            data_out_timeout: shared.limits.stall_timeout * DATA_OUT_PATIENCE,
        };
        let mut session = Self {
            registered,
            name,
            protocol: Session::new(settings),
            view: View::default(),
            nexus: None,
            port_group_tally: None,
            connections: BTreeMap::new(),
            share: shared.budget.share(),
            progress: (Progress::default(), Duration::ZERO),
            queue_depth,
            functions_waiting: 0,
            since: clock::now(),
            logout_due: None,
            login,
        };
        session.registered.set_queue_depth(queue_depth);
        if let Some(access) = session.access(&directory.config, local) {
            let nexus = session.make_nexus(&access, shared);
            session.port_group_tally = Some(shared.port_group_tally(&nexus.target_port));
            session.nexus = Some(nexus);
            session.set_view(&access, &directory);
        }
        session
    }

    /// Accepts few commands if memory is short, else as many as the session may have. The initiator
    /// may still send all that it was told it may. The window narrows as that is used up.
    pub(crate) fn follow_pressure(&mut self, under_pressure: bool) {
        let depth = if under_pressure {
            (self.queue_depth / NARROWED).max(1)
        } else {
            self.queue_depth
        };
        self.protocol.set_depth(depth);
    }

    /// Returns the access that the configuration gives this session. Returns `None` in a discovery
    /// session, or if there is none.
    pub(crate) fn access(&self, config: &Config, local: SocketAddr) -> Option<Access> {
        if self.login.identity.session_kind == SessionKind::Discovery {
            return None;
        }
        access::granted(config, &self.name.initiator, &self.name.target, Some(local)).ok()
    }

    /// Returns [`Self::access`] by each of these portals, or `None` if one of them gives no access.
    pub(crate) fn accesses(&self, config: &Config, portals: &[SocketAddr]) -> Option<Vec<Access>> {
        let portals = portals.iter();
        portals.map(|local| self.access(config, *local)).collect()
    }

    /// Reports whether this is access by another target port than that of its nexus. Another port
    /// has other access states, and other designators name it.
    pub(crate) fn has_other_port(&self, access: &Access) -> bool {
        let (group, port) = (&access.portal_group, self.nexus.as_ref());
        port.is_some_and(|nexus| {
            let port = &nexus.target_port;
            port.portal_group_tag != group.tag
                || port.relative_port_id != group.relative_port_id
                || port.target_port_group != group.target_port_group
        })
    }

    fn make_nexus(&self, access: &Access, shared: &Shared) -> Nexus {
        Nexus {
            id: NexusId::unused(),
            initiator: Arc::new(InitiatorPort {
                // Device servers compare the names of ports byte by byte.
                name: name::folded(&self.name.initiator),
                isid: self.login.identity.isid.0,
            }),
            target_port: Arc::new(TargetPort {
                name: shared.target_name(&self.name.target),
                portal_group_tag: access.portal_group.tag,
                relative_port_id: access.portal_group.relative_port_id,
                target_port_group: access.portal_group.target_port_group,
            }),
        }
    }

    /// Sets the view to the units of `access`. Returns the units that left it, and whether anything
    /// changed. Units that stay keep their I_T_L nexus with all its state.
    pub(crate) fn set_view(
        &mut self,
        access: &Access,
        directory: &Directory,
    ) -> (Vec<Arc<MappedUnit>>, bool) {
        let Some(nexus) = &self.nexus else {
            return (Vec::new(), false);
        };
        let old: Vec<Arc<MappedUnit>> = self.view.iter().cloned().collect();
        let mut view = View::default();
        let mut kept = 0;
        for wanted in &access.luns {
            let Some(unit) = directory.units.get(&wanted.unit) else {
                continue;
            };
            let same = old
                .iter()
                .find(|mapped| mapped.lun == wanted.lun && Arc::ptr_eq(&mapped.unit, unit));
            let mapped = match same {
                Some(mapped) => {
                    kept += 1;
                    mapped.itl.change_read_only(wanted.read_only);
                    mapped.clone()
                }
                None => {
                    let itl = unit.logical.attach(nexus.clone());
                    itl.set_read_only(wanted.read_only);
                    let before = old.iter().find(|mapped| mapped.lun == wanted.lun);
                    // It is the disk that the initiator knows, over a device that is back or over
                    // another one.
                    let is_other = before.is_some_and(|before| {
                        let naa = before.unit.logical.config().naa;
                        naa == unit.logical.config().naa && !unit.logical.stands_in()
                    });
                    if is_other {
                        itl.raise(UnitAttention::INQUIRY_DATA_HAS_CHANGED);
                        itl.raise(UnitAttention::CAPACITY_DATA_HAS_CHANGED);
                    }
                    let group = self.port_group_tally.clone();
                    MappedUnit::new(wanted.lun, itl, unit.clone(), group)
                }
            };
            view.insert(mapped);
        }
        // A stand-in has the designator of its unit.
        let inventory = |mapped: &Arc<MappedUnit>| (mapped.lun, mapped.unit.logical.config().naa);
        let is_same = kept == old.len() && view.iter().count() == kept
            || old.iter().map(inventory).eq(view.iter().map(inventory));
        let changed = !is_same;
        let left: Vec<_> = old
            .into_iter()
            .filter(|mapped| !view.iter().any(|now| Arc::ptr_eq(now, mapped)))
            .collect();
        for mapped in &left {
            // This also holds if a copy of another LUN's still holds it.
            mapped.itl.end();
            // A unit that is still seen under another LUN was attached anew there.
            if !view.iter().any(|now| Arc::ptr_eq(&now.unit, &mapped.unit)) {
                mapped.unit.logical.detach(nexus.id);
            }
        }
        self.registered.set_nexuses(&view);
        self.view = view;
        (left, changed)
    }

    /// Tells the initiator that its inventory changed (SPC-4 6.33): the LUN that it knows may be
    /// another unit now.
    pub(crate) fn raise_luns_changed(&self) {
        for mapped in self.view.iter() {
            mapped
                .itl
                .raise(UnitAttention::REPORTED_LUNS_DATA_HAS_CHANGED);
        }
    }

    /// Tells the initiator that all connections of the session will be dropped (RFC 7143 §11.9.1,
    /// event 3), and that it may come back after [`COME_BACK_S`].
    pub(crate) fn announce_end(&mut self) {
        for index in self.connection_indices() {
            self.announce(index, AsyncEvent::DropAllConnections, COME_BACK_S, 0);
        }
    }

    /// Asks the initiator to log out within a number of seconds, on each connection since each is
    /// to be closed (RFC 7143 §11.9.1, event 1). Its earlier commands are served meanwhile.
    pub(crate) fn ask_to_log_out(&mut self, within_s: u16) {
        for index in self.connection_indices() {
            self.announce(index, AsyncEvent::RequestLogout, 0, within_s);
        }
        self.logout_due = Some(clock::now() + Duration::from_secs(within_s.into()));
    }

    fn connection_indices(&self) -> Vec<usize> {
        self.connections.keys().copied().collect()
    }

    fn announce(
        &mut self,
        index: usize,
        async_event: AsyncEvent,
        parameter2: u16,
        parameter3: u16,
    ) {
        let pdu = AsyncMessage {
            data_segment_length: 0,
            lun: 0,
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
            async_event,
            async_vcode: 0,
            parameter1: 0,
            parameter2,
            parameter3,
        };
        self.protocol.async_message(index, pdu, Vec::new());
    }

    /// Adds a connection that has logged in.
    pub(crate) fn add_connection(
        &mut self,
        login: &LoginResult,
        slot: usize,
        now: Duration,
    ) -> usize {
        let settings = ConnectionSettings {
            cid: login.identity.cid,
            header_digest: login.connection.header_digest,
            data_digest: login.connection.data_digest,
            max_recv_data_segment_length: login.connection.our_max_recv_data_segment_length,
            initiator_max_recv_data_segment_length: login
                .connection
                .peer_max_recv_data_segment_length,
            stat_sn: login.stat_sn,
        };
        let index = self.protocol.add_connection(&settings, now);
        self.connections.insert(index, slot);
        if let Some(due) = self.logout_due {
            // The new connection has not had the request yet.
            let left = due.saturating_duration_since(clock::now()).as_secs();
            let left_s = u16::try_from(left).unwrap_or(u16::MAX);
            self.announce(index, AsyncEvent::RequestLogout, 0, left_s);
        }
        index
    }

    /// Returns the bytes that wait to be sent on its connections.
    #[inline]
    pub(crate) fn unsent(&self) -> u64 {
        let queued = self.connections.keys();
        let queued = queued.map(|index| self.protocol.queued_bytes(*index) as u64);
        queued.sum()
    }

    /// Notes all that moved since the last call. Returns the time for which nothing has moved
    /// although the initiator owes data, or does not fetch its own.
    pub(crate) fn stalled_for(&mut self, now: Duration) -> Duration {
        let counters = self.protocol.counters();
        let queued = self.unsent();
        let progress = Progress {
            commands: counters.commands,
            data_out_bytes: counters.data_out_bytes,
            queued,
        };
        if progress != self.progress.0 {
            self.progress = (progress, now);
        }
        let quiet = now.saturating_sub(self.progress.1);
        if quiet.is_zero() || (queued == 0 && self.protocol.collecting() == 0) {
            return Duration::ZERO;
        }
        quiet
    }

    /// Leaves every unit.
    pub(crate) fn detach(&mut self) {
        let Some(nexus) = &self.nexus else { return };
        for mapped in self.view.iter() {
            mapped.unit.logical.detach(nexus.id);
        }
        self.view = View::default();
    }
}

/// Amounts that moved in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    commands: u64,
    data_out_bytes: u64,
    queued: u64,
}

/// Targets that one session may discover.
#[derive(Debug)]
pub(crate) struct Visible<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Initiator that asks.
    pub initiator: &'a str,
    /// The portal it came to.
    pub local: SocketAddr,
}

impl TargetDirectory for Visible<'_> {
    fn visible_targets(&self) -> Vec<DiscoveredTarget> {
        let listings = directory::send_targets(self.config, self.initiator, self.local);
        listings
            .into_iter()
            .map(|listing| DiscoveredTarget {
                name: listing.iqn,
                portals: listing
                    .addresses
                    .into_iter()
                    .map(|(address, portal_group_tag)| DiscoveredPortal {
                        address: address.to_string(),
                        portal_group_tag,
                    })
                    .collect(),
            })
            .collect()
    }
}
