//! Sessions in words, for the control plane.

use std::sync::mpsc::Sender;

use iscsi::negotiation::SessionParameters;
use iscsi::target::login::SessionKind;

use super::event_loop::EventLoop;
use crate::session::served_session::ServedSession;
use model::data_plane::{ConnectionInfo, SessionInfo};
use unit::command::operation::SessionKey;

/// Least number of sessions that are described in one turn of an event loop. Thousands at once
/// would keep I/O waiting for as long.
const IN_ONE_TURN: usize = 8;
/// Most turns for one list. The caller waits for all of them.
const MOST_TURNS: usize = 64;

/// List of sessions that is being made.
#[derive(Debug)]
pub(super) struct Describing {
    reply: Sender<Vec<SessionInfo>>,
    /// Sessions that are described in one turn.
    share: usize,
    left: Vec<SessionKey>,
    told: Vec<SessionInfo>,
}

impl EventLoop {
    /// Begins to describe the sessions of this loop.
    pub(super) fn describe(&mut self, reply: Sender<Vec<SessionInfo>>) {
        let left: Vec<SessionKey> = self.sessions.keys().copied().collect();
        self.describing.push_back(Describing {
            reply,
            share: left.len().div_ceil(MOST_TURNS).max(IN_ONE_TURN),
            told: Vec::with_capacity(left.len()),
            left,
        });
    }

    /// Describes some sessions, and sends the list when it is complete. Counts their TCP segments
    /// first, so that the sums of portals are as new as the sessions.
    pub(super) fn describe_some(&mut self) {
        let Some(mut list) = self.describing.pop_front() else {
            return;
        };
        let some = list.left.len().saturating_sub(list.share);
        for key in list.left.split_off(some) {
            // A session that has ended meanwhile is not listed.
            let Some(session) = self.sessions.get(&key) else {
                continue;
            };
            for slot in session.connections.values() {
                if let Some(connection) = self.connections.get_mut(*slot) {
                    let (local, stream) = (connection.local, &connection.stream);
                    let counts = &self.core.shared.portal_counts;
                    counts.add(local, stream, &mut connection.counted);
                }
            }
            list.told.push(self.describe_session(session));
        }
        match list.left.is_empty() {
            // The requester may have stopped waiting.
            true => drop(list.reply.send(list.told)),
            false => self.describing.push_front(list),
        }
    }

    fn describe_session(&self, session: &ServedSession) -> SessionInfo {
        let login = &session.login;
        let counters = session.protocol.counters();
        let mut connections: Vec<ConnectionInfo> = session
            .protocol
            .connections()
            .filter_map(|(index, cid)| {
                let connection = self.connections.get(*session.connections.get(&index)?)?;
                Some(ConnectionInfo {
                    cid,
                    local: connection.local,
                    peer: connection.peer,
                    header_digest: login.connection.header_digest,
                    data_digest: login.connection.data_digest,
                })
            })
            .collect();
        connections.sort_by_key(|connection| connection.cid);
        SessionInfo {
            tsih: session.registered.tsih,
            event_loop: self.core.index as u16,
            initiator: session.name.initiator.to_string(),
            alias: login.identity.initiator_alias.clone(),
            isid: login.identity.isid.to_string(),
            target: (login.identity.session_kind == SessionKind::Normal)
                .then(|| self.core.shared.target_name(&session.name.target)),
            portal_group: login.portal_group_tag,
            connections,
            chap_user: login.authenticated_as.clone(),
            parameters: parameters(&login.session),
            luns: session.view.iter().map(|mapped| mapped.lun).collect(),
            commands: counters.commands,
            read_bytes: counters.data_in_bytes,
            written_bytes: counters.data_out_bytes,
            in_flight: session.protocol.in_flight() as u32,
            digest_errors: counters.digest_errors,
            age_s: session.since.elapsed().as_secs(),
        }
    }
}

fn parameters(session: &SessionParameters) -> Vec<(String, String)> {
    let yes = |value: bool| if value { "Yes" } else { "No" }.to_owned();
    [
        ("MaxConnections", session.max_connections.to_string()),
        ("InitialR2T", yes(session.initial_r2t)),
        ("ImmediateData", yes(session.immediate_data)),
        ("MaxBurstLength", session.max_burst_length.to_string()),
        ("FirstBurstLength", session.first_burst_length.to_string()),
        ("DefaultTime2Wait", session.default_time2wait_s.to_string()),
        (
            "DefaultTime2Retain",
            session.default_time2retain_s.to_string(),
        ),
        ("MaxOutstandingR2T", session.max_outstanding_r2t.to_string()),
        ("DataPDUInOrder", yes(session.data_pdu_in_order)),
        ("DataSequenceInOrder", yes(session.data_sequence_in_order)),
        (
            "ErrorRecoveryLevel",
            session.error_recovery_level.to_string(),
        ),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}
