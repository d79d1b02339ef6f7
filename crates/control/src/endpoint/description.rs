//! Endpoints in the words of OpenAPI: parameters, body and answer follow from their types.

use std::any::{TypeId, type_name};

use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, OperationBuilder, Parameter};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayItems, Schema};
use utoipa::openapi::{
    Content, HttpMethod, Ref, RefOr, Required, ResponseBuilder, ResponsesBuilder,
};

use super::Endpoint;
use super::stream::Octets;
use crate::transaction::Commit;

/// Query of a request. `()` is that of a request without parameters.
pub trait Query: Serialize + DeserializeOwned + 'static {
    /// Returns the parameters, as the OpenAPI document describes them.
    fn parameters() -> Vec<Parameter>;
}

impl Query for () {
    fn parameters() -> Vec<Parameter> {
        Vec::new()
    }
}

/// Implements [`Query`] for types that describe their own parameters.
macro_rules! queries {
    ($($name:ty),*) => {$(
        impl $crate::endpoint::Query for $name {
            fn parameters() -> Vec<utoipa::openapi::path::Parameter> {
                let place = || Some(utoipa::openapi::path::ParameterIn::Query);
                <Self as utoipa::IntoParams>::into_params(place)
            }
        }
    )*};
}
pub(crate) use queries;

queries!(Commit);

/// Schemas by their names.
pub(crate) type Schemas = Vec<(String, RefOr<Schema>)>;

/// Description of an endpoint, with the schemas to which it refers.
pub(crate) struct Description {
    pub(crate) path: &'static str,
    pub(crate) method: HttpMethod,
    pub(crate) operation: Operation,
    pub(crate) schemas: Schemas,
}

impl<Q: Query, B: ToSchema + 'static, A: ToSchema + 'static> Endpoint<Q, B, A> {
    /// Describes the endpoint.
    pub(crate) fn describe(&self) -> Description {
        let mut schemas = Schemas::new();
        let operation = self.operation(content::<B>(&mut schemas), content::<A>(&mut schemas));
        Description {
            path: self.path,
            method: http_method(&self.method),
            operation,
            schemas,
        }
    }

    fn operation(&self, body: Option<Carried>, answer: Option<Carried>) -> Operation {
        let status = match &answer {
            Some(_) => "200",
            None => "204",
        };
        let mut response = ResponseBuilder::new();
        if let Some(answer) = answer {
            // Other answers are described by their types.
            if answer.media_type == TEXT {
                response = response.description("Plain text.");
            }
            response = response.content(answer.media_type, answer.content);
        }
        let responses = ResponsesBuilder::new().response(status, response);
        let parameters = Some(Q::parameters()).filter(|all| !all.is_empty());
        let role = ExtensionsBuilder::new().add("x-role", self.role.as_str());
        OperationBuilder::new()
            .tag(self.tag)
            .extensions(Some(role.build()))
            .operation_id(Some(self.id))
            .summary(Some(in_one_line(self.words)))
            .parameters(parameters)
            .request_body(body.map(|body| {
                RequestBodyBuilder::new()
                    .content(body.media_type, body.content)
                    .required(Some(Required::True))
                    .build()
            }))
            .responses(responses)
            .build()
    }
}

/// Returns the lines of a doc comment as one line.
fn in_one_line(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().map(|line| line.trim()).collect();
    words.join(" ")
}

fn http_method(method: &hyper::Method) -> HttpMethod {
    match *method {
        hyper::Method::POST => HttpMethod::Post,
        hyper::Method::PUT => HttpMethod::Put,
        hyper::Method::PATCH => HttpMethod::Patch,
        hyper::Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

/// Content of a body or an answer.
struct Carried {
    media_type: &'static str,
    content: Content,
}

/// Media type of text.
const TEXT: &str = "text/plain";

/// Returns the media type of a value, or `None` if there is nothing to send.
pub(crate) fn media_type<T: 'static>() -> Option<&'static str> {
    let is = |other| TypeId::of::<T>() == other;
    if is(TypeId::of::<()>()) {
        None
    } else if is(TypeId::of::<Octets>()) {
        Some("application/octet-stream")
    } else if is(TypeId::of::<String>()) {
        Some(TEXT)
    } else {
        Some("application/json")
    }
}

/// Describes what carries a `T`, and adds the schemas to which the description refers.
fn content<T: ToSchema + 'static>(schemas: &mut Schemas) -> Option<Carried> {
    let media_type = media_type::<T>()?;
    T::schemas(schemas);
    let schema = match T::schema() {
        schema if TypeId::of::<T>() == TypeId::of::<String>() => schema,
        RefOr::T(Schema::Array(mut list)) => {
            if let ArrayItems::RefOrSchema(items) = &mut list.items {
                let item = RefOr::Ref(Ref::from_schema_name(item_name::<T>()));
                let own = std::mem::replace(&mut **items, item);
                schemas.push((item_name::<T>().to_owned(), own));
            }
            RefOr::T(Schema::Array(list))
        }
        schema => {
            let name = T::name();
            let reference = Ref::from_schema_name(name.as_ref());
            schemas.push((name.into_owned(), schema));
            RefOr::Ref(reference)
        }
    };
    Some(Carried {
        media_type,
        content: Content::new(Some(schema)),
    })
}

/// Returns the name of the items of a list, `X` of `Vec<path::X>`.
fn item_name<T>() -> &'static str {
    let name = type_name::<T>().trim_end_matches('>');
    name.rsplit([':', '<']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{lu, pool, status, stream};

    fn json(value: impl Serialize) -> serde_json::Value {
        serde_json::to_value(value).expect("JSON")
    }

    #[test]
    fn an_endpoint_is_described_by_its_types() {
        let described = lu::LIST.describe();
        let get = json(&described.operation);
        assert_eq!(get["operationId"], "lu_list");
        assert_eq!(get["summary"], "Lists all logical units.");
        let schema = &get["responses"]["200"]["content"]["application/json"]["schema"];
        assert_eq!(schema["items"]["$ref"], "#/components/schemas/UnitView");
        assert!(described.schemas.iter().any(|(name, _)| name == "UnitView"));
        let post = json(lu::CREATE.describe().operation);
        let schema = &post["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(schema["$ref"], "#/components/schemas/CreateUnit");
        assert_eq!(post["parameters"][0]["name"], "dry_run");
    }

    #[test]
    fn nothing_text_and_octets_have_their_own_media_types() {
        let delete = json(pool::DESTROY.describe().operation);
        assert!(delete["responses"]["204"]["content"].is_null(), "{delete}");
        assert!(delete["requestBody"].is_null(), "{delete}");
        let metrics = json(status::METRICS.describe().operation);
        let content = &metrics["responses"]["200"]["content"];
        assert_eq!(content["text/plain"]["schema"]["type"], "string");
        let receive = json(stream::RECEIVE.describe().operation);
        let content = &receive["requestBody"]["content"];
        assert!(content["application/octet-stream"].is_object(), "{receive}");
    }
}
