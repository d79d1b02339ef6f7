//! The origin of a request that a browser sends: pages of other sites must not act with the cookie
//! of a login.

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};

use model::{Error, ErrorKind};

/// Refuses a change that does not come from a page of this console. The rule holds for requests
/// with a cookie, and for forms that begin a login: another site could otherwise log its visitors
/// in as a user of its own choice.
///
/// # Errors
/// The browser names another origin, or none.
pub fn require_own(parts: &Parts) -> Result<(), Error> {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let is_own = match text(&parts.headers, "sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => is_own_origin(parts),
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

/// Reports whether the header Origin names the host to which the request goes. HTTP/2 has the host
/// in the address.
fn is_own_origin(parts: &Parts) -> bool {
    let named = text(&parts.headers, HOST.as_str());
    let authority = parts.uri.authority().map(|it| it.as_str());
    let host = authority.or(named);
    let origin = text(&parts.headers, ORIGIN.as_str());
    let origin = origin.and_then(|origin| origin.strip_prefix("https://"));
    host.is_some() && origin == host
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
        // HTTP/2 has no header Host.
        let mut second = request(Method::POST, &[("origin", "https://san1:8443")]);
        second.uri = "https://san1:8443/login".parse().expect("a URI");
        assert!(require_own(&second).is_ok());
        second.uri = "https://san2:8443/login".parse().expect("a URI");
        assert!(require_own(&second).is_err());
    }
}
