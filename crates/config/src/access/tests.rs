//! Tests of views, of authentication, and of the answers of SendTargets and `explain`.

use super::super::diff::{ViewChange, altered_views, view_change};
use super::super::directory::{send_target, send_targets};
use super::super::explain::{Outcome, explain};
use super::super::validate::tests::good;
use super::*;
use model::config::*;

const ONE: &str = "iqn.2024-08.internal.sandstone:one";
const TWO: &str = "iqn.2024-08.internal.sandstone:two";
const ESX: &str = "iqn.1998-01.com.vmware:host1";
const DEBIAN: &str = "iqn.1993-08.org.debian:01:abc";

fn chap(user: &str) -> Option<ChapSecret> {
    Some(ChapSecret {
        user: user.into(),
        secret: format!("secret of {user}"),
    })
}

#[test]
fn a_map_gives_access_and_nothing_else_does() {
    let config = good();
    let view = access(&config, ESX, ONE, None).unwrap();
    assert_eq!(view.luns.len(), 1);
    assert_eq!((view.luns[0].lun, view.luns[0].unit.as_str()), (0, "vol1"));
    assert_eq!(view.hosts, ["esx"]);
    assert_eq!(view.authentication, Authentication::None);
    let stranger = access(&config, "iqn.2000-01.org.other:x", ONE, None);
    assert_eq!(stranger, Err(Refusal::NotMapped));
    assert_eq!(stranger.unwrap_err().login_status(), (2, 2));
    assert_eq!(
        access(&config, ESX, "iqn.2000-01.org.none", None),
        Err(Refusal::UnknownTarget)
    );
}

#[test]
fn names_compare_without_case() {
    let view = access(&good(), &ESX.to_uppercase(), &ONE.to_uppercase(), None).unwrap();
    assert_eq!(view.hosts, ["esx"]);
}

#[test]
fn read_only_comes_from_the_map_or_the_unit() {
    let mut config = good();
    config.maps[0].read_only = true;
    assert!(luns(&config, ESX, ONE)[0].read_only);
    config.maps[0].read_only = false;
    config.units[0].read_only = true;
    assert!(luns(&config, ESX, ONE)[0].read_only);
    assert!(!luns(&config, DEBIAN, ONE)[0].read_only);
}

#[test]
fn the_portal_group_is_found_by_the_local_address() {
    let config = good();
    let at = |text: &str| {
        access(&config, ESX, ONE, Some(text.parse().unwrap())).map(|a| a.portal_group.tag)
    };
    assert_eq!(at("192.168.7.7:3260"), Ok(1));
    assert_eq!(at("[::ffff:192.168.7.7]:3260"), Ok(1));
    assert_eq!(at("10.0.0.1:3261"), Ok(2));
    assert_eq!(at("[fd00::1]:3260"), Ok(2));
    assert_eq!(at("10.0.0.2:3261"), Err(Refusal::WrongPortal));
}

#[test]
fn offline_and_redirecting_targets_refuse_with_their_status() {
    let mut config = good();
    config.targets[0].redirect = Some(RedirectSpec {
        address: "10.0.0.9:3260".into(),
        permanent: true,
    });
    assert_eq!(
        access(&config, ESX, ONE, None).unwrap_err().login_status(),
        (1, 2)
    );
    config.targets[0].offline = true;
    assert_eq!(
        access(&config, ESX, ONE, None).unwrap_err().login_status(),
        (3, 1)
    );
    assert_eq!(
        access(&config, "iqn.2000-01.org.other:x", ONE, None),
        Err(Refusal::NotMapped)
    );
}

#[test]
fn the_narrowest_host_with_a_secret_decides() {
    let mut config = good();
    config.hosts.push(HostSpec {
        except: Vec::new(),
        name: "all".into(),
        initiators: vec!["*".into()],
        chap: chap("all"),
    });
    config.targets[0].mutual_chap = chap("target");
    let user = |config: &Config, name| match access(config, name, ONE, None).unwrap().authentication
    {
        Authentication::Chap { initiator, target } => (initiator.user, target.map(|t| t.user)),
        Authentication::None => panic!("must ask for CHAP"),
    };
    assert_eq!(
        user(&config, DEBIAN),
        ("debian".into(), Some("target".into()))
    );
    assert_eq!(
        user(&config, ESX),
        ("all".into(), Some("target".into())),
        "a wide secret binds narrow hosts without one"
    );
}

#[test]
fn discovery_asks_for_what_targets_ask_for_and_answers_with_its_own_secret() {
    let mut config = good();
    let stranger = "iqn.2000-01.org.other:x";
    for name in [ESX, DEBIAN, stranger] {
        assert_eq!(discovery(&config, name), Ok(Authentication::None));
    }
    config.discovery_auth = true;
    let user = |config: &Config, name| match discovery(config, name) {
        Ok(Authentication::Chap { initiator, target }) => {
            Some((initiator.user, target.map(|t| t.user)))
        }
        Ok(Authentication::None) => None,
        Err(refusal) => panic!("{refusal}"),
    };
    assert_eq!(user(&config, DEBIAN), Some(("debian".into(), None)));
    config.discovery_mutual_chap = chap("discovery");
    let expected = ("debian".into(), Some("discovery".into()));
    assert_eq!(user(&config, DEBIAN), Some(expected));
    // A host without a secret is asked for none, here as at its targets.
    assert_eq!(user(&config, ESX), None);
    // An initiator of no host is told nothing, unless there is a map for everybody.
    config.maps.iter_mut().for_each(|map| {
        map.host.get_or_insert_with(|| "esx".into());
    });
    let refusal = discovery(&config, stranger).unwrap_err();
    assert_eq!(refusal, Refusal::UnknownInitiator);
    assert_eq!(refusal.login_status(), (2, 2));
    config.maps[0].host = None;
    assert_eq!(user(&config, stranger), None);
}

#[test]
fn a_secret_of_discovery_is_asked_of_everybody_in_place_of_the_hosts_secrets() {
    let mut config = good();
    config.discovery_chap = chap("finder");
    config.discovery_mutual_chap = chap("discovery");
    for auth in [false, true] {
        config.discovery_auth = auth;
        for name in [ESX, DEBIAN] {
            let Ok(Authentication::Chap { initiator, target }) = discovery(&config, name) else {
                panic!("{name} must prove itself");
            };
            let users = (initiator.user.as_str(), target.map(|t| t.user));
            assert_eq!(users, ("finder", Some("discovery".into())));
        }
    }
}

#[test]
fn excepted_initiators_are_no_members_and_leave_their_luns_to_others() {
    let mut config = good();
    let name = "iqn.2000-01.org.other:x";
    let host = |name: &str, initiator: &str, except: &[&str]| HostSpec {
        name: name.into(),
        initiators: vec![initiator.into()],
        except: except.iter().map(|e| (*e).into()).collect(),
        chap: None,
    };
    config.hosts = vec![
        host("own", name, &[]),
        host("rest", "iqn.2000-01.org.other:*", &[]),
    ];
    let map = |unit: usize, host: &str| MapSpec {
        unit: config.units[unit].name.clone(),
        host: Some(host.into()),
        target: Some(ONE.into()),
        lun: 0,
        read_only: false,
    };
    config.maps = vec![map(0, "own"), map(1, "rest")];
    let error = crate::validate::validate(&config).unwrap_err();
    assert!(error.message.contains("LUN 0 would show both"), "{error}");
    config.hosts[1] = host("rest", "iqn.2000-01.org.other:*", &["*other:?"]);
    crate::validate::validate(&config).unwrap();
    let sees = |name: &str| {
        let views = luns(&config, name, ONE);
        views.into_iter().map(|view| view.unit).collect::<Vec<_>>()
    };
    assert_eq!(sees(name), [config.units[0].name.clone()]);
    assert_eq!(sees("iqn.2000-01.org.other:y"), Vec::<String>::new());
    assert_eq!(
        sees("iqn.2000-01.org.other:yy"),
        [config.units[1].name.clone()]
    );
    let explained = crate::explain::explain(&config, "iqn.2000-01.org.other:y", None);
    assert!(
        explained.conclusion.contains("host rest excepts it")
            || explained
                .steps
                .iter()
                .any(|step| step.finding.contains("host rest excepts it")),
        "{explained:?}"
    );
}

#[test]
fn send_targets_lists_what_the_initiator_may_use_here() {
    let mut config = good();
    let iqns = |config: &Config, who, at: &str| {
        let list = send_targets(config, who, at.parse().unwrap());
        list.into_iter().map(|l| l.iqn).collect::<Vec<_>>()
    };
    assert_eq!(iqns(&config, ESX, "10.0.0.1:3260"), [ONE, TWO]);
    assert_eq!(
        iqns(&config, ESX, "10.0.0.1:3261"),
        [ONE],
        "only targets that listen there"
    );
    assert!(iqns(&config, "iqn.2000-01.org.other:x", "10.0.0.1:3260").is_empty());
    config.maps[0].target = Some(TWO.into());
    assert_eq!(iqns(&config, ESX, "10.0.0.1:3260"), [TWO]);
    assert_eq!(
        send_target(&config, ESX, ONE, "10.0.0.1:3260".parse().unwrap()),
        None
    );
    config.targets[1].offline = true;
    assert!(iqns(&config, ESX, "10.0.0.1:3260").is_empty());
}

#[test]
fn send_targets_tells_every_path_with_real_addresses() {
    let config = good();
    let addresses = |at: &str| {
        let list = send_targets(&config, ESX, at.parse().unwrap())
            .remove(0)
            .addresses;
        list.iter()
            .map(|(address, tag)| format!("{address},{tag}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        addresses("192.168.7.7:3260"),
        ["192.168.7.7:3260,1", "10.0.0.1:3261,2"]
    );
    assert_eq!(
        addresses("[fd00::7]:3260"),
        ["10.0.0.1:3261,2", "[fd00::7]:3260,2"]
    );
}

#[test]
fn explain_finds_the_step_that_fails() {
    let mut config = good();
    let blocked = |config: &Config, who, unit| {
        let answer = explain(config, who, unit);
        let step = answer
            .steps
            .into_iter()
            .rev()
            .find(|s| s.outcome == Outcome::Blocked);
        step.map(|s| (s.finding, s.next.unwrap_or_default()))
    };
    assert_eq!(blocked(&config, ESX, Some("vol1")), None);
    assert!(explain(&config, ESX, Some("vol1")).visible);
    let (finding, next) = blocked(&config, ESX, Some("vol2")).unwrap();
    assert_eq!(finding, "No map of vol2 includes this initiator.");
    assert_eq!(next, "sandstone map add vol2 --host esx");
    let (finding, _) = blocked(&config, ESX, Some("vol9")).unwrap();
    assert_eq!(finding, "Logical unit vol9 does not exist.");
    let typo = explain(&config, "iqn.1993-08.org.debian:01:abd", Some("vol2"));
    assert!(
        typo.steps[1]
            .finding
            .contains("iqn.1993-08.org.debian:01:abc, which resembles it"),
        "{typo:#?}"
    );
    config.units[0].offline = true;
    assert!(!explain(&config, ESX, Some("vol1")).visible);
    assert_eq!(
        blocked(&config, ESX, Some("vol1")).unwrap().1,
        "sandstone lu online vol1"
    );
    config.units[0].offline = false;
    config.targets[0].offline = true;
    config.targets[1].offline = true;
    let answer = explain(&config, ESX, Some("vol1"));
    assert!(
        !answer.visible && answer.conclusion.contains("is offline"),
        "{}",
        answer.conclusion
    );
    config.targets.clear();
    assert!(
        explain(&config, ESX, Some("vol1"))
            .conclusion
            .contains("no target offers it")
    );
}

#[test]
fn explain_without_a_unit_lists_what_is_seen() {
    let answer = explain(&good(), DEBIAN, None);
    assert!(answer.visible);
    assert_eq!(answer.sees.len(), 2, "one unit at two targets");
    assert!(
        answer
            .steps
            .iter()
            .any(|s| s.finding.contains("CHAP as debian"))
    );
    assert!(!format!("{answer:?}").contains("twelve bytes"));
    let nobody = explain(&good(), "iqn.2000-01.org.other:x", None);
    assert!(!nobody.visible);
}

#[test]
fn a_lun_that_leads_elsewhere_is_a_changed_view() {
    let old = good();
    assert_eq!(view_change(&old, &old, ESX, ONE), ViewChange::Same);
    let mut swapped = old.clone();
    swapped.maps[0].unit = "vol2".into();
    swapped.maps[1].unit = "vol1".into();
    let changed = ViewChange::Luns {
        added: vec![0],
        removed: vec![0],
        protection: vec![],
    };
    assert_eq!(
        view_change(&old, &swapped, ESX, ONE),
        changed,
        "the same LUN with another unit behind it"
    );
    let mut renewed = old.clone();
    renewed.units[0].naa = "652534e0000000000000300000000003".into();
    assert_eq!(
        view_change(&old, &renewed, ESX, ONE),
        changed,
        "the same name with another unit behind it"
    );
    assert_eq!(view_change(&old, &renewed, DEBIAN, ONE), ViewChange::Same);
    let mut protected = old.clone();
    protected.maps[0].read_only = true;
    let changed = ViewChange::Luns {
        added: vec![],
        removed: vec![],
        protection: vec![0],
    };
    assert_eq!(view_change(&old, &protected, ESX, ONE), changed);
    let mut gone = old.clone();
    gone.maps.remove(0);
    assert_eq!(
        view_change(&old, &gone, ESX, ONE),
        ViewChange::End(Refusal::NotMapped)
    );
    gone.targets.remove(0);
    assert_eq!(
        view_change(&old, &gone, DEBIAN, ONE),
        ViewChange::End(Refusal::UnknownTarget)
    );
}

#[test]
fn altered_views_name_target_and_pattern() {
    let old = good();
    assert!(altered_views(&old, &old).is_empty());
    let mut new = old.clone();
    new.maps[0].lun = 3;
    let pattern = "iqn.1998-01.com.vmware:*".to_owned();
    assert_eq!(
        altered_views(&old, &new),
        [(ONE.to_owned(), pattern.clone()), (TWO.to_owned(), pattern)]
    );
    new.maps[0].lun = 0;
    new.maps[1].host = None;
    new.maps[1].target = Some(TWO.into());
    assert!(altered_views(&old, &new).contains(&(TWO.to_owned(), "*".to_owned())));
}

/// Returns a configuration with target `one` in the group `site-a`, which the first map names.
fn grouped() -> Config {
    let mut config = good();
    config.target_groups.push(TargetGroupSpec {
        name: "site-a".into(),
        targets: vec![ONE.into()],
    });
    config.maps[0].target = Some("site-a".into());
    super::super::validate::validate(&config).unwrap();
    config
}

#[test]
fn a_map_of_a_target_group_leads_to_its_members_and_to_no_other() {
    let mut config = grouped();
    assert_eq!(luns(&config, ESX, ONE)[0].unit, "vol1");
    assert_eq!(access(&config, ESX, TWO, None), Err(Refusal::NotMapped));
    let told = send_targets(&config, ESX, "10.0.0.1:3260".parse().unwrap());
    assert!(format!("{told:?}").contains(ONE), "{told:?}");
    assert!(!format!("{told:?}").contains(TWO), "{told:?}");
    config.target_groups[0].targets.push(TWO.into());
    assert_eq!(luns(&config, ESX, TWO)[0].unit, "vol1");
    config.target_groups[0].targets.clear();
    assert_eq!(access(&config, ESX, ONE, None), Err(Refusal::NotMapped));
}

#[test]
fn sessions_hear_of_a_target_that_joins_or_leaves_a_group() {
    let old = grouped();
    let mut new = old.clone();
    new.target_groups[0].targets = vec![TWO.into()];
    let pattern = "iqn.1998-01.com.vmware:*".to_owned();
    let altered = [(ONE.to_owned(), pattern.clone()), (TWO.to_owned(), pattern)];
    assert_eq!(altered_views(&old, &new), altered);
    let ended = ViewChange::End(Refusal::NotMapped);
    assert_eq!(view_change(&old, &new, ESX, ONE), ended);
    new.target_groups[0].targets.push(ONE.into());
    assert_eq!(view_change(&old, &new, ESX, ONE), ViewChange::Same);
}

#[test]
fn explain_says_when_the_target_group_of_a_map_is_empty() {
    let mut config = grouped();
    config.target_groups[0].targets.clear();
    let why = explain(&config, ESX, Some("vol1"));
    assert!(!why.visible);
    let blocked = why.steps.iter().find(|it| it.outcome == Outcome::Blocked);
    let blocked = blocked.expect("a step says what is missing");
    assert_eq!(blocked.finding, "Target group site-a has no targets.");
    let next = "sandstone target-group add-target site-a IQN";
    assert_eq!(blocked.next.as_deref(), Some(next));
}
