//! The target without threads: a simulator turns the event loops one by one, in its own order and
//! time, and gives them their connections.
//!
//! Everything else is what users run. What [`crate::Service`] does on threads of its own (accepting
//! connections, watching space, second tries) is not here. A change of the configuration takes the
//! steps of `service/change.rs` that make units and target port groups leave service, one at a
//! time.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use mio::{Poll, Waker};
use scsi::alua::{GroupLayout, TargetPortGroups};

use crate::connection::listener::Arrived;
use crate::directory::Directory;
use crate::event_loop::{EventLoop, TurnBuffers, WAKER};
use crate::message::Message;
use crate::opening::{Storage, serve_from};
use crate::service::group_layout;
use crate::shared::{DaemonLimits, LoopHandle, Shared};
use block::BlockDevice;
use block::backing::Backing;
use model::backend::Capabilities;
use model::config::{Config, UnitSpec};
use model::data_plane::ApplyError;
use model::event::Teller;
use unit::retirement::{Retirement, Settling};
use unit::transition::{self, Departure, EarlierWork};
use unit::unit::Unit;

/// Units by name.
pub type Units = BTreeMap<String, Arc<Unit>>;

/// Event loops that turn when they are told to, and what they serve.
#[derive(Debug)]
pub struct Stage {
    shared: Arc<Shared>,
    groups: Arc<TargetPortGroups>,
    loops: Vec<EventLoop>,
    buffers: TurnBuffers,
}

impl Stage {
    /// Returns this number of loops, which serve nothing yet. Time is that of the calling thread
    /// ([`block::clock`]).
    ///
    /// # Errors
    /// The kernel refuses a poller.
    pub fn new(loops: usize, limits: DaemonLimits, events: Teller) -> io::Result<Self> {
        let (mut parts, mut handles) = (Vec::new(), Vec::new());
        for _ in 0..loops {
            let poll = Poll::new()?;
            let (sender, inbox) = mpsc::channel();
            handles.push(LoopHandle::new(sender, Waker::new(poll.registry(), WAKER)?));
            parts.push((poll, inbox));
        }
        let shared = Shared::new(handles, limits, events)?;
        let loops = parts.into_iter().enumerate().map(|(index, (poll, inbox))| {
            EventLoop::new(index, poll, inbox, Arc::clone(&shared), false)
        });
        let loops = loops.collect::<io::Result<_>>()?;
        let groups = TargetPortGroups::new(GroupLayout::default()).map_err(io::Error::other)?;
        Ok(Self {
            shared,
            groups: Arc::new(groups),
            loops,
            buffers: TurnBuffers::default(),
        })
    }

    /// Makes a unit on a device, with the state that a folder keeps for it.
    ///
    /// # Errors
    /// The saved state is lost, or the designator is none.
    pub fn open(
        &self,
        spec: &UnitSpec,
        device: Arc<dyn BlockDevice>,
        states: &Path,
    ) -> Result<Arc<Unit>, ApplyError> {
        let storage = Storage {
            device,
            capabilities: Capabilities::default(),
            backing: Backing::default(),
            state_file: states.join(format!("{}.state", spec.naa)),
        };
        serve_from(storage, spec, &self.groups, &self.shared.serving, drop)
    }

    /// Accepts a connection between two addresses. The socket may be of any kind that is a stream,
    /// and must not block.
    pub fn accept(&self, stream: TcpStream, peer: SocketAddr, local: SocketAddr) {
        let dealt = self.shared.dealer.deal();
        let arrived = Arrived {
            stream,
            peer,
            local,
            dealt,
        };
        let loop_index = arrived.dealt.loop_index();
        self.shared.send(loop_index, Message::Accepted(arrived));
    }

    /// Gives a loop one turn. Returns whether there was anything to do.
    ///
    /// # Errors
    /// The kernel refuses to poll.
    pub fn turn(&mut self, index: usize) -> io::Result<bool> {
        self.loops[index].turn(Some(Duration::ZERO), &mut self.buffers)
    }

    /// Returns the command windows of a loop's sessions.
    pub fn command_windows(&self, index: usize) -> Vec<CommandWindow> {
        let sessions = self.loops[index].sessions.iter();
        let windows = sessions.map(|(key, session)| {
            let (exp_cmd_sn, max_cmd_sn) = session.protocol.command_window();
            CommandWindow {
                session: key.0,
                exp_cmd_sn,
                max_cmd_sn,
                in_flight: session.protocol.in_flight(),
                queue_depth: session.queue_depth as usize,
            }
        });
        windows.collect()
    }

    /// Returns the handles of all sessions but those for discovery, in ascending order.
    pub fn sessions(&self) -> Vec<u16> {
        let sessions = self.shared.registry().normal_sessions();
        let mut handles: Vec<u16> = sessions.iter().map(|(_, session)| session.tsih).collect();
        handles.sort_unstable();
        handles
    }

    /// Reports whether there is no connection, no session and no request at a device, and no memory
    /// is taken.
    pub fn is_at_rest(&self) -> bool {
        let quiet = |event_loop: &EventLoop| {
            event_loop.connections.is_empty()
                && event_loop.sessions.is_empty()
                && event_loop.ending.is_empty()
                && event_loop.delayed.is_empty()
                && event_loop.core.lane.in_flight() == 0
        };
        self.loops.iter().all(quiet)
            && self.shared.registry().len() == 0
            && self.shared.budget.used() == 0
    }

    /// Ends a session, as an administrator does: its initiator is told, and may come back.
    pub fn dismiss(&self, tsih: u16) {
        if let Some(session) = self.shared.registry().by_tsih(tsih) {
            let message = Message::Dismiss(session.key, "killed by the administrator");
            self.shared.send(session.loop_index, message);
        }
    }

    /// Begins to put a configuration in force, with all units that it names. Units that were served
    /// and are not among them leave service.
    ///
    /// # Errors
    /// A unit cannot leave service now. All is as before.
    pub fn change(&self, config: Config, units: Units) -> Result<Change, ApplyError> {
        let served: Vec<Arc<Unit>> = self.shared.directory().units.values().cloned().collect();
        let stays = |unit: &&Arc<Unit>| units.values().any(|other| Arc::ptr_eq(unit, other));
        let gone = served.iter().filter(|unit| !stays(unit)).cloned();
        let (retirement, saves) = Retirement::ask(&*self.shared, gone.collect())?;
        Ok(Change {
            config: Arc::new(config),
            units,
            served,
            phase: Phase::Saving(retirement, saves),
            is_quiet: true,
        })
    }

    /// Goes on with a change. Returns its end once that has come.
    pub fn go_on(&self, change: &mut Change) -> Option<Result<(), ApplyError>> {
        loop {
            match std::mem::replace(&mut change.phase, Phase::Over) {
                Phase::Saving(retirement, mut saves) => {
                    if !saves.is_over() {
                        change.phase = Phase::Saving(retirement, saves);
                        return None;
                    }
                    let layout = group_layout(&change.config);
                    let begun = retirement.confirm(&saves).and_then(|retirement| {
                        let departure =
                            Departure::begin(&*self.shared, &self.groups, &layout, &change.served)?;
                        Ok(Phase::Leaving(retirement, departure))
                    });
                    match begun {
                        Ok(phase) => change.phase = phase,
                        Err(error) => return Some(Err(error)),
                    }
                }
                Phase::Leaving(retirement, Some(mut departure)) => {
                    if !departure.is_over() {
                        change.phase = Phase::Leaving(retirement, Some(departure));
                        return None;
                    }
                    if let Err(error) = departure.finish() {
                        return Some(Err(error));
                    }
                    change.phase = Phase::Leaving(retirement, None);
                }
                Phase::Leaving(retirement, None) => {
                    self.publish(change);
                    match retirement.begin_to_settle(&*self.shared) {
                        Some(settling) => change.phase = Phase::Settling(settling),
                        None => return Some(Ok(())),
                    }
                }
                Phase::Settling(mut settling) => {
                    if !settling.go_on(&*self.shared) {
                        change.phase = Phase::Settling(settling);
                        return None;
                    }
                    change.is_quiet = settling.is_quiet();
                    return Some(Ok(()));
                }
                Phase::Over => return Some(Ok(())),
            }
        }
    }

    fn publish(&self, change: &Change) {
        let layout = group_layout(&change.config);
        transition::put_in_force(&self.groups, layout, change.units.values());
        self.shared.set_directory(Arc::new(Directory {
            config: Arc::clone(&change.config),
            units: change.units.clone(),
        }));
    }
}

impl Drop for Stage {
    /// Forgets requests that devices have not answered: the simulator answers none any more.
    fn drop(&mut self) {
        for event_loop in &mut self.loops {
            event_loop.core.lane.abandon();
        }
    }
}

/// Command window of a session, with the commands that the target has taken.
#[derive(Clone, Copy, Debug)]
pub struct CommandWindow {
    /// Number of the session on its loop.
    pub session: u64,
    /// ExpCmdSN.
    pub exp_cmd_sn: u32,
    /// MaxCmdSN.
    pub max_cmd_sn: u32,
    /// Commands that have begun and not ended, immediate ones too.
    pub in_flight: usize,
    /// Most commands that the session may have in flight, beside immediate ones.
    pub queue_depth: usize,
}

/// Change of the configuration that is under way.
#[derive(Debug)]
pub struct Change {
    config: Arc<Config>,
    units: Units,
    served: Vec<Arc<Unit>>,
    phase: Phase,
    is_quiet: bool,
}

impl Change {
    /// Reports whether devices had answered all requests of the units that left service when the
    /// change ended.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }
}

#[derive(Debug)]
enum Phase {
    /// The stored state of units that leave service becomes final.
    Saving(Retirement, EarlierWork),
    /// Earlier commands of target port groups that leave service end.
    Leaving(Retirement, Option<Departure>),
    /// Devices answer what is left of units that have left service.
    Settling(Settling),
    Over,
}
