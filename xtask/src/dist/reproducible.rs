//! Two builds of the last commit in two folders. Every file of the packages must be the same, byte
//! for byte: whoever doubts a package can build it again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::stage::remove;
use super::{Options, Sources, done, make};
use crate::crate_root;

/// Folders of the two builds. Their names differ in length, so that a path that gets into a file
/// moves what follows.
const FOLDERS: [&str; 2] = ["one", "another-folder/with-a-longer-name"];

/// Builds twice, compares, and leaves the packages in the folder of the options.
pub(super) fn check(options: &Options) -> Result<Vec<String>, String> {
    let place = crate_root().join("target/reproducible");
    remove(&place)?;
    let mut made = Vec::new();
    for folder in FOLDERS {
        let root = place.join(folder);
        check_out(&root)?;
        let output = place.join(format!("packages-{}", made.len()));
        let of_this = Options {
            output: output.clone(),
            ..options.clone()
        };
        let names = make(&Sources::of(&root, options)?, &of_this)?;
        // A build takes a gigabyte, and only its packages are needed.
        remove(&root)?;
        made.push((output, names));
    }
    let [(one, names), (another, others)] = &made[..] else {
        return Err("there are not two builds".into());
    };
    if names != others {
        return Err(format!(
            "the builds have other files: {names:?}, {others:?}"
        ));
    }
    let differing = differing(one, another, names)?;
    if !differing.is_empty() {
        return Err(format!(
            "these files differ between {} and {}: {}",
            one.display(),
            another.display(),
            differing.join(", ")
        ));
    }
    eprintln!("xtask: {} files are the same in both builds", names.len());
    remove(&options.output)?;
    fs::create_dir_all(options.output.parent().unwrap_or(Path::new(".")))
        .and_then(|()| fs::rename(one, &options.output))
        .map_err(|error| format!("cannot move the packages: {error}"))?;
    remove(&place)?;
    Ok(names.clone())
}

/// Writes the files of the last commit below a folder.
fn check_out(root: &Path) -> Result<(), String> {
    fs::create_dir_all(root).map_err(|error| format!("cannot make {}: {error}", root.display()))?;
    let mut archive = Command::new("git")
        .args(["archive", "HEAD"])
        .current_dir(crate_root())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run git: {error}"))?;
    let pipe = archive.stdout.take().ok_or("git has no output")?;
    done(
        Command::new("tar")
            .arg("-x")
            .arg("-C")
            .arg(root)
            .stdin(pipe),
    )?;
    match archive.wait() {
        Ok(status) if status.success() => Ok(()),
        ended => Err(format!("git archive: {ended:?}")),
    }
}

fn differing(one: &Path, another: &Path, names: &[String]) -> Result<Vec<String>, String> {
    let read = |path: PathBuf| {
        fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let mut differing = Vec::new();
    for name in names {
        if read(one.join(name))? != read(another.join(name))? {
            differing.push(name.clone());
        }
    }
    Ok(differing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_are_named() {
        let place = std::env::temp_dir().join(format!("sandstone-twice-{}", std::process::id()));
        let (one, another) = (place.join("1"), place.join("2"));
        for folder in [&one, &another] {
            fs::create_dir_all(folder).expect("a folder");
            fs::write(folder.join("same"), "a").expect("a file");
            let last = folder.file_name().expect("a name").as_encoded_bytes();
            fs::write(folder.join("other"), last).expect("a file");
        }
        let names = ["same".to_owned(), "other".to_owned()];
        let told = differing(&one, &another, &names);
        let lacks = differing(&one, &another, &["absent".to_owned()]);
        fs::remove_dir_all(&place).expect("its removal");
        assert_eq!(told, Ok(vec!["other".to_owned()]));
        assert!(lacks.is_err());
    }
}
