//! Tests of `config export` and `config restore` in a state folder that no daemon uses, and of the
//! permission to ask for secrets.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use config::store::Store;

use super::daemon::{Daemon, Ran, run};

const SECRET: &str = "a-secret-of-the-host";
const PASSPHRASE: &str = "correct horse battery staple";

/// Returns a daemon and the path of a file that does not exist yet. The daemon has one object of
/// each kind, and a host that needs a secret.
fn daemon() -> (Daemon, String) {
    let daemon = Daemon::with_one_of_each();
    let secret = daemon.folder.path().join("secret");
    fs::write(&secret, SECRET).unwrap();
    let line = format!("host auth esx -u esx --secret-file {}", secret.display());
    assert_eq!(daemon.run(&line).code, 0);
    let file = daemon.folder.path().join("backup").display().to_string();
    (daemon, file)
}

fn restore(state: &Path, words: &[&str], answer: Option<&str>) -> Ran {
    run(state, &[&["config", "restore"], words].concat(), answer)
}

/// Returns the configuration of a folder with its secrets opened, without generation and
/// installation.
fn configured(state: &Path) -> toml::Table {
    let mut table = toml::Table::try_from(Store::peek(state).unwrap()).unwrap();
    table.remove("generation");
    table.remove("identity");
    table
}

#[test]
fn a_bare_folder_takes_a_backup_without_a_daemon() {
    let (mut daemon, file) = daemon();
    let export = format!("config export --with-secrets {file}");
    assert_eq!(daemon.run(&export).code, 0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(SECRET));
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    daemon.stop();
    let bare = tempfile::tempdir().unwrap();
    let state = bare.path().join("state");
    let ran = restore(&state, &[&file, "-n"], None);
    assert!(ran.code == 0 && ran.out.contains("  + host esx"), "{ran:?}");
    assert!(!ran.out.contains(SECRET), "{ran:?}");
    assert!(!state.exists(), "a preview makes no folder");
    let ran = restore(&state, &[&file], None);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("next: sandstone serve --state"), "{ran:?}");
    assert_eq!(configured(&state), configured(daemon.folder.path()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&state), mode(&state.join("config.toml"))),
        (0o700, 0o600)
    );
    // The machine is another one, so it does not take the first one's pools for its own.
    let installation = |folder: &Path| {
        let text = fs::read_to_string(folder.join("config.toml")).unwrap();
        let table: toml::Table = toml::from_str(&text).unwrap();
        table["identity"]["installation"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_ne!(installation(&state), installation(daemon.folder.path()));
}

#[test]
fn a_folder_in_use_is_replaced_only_when_that_is_agreed_to() {
    let (mut daemon, file) = daemon();
    assert_eq!(
        daemon
            .run(&format!("config export --with-secrets {file}"))
            .code,
        0
    );
    let backup = configured(daemon.folder.path());
    for line in ["lu delete vol1 -y", "lu create other --memory --size 1M"] {
        assert_eq!(daemon.run(line).code, 0, "{line}");
    }
    daemon.stop();
    let state = daemon.folder.path().to_owned();
    let before = fs::read(state.join("config.toml")).unwrap();
    let ran = restore(&state, &[&file], None);
    assert!(ran.code == 1 && ran.err.contains("  - lu other"), "{ran:?}");
    assert!(ran.err.contains("--yes"), "{ran:?}");
    let ran = restore(&state, &[&file], Some("n"));
    assert!(
        ran.code == 1 && ran.err.contains("nothing was changed"),
        "{ran:?}"
    );
    assert_eq!(fs::read(state.join("config.toml")).unwrap(), before);
    assert_eq!(restore(&state, &[&file], Some("y")).code, 0);
    assert_eq!(configured(&state), backup);
    // The user can go back to the replaced configuration.
    daemon.restart();
    let told = daemon.run("config history -H -p -o generation,summary").out;
    assert!(
        told.lines().last().unwrap().contains("lu other removed"),
        "{told}"
    );
    assert_eq!(daemon.run("config rollback 7 -y").code, 0);
    assert_eq!(daemon.run("lu list -H -o name").out, "other\n");
}

#[test]
fn a_machine_that_lost_its_configuration_and_kept_the_rest_is_itself_again() {
    let (mut daemon, file) = daemon();
    assert_eq!(
        daemon
            .run(&format!("config export --with-secrets {file}"))
            .code,
        0
    );
    daemon.stop();
    let state = daemon.folder.path();
    let whole = fs::read_to_string(state.join("config.toml")).unwrap();
    fs::create_dir(state.join("units")).unwrap();
    fs::remove_file(state.join("config.toml")).unwrap();
    fs::remove_dir_all(state.join("history")).unwrap();
    let ran = restore(state, &[&file], None);
    assert_eq!(ran.code, 0, "{ran:?}");
    let identity = |text: &str| toml::from_str::<toml::Table>(text).unwrap()["identity"].clone();
    let restored = fs::read_to_string(state.join("config.toml")).unwrap();
    assert_eq!(identity(&restored), identity(&whole));
}

/// `/dev/zero` stands for every device that somebody names by mistake: a file that is read whole
/// would take all memory of a machine that serves disks.
#[test]
fn a_device_in_place_of_a_file_is_refused_before_it_takes_all_memory() {
    let (daemon, file) = daemon();
    for line in [
        "config restore -y /dev/zero",
        "config apply -y /dev/zero",
        "host auth esx -u esx --secret-file /dev/zero",
        "tls give --cert /dev/zero --key /dev/zero",
        "bench report /dev/zero",
    ] {
        let ran = daemon.run(line);
        assert_eq!(ran.code, 1, "{line}: {ran:?}");
        assert!(ran.err.contains("it is longer than"), "{line}: {ran:?}");
    }
    let export = format!("config export --with-secrets {file} --passphrase-file /dev/zero");
    let ran = daemon.run(&export);
    assert!(ran.err.contains("it is longer than"), "{ran:?}");
    assert!(!Path::new(&file).exists(), "no backup was made");
}

#[test]
fn a_passphrase_is_asked_for_twice_to_seal_and_once_to_open() {
    let (mut daemon, file) = daemon();
    let line = format!("config export --with-secrets --seal {file}");
    let ran = daemon.run_answering(&line, "short\n");
    assert!(ran.code == 1 && ran.err.contains("at least 12"), "{ran:?}");
    assert!(!Path::new(&file).exists());
    let ran = daemon.run(&line);
    assert!(
        ran.code == 1 && ran.err.contains("there is no terminal to ask on"),
        "{ran:?}"
    );
    let ran = daemon.run_answering(&line, &format!("{PASSPHRASE}\n"));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!fs::read_to_string(&file).unwrap().contains("esx"));
    daemon.stop();
    let bare = tempfile::tempdir().unwrap();
    let ran = restore(bare.path(), &[&file], Some("another passphrase\n"));
    assert!(
        ran.code == 1 && ran.err.contains("does not open"),
        "{ran:?}"
    );
    let ran = restore(bare.path(), &[&file], Some(PASSPHRASE));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(configured(bare.path()), configured(daemon.folder.path()));
}

#[test]
fn a_daemon_that_is_down_is_exported_from_its_folder() {
    let (mut daemon, file) = daemon();
    daemon.stop();
    let ran = daemon.run(&format!("config export --with-secrets {file}"));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(fs::read_to_string(&file).unwrap().contains(SECRET));
    let nowhere = tempfile::tempdir().unwrap();
    let other = format!("{file}.other");
    let words = ["config", "export", "--with-secrets", &other];
    let ran = run(nowhere.path(), &words, None);
    assert!(
        ran.code == 1 && ran.err.contains("no Sandstone daemon answers"),
        "{ran:?}"
    );
    assert!(!Path::new(&other).exists());
}

#[test]
fn secrets_leave_by_the_socket_alone_and_that_is_all_that_shows_them() {
    let (daemon, _) = daemon();
    let (code, answer) = super::api::http(&daemon, "GET /v1/config/backup", "");
    assert!(code == 200 && answer.contains(SECRET), "{answer}");
    for path in [
        "config",
        "hosts",
        "hosts/esx",
        "config/generations",
        "status",
    ] {
        let (code, answer) = super::api::http(&daemon, &format!("GET /v1/{path}"), "");
        assert!(code == 200 && !answer.contains(SECRET), "{path}: {answer}");
    }
    let address = daemon.tcp();
    let nowhere = tempfile::tempdir().unwrap();
    let words = ["--control", &address, "config", "show"];
    let ran = run(nowhere.path(), &words, None);
    assert!(ran.code == 1 && ran.err.contains("token"), "{ran:?}");
    let token = daemon.run("token add test --role admin").out;
    let token_file = nowhere.path().join("token");
    std::fs::write(&token_file, token).unwrap();
    let token_file = token_file.to_str().unwrap();
    let words = [
        "--control",
        &address,
        "--control-token",
        token_file,
        "config",
        "show",
    ];
    assert_eq!(run(nowhere.path(), &words, None).code, 0);
    let file = nowhere.path().join("file");
    let file = file.to_str().unwrap();
    let words = [
        "--control",
        &address,
        "--control-token",
        token_file,
        "config",
        "export",
        "--with-secrets",
        file,
    ];
    let ran = run(nowhere.path(), &words, None);
    assert!(
        ran.code == 1 && ran.err.contains("only through its control socket"),
        "{ran:?}"
    );
    assert!(!Path::new(file).exists());
}

#[test]
fn a_backup_where_another_file_is_asked_for_is_told_the_verb_for_it() {
    let (daemon, file) = daemon();
    assert_eq!(
        daemon
            .run(&format!("config export --with-secrets {file}"))
            .code,
        0
    );
    for verb in ["apply", "plan", "diff", "import", "import --apply"] {
        let ran = daemon.run(&format!("config {verb} {file}"));
        assert!(
            ran.code == 1 && ran.err.contains("config restore"),
            "{verb}: {ran:?}"
        );
    }
}

#[test]
fn a_configuration_of_several_megabytes_is_taken() {
    let (daemon, _) = daemon();
    let text = "#".repeat(5 << 20);
    let body = serde_json::json!({ "toml": text }).to_string();
    let (code, answer) = super::api::http(&daemon, "PUT /v1/config?dry_run=true", &body);
    assert_eq!(code, 200, "{answer}");
    assert!(answer.contains("remove"), "{answer}");
}
