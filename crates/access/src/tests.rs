//! Tests of users, tokens, logins and roles together.

use std::fs;

use model::access::{AddToken, AddUser, FolderGrant, ModifyUser, Password};

use super::*;

const GOOD: &str = "four words are long";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn opened(state: &Path) -> Access {
    let key = SecretKey::open(state).expect("random bytes");
    Access::open(state, 900, Arc::new(key))
}

fn user(name: &str, role: Role) -> AddUser {
    AddUser {
        name: name.to_owned(),
        role,
        password: Password(GOOD.to_owned()),
    }
}

fn attempt<'a>(user: &'a str, password: &'a str, code: &'a str) -> Attempt<'a> {
    Attempt {
        user,
        password,
        code,
        from: None,
    }
}

fn account(uid: u32, name: &str, groups: &[&str]) -> Account {
    Account {
        uid,
        name: name.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
    }
}

fn token(name: &str) -> AddToken {
    AddToken {
        name: name.to_owned(),
        role: Role::Admin,
        grant: None,
        days: None,
    }
}

#[test]
fn roles_at_the_socket_come_from_names_and_groups() {
    let state = folder();
    let access = opened(state.path());
    let role = |access: &Access, account: &Account| access.at_socket(account).map(|it| it.role);
    let ann = account(7, "ann", &["staff"]);
    for (admin, uid) in [("root", 0), ("daemon", 900)] {
        assert_eq!(role(&access, &account(uid, admin, &[])), Ok(Role::Admin));
    }
    assert_eq!(
        role(&access, &account(7, "ann", &[ADMINS])),
        Ok(Role::Admin)
    );
    let error = role(&access, &ann).expect_err("no role");
    assert!(error.next.contains("sandstone role set ann"), "{error}");
    let given = |kind, name: &str, role| SocketRole {
        kind,
        name: name.to_owned(),
        role,
    };
    let group = given(AccountKind::Group, "staff", Role::Operator);
    access.set_socket_role(group).expect("kept");
    let viewer = given(AccountKind::User, "ann", Role::Viewer);
    access.set_socket_role(viewer).expect("kept");
    let access = opened(state.path());
    assert_eq!(
        role(&access, &ann),
        Ok(Role::Operator),
        "the highest counts"
    );
    access
        .remove_socket_role(AccountKind::Group, "staff")
        .expect("was there");
    assert_eq!(role(&access, &ann), Ok(Role::Viewer));
    access
        .remove_socket_role(AccountKind::Group, "ann")
        .expect_err("ann is no group");
    let hostile = given(AccountKind::User, "a\nb", Role::Admin);
    access
        .set_socket_role(hostile)
        .expect_err("cannot be a name");
}

#[test]
fn a_user_logs_in_with_the_right_password_until_it_changes() {
    let state = folder();
    let access = opened(state.path());
    access.add_user(&user("ann", Role::Admin)).expect("added");
    access.add_user(&user("bob", Role::Viewer)).expect("added");
    access
        .add_user(&user("ann", Role::Viewer))
        .expect_err("is there");
    let access = opened(state.path());
    let secret = access
        .log_in(&attempt("ann", GOOD, ""))
        .expect("is right")
        .secret;
    let principal = access.of_login(&secret, None).expect("has not ended");
    assert_eq!(
        (principal.name.as_str(), principal.role),
        ("ann", Role::Admin)
    );
    for (user, password) in [("ann", "wrong password"), ("eve", GOOD)] {
        let error = access
            .log_in(&attempt(user, password, ""))
            .err()
            .expect("is wrong");
        assert_eq!(error.kind, ErrorKind::NotAuthenticated);
        assert!(
            error.message.starts_with("not admitted"),
            "the words tell nothing: {error}"
        );
    }
    let demoted = ModifyUser {
        role: Some(Role::Viewer),
        ..ModifyUser::default()
    };
    let error = access
        .modify_user("ann", &demoted)
        .expect_err("the last admin");
    assert_eq!(error.kind, ErrorKind::Refused);
    let promoted = ModifyUser {
        role: Some(Role::Admin),
        ..ModifyUser::default()
    };
    access.modify_user("bob", &promoted).expect("promoted");
    access
        .modify_user("ann", &demoted)
        .expect("another admin is there");
    let ended = access.of_login(&secret, None);
    assert!(ended.is_err(), "it had another role");
    let secret = access
        .log_in(&attempt("ann", GOOD, ""))
        .expect("again")
        .secret;
    let ann = access.of_login(&secret, None).expect("begun");
    assert_eq!(ann.role, Role::Viewer);
    access
        .change_password("ann", "wrong password", "five words are longer")
        .expect_err("is wrong");
    access
        .change_password("ann", GOOD, "five words are longer")
        .expect("changed");
    assert!(access.of_login(&secret, None).is_err(), "the login ended");
    access.remove_user("bob").expect_err("the last admin");
    access.remove_user("ann").expect("removed");
    let text = fs::read_to_string(state.path().join("access.json")).expect("reads");
    assert!(!text.contains(GOOD));
}

#[test]
fn a_disabled_user_is_out_at_once() {
    let state = folder();
    let access = opened(state.path());
    access.add_user(&user("ann", Role::Admin)).expect("added");
    access
        .add_user(&user("bob", Role::Operator))
        .expect("added");
    let secret = access
        .log_in(&attempt("bob", GOOD, ""))
        .expect("is right")
        .secret;
    let disabled = ModifyUser {
        is_disabled: Some(true),
        ..ModifyUser::default()
    };
    access.modify_user("bob", &disabled).expect("disabled");
    assert!(access.of_login(&secret, None).is_err());
    assert!(access.log_in(&attempt("bob", GOOD, "")).is_err());
    let line = &access.audit_lines(None, 1).expect("reads")[0];
    assert_eq!(
        (line.who.as_str(), line.result.as_str()),
        ("bob", "not admitted: the user is disabled")
    );
}

#[test]
fn guessing_is_slowed_down() {
    let state = folder();
    let access = opened(state.path());
    access.add_user(&user("ann", Role::Admin)).expect("added");
    let kinds: Vec<ErrorKind> = (0..4)
        .map(|_| {
            access
                .log_in(&attempt("ann", "wrong password", ""))
                .err()
                .expect("is wrong")
                .kind
        })
        .collect();
    let wrong = ErrorKind::NotAuthenticated;
    assert_eq!(kinds, [wrong, wrong, wrong, ErrorKind::TooMany]);
    // Even the right password waits, or else the wait would tell which one it is.
    let error = access
        .log_in(&attempt("ann", GOOD, ""))
        .err()
        .expect("waits");
    assert_eq!(error.kind, ErrorKind::TooMany);
}

#[test]
fn the_first_link_adds_one_admin_and_ends() {
    let state = folder();
    let access = opened(state.path());
    let link = access.first_link().expect("there is no user");
    assert!(access.waits_for_first() && access.is_first_link(&link));
    access
        .add_first("wrong", "ann", GOOD, None)
        .err()
        .expect("another link");
    access
        .add_first(&link, "ann", "short", None)
        .err()
        .expect("a weak password");
    let secret = access
        .add_first(&link, "ann", GOOD, None)
        .expect("added")
        .secret;
    assert_eq!(
        access.of_login(&secret, None).expect("logged in").role,
        Role::Admin
    );
    assert!(!access.waits_for_first() && !access.is_first_link(&link));
    access
        .add_first(&link, "eve", GOOD, None)
        .err()
        .expect("it has ended");
    let again = opened(state.path());
    assert_eq!(again.first_link(), None);
}

#[test]
fn a_demos_link_logs_in_and_no_other_start_knows_it() {
    let state = folder();
    let access = opened(state.path());
    let link = access.demo_link().expect("a link");
    for _ in 0..2 {
        let secret = access.enter(&link, None).expect("is right").secret;
        assert_eq!(
            access.of_login(&secret, None).expect("logged in").role,
            Role::Admin
        );
    }
    assert!(access.enter("", None).is_err());
    assert!(opened(state.path()).enter(&link, None).is_err());
}

#[test]
fn a_token_works_until_it_is_removed_and_is_kept_as_a_digest() {
    let state = folder();
    let access = opened(state.path());
    let made = access.add_token(&token("pve"), "root").expect("added");
    access
        .add_token(&token("pve"), "root")
        .expect_err("is there");
    let access = opened(state.path());
    let principal = access.of_token(&made.token, None).expect("is right");
    assert_eq!(
        (principal.name.as_str(), principal.role),
        ("pve", Role::Admin)
    );
    assert!(access.tokens()[0].last_used.is_some());
    for wrong in ["", "sst_", &made.token[..made.token.len() - 1]] {
        let error = access.of_token(wrong, None).expect_err("is wrong");
        assert_eq!(error.kind, ErrorKind::NotAuthenticated);
    }
    let text = fs::read_to_string(state.path().join("access.json")).expect("reads");
    assert!(!text.contains(&made.token[4..]));
    access.remove_token("pve").expect("removed");
    assert!(access.of_token(&made.token, None).is_err());
    access.remove_token("pve").expect_err("is gone");
}

#[test]
fn a_token_ends_at_its_time() {
    let state = folder();
    let access = opened(state.path());
    let ends = AddToken {
        days: Some(1),
        ..token("ends")
    };
    let made = access.add_token(&ends, "root").expect("added");
    access.of_token(&made.token, None).expect("has a day");
    let past = |records: &mut Records| {
        records.tokens[0].expires = Some(unix_now());
        Ok(())
    };
    access.change(past).expect("kept");
    let error = access.of_token(&made.token, None).expect_err("has ended");
    assert!(error.message.contains("ends has ended"), "{error}");
    let never = AddToken {
        days: Some(0),
        ..token("zero")
    };
    access
        .add_token(&never, "root")
        .expect_err("has ended already");
}

#[test]
fn a_limit_names_a_folder_below_a_pool() {
    let state = folder();
    let access = opened(state.path());
    let limited = |folder: &str, role| AddToken {
        role,
        grant: Some(FolderGrant {
            folder: folder.to_owned(),
            hosts: Vec::new(),
        }),
        ..token("pve")
    };
    for wrong in ["tank", "", "tank/", "/pve", "tank//a", "tank/a@b"] {
        access
            .add_token(&limited(wrong, Role::Admin), "root")
            .expect_err(wrong);
    }
    access
        .add_token(&limited("tank/pve", Role::Operator), "root")
        .expect_err("no such role");
    access
        .add_token(&limited("tank/pve", Role::Viewer), "root")
        .expect("added");
}

#[test]
fn nobody_is_let_in_by_records_of_which_the_newest_are_lost() {
    let state = folder();
    let access = opened(state.path());
    let made = access.add_token(&token("old"), "root").expect("added");
    access.remove_token("old").expect("removed");
    drop(access);
    // The file alone is damaged: its copy counts.
    let path = state.path().join("access.json");
    fs::write(&path, "damaged").expect("written");
    let access = opened(state.path());
    assert_eq!(access.notices().len(), 1);
    assert!(access.of_token(&made.token, None).is_err());
    // The copy is damaged too: the older one still has the token.
    fs::write(&path, "damaged").expect("written");
    let copies = fs::read_dir(state.path().join("history")).expect("reads");
    let newest = copies
        .map(|entry| entry.expect("an entry").path())
        .max()
        .expect("a copy");
    fs::write(newest, "damaged").expect("written");
    let access = opened(state.path());
    assert!(
        access.notices()[0].contains("sandstone user add"),
        "{:?}",
        access.notices()
    );
    assert!(access.of_token(&made.token, None).is_err());
    assert_eq!(
        access.first_link(),
        None,
        "nobody opens the console by a first link"
    );
    let root = account(0, "root", &[]);
    assert_eq!(access.at_socket(&root).map(|it| it.role), Ok(Role::Admin));
    access
        .add_token(&token("new"), "root")
        .expect("works again");
}

#[test]
fn a_standing_ends_with_its_login_its_user_and_its_token() {
    let state = folder();
    let access = opened(state.path());
    access
        .add_user(&user("ann", Role::Operator))
        .expect("added");
    let login = access.log_in(&attempt("ann", GOOD, "")).expect("right");
    let ann = access.of_login(&login.secret, None).expect("it is open");
    assert_eq!(access.standing(&ann), Some(Role::Operator));
    let viewer = ModifyUser {
        role: Some(Role::Viewer),
        ..ModifyUser::default()
    };
    access.add_user(&user("bob", Role::Admin)).expect("added");
    access.modify_user("ann", &viewer).expect("changed");
    assert_eq!(access.standing(&ann), None, "it had another role");

    let added = access.add_token(&token("backup"), "ann").expect("added");
    let backup = access.of_token(&added.token, None).expect("a token");
    assert_eq!(access.standing(&backup), Some(Role::Admin));
    access.remove_token("backup").expect("it was there");
    assert_eq!(access.standing(&backup), None);
}

/// Adds ann with a second factor. Returns its secret and a recovery code.
fn enrolled(access: &Access) -> (String, String) {
    access.add_user(&user("ann", Role::Admin)).expect("added");
    let secret = Enrolment::new("ann", "san1").expect("random bytes").secret;
    let code = second_factor::tests::code(&secret, unix_now());
    let codes = access.enrol("ann", GOOD, &secret, &code);
    (secret, codes.expect("the code is right").remove(0))
}

/// Returns the code after the present one, which is not used up and is accepted already.
fn next_code(secret: &str) -> String {
    second_factor::tests::code(secret, unix_now() + 30)
}

/// Returns everything that lies in the state folder, as one text.
fn all_files(folder: &Path) -> String {
    let files = fs::read_dir(folder).expect("reads");
    let texts = files.map(|entry| {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => all_files(&path),
            false => String::from_utf8_lossy(&fs::read(path).expect("reads")).into_owned(),
        }
    });
    texts.collect()
}

#[test]
fn a_second_factor_lies_sealed_and_outlives_a_restart() {
    let state = folder();
    let (secret, _) = enrolled(&opened(state.path()));
    assert!(!all_files(state.path()).contains(&secret));
    let access = opened(state.path());
    assert_eq!(access.notices(), [""; 0]);
    access
        .log_in(&attempt("ann", GOOD, &next_code(&secret)))
        .expect("the key is there");
}

#[test]
fn second_factors_of_an_older_version_are_sealed_in_all_copies() {
    let state = folder();
    opened(state.path())
        .add_user(&user("ann", Role::Admin))
        .expect("added");
    let secret = Enrolment::new("ann", "san1").expect("random bytes").secret;
    let now = unix_now();
    let code = second_factor::tests::code(&secret, now);
    let factor = second_factor::SecondFactor::enrol(&secret, &code, now);
    let (factor, _) = factor.expect("the code is right");
    // Two generations of an older version, which did not seal.
    let mut file = state_folder::KeptFile::at(state.path().join("access.json"), 4);
    let found = file.load(|bytes| state_folder::open_json::<Records>("access", bytes));
    let (generation, mut records) = found.content.expect("was kept");
    records.users[0].second_factor = Some(factor);
    for generation in [generation + 1, generation + 2] {
        let bytes = state_folder::seal_json("access", generation, &records).expect("JSON");
        file.save(generation, &bytes).expect("saved");
    }
    assert!(all_files(state.path()).contains(&secret));
    let access = opened(state.path());
    assert!(!all_files(state.path()).contains(&secret));
    access
        .log_in(&attempt("ann", GOOD, &next_code(&secret)))
        .expect("the factor is the same");
}

#[test]
fn a_second_factor_of_another_key_is_told_and_takes_recovery_codes_alone() {
    let state = folder();
    let (secret, recovery) = enrolled(&opened(state.path()));
    let places = ["secrets.key", "history/secrets.key"].map(|name| state.path().join(name));
    let key = fs::read(&places[0]).expect("reads");
    for place in &places {
        fs::write(place, "00".repeat(32)).expect("written");
    }
    let access = opened(state.path());
    let notices = access.notices();
    assert!(
        notices.len() == 1
            && notices[0].contains("second factors of ann")
            && notices[0].contains("secrets.key")
            && notices[0].contains("sandstone user modify"),
        "{notices:?}"
    );
    let refused = access.log_in(&attempt("ann", GOOD, &next_code(&secret)));
    let error = refused.err().expect("nobody can check the code");
    assert!(error.message.starts_with("not admitted"), "{error}");
    let line = &access.audit_lines(None, 1).expect("reads")[0];
    assert_eq!(
        line.result,
        "not admitted: the key does not open the second factor"
    );
    access
        .log_in(&attempt("ann", GOOD, &recovery))
        .expect("needs no key");
    // With the right key the factor is back: nothing was lost by saving without it.
    fs::write(&places[0], key).expect("written");
    let access = opened(state.path());
    assert_eq!(access.notices(), [""; 0]);
    access
        .log_in(&attempt("ann", GOOD, &next_code(&secret)))
        .expect("the key is back");
}
