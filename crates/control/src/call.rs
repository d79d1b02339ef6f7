//! Requests as handlers get them: decoded, with their author.

use std::any::TypeId;

use serde::de::DeserializeOwned;

use super::asker::Asker;
use super::plane::Shared;
use model::Error;
use shown::without_values;

/// Request of an endpoint with a query of type `Q` and a body of type `B`.
pub(crate) struct Call<Q = (), B = ()> {
    /// State that handlers work on.
    pub(crate) plane: Shared,
    /// Author of the request.
    pub(crate) asker: Asker,
    /// Arguments in the path.
    pub(crate) at: Arguments,
    /// Query parameters.
    pub(crate) query: Q,
    /// Body.
    pub(crate) body: B,
}

/// Arguments in the path of a request.
pub(crate) struct Arguments(pub(crate) Vec<String>);

impl Arguments {
    /// Returns the arguments, in their order.
    ///
    /// # Panics
    /// The path has more or fewer arguments.
    pub(crate) fn names<const N: usize>(self) -> [String; N] {
        // A handler that wants others is a defect that every use of it shows.
        self.0.try_into().expect("a name for each argument")
    }
}

/// Request whose parts are not decoded yet.
pub(crate) struct Arrived {
    pub(crate) plane: Shared,
    pub(crate) asker: Asker,
    pub(crate) at: Arguments,
    pub(crate) query: String,
    pub(crate) body: hyper::body::Bytes,
}

impl Arrived {
    /// Decodes the query and the body.
    ///
    /// # Errors
    /// One of them is not what the endpoint takes.
    pub(crate) fn decode<Q, B>(self) -> Result<Call<Q, B>, Error>
    where
        Q: DeserializeOwned + 'static,
        B: DeserializeOwned + 'static,
    {
        Ok(Call {
            plane: self.plane,
            asker: self.asker,
            at: self.at,
            query: query(&self.query)?,
            body: body(&self.body)?,
        })
    }
}

/// Reads query parameters. A request that takes none refuses them: one of them may be `dry_run`.
pub(crate) fn query<Q: DeserializeOwned + 'static>(text: &str) -> Result<Q, Error> {
    let next = "see GET /openapi.json for the parameters of this request";
    let invalid = |why: &str| Error::invalid(format!("the parameters are not valid: {why}"), next);
    if TypeId::of::<Q>() == TypeId::of::<()>() {
        if !text.is_empty() {
            return Err(invalid("this request takes none"));
        }
        return serde_json::from_slice(b"null").map_err(|error| invalid(&error.to_string()));
    }
    serde_urlencoded::from_str(text).map_err(|error| invalid(&error.to_string()))
}

/// Reads a JSON body. A request that takes none may have any.
pub(crate) fn body<B: DeserializeOwned + 'static>(bytes: &[u8]) -> Result<B, Error> {
    let bytes = match TypeId::of::<B>() == TypeId::of::<()>() {
        true => b"null",
        false => bytes,
    };
    // A list of values could stand for an object, whose fields it then fills by their order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Error::invalid(
            "the body is not valid: it is a list, and not an object",
            "see GET /openapi.json for what this request takes",
        ));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        Error::invalid(
            format!(
                "the body is not valid: {}",
                without_values(&error.to_string())
            ),
            "see GET /openapi.json for what this request takes",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::lu::Clear;

    #[test]
    fn parameters_are_refused_where_none_are_taken() {
        assert_eq!(query::<()>(""), Ok(()));
        let error = query::<()>("dry_run=true").expect_err("it is not a dry run");
        assert!(error.message.contains("takes none"), "{error}");
        assert!(query::<Clear>("dry_run=true").expect("a dry run").dry_run);
        assert!(query::<Clear>("dry_runs=true").is_err());
        assert!(!query::<Clear>("").expect("the default").dry_run);
    }

    #[test]
    fn a_body_that_is_not_taken_does_not_matter() {
        assert_eq!(body::<()>(b""), Ok(()));
        assert_eq!(body::<()>(b"{}"), Ok(()));
        let error = body::<Clear>(b"{").expect_err("it is cut");
        assert!(error.message.contains("the body is not valid"), "{error}");
    }
}
