//! Certificate of the console: what it says, when it ends, and ways to another one.

use control::endpoint::tls::{self as at_api, GiveTls, TlsSource, TlsView};
use maud::{Markup, html};
use model::access::Password;
use model::{Error, ErrorKind};

use crate::answer::Answer;
use crate::form::{Field, button, form, problem, sentence, submit};
use crate::format::time;
use crate::frame::Page;
use crate::preview::{Asking, confirm};
use crate::routes::Routes;
use crate::visit::Visit;

const PAGE: &str = "/certificate";

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page(PAGE, &at_api::SHOW, show)
        .act("/certificate/make", &at_api::MAKE, make)
        .act("/certificate/reload", &at_api::RELOAD, reload)
        .act("/certificate/give", &at_api::GIVE, give)
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let page = Page::new("Certificate");
    let view = match visit.call(&at_api::SHOW, &[]) {
        Ok(view) => view,
        // A console without TLS has no certificate, and is no fault.
        Err(error) if error.kind == ErrorKind::Unavailable => {
            return Ok(page.body(problem(&error)).into());
        }
        Err(error) => return Err(error),
    };
    Ok(page
        .body(html! {
            (facts(&view))
            @if visit.has_role(at_api::GIVE.role) {
                section aria-label="Another certificate" {
                    h2 { "Another certificate" }
                    (ways(visit, &view))
                }
            }
            section aria-label="For clients" {
                h2 { "For clients" }
                p { "A client that is to trust this certificate gets it as a file, or its fingerprint. The command line takes either: "
                    code { "--control-ca FILE" } " or " code { "--control-fingerprint SHA256" } "." }
                details { summary { "The certificate as PEM" } pre { (view.pem) } }
            }
        })
        .into())
}

fn facts(view: &TlsView) -> Markup {
    html! {
        section aria-label="The certificate in force" {
            @if let Some(trouble) = &view.trouble {
                p.problem-message role="alert" { "Newer files are not in force: " (sentence(trouble)) }
            }
            dl.facts {
                dt { "Address" } dd { code { (view.url) } }
                dt { "Names" } dd { (view.names.join(", ")) }
                dt { "Ends" } dd { (time(view.ends)) }
                dt { "Comes from" } dd { (origin(view.source)) }
                dt { "SHA-256" } dd { code { (view.fingerprint) } }
            }
        }
    }
}

fn origin(source: TlsSource) -> &'static str {
    match source {
        TlsSource::Own => "this machine, which made it and signed it itself",
        TlsSource::Given => "an administrator, who gave it to the daemon",
        TlsSource::Named => "the files that the options of the daemon name",
    }
}

fn ways(visit: &Visit, view: &TlsView) -> Markup {
    html! {
        div.row-buttons {
            @if view.source == TlsSource::Named {
                (button(visit, at_api::RELOAD.role, "/certificate/reload", "Read the files again", &[]))
            } @else {
                (button(visit, at_api::MAKE.role, "/certificate/make", "Make a new certificate", &[]))
            }
        }
        @if view.source != TlsSource::Named {
            details {
                summary { "Give it a certificate of your authority" }
                (form("/certificate/give", html! {
                    (Field::new("certificate", "Certificate")
                        .hint("As PEM, with the certificates of the authorities below it. It must name the address above.").area(8))
                    (Field::new("key", "Private key")
                        .hint("As PEM, without a password. The daemon alone can read it afterwards, and no page shows it.").area(8))
                    (submit("Give the certificate"))
                }))
            }
        }
    }
}

fn make(visit: &Visit) -> Result<Answer, Error> {
    let asking = Asking {
        title: "Make a new certificate".to_owned(),
        label: "Make it",
        back: PAGE.to_owned(),
        done: "The console has a new certificate.".to_owned(),
    };
    let words = html! {
        p { "It replaces the present certificate, which is lost. Browsers warn once more, and programs that know the old fingerprint refuse the console until they know the new one." }
        p { "iSCSI is not concerned." }
    };
    confirm(visit, &asking, words, || {
        visit.call(&at_api::MAKE, &[]).map(drop)
    })
}

fn reload(visit: &Visit) -> Result<Answer, Error> {
    let view = visit.call(&at_api::RELOAD, &[])?;
    let told = format!("The certificate in force ends at {}.", time(view.ends));
    Ok(Answer::done(PAGE, told))
}

/// Gives the certificate at once: a page that asks again would have to hold the key.
fn give(visit: &Visit) -> Result<Answer, Error> {
    let body = GiveTls {
        certificate: visit.form.exact("certificate").to_owned(),
        key: Password(visit.form.exact("key").to_owned()),
    };
    let view = visit.ask(&at_api::GIVE, &[], (), body)?;
    let told = format!(
        "The certificate is in force. It ends at {}.",
        time(view.ends)
    );
    Ok(Answer::done(PAGE, told))
}
