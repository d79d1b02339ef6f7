//! Navigation: the pages of the console, in groups. A page that a role may not see is left out.

use maud::{Markup, html};
use model::access::Role;

use crate::visit::Visit;

/// Entry of the navigation.
struct Entry {
    path: &'static str,
    label: &'static str,
    role: Role,
}

const fn entry(path: &'static str, label: &'static str, role: Role) -> Entry {
    Entry { path, label, role }
}

/// Entries by group, in their order.
const GROUPS: &[(&str, &[Entry])] = &[
    (
        "Now",
        &[
            entry("/", "Overview", Role::Viewer),
            entry("/alerts", "Alerts", Role::Viewer),
            entry("/events", "Events", Role::Viewer),
            entry("/wizards", "Wizards", Role::Viewer),
        ],
    ),
    (
        "Storage",
        &[
            entry("/pools", "Pools", Role::Viewer),
            entry("/volumes", "Volumes", Role::Viewer),
            entry("/units", "Units", Role::Viewer),
            entry("/bench", "Benchmarks", Role::Viewer),
        ],
    ),
    (
        "Access",
        &[
            entry("/maps", "Paths", Role::Viewer),
            entry("/hosts", "Hosts", Role::Viewer),
            entry("/targets", "Targets", Role::Viewer),
            entry("/sessions", "Sessions", Role::Viewer),
        ],
    ),
    (
        "This machine",
        &[
            entry("/initiator", "Initiator", Role::Viewer),
            entry("/config", "Configuration", Role::Viewer),
            entry("/certificate", "Certificate", Role::Viewer),
            entry("/access", "Users and tokens", Role::Admin),
            entry("/audit", "Audit", Role::Admin),
        ],
    ),
];

/// Draws the navigation, with the present page marked.
pub(super) fn draw(visit: &Visit) -> Markup {
    let path = visit.path();
    let is_here = |of: &str| match of {
        "/" => path == "/",
        of => {
            path == of
                || path
                    .strip_prefix(of)
                    .is_some_and(|rest| rest.starts_with('/'))
        }
    };
    html! {
        nav.main aria-label="Pages" {
            @for (group, entries) in GROUPS {
                @let seen = entries.iter().filter(|entry| visit.has_role(entry.role));
                div.group {
                    p { (group) }
                    ul {
                        @for entry in seen {
                            li {
                                a href=(entry.path) aria-current=[is_here(entry.path).then_some("page")] {
                                    (entry.label)
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
