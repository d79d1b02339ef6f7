//! Answers to visits: a page, the way to another page, or a file.

use axum::body::Body;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION, SET_COOKIE, VARY,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;

use super::assets::pack;
use super::format::escape;
use super::frame::Page;
use super::visit::{Fields, Visit};

/// Least size of a page that is compressed.
const WORTH_PACKING: usize = 1 << 10;

/// Message that the next page shows once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Whether something was refused.
    pub(crate) is_bad: bool,
    /// Words of the message.
    pub(crate) text: String,
}

impl Told {
    /// Name of the cookie that carries the message.
    pub(crate) const COOKIE: &str = "__Host-told";

    /// Returns the message that something was done.
    pub(crate) fn done(text: impl Into<String>) -> Self {
        Self {
            is_bad: false,
            text: text.into(),
        }
    }

    /// Reads the message of a cookie.
    pub(crate) fn read(cookie: &str) -> Option<Self> {
        // A value of a query is escaped as a cookie is.
        let fields = Fields::read(cookie.as_bytes());
        let (kind, text) = fields.0.into_iter().next()?;
        Some(Self {
            is_bad: kind == "wrong",
            text,
        })
    }

    fn cookie(&self) -> String {
        let kind = if self.is_bad { "wrong" } else { "done" };
        // A cookie has room for 4 KiB.
        let end = self.text.floor_char_boundary(1000);
        let text = escape(&self.text[..end]);
        set_cookie(Self::COOKIE, &format!("{kind}={text}"), Some(60))
    }
}

/// Returns the header that sets a cookie for this host alone. Without an age, it ends with the
/// browser.
pub(crate) fn set_cookie(name: &str, value: &str, age_s: Option<u32>) -> String {
    let age = age_s
        .map(|age| format!("; Max-Age={age}"))
        .unwrap_or_default();
    format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite=Strict{age}")
}

/// Answer to a visit.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A page.
    Page(Box<Page>),
    /// The way to another page.
    Go {
        /// Path of the page.
        to: String,
        /// Message for it.
        told: Option<Told>,
        /// Cookies to set.
        cookies: Vec<String>,
    },
    /// A file to keep.
    File {
        /// Name of the file.
        name: String,
        /// Media type.
        content_type: &'static str,
        /// Content of the file.
        content: Vec<u8>,
    },
}

impl From<Page> for Answer {
    fn from(page: Page) -> Self {
        Self::Page(Box::new(page))
    }
}

impl Answer {
    /// Leads to another page of the console.
    pub(crate) fn go(to: impl Into<String>) -> Self {
        Self::Go {
            to: to.into(),
            told: None,
            cookies: Vec::new(),
        }
    }

    /// Leads to another page, which says what was done.
    pub(crate) fn done(to: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Go {
            to: to.into(),
            told: Some(Told::done(text)),
            cookies: Vec::new(),
        }
    }

    /// Writes the answer.
    pub(crate) fn write(self, visit: &Visit, takes_gzip: bool) -> Response {
        match self {
            Self::Page(page) => write_page(&page, visit, takes_gzip),
            Self::Go { to, told, cookies } => {
                let mut answer = StatusCode::SEE_OTHER.into_response();
                let headers = answer.headers_mut();
                let told = told.map(|told| told.cookie());
                for cookie in cookies.into_iter().chain(told) {
                    put(headers, SET_COOKIE, &cookie);
                }
                put(headers, LOCATION, &to);
                answer
            }
            Self::File {
                name,
                content_type,
                content,
            } => {
                let mut answer = Body::from(content).into_response();
                let headers = answer.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
                let kept = format!("attachment; filename=\"{name}\"");
                put(headers, CONTENT_DISPOSITION, &kept);
                answer
            }
        }
    }
}

fn write_page(page: &Page, visit: &Visit, takes_gzip: bool) -> Response {
    let text = page.write(visit).into_string();
    // Compression tells parts of a page by its size, so pages with secrets are not compressed.
    let is_packed = takes_gzip && !page.is_secret && text.len() >= WORTH_PACKING;
    let body = match is_packed {
        true => Body::from(pack(text.as_bytes(), Compression::fast())),
        false => Body::from(text),
    };
    let mut answer = (page.status, body).into_response();
    let headers = answer.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(VARY, HeaderValue::from_static("accept-encoding, cookie"));
    if is_packed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if visit.told.is_some() {
        put(headers, SET_COOKIE, &set_cookie(Told::COOKIE, "", Some(0)));
    }
    for cookie in &page.cookies {
        put(headers, SET_COOKIE, cookie);
    }
    answer
}

/// Adds a header. A value that no header can have is left out.
fn put(headers: &mut HeaderMap, name: axum::http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.append(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_through_its_cookie() {
        for told in [
            Told::done("made “a;b” & <c>\n"),
            Told {
                is_bad: true,
                text: String::new(),
            },
        ] {
            let cookie = told.cookie();
            let value = cookie.split_once('=').expect("a value").1;
            let value = value.split(';').next().expect("a value");
            assert_eq!(Told::read(value), Some(told));
            assert!(cookie.ends_with("; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=60"));
        }
        assert_eq!(Told::read(""), None);
    }

    #[test]
    fn a_long_message_is_cut() {
        let told = Told::done("é".repeat(4000));
        assert!(told.cookie().len() < 4096);
    }
}
