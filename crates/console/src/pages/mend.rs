//! Buttons that mend what keeps an initiator from a unit. They follow from the configuration, as
//! the explanation does.

use config::access::hosts;
use config::explain::Explanation;
use control::endpoint::{host, lu, map, target};
use maud::{Markup, html};
use model::hindrance::HindranceKind;

use crate::form::{Field, button, form, hidden, submit};
use crate::format::at;
use crate::visit::Visit;

/// Shows the buttons for an explanation.
pub(super) fn buttons(visit: &Visit, told: &Explanation) -> Markup {
    let config = visit.console.door.plane().transactions.config();
    let hosts = hosts(&config, &told.initiator);
    let unit = told.unit.as_deref().and_then(|name| config.unit(name));
    let is_mapped = |name: &str| {
        let mut maps = config.maps.iter().filter(|map| map.unit == name);
        maps.any(|map| {
            map.host
                .as_ref()
                .is_none_or(|of| hosts.iter().any(|host| host.name == *of))
        })
    };
    let offline_targets = config.targets.iter().filter(|target| {
        target.offline && told.sees.iter().any(|sight| sight.target == target.iqn)
    });
    let names: Vec<(String, String)> = config
        .hosts
        .iter()
        .map(|host| (host.name.clone(), host.name.clone()))
        .collect();
    html! {
        div.buttons {
            @if let Some(unit) = unit {
                @if unit.offline {
                    (button(visit, lu::MODIFY.role, &format!("{}/state", at("/units", &[&unit.name])),
                        &format!("Take {} online", unit.name), &[("offline", "no")]))
                }
                @if !is_mapped(&unit.name) {
                    @if let Some(host) = hosts.first() {
                        (button(visit, map::ADD.role, "/maps/add", &format!("Map {} to {}", unit.name, host.name),
                            &[("unit", &unit.name), ("host", &host.name)]))
                    } @else {
                        (button(visit, map::SHARE.role, "/maps/share", &format!("Give {} to a new host of this initiator", unit.name),
                            &[("unit", &unit.name), ("host", &told.initiator)]))
                    }
                }
                (hindrances(visit, &unit.name))
            }
            @for target in offline_targets {
                (button(visit, target::MODIFY.role, "/targets/state", &format!("Take {} online", target.iqn),
                    &[("iqn", &target.iqn), ("offline", "no")]))
            }
        }
        @if hosts.is_empty() && !names.is_empty() && visit.may(&host::ADD_INITIATOR) {
            (form("/hosts/initiators/add", html! {
                (hidden("initiator", &told.initiator))
                (Field::new("host", "Add this initiator to host").choice(&names))
                (submit("Preview"))
            }))
        }
    }
}

/// Shows a button for each state of a unit that stops I/O and can be ended.
fn hindrances(visit: &Visit, unit: &str) -> Markup {
    let found = visit.call(&lu::SHOW, &[unit]);
    let kinds: Vec<HindranceKind> = found
        .map(|view| view.status.hindrances.iter().map(|it| it.kind).collect())
        .unwrap_or_default();
    html! {
        @for kind in kinds.into_iter().filter(|kind| kind.clearing().is_some()) {
            (button(visit, lu::CLEAR.role, &format!("{}/clear", at("/units", &[unit])),
                &format!("End {}", kind.word()), &[("kind", kind.word())]))
        }
    }
}
