//! An array of somebody else that tells hostile texts of itself wherever protocols let it: names in
//! discovery, its alias, the vendor, model, revision and name of its disk.

use std::process::Output;

use iscsi::target::login::{Authentication, Authorization};
use testing::wait;

use super::fake_target::{FakeTarget, World, allowed};
use super::hostile_names::assert_own_markup;
use super::html::coded;
use super::site::{Site, Who};

/// Name of the array's target: its marks of HTML are allowed in a name.
const NAME: &str = "iqn.2026-01.evil:\"'><script>alert(4)</script><svg/onload=alert(5)>";
/// Text of the array's disk about itself: markup, what a terminal obeys, a mark of direction, and
/// bytes that are no UTF-8.
const DISK: &[u8] =
    b"EVIL    \"'><script>alert(6)</script><img/src=x/onerror=alert(7)>\x1b]0;owned\x07\x9b2J\
      \xe2\x80\xae\xe2\x80\xa8\xff\xfe\r\n2026-01-01T00:00:00Z INFO forged";
/// Part of the disk's name wherever the name is shown in full.
pub(super) const MARK: &str = "<script>alert(6)</script>";

/// Answer to SendTargets with names and addresses that cannot all be used.
fn discovered(address: &str) -> Vec<u8> {
    let bidi = "iqn.2026-01.evil:\u{202e}gnp.exe";
    let long = format!("iqn.2026-01.evil:{}", "x".repeat(240));
    let mut text = Vec::new();
    for (name, portal) in [
        (NAME, address),
        (bidi, address),
        (&long, address),
        ("iqn.2026-01.evil:a\u{9b}2Jb", address),
        ("iqn.2026-01.evil:portals", "\u{202e}[::1\u{2028}]:3260"),
        ("iqn.2026-01.evil:portals", "host\u{1b}[2J:3260"),
        ("iqn.2026-01.evil:groups", "192.0.2.1:3260,\u{202e}<b>"),
    ] {
        text.extend_from_slice(format!("TargetName={name}\0").as_bytes());
        text.extend_from_slice(format!("TargetAddress={portal}\0").as_bytes());
    }
    text.extend_from_slice(b"TargetName=iqn.2026-01.evil:\xff\xfe\0");
    text.extend_from_slice(b"\x1b[2J<script>\0=\0\0");
    text
}

/// Returns an answer to INQUIRY: standard data, serial number, or names of the disk.
fn inquiry(page: Option<u8>) -> Option<Vec<u8>> {
    // The longest that fits an answer of 252 bytes.
    let mut long = DISK.to_vec();
    long.resize(244, b'>');
    let in_page = |page: u8, body: &[u8]| {
        let mut data = vec![0, page];
        data.extend_from_slice(&(body.len() as u16).to_be_bytes());
        data.extend_from_slice(body);
        data
    };
    match page {
        None => {
            let mut data = vec![0, 0, 6, 2, 31, 0, 0, 2];
            data.extend_from_slice(b"<b>\x1b[2J\xff");
            data.extend_from_slice(b"<svg/onload=a()>");
            data.extend_from_slice(b"\x9b2J\n");
            Some(data)
        }
        Some(0x80) => Some(in_page(0x80, &long)),
        // A designator of T10's kind in ASCII, which the disk chooses as it likes.
        Some(0x83) => Some(in_page(0x83, &[&[2, 1, 0, 244], &long[..]].concat())),
        Some(0x00) => Some(in_page(0x00, &[0x00, 0x80, 0x83, 0xb0, 0xb2])),
        Some(_) => None,
    }
}

/// Starts the array, logs in to it, and waits for its disk.
pub(super) fn joined(site: &Site) -> FakeTarget {
    let array = FakeTarget::start(World::of(&[1 << 20]), |peer, command| {
        let page = [None, Some(0x00), Some(0x80), Some(0x83)];
        let asked = page.into_iter().find(|page| command.is_inquiry(*page));
        match asked.and_then(inquiry) {
            Some(data) => peer.answer(command, &data),
            None => Ok(false),
        }
    });
    let mut terms = allowed(Authentication::None);
    if let Authorization::Allowed(terms) = &mut terms {
        terms.target_alias = "<script>alert(8)</script>\u{202e}".to_owned();
    }
    array.authorize(terms);
    array.tell(&discovered(&array.address.to_string()));
    let told = discover(site, &array, "");
    assert!(told.contains(NAME), "{told}");
    assert!(told.contains("left out"), "{told}");
    let json = discover(site, &array, " --json");
    assert!(json.contains("<script>alert(4)</script>"), "{json}");
    site.done(&format!(
        "initiator login {NAME} --portal {}",
        array.address
    ));
    let name = disk(site);
    assert!(
        name.starts_with("t10.EVIL") && name.contains(MARK),
        "{name}"
    );
    array
}

/// Returns the name of the array's disk.
fn disk(site: &Site) -> String {
    let devices = site.done("initiator device list --json");
    let devices: serde_json::Value = serde_json::from_str(&devices).unwrap();
    let name = devices[0]["state"]["nmp"]["name"].as_str();
    name.unwrap_or_else(|| panic!("{devices}")).to_owned()
}

/// Asks the array for its targets, and returns what the terminal shows.
fn discover(site: &Site, array: &FakeTarget, options: &str) -> String {
    shown(&site.run(&format!("initiator discover {}{options}", array.address)))
}

/// Returns all that a command printed, which must hold nothing that a terminal obeys.
pub(super) fn shown(output: &Output) -> String {
    let told = [&output.stdout[..], &output.stderr].concat();
    let told = String::from_utf8(told).unwrap();
    let obeyed = told
        .chars()
        .find(|it| shown::is_obeyed(*it) && !['\n', '\t'].contains(it));
    assert_eq!(obeyed, None, "{told:?}");
    assert!(
        !told
            .lines()
            .any(|line| line.starts_with("2026-01-01T00:00:00Z")),
        "{told}"
    );
    told
}

/// Every listing that tells of the array, and a unit on its disk.
pub(super) fn is_only_text_in_terminals(site: &Site) {
    let name = disk(site);
    for line in [
        "initiator adapter get",
        "initiator session list",
        "initiator session list --json",
        "initiator lun list",
        "initiator device list",
        "initiator device list --json",
        &format!("initiator device get -d {name}"),
        "initiator path list",
        "initiator path list --json",
        &format!("initiator psp get -d {name}"),
        &format!("lu create vmfar --backend {name}"),
        "lu list",
        "lu list --json",
        "lu list vmfar",
        "pool disks",
        "pool disks --json",
        "top -b -d 1 -n 1",
        "top -b -d 1 -n 1 --initiator",
        "iostat -x -y 1 1",
        &format!("initiator device set -d {name} --queue-depth 7"),
        "config show",
        "config history -p",
        "status",
    ] {
        let told = shown(&site.run(line));
        assert!(!told.is_empty(), "{line}");
    }
    let listed = site.done("initiator device list");
    assert!(listed.contains("t10.EVIL"), "{listed}");
}

/// A wizard that is given the disk shows its name again, in a field and in words.
pub(super) fn is_only_text_in_wizards(site: &Site, admin: &Who) {
    let name = coded(&disk(site));
    for (wizard, form) in [
        (
            "first-lun",
            format!("step=disks&go=next&other_disks={name}"),
        ),
        (
            "replace",
            format!("step=new&go=next&old=tank/{name}&other_disks={name}"),
        ),
        ("locate", format!("disk={name}&on=yes")),
    ] {
        let address = format!("/wizards/{wizard}");
        let reply = site.post(&address, admin, &form);
        assert!(reply.status < 500, "{address}: {reply:?}");
        assert!(reply.body.contains("t10.EVIL"), "{address}: {reply:?}");
        assert_own_markup(&address, &reply);
    }
}

/// The array goes away, and an event tells so by the name of its disk.
pub(super) fn is_only_text_in_events(site: &Site, admin: &Who, array: FakeTarget) {
    drop(array);
    wait::until("an event tells so", || {
        shown(&site.run("events")).contains("t10.EVIL")
    });
    for line in [
        "events --json",
        "initiator path list",
        "initiator session list",
        "status",
    ] {
        shown(&site.run(line));
    }
    let page = site.get("/events", admin);
    assert!(page.body.contains("t10.EVIL"), "{page:?}");
    assert_own_markup("/events", &page);
}
