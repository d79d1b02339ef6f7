//! Formats of `/metrics`, and the choice between them by the header Accept.

use prometheus_client::encoding::prometheus_text;

/// Format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' text format, which every collector reads.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

const OPEN_METRICS: &str = "application/openmetrics-text";

impl Format {
    /// Returns the format that a client prefers. Clients that prefer none get Prometheus' text
    /// format.
    pub(crate) fn preferred(accept: Option<&str>) -> Self {
        let accept = accept.unwrap_or_default();
        let offers = accept.split(',').filter_map(Offer::read);
        let (mut open_metrics, mut text) = (0.0, 0.0);
        for offer in offers {
            match offer.media_type {
                OPEN_METRICS if offer.is_known_version => {
                    open_metrics = offer.quality.max(open_metrics);
                }
                "text/plain" | "text/*" | "*/*" => text = offer.quality.max(text),
                _ => {}
            }
        }
        match open_metrics > text {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// Returns the value of the header Content-Type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// One media type of the header, with its weight.
struct Offer<'a> {
    media_type: &'a str,
    quality: f32,
    /// Whether OpenMetrics 1.0 satisfies the named version.
    is_known_version: bool,
}

impl<'a> Offer<'a> {
    /// Reads an entry of the header. Returns `None` for an entry that cannot be read.
    fn read(entry: &'a str) -> Option<Self> {
        let mut parts = entry.split(';').map(str::trim);
        let mut offer = Self {
            media_type: parts.next()?,
            quality: 1.0,
            is_known_version: true,
        };
        for parameter in parts {
            match parameter.split_once('=')? {
                ("q", value) => offer.quality = value.parse().ok()?,
                ("version", value) => offer.is_known_version = matches!(value, "1.0.0" | "0.0.1"),
                _ => {}
            }
        }
        Some(offer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_accept_chooses_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0,\
            application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let newer = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;q=0.6,\
            application/openmetrics-text; version=1.0.0; escaping=allow-utf-8; q=0.5,text/plain;q=0.2";
        for (accept, expected) in [
            (prometheus, Format::OpenMetrics),
            (newer, Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("application/openmetrics-text;version=9.0.0", Format::Text),
            (
                "application/openmetrics-text;q=0.3,text/plain",
                Format::Text,
            ),
            ("application/openmetrics-text;q=x", Format::Text),
            ("text/plain", Format::Text),
            ("*/*", Format::Text),
            ("application/json", Format::Text),
            ("", Format::Text),
        ] {
            assert_eq!(Format::preferred(Some(accept)), expected, "{accept}");
        }
        assert_eq!(Format::preferred(None), Format::Text);
    }
}
