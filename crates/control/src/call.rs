//! Requests as handlers get them: decoded, with their author.

use std::any::TypeId;

use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::ToSchema;

use super::asker::Asker;
use super::plane::Shared;
use model::Error;
use shown::without_values;

mod shape;

use shape::Shape;

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
        B: DeserializeOwned + ToSchema + 'static,
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
pub(crate) fn body<B: DeserializeOwned + ToSchema + 'static>(bytes: &[u8]) -> Result<B, Error> {
    if TypeId::of::<B>() == TypeId::of::<()>() {
        return serde_json::from_slice(b"null").map_err(|error| invalid_body(&error.to_string()));
    }
    let read = |error: serde_json::Error| invalid_body(&without_values(&error.to_string()));
    // Most bodies have no list at all.
    if bytes.contains(&b'[') {
        let value: Value = serde_json::from_slice(bytes).map_err(read)?;
        if let Some(field) = Shape::of::<B>().list_for_object(&value) {
            let place = match field.as_str() {
                "" => "it",
                field => field,
            };
            return Err(invalid_body(&format!(
                "{place} is a list, and not an object"
            )));
        }
    }
    serde_json::from_slice(bytes).map_err(read)
}

fn invalid_body(why: &str) -> Error {
    Error::invalid(
        format!("the body is not valid: {why}"),
        "see GET /openapi.json for what this request takes",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::lu::Clear;
    use config::change::LogIn;

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
        let error = body::<LogIn>(b"{").expect_err("it is cut");
        assert!(error.message.contains("the body is not valid"), "{error}");
    }

    #[test]
    fn a_list_does_not_stand_for_an_object_that_the_document_tells() {
        let log_in = |chap: &str| {
            let text = format!(r#"{{"iqn":"iqn.x","portals":["192.0.2.1"],"chap":{chap}}}"#);
            body::<LogIn>(text.as_bytes())
        };
        log_in(r#"{"user":"ann","secret":"hunter2hunter2"}"#).expect("an object");
        log_in("null").expect("none");
        let error = log_in(r#"["ann","hunter2hunter2"]"#).expect_err("a list");
        assert_eq!(
            error.message,
            "the body is not valid: chap is a list, and not an object"
        );
        let error = body::<LogIn>(br#" ["iqn.x",["192.0.2.1"]]"#).expect_err("a list");
        assert_eq!(
            error.message,
            "the body is not valid: it is a list, and not an object"
        );
    }
}
