//! Old targets that refuse a list with an unknown value instead of choosing from it.
//!
//! A second attempt offers less, but never a weaker proof of identity.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use iscsi::chap::ChapCredential;
use iscsi::pdu::LoginStatus;
use iscsi::target::login::Authentication;

use super::{front, run};
use crate::initiator::fake_target::{Admission, FakeTarget, NAME, World, allowed};

/// Target that demands CHAP, and the offers that it received: the values of AuthMethod and CHAP_A.
struct Array {
    fake: FakeTarget,
    offered: Arc<Mutex<Vec<String>>>,
    folder: tempfile::TempDir,
}

impl Array {
    /// Returns an array that answers each CHAP_A with the result of `meet`.
    fn new(meet: impl Fn(&str) -> Admission + Send + Sync + 'static) -> Self {
        let fake = FakeTarget::honest(World::of(&[1 << 20]));
        fake.tell(format!("TargetName={NAME}\0").as_bytes());
        fake.authorize(allowed(Authentication::Chap {
            initiator: ChapCredential {
                name: "nasuser".into(),
                secret: b"nas-secret-1234".to_vec(),
            },
            target: None,
        }));
        let offered = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&offered);
        fake.guard(move |_, text| {
            let mut admission = Admission::Usual;
            for pair in text.split(' ') {
                if pair.starts_with("AuthMethod=") || pair.starts_with("CHAP_A=") {
                    noted.lock().unwrap().push(pair.to_owned());
                }
                if let Some(algorithms) = pair.strip_prefix("CHAP_A=") {
                    admission = meet(algorithms);
                }
            }
            admission
        });
        let folder = tempfile::tempdir().unwrap();
        Self {
            fake,
            offered,
            folder,
        }
    }

    fn secret(&self, secret: &str) -> PathBuf {
        let path = self.folder.path().join("secret");
        std::fs::write(&path, secret).unwrap();
        path
    }

    fn discover(&self, secret: &str, options: &str) -> super::Ran {
        let file = self.secret(secret);
        let (portal, file) = (self.fake.address, file.display());
        run(
            self.folder.path(),
            &format!("initiator discover {portal} -H -u nasuser --secret-file {file} {options}"),
        )
    }

    fn offered(&self) -> Vec<String> {
        std::mem::take(&mut *self.offered.lock().unwrap())
    }
}

const SECRET: &str = "nas-secret-1234";

fn md5_alone(otherwise: Admission) -> impl Fn(&str) -> Admission {
    move |algorithms| match algorithms {
        "5" => Admission::Usual,
        _ => otherwise,
    }
}

#[test]
fn a_target_that_takes_md5_alone_is_logged_in_to_at_a_second_attempt() {
    for otherwise in [
        Admission::Refused(LoginStatus::AUTHENTICATION_FAILURE),
        Admission::Refused(LoginStatus::INITIATOR_ERROR),
        Admission::Closed,
    ] {
        let array = Array::new(md5_alone(otherwise));
        let ran = array.discover(SECRET, "");
        let portal = array.fake.address;
        assert_eq!(ran.out, format!("{NAME}\t{portal}\t1\n"), "{ran:?}");
        assert!(
            ran.err
                .contains("offered only AuthMethod=CHAP and CHAP_A=5"),
            "{ran:?}"
        );
        let attempts = [
            "AuthMethod=CHAP,None",
            "CHAP_A=8,6,5,7",
            "AuthMethod=CHAP",
            "CHAP_A=5",
        ];
        assert_eq!(array.offered(), attempts, "{otherwise:?}");
        let front = front();
        let file = array.secret(SECRET);
        let login = format!(
            "initiator login {NAME} --portal {portal} -u nasuser --secret-file {}",
            file.display()
        );
        assert!(
            run(front.folder(), &login)
                .good()
                .contains("logged in, 1 LUN")
        );
        assert_eq!(array.offered(), attempts, "{otherwise:?}");
        // The next session begins with the offer that was taken.
        array.fake.cut();
        super::until(front.folder(), "initiator session list -H -o logins", "2");
        assert_eq!(array.offered(), ["AuthMethod=CHAP", "CHAP_A=5"]);
    }
}

#[test]
fn two_failed_attempts_are_both_named() {
    let refused = Admission::Refused(LoginStatus::AUTHENTICATION_FAILURE);
    let array = Array::new(move |_| refused);
    let error = array.discover(SECRET, "").bad();
    let words = "authentication failure (0x0201); another attempt that offered only AuthMethod=CHAP and CHAP_A=5 failed too: the target refused the login: authentication failure (0x0201)";
    assert!(error.contains(words), "{error}");
    assert_eq!(array.offered().len(), 4);
    let front = front();
    let (portal, file) = (array.fake.address, array.secret(SECRET));
    let login = format!(
        "initiator login {NAME} --portal {portal} -u nasuser --secret-file {}",
        file.display()
    );
    let error = run(front.folder(), &login).bad();
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_wrong_secret_is_not_sent_twice() {
    let array = Array::new(|_| Admission::Usual);
    array.discover("another-secret-1234", "").bad();
    assert_eq!(array.fake.connections(), 1);
    assert_eq!(array.offered(), ["AuthMethod=CHAP,None", "CHAP_A=8,6,5,7"]);
}

#[test]
fn less_proof_than_configured_is_never_offered() {
    let refused = Admission::Refused(LoginStatus::AUTHENTICATION_FAILURE);
    for (configured, lists) in [
        ("sha256", vec!["CHAP_A=7"]),
        ("sha256,sha3-256", vec!["CHAP_A=7,8", "CHAP_A=7"]),
        ("md5", vec!["CHAP_A=5"]),
    ] {
        let array = Array::new(move |_| refused);
        array
            .discover(SECRET, &format!("--chap-algorithms {configured}"))
            .bad();
        let offered = array.offered();
        let (methods, algorithms): (Vec<_>, Vec<_>) = offered
            .iter()
            .map(String::as_str)
            .partition(|it| it.starts_with("AuthMethod"));
        assert_eq!(algorithms.first(), lists.first(), "{configured}");
        assert!(
            algorithms.iter().all(|it| lists.contains(it)),
            "{configured}: {algorithms:?}"
        );
        assert!(methods.iter().all(|it| it.contains("CHAP")), "{methods:?}");
        let front = front();
        let (portal, file) = (array.fake.address, array.secret(SECRET));
        let login = format!(
            "initiator login {NAME} --portal {portal} -u nasuser --secret-file {} --chap-algorithms {configured}",
            file.display()
        );
        run(front.folder(), &login).bad();
        let offered = array.offered();
        let all = offered.iter().filter(|it| it.starts_with("CHAP_A"));
        assert!(
            all.clone().all(|it| lists.contains(&it.as_str())),
            "{offered:?}"
        );
    }
    let array = Array::new(|_| Admission::Usual);
    let error = array.discover(SECRET, "--chap-algorithms sha512").bad();
    assert!(error.contains("sha3-256, sha256, sha1 and md5"), "{error}");
}

/// An old target refuses one of our parameters, and the session is established all the same.
#[test]
fn targets_that_refuse_our_parameters_get_the_defaults() {
    type Refuses = fn(&iscsi::pdu::LoginRequest, &str) -> bool;
    let cases: [(&str, Refuses); 5] = [
        ("a list of digests", |_, text| text.contains("Digest=None,")),
        ("InitialR2T=No", |_, text| text.contains("InitialR2T=No")),
        ("a long segment", |_, text| {
            text.contains("MaxRecvDataSegmentLength=262144")
        }),
        ("several R2Ts", |_, text| {
            text.contains("MaxOutstandingR2T=8")
        }),
        ("a login that skips authentication", |request, text| {
            request.csg == 1 && text.contains("InitiatorName")
        }),
    ];
    for (what, refuses) in cases {
        let fake = FakeTarget::honest(World::of(&[1 << 20]));
        fake.guard(move |request, text| match refuses(request, text) {
            true => Admission::Refused(LoginStatus::INITIATOR_ERROR),
            false => Admission::Usual,
        });
        let front = front();
        let login = format!("initiator login {NAME} --portal {}", fake.address);
        let ran = run(front.folder(), &login);
        assert!(ran.out.contains("logged in, 1 LUN"), "{what}: {ran:?}");
        assert_eq!(fake.connections(), 2, "{what}");
    }
}
