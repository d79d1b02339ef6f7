//! Styles, script and icon, embedded in the program. Their names hold a hash of their content, so
//! browsers keep them for ever and never show an old one.

use std::io::Write as _;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Folder of the files.
pub(crate) const FOLDER: &str = "/assets/";

/// Embedded file.
#[derive(Debug)]
pub(crate) struct Asset {
    /// Path with the hash in it.
    pub(crate) path: String,
    content_type: &'static str,
    plain: &'static [u8],
    packed: Vec<u8>,
}

impl Asset {
    fn new(stem: &str, ending: &str, content_type: &'static str, plain: &'static [u8]) -> Self {
        let hash = blake3::hash(plain).to_hex();
        Self {
            path: format!("{FOLDER}{stem}.{}.{ending}", &hash[..16]),
            content_type,
            plain,
            packed: pack(plain, Compression::best()),
        }
    }
}

/// Style sheet of all pages.
pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_bytes!("../assets/console.css");
    Asset::new("console", "css", "text/css; charset=utf-8", text)
});

/// Script that writes live figures.
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_bytes!("../assets/console.js");
    Asset::new("console", "js", "text/javascript; charset=utf-8", text)
});

/// Icon of the console.
pub(crate) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_bytes!("../assets/icon.svg");
    Asset::new("icon", "svg", "image/svg+xml", text)
});

/// Answers a request for a file.
pub(crate) async fn serve(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let all = [&*STYLE, &*SCRIPT, &*ICON];
    let wanted = all
        .into_iter()
        .find(|asset| asset.path[FOLDER.len()..] == name);
    let Some(asset) = wanted else {
        return (
            StatusCode::NOT_FOUND,
            "this file is of another version; load the page again",
        )
            .into_response();
    };
    let for_ever = HeaderValue::from_static("public, max-age=31536000, immutable");
    let mut answer = match takes_gzip(&headers) {
        true => ([(CONTENT_ENCODING, "gzip")], asset.packed.clone()).into_response(),
        false => asset.plain.into_response(),
    };
    let set = answer.headers_mut();
    set.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    set.insert(CACHE_CONTROL, for_ever);
    set.insert(VARY, HeaderValue::from_static("accept-encoding"));
    answer
}

/// Reports whether a client takes compressed answers.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|it| it.to_str().ok());
    let mut words = accepted.unwrap_or_default().split(',');
    words.any(|word| {
        let (name, quality) = word.split_once(';').unwrap_or((word, ""));
        name.trim() == "gzip" && quality.trim() != "q=0"
    })
}

/// Compresses bytes.
pub(crate) fn pack(plain: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    let packed = encoder.write_all(plain).and_then(|()| encoder.finish());
    // A vector takes all bytes.
    packed.expect("memory takes bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_that_take_gzip_get_it() {
        let takes = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().expect("a header"));
            takes_gzip(&headers)
        };
        assert!(takes("gzip") && takes("br, gzip;q=0.5"));
        assert!(!takes("br") && !takes("gzip;q=0") && !takes(""));
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn what_the_first_page_loads_is_small() {
        let all = [&*STYLE, &*SCRIPT, &*ICON];
        let packed: usize = all.iter().map(|asset| asset.packed.len()).sum();
        assert!(packed < 40 << 10, "{packed} bytes");
    }
}
