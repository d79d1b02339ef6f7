//! The first chapter of the guide, `docs/first-lun.md`, as a new user types it.
//!
//! Every command of Sandstone in the chapter is run, in order, against a real daemon with files in
//! place of disks. What the daemon tells to type on clients must be what the chapter tells.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testing::wait;

use crate::served::free_portal;

const CHAPTER: &str = include_str!("../../../../docs/first-lun.md");

/// Names and addresses of the chapter that stand for the reader's own.
const DISKS: &str = "/dev/disk/by-id/";
const PORTAL: &str = "192.0.2.10:3260";
const SECOND: &str = "198.51.100.10";
const BACKUPS: &str = "/media/usb/";

/// Returns the lines of code blocks, with lines that go on joined.
fn code() -> Vec<String> {
    let code = CHAPTER.lines().filter_map(|line| {
        let bare = line.trim_start();
        (line.len() - bare.len() >= 4).then(|| bare.to_owned())
    });
    let mut joined: Vec<String> = Vec::new();
    for line in code {
        match joined.last_mut().filter(|last| last.ends_with('\\')) {
            Some(last) => {
                last.pop();
                *last = format!("{} {line}", last.trim_end());
            }
            None => joined.push(line),
        }
    }
    joined
}

/// Daemon that is stopped with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon may have ended already.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

fn start(folder: &Path, portal: &str) -> Daemon {
    let program = env!("CARGO_BIN_EXE_sandstone");
    let child = Command::new(program)
        .args(["serve", "--cache", "64M", "--portal", portal, "--state"])
        .arg(folder.join("state"))
        .stdin(Stdio::null())
        .stderr(File::create(folder.join("log")).unwrap())
        .spawn();
    let daemon = Daemon(child.unwrap());
    wait::until_ok("the daemon listens", || {
        let is_there = folder.join("state/control.sock").exists();
        let log = || std::fs::read_to_string(folder.join("log")).unwrap();
        is_there.then_some(()).ok_or_else(log)
    });
    daemon
}

#[test]
fn every_command_of_the_chapter_works_and_clients_are_told_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (portal, second) = (free_portal().to_string(), free_portal().to_string());
    let _daemon = start(folder.path(), &portal);
    for number in 1..=4 {
        let disk = File::create(folder.path().join(format!("disk-{number}"))).unwrap();
        disk.set_len(512 << 20).unwrap();
    }
    let place = format!("{}/", folder.path().display());
    let code = code();
    let mut told = String::new();
    let mut count = 0;
    for line in code.iter().filter(|line| line.starts_with("sandstone ")) {
        let typed = line.replace(DISKS, &place).replace(BACKUPS, &place);
        let words: Vec<String> = typed
            .split_whitespace()
            .skip(1)
            .map(|word| word.replace(SECOND, &second))
            .collect();
        let output = Command::new(env!("CARGO_BIN_EXE_sandstone"))
            .args(&words)
            .env("SANDSTONE_STATE", folder.path().join("state"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        // The second host sees a disk that nobody has logged in to yet: that is an answer too.
        assert!(output.status.success(), "{line}: {errors}");
        told += &String::from_utf8(output.stdout).unwrap();
        count += 1;
    }
    assert!(count >= 18, "{count} commands");
    assert_eq!(instructions_that_differ(&told, &portal, &code), [""; 0]);
}

/// Returns what the daemon tells to type on clients, and the chapter does not.
fn instructions_that_differ(told: &str, portal: &str, chapter: &[String]) -> Vec<String> {
    let (address, port) = portal.rsplit_once(':').unwrap();
    let indented = told.lines().filter_map(|line| line.strip_prefix("    "));
    let on_clients = [
        "esxcli", "pvesm", "iscsiadm", "ls ", "Set-", "New-", "Connect-", "Get-",
    ];
    let mut lines: Vec<String> = indented
        .filter(|line| on_clients.iter().any(|word| line.starts_with(word)))
        .map(|line| {
            // Comments of the daemon are the chapter's text.
            let line = line.split(" # ").next().unwrap_or(line).trim_end();
            let line = line.replace(portal, PORTAL).replace(address, "192.0.2.10");
            let line = line.replace(port, "3260");
            // The usual port is not told where it goes without saying.
            let line = match line.starts_with("pvesm") {
                true => line.replace(":3260", ""),
                false => line,
            };
            without_identifier(&line)
        })
        .collect();
    assert!(lines.len() > 12, "{told}");
    lines.retain(|line| !chapter.contains(line));
    lines
}

/// Replaces the digits of a unit's NAA identifier, in either case, by an ellipsis.
fn without_identifier(line: &str) -> String {
    let is_digit = |of: char| of.is_ascii_hexdigit();
    let start = line.char_indices().find_map(|(at, _)| {
        let length = line[at..].chars().take_while(|of| is_digit(*of)).count();
        (length >= 32).then_some((at, length))
    });
    match start {
        Some((at, length)) => format!("{}6…{}", &line[..at], &line[at + length..]),
        None => line.to_owned(),
    }
}
