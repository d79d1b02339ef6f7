//! Tests of old peers at either end of a login. They offer one value where others offer lists, and
//! state values that nobody asks for.

use crate::login_harness::{
    Client, Counter, FULL_FEATURE, OPERATIONAL, Policy, SECURITY, credential,
};
use iscsi::initiator::{Login, LoginError, LoginProgress, LoginSettings, Offer};
use iscsi::pdu::{BHS_LENGTH, Isid, LoginResponse, LoginStatus, RawBhs};

/// Returns the algorithm that our target chooses from this list.
fn chosen(methods: &str, algorithms: &str) -> Option<String> {
    let mut client = Client::new(Policy::chap(None));
    let methods = format!("AuthMethod={methods}");
    let reply = client.first(SECURITY, Some(OPERATIONAL), &[&methods]);
    assert_eq!(reply.get("AuthMethod"), Some("CHAP"), "{methods}");
    let reply = client.pairs(SECURITY, None, &[&format!("CHAP_A={algorithms}")]);
    if reply.get("CHAP_A").is_none() {
        reply.refused();
    }
    reply.get("CHAP_A").map(str::to_owned)
}

#[test]
fn initiators_of_old_offer_one_algorithm_or_numbers_that_nobody_knows() {
    for (algorithms, choice) in [
        ("5", Some("5")),
        ("5,7", Some("5")),
        ("7,5", Some("7")),
        ("0x5", Some("5")),
        ("99,5", Some("5")),
        ("6,5", Some("6")),
        ("8,7,6,5", Some("8")),
        ("5,", Some("5")),
        ("99", None),
        ("", None),
    ] {
        for methods in ["CHAP", "CHAP,None", "None,CHAP", "KRB5,SPKM1,SRP,CHAP,None"] {
            assert_eq!(
                chosen(methods, algorithms).as_deref(),
                choice,
                "{algorithms}"
            );
        }
    }
}

#[test]
fn no_initiator_gets_by_without_the_proof_that_is_asked_for() {
    for methods in ["None", "SRP", "SRP,None", "Reject", ""] {
        let mut client = Client::new(Policy::chap(None));
        let methods = format!("AuthMethod={methods}");
        let reply = client.first(SECURITY, Some(OPERATIONAL), &[&methods]);
        assert_eq!(reply.refused().status, LoginStatus::AUTHENTICATION_FAILURE);
    }
    let mut client = Client::new(Policy::chap(None));
    let reply = client.first(OPERATIONAL, Some(FULL_FEATURE), &[]);
    assert_eq!(reply.refused().status, LoginStatus::AUTHENTICATION_FAILURE);
}

/// Builds a target's response.
fn response(csg: u8, nsg: Option<u8>) -> RawBhs {
    let header = LoginResponse {
        transit: nsg.is_some(),
        continues: false,
        csg,
        nsg: nsg.unwrap_or(0),
        version_max: 0,
        version_active: 0,
        data_segment_length: 0,
        isid: Isid::default(),
        tsih: if nsg == Some(FULL_FEATURE) { 7 } else { 0 },
        itt: 0,
        stat_sn: 0,
        exp_cmd_sn: 1,
        max_cmd_sn: 8,
        status: LoginStatus::SUCCESS,
    };
    let mut bhs = [0; BHS_LENGTH];
    header.encode(&mut bhs);
    bhs
}

fn settings(secret: bool, offer: Offer) -> LoginSettings {
    let target = Some("Target-911data".to_owned());
    let mut settings = LoginSettings::new("iqn.x", target, Isid::default());
    settings.credential = secret.then(|| credential("host", "initiator-secret"));
    settings.offer = offer;
    settings
}

fn text_of(request: &[u8]) -> String {
    String::from_utf8_lossy(&request[BHS_LENGTH..]).replace('\0', " ")
}

#[test]
fn what_a_target_states_at_the_end_is_heard_and_needs_no_answer() {
    for last in [
        &b"TargetPortalGroupTag=3\0X-com.example.speed=9\0MaxRecvDataSegmentLength=65536\0"[..],
        b"TargetPortalGroupTag=3\0IFMarker=No\0OFMarker=No\0MaxRecvDataSegmentLength=65536\0",
    ] {
        let (mut login, _) = Login::start(settings(false, Offer::default()));
        let end = response(OPERATIONAL, Some(FULL_FEATURE));
        let LoginProgress::Connected(session) = login.receive(&end, last, &mut Counter(1)).unwrap()
        else {
            panic!("it goes on");
        };
        assert_eq!(session.portal_group_tag, Some(3));
        let length = session.connection.peer_max_recv_data_segment_length;
        assert_eq!(length, 65_536);
    }
    // A question about a method that was not offered need not be answered.
    let (mut login, _) = Login::start(settings(false, Offer::default()));
    let more = login.receive(&response(OPERATIONAL, None), b"X-odd=1\0", &mut Counter(1));
    let LoginProgress::Send(request) = more.unwrap() else {
        panic!("it ends");
    };
    assert!(text_of(&request).contains("X-odd=NotUnderstood"));
}

#[test]
fn a_target_that_asks_for_nothing_need_not_say_so() {
    let silent = response(SECURITY, Some(OPERATIONAL));
    let (mut login, _) = Login::start(settings(true, Offer::default()));
    let next = login.receive(&silent, b"", &mut Counter(1)).unwrap();
    assert!(
        matches!(next, LoginProgress::Send(request) if text_of(&request).contains("InitialR2T"))
    );
    // If the target must prove itself, or CHAP alone was offered, this is no way out.
    let mut mutual = settings(true, Offer::default());
    mutual.target_credential = Some(credential("target", "target-secret"));
    let plain = Offer {
        is_security_plain: true,
        ..Offer::default()
    };
    for settings in [mutual, settings(true, plain)] {
        for answer in [&b""[..], b"AuthMethod=None\0", b"AuthMethod=Reject\0"] {
            let (mut login, request) = Login::start(settings.clone());
            assert!(text_of(&request).contains("AuthMethod=CHAP "));
            let end = login.receive(&silent, answer, &mut Counter(1));
            assert_eq!(
                end.unwrap_err(),
                LoginError::Authentication("no method in common")
            );
        }
    }
}

#[test]
fn a_second_attempt_without_a_secret_begins_where_targets_of_old_begin() {
    let (login, request) = Login::start(settings(false, Offer::default()));
    assert!(text_of(&request).contains("InitialR2T=No"));
    let refused = LoginError::Refused(LoginStatus::INITIATOR_ERROR);
    let second = login.second_offer(Some(&refused)).expect("another offer");
    let (mut login, request) = Login::start(settings(false, second));
    let text = text_of(&request);
    assert!(
        text.contains("AuthMethod=None") && !text.contains("InitialR2T"),
        "{text}"
    );
    let next = login.receive(
        &response(SECURITY, Some(OPERATIONAL)),
        b"AuthMethod=None\0TargetPortalGroupTag=1\0",
        &mut Counter(1),
    );
    let LoginProgress::Send(request) = next.unwrap() else {
        panic!("it ends");
    };
    let text = text_of(&request);
    for pair in [
        "HeaderDigest=None ",
        "DataDigest=None ",
        "InitialR2T=Yes ",
        "MaxBurstLength=262144 ",
        "FirstBurstLength=65536 ",
        "MaxOutstandingR2T=1 ",
    ] {
        assert!(text.contains(pair), "{pair}: {text}");
    }
    assert_eq!(login.second_offer(Some(&refused)), None);
    // If a target demands CHAP, the login reports it, and makes no further attempt.
    let (mut login, _) = Login::start(settings(false, second));
    let end = login.receive(
        &response(SECURITY, None),
        b"AuthMethod=CHAP\0",
        &mut Counter(1),
    );
    assert_eq!(
        end.unwrap_err(),
        LoginError::Authentication(
            "the target demands CHAP, but no CHAP secret is configured for it"
        )
    );
}
