//! Sessions in words, for the control plane.

use iscsi::negotiation::SessionParameters;
use iscsi::target::login::SessionKind;

use super::event_loop::EventLoop;
use crate::session::served_session::ServedSession;
use model::data_plane::{ConnectionInfo, SessionInfo};

impl EventLoop {
    /// Returns the sessions of this loop.
    pub(super) fn describe(&self) -> Vec<SessionInfo> {
        self.sessions
            .values()
            .map(|session| self.describe_session(session))
            .collect()
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
