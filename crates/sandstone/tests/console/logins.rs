//! Logins under attack: fixed sessions, guessed passwords, names that are found out, and hosts that
//! are not this one.

use model::access::Role;

use super::html::coded;
use super::site::{PASSWORD, Site, Who};

fn is_in(site: &Site, who: &Who) -> bool {
    site.get("/units", who).status == 200
}

#[test]
fn logins_are_new_end_with_what_they_rest_on_and_are_not_guessed() {
    let site = Site::start();
    site.add_user("adam", Role::Admin);
    site.add_user("ann", Role::Viewer);
    site.add_user("quentin", Role::Viewer);
    site.done("user modify quentin --disabled yes");
    a_planted_cookie_becomes_no_login(&site);
    a_login_ends_with_its_password_and_its_role(&site);
    answers_tell_no_names(&site);
    other_hosts_are_refused(&site);
    guesses_are_counted_by_name_and_by_address(&site);
}

fn a_planted_cookie_becomes_no_login(site: &Site) {
    let planted = Who::Cookie("planted".to_owned());
    let reply = site.try_in("ann", PASSWORD, &planted);
    let login = reply.login().unwrap();
    assert_ne!(login, "planted");
    assert_eq!(login.len(), 64, "256 random bits");
    let cookie = reply.header("set-cookie").unwrap();
    for part in [
        "__Host-",
        "; Path=/",
        "; Secure",
        "; HttpOnly",
        "; SameSite=Strict",
    ] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!is_in(site, &planted));
    let ann = Who::Cookie(login);
    assert!(is_in(site, &ann));
    site.post("/logout", &ann, "");
    assert!(!is_in(site, &ann));
}

fn a_login_ends_with_its_password_and_its_role(site: &Site) {
    let by_role = site.log_in("ann");
    assert!(is_in(site, &by_role));
    site.done("user modify ann --role operator");
    assert!(!is_in(site, &by_role), "it had another role");
    let same = site.log_in("ann");
    site.done("user modify ann --role operator");
    assert!(is_in(site, &same), "nothing changed");
    let file = site.folder.path().join("password").display().to_string();
    site.done(&format!("user modify ann --password-file {file}"));
    assert!(!is_in(site, &same), "it had another password");
    let disabled = site.log_in("ann");
    site.done("user modify ann --disabled yes");
    assert!(!is_in(site, &disabled));
}

/// A wrong password, an unknown name and a disabled user have the same answer, letter for letter.
fn answers_tell_no_names(site: &Site) {
    let mut answers = Vec::new();
    for (name, password) in [
        ("adam", "wrong wrong wrong"),
        ("nobody-of-this-name", "wrong wrong wrong"),
        ("quentin", PASSWORD),
    ] {
        let reply = site.try_in(name, password, &Who::Nobody);
        assert_eq!((reply.status, reply.login()), (401, None), "{reply:?}");
        // The name stands in its field again, and nowhere else.
        answers.push(reply.body.replace(name, "NAME"));
    }
    assert!(answers.iter().all(|it| *it == answers[0]), "{answers:#?}");
}

/// A page of another site may lead its own name to this address. It gets nothing.
fn other_hosts_are_refused(site: &Site) {
    for host in [
        "evil.example",
        "evil.example:8443",
        "",
        "127.0.0.1.evil.example",
    ] {
        let request = format!("GET /login HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let reply = raw(site, &request);
        assert!(reply.starts_with("HTTP/1.1 421"), "{host:?}: {reply}");
        assert!(!reply.contains("password"), "{host:?}: {reply}");
    }
    let two =
        "GET /login HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert!(raw(site, two).starts_with("HTTP/1.1 421"));
}

fn raw(site: &Site, request: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = site.connect();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Even the right password has to wait after some failures; known and unknown names alike.
fn guesses_are_counted_by_name_and_by_address(site: &Site) {
    let attempt = |name: &str, password: &str| {
        let form = format!("name={name}&password={}", coded(password));
        site.post("/login", &Who::Nobody, &form)
    };
    let mut statuses = Vec::new();
    for number in 0..12 {
        statuses.push(attempt("adam", &format!("guess number {number}")).status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(!statuses.contains(&303), "{statuses:?}");
    for name in ["adam", "nobody-of-this-name"] {
        let reply = attempt(name, PASSWORD);
        assert_eq!(
            (reply.status, reply.login()),
            (429, None),
            "{name}: {reply:?}"
        );
    }
    let audit = site.done("audit list -H -o who,result");
    assert!(
        audit.contains("adam\tnot admitted: wrong password"),
        "{audit}"
    );
    assert!(audit.contains("not admitted: no such user"), "{audit}");
}
