//! Remedies: the page of the object that an alert or event is about, and the buttons that mend it.

use alert::condition::condition;
use control::endpoint::{alert_way, pool};
use maud::{Markup, html};
use model::alert::AlertView;
use model::event::{Severity, Topic};

use crate::form::{button, lead};
use crate::format::{at, escape};
use crate::mark::State;
use crate::visit::Visit;

/// Returns the state that a severity stands for.
pub(crate) fn state(severity: Severity) -> State {
    match severity {
        Severity::Info => State::Quiet,
        Severity::Warning => State::Warn,
        Severity::Error | Severity::Critical => State::Bad,
    }
}

/// Returns the page of an alert's object.
pub(crate) fn page_of_alert(alert: &AlertView) -> String {
    let object = alert.object.as_str();
    let kind = condition(&alert.condition).map_or("", |condition| condition.object);
    match (alert.condition.as_str(), kind) {
        (_, "pool" | "device of a pool") => page_of_pool(object),
        (_, "logical unit") => at("/units", &[object]),
        (_, "portal") => format!("/targets?q={}", escape(object)),
        ("login-refused-repeatedly", _) => {
            format!("/maps?initiator={}#explain", escape(object))
        }
        (_, "initiator") => format!("/sessions?q={}", escape(object)),
        (_, "disk of another machine") => format!("/initiator?q={}", escape(object)),
        (_, "disk of this machine") => format!("/wizards/locate?disk={}", escape(object)),
        (_, "certificate") => "/certificate".to_owned(),
        (_, "way out") => "/alerts#ways".to_owned(),
        _ => format!("/alerts/{}", alert.number),
    }
}

/// Returns the page of an event's object, if there is one.
pub(crate) fn page_of_event(topic: Topic, object: &str) -> Option<String> {
    match topic {
        _ if object.is_empty() => None,
        Topic::Pool => Some(page_of_pool(object)),
        Topic::Unit => Some(at("/units", &[object])),
        // A login may have failed before its initiator was known.
        Topic::Login if !is_initiator(object) => None,
        Topic::Login => Some(format!("/maps?initiator={}#explain", escape(object))),
        Topic::Session => Some(format!("/sessions?q={}", escape(object))),
        Topic::Path => Some("/initiator".to_owned()),
        Topic::Config => Some("/config".to_owned()),
        Topic::Alert => Some(format!("/alerts?q={}", escape(object))),
        Topic::Daemon => None,
    }
}

fn is_initiator(object: &str) -> bool {
    ["iqn.", "eui.", "naa."]
        .iter()
        .any(|start| object.starts_with(start))
}

/// Returns the address of the wizard that replaces a disk of a pool.
fn replace(object: &str) -> String {
    let pool = object.split(' ').next().unwrap_or_default();
    format!("/wizards/replace?pool={}", escape(pool))
}

/// Returns the page of a pool. A device of it is named behind its pool.
fn page_of_pool(object: &str) -> String {
    let pool = object.split(' ').next().unwrap_or_default();
    at("/pools", &[pool])
}

/// Shows the buttons and links that mend what an alert is about.
pub(crate) fn buttons(visit: &Visit, alert: &AlertView) -> Markup {
    let object = alert.object.as_str();
    let pool = page_of_pool(object);
    let way = at("/alerts/ways", &[object]);
    html! {
        @match alert.condition.as_str() {
            "scrub-overdue" | "checksum-errors" => {
                (button(visit, pool::SCRUB.role, &format!("{pool}/scrub"), "Scrub", &[("action", "start")]))
            }
            "pool-degraded" | "device-faulted" | "device-errors-growing" | "spare-in-use" => {
                (lead(visit, pool::CHANGE_VDEVS.role, &replace(object), "Replace a disk"))
            }
            "mail-not-reached" | "webhook-not-reached" => {
                (button(visit, alert_way::TEST.role, &format!("{way}/test"), "Send a test message", &[]))
            }
            _ => {}
        }
        a.button href=(page_of_alert(alert)) { (label(alert)) }
    }
}

/// Returns the label of the link to the object.
fn label(alert: &AlertView) -> &'static str {
    let kind = condition(&alert.condition).map_or("", |condition| condition.object);
    match (alert.condition.as_str(), kind) {
        (
            "pool-80-percent"
            | "pool-90-percent"
            | "pool-full"
            | "full-within-14-days"
            | "pool-promised-too-much",
            _,
        ) => "Show the pool and its space",
        (_, "device of a pool") => "Show the disk in its pool",
        (_, "pool") => "Show the pool",
        (_, "logical unit") => "Show the unit",
        (_, "portal") => "Show the portals",
        ("login-refused-repeatedly", _) => "Show why",
        (_, "initiator") => "Show its sessions",
        (_, "disk of another machine") => "Show its paths",
        (_, "disk of this machine") => "Locate the disk",
        (_, "certificate") => "Show the certificate",
        (_, "way out") => "Show the ways out",
        _ => "Show what it means",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alert::CONDITIONS;

    #[test]
    fn each_condition_leads_to_a_page_that_exists() {
        let known: Vec<&str> = crate::routes::known().iter().map(|it| it.path).collect();
        for condition in CONDITIONS {
            let alert = AlertView {
                number: 7,
                condition: condition.id.to_owned(),
                object: "tank /dev/a?b".to_owned(),
                ..AlertView::default()
            };
            let page = page_of_alert(&alert);
            let path = page.split(['?', '#']).next().expect("a path");
            let is_known = |pattern: &str| {
                let (a, b): (Vec<&str>, Vec<&str>) =
                    (pattern.split('/').collect(), path.split('/').collect());
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| *a == b || a.starts_with('{'))
            };
            assert!(
                known.iter().any(|it| is_known(it)),
                "{}: {page}",
                condition.id
            );
        }
    }

    #[test]
    fn names_of_others_stay_within_their_link() {
        let hostile = "iqn.a:\"><script>&initiator=x#y";
        for topic in [Topic::Login, Topic::Session, Topic::Unit, Topic::Pool] {
            let page = page_of_event(topic, hostile).expect("a page");
            assert!(!page.contains(['"', '<', '>', '&']), "{page}");
        }
        assert_eq!(page_of_event(Topic::Login, "10.0.0.7"), None);
        assert_eq!(page_of_event(Topic::Daemon, "daemon"), None);
        assert_eq!(page_of_event(Topic::Config, ""), None);
    }
}
