//! The list of what is linked into the program, in CycloneDX's JSON: a document for those who must
//! know whether a library with a fault is in their machines.
//!
//! It is made of cargo's own answer, without a tool: a walk over the dependencies that are linked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Sources, text};

/// Parts of `cargo metadata` that the list needs.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// `None` for a normal dependency, else `dev` or `build`.
    kind: Option<String>,
}

/// Writes the list of a checkout.
pub(super) fn write(sources: &Sources, file: &Path) -> Result<(), String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = text(Command::new(rustc).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let mut command = crate::cargo::command();
    command
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", host.ok_or("rustc tells no host")?])
        .current_dir(&sources.root);
    let metadata = serde_json::from_str(&text(&mut command)?)
        .map_err(|error| format!("the output of cargo metadata is not as expected: {error}"))?;
    let document = document(&metadata, &sources.version)?;
    let document = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?;
    fs::write(file, document + "\n")
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn document(metadata: &Metadata, version: &str) -> Result<Value, String> {
    let packages: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .map(|package| (package.id.as_str(), package))
        .collect();
    let own = |package: &&Package| package.source.is_none() && package.name == "sandstone";
    let own = metadata.packages.iter().find(own);
    let linked = linked(metadata, &own.ok_or("cargo knows no package sandstone")?.id);
    // Crates of this repository are the program itself.
    let mut foreign: Vec<&Package> = linked
        .iter()
        .filter_map(|id| packages.get(id).copied())
        .filter(|package| package.source.is_some())
        .collect();
    foreign.sort_by_key(|package| (&package.name, &package.version));
    let components: Vec<Value> = foreign.into_iter().map(component).collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "name": "sandstone",
            "version": version,
            "licenses": [{ "expression": "Apache-2.0" }],
        }},
        "components": components,
    }))
}

fn component(package: &Package) -> Value {
    let Package { name, version, .. } = package;
    let mut component = json!({
        "type": "library",
        "bom-ref": format!("{name}@{version}"),
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
    });
    if let Some(license) = &package.license {
        // Older packages write a slash for OR.
        let expression = license.replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    component
}

/// Returns the packages that a package is linked with. Those that only build or test are left out.
fn linked<'a>(metadata: &'a Metadata, root: &'a str) -> BTreeSet<&'a str> {
    let nodes: BTreeMap<&str, &Node> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let (mut found, mut next) = (BTreeSet::new(), vec![root]);
    while let Some(id) = next.pop() {
        if !found.insert(id) {
            continue;
        }
        let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        let normal = dependencies.filter(|of| of.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        next.extend(normal.map(|of| of.pkg.as_str()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_what_is_linked_and_nothing_else() {
        let package = |name: &str, source: Option<&str>| {
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                    "source": source })
        };
        let node = |id: &str, deps: &[(&str, Option<&str>)]| {
            let deps: Vec<Value> = deps
                .iter()
                .map(|(pkg, kind)| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] }))
                .collect();
            json!({ "id": id, "deps": deps })
        };
        let metadata: Metadata = serde_json::from_value(json!({
            "packages": [
                package("sandstone", None), package("cli", None), package("toml", Some("r")),
                package("winnow", Some("r")), package("cc", Some("r")), package("proptest", Some("r")),
            ],
            "resolve": { "nodes": [
                node("sandstone", &[("cli", None), ("proptest", Some("dev"))]),
                node("cli", &[("toml", None), ("cc", Some("build"))]),
                node("toml", &[("winnow", None)]),
                node("winnow", &[("toml", None)]),
            ]},
        }))
        .expect("metadata");
        let document = document(&metadata, "0.1.0").expect("a document");
        let names = document["components"].as_array().expect("a list").iter();
        let names: Vec<&str> = names.filter_map(|of| of["name"].as_str()).collect();
        assert_eq!(names, ["toml", "winnow"]);
        let toml = &document["components"][0];
        assert_eq!(toml["purl"], "pkg:cargo/toml@1.0.0");
        assert_eq!(toml["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }
}
