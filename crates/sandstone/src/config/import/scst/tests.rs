//! A scst.conf as scstadmin writes it becomes a configuration that can be applied.

use super::*;
use crate::config::Config;
use crate::config::change::Change;
use crate::config::identity::Seed;

const SAVED: &str = include_str!("scst.conf");

fn size_of(path: &Path) -> Option<u64> {
    (path == Path::new("/srv/data.img")).then_some(1 << 30)
}

const MACHINE: Machine<'static> = Machine {
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
        let view = crate::config::access::access(&config, initiator, &target.iqn, None).unwrap();
        let luns: Vec<_> = view
            .luns
            .iter()
            .map(|v| (v.lun, v.unit.as_str(), v.read_only))
            .collect();
        assert_eq!(luns, [(0, "vm1", false), (1, "data", true)]);
        assert!(matches!(
            view.authentication,
            crate::config::access::Authentication::Chap { .. }
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
    assert!(refused("# nothing\n").contains("nothing"));
}
