//! A command line as the user typed it, in words that a shell takes. The history of pools keeps it.

use std::ffi::OsString;
use std::path::Path;

use backends::locate;

/// Options that only name the daemon and not its work.
const OF_CONNECTION: [&str; 5] = [
    "--state",
    "--control",
    "--control-token",
    "--control-ca",
    "--control-fingerprint",
];

/// Options whose value is a secret. The history goes wherever the pool goes, so it must hold no
/// secret.
const SECRET: [&str; 2] = ["--key", "--url"];
/// Word in place of a secret.
const REDACTED: &str = "...";

/// Returns a command line as one text, without secrets.
pub(crate) fn line(args: &[OsString]) -> String {
    let mut words = args.iter().map(|word| word.to_string_lossy());
    let program = words.next().unwrap_or_default();
    let program = Path::new(program.as_ref()).file_name();
    let mut line = program.unwrap_or_default().to_string_lossy().into_owned();
    while let Some(word) = words.next() {
        if OF_CONNECTION.contains(&word.as_ref()) {
            words.next();
            continue;
        }
        let option = word.split('=').next().unwrap_or_default();
        if OF_CONNECTION.contains(&option) {
            continue;
        }
        line.push(' ');
        if !SECRET.contains(&option) {
            line.push_str(&quoted(&without_secrets(&word)));
            continue;
        }
        line.push_str(option);
        match word.contains('=') {
            true => line.push('='),
            false => {
                words.next();
                line.push(' ');
            }
        }
        line.push_str(REDACTED);
    }
    line
}

/// Returns a word without the secrets that a URL may hold, before its host and among its options.
fn without_secrets(word: &str) -> String {
    let begin = word
        .split_once("://")
        .and_then(|(scheme, _)| scheme.rfind('='));
    let (option, what) = word.split_at(begin.map_or(0, |at| at + 1));
    let options = locate::shown_options(what).into_iter();
    let options: Vec<String> = options
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let options = match options.is_empty() {
        true => String::new(),
        false => format!("?{}", options.join("&")),
    };
    format!("{option}{}{options}", locate::shown(what))
}

/// Returns a word, in quotes if a shell would otherwise read it differently.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |of: char| of.is_alphanumeric() || "_@%+=:,./-".contains(of);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_typed_again() {
        let line = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            line(&words)
        };
        let words = [
            "/usr/bin/sandstone",
            "--state",
            "/s",
            "pool",
            "create",
            "tank",
            "/a b",
        ];
        assert_eq!(line(&words), "sandstone pool create tank '/a b'");
        let words = [
            "sandstone",
            "volume",
            "set",
            "--control=x",
            "my:note=it's",
            "tank/v",
            "",
        ];
        assert_eq!(
            line(&words),
            r"sandstone volume set 'my:note=it'\''s' tank/v ''"
        );
        assert_eq!(line(&[]), "");
    }

    #[test]
    fn urls_have_no_secrets_and_other_words_stay_as_they_are() {
        for (word, told) in [
            (
                "iscsi://me%5ca1ab1e@h/iqn.a:b/0?psp=rr&target_password=5ca1ab1e",
                "iscsi://h/iqn.a:b/0?psp=rr&target_password=…",
            ),
            (
                "--backend=iscsi://me%5ca1ab1e@h/iqn.a:b/0",
                "--backend=iscsi://h/iqn.a:b/0",
            ),
            ("iqn.1994-05.com.redhat:a?*", "iqn.1994-05.com.redhat:a?*"),
            ("tank/v@monday", "tank/v@monday"),
            ("my:note=a?b", "my:note=a?b"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(word), told);
        }
    }

    #[test]
    fn secrets_are_left_out() {
        for words in [
            &[
                "sandstone",
                "volume",
                "receive",
                "--key",
                "5ca1ab1e",
                "tank/v",
            ][..],
            &["sandstone", "volume", "receive", "--key=5ca1ab1e", "tank/v"],
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let line = line(&words);
            assert!(!line.contains("5ca1ab1e"), "{line}");
            assert!(line.contains("--key") && line.ends_with("tank/v"), "{line}");
        }
    }
}
