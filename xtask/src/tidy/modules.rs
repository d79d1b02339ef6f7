//! The modules of a crate, and which of them imports from which.
//!
//! A name that a module passes on (`pub use`) counts as an import from the file that defines it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::TokenTree;
use syn::visit::Visit;

use super::Tree;
use super::paths::Paths;
use super::tree::RustFile;

/// Path of a module from the root of its crate.
pub(super) type Module = Vec<String>;

/// Import of a module from another one of its crate, with a file and line that has it.
pub(super) struct Import {
    pub(super) from: Module,
    pub(super) to: Module,
    pub(super) path: String,
    pub(super) line: usize,
    /// Whether the line only passes the name on (`pub use`), and the file does not use it.
    pub(super) passes_on: bool,
}

/// Modules of a crate outside its tests.
#[derive(Default)]
pub(super) struct Modules {
    files: BTreeMap<Module, String>,
    /// Names that a module has from elsewhere, with their paths from the root.
    names: BTreeMap<(Module, String), Module>,
    /// Imports between modules.
    pub(super) imports: Vec<Import>,
}

/// Returns the modules of each crate, by the crate's folder.
pub(super) fn of_crates(tree: &Tree) -> BTreeMap<&str, Modules> {
    let mut crates: BTreeMap<&str, Vec<(&str, &RustFile)>> = BTreeMap::new();
    for (file, rust) in tree.rust() {
        let Some((root, path)) = file.path.split_once("/src/") else {
            continue;
        };
        if !rust.is_test {
            crates.entry(root).or_default().push((path, rust));
        }
    }
    crates
        .into_iter()
        .map(|(root, files)| (root, Modules::new(&files)))
        .collect()
}

impl Modules {
    fn new(files: &[(&str, &RustFile)]) -> Self {
        let mut found = Self::default();
        let tests: Vec<Module> = files.iter().flat_map(test_modules).collect();
        let is_test = |here: &Module| tests.iter().any(|test| here.starts_with(test));
        for (path, _) in files {
            found.files.insert(module(path), (*path).to_owned());
        }
        let mut named = Vec::new();
        for (path, rust) in files {
            let here = module(path);
            if is_test(&here) {
                continue;
            }
            let passed_on = passed_on(rust);
            let mut paths = Paths::default();
            paths.visit_file(&rust.syntax);
            for (segments, line) in paths.found {
                if rust.in_test(line) {
                    continue;
                }
                let Some(target) = found.absolute(&here, &segments) else {
                    continue;
                };
                if let Some(name) = target.last().cloned() {
                    found
                        .names
                        .entry((here.clone(), name))
                        .or_insert_with(|| target.clone());
                }
                let passes_on = passed_on.contains(&segments);
                named.push((here.clone(), target, (*path).to_owned(), line, passes_on));
            }
        }
        for (from, target, path, line, passes_on) in named {
            let to = found.owner(&target, 8);
            if from != to {
                found.imports.push(Import {
                    from,
                    to,
                    path,
                    line,
                    passes_on,
                });
            }
        }
        found
    }

    /// Path of the file of a module below `src`.
    pub(super) fn file(&self, module: &Module) -> &str {
        self.files.get(module).map_or("lib.rs", String::as_str)
    }

    /// Path of a name from the root of the crate; `None` for names of other crates.
    fn absolute(&self, here: &Module, segments: &[String]) -> Option<Module> {
        let climbs = segments.iter().take_while(|s| *s == "super").count();
        let first = segments.first()?.as_str();
        let (base, rest) = match first {
            "crate" => (Module::new(), &segments[1..]),
            "self" => (here.clone(), &segments[1..]),
            "super" => (
                here[..here.len().checked_sub(climbs)?].to_vec(),
                &segments[climbs..],
            ),
            _ => {
                let child = [here.as_slice(), &[first.to_owned()]].concat();
                self.files.contains_key(&child).then_some(())?;
                (here.clone(), segments)
            }
        };
        Some([base.as_slice(), rest].concat())
    }

    /// Module that defines a name, through at most `hops` re-exports.
    fn owner(&self, target: &Module, hops: usize) -> Module {
        let prefixes = (0..=target.len()).rev().map(|len| target[..len].to_vec());
        let Some(module) = prefixes
            .into_iter()
            .find(|prefix| self.files.contains_key(prefix))
        else {
            return Module::new();
        };
        let Some(name) = target.get(module.len()) else {
            return module;
        };
        match self.names.get(&(module.clone(), name.clone())) {
            Some(from) if hops > 0 && from != target => self.owner(from, hops - 1),
            _ => module,
        }
    }

    /// Folder that a module belongs to. A file with a folder of its name belongs to that folder.
    pub(super) fn room(&self, module: &Module) -> Module {
        let is_parent = self
            .files
            .keys()
            .any(|other| other.len() > module.len() && other.starts_with(module));
        if is_parent || module.is_empty() {
            module.clone()
        } else {
            module[..module.len() - 1].to_vec()
        }
    }
}

/// Returns the modules that a module reaches by imports, itself among them only by a ring.
pub(super) fn reached<'a>(
    edges: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
    from: &Module,
) -> BTreeSet<&'a Module> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(module) = next.pop() {
        for beyond in edges.get(module).into_iter().flatten() {
            if seen.insert(*beyond) {
                next.push(beyond);
            }
        }
    }
    seen
}

/// Paths of `pub use` items whose names the file does not use itself.
fn passed_on(rust: &RustFile) -> Vec<Vec<String>> {
    let mut paths = Paths::default();
    for item in &rust.syntax.items {
        if let syn::Item::Use(item) = item
            && !matches!(item.vis, syn::Visibility::Inherited)
        {
            paths.visit_item_use(item);
        }
    }
    let mut mentions: BTreeMap<String, usize> = BTreeMap::new();
    rust.each_token(|token, _| {
        if let TokenTree::Ident(word) = token {
            *mentions.entry(word.to_string()).or_default() += 1;
        }
    });
    let once = |path: &Vec<String>| path.last().is_some_and(|n| mentions.get(n) == Some(&1));
    paths
        .found
        .into_iter()
        .map(|(path, _)| path)
        .filter(once)
        .collect()
}

/// Modules in files of their own that exist in tests only.
fn test_modules((path, rust): &(&str, &RustFile)) -> Vec<Module> {
    let here = module(path);
    let items = rust.syntax.items.iter();
    let modules = items.filter_map(|item| match item {
        syn::Item::Mod(item) if rust.in_test(item.ident.span().start().line) => Some(item),
        _ => None,
    });
    modules
        .map(|item| [here.as_slice(), &[item.ident.to_string()]].concat())
        .collect()
}

fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    if matches!(
        parts.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        parts.pop();
    }
    parts
}
