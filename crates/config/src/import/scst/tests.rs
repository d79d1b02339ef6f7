//! Tests that a scst.conf of scstadmin becomes a configuration that can be applied.

use super::*;
use crate::change::Change;
use crate::identity::Seed;
use model::Config;

const SAVED: &str = include_str!("scst.conf");

fn size_of(path: &Path) -> Option<u64> {
    (path == Path::new("/srv/data.img")).then_some(1 << 30)
}

pub(super) const MACHINE: Machine<'static> = Machine {
    size_of: &size_of,
    has_address: &|_| true,
};

#[test]
fn identities_maps_and_secrets_are_kept() {
    let Imported { config, notes, .. } = read(SAVED, &MACHINE).unwrap();
    let config = Change::Replace(Box::new(config))
        .applied(&Config::default(), Seed::fixed(1), false)
        .unwrap();
    let vm1 = config.unit("vm1").unwrap();
    assert_eq!(
        (vm1.naa.as_str(), vm1.serial.as_str()),
        ("6e843b6aa1b2c3d4e5f60718293a4b5c", "a1b2c3d4")
    );
    assert!(vm1.thin && !vm1.write_cache);
    let data = config.unit("data").unwrap();
    assert_eq!((data.block_size, data.serial.as_str()), (4096, "d4c3b2a1"));
    assert!(data.naa.starts_with("652534e"));
    let target = &config.targets[0];
    assert_eq!(target.portal_groups[0].relative_port_id, 3);
    assert_eq!(
        target.portal_groups[0].portals,
        ["10.0.0.1:3260".parse().unwrap()]
    );
    for initiator in ["iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:lab7"] {
        let view = crate::access::access(&config, initiator, &target.iqn, None).unwrap();
        let luns: Vec<_> = view
            .luns
            .iter()
            .map(|v| (v.lun, v.unit.as_str(), v.read_only))
            .collect();
        assert_eq!(luns, [(0, "vm1", false), (1, "data", true)]);
        assert!(matches!(
            view.authentication,
            crate::access::Authentication::Chap { .. }
        ));
    }
    let said = |words: &str| {
        assert!(
            notes.iter().any(|note| note.contains(words)),
            "{words} is not in {notes:#?}"
        )
    };
    said("device gone was left out");
    said("vdisk_nullio");
    said("copy_manager");
    said("esx2#10.0.0.5");
    said("LUN 2 (gone)");
}

#[test]
fn broken_files_are_refused_with_their_line() {
    let refused = |text: &str| read(text, &MACHINE).unwrap_err().message;
    assert!(refused("HANDLER x {\n").contains("a } is missing"));
    assert!(refused("}\n").contains("line 1"));
    assert!(refused("HANDLER x {\n a \"b\n}\n").contains("line 2"));
    assert!(refused("# nothing\n").contains("is empty"));
}

const IQN: &str = "iqn.2012-02.test.office:files";

/// Returns devices `a`, `b` and `c`, and these lines in one target.
fn conf(target: &str) -> String {
    let devices = ["a", "b", "c"]
        .map(|name| format!("DEVICE {name} {{\nfilename /srv/data.img.{name}\n}}\n"));
    format!(
        "HANDLER vdisk_fileio {{\n{}}}\nTARGET_DRIVER iscsi {{\nenabled 1\nTARGET {IQN} {{\nenabled 1\n{target}\n}}\n}}\n",
        devices.concat()
    )
}

fn imported(target: &str) -> (Config, Vec<String>) {
    let machine = Machine {
        size_of: &|_| Some(1 << 20),
        has_address: &|ip| ip.is_ipv4(),
    };
    let Imported { config, notes, .. } = read(&conf(target), &machine).unwrap();
    let config = Change::Replace(Box::new(config))
        .applied(&Config::default(), Seed::fixed(1), false)
        .unwrap();
    (config, notes)
}

/// Returns LUN and unit of everything that `iqn.2001-04.x:NAME` sees.
fn sees(config: &Config, name: &str) -> Vec<(u16, String)> {
    let views = crate::access::luns(config, &format!("iqn.2001-04.x:{name}"), IQN);
    views
        .into_iter()
        .map(|view| (view.lun, view.unit))
        .collect()
}

fn lun(lun: u16, unit: &str) -> (u16, String) {
    (lun, unit.to_owned())
}

#[test]
fn members_of_a_group_see_only_its_luns_and_without_luns_nothing() {
    let (config, _) = imported(
        "LUN 0 a\nGROUP accounts {\nLUN 0 b\nINITIATOR iqn.2001-04.x:acc\n}\nGROUP shut_out {\nINITIATOR iqn.2001-04.x:lab*\n}",
    );
    assert_eq!(sees(&config, "acc"), [lun(0, "b")]);
    assert_eq!(sees(&config, "lab7"), []);
    assert_eq!(sees(&config, "anybody"), [lun(0, "a")]);
}

#[test]
fn a_leading_exclamation_mark_means_all_the_others() {
    let (config, _) = imported("LUN 0 a\nGROUP blocking {\nINITIATOR !iqn.2001-04.x:me\n}");
    assert_eq!(sees(&config, "me"), [lun(0, "a")]);
    assert_eq!(sees(&config, "other"), []);
}

#[test]
fn one_group_of_three_initiators_is_one_host() {
    let (config, notes) = imported(
        "GROUP esx {\nLUN 0 a\nLUN 1 b\nINITIATOR iqn.2001-04.x:a\nINITIATOR iqn.2001-04.x:b\nINITIATOR iqn.2001-04.x:c\n}",
    );
    assert_eq!(config.hosts.len(), 1);
    assert_eq!(
        (
            config.hosts[0].name.as_str(),
            config.hosts[0].initiators.len()
        ),
        ("esx", 3)
    );
    assert_eq!(config.maps.len(), 2);
    assert!(
        notes.iter().all(|note| note.contains("new NAA")),
        "{notes:?}"
    );
}

#[test]
fn a_name_with_a_portal_stays_at_that_portal() {
    let (config, _) = imported(
        "per_portal_acl 1\nIncomingUser \"hv1 hash\\#inside12\"\nGROUP security_group {\nINITIATOR iqn.2001-04.x:hv1\\#127.0.0.1\nLUN 0 a\n}",
    );
    assert_eq!(sees(&config, "hv1"), [lun(0, "a")]);
    assert_eq!(sees(&config, "hv2"), []);
    assert_eq!(
        config.hosts[0].chap.as_ref().unwrap().secret,
        "hash#inside12"
    );
    assert_eq!(
        config.targets[0].portal_groups[0].portals,
        ["127.0.0.1:3260".parse().unwrap()]
    );
    // Beside it, a target that listened everywhere listens where it can.
    let both = conf(
        "per_portal_acl 1\nGROUP g {\nINITIATOR iqn.2001-04.x:a\\#10.0.0.1\nLUN 0 a\n}\n}\nTARGET iqn.2012-02.test.office:open {\nenabled 1\nLUN 0 b",
    );
    let machine = Machine {
        size_of: &|_| Some(1 << 20),
        has_address: &|_| true,
    };
    let config = read(&both, &machine).unwrap().config;
    let portals = config
        .targets
        .iter()
        .map(|target| target.portal_groups[0].portals.clone());
    let portal: std::net::SocketAddr = "10.0.0.1:3260".parse().unwrap();
    assert_eq!(portals.collect::<Vec<_>>(), [[portal], [portal]]);
    let (config, _) = imported("per_portal_acl 1\nGROUP g {\nINITIATOR *\\#*\nLUN 0 a\n}");
    assert_eq!(sees(&config, "anybody"), [lun(0, "a")]);
    let (config, notes) =
        imported("per_portal_acl 1\nGROUP g {\nINITIATOR *\\#2001:db8::90\nLUN 0 a\n}");
    assert_eq!(config.targets.len(), 0);
    assert!(
        notes.iter().any(|note| note.contains("2001:db8::90")),
        "{notes:?}"
    );
}

#[test]
fn of_several_users_the_first_is_kept_and_the_others_are_named() {
    let (config, notes) = imported(
        "LUN 0 a\nIncomingUser \"one first-secret-1\"\nIncomingUser \"two second-secret\"",
    );
    assert_eq!(config.hosts[0].initiators, ["*"]);
    assert_eq!(config.hosts[0].chap.as_ref().unwrap().user, "one");
    assert!(
        notes.iter().any(|note| note.contains("no longer as two")),
        "{notes:?}"
    );
}

#[test]
fn parameters_are_taken_over_or_named() {
    let (config, notes) = imported(
        "LUN 0 a\nQueuedCommands 64\nMaxOutstandingR2T 20\nNopInTimeout 7\nDataDigest None",
    );
    let p = &config.targets[0].parameters;
    assert_eq!(
        (p.queue_depth, p.max_outstanding_r2t, p.require_data_digest),
        (Some(64), Some(20), Some(false))
    );
    assert!(
        notes.iter().any(|note| note.contains("NopInTimeout 7")),
        "{notes:?}"
    );
}

#[test]
fn a_block_that_stands_twice_is_refused() {
    let twice = conf("GROUP g {\nLUN 0 a\n}\nGROUP g {\nLUN 0 b\n}");
    assert!(
        read(&twice, &MACHINE)
            .unwrap_err()
            .message
            .contains("repeats an earlier block")
    );
}

#[test]
fn groups_are_looked_at_in_the_order_of_their_names() {
    let groups = |wide: &str, narrow: &str| {
        imported(&format!(
            "GROUP {wide} {{\nLUN 0 a\nINITIATOR iqn.2001-04.x:*\n}}\nGROUP {narrow} {{\nLUN 0 b\nINITIATOR iqn.2001-04.x:me\n}}"
        ))
        .0
    };
    let config = groups("zoo", "ark");
    assert_eq!(sees(&config, "me"), [lun(0, "b")]);
    assert_eq!(sees(&config, "other"), [lun(0, "a")]);
    assert_eq!(sees(&groups("ark", "zoo"), "me"), [lun(0, "a")]);
    assert_eq!(sees(&groups("Zoo", "ark"), "me"), [lun(0, "a")]);
}

#[test]
fn a_pattern_of_two_groups_lets_nobody_in_and_is_named() {
    let (config, notes) = imported(
        "LUN 0 a\nGROUP one {\nLUN 0 b\nINITIATOR iqn.2001-04.x:me\n}\nGROUP two {\nLUN 0 c\nINITIATOR iqn.2001-04.x:me\nINITIATOR iqn.2001-04.x:you\n}",
    );
    assert_eq!(sees(&config, "me"), []);
    assert_eq!(sees(&config, "you"), [lun(0, "c")]);
    assert_eq!(sees(&config, "other"), [lun(0, "a")]);
    let told = |note: &&String| note.contains("either group") && note.contains("x:me");
    assert_eq!(notes.iter().filter(told).count(), 2, "{notes:?}");
}

/// Returns the line of a text, and the reason of its refusal.
fn refused(text: &str) -> (usize, String) {
    let error = read(text, &MACHINE).expect_err(text);
    let line = crate::import::mutations::refused_line(&error);
    (line.expect("a line"), error.message)
}

#[test]
fn a_switch_that_is_not_understood_is_refused_with_its_line() {
    let unit = |line: &str| {
        format!("HANDLER vdisk_fileio {{\nDEVICE a {{\nfilename /srv/data.img\n{line}\n}}\n}}\n")
    };
    let target = |line: &str| conf(&format!("LUN 0 a\n{line}"));
    let lun = |line: &str| conf(&format!("LUN 0 a {{\n{line}\n}}"));
    for word in ["yes", "true", "on", "2", "1x", "-1", "\"\"", "1 1"] {
        for attribute in ["read_only", "write_through", "nv_cache", "thin_provisioned"] {
            assert_eq!(
                refused(&unit(&format!("{attribute} {word}"))).0,
                4,
                "{attribute} {word}"
            );
        }
        let (line, why) = refused(&target(&format!("per_portal_acl {word}")));
        assert_eq!(line, 17, "{word}: {why}");
        assert_eq!(refused(&lun(&format!("read_only {word}"))).0, 17, "{word}");
    }
    assert_eq!(refused(&unit("read_only 0\nread_only 1")).0, 5);
    assert!(read(&unit("read_only 0x1"), &MACHINE).unwrap().config.units[0].read_only);
}

#[test]
fn a_misspelt_attribute_opens_nothing() {
    for line in [
        "IncomingUsr \"ann secret-of-ann\"",
        "per_portal_acll 1",
        "allowed_portl 10.0.0.1",
    ] {
        let (config, notes) = imported(&format!("LUN 0 a\n{line}"));
        assert_eq!(config.targets.len(), 0, "{line}");
        assert!(
            notes.iter().any(|note| note.contains("line 17: ")),
            "{notes:?}"
        );
        assert!(
            notes.iter().all(|note| !note.contains("secret-of-ann")),
            "{notes:?}"
        );
    }
    let (config, _) = imported("GROUP g {\nLUN 0 a\nINITIATR iqn.2001-04.x:me\n}\nLUN 0 b");
    assert_eq!(config.targets.len(), 0);
    let (config, notes) = imported("LUN 0 a {\nreadonly 1\n}\nLUN 1 b");
    assert_eq!(sees(&config, "me"), [lun(1, "b")], "{notes:?}");
    let device = SAVED.replace("usn d4c3b2a1", "read_onyl 1");
    let config = read(&device, &MACHINE).unwrap().config;
    assert!(config.unit("data").is_none() && config.unit("vm1").is_some());
    for (line, at) in [
        ("GRUOP g {\nLUN 0 a\n}", 16),
        ("IncomingUser ann", 16),
        ("IncomingUserX \"ann secret-of-ann\"", 16),
        ("IncomingUser \"ann secret of ann\"", 16),
        ("LUN 0", 16),
        ("LUN zero a", 16),
    ] {
        assert_eq!(refused(&conf(line)).0, at, "{line}");
    }
    let driver = conf("LUN 0 a").replace(
        "TARGET_DRIVER iscsi {",
        "TARGET_DRIVER iscsi {\nIncommingUser \"a b\"",
    );
    assert_eq!(refused(&driver).0, 13);
}

#[test]
fn attributes_without_a_counterpart_are_named() {
    let imported = read(include_str!("truenas.conf"), &MACHINE).unwrap();
    let (notes, summary) = (imported.notes.join("\n"), imported.summary());
    for (attribute, value) in [
        ("prod_id", "\"iSCSI Disk\" (media, vmstore)"),
        ("t10_vend_id", "TrueNAS (media)"),
        ("t10_dev_id", "7c21b9d04e33f10 (media)"),
        ("rotational", "0 (media)"),
        ("threads_num", "32 (media)"),
        ("nv_cache", "1 (vmstore)"),
    ] {
        assert!(
            notes.contains(&format!("{attribute} {value}")),
            "{attribute}: {notes}"
        );
        assert!(summary.contains(attribute), "{attribute}: {summary}");
    }
    assert!(!notes.contains("removable"), "it says what holds: {notes}");
    let unit = |name: &str| imported.config.unit(name).unwrap();
    assert!(unit("media").read_only && unit("media").block_size == 512);
    assert!(!unit("vmstore").write_cache);
}

#[test]
fn a_comment_inside_a_word_is_refused_and_other_files_too() {
    for line in [
        "INITIATOR iqn.2001-04.x:me#10.0.0.1",
        "alias \"a # b\"",
        "enabled 1#",
    ] {
        assert_eq!(refused(&conf(line)).0, 16, "{line}");
    }
    assert!(read(&conf("LUN 0 a # the first"), &MACHINE).is_ok());
    let (line, why) = refused("# tgt\n<target iqn.2001-04.x:t>\nbacking-store /srv/a\n</target>\n");
    assert!(line == 2 && why.contains("not an scst.conf"), "{why}");
    let deep = "a {\n".repeat(100_000);
    assert_eq!(refused(&deep).0, 9);
}
