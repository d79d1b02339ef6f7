//! Entry: the first admin, logging in and out, and the second factor.

use model::access::{AddUser, Password, Role};

use crate::rig::{Site, Who};

const PASSWORD: &str = "four words are long";

fn add_user(site: &Site, name: &str, role: Role) {
    let request = AddUser {
        name: name.to_owned(),
        role,
        password: Password(PASSWORD.to_owned()),
    };
    site.plane.access.add_user(&request).expect("a user");
}

fn log_in(site: &Site, who: &Who) -> Who {
    let form = format!(
        "name=ann&password={}&next=%2Funits",
        PASSWORD.replace(' ', "+")
    );
    let reply = site.post("/login", who, &form);
    assert_eq!(reply.status, 303, "{reply:?}");
    assert_eq!(reply.header("location"), Some("/units"));
    Who::Cookie(reply.login())
}

#[test]
fn nothing_is_shown_before_the_first_admin() {
    let site = Site::empty();
    let secret = site.plane.access.first_link().expect("a link");
    for path in ["/", "/login", "/units", "/v1/live?view=units", "/enter/x"] {
        let reply = site.get(path, &Who::Nobody);
        assert_eq!(reply.status, 503, "{path}");
        assert!(reply.body.contains("No administrator yet"), "{path}");
        assert!(!reply.body.contains(&secret), "{path}");
    }
    assert_eq!(site.get("/first/wrong", &Who::Nobody).status, 401);
    let link = format!("/first/{secret}");
    for _ in 0..2 {
        let reply = site.get(&link, &Who::Nobody);
        assert_eq!(reply.status, 200);
        assert!(reply.body.contains("name=\"password\""), "{reply:?}");
    }
    let differs = site.post(
        &link,
        &Who::Nobody,
        "name=ann&password=four+words+are+long&again=x",
    );
    assert_eq!(differs.status, 400);
    assert!(differs.body.contains("two passwords differ"), "{differs:?}");
    let short = site.post(&link, &Who::Nobody, "name=ann&password=x&again=x");
    assert_eq!(short.status, 400);
    let form = "name=ann&password=four+words+are+long&again=four+words+are+long";
    let added = site.post(&link, &Who::Nobody, form);
    assert_eq!(added.status, 303, "{added:?}");
    let overview = site.get("/", &Who::Cookie(added.login()));
    assert_eq!(overview.status, 200);
    assert!(overview.body.contains("ann"), "{overview:?}");
    assert_ne!(
        site.get(&link, &Who::Nobody).status,
        200,
        "the link has ended"
    );
    assert_eq!(site.get("/login", &Who::Nobody).status, 200);
}

#[test]
fn a_login_has_a_new_secret_and_ends_the_one_before() {
    let site = Site::with_one_of_each();
    add_user(&site, "ann", Role::Viewer);
    let planted = Who::Cookie("planted".to_owned());
    let first = log_in(&site, &planted);
    assert_eq!(site.get("/units", &first).status, 200);
    assert_eq!(site.get("/units", &planted).status, 303);
    let second = log_in(&site, &first);
    assert_eq!(site.get("/units", &second).status, 200);
    assert_eq!(
        site.get("/units", &first).status,
        303,
        "the login before has ended"
    );
    let out = site.post("/logout", &second, "");
    assert_eq!(out.header("location"), Some("/login"));
    assert_eq!(site.get("/units", &second).status, 303);
}

#[test]
fn the_cookie_stays_with_this_host_and_away_from_scripts() {
    let site = Site::with_one_of_each();
    let secret = site.plane.access.demo_link().expect("a link");
    let reply = site.get(&format!("/enter/{secret}"), &Who::Nobody);
    let cookie = reply.header("set-cookie").expect("a cookie");
    assert!(cookie.starts_with("__Host-sandstone="), "{cookie}");
    for part in ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    assert_eq!(site.get("/enter/wrong", &Who::Nobody).status, 401);
}

#[test]
fn a_wrong_login_is_refused_in_words_that_tell_nothing() {
    let site = Site::with_one_of_each();
    add_user(&site, "ann", Role::Viewer);
    let texts = [
        "name=ann&password=wrong",
        "name=%3Cscript%3Ealert(1)%3C/script%3E&password=wrong",
    ];
    for form in texts {
        let reply = site.post("/login", &Who::Nobody, form);
        assert_eq!(reply.status, 401);
        assert!(
            reply
                .body
                .contains("the name, the password or the code is wrong"),
            "{reply:?}"
        );
        assert!(!reply.body.contains("<script>alert"), "{reply:?}");
        assert!(!reply.body.contains("value=\"wrong\""), "{reply:?}");
    }
    let admin = site.token(Role::Admin);
    let audit = site.get("/audit", &admin);
    assert!(audit.body.contains("&lt;script&gt;alert"), "{audit:?}");
    assert!(!audit.body.contains("<script>alert"), "{audit:?}");
}

#[test]
fn a_login_leads_back_and_never_to_another_site() {
    let site = Site::with_one_of_each();
    let asked = site.get("/units?sort=-p99", &Who::Nobody);
    assert_eq!(
        asked.header("location"),
        Some("/login?next=%2Funits%3Fsort%3D-p99")
    );
    let page = site.get("/login?next=//evil.example/", &Who::Nobody);
    assert!(page.body.contains("name=\"next\" value=\"/\""), "{page:?}");
}

#[test]
fn a_reader_sets_up_a_second_factor_and_ends_other_logins() {
    let site = Site::with_one_of_each();
    add_user(&site, "ann", Role::Viewer);
    let (here, there) = (log_in(&site, &Who::Nobody), log_in(&site, &Who::Nobody));
    let page = site.get("/me/second-factor", &here);
    assert!(page.body.contains("<svg class=\"qr\""), "{page:?}");
    assert!(page.body.contains("otpauth://totp/"), "{page:?}");
    let wrong = "secret=JBSWY3DPEHPK3PXP&password=four+words+are+long&code=000000x";
    assert_eq!(site.post("/me/second-factor", &here, wrong).status, 400);
    assert_eq!(site.get("/units", &there).status, 200);
    assert_eq!(site.post("/me/logins", &here, "").status, 303);
    assert_eq!(site.get("/units", &there).status, 303);
    assert_eq!(site.get("/units", &here).status, 200);
}
