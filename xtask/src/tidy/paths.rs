//! The paths that a Rust file names: in `use` trees, in code, and in the arguments of macros.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

/// Collector of every path: flattened `use` trees, paths in code, and paths inside macro calls.
#[derive(Default)]
pub(super) struct Paths {
    /// Each path with its line.
    pub(super) found: Vec<(Vec<String>, usize)>,
}

impl Paths {
    fn flatten(&mut self, front: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                front.push(path.ident.to_string());
                self.flatten(front, &path.tree);
                front.pop();
            }
            syn::UseTree::Name(name) => self.leaf(front, &name.ident),
            syn::UseTree::Rename(rename) => self.leaf(front, &rename.ident),
            syn::UseTree::Glob(glob) => {
                let mut path = front.clone();
                path.push("*".into());
                self.found
                    .push((path, glob.star_token.spans[0].start().line));
            }
            syn::UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|item| self.flatten(front, item)),
        }
    }

    fn leaf(&mut self, front: &[String], ident: &syn::Ident) {
        let mut path = front.to_vec();
        path.push(ident.to_string());
        if path.len() == 1 {
            path.push("*".into()); // `use tokio;` is an import as much as `use tokio::x;`
        }
        self.found.push((path, ident.span().start().line));
    }

    fn scan_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match &token {
                TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.close(&mut path, line);
                        line = word.span().start().line;
                    }
                    path.push(word.to_string());
                    colons = 0;
                }
                other => {
                    self.close(&mut path, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.scan_tokens(group.stream());
                    }
                }
            }
        }
        self.close(&mut path, line);
    }

    fn close(&mut self, path: &mut Vec<String>, line: usize) {
        if path.len() > 1 {
            self.found.push((std::mem::take(path), line));
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.flatten(&mut Vec::new(), &item.tree);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        self.leaf(&[], &item.ident);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let Some(first) = path.segments.first() {
            self.found.push((words, first.ident.span().start().line));
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.scan_tokens(call.tokens.clone());
        syn::visit::visit_macro(self, call);
    }
}
