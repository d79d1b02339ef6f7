//! Lab of the console in a real browser. Every page that links lead to is looked at while
//! initiators read and write: light, dark, on a phone, by keyboard and without scripts.

mod benchmarks;
mod newcomer;
mod page;
mod pictures;
mod roles;
mod site;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use self::page::Look;
use self::roles::Found;
use self::site::{Load, Site, TARGET};
use crate::browser::{self, Browser};
use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::python::{Extent, Python};
use crate::servers::server::{ServerKind, Spec};

const REQUIREMENTS: &str = include_str!("../clients/console_requirements.txt");
/// File of axe-core in the package that is installed.
const AXE: &str = "axe_playwright_python/axe.min.js";
/// Eyes of the lab within a page.
const EYES: &str = include_str!("../clients/console_page.js");

/// Labs of the console.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "console",
        about: "every page of the console under load in chromium: light, dark, phone, keyboard, no scripts, roles; axe",
        room: Room::Shared,
        run,
    },
    Lab {
        name: "console-newcomer",
        about: "first LUN and disk replacement by clicks in chromium, with and without scripts",
        // Every server on this machine would find its disks, and tests import pools from them.
        room: Room::Alone,
        run: newcomer::run,
    },
    Lab {
        name: "pictures",
        about: "the pictures of the console for the documents",
        room: Room::Pictures,
        run: pictures::run,
    },
];

/// Name as long as a name may be, which no page may be torn by.
const LONG: &str = "a-name-that-is-as-long-as-the-names-of-units-and-hosts-may-be-xx";

fn run(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("it is about our own console".to_owned()));
    };
    if let Some(reason) = browser::missing() {
        return Ok(Outcome::Skipped(reason));
    }
    let axe = Python::prepare("axe", REQUIREMENTS, Extent::Alone).and_then(|it| it.file(AXE));
    let axe = match axe {
        Ok(axe) => axe,
        Err(error) => {
            return Ok(Outcome::Skipped(format!(
                "no axe-core from PyPI (Debian package python3-venv): {error:#}"
            )));
        }
    };
    // Another machine's target, so that the daemon is an initiator too.
    let other = bench.serve(Spec::default())?;
    let mut site = Site::start(program)?;
    let names = furnish(&mut site, &other.url(0))?;
    let browser = Browser::start()?;
    browser.run_in_all_pages(&axe)?;
    browser.run_in_all_pages(EYES)?;
    benchmarks::run(&browser, &site, LONG)?;
    let mut faults = Vec::new();
    let offered = roles::walk_all(&browser, &site, &names, &mut faults)?;
    let pages = &offered.last().context("no role walked")?.pages;
    let chosen = one_of_each_shape(pages);
    site.log_in(&browser, "admin")?;
    let stir = || site.ask_all("lu online resting\nlu offline resting");
    for found in &chosen {
        let address = site.page(&found.path);
        let pictures = bench.pictures.as_deref();
        let look = Look::new(&browser, &address, &found.shape, pictures, &stir);
        // A page with a query shows a part of a page that is looked at in all modes.
        let wrong = match found.path.contains('?') {
            true => look.one_mode(),
            false => look.all_modes(),
        };
        let wrong = wrong.with_context(|| found.path.clone())?;
        faults.extend(wrong.iter().map(|fault| format!("{} {fault}", found.path)));
    }
    site.check_alive()?;
    // Acts may end what the pages showed, so they come last.
    roles::acts_are_as_offered(&browser, &site, &offered, &mut faults)?;
    ensure!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    Ok(Outcome::passed(format!(
        "{} pages in three roles, {} of them in five ways",
        pages.len(),
        chosen.len()
    )))
}

/// Chooses one page of each shape: the one with the longest path, which is the hardest to lay out.
fn one_of_each_shape(pages: &[Found]) -> Vec<&Found> {
    let mut chosen: BTreeMap<&str, &Found> = BTreeMap::new();
    for page in pages {
        let place = chosen.entry(&page.shape).or_insert(page);
        if page.path.len() > place.path.len() {
            *place = page;
        }
    }
    chosen.into_values().collect()
}

/// Gives the daemon something of everything: pools of all classes of vdevs, one of them degraded,
/// volumes with snapshots and a hold, a unit of another machine, long and hostile texts, and
/// initiators at work. Returns the names of the objects.
fn furnish(site: &mut Site, other: &str) -> Result<Vec<String>> {
    let [a, b, c, d, e, f, g] = ["a", "b", "c", "d", "e", "f", "g"].map(|name| site.file(name));
    let portal = site.portal();
    site.ask_all(&format!(
        "pool create --size 256M tank mirror {a} {b} log {c} cache {d} spare {e}
         pool create --size 128M a-pool-that-lacks-a-disk mirror {f} {g}
         pool offline a-pool-that-lacks-a-disk {g}
         volume create tank/vm
         lu create db --volume tank/vm/db --size 64M
         lu create {LONG} --volume tank/vm/{LONG} --size 32M
         lu create slow --volume a-pool-that-lacks-a-disk/slow --size 32M
         lu create far --backend {other}
         lu create resting --memory --size 16M
         lu offline resting
         volume snapshot -r -o org.example:note=\"><script>alert(1)</script> tank/vm@monday
         volume hold keep tank/vm/db@monday
         target create {TARGET} --portal {portal}
         host create esx1 --initiator iqn.1998-01.com.vmware:esx1*
         host create {LONG} --initiator iqn.2026-01.org.example:{LONG}*
         map add db --host esx1 --target {TARGET} --lun 0
         map add {LONG} --host esx1 --target {TARGET} --lun 1
         map add far --host {LONG} --target {TARGET} --lun 0
         map add slow --host {LONG} --target {TARGET} --lun 1
         token add a-token --role viewer
         pool scrub tank"
    ))?;
    let long = format!("iqn.2026-01.org.example:{LONG}");
    for (initiator, lun) in [
        ("iqn.1998-01.com.vmware:esx1-5f2a", 0),
        ("iqn.1998-01.com.vmware:esx1-77aa", 1),
        (&format!("{long}-and-more"), 0),
        (&format!("{long}-and-else"), 1),
    ] {
        site.load(Load {
            initiator,
            lun,
            options: "--block 4k --reads 60 --random 100 --rate 100",
        })?;
    }
    site.loads_run()?;
    let names = [
        "db",
        LONG,
        "far",
        "slow",
        "resting",
        "tank",
        "a-pool-that-lacks-a-disk",
        "a-pool-that-lacks-a-disk/slow",
        "tank/vm",
        "tank/vm/db",
        "tank/vm/db@monday",
        "esx1",
        TARGET,
    ];
    let mut names: Vec<String> = names.map(str::to_owned).into();
    names.push(format!("tank/vm/{LONG}"));
    names.push(format!("tank/vm/{LONG}@monday"));
    Ok(names)
}
