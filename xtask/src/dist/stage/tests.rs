//! Checks of the packages' files that need no build.

use std::fs;
use std::process::{Command, Stdio};

use super::*;
use crate::crate_root;

fn read(path: &str) -> String {
    fs::read_to_string(crate_root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Sources of the assets that a list of the manifest names, without the folder where they are
/// gathered.
fn assets(list: &str) -> Vec<String> {
    let manifest: toml::Table = toml::from_str(&read("crates/sandstone/Cargo.toml")).expect("TOML");
    let assets = &manifest["package"]["metadata"][list]["assets"];
    let source = |asset: &toml::Value| match asset {
        toml::Value::Array(parts) => parts[0].as_str().map(str::to_owned),
        other => other["source"].as_str().map(str::to_owned),
    };
    let sources = assets.as_array().expect("a list").iter().filter_map(source);
    sources
        .filter_map(|source| Some(source.split_once("target/package/root/")?.1.to_owned()))
        .collect()
}

/// A file that is gathered but in no list would be missing on machines, without a word.
#[test]
fn both_lists_of_assets_have_every_gathered_file() {
    let mut gathered: Vec<String> = FILES.iter().map(|(_, to)| (*to).to_owned()).collect();
    gathered.extend(COMPLETIONS.iter().map(|(_, to)| (*to).to_owned()));
    gathered.push("usr/bin/sandstone".into());
    gathered.push("usr/share/man/man1/sandstone.1.gz".into());
    let clients = FOLDERS
        .iter()
        .map(|folder| format!("usr/share/sandstone/{folder}/a.file"));
    gathered.extend(clients);
    for list in ["deb", "generate-rpm"] {
        let assets = assets(list);
        let has = |file: &String| {
            assets.iter().any(|asset| match asset.split_once('*') {
                Some((folder, _)) => file.starts_with(folder),
                None => asset == file,
            })
        };
        for file in &gathered {
            let is_wanted = list != "deb" || file != LICENSE;
            assert_eq!(has(file), is_wanted, "{list}: {file}");
        }
        for asset in &assets {
            let folder = asset.split('*').next().unwrap_or(asset);
            let is_gathered = gathered.iter().any(|file| file.starts_with(folder));
            assert!(is_gathered, "{list} wants {asset}, which nobody gathers");
        }
    }
}

#[test]
fn every_file_of_the_repository_is_there() {
    for (from, _) in FILES {
        assert!(crate_root().join(from).is_file(), "{from}");
    }
    let clients = files_below(&crate_root().join("packaging/clients")).expect("a folder");
    assert_eq!(clients.len(), 2, "{clients:?}");
}

#[test]
fn maintainer_scripts_are_correct_shell() {
    let mut scripts: Vec<PathBuf> = ["postinst", "prerm", "postrm"]
        .iter()
        .map(|name| crate_root().join("packaging/debian").join(name))
        .collect();
    let of_rpm = files_below(&crate_root().join("packaging/rpm")).expect("a folder");
    scripts.extend(
        of_rpm
            .into_iter()
            .filter(|file| file.extension().is_some_and(|kind| kind == "sh")),
    );
    assert_eq!(scripts.len(), 6);
    for script in scripts {
        let checked = Command::new("sh").arg("-n").arg(&script).output();
        let checked = checked.expect("a shell");
        let errors = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{}: {errors}", script.display());
    }
}

/// `systemd-analyze` reads the unit as the service manager does. Machines without systemd lack it.
#[test]
fn the_unit_is_correct_and_hardened() {
    let folder = std::env::temp_dir().join(format!("sandstone-unit-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    // The package may not be installed here: a program that is there stands in, and no manual page
    // is looked for.
    let unit = read("packaging/systemd/sandstone.service")
        .replace("/usr/bin/sandstone", "/bin/true")
        .replace("man:sandstone(1) ", "");
    let path = folder.join("sandstone.service");
    fs::write(&path, unit).expect("a file");
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&path).stdin(Stdio::null());
        command.output().ok()
    };
    let verified = analyze(&["verify", "--man=no"]);
    // The call that reads the error of the clock counts as one that sets it, 0.2.
    let hardened = analyze(&["security", "--offline=true", "--threshold=34", "--no-pager"]);
    fs::remove_dir_all(&folder).expect("its removal");
    let (Some(verified), Some(hardened)) = (verified, hardened) else {
        println!("skipped: there is no systemd-analyze");
        return;
    };
    let told = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success(), "{told}");
    assert!(!told.contains("sandstone.service"), "{told}");
    // The status is not 0 if the exposure is above the threshold, in tenths.
    let table = String::from_utf8_lossy(&hardened.stdout);
    assert!(hardened.status.success(), "{table}");
}

#[test]
fn client_snippets_are_those_of_the_guide_and_name_what_inquiry_tells() {
    let guide = read("docs/clients.md");
    let lines: Vec<&str> = guide.lines().map(str::trim).collect();
    for snippet in ["multipath.conf", "esxi-claim-rule.sh"] {
        let text = read(&format!("packaging/clients/{snippet}"));
        let commands = text.lines().filter(|line| !line.starts_with('#'));
        for line in commands.map(str::trim) {
            assert!(lines.contains(&line), "{snippet}: {line}");
        }
        for name in ["SNDSTONE", "VOLUME"] {
            assert!(text.contains(name), "{snippet} names no {name}");
        }
    }
    let identity = read("crates/unit/src/shape.rs");
    assert!(
        identity.contains("vendor: \"SNDSTONE\""),
        "INQUIRY tells another vendor"
    );
    assert!(
        identity.contains("product: \"VOLUME\""),
        "INQUIRY tells another product"
    );
}
