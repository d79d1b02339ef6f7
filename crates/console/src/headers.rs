//! Headers of every answer. They keep foreign scripts, frames and caches away from the console.

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::middleware::Next;
use axum::response::Response;

/// Policy of all pages: scripts, styles and figures from here only, no frames, no inline code.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
    base-uri 'none'";

/// Adds the headers to an answer.
pub(crate) async fn protect(request: Request, next: Next) -> Response {
    let mut answer = next.run(request).await;
    add(answer.headers_mut());
    answer
}

/// Adds the headers. Files with a hash in their names have said already that they may be kept.
pub(crate) fn add(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Browsers that do not know the policy know this.
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        // Other sites neither hold a window of the console, nor load parts of it.
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static("same-origin"),
        );
    }
    // Browsers that send no Sec-Fetch-Site hide the origin of a form where no referrer may be told.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}
