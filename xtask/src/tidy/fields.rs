//! Structs that many files share: a field that many files use cannot be changed without all of
//! them.
//!
//! A use is a field named on `self` within an `impl` of the struct, on a parameter of its type, or
//! on a value named after it, and a pattern that takes the struct apart. A call of a method of the
//! same name is none, nor is the expression that makes the struct.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use super::tree::RustFile;
use super::{Finding, Tree};

/// The most files that may use a field.
const MOST_FILES: usize = 5;

/// Structs that are checked: the file of each, and its name. They are the largest ones that several
/// files work on, as far as the rule holds for them.
const STRUCTS: [(&str, &str); 8] = [
    ("crates/pools/src/engine.rs", "Engine"),
    ("crates/pools/src/shared.rs", "Shared"),
    ("crates/scsi/src/logical_unit.rs", "LogicalUnit"),
    ("crates/store/src/cache/mod.rs", "Cache"),
    ("crates/store/src/engine/checkpoint/making.rs", "Making"),
    ("crates/store/src/engine/scan/under_way.rs", "Scan"),
    ("crates/store/src/engine/state.rs", "Pool"),
    ("crates/target/src/session/connection.rs", "Connection"),
];

/// Finds the fields of the listed structs that too many files use.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let of_struct = |(path, name)| check_struct(tree, path, name);
    STRUCTS.into_iter().flat_map(of_struct).collect()
}

fn check_struct(tree: &Tree, path: &str, name: &str) -> Vec<Finding> {
    let finding = |line, message| Finding {
        path: path.to_owned(),
        line,
        rule: "field-use",
        message,
    };
    let fields = fields(tree, path, name);
    if fields.is_empty() {
        let message = format!("no struct `{name}` with fields: the list of this rule is wrong");
        return vec![finding(0, message)];
    }
    let uses = uses(tree, path, name, &fields);
    let many = uses.iter().filter(|(_, files)| files.len() > MOST_FILES);
    many.map(|(field, files)| {
        let files: Vec<&str> = files.iter().copied().collect();
        let message = format!(
            "{} files use `{field}` of `{name}`, {MOST_FILES} allowed: let its owners offer verbs, \
             which the others call: {}",
            files.len(),
            files.join(", ")
        );
        finding(fields[field], message)
    })
    .collect()
}

/// Returns the fields of a struct, each with its line.
fn fields(tree: &Tree, path: &str, name: &str) -> BTreeMap<String, usize> {
    let file = tree.rust().find(|(file, _)| file.path == path);
    let items = file.iter().flat_map(|(_, rust)| &rust.syntax.items);
    let structs = items.filter_map(|item| match item {
        syn::Item::Struct(item) if item.ident == name => Some(&item.fields),
        _ => None,
    });
    let idents = structs.flatten().filter_map(|field| field.ident.as_ref());
    let with_line = |ident: &syn::Ident| (ident.to_string(), ident.span().start().line);
    idents.map(with_line).collect()
}

/// Returns the files of the struct's crate that use each field.
fn uses<'a>(
    tree: &'a Tree,
    path: &str,
    name: &str,
    fields: &BTreeMap<String, usize>,
) -> BTreeMap<String, BTreeSet<&'a str>> {
    let root = path.split_once("/src/").map_or("", |(root, _)| root);
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (file, rust) in tree.rust() {
        let is_ours = file.path.strip_prefix(root);
        if rust.is_test || !is_ours.is_some_and(|below| below.starts_with("/src/")) {
            continue;
        }
        for field in Finder::of(rust, name).found {
            if fields.contains_key(&field) {
                found.entry(field).or_default().insert(&file.path);
            }
        }
    }
    found
}

/// Finder of the members that a file names on values of a struct.
struct Finder<'a> {
    rust: &'a RustFile,
    name: &'a str,
    /// Names of values of the struct, wherever they are seen.
    values: BTreeSet<String>,
    /// Whether `self` is such a value.
    is_self: bool,
    found: BTreeSet<String>,
}

impl<'a> Finder<'a> {
    fn of(rust: &'a RustFile, name: &'a str) -> Self {
        let mut finder = Self {
            rust,
            name,
            values: BTreeSet::from([snake(name)]),
            is_self: false,
            found: BTreeSet::new(),
        };
        finder.visit_file(&rust.syntax);
        finder
    }

    fn note(&mut self, member: &syn::Ident) {
        if !self.rust.in_test(member.span().start().line) {
            self.found.insert(member.to_string());
        }
    }

    fn is_value(&self, word: &str) -> bool {
        match word {
            "self" => self.is_self,
            word => self.values.contains(word),
        }
    }

    /// Reports whether an expression is a value of the struct, as far as its last word tells.
    fn is_struct(&self, expression: &syn::Expr) -> bool {
        match expression {
            syn::Expr::Path(path) => path
                .path
                .get_ident()
                .is_some_and(|ident| self.is_value(&ident.to_string())),
            syn::Expr::Field(field) => match &field.member {
                syn::Member::Named(ident) => self.is_value(&ident.to_string()),
                syn::Member::Unnamed(_) => false,
            },
            syn::Expr::Paren(inner) => self.is_struct(&inner.expr),
            syn::Expr::Unary(inner) => self.is_struct(&inner.expr),
            syn::Expr::Reference(inner) => self.is_struct(&inner.expr),
            _ => false,
        }
    }

    /// Looks through the words of a macro, which are no syntax tree.
    fn tokens(&mut self, stream: TokenStream) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        for tree in &trees {
            if let TokenTree::Group(group) = tree {
                self.tokens(group.stream());
            }
        }
        for (at, window) in trees.windows(3).enumerate() {
            if let [
                TokenTree::Ident(value),
                TokenTree::Punct(dot),
                TokenTree::Ident(member),
            ] = window
                && dot.as_char() == '.'
                && self.is_value(&value.to_string())
                && !matches!(trees.get(at + 3), Some(TokenTree::Group(_)))
            {
                self.note(member);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let is_ours = names(&item.self_ty, self.name);
        let outside = std::mem::replace(&mut self.is_self, is_ours);
        syn::visit::visit_item_impl(self, item);
        self.is_self = outside;
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        for input in &signature.inputs {
            if let syn::FnArg::Typed(typed) = input
                && let syn::Pat::Ident(pattern) = &*typed.pat
                && names(&typed.ty, self.name)
            {
                self.values.insert(pattern.ident.to_string());
            }
        }
        syn::visit::visit_signature(self, signature);
    }

    fn visit_expr_field(&mut self, expression: &'ast syn::ExprField) {
        if let syn::Member::Named(member) = &expression.member
            && self.is_struct(&expression.base)
        {
            self.note(member);
        }
        syn::visit::visit_expr_field(self, expression);
    }

    fn visit_pat_struct(&mut self, pattern: &'ast syn::PatStruct) {
        let last = pattern.path.segments.last();
        let is_ours =
            last.is_some_and(|of| of.ident == self.name || self.is_self && of.ident == "Self");
        if is_ours {
            for field in &pattern.fields {
                if let syn::Member::Named(member) = &field.member {
                    self.note(member);
                }
            }
        }
        syn::visit::visit_pat_struct(self, pattern);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }
}

/// Reports whether a type is the struct, or a reference to it.
fn names(of: &syn::Type, name: &str) -> bool {
    match of {
        syn::Type::Reference(inner) => names(&inner.elem, name),
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|of| of.ident == name),
        _ => false,
    }
}

/// Returns the name that a value of a type has, if it has no better one.
fn snake(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = "//! x\npub struct OpenPool {\n    a: u8,\n    b: u8,\n}\n";

    /// Returns what is found if `MOST_FILES` files use `a`, and one more is this text.
    fn found(text: &str) -> Vec<(usize, String)> {
        let path = |n: usize| format!("crates/x/src/f{n}.rs");
        let user = "//! x\nimpl OpenPool { fn f(&self) -> u8 { self.a } }\n";
        let mut files = vec![("crates/x/src/state.rs".to_owned(), STATE.to_owned())];
        files.extend((0..MOST_FILES).map(|n| (path(n), user.to_owned())));
        files.push((path(MOST_FILES), format!("//! x\n{text}\n")));
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let findings = check_struct(&Tree::fixture(&files), "crates/x/src/state.rs", "OpenPool");
        let told = findings.into_iter().map(|of| (of.line, of.message));
        told.collect()
    }

    #[test]
    fn a_field_that_one_file_too_many_uses_is_found_at_its_line() {
        let uses = [
            "impl OpenPool { fn f(&self) -> u8 { self.a } }",
            "impl Drop for OpenPool { fn drop(&mut self) { self.a = 1; } }",
            "fn f(of: &mut OpenPool) { of.a += 1; }",
            "fn f(of: &Thing) -> u8 { of.open_pool.a }",
            "fn f() { let open_pool = make(); g(&mut (open_pool).a); }",
            "fn f() { let open_pool = make(); assert!(open_pool.a == 1); }",
            "impl OpenPool { fn f(&self) { let Self { a, .. } = self; g(a); } }",
            "fn f(of: Thing) { if let Some(OpenPool { a, .. }) = of { g(a); } }",
        ];
        for text in uses {
            let found = found(text);
            let [(line, message)] = found.as_slice() else {
                panic!("{text}: {found:?}");
            };
            assert_eq!(*line, 3, "{text}");
            assert!(message.starts_with("6 files use `a` of `OpenPool`"));
            assert!(message.ends_with("crates/x/src/f5.rs"), "{message}");
        }
    }

    #[test]
    fn what_is_no_use_is_not_counted() {
        let others = [
            "impl OpenPool { fn f(&self) -> u8 { self.b } }",
            "impl OpenPool { fn f(&self) -> u8 { self.a() } }",
            "impl OpenPool { fn f(&self) { assert!(self.a() == 1); } }",
            "impl Other { fn f(&self) -> u8 { self.a } }",
            "fn f(of: &Other) -> u8 { of.a }",
            "fn f() -> OpenPool { OpenPool { a: 1, b: 2 } }",
            "#[cfg(test)]\nmod tests { fn f(of: &OpenPool) -> u8 { of.a } }",
        ];
        for text in others {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn a_struct_that_is_not_there_is_told() {
        let tree = Tree::fixture(&[("crates/x/src/state.rs", STATE)]);
        let found = check_struct(&tree, "crates/x/src/state.rs", "Pool");
        assert_eq!(found.len(), 1);
    }
}
