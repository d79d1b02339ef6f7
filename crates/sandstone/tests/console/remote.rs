//! The command line and a console on another machine: which certificates it believes, what it
//! sends, and how the certificate is shown, given and made.

use std::fs;
use std::process::{Command, Output, Stdio};

use model::access::Role;
use testing::wait;

use super::html::coded;
use super::site::Site;

/// Runs the command line against the console over TLS, away from the daemon's folder.
fn remote(site: &Site, options: &[&str], words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .arg("--control")
        .arg(format!("https://{}", site.console))
        .args(options)
        .args(words)
        .current_dir(site.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn with<'a>(token: &[&'a str; 2], proof: [&'a str; 2]) -> Vec<&'a str> {
    [token[0], token[1], proof[0], proof[1]].to_vec()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn nothing_is_sent_to_a_console_that_is_not_proven() {
    let site = Site::start();
    let folder = site.folder.path();
    let path = |name: &str| folder.join(name).display().to_string();
    fs::write(path("token"), site.done("token add laptop --role admin")).unwrap();
    fs::write(path("ca.pem"), site.done("tls show --pem")).unwrap();
    let (token, ca) = (path("token"), path("ca.pem"));
    let token = ["--control-token", token.as_str()];
    let shown: serde_json::Value = serde_json::from_str(&site.done("tls show --json")).unwrap();
    let fingerprint = shown["fingerprint"].as_str().unwrap();
    let wrong = fingerprint.replace(['0', '1', '2'], "3");

    let unproven = remote(&site, &token, &["status"]);
    let told = text(&unproven.stderr);
    assert_eq!(unproven.status.code(), Some(1), "{told}");
    assert!(
        told.contains(fingerprint) && told.contains("nothing was sent"),
        "{told}"
    );
    let other = remote(
        &site,
        &with(&token, ["--control-fingerprint", &wrong]),
        &["status"],
    );
    assert!(
        text(&other.stderr).contains("not the one of --control-fingerprint"),
        "{other:?}"
    );
    let odd = remote(
        &site,
        &with(&token, ["--control-fingerprint", "abc"]),
        &["status"],
    );
    assert!(
        text(&odd.stderr).contains("is not a fingerprint"),
        "{odd:?}"
    );

    for proof in [
        ["--control-ca", ca.as_str()],
        ["--control-fingerprint", fingerprint],
    ] {
        let status = remote(&site, &with(&token, proof), &["status", "--json"]);
        assert!(status.status.success(), "{}", text(&status.stderr));
        let made = remote(
            &site,
            &with(&token, proof),
            &["lu", "create", "far", "--size", "1M", "--memory"],
        );
        assert!(made.status.success(), "{}", text(&made.stderr));
        let removed = remote(
            &site,
            &with(&token, proof),
            &["lu", "delete", "far", "--yes"],
        );
        assert!(removed.status.success(), "{}", text(&removed.stderr));
    }
    let nobody = remote(&site, &["--control-ca", ca.as_str()], &["status"]);
    assert!(
        text(&nobody.stderr).contains("does not say whose it is"),
        "{nobody:?}"
    );
    let noted = site.done("audit list -H -o who,by,attempt");
    assert!(
        noted.contains("laptop\ttoken\tsandstone lu create far --size 1M --memory"),
        "{noted}"
    );
    certificates_are_given_and_made(&site, fingerprint);
    a_certificate_that_ends_soon_is_an_alert(&site);
}

fn certificates_are_given_and_made(site: &Site, first: &str) {
    let state = site.state();
    let (cert, key) = (state.join("tls/cert.pem"), state.join("tls/key.pem"));
    let give = |cert: &std::path::Path, key: &std::path::Path| {
        let words = ["tls", "give", "--cert"].map(str::to_owned).into_iter();
        let words = words.chain([
            cert.display().to_string(),
            "--key".to_owned(),
            key.display().to_string(),
        ]);
        site.run(&words.collect::<Vec<_>>().join(" "))
    };
    let refused = give(&cert, &cert);
    assert!(
        text(&refused.stderr).contains("the key cannot be used"),
        "{refused:?}"
    );
    assert!(
        site.done("tls show").contains(first),
        "the present one stays"
    );
    let given = give(&cert, &key);
    assert!(
        text(&given.stdout).contains("given with sandstone tls give"),
        "{given:?}"
    );
    let made = site.done("tls make");
    assert!(
        made.contains("made by the daemon") && !made.contains(first),
        "{made}"
    );
    assert!(site.done("tls reload").contains("made by the daemon"));
    let audit = site.done("audit list -H -o attempt,result");
    assert!(audit.contains("sandstone tls make\tdone"), "{audit}");
}

/// A certificate of nine days and a half: the alert is there within seconds, and says what to do.
fn a_certificate_that_ends_soon_is_an_alert(site: &Site) {
    let alerts = || site.done("alert list --json");
    assert!(!alerts().contains("certificate-ends"), "{}", alerts());
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    // Whole days are told, so the end is not near the end of one.
    params.not_after = time::OffsetDateTime::now_utc() + time::Duration::hours(10 * 24 - 12);
    let certificate = params.self_signed(&key).unwrap();
    let folder = site.folder.path();
    fs::write(folder.join("short.pem"), certificate.pem()).unwrap();
    fs::write(folder.join("short.key"), key.serialize_pem()).unwrap();
    site.done("tls give --cert short.pem --key short.key");
    wait::until_seen("the alert comes", alerts, |told| {
        told.contains("certificate-ends")
    });
    let told = text(&site.run("status").stdout);
    assert!(told.contains("certificate-ends console"), "{told}");
    assert!(told.contains("It ends in 9 days"), "{told}");
    assert!(told.contains("sandstone tls give"), "{told}");
}

/// Returns the body of a form with a certificate and its key.
fn form(certificate: &str, key: &str) -> String {
    format!("certificate={}&key={}", coded(certificate), coded(key))
}

#[test]
fn the_certificate_is_shown_made_and_given_from_its_page() {
    let site = Site::start();
    site.add_user("ann", Role::Admin);
    let admin = site.token("boss", "--role admin");
    let viewer = site.token("reader", "--role viewer");
    let fingerprint = || -> String {
        let shown: serde_json::Value = serde_json::from_str(&site.done("tls show --json")).unwrap();
        shown["fingerprint"].as_str().unwrap().to_owned()
    };
    let first = fingerprint();
    let page = site.get("/certificate", &viewer);
    assert!(page.page().contains(&first), "{page:?}");
    assert!(!page.body.contains("/certificate/make"), "{page:?}");
    assert_eq!(site.post("/certificate/make", &viewer, "").status, 403);

    let asks = site.post("/certificate/make", &admin, "");
    assert!(asks.body.contains("refuse the console until"), "{asks:?}");
    assert_eq!(fingerprint(), first, "nothing was confirmed");
    let made = site.post("/certificate/make", &admin, "confirmed=yes");
    assert_eq!(made.header("location"), Some("/certificate"), "{made:?}");
    let second = fingerprint();
    assert_ne!(second, first);
    let page = site.get("/certificate", &viewer);
    assert!(page.body.contains(&second), "{page:?}");
    assert!(
        page.body.contains("this machine, which made it"),
        "{page:?}"
    );

    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let (key, other) = (key.serialize_pem(), other.serialize_pem());
    let secret = |pem: &str| pem.lines().nth(1).unwrap().to_owned();
    let refused = site.post("/certificate/give", &admin, &form(&certificate, &other));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body.contains("What was refused"), "{refused:?}");
    assert!(!refused.body.contains(&secret(&other)), "a key is shown");
    assert_eq!(fingerprint(), second, "the present one stays");
    let given = site.post("/certificate/give", &admin, &form(&certificate, &key));
    assert_eq!(given.status, 303, "{given:?}");
    let page = site.get("/certificate", &admin);
    assert!(
        page.body.contains("an administrator, who gave it"),
        "{page:?}"
    );
    assert!(!page.body.contains(&secret(&key)), "a key is shown");
    assert_ne!(fingerprint(), second);
    let audit = site.done("audit list --json");
    assert!(
        !audit.contains(&secret(&key)) && !audit.contains(&secret(&other)),
        "{audit}"
    );
    let unread = site.post("/certificate/reload", &viewer, "");
    assert_eq!(unread.status, 403);
}
