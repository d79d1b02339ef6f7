//! One test for each rule: a configuration that breaks it is refused, with the right kind, words
//! and next step.

use super::*;
use model::config::*;
use model::error::ErrorKind;

/// Returns a configuration that keeps every rule.
pub fn good() -> Config {
    toml::from_str(
        r#"
        [[units]]
        name = "vol1"
        naa = "652534e0000000000000100000000001"
        serial = "s1"
        backend = { kind = "memory", size = 1048576 }

        [[units]]
        name = "vol2"
        naa = "652534e0000000000000200000000002"
        serial = "s2"
        backend = { kind = "file", path = "volumes/vol2.img", size = 1048576 }

        [[targets]]
        iqn = "iqn.2024-08.internal.sandstone:one"
        portal_groups = [
            { relative_port_id = 1, portals = ["0.0.0.0:3260"] },
            { tag = 2, relative_port_id = 2, portals = ["10.0.0.1:3261", "[::]:3260"] },
        ]

        [[targets]]
        iqn = "iqn.2024-08.internal.sandstone:two"
        portal_groups = [{ relative_port_id = 3, portals = ["0.0.0.0:3260"] }]

        [[hosts]]
        name = "esx"
        initiators = ["iqn.1998-01.com.vmware:*"]

        [[hosts]]
        name = "linux"
        initiators = ["iqn.1993-08.org.debian:01:abc"]
        chap = { user = "debian", secret = "twelve bytes" }

        [[maps]]
        unit = "vol1"
        host = "esx"
        lun = 0

        [[maps]]
        unit = "vol2"
        host = "linux"
        lun = 0
        "#,
    )
    .unwrap()
}

/// Changes a good configuration, and returns the refusal.
fn refusal(change: impl FnOnce(&mut Config)) -> Error {
    let mut config = good();
    validate(&config).expect("the fixture keeps every rule");
    change(&mut config);
    let error = validate(&config).expect_err("must be refused");
    assert!(!error.next.is_empty() && !error.not_changed.is_empty());
    error
}

#[track_caller]
fn says(error: Error, kind: ErrorKind, words: &str) {
    assert_eq!(error.kind, kind, "{error}");
    assert!(
        error.message.contains(words),
        "{error:?} does not say {words:?}"
    );
}

#[test]
fn names_are_unique_and_well_formed() {
    says(
        refusal(|c| c.units[1].name = "vol1".into()),
        ErrorKind::Exists,
        "logical unit vol1 exists already",
    );
    says(
        refusal(|c| c.targets[1].iqn = c.targets[0].iqn.clone()),
        ErrorKind::Exists,
        "target iqn",
    );
    says(
        refusal(|c| c.hosts[1].name = "esx".into()),
        ErrorKind::Exists,
        "host esx exists already",
    );
    for name in ["", "a b", "../x", "-x", "a/b", &"x".repeat(129)] {
        says(
            refusal(|c| c.units[0].name = name.into()),
            ErrorKind::Invalid,
            "not a valid logical unit name",
        );
    }
    says(
        refusal(|c| c.targets[0].iqn = "disk,one".into()),
        ErrorKind::Invalid,
        "a comma, which separates names",
    );
    says(
        refusal(|c| c.targets[1].iqn = c.targets[0].iqn.to_ascii_uppercase()),
        ErrorKind::Exists,
        "target IQN.",
    );
}

#[test]
fn identities_are_unique_and_well_formed() {
    says(
        refusal(|c| c.units[1].naa = c.units[0].naa.clone()),
        ErrorKind::Invalid,
        "have the same NAA",
    );
    says(
        refusal(|c| c.units[1].serial = "s1".into()),
        ErrorKind::Invalid,
        "the same serial number",
    );
    for naa in [
        "",
        "52534e",
        "552534e0000000000000100000000001",
        "652534E0000000000000100000000001",
    ] {
        says(
            refusal(|c| c.units[0].naa = naa.into()),
            ErrorKind::Invalid,
            "NAA type 6",
        );
    }
    says(
        refusal(|c| c.units[0].serial = "a b".into()),
        ErrorKind::Invalid,
        "serial number",
    );
    says(
        refusal(|c| c.targets[1].portal_groups[0].relative_port_id = 1),
        ErrorKind::Invalid,
        "relative port id 1",
    );
    says(
        refusal(|c| c.targets[1].portal_groups[0].relative_port_id = 0),
        ErrorKind::Invalid,
        "must be 1 to 65535",
    );
}

#[test]
fn block_sizes_are_those_that_clients_know() {
    says(
        refusal(|c| c.units[0].block_size = 1024),
        ErrorKind::Invalid,
        "block size of 1024",
    );
    says(
        refusal(|c| c.units[0].block_size = 0),
        ErrorKind::Invalid,
        "block size of 0",
    );
    says(
        refusal(|c| c.units[0].physical_block_size = 1536),
        ErrorKind::Invalid,
        "power of two times",
    );
    says(
        refusal(|c| c.units[0].physical_block_size = 0),
        ErrorKind::Invalid,
        "power of two times",
    );
    let mut config = good();
    config.units[0].block_size = 4096;
    assert_eq!(validate(&config), Ok(()));
}

#[test]
fn backends_have_a_size_and_a_place_of_their_own() {
    let memory = |size| move |c: &mut Config| c.units[0].backend = BackendSpec::Memory { size };
    says(refusal(memory(0)), ErrorKind::Invalid, "positive multiple");
    says(
        refusal(memory(1000)),
        ErrorKind::Invalid,
        "positive multiple of its 512-byte blocks",
    );
    says(
        refusal(memory(1 << 63)),
        ErrorKind::Invalid,
        "no file system",
    );
    let file = |path: &str| BackendSpec::File {
        path: path.into(),
        size: 4096,
        preallocate: false,
    };
    says(
        refusal(|c| c.units[0].backend = file("volumes/vol2.img")),
        ErrorKind::Invalid,
        "both keep their data",
    );
    says(
        refusal(|c| c.units[0].backend = file("../x")),
        ErrorKind::Invalid,
        "not a path",
    );
    says(
        refusal(|c| c.units[0].backend = BackendSpec::Device { path: "sda".into() }),
        ErrorKind::Invalid,
        "absolute",
    );
    says(
        refusal(|c| c.units[0].threshold_percent = Some(0)),
        ErrorKind::Invalid,
        "never or always",
    );
    says(
        refusal(|c| c.units[0].threshold_percent = Some(100)),
        ErrorKind::Invalid,
        "never or always",
    );
}

#[test]
fn portals_do_not_clash() {
    let portal = |text: &'static str| {
        move |c: &mut Config| c.targets[1].portal_groups[0].portals = vec![text.parse().unwrap()]
    };
    says(
        refusal(portal("10.0.0.1:3260")),
        ErrorKind::Invalid,
        "0.0.0.0:3260 takes its port on every address",
    );
    says(
        refusal(portal("[fd00::1]:3260")),
        ErrorKind::Invalid,
        "[::]:3260 takes its port",
    );
    says(
        refusal(portal("10.0.0.1:0")),
        ErrorKind::Invalid,
        "has no port",
    );
    says(
        refusal(portal("224.0.0.1:3262")),
        ErrorKind::Invalid,
        "multicast",
    );
    let twice = |c: &mut Config| {
        c.targets[0].portal_groups[1]
            .portals
            .push("0.0.0.0:3260".parse().unwrap())
    };
    says(refusal(twice), ErrorKind::Invalid, "is listed twice");
    let mut shared = good();
    shared.targets[1].portal_groups[0].portals = vec!["10.0.0.1:3261".parse().unwrap()];
    assert_eq!(
        validate(&shared),
        Ok(()),
        "two targets may share an address"
    );
}

#[test]
fn portal_groups_have_tags_and_one_state_per_target_port_group() {
    says(
        refusal(|c| c.targets[0].portal_groups.clear()),
        ErrorKind::Invalid,
        "no portal group",
    );
    says(
        refusal(|c| c.targets[0].portal_groups[1].tag = 1),
        ErrorKind::Invalid,
        "tag 1 is zero or used twice",
    );
    says(
        refusal(|c| c.targets[0].portal_groups[0].tag = 0),
        ErrorKind::Invalid,
        "tag 0",
    );
    says(
        refusal(|c| c.targets[0].portal_groups[0].portals.clear()),
        ErrorKind::Invalid,
        "has no address",
    );
    says(
        refusal(|c| c.targets[0].portal_groups[1].alua_state = AluaState::Standby),
        ErrorKind::Invalid,
        "active-optimized and standby at once",
    );
    for address in [
        "",
        "host",
        "host:0",
        "host:x",
        "10.0.0.1:3260,0",
        "fd00::1:3260",
        "[fd00::g]:1",
        "a b:1",
    ] {
        let redirect = RedirectSpec {
            address: address.into(),
            permanent: false,
        };
        says(
            refusal(|c| c.targets[0].redirect = Some(redirect)),
            ErrorKind::Invalid,
            "redirect to",
        );
    }
}

#[test]
fn parameters_stay_within_the_standard() {
    says(
        refusal(|c| c.targets[0].parameters.queue_depth = Some(0)),
        ErrorKind::Invalid,
        "queue_depth = 0",
    );
    says(
        refusal(|c| c.targets[0].parameters.max_burst_length = Some(1 << 24)),
        ErrorKind::Invalid,
        "max_burst_length",
    );
    says(
        refusal(|c| c.targets[0].parameters.max_burst_length = Some(4096)),
        ErrorKind::Invalid,
        "first_burst_length 262144",
    );
}

#[test]
fn initiators_belong_to_one_host() {
    says(
        refusal(|c| {
            c.hosts[1]
                .initiators
                .push("iqn.1998-01.com.vmware:*".into())
        }),
        ErrorKind::Invalid,
        "the hosts esx and linux",
    );
    says(
        refusal(|c| c.hosts[1].initiators.push("host1,host2".into())),
        ErrorKind::Invalid,
        "not an initiator name",
    );
    says(
        refusal(|c| {
            c.hosts[1]
                .initiators
                .push("iqn.1998-01.com.VMware:*".into())
        }),
        ErrorKind::Invalid,
        "the hosts esx and linux",
    );
}

#[test]
fn chap_secrets_have_a_length_and_are_not_shared_both_ways() {
    let secret = |text: &str| {
        Some(ChapSecret {
            user: "u".into(),
            secret: text.into(),
        })
    };
    says(
        refusal(|c| c.hosts[0].chap = secret("short")),
        ErrorKind::Invalid,
        "has 5 bytes",
    );
    says(
        refusal(|c| c.hosts[0].chap = secret(&"x".repeat(256))),
        ErrorKind::Invalid,
        "has 256 bytes",
    );
    says(
        refusal(|c| c.hosts[0].chap = secret(SECRET_NOT_SHOWN)),
        ErrorKind::Invalid,
        "no present secret to keep",
    );
    says(
        refusal(|c| c.targets[0].mutual_chap = secret("twelve bytes")),
        ErrorKind::Invalid,
        "the same CHAP secret",
    );
    says(
        refusal(|c| c.discovery_mutual_chap = secret("twelve bytes")),
        ErrorKind::Invalid,
        "and discovery have the same CHAP secret",
    );
    says(
        refusal(|c| c.discovery_mutual_chap = secret("too short")),
        ErrorKind::Invalid,
        "discovery",
    );
    let nameless = Some(ChapSecret {
        user: String::new(),
        secret: "long enough for it".into(),
    });
    let error = refusal(|c| c.hosts[0].chap = nameless);
    assert!(!format!("{error:?}").contains("long enough for it"));
}

#[test]
fn maps_name_what_exists_and_do_not_collide() {
    says(
        refusal(|c| c.maps[0].unit = "none".into()),
        ErrorKind::NotFound,
        "logical unit \"none\"",
    );
    says(
        refusal(|c| c.maps[0].host = Some("none".into())),
        ErrorKind::NotFound,
        "host \"none\"",
    );
    says(
        refusal(|c| c.maps[0].target = Some("iqn.2024-08.org.example:none".into())),
        ErrorKind::NotFound,
        "target \"iqn.2024-08.org.example:none\"",
    );
    says(
        refusal(|c| c.maps[0].lun = 16384),
        ErrorKind::Invalid,
        "above 16383",
    );
    says(
        refusal(|c| c.maps[0].host = None),
        ErrorKind::Invalid,
        "LUN 0 would show both",
    );
    let wild = |c: &mut Config| c.hosts[0].initiators = vec!["iqn.*".into()];
    says(
        refusal(wild),
        ErrorKind::Invalid,
        "LUN 0 would show both vol1 (host esx, every target) and vol2",
    );
    let twice = |c: &mut Config| {
        let second = MapSpec {
            lun: 5,
            target: Some(c.targets[0].iqn.clone()),
            ..c.maps[0].clone()
        };
        c.maps.push(second);
    };
    says(refusal(twice), ErrorKind::Invalid, "seen twice");
    let mut apart = good();
    apart.maps[0].target = Some(apart.targets[0].iqn.clone());
    apart.maps.push(MapSpec {
        target: Some(apart.targets[1].iqn.clone()),
        ..apart.maps[0].clone()
    });
    assert_eq!(
        validate(&apart),
        Ok(()),
        "one unit at two targets is two paths"
    );
}

#[test]
fn isns_servers_are_addresses_of_one_server_each() {
    let mut config = good();
    config.isns_servers = vec!["192.0.2.1:3205".parse().expect("an address")];
    validate(&config).expect("one server is fine");
    let with = |servers: &[&str]| {
        let servers: Vec<_> = servers
            .iter()
            .map(|server| server.parse().expect("an address"))
            .collect();
        refusal(move |c| c.isns_servers = servers)
    };
    let invalid = ErrorKind::Invalid;
    says(with(&["0.0.0.0:3205"]), invalid, "address of one server");
    says(with(&["192.0.2.1:0"]), invalid, "address of one server");
    says(with(&["[ff02::1]:3205"]), invalid, "address of one server");
    says(with(&["192.0.2.1:1", "192.0.2.1:1"]), invalid, "twice");
    let many: Vec<String> = (1..10).map(|n| format!("192.0.2.{n}:3205")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    says(with(&many), invalid, "at most 8");
}

/// Checks the limit of REPORT TARGET PORT GROUPS, which counts the ports of a group in a byte.
#[test]
fn a_target_port_group_has_at_most_255_ports() {
    let mut config = good();
    let group = config.targets[0].portal_groups[0].clone();
    let more = (4..).map(|number| PortalGroupSpec {
        tag: number,
        relative_port_id: number,
        portals: vec![([10, 0, 0, 9], number).into()],
        ..group.clone()
    });
    // Three ports exist already.
    let more = more.take(MAX_TARGET_PORTS - 3);
    config.targets[0].portal_groups.extend(more);
    validate(&config).expect("as many as there may be");
    config.targets[0].portal_groups.push(PortalGroupSpec {
        tag: 1000,
        relative_port_id: 1000,
        portals: vec![([10, 0, 0, 9], 1000).into()],
        ..group
    });
    let refused = validate(&config).expect_err("one too many");
    assert!(refused.to_string().contains("more than 255"), "{refused}");
}

#[test]
fn target_groups_have_names_of_their_own_and_members_that_exist() {
    let with = |name: &str, targets: &[&str]| {
        let targets = targets.iter().map(|it| (*it).to_owned()).collect();
        let name = name.to_owned();
        move |c: &mut Config| c.target_groups.push(TargetGroupSpec { name, targets })
    };
    let one = good().targets[0].iqn.clone();
    let mut config = good();
    with("site-a", &[&one])(&mut config);
    with("empty", &[])(&mut config);
    validate(&config).unwrap();
    for name in ["iqn.2024-08.internal.sandstone:group", "NAA.1", "a b"] {
        let words = "not a valid target group name";
        says(refusal(with(name, &[])), ErrorKind::Invalid, words);
    }
    let twice = |c: &mut Config| {
        with("site-a", &[])(c);
        with("site-a", &[])(c);
    };
    says(
        refusal(twice),
        ErrorKind::Exists,
        "target group site-a exists already",
    );
    let unknown = refusal(with("site-a", &["iqn.2024-08.internal.sandstone:none"]));
    says(
        unknown,
        ErrorKind::NotFound,
        "target group site-a names the target",
    );
    let doubled = refusal(with("site-a", &[&one, &one]));
    says(doubled, ErrorKind::Invalid, "twice");
}

#[test]
fn maps_of_target_groups_exist_and_collide_only_at_a_target_of_both() {
    let unknown = refusal(|c| c.maps[0].target = Some("site-a".into()));
    says(
        unknown,
        ErrorKind::NotFound,
        "names the target group \"site-a\"",
    );
    let mut config = good();
    let (one, two) = (config.targets[0].iqn.clone(), config.targets[1].iqn.clone());
    for (name, target) in [("site-a", &one), ("site-b", &two)] {
        let (name, targets) = (name.to_owned(), vec![target.clone()]);
        config.target_groups.push(TargetGroupSpec { name, targets });
    }
    // Both units are LUN 0 of every host, at different targets.
    for (map, group) in config.maps.iter_mut().zip(["site-a", "site-b"]) {
        (map.host, map.target) = (None, Some(group.into()));
    }
    validate(&config).unwrap();
    config.target_groups[1].targets.push(one.clone());
    says(
        validate(&config).unwrap_err(),
        ErrorKind::Invalid,
        "LUN 0 would show both",
    );
    config.target_groups[1].targets.pop();
    config.maps[1].target = Some(one);
    says(
        validate(&config).unwrap_err(),
        ErrorKind::Invalid,
        "LUN 0 would show both",
    );
}
