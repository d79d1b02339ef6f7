//! Answers that a session with several connections owes but may not give yet, because they promise
//! something about the other connections.
//!
//! - The answer to a function for many tasks waits until the initiator has every status that was
//!   sent on the other connections before (RFC 7143 §4.2.3.3). If a status arrived behind the
//!   answer, the initiator would take it for that of another command, which has the tag by then.
//!   R2Ts of aborted tasks count like a status.
//! - The answer to the logout of one connection waits until no task that died with a connection is
//!   running any more. The initiator then repeats the task elsewhere, and an old write must not
//!   follow the new one (§11.14, §11.15). After the logout of a session, the initiator can repeat
//!   tasks only in another session, which waits for the tasks of this one.

use super::session::Session;
use super::transmit::DataSegment;
use crate::payload::{DataOutBuffer, Payload};
use crate::pdu::{
    BHS_LENGTH, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, TaskManagementResponse,
    TaskManagementResult,
};
use crate::serial_number::before;

/// Most answers of each kind that may wait. No initiator has reason to ask for more.
const MAX_WAITING: usize = 8;

/// Status that the initiator is to confirm on a connection.
#[derive(Debug)]
struct Unheard {
    connection: usize,
    stat_sn: u32,
    /// Target Transfer Tag of the NOP-In that asks for the confirmation.
    ttt: u32,
    /// Whether only the answer to that NOP-In confirms, because no StatSN covers an R2T.
    r2ts: bool,
}

/// Answer to a function.
#[derive(Debug)]
struct FunctionAnswer {
    connection: usize,
    itt: u32,
    response: TaskManagementResult,
    unheard: Vec<Unheard>,
}

/// Answer to a logout.
#[derive(Debug)]
struct LogoutAnswer {
    connection: usize,
    request: LogoutRequest,
    result: LogoutResult,
}

/// All answers that wait.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Functions for many tasks that the runtime was asked to do: connection and tag.
    for_many: Vec<(usize, u32)>,
    functions: Vec<FunctionAnswer>,
    logouts: Vec<LogoutAnswer>,
}

impl Answers {
    /// Reports whether a logout is still to be answered on this connection.
    pub(super) fn owes_logout(&self, index: usize) -> bool {
        self.logouts.iter().any(|it| it.connection == index)
    }
}

impl<P: Payload + From<Vec<u8>>, B: DataOutBuffer> Session<P, B> {
    /// Notes that the runtime is asked for a function for many tasks.
    pub(super) fn note_function_for_many(&mut self, index: usize, itt: u32) {
        if self.live_connections() > 1 {
            self.answers.for_many.push((index, itt));
        }
    }

    /// Returns the number of connections that have not been logged out.
    pub(super) fn live_connections(&self) -> usize {
        let connections = self.connections.iter().flatten();
        connections.filter(|it| !it.logged_out).count()
    }

    /// Answers a task management request with this Initiator Task Tag. It does so at once, or when
    /// the initiator has all that must come before the answer.
    pub fn task_management_response(
        &mut self,
        index: usize,
        itt: u32,
        response: TaskManagementResult,
    ) {
        let for_many = &mut self.answers.for_many;
        let noted = for_many.iter().position(|it| *it == (index, itt));
        let noted = noted.map(|at| for_many.swap_remove(at)).is_some();
        let aborted = noted && response == TaskManagementResult::Complete;
        if aborted && self.answers.functions.len() < MAX_WAITING {
            let unheard = self.ask_what_was_heard(index);
            if !unheard.is_empty() {
                self.answers.functions.push(FunctionAnswer {
                    connection: index,
                    itt,
                    response,
                    unheard,
                });
                return;
            }
        }
        self.answer_function(index, itt, response);
    }

    fn answer_function(&mut self, index: usize, itt: u32, response: TaskManagementResult) {
        let (exp_cmd_sn, max_cmd_sn) = (self.window.exp_cmd_sn(), self.window.tell_max_cmd_sn());
        let connection = self.connections.get_mut(index).and_then(Option::as_mut);
        let Some(connection) = connection.filter(|it| !it.logged_out) else {
            return;
        };
        let pdu = TaskManagementResponse {
            response,
            additional_response_information: [0; 3],
            itt,
            stat_sn: connection.take_stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
        };
        let mut raw = [0; BHS_LENGTH];
        pdu.encode(&mut raw);
        connection.transmit.push(&raw, DataSegment::Empty);
    }

    /// Asks by NOP-In on every connection but `asking` that has an unconfirmed status or R2T.
    fn ask_what_was_heard(&mut self, asking: usize) -> Vec<Unheard> {
        let mut unheard = Vec::new();
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_mut() else {
                continue;
            };
            let r2ts = connection.aborted_r2ts;
            let stat_sn = connection.stat_sn;
            if index == asking
                || connection.logged_out
                || !(r2ts || before(connection.exp_stat_sn, stat_sn))
            {
                continue;
            }
            let ttt = connection.take_ttt();
            unheard.push(Unheard {
                connection: index,
                stat_sn,
                ttt,
                r2ts,
            });
            self.nop_in(index, ttt);
        }
        unheard
    }

    /// Notes a request on a connection. Its ExpStatSN may be the one for which an answer waits.
    #[inline]
    pub(super) fn heard(&mut self, index: usize) {
        if !self.answers.functions.is_empty() {
            let exp_stat_sn = self.connections[index]
                .as_ref()
                .map_or(0, |connection| connection.exp_stat_sn);
            self.confirm(|it| {
                it.connection == index && !it.r2ts && !before(exp_stat_sn, it.stat_sn)
            });
        }
    }

    /// Notes that a NOP-In of this target was answered.
    pub(super) fn echoed(&mut self, index: usize, ttt: u32) {
        let functions = self.answers.functions.iter();
        let mut asked = functions.flat_map(|it| &it.unheard);
        if asked.any(|it| it.connection == index && it.ttt == ttt) {
            if let Some(connection) = self.connections[index].as_mut() {
                connection.aborted_r2ts = false;
            }
            self.confirm(|it| it.connection == index && it.ttt == ttt);
        }
    }

    #[cold]
    fn confirm(&mut self, is_confirmed: impl Fn(&Unheard) -> bool) {
        for mut answer in std::mem::take(&mut self.answers.functions) {
            answer.unheard.retain(|it| !is_confirmed(it));
            if answer.unheard.is_empty() {
                self.answer_function(answer.connection, answer.itt, answer.response);
            } else {
                self.answers.functions.push(answer);
            }
        }
    }

    /// Drops the answers owed on a connection on which nothing more is sent or received. Answers
    /// that waited for its confirmation wait no more.
    pub(super) fn forget_answers(&mut self, index: usize) {
        let answers = &mut self.answers;
        answers.for_many.retain(|it| it.0 != index);
        answers.functions.retain(|it| it.connection != index);
        self.confirm(|it| it.connection == index);
    }

    /// Answers a logout at once, or when every task that died with a connection is over.
    pub(super) fn answer_logout(
        &mut self,
        index: usize,
        request: LogoutRequest,
        result: LogoutResult,
    ) {
        let answer = LogoutAnswer {
            connection: index,
            request,
            result,
        };
        let closes_one = request.reason == LogoutReason::CloseConnection;
        if closes_one && self.tasks.any_lost() && self.answers.logouts.len() < MAX_WAITING {
            self.answers.logouts.push(answer);
        } else {
            self.send_logout_response(&answer);
        }
    }

    /// Answers logouts that may have waited for a task that has ended.
    #[inline]
    pub(super) fn answer_logouts(&mut self) {
        if !self.answers.logouts.is_empty() && !self.tasks.any_lost() {
            let due = std::mem::take(&mut self.answers.logouts);
            due.iter()
                .for_each(|answer| self.send_logout_response(answer));
        }
    }

    /// Drops the logouts that wait for an answer on a connection that is gone.
    pub(super) fn forget_logouts(&mut self, index: usize) {
        self.answers.logouts.retain(|it| it.connection != index);
    }

    fn send_logout_response(&mut self, answer: &LogoutAnswer) {
        let (exp_cmd_sn, max_cmd_sn) = (self.window.exp_cmd_sn(), self.window.tell_max_cmd_sn());
        let Some(connection) = self.connections[answer.connection].as_mut() else {
            return;
        };
        let pdu = LogoutResponse {
            response: answer.result,
            itt: answer.request.itt,
            stat_sn: connection.take_stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
            time2wait_s: 2,
            time2retain_s: 0,
        };
        let mut raw = [0; BHS_LENGTH];
        pdu.encode(&mut raw);
        connection.transmit.push(&raw, DataSegment::Empty);
    }
}
