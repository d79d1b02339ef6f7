//! The shell's tab key: names come from the daemon, words from the verb itself.

use std::process::Command;

use crate::process::Process;

/// Returns the words that bash offers for the last of these.
fn offered(process: &Process, words: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .env("COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .env("SANDSTONE_STATE", process.folder())
        .args(["--", "sandstone"])
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_tab_key_offers_names_properties_states_and_profiles() {
    let process = Process::start();
    process.done("pool create --size 128M tank disk");
    process.done("volume create -s -V 8M tank/vm1");
    process.done("volume snapshot tank/vm1@monday");
    let is_offered = |words: &[&str], wanted: &str| {
        let offered = offered(&process, words);
        assert!(
            offered.iter().any(|of| of == wanted),
            "{words:?}: {offered:?}"
        );
    };
    is_offered(&["volume", "set", "compr"], "compression=");
    is_offered(&["volume", "set", "sync=always", "ta"], "tank/vm1");
    is_offered(&["volume", "create", "-o", "volb"], "volblocksize=");
    is_offered(&["volume", "get", "compr"], "compressratio");
    is_offered(&["volume", "rollback", ""], "tank/vm1@monday");
    is_offered(&["volume", "destroy", "tank/vm1@"], "tank/vm1@monday");
    is_offered(&["volume", "send", ""], "tank/vm1@monday");
    is_offered(&["pool", "set", "auto"], "autotrim=");
    is_offered(&["pool", "set", "autotrim=on", ""], "tank");
    is_offered(
        &["target", "alua-state", "1", "active"],
        "active-non-optimized",
    );
    is_offered(&["bench", "run", "--profile", "vmk"], "vmktree");
    let snapshots = offered(&process, &["volume", "rollback", ""]);
    assert!(!snapshots.contains(&"tank/vm1".to_owned()), "{snapshots:?}");
    let fixed = offered(&process, &["volume", "set", "volb"]);
    assert!(!fixed.contains(&"volblocksize=".to_owned()), "{fixed:?}");
    let computed = offered(&process, &["volume", "set", "used"]);
    assert!(!computed.contains(&"used=".to_owned()), "{computed:?}");
}
