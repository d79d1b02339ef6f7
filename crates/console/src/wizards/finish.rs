//! The last page of a wizard that gave a unit to a host: what to type there, and whether the host
//! is logged in yet.

use control::endpoint::lu;
use hint::client_instructions::Client;
use maud::html;
use model::Error;

use crate::answer::Answer;
use crate::format::{at, escape};
use crate::frame::Page;
use crate::live::stream::address;
use crate::pages::unit;
use crate::visit::Visit;

/// Clients that the wizards ask for, with their names in forms.
pub(super) const CLIENTS: [(&str, Client); 4] = [
    ("esxi", Client::Esxi),
    ("proxmox", Client::Proxmox),
    ("windows", Client::Windows),
    ("linux", Client::Linux),
];

/// Leads to the last page.
pub(super) fn lead(visit: &Visit, unit: &str, told: String) -> Answer {
    let client = visit.form.some("client").unwrap_or("esxi");
    let path = format!(
        "/wizards/done?unit={}&client={}",
        escape(unit),
        escape(client)
    );
    Answer::done(path, told)
}

/// Shows the last page.
pub(super) fn show(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.query.get("unit");
    let view = visit.call(&lu::SHOW, &[name])?;
    let wanted = visit.query.get("client");
    let mut clients = CLIENTS.into_iter();
    let client = clients
        .find(|(of, _)| *of == wanted)
        .map(|(_, client)| client);
    let page = Page::new(format!("{name} is ready"))
        .crumb("Wizards", "/wizards")
        .live(address("page", ""))
        .body(html! {
            p { "One thing is left: the host logs in. Type these lines there, from the first to the last." }
            (unit::what_to_type(visit, &view, client))
            (unit::users(visit, &view)?)
            p { "Then look again: this list has the host as soon as it is logged in." }
            div.buttons {
                a.button href=(format!("/wizards/done?unit={}&client={}", escape(name), escape(wanted))) { "Look again" }
                a.button href=(at("/units", &[name])) { "Go to the unit" }
                a.button href="/" { "Overview" }
            }
        });
    Ok(page.into())
}
