//! Bodies of requests without their secrets, for the audit log.

use serde_json::Value;

/// Most bytes of a body that are noted.
const MOST: usize = 4096;
/// Word that stands in place of a secret.
const HIDDEN: &str = "…";

/// Names of values that hold a secret, or a document that may hold one.
const SECRETS: &[&str] = &[
    "code",
    "config",
    "key",
    "passphrase",
    "password",
    "secret",
    "sealed",
    "text_with_secrets",
    "token",
    "toml",
    "url",
];

/// Returns the body of a request as JSON, with every secret replaced. A body that is not JSON, or
/// is long, is told by its length.
pub fn without_secrets(body: &[u8]) -> Option<String> {
    if body.is_empty() || body == b"null" {
        return None;
    }
    let length = || format!("\"{} bytes\"", body.len());
    // A value alone has no name that would tell whether it is a secret.
    let Ok(mut value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_slice(body) else {
        return Some(length());
    };
    hide(&mut value);
    let text = value.to_string();
    Some(match text.len() > MOST {
        true => length(),
        false => text,
    })
}

fn hide(value: &mut Value) {
    match value {
        Value::Object(values) => {
            for (name, value) in values {
                let is_secret = SECRETS.contains(&name.to_lowercase().as_str());
                match is_secret && !value.is_null() && !value.is_boolean() {
                    true => *value = HIDDEN.into(),
                    false => hide(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(hide),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_at_any_depth() {
        let body = br#"{"name":"esx","chap":{"user":"esx","secret":"hunter2hunter2"},"all":[{"Password":"hunter2"}]}"#;
        let told = without_secrets(body).expect("a body");
        assert!(!told.contains("hunter2"), "{told}");
        assert!(told.contains(r#""user":"esx""#), "{told}");
        let document = br#"{"toml":"[[hosts]]\nsecret = \"hunter2\""}"#;
        assert_eq!(
            without_secrets(document).as_deref(),
            Some(r#"{"toml":"…"}"#)
        );
    }

    #[test]
    fn a_body_that_is_no_json_or_is_long_is_told_by_its_length() {
        assert_eq!(without_secrets(b"").as_deref(), None);
        assert_eq!(without_secrets(b"null").as_deref(), None);
        assert_eq!(without_secrets(b"{secret").as_deref(), Some("\"7 bytes\""));
        assert_eq!(
            without_secrets(b"\"secret\"").as_deref(),
            Some("\"8 bytes\"")
        );
        let long = format!("[\"{}\"]", "x".repeat(MOST));
        assert_eq!(
            without_secrets(long.as_bytes()).as_deref(),
            Some("\"4100 bytes\"")
        );
    }
}
