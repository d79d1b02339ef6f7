//! Wizards over device nodes: disks that are in use or hold something, and are picked or refused.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use model::access::Role;
use testing::loop_device::Loop;

use crate::rig::Site;
use crate::walker::{Walker, plain};

/// Three disks, of which the last one holds a file system. `None` where this machine gives no loop
/// devices.
fn disks(folder: &std::path::Path) -> Option<Vec<Loop>> {
    let made = ["a", "b", "c"].map(|name| {
        let path = folder.join(name);
        let file = File::create(&path).unwrap();
        file.set_len(96 << 20).unwrap();
        if name == "c" {
            file.write_all_at(b"XFSB", 0).unwrap();
        }
        Loop::attach(&path, &[])
    });
    made.into_iter().collect()
}

/// Returns the row of a disk.
fn row<'a>(page: &'a str, node: &str) -> &'a str {
    let mark = format!("value=\"{node}\"");
    let place = page.find(&mark).expect("a disk");
    let start = page[..place].rfind("<tr>").expect("a row");
    let end = place + page[place..].find("</tr>").expect("an end");
    &page[start..end]
}

#[test]
fn a_disk_in_use_is_shown_and_cannot_be_picked_and_data_goes_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disks) = disks(folder.path()) else {
        return;
    };
    let nodes: Vec<&str> = disks.iter().map(|it| it.node().to_str().unwrap()).collect();
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    let admin = || site.token(Role::Admin);
    let mut walker = Walker::open(&site, admin(), "/wizards/first-lun");
    let blank = row(&walker.page.body, nodes[0]);
    assert!(plain(blank).contains("nothing known"), "{blank}");
    assert!(!blank.contains("disabled"), "{blank}");
    let full = row(&walker.page.body, nodes[2]);
    assert!(plain(full).contains("an XFS file system"), "{full}");

    walker.enter("disk", nodes[2]);
    walker.refused(409, "Disks", "holds an XFS file system");
    assert_eq!(walker.values("disk"), [nodes[2]], "what was picked is kept");
    walker
        .enter("overwrite", "yes")
        .next("Layout")
        .press("back", 200);
    walker
        .fields
        .retain(|(name, _)| name != "overwrite" && name != "disk");
    for node in &nodes[..2] {
        walker.fields.push(("disk".to_owned(), (*node).to_owned()));
    }
    walker
        .next("Layout")
        .says("About 96M for data; one disk may fail.");
    walker
        .next("Volume")
        .enter("name", "a")
        .enter("size", "64M");
    walker.next("Host").enter("host_kind", "any");
    walker.next("Preview").commit();

    let mut walker = Walker::open(&site, admin(), "/wizards/first-lun");
    let used = row(&walker.page.body, nodes[0]);
    assert!(
        plain(used).contains("In use: it is a device of pool tank"),
        "{used}"
    );
    assert!(used.contains("disabled"), "{used}");
    // A form that names it all the same is refused.
    walker.enter("disk", nodes[0]);
    walker.refused(
        409,
        "Disks",
        "cannot be picked: it is a device of pool tank",
    );

    let mut walker = Walker::open(&site, admin(), "/wizards/replace?pool=tank");
    walker.says(&format!("beside {}", nodes[1]));
    let old = walker
        .page
        .body
        .split("value=\"tank/")
        .nth(1)
        .expect("a disk");
    let old = format!("tank/{}", old.split('"').next().expect("a number"));
    walker
        .enter("old", &old)
        .next("New disk")
        .enter("disk", nodes[2]);
    walker.refused(409, "New disk", "holds an XFS file system");
    walker.enter("overwrite", "yes").next("Preview");
    walker.says(&format!(
        "What is on {} is lost: an XFS file system.",
        nodes[2]
    ));
    walker.says("Do not pull the old disk before that.");
    walker.commit();
    let view = site.plane.pools.view("tank").unwrap();
    let all: Vec<&str> = view
        .vdevs
        .iter()
        .flat_map(|it| it.all())
        .map(|it| it.name.as_str())
        .collect();
    assert!(all.contains(&nodes[2]), "{all:?}");
    let page = site.get(
        &format!("/wizards/locate?disk={}", nodes[0]),
        &site.token(Role::Operator),
    );
    assert!(page.body.contains("Light the lamp of its slot"), "{page:?}");
    let form = format!("disk={}&on=yes", nodes[0]);
    let dark = site.post("/wizards/locate", &site.token(Role::Operator), &form);
    assert_eq!(dark.status, 422, "{dark:?}");
    assert!(dark.body.contains("ledctl locate="), "{dark:?}");
}
