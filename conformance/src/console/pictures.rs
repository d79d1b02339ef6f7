//! Pictures of the console in the documents, made of a small storage system under load:
//! `conformance --pictures docs pictures` makes them anew.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::newcomer;
use super::page::screen;
use super::site::{Load, Site, TARGET};
use crate::browser::hand::Hand;
use crate::browser::{self, Browser, Screen};
use crate::lab::{Bench, Outcome};
use crate::machine::loop_disk::LoopDisk;
use crate::machine::scratch;
use crate::servers::server::ServerKind;

/// Time after which the charts of the last five minutes are full.
const FULL: Duration = Duration::from_secs(305);

/// Most bytes of a picture.
const MOST_BYTES: usize = 150_000;

/// Most bytes of a picture of the guide, which has several.
const MOST_BYTES_OF_GUIDE: usize = 60_000;

/// Screen of the pictures of the guide. They show what is beside the navigation, up to a height.
const GUIDE: Screen = screen(1120, 700, "light");
const TALLEST: u32 = 640;

/// Size of the disks in the guide: 960 GB, as usual ones have.
const GUIDE_DISK: u64 = 960_197_124_096;

/// Pictures: the file, the page, and the screen.
const PICTURES: &[(&str, &str, Screen)] = &[
    ("console", "/", screen(1280, 900, "light")),
    ("console-paths", "/maps", screen(1280, 660, "light")),
];

/// Makes all pictures.
pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("it is about our own console".to_owned()));
    };
    if let Some(reason) = browser::missing() {
        return Ok(Outcome::Skipped(reason));
    }
    let folder = bench
        .pictures
        .as_deref()
        .context("--pictures names no folder")?;
    let browser = Browser::start()?;
    let of_guide = guide(&browser, program, folder)?;
    let mut site = Site::start(program)?;
    furnish(&mut site)?;
    std::thread::sleep(FULL);
    site.log_in(&browser, "admin")?;
    for (name, path, screen) in PICTURES {
        browser.show_on(*screen)?;
        browser.go(&site.page(path))?;
        let picture = browser.small_picture(screen.width, screen.height)?;
        keep(&picture, folder, name, MOST_BYTES)?;
    }
    site.check_alive()?;
    Ok(Outcome::passed(format!(
        "{} pictures in {}",
        of_guide + PICTURES.len(),
        folder.display()
    )))
}

/// Makes the first LUN as a new user does, with a picture of each step for the guide. Returns their
/// number.
fn guide(browser: &Browser, program: &Path, folder: &Path) -> Result<usize> {
    let files = scratch::folder("disks")?;
    let disks = ["1", "2", "3", "4"].map(|name| {
        let file = files.path().join(name);
        LoopDisk::attach(&file, GUIDE_DISK)
    });
    let disks = disks.into_iter().collect::<Result<Vec<LoopDisk>>>()?;
    let mut site = Site::start_with(program, &disks)?;
    browser.show_on(GUIDE)?;
    site.log_in(browser, "admin")?;
    let mut number = 0;
    let picked = ["/dev/disk/by-id/disk-1", "/dev/disk/by-id/disk-2"];
    newcomer::first_lun(&mut Hand::new(browser), picked, |step| {
        number += 1;
        let picture = browser.small_picture_of_main(TALLEST)?;
        let name = format!("first-lun-{step}");
        keep(&picture, folder, &name, MOST_BYTES_OF_GUIDE)
    })?;
    site.check_alive()?;
    Ok(number)
}

fn keep(picture: &[u8], folder: &Path, name: &str, most_bytes: usize) -> Result<()> {
    ensure!(
        picture.len() <= most_bytes,
        "the picture {name} has {} bytes, and at most {most_bytes} are wanted",
        picture.len()
    );
    let file = folder.join(format!("{name}.webp"));
    fs::write(&file, picture).with_context(|| format!("keep {}", file.display()))
}

/// Makes a storage system as it might stand in a cabinet: two ESXi hosts, one database server, and
/// a backup at night.
fn furnish(site: &mut Site) -> Result<()> {
    let [a, b, c, d, log, spare] =
        ["disk1", "disk2", "disk3", "disk4", "log1", "spare1"].map(|name| site.file(name));
    let portal = site.portal();
    site.ask_all(&format!(
        "pool create --size 2G tank mirror {a} {b} mirror {c} {d} log {log} spare {spare}
         volume create tank/vm
         lu create db --volume tank/db --size 512M
         lu create esx-datastore1 --volume tank/vm/datastore1 --size 1G
         lu create esx-datastore2 --volume tank/vm/datastore2 --size 1G
         lu create backup --volume tank/backup --size 512M
         target create {TARGET} --portal {portal}
         host create esx1 --initiator iqn.1998-01.com.vmware:esx1
         host create esx2 --initiator iqn.1998-01.com.vmware:esx2
         host create db1 --initiator iqn.1993-08.org.debian:db1
         host create backup1 --initiator iqn.1991-05.com.microsoft:backup1
         map add esx-datastore1 --host esx1 --target {TARGET} --lun 1
         map add esx-datastore2 --host esx1 --target {TARGET} --lun 2
         map add esx-datastore1 --host esx2 --target {TARGET} --lun 1
         map add esx-datastore2 --host esx2 --target {TARGET} --lun 2
         map add db --host db1 --target {TARGET} --lun 0
         map add backup --host backup1 --target {TARGET} --lun 0
         volume snapshot -r tank@monday
         volume snapshot -r tank@tuesday"
    ))?;
    for (initiator, lun, options) in [
        (
            "iqn.1998-01.com.vmware:esx1",
            1,
            "--block 8k --reads 70 --random 80 --rate 320",
        ),
        (
            "iqn.1998-01.com.vmware:esx2",
            2,
            "--block 16k --reads 50 --random 60 --rate 140",
        ),
        (
            "iqn.1993-08.org.debian:db1",
            0,
            "--block 8k --reads 60 --random 100 --rate 480",
        ),
        (
            "iqn.1991-05.com.microsoft:backup1",
            0,
            "--block 64k --reads 10 --random 0 --rate 40",
        ),
    ] {
        site.load(Load {
            initiator,
            lun,
            options,
        })?;
    }
    site.loads_run()
}
