//! Logins and ends of sessions as events of the daemon. Initiators choose the names in them, so
//! refusals are told by the address of the peer and the status of the answer: a storm from one
//! machine is one event, and does not hide another trouble of that machine.

use std::net::SocketAddr;

use iscsi::pdu::LoginStatus;
use iscsi::target::login::LoginRefusal;
use model::event::{Occurrence, Severity, Teller, Topic};

use super::registry::SessionName;

/// Reasons for the end of a session that somebody wanted.
const WANTED: &[&str] = &[
    "logged out",
    "reinstated by a new login",
    "killed by the administrator",
    "no longer allowed by the configuration",
    "its portal belongs to another portal group now",
];

/// Tells that a login was refused. A redirection is no refusal.
pub(crate) fn refused(events: &Teller, peer: SocketAddr, refusal: &LoginRefusal) {
    let is_redirection = matches!(
        refusal.status,
        LoginStatus::TARGET_MOVED_TEMPORARILY | LoginStatus::TARGET_MOVED_PERMANENTLY
    );
    if is_redirection {
        return;
    }
    let address = peer.ip().to_string();
    let (object, next) = match &refusal.initiator_name {
        Some(name) if is_typed_safely(name) => (
            name.clone(),
            format!("sandstone map explain {name} shows what this initiator may see, and why"),
        ),
        Some(name) => (
            name.clone(),
            format!("its name is not valid: give the initiator at {address} another one"),
        ),
        None => (
            address.clone(),
            format!("find out which program at {address} connects to the iSCSI port"),
        ),
    };
    let text = format!("{refusal}, from {address}");
    // The initiator chooses its names, but not the status: the number of sources stays bounded.
    let source = format!("{address} {}", refusal.status);
    let occurrence = Occurrence::new(Severity::Warning, Topic::Login, object, text);
    events.tell(occurrence.next(next).from_source(source));
}

/// Reports whether a name may stand in a command that people copy into a shell.
fn is_typed_safely(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_".contains(&byte);
    !name.starts_with('-') && name.bytes().all(is_plain)
}

/// Tells that a peer sent a login that cannot be read.
pub(crate) fn malformed(events: &Teller, peer: SocketAddr, why: &str) {
    let address = peer.ip().to_string();
    let text = format!("login refused: {why}, from {address}");
    let next = format!("find out which program at {address} connects to the iSCSI port");
    let occurrence = Occurrence::new(Severity::Warning, Topic::Login, &address, text);
    events.tell(occurrence.next(next).from_source(address));
}

/// Tells that a connection logged in. Discovery sessions come and go all the time.
pub(crate) fn logged_in(events: &Teller, name: &SessionName, tsih: u16, peer: SocketAddr) {
    if name.is_discovery() {
        return;
    }
    let (initiator, target) = (&name.initiator, &name.target);
    let text = format!("logged in to {target} from {peer} (session {tsih})");
    // An initiator may log in again and again, as fast as it can.
    let source = format!("{initiator} {target} {}", peer.ip());
    let occurrence = Occurrence::new(Severity::Info, Topic::Login, &**initiator, text);
    events.tell(occurrence.from_source(source));
}

/// Tells that a session has lost its last connection.
pub(crate) fn ended(events: &Teller, name: &SessionName, peer: SocketAddr, reason: &str) {
    if name.is_discovery() {
        return;
    }
    let (initiator, target) = (&name.initiator, &name.target);
    let severity = match WANTED.contains(&reason) {
        true => Severity::Info,
        false => Severity::Warning,
    };
    let text = format!("session at {target} from {peer} ended: {reason}");
    let source = format!("{initiator} {target} {}", peer.ip());
    let occurrence = Occurrence::new(severity, Topic::Session, &**initiator, text);
    events.tell(occurrence.from_source(source));
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn heard(tell: impl FnOnce(&Teller)) -> Vec<Occurrence> {
        let all = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&all);
        tell(&Teller::new(move |it| {
            heard.lock().expect("no panic").push(it)
        }));
        let all = all.lock().expect("no panic");
        all.clone()
    }

    #[test]
    fn a_redirection_is_no_refusal() {
        let peer = "192.0.2.7:3333".parse().expect("an address");
        let refusal = |status| LoginRefusal {
            status,
            reason: "moved".to_owned(),
            initiator_name: Some("iqn.a".to_owned()),
            target_name: None,
        };
        let of = |status| heard(|events| refused(events, peer, &refusal(status)));
        assert!(of(LoginStatus::TARGET_MOVED_TEMPORARILY).is_empty());
        let told = of(LoginStatus::NOT_FOUND);
        assert_eq!(told[0].object, "iqn.a");
        assert!(told[0].text.ends_with("from 192.0.2.7"), "{told:?}");
        let source = told[0].source.as_deref().expect("a source");
        assert!(source.starts_with("192.0.2.7 "), "{source}");
        let other = of(LoginStatus::AUTHENTICATION_FAILURE);
        assert_ne!(other[0].source, told[0].source, "another trouble is told");
    }

    #[test]
    fn a_name_that_a_shell_would_run_stands_in_no_command() {
        let peer = "192.0.2.7:3333".parse().expect("an address");
        for name in ["iqn.a;reboot", "iqn.$(reboot)", "--state=/tmp", "iqn.a b"] {
            let refusal = LoginRefusal {
                status: LoginStatus::NOT_FOUND,
                reason: "none".to_owned(),
                initiator_name: Some(name.to_owned()),
                target_name: None,
            };
            let told = heard(|events| refused(events, peer, &refusal));
            let next = told[0].next.as_deref().expect("advice");
            assert!(!next.contains(name), "{next}");
        }
    }
}
