//! Restore of a lost machine: a bare machine takes its place by a backup.
//!
//! Identities, secrets, maps and pools are as they were.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use config::store::Store;
use testing::wait;

use crate::process::Process;

const TARGET: &str = "iqn.2026-01.org.example:disks";
const CLIENT: &str = "iqn.2026-01.org.example:client";
const PASSPHRASE: &str = "correct horse battery staple";
const SECRET: &str = "secret-of-the-web-host";

/// Things that outlive the machine: its disk, the backup, and notes of its administrator.
struct Kept {
    folder: tempfile::TempDir,
    port: u16,
}

impl Kept {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let texts = [
            ("secret", SECRET),
            ("wrong-secret", "another-secret-altogether"),
            ("mutual", "secret-of-the-target"),
            ("passphrase", PASSPHRASE),
            ("wrong-passphrase", "incorrect horse battery"),
        ];
        for (name, text) in texts {
            fs::write(folder.path().join(name), format!("{text}\n")).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.local_addr().unwrap().port();
        Self { folder, port }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Starts a machine with a unit on a volume and one in a file. Its target proves itself, and so
    /// must the host.
    fn machine(&self) -> Process {
        let machine = Process::start();
        let port = self.port;
        for line in [
            format!("pool create --size 128M tank {}", self.at("disk.img")),
            "volume create -s -V 16M tank/v1".to_owned(),
            "lu create v1 --volume tank/v1".to_owned(),
            "lu create f1 --file --size 16M".to_owned(),
            format!("target create {TARGET} --portal 127.0.0.1:{port}"),
            format!(
                "target auth {TARGET} -u target --secret-file {}",
                self.at("mutual")
            ),
            format!("host create web --initiator {CLIENT}"),
            format!("host auth web -u web --secret-file {}", self.at("secret")),
            format!("map add v1 --host web --target {TARGET}"),
            format!("map add f1 --host web --target {TARGET}"),
            format!(
                "config discovery-user -u found --secret-file {}",
                self.at("secret")
            ),
            format!("initiator adapter set --name {CLIENT}2"),
            // Nobody listens there: the login stays configured all the same.
            format!(
                "initiator login iqn.2026-01.org.example:other --portal 127.0.0.1:1 --no-wait -u us --secret-file {}",
                self.at("secret")
            ),
        ] {
            machine.done(&line);
        }
        machine
    }

    /// Logs in to a machine as the host, and checks how that ends.
    fn log_in(&self, secret: &str, wanted: &str) {
        let client = Process::start();
        client.done(&format!("initiator adapter set --name {CLIENT}"));
        let (port, secret, mutual) = (self.port, self.at(secret), self.at("mutual"));
        client.done(&format!(
            "initiator login {TARGET} --portal 127.0.0.1:{port} -u web --secret-file {secret} \
             --mutual-user target --mutual-secret-file {mutual} --no-wait"
        ));
        until(&client, "initiator session list -H -o state,reason", wanted);
    }
}

/// Asks until the answer contains this text.
fn until(machine: &Process, line: &str, wanted: &str) -> String {
    let what = format!("{line}: {wanted:?}");
    wait::until_seen(&what, || machine.verb(line).1, |told| told.contains(wanted))
}

/// Returns the configuration of a machine with its secrets opened, without the machine's own
/// identity.
fn configured(machine: &Process) -> toml::Table {
    let mut table = toml::Table::try_from(Store::peek(machine.folder()).unwrap()).unwrap();
    table.remove("generation");
    table.remove("identity");
    table
}

fn names_and_identities(machine: &Process) -> String {
    machine.done("lu list -H -o name,naa,serial,block,maps")
}

#[test]
fn a_bare_machine_is_what_the_lost_one_was() {
    let kept = Kept::new();
    let mut lost = kept.machine();
    let (identities, before) = (names_and_identities(&lost), configured(&lost));
    let (file, passphrase) = (kept.at("backup"), kept.at("passphrase"));
    let told = lost.done(&format!(
        "config export --with-secrets {file} --passphrase-file {passphrase}"
    ));
    assert!(told.contains("2 units, 1 target, 1 host, 2 maps"), "{told}");
    assert!(
        told.contains("1 login, 4 secrets") && !told.contains("not sealed"),
        "{told}"
    );
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!fs::read_to_string(&file).unwrap().contains(SECRET));
    let file_of_unit = fs::read_dir(lost.folder().join("volumes")).unwrap();
    let file_of_unit = file_of_unit.last().unwrap().unwrap().path();
    lost.kill();

    let bare = Process::start();
    let restore = format!("config restore {file} --passphrase-file {passphrase}");
    let preview = bare.done(&format!("{restore} -n"));
    assert!(preview.contains("  + lu v1"), "{preview}");
    assert_eq!(bare.done("lu list -H"), "");
    let told = bare.done(&restore);
    let import = told
        .lines()
        .find_map(|line| line.strip_prefix("next: sandstone pool import "));
    let (import, _) = import.unwrap().split_once(" (").unwrap();
    assert!(!told.contains("sandstone serve"), "{told}");
    assert_eq!(names_and_identities(&bare), identities);
    assert_eq!(configured(&bare), before);
    // Nothing is made in place of missing data: hosts would take it for their disk, emptied.
    let own = bare
        .folder()
        .join("volumes")
        .join(file_of_unit.file_name().unwrap());
    assert!(!own.exists());
    let states = bare.done("lu list -H -o name,state");
    assert!(!states.contains("online"), "{states}");
    // A host that comes meanwhile needs its old secret.
    kept.log_in("wrong-secret", "authentication");
    kept.log_in("secret", "logged-in");

    fs::copy(&file_of_unit, &own).unwrap();
    bare.refused(&format!("pool import {import}"));
    bare.done(&format!("pool import -f {import}"));
    until(&bare, "lu list -H -o name,state", "v1\tonline");
    until(&bare, "lu list -H -o name,state", "f1\tonline");
    assert_eq!(names_and_identities(&bare), identities);
    let history = bare.done("config history -H -p -o author,summary,command");
    let last = history.lines().last().unwrap();
    assert!(last.contains("lu v1 created"), "{history}");
    assert!(last.contains("sandstone config restore"), "{history}");
}

/// The backup knows the volume by its number, whatever its name is when its pool comes.
#[test]
fn a_restored_unit_finds_its_volume_behind_a_rename() {
    let kept = Kept::new();
    let mut lost = kept.machine();
    let file = kept.at("backup");
    lost.done(&format!("config export --with-secrets {file}"));
    lost.done("volume rename tank/v1 tank/v2");
    lost.done("volume create -s -V 16M tank/v1");
    lost.kill();
    let bare = Process::start();
    bare.done(&format!("config restore {file}"));
    assert_eq!(bare.done("lu list -H -o backend v1"), "tank/v1\n");
    let folder = kept.folder.path().display();
    bare.done(&format!("pool import -f -d {folder} tank"));
    until(&bare, "lu list -H -o backend,state v1", "tank/v2\tonline");
}

#[test]
fn what_cannot_be_restored_changes_nothing_and_says_why() {
    let kept = Kept::new();
    let machine = kept.machine();
    let passphrase = kept.at("passphrase");
    let sealed = kept.at("sealed");
    machine.done(&format!(
        "config export --with-secrets {sealed} --passphrase-file {passphrase}"
    ));
    let plain = kept.at("plain");
    let told = machine.done(&format!("config export --with-secrets {plain}"));
    assert!(told.contains("not sealed"), "{told}");
    let whole = fs::read(&plain).unwrap();
    let damaged = |name: &str, bytes: &[u8]| {
        fs::write(kept.path(name), bytes).unwrap();
        kept.at(name)
    };
    let cut = damaged("cut", &whole[..whole.len() / 2]);
    let later = String::from_utf8(whole.clone()).unwrap();
    let later = later.replacen("\"format\":1", "\"format\":2", 1);
    let later = damaged("later", later.as_bytes());
    let foreign = damaged("foreign", b"units = []\n");
    let wrong = kept.at("wrong-passphrase");
    let bare = Process::start();
    let before = fs::read(bare.folder().join("config.toml")).unwrap();
    for (line, reason) in [
        (
            format!("{sealed} --passphrase-file {wrong}"),
            "passphrase does not open",
        ),
        (sealed.clone(), "there is no terminal to ask on"),
        (cut, "is torn"),
        (later, "later version"),
        (foreign, "is not a backup"),
        (kept.at("nothing"), "could not be read"),
    ] {
        let told = bare.refused(&format!("config restore {line}"));
        assert!(told.contains(reason), "{line}: {told}");
        assert!(told.contains("nothing was changed"), "{line}: {told}");
        assert!(told.contains("next:"), "{line}: {told}");
    }
    assert_eq!(fs::read(bare.folder().join("config.toml")).unwrap(), before);
    // Nothing that a machine has is replaced silently.
    let told = machine.refused(&format!("config restore {plain}"));
    assert!(told.contains("a configuration of its own"), "{told}");
    // An existing file stays, unless the command asks to replace it.
    let export = format!("config export --with-secrets {plain}");
    let told = machine.refused(&export);
    assert!(
        told.contains("is there already") && told.contains("--force"),
        "{told}"
    );
    assert_eq!(fs::read(&plain).unwrap(), whole);
    machine.done(&format!("{export} --force"));
    // No secret leaves without the option for secrets.
    let told = machine.refused(&format!("config export {}", kept.at("other")));
    assert!(told.contains("--with-secrets"), "{told}");
    assert!(!Path::new(&kept.at("other")).exists());
}
