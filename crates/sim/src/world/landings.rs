//! Rules that say which requests disks may get, and when writes may still land: late writes, atomic
//! commands, reservations, units and paths out of service.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::jobs::{Meant, Purpose, stamp_of};
use super::{OWN, SCRATCH, SHARED, World};
use crate::drive::{BLOCK, Kind, News, Touch};
use crate::network::ConnectionId;

/// One sending of a command.
#[derive(Debug)]
struct Stamp {
    port: usize,
    host: usize,
    lun: u16,
    connection: ConnectionId,
    issued: Duration,
    /// Content that an atomic command found.
    expected: Option<Vec<u8>>,
    /// Reason why it must not land any more.
    dead: Option<Dead>,
}

/// Reason why a write must not land any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dead {
    /// The abort was confirmed.
    Aborted,
    /// The session was reinstated.
    Reinstated,
    /// The host was fenced off by PREEMPT AND ABORT.
    Fenced,
    /// The target port group has left service.
    OutOfService,
}

/// A nexus that holds RESERVE(6).
#[derive(Clone, Copy, Debug)]
struct Holder {
    port: usize,
    since: Duration,
}

/// All sendings, and the rules that hold for them now.
#[derive(Debug, Default)]
pub(super) struct Landings {
    stamps: Vec<Stamp>,
    holder: Option<Holder>,
    /// Stamp of the last RELEASE(6) of each port.
    releases: BTreeMap<usize, u64>,
    /// Whether somebody has the persistent reservation.
    is_reserved: bool,
    /// Hosts that were fenced off and have not asked for a registration since.
    fenced: BTreeSet<usize>,
    /// Registrations under way, and the time of the last news of one, by host.
    registrations: BTreeMap<usize, (u64, Duration)>,
    /// Whether the scratch unit has left service and its disk is quiet.
    pub is_scratch_gone: bool,
    /// Place in its connection's order of the last read that began, for the order of commands.
    last_read: HashMap<ConnectionId, usize>,
}

impl Landings {
    /// Makes a stamp for a command that is about to be sent.
    pub(super) fn stamp(
        &mut self,
        port: usize,
        connection: ConnectionId,
        meant: &Meant,
        expected: Option<Vec<u8>>,
    ) -> u64 {
        match meant.purpose {
            Purpose::Register => {
                self.fenced.remove(&meant.host);
                let (under_way, last) = self.registrations.entry(meant.host).or_default();
                *under_way += 1;
                *last = meant.issued;
            }
            Purpose::Release6 => {
                self.disturb(port);
                self.releases.insert(port, self.stamps.len() as u64 + 1);
            }
            _ => {}
        }
        self.stamps.push(Stamp {
            port,
            host: meant.host,
            lun: meant.lun,
            connection,
            issued: meant.issued,
            expected,
            dead: None,
        });
        self.stamps.len() as u64
    }

    /// Notes that a port's session may end at any moment from now on.
    pub(super) fn disturb(&mut self, port: usize) {
        self.holder = self.holder.filter(|holder| holder.port != port);
    }

    /// Notes that nobody knows any more who holds RESERVE(6).
    pub(super) fn forget_holder(&mut self) {
        self.holder = None;
    }

    /// Notes that a port has logged in: writes of its earlier sessions are over.
    pub(super) fn logged_in(&mut self, port: usize, connection: ConnectionId) {
        self.disturb(port);
        let earlier = |stamp: &&mut Stamp| stamp.port == port && stamp.connection != connection;
        let earlier = self.stamps.iter_mut().filter(earlier);
        earlier.for_each(|stamp| stamp.dead = stamp.dead.or(Some(Dead::Reinstated)));
    }

    /// Notes that a sending must not land any more.
    pub(super) fn aborted(&mut self, stamp: u64) {
        self.stamps[stamp as usize - 1].dead = Some(Dead::Aborted);
    }

    /// Notes that the ports for which `is_out` holds are out of service.
    pub(super) fn left_service(&mut self, is_out: impl Fn(usize) -> bool) {
        let out = self.stamps.iter_mut().filter(|stamp| is_out(stamp.port));
        out.for_each(|stamp| stamp.dead = stamp.dead.or(Some(Dead::OutOfService)));
    }

    /// Notes that a path returns to service: commands on their way may be carried out.
    pub(super) fn returns(&mut self) {
        let out = |stamp: &&mut Stamp| stamp.dead == Some(Dead::OutOfService);
        self.stamps
            .iter_mut()
            .filter(out)
            .for_each(|stamp| stamp.dead = None);
    }

    /// Notes that a command ended, well or not.
    pub(super) fn ended(&mut self, meant: &Meant, now: Duration) {
        if meant.purpose == Purpose::Register {
            let (under_way, last) = self.registrations.entry(meant.host).or_default();
            (*under_way, *last) = (under_way.saturating_sub(1), now);
        }
    }

    /// Notes that a command ended well at a port. Returns whether a host is fenced off by it.
    pub(super) fn good(&mut self, port: usize, meant: &Meant, now: Duration) -> bool {
        match meant.purpose {
            Purpose::Reserve => self.is_reserved = true,
            Purpose::Reserve6 => {
                let released = self.releases.get(&port).copied().unwrap_or_default();
                // A release may be on its way already.
                self.holder = (released < meant.stamp).then_some(Holder { port, since: now });
            }
            Purpose::Preempt(other) if self.is_reserved => {
                let known = self.registrations.get(&other).copied().unwrap_or_default();
                if known.0 > 0 || known.1 >= meant.issued {
                    // Its registration may have come after the preemption.
                    return false;
                }
                self.fenced.insert(other);
                for stamp in &mut self.stamps {
                    let is_earlier = stamp.host == other && stamp.issued < meant.issued;
                    if is_earlier && stamp.lun == SHARED {
                        stamp.dead = stamp.dead.or(Some(Dead::Fenced));
                    }
                }
                return true;
            }
            _ => {}
        }
        false
    }

    /// Reports whether a block was written by an earlier sending of a command.
    pub(super) fn is_of(&self, block: &[u8], meant: &Meant) -> bool {
        let number = stamp_of(block);
        let stamp = self.stamps.get((number as usize).wrapping_sub(1));
        stamp.is_some_and(|stamp| (stamp.host, stamp.lun) == (meant.host, meant.lun))
    }

    fn landed(&self, lun: u16, touch: &Touch, before: &[u8]) {
        let blocks = touch.data.chunks(BLOCK).zip(before.chunks(BLOCK));
        for (new, old) in blocks {
            let (number, old_number) = (stamp_of(new), stamp_of(old));
            let stamp = &self.stamps[number as usize - 1];
            assert_eq!(stamp.lun, lun, "a write of another unit");
            assert_eq!(stamp.dead, None, "{stamp:?} landed");
            if let Some(expected) = &stamp.expected {
                assert!(
                    expected == old,
                    "{stamp:?} found {old_number}: it was not atomic"
                );
            }
            match lun {
                // Commands on its blocks follow each other.
                OWN => assert!(
                    old_number <= number,
                    "{stamp:?} landed over a newer write, {old_number}"
                ),
                SHARED => assert!(
                    !self.fenced.contains(&stamp.host),
                    "{stamp:?} of a fenced host landed"
                ),
                _ => {
                    let holder = self.holder.filter(|it| it.port != stamp.port);
                    let conflict = holder.is_some_and(|holder| stamp.issued > holder.since);
                    assert!(!conflict, "{stamp:?} landed in spite of {holder:?}");
                }
            }
        }
    }
}

impl World {
    /// Judges what a disk does.
    pub(super) fn news(&mut self, lun: u16, news: News) {
        assert!(
            lun != SCRATCH || !self.landings.is_scratch_gone,
            "the disk of a deleted unit is used: {news:?}"
        );
        match news {
            News::Began(touch) if lun == OWN && touch.kind == Kind::Read => self.read_began(&touch),
            News::Landed(touch, before) if touch.kind == Kind::Write => {
                self.landings.landed(lun, &touch, &before);
            }
            _ => {}
        }
    }

    /// Checks that the reads of a connection begin in the order in which they were sent.
    fn read_began(&mut self, touch: &Touch) {
        let lba = (touch.offset / BLOCK) as u64;
        let mut reads = self.meant.iter();
        let read = reads.find(|(_, meant)| {
            let is_read = meant.purpose == Purpose::Read && meant.lun == OWN;
            is_read && meant.blocks.start == lba
        });
        // It was aborted, or given back by a lost session, and begins all the same.
        let Some((number, meant)) = read.filter(|(_, meant)| meant.stamp > 0) else {
            return;
        };
        let stamp = &self.landings.stamps[meant.stamp as usize - 1];
        let (connection, port) = (stamp.connection, stamp.port);
        let issued = &self.ports[port].initiator.issued[&connection];
        let place = issued.iter().rposition(|other| other == number);
        let place = place.expect("it was sent there") + 1;
        let last = self.landings.last_read.entry(connection).or_default();
        assert!(place > *last, "{meant:?} began behind its successors");
        *last = place;
    }
}
