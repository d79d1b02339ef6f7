//! Order and number of a session's commands (RFC 7143 §4.2.2.1).
//!
//! ExpCmdSN names the next command, and MaxCmdSN limits how far the initiator may run ahead.
//! MaxCmdSN never goes back: a smaller depth takes effect as commands end.

use crate::serial_number::{before, in_window};

/// Fate of a non-immediate request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The request is the next one.
    Next,
    /// An earlier request is still under way on another connection.
    Early,
    /// Outside the window, or a duplicate, to be ignored silently.
    Outside,
}

/// Command window of a session.
#[derive(Debug)]
pub(super) struct CommandWindow {
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
    /// MaxCmdSN that was last sent to the initiator.
    told_max_cmd_sn: u32,
}

impl CommandWindow {
    /// Makes a window that expects `exp_cmd_sn` next and takes `depth` commands.
    pub(super) fn new(exp_cmd_sn: u32, depth: u32) -> Self {
        let max_cmd_sn = exp_cmd_sn.wrapping_add(depth).wrapping_sub(1);
        Self {
            exp_cmd_sn,
            max_cmd_sn,
            told_max_cmd_sn: max_cmd_sn,
        }
    }

    #[inline]
    pub(super) fn arrive(&mut self, cmd_sn: u32) -> Arrival {
        let arrival = self.place_of(cmd_sn);
        if arrival == Arrival::Next {
            self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
        }
        arrival
    }

    /// Returns the answer that [`Self::arrive`] would give, for a request that may still turn out
    /// to be broken.
    #[inline]
    pub(super) fn place_of(&self, cmd_sn: u32) -> Arrival {
        if cmd_sn == self.exp_cmd_sn && before(self.exp_cmd_sn, self.max_cmd_sn.wrapping_add(1)) {
            Arrival::Next
        } else if in_window(cmd_sn, self.exp_cmd_sn, self.max_cmd_sn) {
            Arrival::Early
        } else {
            Arrival::Outside
        }
    }

    /// Lets the initiator have `depth` commands in flight, of which it has `in_flight`.
    #[inline]
    pub(super) fn allow(&mut self, depth: u32, in_flight: u32) {
        let free = depth.saturating_sub(in_flight);
        let max = self.exp_cmd_sn.wrapping_add(free).wrapping_sub(1);
        if before(self.max_cmd_sn, max) {
            self.max_cmd_sn = max;
        }
    }

    /// Returns ExpCmdSN, for a PDU that leaves now.
    #[inline]
    pub(super) fn exp_cmd_sn(&self) -> u32 {
        self.exp_cmd_sn
    }

    /// Returns MaxCmdSN, for a login response.
    #[inline]
    pub(super) fn max_cmd_sn(&self) -> u32 {
        self.max_cmd_sn
    }

    /// Returns MaxCmdSN, for a PDU that leaves now.
    #[inline]
    pub(super) fn tell_max_cmd_sn(&mut self) -> u32 {
        self.told_max_cmd_sn = self.max_cmd_sn;
        self.max_cmd_sn
    }

    /// Reports whether the initiator believes that the window is closed although it is open. A
    /// NOP-In must report the window, since no response is due.
    pub(super) fn opened_silently(&self) -> bool {
        before(self.told_max_cmd_sn, self.exp_cmd_sn)
            && before(self.told_max_cmd_sn, self.max_cmd_sn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_never_goes_back() {
        let mut window = CommandWindow::new(u32::MAX - 1, 4);
        assert_eq!(window.tell_max_cmd_sn(), 1);
        assert_eq!(window.arrive(u32::MAX - 1), Arrival::Next);
        window.allow(1, 1);
        assert_eq!(window.tell_max_cmd_sn(), 1);
        assert_eq!(window.arrive(1), Arrival::Early);
        assert_eq!(window.arrive(2), Arrival::Outside);
        assert_eq!(window.arrive(u32::MAX - 1), Arrival::Outside);
    }

    #[test]
    fn a_closed_window_takes_nothing_and_is_reopened_aloud() {
        let mut window = CommandWindow::new(7, 1);
        assert_eq!(window.arrive(7), Arrival::Next);
        window.tell_max_cmd_sn();
        assert_eq!(window.arrive(8), Arrival::Outside);
        assert!(!window.opened_silently());
        window.allow(1, 0);
        assert!(window.opened_silently());
        window.tell_max_cmd_sn();
        assert!(!window.opened_silently());
        assert_eq!(window.arrive(8), Arrival::Next);
    }
}
