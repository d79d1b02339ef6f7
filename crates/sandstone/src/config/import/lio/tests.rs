//! A saveconfig.json as targetcli writes it becomes a configuration that can be applied.

use super::*;
use crate::config::Config;
use crate::config::change::Change;
use crate::config::identity::Seed;

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
    let view = crate::config::access::access(
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
            .contains("no saveconfig.json")
    );
}
