//! Tests that a saveconfig.json of targetcli becomes a configuration that can be applied.

use super::*;
use crate::change::Change;
use crate::identity::Seed;
use model::Config;

const SAVED: &str = include_str!("saveconfig.json");

#[test]
fn identities_maps_and_secrets_are_kept() {
    let Imported { config, notes, .. } = read(SAVED).unwrap();
    let config = Change::Replace(Box::new(config))
        .applied(&Config::default(), Seed::fixed(1), false)
        .unwrap();
    let vm1 = config.unit("vm1").unwrap();
    assert_eq!(vm1.naa, "60014054b6d8f7e3f1a4d0e9a5c0f6f2");
    assert_eq!(vm1.serial, "4b6d8f7e-3f1a-4d0e-9a5c-0f6f2b1d7c33");
    assert!(vm1.thin && !vm1.write_cache);
    let data = config.unit("data_1").unwrap();
    assert!(data.write_cache);
    assert_eq!(
        data.backend,
        BackendSpec::File {
            path: "/srv/iscsi/data.img".into(),
            size: 1 << 30,
            preallocate: false
        }
    );
    let view = crate::access::access(
        &config,
        "iqn.1998-01.com.vmware:esx1",
        &config.targets[0].iqn,
        None,
    )
    .unwrap();
    let luns: Vec<_> = view
        .luns
        .iter()
        .map(|v| (v.lun, v.unit.as_str(), v.read_only))
        .collect();
    assert_eq!(luns, [(0, "vm1", false), (5, "data_1", true)]);
    assert_eq!(
        config.hosts[0].chap.as_ref().unwrap().secret,
        "esxsecret1234"
    );
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("pscsi") && notes[1].contains("loopback"));
}

#[test]
fn what_is_shown_to_everyone_becomes_a_map_for_every_host() {
    let open = SAVED.replace("\"generate_node_acls\": 0", "\"generate_node_acls\": 1");
    let mut json: serde_json::Value = serde_json::from_str(&open).unwrap();
    let tpg = &mut json["targets"][0]["tpgs"][0];
    tpg["node_acls"] = serde_json::json!([]);
    tpg["attributes"]["authentication"] = 0.into();
    let Imported { config, .. } = read(&json.to_string()).unwrap();
    assert_eq!(config.maps.len(), 2);
    assert!(
        config
            .maps
            .iter()
            .all(|map| map.host.is_none() && map.read_only)
    );
}

#[test]
fn other_files_are_refused() {
    assert!(
        read("HANDLER vdisk_fileio {")
            .unwrap_err()
            .message
            .contains("not a saveconfig.json")
    );
}

const INITIATOR: &str = "iqn.1998-01.com.vmware:esx1";
const IQN: &str = "iqn.2019-05.test.cluster:ha";

/// Returns one target with one portal group.
fn saved(tpg: serde_json::Value) -> serde_json::Value {
    let mut tpg = tpg;
    for (key, value) in [
        ("tag", serde_json::json!(1)),
        (
            "luns",
            serde_json::json!([{"index": 1, "storage_object": "/backstores/fileio/a"}]),
        ),
        (
            "portals",
            serde_json::json!([{"ip_address": "0.0.0.0", "port": 3260}]),
        ),
    ] {
        if tpg.get(key).is_none() {
            tpg[key] = value;
        }
    }
    serde_json::json!({
        "storage_objects": [{"plugin": "fileio", "name": "a", "dev": "/srv/a", "size": 1 << 20, "wwn": "d0e53965"}],
        "targets": [{"fabric": "iscsi", "wwn": IQN, "tpgs": [tpg]}],
    })
}

fn imported(saved: &serde_json::Value) -> (Config, Vec<String>) {
    let Imported { config, notes, .. } = read(&saved.to_string()).unwrap();
    let config = Change::Replace(Box::new(config))
        .applied(&Config::default(), Seed::fixed(1), false)
        .unwrap();
    (config, notes)
}

/// Returns the user whose secret opens the target, or `open`, or `shut`.
fn opened_by(config: &Config, initiator: &str) -> String {
    use crate::access::{Authentication, access};
    match access(config, initiator, IQN, None).map(|access| access.authentication) {
        Ok(Authentication::Chap { initiator, .. }) => initiator.user,
        Ok(Authentication::None) => "open".into(),
        Err(_) => "shut".into(),
    }
}

#[test]
fn a_portal_group_with_a_user_of_its_own_asks_everybody_for_it() {
    let (config, _) = imported(&saved(serde_json::json!({
        "attributes": {"authentication": 1, "generate_node_acls": 1, "demo_mode_write_protect": 0},
        "chap_userid": "clusteruser", "chap_password": "cluster-secret-14",
    })));
    assert_eq!(opened_by(&config, INITIATOR), "clusteruser");
    assert!(!config.maps[0].read_only);
}

#[test]
fn chap_without_a_user_lets_nobody_in() {
    for attributes in [
        serde_json::json!({"authentication": 1, "generate_node_acls": 1}),
        serde_json::json!({"generate_node_acls": 1}),
        serde_json::json!({"authentication": -1, "generate_node_acls": 1}),
    ] {
        let (config, notes) = imported(&saved(serde_json::json!({
            "attributes": attributes,
            "node_acls": [{"node_wwn": INITIATOR, "mapped_luns": [{"index": 0, "tpg_lun": 1}]}],
        })));
        assert_eq!(opened_by(&config, INITIATOR), "shut");
        assert_eq!(opened_by(&config, "iqn.1998-01.com.vmware:other"), "shut");
        assert!(
            notes.iter().any(|note| note.contains("has no user")),
            "{notes:?}"
        );
    }
}

#[test]
fn an_acl_decides_alone_beside_what_everybody_sees() {
    let (config, _) = imported(&saved(serde_json::json!({
        "attributes": {"authentication": 0, "generate_node_acls": 1},
        "node_acls": [
            {"node_wwn": INITIATOR, "mapped_luns": [], "attributes": {}},
            {"node_wwn": "iqn.1998-01.com.vmware:esx2", "mapped_luns": [{"index": 0, "tpg_lun": 1}],
             "attributes": {"authentication": 1}, "chap_userid": "esx2", "chap_password": "secret-of-esx2"},
        ],
    })));
    assert_eq!(opened_by(&config, INITIATOR), "shut");
    assert_eq!(opened_by(&config, "iqn.1998-01.com.vmware:esx2"), "esx2");
    assert_eq!(opened_by(&config, "iqn.1998-01.com.vmware:esx3"), "open");
}

#[test]
fn secrets_of_discovery_are_asked_for_or_the_file_is_refused() {
    use crate::access::{Authentication, discovery};
    let mut saved =
        saved(serde_json::json!({"attributes": {"authentication": 0, "generate_node_acls": 1}}));
    saved["fabric_modules"] = serde_json::json!([{
        "name": "iscsi", "discovery_enable_auth": true, "discovery_userid": "finder", "discovery_password": "finder-secret",
    }]);
    let (config, _) = imported(&saved);
    let asked = discovery(&config, INITIATOR).unwrap();
    assert!(matches!(asked, Authentication::Chap { initiator, .. } if initiator.user == "finder"));
    saved["fabric_modules"][0]["discovery_password"] = serde_json::Value::Null;
    let error = read(&saved.to_string()).unwrap_err();
    assert!(
        error.message.contains("its user or its secret is missing"),
        "{error}"
    );
}

#[test]
fn short_serial_numbers_give_the_designator_that_lio_made() {
    assert_eq!(naa("d0e53965").unwrap(), "6001405d0e5396500000000000000000");
    assert_eq!(
        naa("lun-DB_0012ab34").unwrap(),
        "6001405db0012ab34000000000000000"
    );
    assert_eq!(naa("no-gxyz_"), None);
}

#[test]
fn parameters_are_taken_over_or_named() {
    let (config, notes) = imported(&saved(serde_json::json!({
        "attributes": {"authentication": 0, "generate_node_acls": 1, "default_cmdsn_depth": 64, "login_keys_workaround": 1},
        "parameters": {"MaxOutstandingR2T": "4", "MaxRecvDataSegmentLength": "65536", "MaxBurstLength": "131072",
            "ImmediateData": "No", "InitialR2T": "Yes", "HeaderDigest": "CRC32C", "ErrorRecoveryLevel": "2"},
    })));
    let p = &config.targets[0].parameters;
    assert_eq!(
        (
            p.queue_depth,
            p.max_outstanding_r2t,
            p.max_recv_data_segment_length
        ),
        (Some(64), Some(4), Some(65536))
    );
    assert_eq!(
        (p.max_burst_length, p.first_burst_length),
        (Some(131_072), Some(131_072))
    );
    assert_eq!(
        (p.immediate_data, p.initial_r2t, p.require_header_digest),
        (Some(false), Some(true), Some(true))
    );
    let said = |words| notes.iter().any(|note| note.contains(words));
    assert!(
        said("ErrorRecoveryLevel 2") && said("login_keys_workaround 1"),
        "{notes:?}"
    );
}

#[test]
fn the_summary_counts_what_came_and_names_what_did_not() {
    let summary = read(SAVED).unwrap().summary();
    assert_eq!(
        summary,
        "2 of 3 devices, 1 of 2 targets, 1 host, 2 maps; left out: storage object old, target naa.5001405000000001"
    );
}

#[test]
fn a_switch_that_is_not_understood_is_refused_with_its_line() {
    let file = |field: &str| {
        format!(
            "{{\"storage_objects\": [{{\"plugin\": \"fileio\", \"name\": \"a\", \"dev\": \"/srv/a\", \"size\": 1048576}}],\n\
             \"targets\": [{{\"fabric\": \"iscsi\", \"wwn\": \"{IQN}\", \"tpgs\": [{{\"tag\": 1,\n{field},\n\
             \"portals\": []}}]}}]}}"
        )
    };
    assert!(read(&file("\"enable\": true")).is_ok());
    for field in [
        "\"enable\": \"yes\"",
        "\"enable\": 2",
        "\"chap_userid\": 7",
        "\"chap_password\": [\"secret\"]",
        "\"attributes\": {\"generate_node_acls\": -1}",
        "\"attributes\": {\"generate_node_acls\": \"banana\"}",
        "\"attributes\": {\"authentication\": 2}",
        "\"attributes\": {\"demo_mode_write_protect\": null}",
        "\"parameters\": {\"AuthMethod\": [\"None\"]}",
        "\"node_acls\": [{\"node_wwn\": \"iqn.2001-04.x:a\", \"mapped_luns\": [{\"index\": 0, \"tpg_lun\": 0, \"write_protect\": \"ture\"}]}]",
        "\"node_acls\": [{\"node_wwn\": \"iqn.2001-04.x:a\", \"chap_userid\": true}]",
        "\"luns\": [{\"index\": -1, \"storage_object\": \"/backstores/fileio/a\"}]",
    ] {
        let error = read(&file(field)).expect_err(field);
        let line = crate::import::mutations::refused_line(&error);
        assert_eq!(line, Some(3), "{field}: {error}");
    }
    let error = read("{\"a\": 1}").unwrap_err();
    assert!(error.message.contains("line 1"), "{error}");
}

#[test]
fn attributes_without_a_counterpart_are_named() {
    let mut saved =
        saved(serde_json::json!({"attributes": {"authentication": 0, "generate_node_acls": 1}}));
    saved["storage_objects"][0]["attributes"] = serde_json::json!({
        "block_size": 4096, "emulate_model_alias": 1, "is_nonrot": 1, "max_unmap_lba_count": 8192,
        "emulate_caw": 0, "emulate_dpo": 1, "hw_block_size": 512, "emulate_tpws": 1, "some_new_one": 3,
    });
    saved["storage_objects"][0]["aio"] = true.into();
    saved["storage_objects"][0]["alua_tpgs"] =
        serde_json::json!([{"name": "spare", "alua_access_state": 2}]);
    let imported = read(&saved.to_string()).unwrap();
    let (notes, summary) = (imported.notes.join("\n"), imported.summary());
    for attribute in [
        "emulate_model_alias 1 (a)",
        "is_nonrot 1 (a)",
        "max_unmap_lba_count 8192 (a)",
        "emulate_caw 0 (a)",
        "some_new_one 3 (a)",
        "aio true (a)",
        "ALUA group spare (state 2)",
    ] {
        assert!(notes.contains(attribute), "{attribute}: {notes}");
        let name = attribute.split(' ').next().unwrap();
        assert!(summary.contains(name), "{name}: {summary}");
    }
    assert!(
        !notes.contains("emulate_dpo") && !notes.contains("hw_block_size"),
        "{notes}"
    );
    let unit = &imported.config.units[0];
    assert!(unit.block_size == 4096 && unit.thin);
}

#[test]
fn a_misspelt_field_opens_nothing() {
    let open = || {
        saved(
            serde_json::json!({"attributes": {"authentication": 0, "generate_node_acls": 1, "demo_mode_write_protect": 0}}),
        )
    };
    let mut object = open();
    object["storage_objects"][0]["read_only"] = true.into();
    let (config, notes) = imported(&object);
    assert_eq!((config.units.len(), config.maps.len()), (0, 0));
    assert!(
        notes
            .iter()
            .any(|note| note.contains("its field read_only")),
        "{notes:?}"
    );
    let mut group = open();
    let attributes = &mut group["targets"][0]["tpgs"][0]["attributes"];
    attributes["authentification"] = attributes["authentication"].take();
    attributes.as_object_mut().unwrap().remove("authentication");
    assert_eq!(opened_by(&imported(&group).0, INITIATOR), "shut");
}
