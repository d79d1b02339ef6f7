//! The origin of a request that a browser sends: pages of other sites must not act with the cookie
//! of a login, and no foreign name may lead to this machine.

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};

use model::{Error, ErrorKind};

/// Refuses a change that does not come from a page of this console. The rule holds for requests
/// with a cookie, and for forms that begin a login: another site could otherwise log its visitors in
/// as a user of its own choice.
///
/// # Errors
/// The browser names another origin, or none.
pub fn require_own(parts: &Parts) -> Result<(), Error> {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let is_own = match text(&parts.headers, "sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => is_own_origin(&parts.headers),
    };
    if is_own {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NotPermitted,
        "the request comes from a page of another site",
        "open the console itself, and repeat it there",
    ))
}

/// Reports whether the header Origin names the host to which the request goes.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let host = text(headers, HOST.as_str());
    let origin = text(headers, ORIGIN.as_str());
    let origin = origin.and_then(|origin| origin.strip_prefix("https://"));
    host.is_some() && origin == host
}

/// Reports whether a request may name this host: an address, or one of the names of this machine.
/// A web page could make a browser resolve the page's own name to an address of this machine.
pub(super) fn is_own_host(headers: &HeaderMap, names: &[String]) -> bool {
    let host = text(headers, HOST.as_str()).unwrap_or_default();
    let name = without_port(host);
    name.trim_matches(['[', ']'])
        .parse::<std::net::IpAddr>()
        .is_ok()
        || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Returns the name of a host without its port.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = axum::http::Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn only_pages_of_the_console_change_something_with_a_cookie() {
        let post = |headers: &[(&'static str, &str)]| require_own(&request(Method::POST, headers));
        assert!(post(&[("sec-fetch-site", "same-origin")]).is_ok());
        assert!(post(&[("host", "san1:8443"), ("origin", "https://san1:8443")]).is_ok());
        for foreign in [
            vec![],
            vec![("host", "san1:8443")],
            vec![("origin", "https://san1:8443")],
            vec![("host", "san1:8443"), ("origin", "http://san1:8443")],
            vec![("host", "san1:8443"), ("origin", "https://san1:8443.evil")],
            vec![("host", "san1:8443"), ("origin", "null")],
            vec![("sec-fetch-site", "same-site")],
            vec![("sec-fetch-site", "none")],
            vec![
                ("sec-fetch-site", "cross-site"),
                ("host", "san1:8443"),
                ("origin", "https://san1:8443"),
            ],
        ] {
            let error = post(&foreign).expect_err("it is foreign");
            assert_eq!(error.kind, ErrorKind::NotPermitted, "{foreign:?}");
        }
        assert!(require_own(&request(Method::GET, &[])).is_ok());
    }

    #[test]
    fn addresses_and_own_names_are_hosts_of_this_machine() {
        let names = ["san1".to_owned(), "san1.lan".to_owned()];
        let is_own =
            |host: &str| is_own_host(&request(Method::GET, &[("host", host)]).headers, &names);
        for own in [
            "san1",
            "SAN1:8443",
            "san1.lan:8443",
            "192.0.2.1:8443",
            "[2001:db8::1]:8443",
        ] {
            assert!(is_own(own), "{own}");
        }
        for foreign in [
            "",
            "evil.example",
            "san1.evil",
            "san1.lan.:8443x",
            "192.0.2.1.evil",
        ] {
            assert!(!is_own(foreign), "{foreign}");
        }
    }
}
