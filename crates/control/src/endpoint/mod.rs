//! Endpoints of the API: each is one value with its method, path, name and words, and the types of
//! its query, body and answer.
//!
//! The server takes its routes and its OpenAPI document from here ([`description`]), and the client
//! its requests ([`Client::ask`](crate::Client::ask)). No path stands anywhere else.

use std::fmt;
use std::marker::PhantomData;

use hyper::Method;
use serde::Serialize;
use serde_json::Value;

pub use description::Query;
use model::access::Role;

pub mod access;
pub mod alert;
pub mod alert_way;
pub mod benchmark;
pub mod config;
pub mod description;
pub mod disk;
pub mod event;
pub mod history;
pub mod host;
pub mod initiator;
pub mod live;
pub mod lu;
pub mod map;
pub mod pool;
pub mod rules;
pub mod session;
pub mod status;
pub mod stream;
pub mod target;
pub mod target_group;
pub mod tls;
pub mod volume;

/// An endpoint: a request of type `B` with a query of type `Q` has an answer of type `A`. The type
/// `()` stands for nothing.
pub struct Endpoint<Q, B, A> {
    /// Method of HTTP.
    pub method: Method,
    /// Path, with a name in braces for each argument.
    pub path: &'static str,
    /// Name of the operation in the OpenAPI document.
    pub id: &'static str,
    /// Group of operations in the OpenAPI document.
    pub tag: &'static str,
    /// Least role that may ask.
    pub role: Role,
    /// Description for people, line by line.
    pub words: &'static [&'static str],
    types: PhantomData<fn(Q, B) -> A>,
}

impl<Q, B, A> Endpoint<Q, B, A> {
    /// Returns the path with arguments in place of the names in braces, in their order, each
    /// escaped.
    ///
    /// # Panics
    /// There are more or fewer arguments than names.
    pub fn at(&self, arguments: &[&str]) -> String {
        let mut arguments = arguments.iter();
        let mut path = String::with_capacity(self.path.len());
        for segment in self.path.split('/').skip(1) {
            path.push('/');
            match segment.starts_with('{') {
                true => {
                    let argument = arguments.next();
                    // A call that lacks an argument is a defect that every use of it shows.
                    path.push_str(&escape(argument.expect("an argument for each name")));
                }
                false => path.push_str(segment),
            }
        }
        assert!(arguments.next().is_none(), "more arguments than names");
        path
    }
}

/// Demand of an endpoint on the author of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Name of the operation.
    pub(crate) id: &'static str,
    /// Least role that may ask.
    pub(crate) role: Role,
    /// Whether the audit log notes each request, and not only refused ones.
    pub(crate) is_noted: bool,
    /// Most bytes of a body that is read whole.
    pub(crate) largest_body: usize,
}

/// Most bytes of a body, such as a list of ten thousand snapshots.
const BODY: usize = 8 << 20;
/// Most bytes of a whole configuration: a hundred thousand objects.
const CONFIGURATION: usize = 64 << 20;

impl<Q, B, A> Endpoint<Q, B, A> {
    /// Returns what the endpoint asks of the author of a request.
    pub(crate) fn rule(&self) -> Rule {
        // Reading changes nothing, but secrets that leave the daemon are noted too.
        let only_reads = self.method == Method::GET || self.role == Role::Viewer;
        Rule {
            id: self.id,
            role: self.role,
            is_noted: !only_reads || self.id == config::EXPORT.id,
            largest_body: match self.id == config::APPLY.id || self.id == config::RESTORE.id {
                true => CONFIGURATION,
                false => BODY,
            },
        }
    }
}

impl<Q, B, A> fmt::Debug for Endpoint<Q, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// Writes a query as the end of a path. Absent values and `false`, which is the default everywhere,
/// are left out.
pub(crate) fn query<Q: Serialize>(query: &Q) -> Result<String, serde_json::Error> {
    let Value::Object(values) = serde_json::to_value(query)? else {
        return Ok(String::new());
    };
    let mut out = String::new();
    for (name, value) in values {
        let text = match value {
            Value::Null | Value::Bool(false) => continue,
            Value::String(text) => text,
            other => other.to_string(),
        };
        out.push(if out.is_empty() { '?' } else { '&' });
        out.push_str(&format!("{name}={}", escape(&text)));
    }
    Ok(out)
}

/// Encodes text as one segment of a path, or as one value of a query.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Returns the name of each endpoint.
#[cfg(test)]
pub(crate) fn all() -> Vec<&'static str> {
    let files = [
        access::all(),
        alert::all(),
        alert_way::all(),
        benchmark::all(),
        config::all(),
        disk::all(),
        event::all(),
        history::all(),
        host::all(),
        initiator::all(),
        lu::all(),
        map::all(),
        pool::all(),
        rules::all(),
        session::all(),
        status::all(),
        stream::all(),
        target::all(),
        target_group::all(),
        tls::all(),
        volume::all(),
    ];
    files.concat()
}

/// Declares endpoints of one tag, each below its words for people:
/// `NAME = Role METHOD path "operation" (query, body) -> answer;`.
macro_rules! endpoints {
    ($tag:literal: $($(#[doc = $words:literal])+ $name:ident = $role:ident $method:ident $path:tt
        $id:literal ($query:ty, $body:ty) -> $answer:ty;)*) => {
        $(
            $(#[doc = $words])+
            pub static $name: super::Endpoint<$query, $body, $answer> = super::Endpoint {
                method: hyper::Method::$method,
                path: $path,
                id: $id,
                tag: $tag,
                role: model::access::Role::$role,
                words: &[$($words),+],
                types: std::marker::PhantomData,
            };
        )*

        /// Names of the endpoints of this file.
        #[cfg(test)]
        pub(super) fn all() -> Vec<&'static str> {
            vec![$($name.id),*]
        }
    };
}
use endpoints;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::Commit;

    #[test]
    fn arguments_stand_escaped_in_a_path() {
        assert_eq!(lu::LIST.at(&[]), lu::LIST.path);
        assert_eq!(
            lu::SHOW.at(&["a/b c"]),
            format!("{}/a%2Fb%20c", lu::LIST.path)
        );
        let path = host::ADD_INITIATOR.at(&["esx", "iqn.x:*"]);
        assert!(path.ends_with("/esx/initiators/iqn.x:%2A"), "{path}");
    }

    #[test]
    #[should_panic(expected = "more arguments than names")]
    fn an_argument_too_many_is_a_defect() {
        lu::LIST.at(&["vol1"]);
    }

    #[test]
    fn a_query_has_what_differs_from_the_default() {
        assert_eq!(query(&()).expect("nothing"), "");
        assert_eq!(query(&Commit::default()).expect("defaults"), "");
        let how = Commit {
            dry_run: true,
            if_generation: Some(7),
            if_effect: Some("a&b".to_owned()),
            ..Commit::default()
        };
        let text = query(&how).expect("a query");
        let read: Vec<&str> = text.trim_start_matches('?').split('&').collect();
        assert_eq!(read, ["dry_run=true", "if_effect=a%26b", "if_generation=7"]);
    }
}
