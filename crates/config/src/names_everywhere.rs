//! One rule for names that others chose: each place that takes a name gives one verdict, and keeps
//! the name byte for byte.

use iscsi::chap::Entropy;
use iscsi::initiator::{Login, LoginSettings};
use iscsi::pdu::{BHS_LENGTH, Bhs, Isid, LoginStatus};
use iscsi::send_targets;
use iscsi::target::login::{
    self as target, Authorization, ExistingSession, LoginIdentity, LoginOutcome, LoginPolicy,
    LoginResult, LoginTerms,
};
use proptest::prelude::*;

use crate::access::{access, hosts};
use crate::change::{AddMap, Change, CreateHost, CreateTarget, LogIn, SetInitiator};
use crate::explain::{Outcome, explain};
use crate::identity::Seed;
use crate::import::{Imported, lio, scst};
use crate::validate::tests::good;
use model::config::{Config, HostSpec};
use model::initiator::LoginSpec;
use model::initiator::settings::{DeviceSettings, SessionSettings};
use model::initiator::url::LunUrl;
use model::name::{foreign, is_same};

/// Names as they occur in the field, and names that nobody may use.
const NAMES: [&str; 30] = [
    "iqn.2026-01.org.example:disk",
    "iqn.2000-01.com.synology:DiskStation.Target-1.f0b0a1",
    "IQN.2001-04.COM.EXAMPLE:X",
    "iqn.2015-1.workgroup:RAID.vg0.data1",
    "iqn.2004-04.com.vendor:ts-410:iscsi_backup.c4bb1a",
    "iqn.nothing",
    "Target-911data",
    "target_1",
    "a disk",
    "eui.0200",
    "eui.02004567a425678d",
    "eui.02004567A425678D",
    "naa.5",
    "host1",
    "a/b@c;d=e",
    "iqn.2026-01.org.example:Größe",
    "x",
    "",
    " disk",
    "disk ",
    "a,b",
    "a*",
    "iqn.2026-01.org.example:?",
    "a\tb",
    "a\nb",
    "a\x1b[2J",
    "a\x7f",
    "a\u{85}b",
    "a\u{202e}b",
    "a\u{200b}",
];

/// Name as a place has kept it; `None` if the place refuses it.
type NameVerdict = Option<String>;
type Place = (&'static str, fn(&str) -> NameVerdict);

struct Open;

impl LoginPolicy for Open {
    fn authorize(&mut self, _: &LoginIdentity) -> Authorization {
        Authorization::Allowed(LoginTerms {
            authentication: target::Authentication::None,
            limits: Default::default(),
            portal_group_tag: 1,
            target_alias: String::new(),
            command_window: 8,
        })
    }

    fn existing_session(&mut self, _: &LoginIdentity) -> Option<ExistingSession> {
        None
    }

    fn admit(&mut self, _: &LoginResult) -> Result<u16, LoginStatus> {
        Ok(1)
    }
}

impl Entropy for Open {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(1);
    }
}

/// Returns the names of a login as Sandstone's target took them from its initiator.
fn logged_in(initiator: &str, target: &str) -> Option<LoginIdentity> {
    let settings = LoginSettings::new(initiator, Some(target.to_owned()), Isid([0; 6]));
    let (_, request) = Login::start(settings);
    let (bhs, data) = request.split_first_chunk::<BHS_LENGTH>().unwrap();
    let data = &data[..Bhs::new(bhs).data_segment_length()];
    let reply = target::Login::new().receive(bhs, data, &mut Open, &mut Open);
    match reply.outcome {
        LoginOutcome::Connected(result) => Some(result.identity),
        _ => None,
    }
}

fn applied(change: &Change, config: &Config) -> Option<Config> {
    change.applied(config, Seed::fixed(1), false).ok()
}

fn host(initiators: &[&str], except: &[&str]) -> Change {
    let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    Change::CreateHost(CreateHost {
        name: "h".into(),
        initiators: owned(initiators),
        except: owned(except),
        chap: None,
    })
}

/// Places that take the name of a target.
const TARGETS: [Place; 8] = [
    ("what a portal tells", |name| {
        let mut text = format!("TargetName={name}").into_bytes();
        text.push(0);
        let answer = send_targets::parse(&text);
        assert_eq!(answer.targets.is_empty(), !answer.left_out.is_empty());
        answer.targets.into_iter().next().map(|target| target.name)
    }),
    ("the target's login", |name| {
        logged_in("iqn.x", name)?.target_name
    }),
    ("a URL", |name| {
        let url = format!("iscsi://h/{name}/0");
        let url = LunUrl::parse(&url, SessionSettings::new("x"), DeviceSettings::default());
        url.ok().map(|url| url.target.name)
    }),
    ("initiator login", |name| {
        let change = Change::LogIn(log_in(name));
        let config = applied(&change, &Config::default())?;
        config.initiator.target(name).map(|login| login.iqn.clone())
    }),
    ("config apply, a login", |name| {
        let mut config = Config::default();
        let login = LogIn { ..log_in(name) };
        config.initiator.targets.push(LoginSpec {
            iqn: login.iqn,
            portals: login.portals,
            binds: Vec::new(),
            sessions: 1,
            chap: None,
            mutual_chap: None,
            parameters: Default::default(),
        });
        let config = applied(&Change::Replace(Box::new(config)), &Config::default())?;
        Some(config.initiator.targets[0].iqn.clone())
    }),
    ("config apply, a target", |name| {
        let mut config = good();
        let old = std::mem::replace(&mut config.targets[0].iqn, name.to_owned());
        for map in &mut config.maps {
            if map.target.as_ref() == Some(&old) {
                map.target = Some(name.to_owned());
            }
        }
        for member in config.target_groups.iter_mut().flat_map(|g| &mut g.targets) {
            if *member == old {
                name.clone_into(member);
            }
        }
        let config = applied(&Change::Replace(Box::new(config)), &Config::default())?;
        config.target(name).map(|target| target.iqn.clone())
    }),
    ("saveconfig.json", |name| {
        let saved = serde_json::json!({"storage_objects": [], "targets": [{
            "fabric": "iscsi", "wwn": name, "tpgs": [{"tag": 1, "enable": true, "luns": [], "node_acls": [],
            "portals": [{"ip_address": "0.0.0.0", "port": 3260}], "attributes": {}, "parameters": {}}]}]});
        imported_target(lio::read(&saved.to_string()).unwrap(), name)
    }),
    ("scst.conf", |name| {
        let machine = scst::Machine {
            size_of: &|_| Some(1 << 20),
            has_address: &|_| true,
        };
        let text =
            format!("TARGET_DRIVER iscsi {{\nenabled 1\nTARGET \"{name}\" {{\nenabled 1\n}}\n}}\n");
        match scst::read(&text, &machine) {
            Ok(imported) => imported_target(imported, name),
            // A file cannot contain a line break in quotes.
            Err(_) => None,
        }
    }),
];

fn log_in(name: &str) -> LogIn {
    LogIn {
        iqn: name.to_owned(),
        portals: vec!["h:3260".into()],
        binds: Vec::new(),
        sessions: None,
        chap: None,
        mutual_chap: None,
        parameters: Default::default(),
    }
}

/// Returns the only target of an import. If it was left out, the import must name it.
fn imported_target(imported: Imported, name: &str) -> NameVerdict {
    let Imported { config, notes, .. } = imported;
    assert!(
        !config.targets.is_empty() || !notes.is_empty(),
        "{name:?} is lost"
    );
    let config = applied(&Change::Replace(Box::new(config)), &Config::default()).unwrap();
    config.targets.first().map(|target| target.iqn.clone())
}

/// Places that take the name of an initiator.
const INITIATORS: [Place; 9] = [
    ("the target's login", |name| {
        Some(logged_in(name, "iqn.2026-01.org.example:x")?.initiator_name)
    }),
    ("host create", |name| {
        let config = applied(&host(&[name], &[]), &Config::default())?;
        member_of(&config, name)
    }),
    ("host add-initiator", |name| {
        let config = applied(&host(&[], &[]), &Config::default())?;
        let change = Change::AddInitiator("h".into(), name.into());
        member_of(&applied(&change, &config)?, name)
    }),
    ("host create --except", |name| {
        let config = applied(&host(&["*"], &[name]), &Config::default())?;
        // A pattern among the exceptions does not stand for a name.
        let is_name = !name.contains(['*', '?']);
        assert!(
            !is_name || hosts(&config, name).is_empty(),
            "{name:?} gets in"
        );
        is_name.then(|| config.hosts[0].except[0].clone())
    }),
    ("config apply, a host", |name| {
        let config = Config {
            hosts: vec![HostSpec {
                name: "h".into(),
                initiators: vec![name.into()],
                except: Vec::new(),
                chap: None,
            }],
            ..Config::default()
        };
        let config = applied(&Change::Replace(Box::new(config)), &Config::default())?;
        member_of(&config, name)
    }),
    ("map explain", |name| {
        // Blanks around the typed name are dropped.
        let found = explain(&Config::default(), name, None);
        let is_name = found.steps[0].outcome != Outcome::Blocked && name.trim() == name;
        is_name.then_some(found.initiator)
    }),
    ("initiator adapter set", |name| {
        let change = Change::SetInitiator(SetInitiator {
            name: Some(name.into()),
            ..SetInitiator::default()
        });
        let config = applied(&change, &Config::default())?;
        (!name.is_empty()).then_some(config.initiator.name)
    }),
    ("the initiator of a URL", |name| {
        let url = format!("iscsi://h/iqn.x/0?initiator_name={name}");
        let url = LunUrl::parse(&url, SessionSettings::new("x"), DeviceSettings::default());
        url.ok().map(|url| url.target.session.initiator_name)
    }),
    ("saveconfig.json", |name| {
        let saved = serde_json::json!({
            "storage_objects": [{"name": "d", "plugin": "fileio", "dev": "/srv/d", "size": 1 << 20, "wwn": "4b6d8f7e-3f1a-4d0e-9a5c-0f6f2b1d7c33", "attributes": {}}],
            "targets": [{"fabric": "iscsi", "wwn": "iqn.2026-01.org.example:t", "tpgs": [{"tag": 1, "enable": true,
            "luns": [{"index": 0, "storage_object": "/backstores/fileio/d"}],
            "node_acls": [{"node_wwn": name, "attributes": {}, "mapped_luns": [{"index": 0, "tpg_lun": 0, "write_protect": false}]}],
            "portals": [{"ip_address": "0.0.0.0", "port": 3260}],
            "attributes": {"authentication": 0, "generate_node_acls": 0}, "parameters": {}}]}]});
        let Imported { config, notes, .. } = lio::read(&saved.to_string()).unwrap();
        assert!(
            !config.hosts.is_empty() || !notes.is_empty(),
            "{name:?} is lost"
        );
        let config = applied(&Change::Replace(Box::new(config)), &Config::default()).unwrap();
        member_of(&config, name)
    }),
];

/// Returns the only initiator of the only host, which lets in the bearer of this name.
fn member_of(config: &Config, name: &str) -> NameVerdict {
    let kept = config.hosts.first()?.initiators.first()?.clone();
    // A typed wildcard makes a pattern, and a name with a wildcard belongs to nobody.
    let is_name = !kept.contains(['*', '?']);
    assert!(
        !is_name || !hosts(config, name).is_empty(),
        "{name:?} is kept out"
    );
    is_name.then_some(kept)
}

fn places() -> impl Iterator<Item = Place> {
    TARGETS.into_iter().chain(INITIATORS)
}

#[test]
fn every_place_takes_the_same_names_and_keeps_them_byte_for_byte() {
    let long = "n".repeat(iscsi::name::MAX_LENGTH);
    let too_long = format!("{long}n");
    let names = NAMES.into_iter().chain([long.as_str(), too_long.as_str()]);
    for name in names {
        let wanted = foreign(name).is_ok().then(|| name.to_owned());
        for (place, take) in places() {
            // An at sign ends the secret of a URL, and a zero ends a text.
            if name.contains('@') && place.contains("URL") {
                continue;
            }
            assert_eq!(take(name), wanted, "{place}: {name:?}");
        }
    }
}

#[test]
fn names_that_we_make_stay_strict() {
    for name in NAMES {
        let create = Change::CreateTarget(CreateTarget {
            iqn: name.into(),
            alias: String::new(),
            portals: Vec::new(),
            alua: Default::default(),
            parameters: Default::default(),
        });
        let made = applied(&create, &Config::default());
        let iqn = made.map(|config| config.targets[0].iqn.clone());
        assert_eq!(iqn, model::name::own(name).ok(), "{name:?}");
    }
}

/// Returns a configuration in which these initiators may log in to the first target, and the
/// target's name.
fn shown_to(initiators: &[&str], except: &[&str]) -> Option<(Config, String)> {
    let mut config = good();
    (config.hosts, config.maps) = (Vec::new(), Vec::new());
    let config = applied(&host(initiators, except), &config)?;
    let add = Change::AddMap(AddMap {
        unit: config.units[0].name.clone(),
        host: Some("h".into()),
        target: None,
        lun: None,
        read_only: false,
    });
    let config = applied(&add, &config)?;
    let iqn = config.targets[0].iqn.clone();
    Some((config, iqn))
}

#[test]
fn a_host_can_be_made_for_whoever_may_log_in() {
    for name in NAMES.into_iter().filter(|name| foreign(name).is_ok()) {
        let (config, iqn) = shown_to(&[name], &[]).expect(name);
        assert!(access(&config, name, &iqn, None).is_ok(), "{name}");
        let told = explain(&config, name, None);
        assert!(told.visible, "{name}: {told:?}");
        // The advised commands take the name as one word.
        let advice = explain(&Config::default(), name, None);
        let next = advice.steps.iter().filter_map(|step| step.next.as_ref());
        let mut next = next.filter(|next| next.contains("host create"));
        let words = next.next().expect("advice");
        assert!(words.ends_with(&model::name::shown(name)), "{words}");
    }
}

#[test]
fn another_spelling_is_the_same_initiator_to_every_rule() {
    let (lower, upper) = (
        "iqn.2026-01.org.example:east",
        "iqn.2026-01.org.example:EAST",
    );
    for (typed, comes) in [(lower, upper), (upper, lower)] {
        let (config, iqn) = shown_to(&[typed], &[]).unwrap();
        assert!(access(&config, comes, &iqn, None).is_ok());
        let (config, iqn) = shown_to(&["iqn.*"], &[typed]).unwrap();
        assert!(
            access(&config, comes, &iqn, None).is_err(),
            "past an exception"
        );
        // No second host could treat the other spelling differently.
        let mut second = CreateHost {
            name: "other".into(),
            initiators: vec![comes.into()],
            except: Vec::new(),
            chap: None,
        };
        let (config, _) = shown_to(&[typed], &[]).unwrap();
        assert_eq!(applied(&Change::CreateHost(second.clone()), &config), None);
        second.initiators = vec![typed.into(), comes.into()];
        assert_eq!(
            applied(&Change::CreateHost(second), &Config::default()),
            None
        );
        let remove = Change::RemoveInitiator("h".into(), comes.into());
        let config = applied(&remove, &config).expect("it is there");
        assert!(config.hosts[0].initiators.is_empty());
    }
}

#[test]
fn targets_that_differ_in_case_are_one_to_us_and_two_at_others() {
    let mut twice = good();
    let mut second = twice.targets[0].clone();
    second.iqn = second.iqn.to_ascii_uppercase();
    for group in &mut second.portal_groups {
        group.relative_port_id = 0;
    }
    twice.targets.push(second);
    assert_eq!(
        applied(&Change::Replace(Box::new(twice)), &Config::default()),
        None
    );
    let one = applied(
        &Change::LogIn(log_in("iqn.2026-01.x:A")),
        &Config::default(),
    )
    .unwrap();
    let two = applied(&Change::LogIn(log_in("iqn.2026-01.x:a")), &one).unwrap();
    assert_eq!(two.initiator.targets.len(), 2);
    let rest = applied(&Change::LogOut("iqn.2026-01.x:A".into()), &two).unwrap();
    assert_eq!(rest.initiator.targets[0].iqn, "iqn.2026-01.x:a");
}

proptest! {
    #[test]
    fn every_place_gives_one_verdict_on_any_name(name in "[ -~éßİſK\u{202e}\u{85}\u{a0}\t]{0,12}") {
        // Files and URLs have reserved characters of their own, which do not concern names.
        let quoted = name.contains(['"', '\\', '@', '!', '?', '&', '#', '%', '\t', '\u{85}']);
        let wanted = foreign(&name).is_ok().then(|| name.clone());
        for (place, take) in places() {
            let is_file = place.contains("URL") || place.contains("scst");
            if quoted && is_file {
                continue;
            }
            prop_assert_eq!(take(&name), wanted.clone(), "{}: {:?}", place, name);
        }
    }

    /// Checks that spelling never changes the view of an initiator. An exception holds for each
    /// spelling, whatever the patterns are.
    #[test]
    fn no_spelling_gets_in_where_another_one_does_not(
        patterns in proptest::collection::vec("[aAbB_ *?]{1,4}", 1..3),
        except in proptest::collection::vec("[aAbB_ *?]{1,4}", 0..3),
        name in "[aAbB_ ]{1,4}",
        flips: u8,
    ) {
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let except: Vec<&str> = except.iter().map(String::as_str).collect();
        let Some((config, iqn)) = shown_to(&patterns, &except) else {
            return Ok(());
        };
        let other: String = name.chars().enumerate().map(|(at, c)| match flips >> at & 1 {
            1 => c.to_ascii_uppercase(),
            _ => c.to_ascii_lowercase(),
        }).collect();
        prop_assert!(is_same(&name, &other));
        let (one, two) = (access(&config, &name, &iqn, None), access(&config, &other, &iqn, None));
        prop_assert_eq!(one.is_ok(), two.is_ok());
        let denied = except.iter().any(|it| !it.contains(['*', '?']) && is_same(it, &name));
        prop_assert!(!denied || one.is_err());
        let named = patterns.iter().any(|it| is_same(it, &name) && !it.contains(['*', '?']));
        prop_assert!(!named || !except.is_empty() || one.is_ok());
    }
}
