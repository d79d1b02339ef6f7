//! Tests that a backup comes back whole, or not at all and with the reason.

use super::super::validate::tests::good;
use super::*;
use model::config::ChapSecret;
use model::volume_id::{PlacedUnit, VolumeId};

const PASSPHRASE: &str = "correct horse battery staple";
const SECRET: &str = "a-secret-of-the-host";

fn backup() -> Backup {
    let mut config = good();
    config.generation = 7;
    config.hosts[0].chap = Some(ChapSecret {
        user: "esx".into(),
        secret: SECRET.into(),
    });
    config.identity.volumes = vec![PlacedUnit {
        naa: config.units[0].naa.clone(),
        volume: "tank/v1".into(),
        id: VolumeId {
            pool: "00000000000000ff".into(),
            dataset: 3,
        },
    }];
    let pools = vec![PoolMembers {
        name: "tank".into(),
        guid: "00000000000000ff".into(),
        devices: vec!["/dev/sdb".into()],
    }];
    Backup::new(&config, pools)
}

/// Opens a file, and checks whether it asks for its passphrase.
fn opened(bytes: &[u8], passphrase: Option<&str>) -> Result<Backup, Error> {
    Backup::from_bytes("the file", bytes, || {
        passphrase
            .map(str::to_owned)
            .ok_or_else(|| Error::invalid("asked for a passphrase", "-"))
    })
}

/// Returns the refusal, and checks that each of its three sentences has content.
fn refusal(bytes: &[u8], passphrase: Option<&str>) -> Error {
    let error = opened(bytes, passphrase).expect_err("refused");
    assert_eq!(error.not_changed, model::error::NOTHING_CHANGED);
    assert!(error.message.contains("the file"), "{error}");
    assert!(!error.next.is_empty());
    assert!(!error.message.contains(SECRET) && !error.next.contains(SECRET));
    error
}

#[test]
fn a_backup_comes_back_with_its_secrets() {
    let backup = backup();
    let bytes = backup.to_bytes().expect("written");
    assert_eq!(opened(&bytes, None), Ok(backup.clone()));
    assert!(backup.secrets() >= 1);
    let text = String::from_utf8(bytes).expect("text");
    assert!(text.contains(SECRET));
    // A backup printed for debugging shows no secrets.
    assert!(!format!("{backup:?}").contains(SECRET));
}

#[test]
fn a_sealed_backup_shows_nothing_and_opens_by_its_passphrase_alone() {
    let backup = backup();
    let bytes = backup.to_sealed_bytes(PASSPHRASE).expect("sealed");
    let text = String::from_utf8(bytes.clone()).expect("text");
    let shown = [SECRET, "esx", "tank", "naa", "units"];
    assert!(shown.iter().all(|word| !text.contains(word)), "{text}");
    assert_eq!(opened(&bytes, Some(PASSPHRASE)), Ok(backup.clone()));
    for wrong in [
        "",
        "correct horse battery stapl",
        "Correct horse battery staple",
    ] {
        let error = refusal(&bytes, Some(wrong));
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(
            error.message.contains("passphrase does not open"),
            "{error}"
        );
    }
    // Each seal has a salt and a nonce of its own.
    assert_ne!(bytes, backup.to_sealed_bytes(PASSPHRASE).expect("sealed"));
}

#[test]
fn a_passphrase_that_is_soon_guessed_is_refused() {
    let error = backup().to_sealed_bytes("elevenchars").expect_err("short");
    assert!(error.message.contains("at least 12"), "{error}");
}

#[test]
fn every_cut_and_every_flipped_bit_is_told() {
    let plain = backup().to_bytes().expect("written");
    let sealed = backup().to_sealed_bytes(PASSPHRASE).expect("sealed");
    for whole in [&plain, &sealed] {
        for cut in 0..whole.len() {
            let error = refusal(&whole[..cut], Some(PASSPHRASE));
            assert_ne!(error.kind, ErrorKind::Storage, "cut at {cut}: {error}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            refusal(&bytes, Some(PASSPHRASE));
        }
        let half = refusal(&whole[..whole.len() / 2], Some(PASSPHRASE));
        assert_eq!(half.kind, ErrorKind::Corrupt);
        assert!(half.message.contains("it is torn"), "{half}");
    }
}

#[test]
fn a_file_of_a_later_version_is_told_by_its_frame_and_by_its_content() {
    let newer = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).expect("text");
        text.replacen("\"format\":1", "\"format\":2", 1)
            .into_bytes()
    };
    let plain = newer(backup().to_bytes().expect("written"));
    let sealed = newer(backup().to_sealed_bytes(PASSPHRASE).expect("sealed"));
    for bytes in [plain, sealed] {
        let error = refusal(&bytes, Some(PASSPHRASE));
        assert!(error.message.contains("later version"), "{error}");
    }
    let mut content = serde_json::to_value(backup()).expect("JSON");
    content["version"] = "9.0.0".into();
    content["config"]["hosts"][0]["colour"] = "red".into();
    let bytes = seal_json(KIND, 7, &content).expect("written");
    let error = refusal(&bytes, None);
    assert!(error.message.contains("Sandstone 9.0.0"), "{error}");
    assert!(error.message.contains("colour"), "{error}");
}

#[test]
fn what_breaks_a_rule_is_refused_although_it_is_whole() {
    let mut broken = backup();
    broken.config.maps[0].unit = "nothing".into();
    let error = refusal(&broken.to_bytes().expect("written"), None);
    assert!(error.message.contains("nothing"), "{error}");
}

#[test]
fn a_file_of_this_version_that_breaks_a_rule_is_not_taken_for_one_of_another_version() {
    let mut broken = backup();
    broken.config.maps[0].unit = "nothing".into();
    let error = refusal(&broken.to_bytes().expect("written"), None);
    assert!(error.message.contains("it was changed"), "{error}");
    assert!(!error.next.contains("version"), "{error}");
    broken.version = "0.0.1".to_owned();
    let error = refusal(&broken.to_bytes().expect("written"), None);
    assert!(error.message.contains("made by Sandstone 0.0.1"), "{error}");
}

/// Returns a change that gives a backup one pool.
fn pool(
    name: &'static str,
    guid: &'static str,
    device: &'static str,
) -> impl Fn(&mut Backup) + 'static {
    move |of| {
        of.pools = vec![PoolMembers {
            name: name.to_owned(),
            guid: guid.to_owned(),
            devices: vec![device.to_owned()],
        }];
    }
}

/// A restore shows the words of a file, and prints commands with them that people copy.
#[test]
fn words_that_a_terminal_or_a_shell_would_obey_are_refused() {
    let guid = "00000000000000ff";
    type Change = Box<dyn Fn(&mut Backup)>;
    let hostile: Vec<(&str, Change)> = vec![
        (
            "machine's name",
            Box::new(|it| it.machine = "a\n\u{1b}[2J".into()),
        ),
        ("version", Box::new(|it| it.version = "9\u{9b}2J".into())),
        (
            "pool's name",
            Box::new(pool("tank; reboot", guid, "/dev/sdb")),
        ),
        ("pool's name", Box::new(pool("-f", guid, "/dev/sdb"))),
        ("pool's name", Box::new(pool("", guid, "/dev/sdb"))),
        ("pool's number", Box::new(pool("tank", "x", "/dev/sdb"))),
        ("device's path", Box::new(pool("tank", guid, "/a\u{7}"))),
    ];
    for (what, change) in hostile {
        let mut of = backup();
        change(&mut of);
        let error = refusal(&of.to_bytes().expect("written"), None);
        assert!(error.message.contains(&format!("is no {what}")), "{error}");
        assert!(!error.message.contains(shown::is_obeyed), "{error:?}");
    }
    let mut plain = backup();
    pool("my pool", guid, "/srv/a b/c")(&mut plain);
    opened(&plain.to_bytes().expect("written"), None).expect("a name may have a space");
}

/// Each value of the content is replaced by each kind of other value. Whatever the decoder says of
/// it, no secret is in the message.
#[test]
fn a_value_of_a_wrong_kind_anywhere_is_told_without_a_secret() {
    let whole = serde_json::to_value(backup()).expect("JSON");
    let mut places = Vec::new();
    pointers(&whole, String::new(), &mut places);
    assert!(places.len() > 40, "{places:?}");
    let mut refused = 0;
    for place in &places {
        for other in [
            Value::Null,
            SECRET.into(),
            u64::MAX.into(),
            serde_json::json!({"colour": SECRET}),
            serde_json::json!([SECRET]),
        ] {
            let mut content = whole.clone();
            *content.pointer_mut(place).expect("is there") = other;
            let bytes = seal_json(KIND, 7, &content).expect("written");
            // A name, a path or a comment may be any text.
            if let Err(error) = opened(&bytes, None) {
                let told = format!("{} {} {}", error.message, error.not_changed, error.next);
                assert!(
                    !told.contains(SECRET) || !is_secret(place),
                    "{place}: {told}"
                );
                refused += 1;
            }
        }
    }
    assert!(refused > places.len(), "{refused}");
}

/// Reports whether a place holds a secret, or something around one.
fn is_secret(place: &str) -> bool {
    place.contains("chap") || place.ends_with("/hosts") || place.ends_with("/hosts/0")
}

fn pointers(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                pointers(field, format!("{at}/{name}"), all);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, format!("{at}/{index}"), all);
            }
        }
        _ => {}
    }
    all.push(at);
}

#[test]
fn what_is_something_else_is_no_backup() {
    for bytes in [
        &b""[..],
        b"units = []\n",
        b"{\"sandstone\":\"pools\"}",
        &[0xff; 64],
    ] {
        let error = refusal(bytes, None);
        assert!(error.message.contains("is not a backup"), "{error}");
    }
}

#[test]
fn a_seal_that_asks_for_all_memory_or_time_is_not_tried() {
    let bytes = backup().to_sealed_bytes(PASSPHRASE).expect("sealed");
    let (generation, sealed) = open_json::<Value>(SEALED, &bytes).expect("whole");
    let changes = [
        ("memory_kib", Value::from(u32::MAX)),
        ("passes", Value::from(u32::MAX)),
        ("lanes", Value::from(u32::MAX)),
        ("memory_kib", Value::from(0)),
        ("lanes", Value::from(0)),
        ("salt", Value::from("0")),
        ("nonce", Value::from("zz")),
        ("sealed", Value::from("abc")),
        ("sealed", Value::from("")),
    ];
    for (field, value) in changes {
        let mut changed = sealed.clone();
        changed[field] = value;
        let bytes = seal_json(SEALED, generation, &changed).expect("written");
        opened(&bytes, Some(PASSPHRASE)).expect_err(field);
    }
}
