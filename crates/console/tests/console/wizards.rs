//! Wizards as a reader without scripts walks through them, over real pools on files.

use std::fs::File;
use std::path::PathBuf;

use config::change::{AddPortal, Change, CreateHost};
use model::access::Role;
use model::config::AluaState;
use model::pool::dataset::change::DatasetChange;
use pools::served_datasets::Served;
use testing::wait;

use crate::rig::Site;
use crate::walker::{Walker, plain};

const TARGET: &str = "iqn.2026-01.io.sandstone:one";
const ESX: &str = "iqn.1998-01.com.vmware:esx1";

/// Files that stand for disks, in a folder of their own.
struct Disks {
    folder: tempfile::TempDir,
}

impl Disks {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Returns the path of an empty disk.
    fn one(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        File::create(&path).unwrap().set_len(96 << 20).unwrap();
        path
    }

    /// Returns the paths of empty disks, each in a line.
    fn lines(&self, names: &[&str]) -> String {
        let paths = names
            .iter()
            .map(|name| self.one(name).display().to_string());
        paths.collect::<Vec<String>>().join("\n")
    }
}

/// Walks to the preview of a first LUN of two disks.
fn to_first_preview<'a>(site: &'a Site, lines: &str) -> Walker<'a> {
    let mut walker = Walker::open(site, site.token(Role::Admin), "/wizards/first-lun");
    walker.at("Disks").enter("other_disks", lines);
    walker
        .next("Layout")
        .says("One mirror of 2 disks (recommended)");
    assert_eq!(walker.values("layout"), ["mirror"]);
    assert_eq!(walker.values("pool"), ["tank"]);
    walker
        .next("Volume")
        .enter("name", "esx-ds1")
        .enter("size", "64M");
    walker.next("Host").enter("initiator", ESX);
    walker.next("Preview");
    walker
}

/// Makes a pool with a volume for a host that is known.
fn with_volume(site: &Site, disks: &Disks) {
    let mut walker = to_first_preview(site, &disks.lines(&["d0", "d1"]));
    walker.commit();
}

fn change_datasets(site: &Site, change: DatasetChange) {
    let pools = &site.plane.pools;
    pools
        .change_beneath(&change, &Served::default())
        .expect("a change");
}

fn snapshot(site: &Site, name: &str) {
    change_datasets(
        site,
        DatasetChange::Snapshot {
            names: vec![name.to_owned()],
            recursive: false,
            properties: Default::default(),
        },
    );
}

/// Names of all datasets of the pool.
fn datasets(site: &Site) -> String {
    let page = site.get("/volumes?format=csv", &site.token(Role::Viewer));
    let snapshots = site.get(
        "/volumes?kind=snapshot&format=csv",
        &site.token(Role::Viewer),
    );
    format!("{}{}", page.body, snapshots.body)
}

#[test]
fn a_first_lun_comes_from_bare_disks_in_few_clicks() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    let overview = site.get("/", &site.token(Role::Admin));
    assert!(
        overview.body.contains("href=\"/wizards/first-lun\""),
        "{overview:?}"
    );
    let disks = Disks::new();
    let mut walker = to_first_preview(&site, &disks.lines(&["d0", "d1"]));
    walker.says("A new pool tank: One mirror of 2 disks. One disk may fail.");
    walker.says(&format!("{ESX} sees it as LUN 0 of the target "));
    // A field that is empty and stays empty is not listed.
    let body = &walker.page.body;
    assert!(!body.contains("<code>alias</code>"), "{body}");
    walker.says("A new volume tank/esx-ds1 of 64M, in blocks of 16K.");
    walker.says("No session notices it.");
    assert!(
        site.plane.pools.views().is_empty(),
        "a preview makes nothing"
    );
    let done = walker.commit();
    // The page of the wizard, four steps and the commit; picking two disks takes two more.
    assert_eq!(walker.clicks, 6);
    let text = plain(&done.body);
    assert!(text.contains("esx-ds1 is ready"), "{text}");
    for client in [
        "esxcli iscsi adapter discovery sendtarget add",
        "pvesm add iscsi",
        "New-IscsiTargetPortal",
        "iscsiadm -m discovery",
    ] {
        assert!(text.contains(client), "{client}: {text}");
    }
    assert!(
        done.body.contains("<details open><summary>VMware ESXi"),
        "{done:?}"
    );
    let config = site.plane.transactions.config();
    assert_eq!(config.units[0].backend.volume(), Some("tank/esx-ds1"));
    assert_eq!(config.hosts[0].initiators, [ESX]);
    assert_eq!((config.targets.len(), config.maps.len()), (1, 1));
    assert_eq!(site.plane.pools.view("tank").unwrap().state, "ONLINE");
}

#[test]
fn a_refused_answer_says_why_and_keeps_what_was_typed() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    let disks = Disks::new();
    let mut walker = Walker::open(&site, site.token(Role::Admin), "/wizards/first-lun");
    walker.refused(400, "Disks", "No disk is picked.");
    let missing = disks.folder.path().join("none").display().to_string();
    walker.enter("other_disks", &missing).next("Layout");
    assert_eq!(walker.values("layout"), ["alone"]);
    walker.refused(404, "Layout", "does not exist");
    assert_eq!(walker.values("other_disks"), [missing.as_str()]);
    walker.press("back", 200).at("Disks");
    walker.enter("other_disks", &disks.lines(&["d0", "d1", "d2"]));
    // The layout of one disk is not kept for three.
    assert_eq!(walker.values("layout"), ["alone"]);
    walker.next("Layout");
    assert_eq!(walker.values("layout"), ["raidz1"]);
    walker.enter("pool", "mirror");
    walker.refused(400, "Layout", "mirror");
    assert_eq!(walker.values("pool"), ["mirror"]);
    walker
        .enter("pool", "vault")
        .next("Volume")
        .enter("size", "64X");
    walker.refused(400, "Volume", "The name of the volume is missing.");
    walker.enter("name", "a");
    walker.refused(400, "Volume", "\"64X\" is not a size");
    assert_eq!(
        (walker.values("name"), walker.values("size")),
        (vec!["a"], vec!["64X"])
    );
    walker.enter("size", "1000001");
    walker.refused(400, "Volume", "no whole number of blocks of 16384 bytes");
    walker.enter("size", "64M").next("Host");
    walker.refused(400, "Host", "No host is named.");
    walker.enter("initiator", "esx1");
    walker.refused(400, "Host", "\"esx1\" is no iSCSI name.");
    walker.enter("initiator", ESX).enter("port", "0");
    walker.refused(400, "Host", "\"0\" is not a TCP port");
    walker.enter("port", "3260").next("Preview");
    assert_eq!(walker.values("pool"), ["vault"]);
    assert!(site.plane.pools.views().is_empty(), "nothing is made yet");
}

#[test]
fn a_failure_after_the_pool_says_what_is_there_and_a_retry_goes_on() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    let disks = Disks::new();
    let mut walker = to_first_preview(&site, &disks.lines(&["d0", "d1"]));
    // Only the pool knows that no volume can be so large.
    walker
        .press("back", 200)
        .press("back", 200)
        .at("Volume")
        .enter("size", "8000P");
    walker.next("Host").next("Preview").press("commit", 400);
    walker
        .says("Pool tank is made and stays; its volume, unit, host, target and map are not made.");
    walker
        .says("goes on with the pool")
        .says("The pool tank is made already");
    assert_eq!(site.plane.pools.views().len(), 1);
    assert!(site.plane.transactions.config().units.is_empty());
    walker
        .press("back", 200)
        .press("back", 200)
        .at("Volume")
        .enter("size", "64M");
    walker.next("Host").next("Preview").commit();
    assert!(site.plane.transactions.config().unit("esx-ds1").is_some());
    assert_eq!(site.plane.pools.views().len(), 1);
}

#[test]
fn a_commit_makes_only_what_its_preview_showed() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    let disks = Disks::new();
    let mut walker = to_first_preview(&site, &disks.lines(&["d0", "d1"]));
    site.add_unit("other");
    walker.press("commit", 412).at("Preview");
    walker.says("Something has changed since the preview.");
    assert!(
        site.plane.pools.views().is_empty(),
        "a stale commit makes nothing"
    );
    // The new preview can be committed.
    walker.commit();
    assert!(site.plane.transactions.config().unit("esx-ds1").is_some());
    // A commit without what a preview showed is none.
    let form =
        "step=preview&go=commit&pool=tank&name=x&size=1G&host_kind=known&host=esx1&target=new";
    let admin = site.token(Role::Admin);
    assert_eq!(site.post("/wizards/volume", &admin, form).status, 412);
    assert!(site.plane.transactions.config().unit("x").is_none());
}

#[test]
fn a_host_gets_a_volume_of_a_pool_that_is_there() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    let admin = || site.token(Role::Admin);
    let mut walker = Walker::open(&site, admin(), "/wizards/volume");
    walker.says("No pool yet.");
    with_volume(&site, &Disks::new());
    let mut walker = Walker::open(&site, admin(), "/wizards/volume");
    assert_eq!(walker.values("pool"), ["tank"]);
    walker.enter("name", "esx-ds1").enter("size", "32M");
    walker.refused(409, "Volume", "There is a unit esx-ds1 already.");
    walker.enter("name", "db_1").next("Host");
    assert_eq!(walker.values("host_kind"), ["known"]);
    assert_eq!(walker.values("host"), ["esx1"]);
    walker.enter("client", "linux").enter("target", "new");
    walker.next("Preview").says("The volume tank/db_1 of 32M");
    let done = walker.commit();
    assert!(
        done.body.contains("<details open><summary>Linux"),
        "{done:?}"
    );
    let config = site.plane.transactions.config();
    assert_eq!(config.targets.len(), 2);
    assert_eq!(config.maps.len(), 2);
    assert_eq!(config.hosts.len(), 1, "the host is used again");
}

#[test]
fn a_unit_for_any_host_comes_with_a_warning() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    with_volume(&site, &Disks::new());
    let mut walker = Walker::open(&site, site.token(Role::Admin), "/wizards/volume?pool=tank");
    walker
        .enter("name", "shared")
        .enter("size", "32M")
        .next("Host");
    walker.says("destroy its data").enter("host_kind", "any");
    walker.next("Preview").commit();
    let config = site.plane.transactions.config();
    let host = config
        .maps
        .last()
        .and_then(|map| map.host.clone())
        .expect("a host");
    assert_eq!(config.host(&host).expect("a host").initiators, ["*"]);
}

/// Waits until a pool has this state and no disk is being replaced.
fn until_replaced(site: &Site, pool: &str) {
    let view = || site.plane.pools.view(pool).unwrap();
    wait::until_seen("the disk is replaced", view, |view| {
        let mut names = view.vdevs.iter().flat_map(|it| it.all()).map(|it| &it.name);
        view.state == "ONLINE" && !names.any(|name| name.starts_with("replacing"))
    });
}

#[test]
fn a_disk_is_replaced_from_the_task_to_the_proof() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    let disks = Disks::new();
    with_volume(&site, &disks);
    let offline = model::pool::vdev_change::VdevChange::Offline {
        devices: vec!["d1".to_owned()],
    };
    site.plane.pools.change_vdevs("tank", &offline).unwrap();
    let admin = site.token(Role::Admin);
    // The overview has the same link below the alert, which opens after ten seconds.
    let page = site.get("/pools/tank", &admin);
    assert!(
        page.body.contains("href=\"/wizards/replace?pool=tank\""),
        "{page:?}"
    );
    let mut walker = Walker::open(&site, admin.clone(), "/wizards/replace?pool=tank");
    let chosen = walker
        .values("old")
        .first()
        .map(|it| (*it).to_owned())
        .expect("the bad one is chosen");
    assert!(chosen.starts_with("tank/"), "{chosen}");
    walker.says("In mirror-0 beside").says("OFFLINE");
    walker.next("New disk");
    walker.refused(400, "New disk", "No disk is picked.");
    let new = disks.one("d9").display().to_string();
    walker.enter("other_disks", &new).next("Preview");
    walker
        .says("only 1 whole disk of mirror-0 is left")
        .says("No session is logged in.");
    let done = walker.commit();
    assert!(
        done.body.contains("id=\"scan\"") && done.body.contains("data-v=\"4\""),
        "{done:?}"
    );
    until_replaced(&site, "tank");
    let page = site.get("/pools/tank", &admin);
    let text = plain(&page.body);
    assert!(
        text.contains("d9data") && !text.contains("d1data"),
        "{text}"
    );
    assert!(text.contains("Verify by a scrub"), "{text}");
    // A form that names the old disk again is refused.
    let mut walker = Walker::open(&site, admin, "/wizards/replace?pool=tank");
    walker.enter("old", &chosen).press("next", 404);
    walker.at("Which disk").says("no longer has this disk");
}

#[test]
fn a_volume_goes_back_to_a_snapshot_with_all_that_is_lost_told() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    with_volume(&site, &Disks::new());
    for name in ["monday", "tuesday", "wednesday"] {
        snapshot(&site, &format!("tank/esx-ds1@{name}"));
    }
    let target = site.plane.transactions.config().targets[0].iqn.clone();
    site.add_session(7, ESX);
    site.shown.sessions.lock().unwrap()[0].target = Some(target);
    let mut walker = Walker::open(&site, site.token(Role::Admin), "/wizards/restore");
    walker
        .at("Volume")
        .says("3 snapshots.")
        .enter("volume", "tank/esx-ds1");
    walker
        .next("Snapshot")
        .enter("snapshot", "tank/esx-ds1@monday");
    walker
        .next("How")
        .says("2 newer snapshots")
        .enter("how", "back");
    walker.next("Preview").says("1 session ends or loses a LUN");
    walker
        .says("tank/esx-ds1@tuesday")
        .says("tank/esx-ds1@wednesday");
    snapshot(&site, "tank/esx-ds1@thursday");
    walker.press("commit", 412).says("tank/esx-ds1@thursday");
    walker.commit();
    let left = datasets(&site);
    assert!(
        left.contains("@monday") && !left.contains("@tuesday"),
        "{left}"
    );
    let config = site.plane.transactions.config();
    assert!(
        !config.unit("esx-ds1").expect("a unit").offline,
        "it is online again"
    );
}

#[test]
fn of_many_volumes_one_is_chosen_from_a_list() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    let disks = Disks::new();
    with_volume(&site, &disks);
    for number in 0..20 {
        let volume = DatasetChange::Create {
            name: format!("tank/v{number}"),
            size: Some(1 << 20),
            block_size: None,
            sparse: true,
            parents: false,
            properties: Default::default(),
        };
        change_datasets(&site, volume);
    }
    let all = DatasetChange::Snapshot {
        names: vec!["tank@monday".to_owned()],
        recursive: true,
        properties: Default::default(),
    };
    change_datasets(&site, all);
    let mut walker = Walker::open(&site, site.token(Role::Admin), "/wizards/restore");
    walker.at("Volume").says("tank/v7, 1M, 1 snapshot");
    walker.refused(400, "Volume", "No volume is chosen.");
    walker.enter("volume", "tank/v7").next("Snapshot");
    walker.says("monday");
}

#[test]
fn a_rollback_that_is_refused_leaves_the_unit_online() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    with_volume(&site, &Disks::new());
    for name in ["monday", "tuesday"] {
        snapshot(&site, &format!("tank/esx-ds1@{name}"));
    }
    let clone = DatasetChange::Clone {
        snapshot: "tank/esx-ds1@tuesday".to_owned(),
        name: "tank/copy".to_owned(),
        parents: false,
        properties: Default::default(),
    };
    change_datasets(&site, clone);
    let path = "/wizards/restore?snapshot=tank%2Fesx-ds1%40monday";
    let mut walker = Walker::open(&site, site.token(Role::Admin), path);
    walker.at("How").enter("how", "back").press("next", 409);
    walker.at("How").says("copy").says("Nothing was changed.");
    let config = site.plane.transactions.config();
    assert!(!config.unit("esx-ds1").expect("a unit").offline);
    assert!(datasets(&site).contains("@tuesday"));
}

#[test]
fn a_clone_comes_beside_the_volume_and_goes_to_a_host() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    with_volume(&site, &Disks::new());
    snapshot(&site, "tank/esx-ds1@monday");
    let path = "/wizards/restore?snapshot=tank%2Fesx-ds1%40monday";
    // An operator may clone, and neither roll back nor map.
    let mut walker = Walker::open(&site, site.token(Role::Operator), path);
    walker.at("How").says("This needs the role admin.");
    assert_eq!(walker.values("clone"), ["tank/esx-ds1-monday"]);
    assert!(walker.values("host").is_empty());
    walker.next("Preview").says("No host gets it yet.").commit();
    let mut walker = Walker::open(&site, site.token(Role::Operator), path);
    walker.enter("how", "back").press("next", 403).at("How");
    let mut walker = Walker::open(&site, site.token(Role::Admin), path);
    walker
        .enter("clone", "tank/esx-ds1-monday")
        .enter("host", "esx1");
    walker.next("Preview").says("is made already");
    let done = walker.commit();
    assert!(
        plain(&done.body).contains("esx-ds1-monday is ready"),
        "{done:?}"
    );
    let config = site.plane.transactions.config();
    let unit = config.unit("esx-ds1-monday").expect("a unit");
    assert_eq!(unit.backend.volume(), Some("tank/esx-ds1-monday"));
    assert_eq!(config.maps.len(), 2);
}

#[test]
fn ports_go_out_of_service_only_with_the_word_of_those_who_lose_the_last_path() {
    let site = Site::with_one_of_each();
    site.change(Change::AddPortal(
        TARGET.to_owned(),
        AddPortal {
            portal: "127.0.0.1:3261".parse().unwrap(),
            tag: 2,
            target_port_group: Some(2),
            alua_state: None,
        },
    ));
    site.add_session(7, ESX);
    let state = || {
        let config = site.plane.transactions.config();
        config.targets[0].portal_groups[0].alua_state
    };
    let mut walker = Walker::open(&site, site.token(Role::Admin), "/wizards/maintenance");
    walker.refused(400, "Port group", "No port group is chosen.");
    walker
        .enter("group", "1")
        .next("Hosts")
        .says("loses its last path to db");
    walker.refused(409, "Hosts", "would lose the last path");
    assert_eq!(state(), AluaState::ActiveOptimized);
    // With a path through the other group, nothing is lost.
    site.add_session(8, ESX);
    site.shown.sessions.lock().unwrap()[1].portal_group = 2;
    walker
        .next("Preview")
        .says("keeps 1 session through other ports");
    walker.commit();
    assert_eq!(state(), AluaState::Unavailable);
    let mut walker = Walker::open(
        &site,
        site.token(Role::Admin),
        "/wizards/maintenance?group=1",
    );
    walker.at("Hosts").says("out of service");
    walker
        .enter("state", "active-non-optimized")
        .next("Preview")
        .commit();
    assert_eq!(state(), AluaState::ActiveNonOptimized);
}

#[test]
fn the_last_path_goes_when_the_reader_says_so_and_not_after_a_change() {
    let site = Site::with_one_of_each();
    site.add_session(7, ESX);
    let mut walker = Walker::open(&site, site.token(Role::Admin), "/wizards/maintenance");
    walker
        .enter("group", "1")
        .next("Hosts")
        .enter("accept", "yes")
        .next("Preview");
    // Another host came since the preview.
    site.add_session(8, "iqn.1998-01.com.vmware:esx2");
    walker.press("commit", 412).says("esx2");
    walker.commit();
    let config = site.plane.transactions.config();
    assert_eq!(
        config.targets[0].portal_groups[0].alua_state,
        AluaState::Unavailable
    );
}

#[test]
fn each_role_is_led_to_what_it_may_do() {
    let site = Site::with_one_of_each();
    let viewer = site.get("/wizards", &site.token(Role::Viewer));
    assert!(
        !viewer.body.contains("href=\"/wizards/first-lun\""),
        "{viewer:?}"
    );
    assert_eq!(viewer.body.matches("needs the role admin").count(), 4);
    assert_eq!(viewer.body.matches("needs the role operator").count(), 1);
    let operator = site.get("/wizards", &site.token(Role::Operator));
    assert!(
        operator.body.contains("href=\"/wizards/restore\""),
        "{operator:?}"
    );
    let admin = site.get("/wizards", &site.token(Role::Admin));
    assert!(!admin.body.contains("needs the role"), "{admin:?}");
}

#[test]
fn names_of_others_are_only_text_in_wizards() {
    let site = Site::with_one_of_each();
    site.change(Change::CreateHost(CreateHost {
        name: "other".into(),
        initiators: vec!["iqn.2026-01.a:b".into()],
        except: Vec::new(),
        chap: None,
    }));
    let hostile = "%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let admin = site.token(Role::Admin);
    for (path, fields) in [
        ("first-lun", "disk=X&other_disks=X&pool=X&layout=X"),
        ("volume", "pool=X&name=X&size=X&initiator=X&port=X"),
        ("replace", "pool=X&old=X"),
        ("restore", "volume=X&snapshot=X&clone=X"),
        ("maintenance", "group=X&state=X"),
    ] {
        let fields = fields.replace('X', hostile);
        let got = site.get(&format!("/wizards/{path}?{fields}"), &admin);
        let sent = site.post(&format!("/wizards/{path}"), &admin, &fields);
        for reply in [got, sent] {
            assert!(!reply.body.contains("<script>alert"), "{path}: {reply:?}");
            assert!(reply.status < 500, "{path}: {reply:?}");
        }
    }
}
