//! The frame: what surrounds each page. Health, navigation, breadcrumbs, messages and the title are
//! the same everywhere.

pub(crate) mod error;
mod navigation;

use axum::http::StatusCode;
use maud::{DOCTYPE, Markup, html};

use super::assets::{ICON, SCRIPT, STYLE};
use super::visit::{Theme, Visit};

/// A page, before it is written.
#[derive(Debug)]
pub(crate) struct Page {
    title: String,
    crumbs: Vec<(String, String)>,
    actions: Markup,
    body: Markup,
    stream: Option<String>,
    /// Status of the answer.
    pub(crate) status: StatusCode,
    /// Whether the page shows a secret.
    pub(crate) is_secret: bool,
    /// Cookies to set.
    pub(crate) cookies: Vec<String>,
}

impl Page {
    /// Returns a page without content.
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            crumbs: Vec::new(),
            actions: html! {},
            body: html! {},
            stream: None,
            status: StatusCode::OK,
            is_secret: false,
            cookies: Vec::new(),
        }
    }

    /// Adds a page above this one to the breadcrumbs.
    pub(crate) fn crumb(mut self, label: impl Into<String>, path: impl Into<String>) -> Self {
        self.crumbs.push((label.into(), path.into()));
        self
    }

    /// Sets the links and buttons beside the title.
    pub(crate) fn actions(self, actions: Markup) -> Self {
        Self { actions, ..self }
    }

    /// Sets the content.
    pub(crate) fn body(self, body: Markup) -> Self {
        Self { body, ..self }
    }

    /// Names the stream of live figures for the page.
    pub(crate) fn live(self, stream: impl Into<String>) -> Self {
        Self {
            stream: Some(stream.into()),
            ..self
        }
    }

    /// Sets the status of the answer.
    pub(crate) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Marks a page that shows a secret, which is then not compressed.
    pub(crate) fn secret(self) -> Self {
        Self {
            is_secret: true,
            ..self
        }
    }

    /// Writes the page with its frame.
    pub(crate) fn write(&self, visit: &Visit) -> Markup {
        let machine = &visit.console.machine;
        let chosen = match visit.theme {
            Theme::System => None,
            theme => Some(theme.as_str()),
        };
        let health = visit.console.live.health.shown(visit);
        let health = health.map(|it| (it.class(), it.mark(), it.sentence));
        html! {
            (DOCTYPE)
            html lang="en" data-theme=[chosen] {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · " (machine) " · Sandstone" }
                    link rel="stylesheet" href=(STYLE.path);
                    link rel="icon" href=(ICON.path) type="image/svg+xml";
                    @if self.stream.is_some() { script type="module" src=(SCRIPT.path) {} }
                }
                body data-stream=[self.stream.as_ref()] {
                    a.skip href="#main" { "Skip to the content" }
                    (header(visit, machine, health.as_ref()))
                    div.columns {
                        @if visit.reader().is_some() { (navigation::draw(visit)) }
                        main #main tabindex="-1" {
                            @if !self.crumbs.is_empty() { (self.breadcrumbs()) }
                            @if let Some(told) = &visit.told {
                                p.told.bad[told.is_bad] role="status" {
                                    span aria-hidden="true" { @if told.is_bad { "■ " } @else { "✓ " } }
                                    (told.text)
                                }
                            }
                            div.title { h1 { (self.title) } div.actions { (self.actions) } }
                            (self.body)
                        }
                    }
                    (footer(visit))
                }
            }
        }
    }

    fn breadcrumbs(&self) -> Markup {
        html! {
            nav.crumbs aria-label="Breadcrumbs" {
                ol {
                    @for (label, path) in &self.crumbs { li { a href=(path) { (label) } } }
                    li aria-current="page" { (self.title) }
                }
            }
        }
    }
}

/// Class, shape and sentence of the health.
type Told = (&'static str, &'static str, String);

fn header(visit: &Visit, machine: &str, health: Option<&Told>) -> Markup {
    html! {
        header.top {
            a.brand href="/" { "Sandstone" span.machine { " " (machine) } }
            @if let Some((class, mark, sentence)) = health {
                p.health.state.(class) {
                    span aria-hidden="true" data-text="mark" { (mark) } " "
                    a href="/alerts" data-text="health" { (sentence) }
                }
            }
            p.broken hidden role="status" { span aria-hidden="true" { "▲ " } "not live since " span.since {} }
            @if let Some(reader) = visit.reader() {
                div.reader {
                    a href="/me" { (reader.name) } span.quiet { " " (reader.role) }
                    form.inline method="post" action="/logout" { button type="submit" { "Log out" } }
                }
            }
        }
    }
}

fn footer(visit: &Visit) -> Markup {
    html! {
        footer {
            form.inline method="post" action="/theme" {
                input type="hidden" name="back" value=(visit.address);
                span.quiet { "Colours: " }
                @for theme in Theme::ALL {
                    button type="submit" name="theme" value=(theme.as_str())
                        aria-pressed=(if theme == visit.theme { "true" } else { "false" }) { (theme.as_str()) }
                }
            }
        }
    }
}
