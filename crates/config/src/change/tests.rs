//! Tests of each edit: its effects, its refusals, and the data that it never touches.

use super::super::validate::SECRET_NOT_SHOWN;
use super::super::validate::tests::good;
use super::*;

const ONE: &str = "iqn.2024-08.internal.sandstone:one";
const ESX: &str = "iqn.1998-01.com.vmware:host1";

fn does(config: &Config, change: Change) -> Result<Config, Error> {
    change.applied(config, Seed::fixed(1), false)
}

fn memory(name: &str) -> CreateUnit {
    serde_json::from_value(
        serde_json::json!({"name": name, "backend": {"kind": "memory", "size": 1 << 20}}),
    )
    .unwrap()
}

fn map(unit: &str) -> AddMap {
    AddMap {
        unit: unit.into(),
        host: None,
        target: None,
        lun: None,
        read_only: false,
    }
}

#[test]
fn every_change_raises_the_generation_once_and_none_does_not() {
    let before = good();
    let after = does(&before, Change::CreateUnit(memory("new"))).unwrap();
    assert_eq!(after.generation, before.generation + 1);
    let same = does(
        &before,
        Change::ModifyUnit("vol1".into(), ModifyUnit::default()),
    )
    .unwrap();
    assert_eq!(same, before);
    let same = does(&before, Change::Replace(Box::new(before.clone()))).unwrap();
    assert_eq!(
        same.generation,
        before.generation + 1,
        "the fixture's counters lagged behind its port ids"
    );
    let again = does(&same, Change::Replace(Box::new(same.clone()))).unwrap();
    assert_eq!(again, same);
}

#[test]
fn a_new_unit_gets_an_identity_that_no_later_unit_gets() {
    let first = does(&good(), Change::CreateUnit(memory("new"))).unwrap();
    let naa = first.unit("new").unwrap().naa.clone();
    assert!(first.unit("new").unwrap().thin);
    let deleted = does(&first, Change::DeleteUnit("new".into())).unwrap();
    let again = Change::CreateUnit(memory("new"))
        .applied(&deleted, Seed::fixed(1), false)
        .unwrap();
    assert_ne!(
        again.unit("new").unwrap().naa,
        naa,
        "even with the same random bits"
    );
}

#[test]
fn a_unit_in_use_is_deleted_only_with_its_maps() {
    let error = does(&good(), Change::DeleteUnit("vol1".into())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InUse);
    assert_eq!(
        error.message,
        "logical unit vol1 is in use: LUN 0 (host esx, every target)"
    );
    let after = Change::DeleteUnit("vol1".into())
        .applied(&good(), Seed::fixed(1), true)
        .unwrap();
    assert!(after.unit("vol1").is_none() && after.maps.iter().all(|map| map.unit != "vol1"));
    let error = does(&good(), Change::DeleteHost("esx".into())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InUse);
    assert_eq!(
        does(&good(), Change::DeleteUnit("none".into()))
            .unwrap_err()
            .kind,
        ErrorKind::NotFound
    );
}

#[test]
fn deleting_a_target_keeps_the_hosts() {
    let mut config = good();
    config.maps[0].target = Some(ONE.into());
    let error = does(&config, Change::DeleteTarget(ONE.into())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InUse);
    let after = Change::DeleteTarget(ONE.to_uppercase())
        .applied(&config, Seed::fixed(1), true)
        .unwrap();
    assert_eq!(after.hosts, config.hosts);
    assert_eq!(after.maps.len(), 1);
}

#[test]
fn units_grow_and_never_shrink() {
    let resize = |size| ModifyUnit {
        size: Some(size),
        ..ModifyUnit::default()
    };
    let after = does(&good(), Change::ModifyUnit("vol1".into(), resize(2 << 20))).unwrap();
    assert_eq!(
        after.units[0].backend,
        BackendSpec::Memory { size: 2 << 20 }
    );
    let error = does(&good(), Change::ModifyUnit("vol1".into(), resize(512))).unwrap_err();
    assert!(error.message.contains("would cut off data"));
}

#[test]
fn a_file_cannot_shrink_a_unit_or_change_its_blocks() {
    let mut wanted = good();
    wanted.units[0].backend = BackendSpec::Memory { size: 512 };
    let error = does(&good(), Change::Replace(Box::new(wanted))).unwrap_err();
    assert!(error.message.contains("would cut off data"), "{error}");
    let mut wanted = good();
    wanted.units[1].block_size = 4096;
    let error = does(&good(), Change::Replace(Box::new(wanted))).unwrap_err();
    assert!(
        error.message.contains("would misread its partition tables"),
        "{error}"
    );
}

#[test]
fn a_port_id_is_not_reused() {
    let config = does(&good(), Change::Replace(Box::new(good()))).unwrap();
    let portal = |tag| AddPortal {
        portal: "10.0.0.9:3270".parse().unwrap(),
        tag,
        target_port_group: None,
        alua_state: None,
    };
    let id = |config: &Config, tag| {
        config
            .target(ONE)
            .unwrap()
            .portal_groups
            .iter()
            .find(|g| g.tag == tag)
            .unwrap()
            .relative_port_id
    };
    let first = does(&config, Change::AddPortal(ONE.into(), portal(3))).unwrap();
    assert_eq!(id(&first, 3), 4);
    let gone = does(
        &first,
        Change::RemovePortal(ONE.into(), "10.0.0.9:3270".parse().unwrap()),
    )
    .unwrap();
    assert_eq!(
        gone.target(ONE).unwrap().portal_groups.len(),
        2,
        "an empty group goes"
    );
    let second = does(&gone, Change::AddPortal(ONE.into(), portal(3))).unwrap();
    assert_eq!(id(&second, 3), 5);
    let back = does(&second, Change::Replace(Box::new(good()))).unwrap();
    assert_eq!(
        back.identity.last_relative_port_id, 5,
        "going back keeps the counters"
    );
}

#[test]
fn the_last_portal_stays() {
    let two = "iqn.2024-08.internal.sandstone:two";
    let error = does(
        &good(),
        Change::RemovePortal(two.into(), "0.0.0.0:3260".parse().unwrap()),
    )
    .unwrap_err();
    assert!(error.message.contains("the only portal"));
}

#[test]
fn hosts_take_names_in_any_case_once() {
    let after = does(
        &good(),
        Change::AddInitiator("esx".into(), "IQN.1994-05.com.redhat:A".into()),
    )
    .unwrap();
    assert_eq!(after.hosts[0].initiators[1], "IQN.1994-05.com.redhat:A");
    let again = does(
        &after,
        Change::AddInitiator("esx".into(), "iqn.1994-05.com.redhat:a".into()),
    )
    .unwrap_err();
    assert_eq!(again.kind, ErrorKind::Exists);
    let after = does(
        &after,
        Change::RemoveInitiator("esx".into(), "iqn.1994-05.com.redhat:A".into()),
    )
    .unwrap();
    assert_eq!(after.hosts, good().hosts);
}

#[test]
fn a_map_takes_the_lowest_lun_that_is_free_for_everyone_it_reaches() {
    let with = does(&good(), Change::CreateUnit(memory("new"))).unwrap();
    let after = does(&with, Change::AddMap(map("new"))).unwrap();
    assert_eq!(after.maps[2].lun, 1, "LUN 0 is taken for both hosts");
    let error = does(
        &with,
        Change::AddMap(AddMap {
            lun: Some(0),
            ..map("new")
        }),
    )
    .unwrap_err();
    assert!(
        error.message.starts_with("LUN 0 would show both vol1"),
        "{error}"
    );
}

#[test]
fn a_map_is_removed_only_when_it_is_clear_which() {
    let mut config = good();
    config.maps[0].target = Some(ONE.into());
    config.maps.push(MapSpec {
        target: Some(config.targets[1].iqn.clone()),
        lun: 7,
        ..config.maps[0].clone()
    });
    let remove = RemoveMap {
        unit: "vol1".into(),
        ..RemoveMap::default()
    };
    let error = does(&config, Change::RemoveMap(remove.clone())).unwrap_err();
    assert!(
        error.message.contains("2 maps of logical unit vol1 match"),
        "{error}"
    );
    let after = does(
        &config,
        Change::RemoveMap(RemoveMap {
            lun: Some(7),
            ..remove.clone()
        }),
    )
    .unwrap();
    assert_eq!(after.maps.len(), 2);
    let after = does(
        &config,
        Change::RemoveMap(RemoveMap {
            all: true,
            ..remove
        }),
    )
    .unwrap();
    assert_eq!(after.maps.len(), 1);
}

#[test]
fn share_makes_what_is_missing_and_is_idempotent() {
    let share = Share {
        unit: "db".into(),
        host: "IQN.1993-08.org.debian:01:9f2c".into(),
        create: Some(memory("db")),
        target: None,
        portals: vec![],
        lun: None,
        read_only: false,
    };
    let asked = |share: &Share| Change::Share(share.clone(), Vec::new());
    let after = does(&Config::default(), asked(&share)).unwrap();
    assert_eq!(after.targets[0].iqn, "iqn.2024-08.internal.sandstone:db");
    assert_eq!(after.hosts[0].name, "9f2c");
    assert_eq!(after.maps.len(), 1);
    assert_eq!(does(&after, asked(&share)).unwrap(), after);
    let told = vec!["10.0.0.1:3260".parse().unwrap()];
    let with_default = Change::Share(share.clone(), told.clone());
    let there = does(&Config::default(), with_default.clone()).unwrap();
    assert_eq!(there.targets[0].portal_groups[0].portals, told);
    // The only target is used as it is.
    assert_eq!(does(&after, with_default).unwrap(), after);
    let second = Share {
        unit: "logs".into(),
        create: Some(memory("logs")),
        ..share.clone()
    };
    let both = does(&after, asked(&second)).unwrap();
    assert_eq!(
        (both.targets.len(), both.hosts.len(), both.maps[1].lun),
        (1, 1, 1)
    );
    let unknown = Share {
        host: "9f2d".into(),
        ..share.clone()
    };
    assert!(
        does(&after, asked(&unknown))
            .unwrap_err()
            .message
            .contains("neither an existing host")
    );
    let sizeless = Share {
        unit: "none".into(),
        create: None,
        ..share
    };
    assert!(
        does(&after, asked(&sizeless))
            .unwrap_err()
            .next
            .contains("--size")
    );
}

#[test]
fn a_file_may_leave_identities_and_secrets_to_the_daemon() {
    let before = good();
    let mut wanted = super::super::redact::redacted(&before);
    assert_eq!(
        wanted.hosts[1].chap.as_ref().unwrap().secret,
        SECRET_NOT_SHOWN
    );
    wanted.units[0].naa.clear();
    wanted.units[0].serial.clear();
    wanted.targets[0].portal_groups[1].relative_port_id = 0;
    wanted.generation = 99;
    let after = does(&before, Change::Replace(Box::new(wanted.clone()))).unwrap();
    assert_eq!(
        (&after.units, &after.targets, &after.hosts),
        (&before.units, &before.targets, &before.hosts)
    );
    assert_eq!(
        after.generation,
        before.generation + 1,
        "the counters caught up with the fixture's port ids"
    );
    wanted.hosts[0].chap = Some(ChapSecret {
        user: "u".into(),
        secret: SECRET_NOT_SHOWN.into(),
    });
    assert!(
        does(&before, Change::Replace(Box::new(wanted)))
            .unwrap_err()
            .message
            .contains("no present secret to keep")
    );
}

#[test]
fn secrets_are_set_and_never_printed() {
    let chap = SetChap {
        user: "esx".into(),
        secret: "a secret of 18 bytes".into(),
    };
    let change = Change::SetHostChap("esx".into(), Some(chap));
    assert!(!format!("{change:?}").contains("18 bytes"));
    let after = does(&good(), change).unwrap();
    assert!(!format!("{after:?}").contains("18 bytes"));
    let differences = super::super::diff::diff(&good(), &after);
    assert!(!format!("{differences:?}").contains("18 bytes"));
    assert_eq!(differences.len(), 1);
    let other = SetChap {
        user: "esx".into(),
        secret: "another secret of it".into(),
    };
    let changed = does(&after, Change::SetHostChap("esx".into(), Some(other))).unwrap();
    let differences = super::super::diff::diff(&after, &changed);
    assert_eq!(differences[0].fields[0].field, "chap.secret");
    assert!(!format!("{differences:?}").contains("secret of"));
    let none = does(&changed, Change::SetHostChap("esx".into(), None)).unwrap();
    assert_eq!(none.hosts, good().hosts);
}

#[test]
fn the_difference_names_objects_and_fields() {
    let read_only = ModifyUnit {
        read_only: Some(true),
        ..ModifyUnit::default()
    };
    let mut after = does(&good(), Change::ModifyUnit("vol1".into(), read_only)).unwrap();
    after = does(&after, Change::AddInitiator("linux".into(), ESX.into())).unwrap_or(after);
    let differences = super::super::diff::diff(&good(), &after);
    let field = &differences[0].fields[0];
    assert_eq!(
        (differences[0].object.as_str(), differences[0].name.as_str()),
        ("lu", "vol1")
    );
    assert_eq!(
        (
            field.field.as_str(),
            field.old.as_deref(),
            field.new.as_deref()
        ),
        ("read_only", Some("false"), Some("true"))
    );
}

/// Makes a target for each volume, as `share` does: a target port group is full with 255 ports.
#[test]
fn new_targets_go_to_the_next_target_port_group_when_one_is_full() {
    let mut config = good();
    config.targets.clear();
    config.maps.clear();
    for number in 0..MAX_TARGET_PORTS + 2 {
        let iqn = format!("iqn.2024-08.internal.sandstone:t{number}");
        let request = serde_json::from_value(serde_json::json!({ "iqn": iqn })).unwrap();
        config = does(&config, Change::CreateTarget(request)).unwrap();
    }
    let groups = config.targets.iter();
    let groups = groups.map(|target| target.portal_groups[0].target_port_group);
    let in_second = groups.filter(|group| *group == 2).count();
    assert_eq!(in_second, 2);
}

/// Returns a configuration with target `one` in the group `site-a`, and vol1 mapped there to
/// everyone.
fn with_a_target_group() -> Config {
    let create = CreateTargetGroup {
        name: "site-a".into(),
        targets: vec![ONE.to_uppercase()],
    };
    let mut config = does(&good(), Change::CreateTargetGroup(create)).unwrap();
    assert_eq!(config.target_groups[0].targets, [ONE]);
    config.maps.clear();
    let to_group = AddMap {
        target: Some("site-a".into()),
        ..map("vol1")
    };
    does(&config, Change::AddMap(to_group)).unwrap()
}

#[test]
fn a_target_group_gains_and_loses_targets() {
    let config = with_a_target_group();
    let (group, one) = ("site-a".to_owned(), ONE.to_owned());
    let two = config.targets[1].iqn.clone();
    let add = |group: &str, iqn: &str| Change::AddTarget(group.into(), iqn.into());
    let after = does(&config, add(&group, &two.to_uppercase())).unwrap();
    assert_eq!(after.target_groups[0].targets, [one, two]);
    let again = does(&after, add(&group, ONE)).unwrap_err();
    assert_eq!(again.kind, ErrorKind::Exists);
    let unknown = does(&config, add("site-b", ONE)).unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::NotFound);
    let remove = Change::RemoveTarget(group, ONE.into());
    let after = does(&after, remove.clone()).unwrap();
    assert_eq!(
        after.target_groups[0].targets,
        [config.targets[1].iqn.clone()]
    );
    assert_eq!(does(&after, remove).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn what_a_target_group_holds_or_leads_to_goes_only_with_a_yes() {
    let config = with_a_target_group();
    let group = Change::DeleteTargetGroup("site-a".into());
    let refused = does(&config, group.clone()).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::InUse);
    assert!(refused.message.contains("vol1 as LUN 0"), "{refused}");
    let after = group.applied(&config, Seed::fixed(1), true).unwrap();
    assert!(after.target_groups.is_empty() && after.maps.is_empty());
    assert_eq!(after.targets.len(), 2, "its targets stay");

    let target = Change::DeleteTarget(ONE.into());
    let refused = does(&config, target.clone()).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::InUse);
    assert!(refused.message.contains("target group site-a"), "{refused}");
    let after = target.applied(&config, Seed::fixed(1), true).unwrap();
    assert!(after.target_groups[0].targets.is_empty());
    assert_eq!(
        after.maps, config.maps,
        "it leads nowhere until the group has another target"
    );
}

#[test]
fn maps_of_a_target_group_without_targets_have_luns_of_their_own() {
    let create = CreateTargetGroup {
        name: "site-a".into(),
        targets: Vec::new(),
    };
    let mut config = does(&good(), Change::CreateTargetGroup(create)).unwrap();
    config.maps.clear();
    for unit in ["vol1", "vol2"] {
        let to_group = AddMap {
            target: Some("site-a".into()),
            ..map(unit)
        };
        config = does(&config, Change::AddMap(to_group)).unwrap();
    }
    let luns: Vec<u16> = config.maps.iter().map(|map| map.lun).collect();
    assert_eq!(luns, [0, 1]);
    does(&config, Change::AddTarget("site-a".into(), ONE.into())).unwrap();
}

#[test]
fn sharing_where_a_map_of_a_target_group_leads_adds_no_second_map() {
    let config = with_a_target_group();
    let share = |target: Option<&str>| {
        let request = serde_json::json!({ "unit": "vol1", "host": "esx", "target": target });
        Change::Share(serde_json::from_value(request).unwrap(), Vec::new())
    };
    assert_eq!(does(&config, share(Some(ONE))).unwrap().maps, config.maps);
    assert_eq!(does(&config, share(None)).unwrap().maps, config.maps);
    let elsewhere = config.targets[1].iqn.clone();
    let after = does(&config, share(Some(&elsewhere))).unwrap();
    assert_eq!(after.maps[1].target, Some(elsewhere));
}

/// Guards the sessions of a port: they would go on by the states of a group that the port has left.
#[test]
fn a_target_port_keeps_its_target_port_group() {
    let before = good();
    let mut wanted = before.clone();
    wanted.targets[0].portal_groups[1].target_port_group = 7;
    let replace = |wanted: &Config| does(&before, Change::Replace(Box::new(wanted.clone())));
    let refused = replace(&wanted).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(refused.message.contains("portal group 2 of"), "{refused}");
    // A file may leave the identifier out; the port is still the same.
    wanted.targets[0].portal_groups[1].relative_port_id = 0;
    assert!(replace(&wanted).is_err());
    // A port with another tag is another port.
    wanted.targets[0].portal_groups[1].tag = 3;
    let after = replace(&wanted).unwrap();
    let ports = &after.targets[0].portal_groups;
    assert_eq!((ports[1].tag, ports[1].target_port_group), (3, 7));
    assert_ne!(ports[1].relative_port_id, 2);
}
