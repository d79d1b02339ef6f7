//! Errands: commands that the adapter sends for itself, to know a unit and its paths.

use iscsi::initiator::Direction;
use scsi::application_client::cdb::{self, Cdb};
use scsi::application_client::sense::Reaction;

use super::super::commands;
use super::super::link;
use super::traffic::{Exchange, how_it_ended};
use super::{ERRAND, Fabric};
use multipath::{Ended, Link, PathId};

const TASK_ABORTED: u8 = 0x40;
/// Most repeats of a question that did not reach its answer for a passing reason.
const MOST_REPEATS: u8 = 8;
/// Allocation length of REPORT TARGET PORT GROUPS.
const GROUPS_LEN: u32 = 4096;
/// Length of READ CAPACITY (16) data.
const CAPACITY_LEN: u32 = 32;

/// Command of the adapter itself.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) nexus: usize,
    pub(super) lun: u64,
    pub(super) purpose: Purpose,
    cdb: Cdb,
    direction: Direction,
    length: u32,
    pub(super) sent_us: u64,
    /// Number of times that the command was repeated.
    repeats: u8,
    pub(super) data_out: Vec<u8>,
    pub(super) data_in: Vec<u8>,
}

/// Purpose of an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Scan of the session's units.
    Scan,
    /// REPORT TARGET PORT GROUPS for a device.
    Groups { device: usize },
    /// TEST UNIT READY on a path.
    Ready { device: usize, path: PathId },
    /// SET TARGET PORT GROUPS, after which the states are read.
    Activate { device: usize, path: PathId },
    /// READ CAPACITY (16) after a change of the capacity.
    Capacity { device: usize },
    /// PERSISTENT RESERVE IN and OUT on a path.
    Reserve {
        device: usize,
        path: PathId,
        /// Number of the errand. An answer to an earlier errand does not count any more.
        number: u64,
    },
}

impl Fabric {
    /// Sends a command that returns up to `data_in` bytes, or none.
    pub(super) fn ask(&mut self, at: usize, lun: u64, purpose: Purpose, cdb: Cdb, data_in: u32) {
        let direction = match data_in {
            0 => Direction::None,
            _ => Direction::Read,
        };
        self.send_errand(Errand {
            nexus: at,
            lun,
            purpose,
            cdb,
            direction,
            length: data_in,
            sent_us: self.now_us(),
            repeats: 0,
            data_out: Vec::new(),
            data_in: Vec::new(),
        });
    }

    /// Sends a command with a parameter list.
    pub(super) fn tell(&mut self, at: usize, lun: u64, purpose: Purpose, cdb: Cdb, list: Vec<u8>) {
        self.send_errand(Errand {
            nexus: at,
            lun,
            purpose,
            cdb,
            direction: Direction::Write,
            length: list.len() as u32,
            sent_us: self.now_us(),
            repeats: 0,
            data_out: list,
            data_in: Vec::new(),
        });
    }

    /// Asks for the states of a device's target port groups.
    pub(super) fn ask_for_groups(&mut self, device: usize, at: usize, lun: u64) {
        let cdb = cdb::report_target_port_groups(GROUPS_LEN);
        self.ask(at, lun, Purpose::Groups { device }, cdb, GROUPS_LEN);
    }

    /// Asks for the capacity of a device.
    pub(super) fn ask_for_capacity(&mut self, device: usize, at: usize, lun: u64) {
        let cdb = cdb::read_capacity_16();
        self.ask(at, lun, Purpose::Capacity { device }, cdb, CAPACITY_LEN);
    }

    /// Sends an errand, unless its session is down or one with this purpose is under way.
    fn send_errand(&mut self, errand: Errand) {
        let (at, purpose) = (errand.nexus, errand.purpose);
        if !self.nexuses[at].is_up() {
            return;
        }
        let is_asked = |errand: &Errand| errand.nexus == at && errand.purpose == purpose;
        if self.errands.iter().any(|(_, errand)| is_asked(errand)) {
            return;
        }
        let mut command = commands::command(errand.cdb, errand.direction, errand.length);
        command.lun = errand.lun;
        let key = self.errands.insert(errand);
        let mut exchange = Exchange {
            devices: &mut self.devices,
            errands: &mut self.errands,
            endings: &mut self.endings,
            news: Vec::new(),
            start: self.start,
        };
        if let Some((session, out)) = self.nexuses[at].link().and_then(link::Link::session) {
            session.command(ERRAND | key as u64, &command, &mut exchange, out);
        }
        self.mark_dirty(at);
    }

    /// Takes the end of an errand. Without a status, the device server never saw the command, or
    /// the command was aborted.
    pub(super) fn errand_ended(
        &mut self,
        errand: Errand,
        status: Option<u8>,
        sense: &[u8],
        now: u64,
    ) {
        let at = errand.nexus;
        let status = status.unwrap_or(TASK_ABORTED);
        let how = how_it_ended(Some(status), sense);
        if let Ended::Sense(reaction) = how {
            self.heed_attention(&errand, reaction, now);
        }
        match errand.purpose {
            Purpose::Reserve {
                device,
                path,
                number,
            } => {
                let answer = (status, sense, &errand.data_in[..]);
                self.reserving_answered(device, path, number, answer, now);
            }
            Purpose::Scan => self.scan_answered(at, status, sense, &errand.data_in, now),
            Purpose::Groups { device } if status == 0 => {
                self.groups_answered(device, &errand.data_in, now)
            }
            Purpose::Ready { device, path } => {
                let policy = &mut self.devices[device].policy;
                match how {
                    // A unit is there, but perhaps another one.
                    Ended::Good | Ended::Sense(Reaction::Succeeded | Reaction::UnitAttention)
                        if policy.link(path) == Some(Link::UnitGone) =>
                    {
                        self.scan_again(at);
                    }
                    Ended::Sense(Reaction::AccessState(state)) => {
                        policy.alua_state(path, state, now, &mut self.actions);
                    }
                    _ => {}
                }
                self.carry_out(device, now);
            }
            Purpose::Activate { device, path } => {
                let lun = self.devices[device].paths[path.0 as usize].lun;
                self.ask_for_groups(device, at, lun);
            }
            Purpose::Capacity { device } if status == 0 => {
                self.capacity_answered(device, &errand.data_in)
            }
            Purpose::Groups { .. } | Purpose::Capacity { .. } => self.repeat_errand(errand, how),
        }
    }

    /// Heeds a unit attention that came with an errand. The target says it once, and perhaps to
    /// this command alone.
    fn heed_attention(&mut self, errand: &Errand, reaction: Reaction, now: u64) {
        let (at, lun) = (errand.nexus, errand.lun);
        let mut paths = self.nexuses[at].paths.iter();
        let device = paths.find(|path| path.lun == lun).map(|path| path.device);
        match (reaction, errand.purpose, device) {
            (Reaction::LunsChanged | Reaction::IdentityChanged, ..) => self.doubt(at),
            (Reaction::ReservationsChanged, purpose, _) => {
                self.doubt_reservations(at, purpose, now);
            }
            // The errand is repeated, and tells.
            (Reaction::CapacityChanged, Purpose::Capacity { .. }, _)
            | (Reaction::AccessStateChanged, Purpose::Groups { .. }, _) => {}
            (Reaction::CapacityChanged, _, Some(device)) => {
                self.ask_for_capacity(device, at, lun);
            }
            (Reaction::AccessStateChanged, _, Some(device)) => {
                self.ask_for_groups(device, at, lun);
            }
            _ => {}
        }
    }

    /// Sends an errand again if the reason why it was not answered has passed.
    fn repeat_errand(&mut self, errand: Errand, how: Ended) {
        let has_passed = match how {
            Ended::TaskAborted => true,
            Ended::Sense(reaction) => matches!(
                reaction,
                Reaction::UnitAttention
                    | Reaction::ReservationsChanged
                    | Reaction::CapacityChanged
                    | Reaction::AccessStateChanged
                    | Reaction::Aborted
            ),
            _ => false,
        };
        if has_passed && errand.repeats < MOST_REPEATS {
            self.send_errand(Errand {
                repeats: errand.repeats + 1,
                sent_us: self.now_us(),
                data_in: Vec::new(),
                ..errand
            });
        }
    }
}
