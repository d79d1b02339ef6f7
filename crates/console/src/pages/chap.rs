//! CHAP: the secrets that hosts prove to targets, and targets to hosts.
//!
//! A secret is typed, previewed and typed again: no page holds one. The digest of the first, by a
//! key of this run of the daemon, tells whether both are the same.

use std::hash::BuildHasher as _;

use config::change::{ModifyTarget, SetChap, SetDiscovery};
use control::answer::Problem;
use control::endpoint::{config as configuration, host, target};
use control::transaction::{Commit, Committed};
use maud::{Markup, html};
use model::access::Role;
use model::config::{ChapSecret, HostSpec, TargetSpec};
use model::{Error, ErrorKind};

use crate::answer::Answer;
use crate::form::{Field, button, form, hidden, problem, submit};
use crate::format::at;
use crate::frame::Page;
use crate::preview::{Asking, CONFIRMED, EFFECT, change, effects, is_confirmed};
use crate::routes::Routes;
use crate::visit::Visit;

/// Field with the digest of the secret that was previewed.
const PROOF: &str = "proof";
const HINT: &str = "12 to 255 bytes; Windows takes 12 to 16. It is never shown again.";

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .act("/hosts/{name}/chap", &host::SET_CHAP, |visit| {
            set(visit, &Subject::Host(visit.name(0)))
        })
        .act(
            "/hosts/{name}/chap/remove",
            &host::REMOVE_CHAP,
            remove_of_host,
        )
        .act("/targets/chap", &target::MODIFY, |visit| {
            set(visit, &Subject::Target(visit.form.get("iqn")))
        })
        .act("/targets/chap/remove", &target::MODIFY, remove_of_target)
        .act(
            "/targets/discovery",
            &configuration::SET_DISCOVERY,
            |visit| set(visit, &Subject::Discovery(side(visit))),
        )
        .act(
            "/targets/discovery/remove",
            &configuration::SET_DISCOVERY,
            remove_of_discovery,
        )
}

/// End that proves itself in a discovery session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Initiators,
    Machine,
}

fn side(visit: &Visit) -> Side {
    match visit.form.get("side") {
        "machine" => Side::Machine,
        _ => Side::Initiators,
    }
}

/// Owner of a secret.
#[derive(Debug)]
enum Subject<'a> {
    /// Host that proves itself to targets.
    Host(&'a str),
    /// Target that proves itself to hosts.
    Target(&'a str),
    /// Discovery sessions.
    Discovery(Side),
}

impl Subject<'_> {
    fn title(&self) -> String {
        match self {
            Self::Host(name) => format!("CHAP of host {name}"),
            Self::Target(iqn) => format!("Mutual CHAP of {iqn}"),
            Self::Discovery(Side::Initiators) => "CHAP of discovery".to_owned(),
            Self::Discovery(Side::Machine) => "Mutual CHAP of discovery".to_owned(),
        }
    }

    /// Returns the page on which the secret is set.
    fn back(&self) -> String {
        match self {
            Self::Host(name) => at("/hosts", &[name]),
            Self::Target(_) | Self::Discovery(_) => "/targets".to_owned(),
        }
    }

    fn done(&self, user: &str) -> String {
        match self {
            Self::Host(name) => format!("Host {name} must log in as {user} from now on."),
            Self::Target(iqn) => format!("{iqn} proves itself as {user} from now on."),
            Self::Discovery(Side::Initiators) => {
                format!("Discovery needs a login as {user} from now on.")
            }
            Self::Discovery(Side::Machine) => {
                format!("This machine proves itself as {user} in discovery from now on.")
            }
        }
    }

    /// Returns the address that the form is sent to, and the fields that say whose secret it is.
    fn action(&self) -> (String, Vec<(&'static str, &str)>) {
        match self {
            Self::Host(name) => (format!("{}/chap", at("/hosts", &[name])), Vec::new()),
            Self::Target(iqn) => ("/targets/chap".to_owned(), vec![("iqn", iqn)]),
            Self::Discovery(side) => {
                let side = match side {
                    Side::Initiators => "initiators",
                    Side::Machine => "machine",
                };
                ("/targets/discovery".to_owned(), vec![("side", side)])
            }
        }
    }

    fn ask(&self, visit: &Visit, how: Commit, chap: SetChap) -> Result<Committed, Error> {
        match self {
            Self::Host(name) => visit.ask(&host::SET_CHAP, &[name], how, chap),
            Self::Target(iqn) => {
                let body = ModifyTarget {
                    mutual_chap: Some(chap),
                    ..ModifyTarget::default()
                };
                visit.ask(&target::MODIFY, &[iqn], how, body)
            }
            Self::Discovery(side) => {
                let (chap, mutual_chap) = match side {
                    Side::Initiators => (Some(chap), None),
                    Side::Machine => (None, Some(chap)),
                };
                let body = SetDiscovery {
                    chap,
                    mutual_chap,
                    ..SetDiscovery::default()
                };
                visit.ask(&configuration::SET_DISCOVERY, &[], how, body)
            }
        }
    }
}

/// Previews a secret, and sets it once it was typed again.
fn set(visit: &Visit, subject: &Subject<'_>) -> Result<Answer, Error> {
    let form = &visit.form;
    let chap = SetChap {
        user: form.get("user").to_owned(),
        secret: form.exact("secret").to_owned(),
    };
    let proof = visit.console.digests.hash_one(&chap.secret);
    let proof = format!("{proof:016x}");
    let is_again = is_confirmed(visit);
    let is_same = is_again && form.get(PROOF) == proof;
    let how = Commit {
        dry_run: !is_same,
        if_effect: form.some(EFFECT).map(str::to_owned).filter(|_| is_same),
        ..Commit::default()
    };
    if is_again && !is_same {
        // The page shows the preview again, without the secret that was typed now.
        let error = Error::invalid(
            "the secret is not the one that was previewed",
            "type the first one again, or start over with another one",
        );
        let seen = (form.get(PROOF), form.get(EFFECT));
        return Ok(again(visit, subject, seen, problem(&error)).into());
    }
    match subject.ask(visit, how, chap) {
        Err(error) if error.kind == ErrorKind::Stale => Err(error),
        Err(error) => Ok(refused(visit, subject, &error).into()),
        Ok(_) if is_same => Ok(Answer::done(subject.back(), subject.done(form.get("user")))),
        Ok(committed) if committed.differences.is_empty() => Ok(Page::new(subject.title())
            .body(html! {
                p { "Nothing would change: it is already as you want it." }
                p { a.button href=(subject.back()) { "Back" } }
            })
            .into()),
        Ok(committed) => {
            let seen = (proof.as_str(), committed.effect.as_str());
            Ok(again(visit, subject, seen, effects(&committed)).into())
        }
    }
}

/// Shows what was seen, and asks for the secret again.
fn again(visit: &Visit, subject: &Subject<'_>, seen: (&str, &str), words: Markup) -> Page {
    let (action, of) = subject.action();
    let user = visit.form.get("user");
    Page::new(subject.title()).body(html! {
        (words)
        (form(&action, html! {
            @for (name, value) in of { (hidden(name, value)) }
            (hidden("user", user)) (hidden(PROOF, seen.0)) (hidden(EFFECT, seen.1))
            (hidden(CONFIRMED, "yes"))
            (Field::new("secret", "The secret again").autocomplete("new-password")
                .hint("No page holds it, so it has to come with the confirmation.").password())
            div.buttons {
                button.primary type="submit" { "Set the secret" }
                a.button href=(subject.back()) { "Cancel" }
            }
        }))
    })
}

/// Shows why a secret was refused, with the form as it was filled in.
fn refused(visit: &Visit, subject: &Subject<'_>, error: &Error) -> Page {
    let status = Problem::from(error.clone()).status();
    Page::new(subject.title()).status(status).body(html! {
        (problem(error))
        (fields(subject, visit.form.get("user")))
        p { a.button href=(subject.back()) { "Cancel" } }
    })
}

/// Returns the form for the secret of a subject.
fn fields(subject: &Subject<'_>, user: &str) -> Markup {
    let (action, of) = subject.action();
    let within: String = action.chars().filter(char::is_ascii_alphanumeric).collect();
    let within = format!("{within}-{}-", of.first().map_or("", |(_, value)| value));
    form(
        &action,
        html! {
            @for (name, value) in of { (hidden(name, value)) }
            (Field::new("user", "User (CHAP name)").within(&within).value(user).text())
            (Field::new("secret", "Secret").within(&within).hint(HINT).autocomplete("new-password").password())
            (submit("Preview"))
        },
    )
}

/// Shows the secret of a host, as far as it may be shown, and how it is changed.
pub(super) fn of_host(visit: &Visit, spec: &HostSpec) -> Markup {
    let remove = format!("{}/chap/remove", at("/hosts", &[&spec.name]));
    html! {
        section #chap aria-label="CHAP" {
            h2 { "CHAP" }
            p {
                @match &spec.chap {
                    Some(chap) => {
                        "It logs in with CHAP as " code { (chap.user) } ". The secret is never shown. "
                        (button(visit, host::REMOVE_CHAP.role, &remove, "Remove the secret", &[]))
                    }
                    None => "It logs in without a secret: any machine that uses its initiator's name gets in.",
                }
            }
            @if visit.may(&host::SET_CHAP) {
                details {
                    summary { @if spec.chap.is_some() { "Change the secret" } @else { "Set a secret" } }
                    (fields(&Subject::Host(&spec.name), user_of(spec.chap.as_ref(), "")))
                }
            }
            p.quiet { "That the target proves itself to the host too (mutual CHAP) is set under "
                a href="/targets#chap" { "Targets" } "." }
        }
    }
}

/// Shows the secrets that targets and discovery have, and how they are changed.
pub(super) fn of_targets(visit: &Visit, targets: &[&TargetSpec]) -> Markup {
    let config = visit.console.door.plane().transactions.config();
    let sides = [
        (
            Side::Initiators,
            "initiators",
            config.discovery_chap.as_ref(),
        ),
        (
            Side::Machine,
            "machine",
            config.discovery_mutual_chap.as_ref(),
        ),
    ];
    html! {
        section #chap aria-label="CHAP" {
            h2 { "CHAP" }
            p { "Hosts prove themselves by the secrets on their own pages. Here is what targets prove "
                "to hosts that ask for it (mutual CHAP), and what discovery needs." }
            ul.tasks {
                @for spec in targets {
                    li {
                        p { span.name { (spec.iqn) } ": " (told(spec.mutual_chap.as_ref(), "it proves nothing")) " "
                            @if spec.mutual_chap.is_some() {
                                (button(visit, target::MODIFY.role, "/targets/chap/remove", "Remove the secret", &[("iqn", &spec.iqn)]))
                            } }
                        (setting(visit, target::MODIFY.role, &Subject::Target(&spec.iqn), spec.mutual_chap.as_ref()))
                    }
                }
                @for (side, word, chap) in sides {
                    @let none = if side == Side::Initiators { "initiators need what they need at a target" } else { "this machine proves nothing" };
                    li {
                        p { (Subject::Discovery(side).title()) ": " (told(chap, none)) " "
                            @if chap.is_some() {
                                (button(visit, configuration::SET_DISCOVERY.role, "/targets/discovery/remove", "Remove the secret", &[("side", word)]))
                            } }
                        (setting(visit, configuration::SET_DISCOVERY.role, &Subject::Discovery(side), chap))
                    }
                }
            }
        }
    }
}

fn told(chap: Option<&ChapSecret>, none: &str) -> String {
    chap.map_or_else(|| format!("{none}."), |chap| format!("as {}.", chap.user))
}

fn setting(visit: &Visit, role: Role, subject: &Subject<'_>, chap: Option<&ChapSecret>) -> Markup {
    html! {
        @if visit.has_role(role) {
            details {
                summary { @if chap.is_some() { "Change the secret" } @else { "Set a secret" } }
                (fields(subject, user_of(chap, "")))
            }
        }
    }
}

fn user_of<'a>(chap: Option<&'a ChapSecret>, none: &'a str) -> &'a str {
    chap.map_or(none, |chap| chap.user.as_str())
}

fn asking(subject: &Subject<'_>, done: String) -> Asking<'static> {
    Asking {
        title: format!("Remove: {}", subject.title()),
        label: "Remove the secret",
        back: subject.back(),
        done,
    }
}

fn remove_of_host(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let done = format!("Host {name} logs in without a secret from now on.");
    let asking = asking(&Subject::Host(name), done);
    change(visit, &host::REMOVE_CHAP, &[name], (), &asking)
}

fn remove_of_target(visit: &Visit) -> Result<Answer, Error> {
    let iqn = visit.form.get("iqn");
    let asking = asking(
        &Subject::Target(iqn),
        format!("{iqn} proves nothing from now on."),
    );
    let body = ModifyTarget {
        no_mutual_chap: true,
        ..ModifyTarget::default()
    };
    change(visit, &target::MODIFY, &[iqn], body, &asking)
}

fn remove_of_discovery(visit: &Visit) -> Result<Answer, Error> {
    let side = side(visit);
    let done = "The secret of discovery is removed.".to_owned();
    let asking = asking(&Subject::Discovery(side), done);
    let body = SetDiscovery {
        no_chap: side == Side::Initiators,
        no_mutual_chap: side == Side::Machine,
        ..SetDiscovery::default()
    };
    change(visit, &configuration::SET_DISCOVERY, &[], body, &asking)
}
