//! New user of the console: a first LUN from bare disks, and a disk that fails, by real clicks on
//! what the pages say, with the pages' scripts and without them.

use anyhow::{Context as _, Result, ensure};

use super::page::DESKTOP;
use super::site::{Load, Site};
use crate::browser::hand::Control::{Button, Labelled, Link};
use crate::browser::hand::Hand;
use crate::browser::{self, Browser};
use crate::lab::{Bench, Outcome};
use crate::machine::loop_disk::{self, LoopDisk};
use crate::machine::scratch;
use crate::servers::server::ServerKind;

/// Most clicks from the first page to the lines to type on the host.
const MOST_CLICKS: u32 = 12;
/// Size of a disk.
const DISK: u64 = 256 << 20;
/// Bytes of a broken disk that can still be read and written: its first labels.
const REST: u64 = 8 << 20;
/// Unit that the user makes.
const UNIT: &str = "esx-ds1";
/// Initiator of the host that gets it.
const INITIATOR: &str = "iqn.1998-01.com.vmware:esx1-5f2a8c01";
/// Target that the wizard makes for the unit.
const TARGET: &str = "iqn.2024-08.internal.sandstone:esx-ds1";

/// Goes both ways as a new user does. Tells clicks and time.
///
/// # Errors
/// A page does not say what it should, or a way takes too many clicks.
pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("it is about our own console".to_owned()));
    };
    let folder = scratch::folder("newcomer")?;
    let missing = browser::missing().or_else(|| loop_disk::missing(folder.path()));
    if let Some(reason) = missing {
        return Ok(Outcome::Skipped(reason));
    }
    let mut told = Vec::new();
    for (with_scripts, words) in [(true, "with scripts"), (false, "without scripts")] {
        let disks = ["a", "b", "c"].map(|name| {
            let file = folder.path().join(format!("{name}-{with_scripts}"));
            LoopDisk::attach(&file, DISK)
        });
        let [a, b, c] = disks;
        let (a, b, c) = (a?, b?, c?);
        let mut site = Site::start(program)?;
        let browser = Browser::start()?;
        browser.show_on(DESKTOP)?;
        site.log_in(&browser, "admin")?;
        browser.let_scripts_run(with_scripts)?;
        let made = make(&browser, &site, [a.node(), b.node()]).context(words)?;
        let replaced = replace(&browser, &mut site, &a, c.node()).context(words)?;
        told.push(format!(
            "{words}: first LUN by {made}, failed disk replaced by {replaced}"
        ));
    }
    Ok(Outcome::passed(told.join("; ")))
}

/// Makes the first LUN, and returns clicks and time.
fn make(browser: &Browser, site: &Site, disks: [&str; 2]) -> Result<String> {
    let mut hand = Hand::new(browser);
    first_lun(&mut hand, disks, |step| match step {
        // The port of iSCSI may be taken on this machine.
        "host" => browser
            .run(&format!(
                "document.querySelector('[name=port]').value = '{}'",
                site.port()
            ))
            .map(drop),
        _ => Ok(()),
    })?;
    hand.sees("--address=")?;
    hand.sees(&format!(":{}", site.port()))?;
    ensure!(
        hand.clicks() <= MOST_CLICKS,
        "the first LUN took {} clicks",
        hand.clicks()
    );
    Ok(hand.told())
}

/// Goes from the overview through the wizard to the lines to type on the host. Calls `seen` at each
/// step, when it is filled in.
pub(super) fn first_lun(
    hand: &mut Hand<'_>,
    disks: [&str; 2],
    mut seen: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    hand.click(Link("Make the first LUN"))?;
    hand.sees("Pick the disks for the pool")?;
    for disk in disks {
        hand.click(Labelled(disk))?;
    }
    seen("disks")?;
    hand.click(Button("Next"))?;
    hand.sees("One mirror of 2 disks (recommended)")?;
    seen("layout")?;
    hand.click(Button("Next"))?;
    hand.sees("Block size")?;
    hand.click(Labelled("Name"))?;
    hand.type_keys(UNIT)?;
    seen("volume")?;
    hand.click(Button("Next"))?;
    hand.sees("Which host may use it?")?;
    hand.click(Labelled("iSCSI name of the host"))?;
    hand.type_keys(INITIATOR)?;
    seen("host")?;
    hand.click(Button("Next"))?;
    hand.sees("A new pool tank: One mirror of 2 disks")?;
    seen("preview")?;
    hand.click(Button("Make it all"))?;
    hand.sees("esxcli iscsi adapter discovery sendtarget add")?;
    seen("client")
}

/// Breaks a disk under load, and replaces it from the page alone. Returns clicks and time from the
/// moment at which the overview tells of it.
fn replace(browser: &Browser, site: &mut Site, broken: &LoopDisk, new: &str) -> Result<String> {
    let load = Load {
        initiator: INITIATOR,
        lun: 0,
        options: "--block 4k --reads 50 --random 100 --rate 50",
    };
    site.load_at(TARGET, load)?;
    site.loads_run()?;
    broken.break_behind(REST)?;
    let overview = site.page("/");
    Hand::new(browser).sees_after("device-faulted", || browser.go(&overview))?;
    let mut hand = Hand::new(browser);
    hand.click(Link("Replace a disk"))?;
    hand.sees(&format!("{} ■ FAULTED", broken.node()))?;
    hand.click(Link("Locate it"))?;
    hand.in_new_tab(|hand| {
        hand.sees(broken.node())?;
        hand.sees("The serial number is printed on the disk")?;
        hand.click(Button("Light the lamp of its slot"))?;
        // A loop device is in no slot, and the page says what to do then.
        hand.sees("has no lamp that the kernel can light")?;
        hand.sees("ledctl locate=")
    })?;
    hand.click(Button("Next"))?;
    hand.sees("What takes its place?")?;
    hand.click(Labelled(new))?;
    hand.click(Button("Next"))?;
    hand.sees("Leaves the pool")?;
    hand.click(Button("Replace the disk"))?;
    let pool = site.page("/pools/tank");
    hand.sees_after("Verify by a scrub", || browser.go(&pool))?;
    hand.click(Button("Verify by a scrub"))?;
    hand.sees_after("scrub repaired 0B", || browser.go(&pool))?;
    hand.sees("● ONLINE")?;
    hand.sees(new)?;
    let told = hand.told();
    // The host went on meanwhile.
    site.check_alive()?;
    Ok(told)
}
