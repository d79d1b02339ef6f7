//! The gate: the one place where a request to an endpoint is let through, and noted in the audit
//! log. API and pages come through it.

use access::{Principal, without_secrets};
use model::access::AuditLine;
use model::{Error, ErrorKind};

use super::asker::Asker;
use super::author::asks_only;
use super::endpoint::Rule;
use super::plane::Plane;

mod folder;

pub(crate) use folder::{is_within_reach, sees_benchmark, sees_map, sees_unit, word_of_limit};

/// Request at the gate.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) asker: &'a Asker,
    /// Arguments of the path.
    pub(crate) at: &'a [String],
    pub(crate) query: &'a str,
    /// Body; empty if it has any length, and so moves in pieces.
    pub(crate) body: &'a [u8],
}

/// Lets a request through, or refuses it.
///
/// # Errors
/// The author is unknown, or may not do this.
pub(crate) fn admit(plane: &Plane, rule: Rule, request: &Request<'_>) -> Result<(), Error> {
    let principal = request.asker.principal()?;
    principal.require(rule.role)?;
    match &principal.grant {
        None => Ok(()),
        Some(grant) => folder::admit(plane, grant, rule.id, request),
    }
}

/// An attempt that may have to be noted.
#[derive(Debug)]
pub(crate) struct Attempt {
    line: AuditLine,
    is_noted: bool,
    /// Bytes of the body.
    length: usize,
}

impl Attempt {
    /// Begins an attempt. Requests that only read, and previews, are noted only if they are refused
    /// at the gate.
    pub(crate) fn begin(plane: &Plane, rule: Rule, request: &Request<'_>) -> Self {
        let is_noted = rule.is_noted && !asks_only(Some(request.query));
        let before = plane.generation();
        let mut line = AuditLine {
            request: request.asker.request().to_owned(),
            command: request.asker.command().map(str::to_owned),
            body: is_noted.then(|| without_secrets(request.body)).flatten(),
            before,
            ..AuditLine::default()
        };
        match request.asker.principal() {
            Ok(principal) => introduce(&mut line, principal),
            Err(_) => {
                line.who = request.asker.known_user().unwrap_or_default().to_owned();
                line.by = "unknown".to_owned();
            }
        }
        if line.from.is_empty() {
            line.from = request
                .asker
                .address()
                .map(|it| it.to_string())
                .unwrap_or_default();
        }
        Self {
            line,
            is_noted,
            length: request.body.len(),
        }
    }

    /// Ends the attempt with its result.
    pub(crate) fn end(self, plane: &Plane, result: Result<(), &Error>) {
        let is_refused = matches!(&result, Err(error) if matches!(
            error.kind,
            ErrorKind::NotAuthenticated | ErrorKind::NotPermitted
        ));
        let is_invalid = matches!(&result, Err(error) if error.kind == ErrorKind::Invalid);
        if !self.is_noted && !is_refused {
            return;
        }
        let result = match result {
            Ok(()) => "done".to_owned(),
            Err(error) => format!("{}: {}", error.kind.as_str(), error.message),
        };
        let mut line = AuditLine {
            after: plane.generation(),
            result,
            ..self.line
        };
        if is_invalid && line.body.is_some() {
            // A body that was not understood may hold a secret under any name.
            line.body = Some(format!("\"{} bytes\"", self.length));
        }
        match is_refused {
            true => plane.access.note_refused(line),
            false => plane.access.note(line),
        }
    }
}

fn introduce(line: &mut AuditLine, principal: &Principal) {
    line.who.clone_from(&principal.name);
    line.by = principal.entrance.as_str().to_owned();
    line.role = Some(principal.role);
    let from = principal.entrance.from();
    line.from = from.map(|from| from.to_string()).unwrap_or_default();
}
