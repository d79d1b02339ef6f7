//! QR codes as SVG, for apps that read a secret with a camera.

use std::fmt::Write as _;

use maud::{Markup, html};
use qrcodegen::{QrCode, QrCodeEcc};

/// Light border in modules (ISO/IEC 18004).
const BORDER: i32 = 4;

/// Draws a text as a QR code, dark on light in all colours of the page. `None` means that the text
/// is too long.
pub(super) fn draw(text: &str, label: &str) -> Option<Markup> {
    let code = QrCode::encode_text(text, QrCodeEcc::Medium).ok()?;
    let width = code.size() + 2 * BORDER;
    let mut path = String::new();
    for y in 0..code.size() {
        for x in (0..code.size()).filter(|x| code.get_module(*x, y)) {
            // Writing to a text cannot fail.
            let _ = write!(path, "M{} {}h1v1h-1z", x + BORDER, y + BORDER);
        }
    }
    Some(html! {
        svg.qr role="img" aria-label=(label) viewBox=(format!("0 0 {width} {width}")) {
            rect width=(width) height=(width) fill="#fff" {}
            path d=(path) fill="#000" shape-rendering="crispEdges" {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_border_and_its_corners() {
        let drawn = draw("otpauth://totp/a", "code")
            .expect("a code")
            .into_string();
        // The finder patterns begin in three corners of the code.
        assert!(
            drawn.contains("M4 4h1v1h-1z") && drawn.contains("M10 4h1v1h-1z"),
            "{drawn}"
        );
        assert!(
            !drawn.contains("M3 ") && !drawn.contains("M5 5h"),
            "{drawn}"
        );
        assert!(draw(&"x".repeat(5000), "code").is_none());
    }
}
