//! The OpenAPI document, made of the descriptions of endpoints, with what the standard and client
//! generators need beside these.
//!
//! - Each variable of a path is declared, with a description.
//! - Each operation declares its problems, because any operation may fail.
//! - Each operation tells what a token with a folder meets.
//! - Each response has a description, by default that of the type that it carries.
//! - The ways in which a request says whose it is are declared.
//! - Each alternative of a type has a name, and the word that tells it from the others. Generators
//!   name the types of their clients by it.

use std::collections::BTreeSet;

use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayItems, Components, Discriminator, KnownFormat, Object,
    ObjectBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{OpenApi, PathItem, Ref, RefOr, Required, Response};
use utoipa::{Number, PartialSchema as _, ToSchema as _};

use crate::answer::Problem;
use crate::endpoint::description::{Description, Schemas};
use crate::gate::word_of_limit;

/// Classes of HTTP statuses that carry a problem.
const PROBLEMS: [(&str, &str); 2] = [
    (
        "4XX",
        "The request was refused. The body tells the problem, what was not changed, and what to try next.",
    ),
    (
        "5XX",
        "The daemon could not carry out the request. The body tells the problem, what was not changed, and \
         what to try next.",
    ),
];

/// Name of the way in which programs say whose a request is.
const TOKEN: &str = "token";

/// Prefix of references to schemas.
const SCHEMAS: &str = "#/components/schemas/";

/// Returns the document of these endpoints. `document` has its head.
pub(super) fn of(mut document: OpenApi, endpoints: Vec<Description>) -> OpenApi {
    let mut components = document.components.take().unwrap_or_default();
    let mut schemas = Schemas::new();
    Problem::schemas(&mut schemas);
    schemas.push((Problem::name().into_owned(), Problem::schema()));
    for endpoint in endpoints {
        let (path, methods) = (endpoint.path, vec![endpoint.method]);
        let paths = &mut document.paths;
        paths.add_path_operation(path, methods, endpoint.operation);
        schemas.extend(endpoint.schemas);
    }
    components.schemas.extend(schemas);
    name_alternatives(&mut components);
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            declare_path_parameters(path, operation);
            declare_problems(operation);
            declare_folder_limit(operation);
            describe_responses(operation, &components);
        }
    }
    let schemas = components.schemas.values_mut();
    let parameters = document.paths.paths.values_mut().flat_map(operations);
    let parameters = parameters.filter_map(|it| it.parameters.as_mut()).flatten();
    let parameters = parameters.filter_map(|it| match it {
        RefOr::T(parameter) => parameter.schema.as_mut(),
        RefOr::Ref(_) => None,
    });
    schemas.chain(parameters).for_each(widen);
    declare_authors(&mut document, &mut components);
    document.components = Some(components);
    document
}

/// Tells integers that are never negative by their own formats. `int32` and `int64` would end at
/// half of what the daemon takes.
fn widen(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else {
        return;
    };
    match schema {
        Schema::Object(object) => {
            let is_natural = match object.minimum {
                Some(Number::Int(least)) => least == 0,
                Some(Number::UInt(least)) => least == 0,
                Some(Number::Float(least)) => least == 0.0,
                None => false,
            };
            let natural = match object.format {
                Some(SchemaFormat::KnownFormat(KnownFormat::Int64)) => Some("uint64"),
                Some(SchemaFormat::KnownFormat(KnownFormat::Int32)) => Some("uint32"),
                _ => None,
            };
            if let Some(format) = natural.filter(|_| is_natural) {
                object.format = Some(SchemaFormat::Custom(format.to_owned()));
            }
            object.properties.values_mut().for_each(widen);
            if let Some(AdditionalProperties::RefOr(values)) =
                object.additional_properties.as_deref_mut()
            {
                widen(values);
            }
        }
        Schema::Array(list) => {
            if let ArrayItems::RefOrSchema(items) = &mut list.items {
                widen(items);
            }
        }
        Schema::OneOf(of) => of.items.iter_mut().for_each(widen),
        Schema::AllOf(of) => of.items.iter_mut().for_each(widen),
        Schema::AnyOf(of) => of.items.iter_mut().for_each(widen),
        _ => {}
    }
}

/// Declares how a request says whose it is. The control socket asks for nothing.
fn declare_authors(document: &mut OpenApi, components: &mut Components) {
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A token that `sandstone token add` prints. The control socket needs none: the kernel tells its users.",
        ))
        .build();
    components.add_security_scheme(TOKEN, SecurityScheme::Http(token));
    let none: [&str; 0] = [];
    document.security = Some(vec![
        SecurityRequirement::new(TOKEN, none),
        SecurityRequirement::default(),
    ]);
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let all = [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ];
    all.into_iter().flatten()
}

/// Type of a path variable.
#[derive(Clone, Copy)]
enum Variable {
    Text,
    Number,
    Schema(&'static str),
}

/// Returns the meaning of a path variable and its type. `segment` precedes the variable.
fn meaning(segment: &str, variable: &str) -> Option<(&'static str, Variable)> {
    use Variable::{Number, Schema, Text};
    Some(match (segment, variable) {
        ("lus", "name") => ("Name of the logical unit.", Text),
        ("pools", "name") => ("Name of the pool.", Text),
        ("hosts", "name") => ("Name of the host.", Text),
        ("target-groups", "name") => ("Name of the target group.", Text),
        ("devices", "name") => ("Name of the device: `naa.…`, `eui.…` or `t10.…`.", Text),
        ("targets", "iqn") => ("iSCSI name of the target.", Text),
        ("initiators", "initiator") => (
            "iSCSI name of the initiator; `*` and `?` are wildcards.",
            Text,
        ),
        ("portals", "portal") => ("Address and port, as in `10.0.0.1:3260`.", Text),
        ("target-port-groups", "group") => ("Number of the target port group.", Number),
        ("satps", "satp") => ("Name of the storage array type.", Text),
        ("sessions", "tsih") => ("Number of the session.", Number),
        ("generations", "generation") => ("Number of the generation.", Number),
        ("benchmarks", "id") => ("Number of the benchmark.", Number),
        ("compare", "with") => ("Number of the benchmark that is judged.", Number),
        ("alerts", "number") => ("Number of the alert.", Number),
        ("alert-ways", "name") => ("Name of the way out.", Text),
        ("history", "kind") => ("Kind of the object.", Schema("HistoryKind")),
        ("{kind}", "name") => ("Name of the object.", Text),
        ("users", "user") => ("Name of the user.", Text),
        ("logins", "login") => ("Number of the login.", Number),
        ("tokens", "token") => ("Name of the token.", Text),
        ("socket-roles", "account") => ("Kind of the name.", Schema("AccountKind")),
        ("{account}", "name") => ("Name of the user or group.", Text),
        ("hindrances", "kind") => ("Kind of the state to end.", Schema("HindranceKind")),
        _ => return None,
    })
}

fn declare_path_parameters(path: &str, operation: &mut Operation) {
    let segments: Vec<&str> = path.split('/').collect();
    let variables = segments.windows(2).filter_map(|pair| {
        let variable = pair[1].strip_prefix('{')?.strip_suffix('}')?;
        let (description, kind) = meaning(pair[0], variable)?;
        Some(RefOr::T(path_parameter(variable, description, kind)))
    });
    let mut all: Vec<RefOr<Parameter>> = variables.collect();
    all.extend(operation.parameters.take().unwrap_or_default());
    operation.parameters = (!all.is_empty()).then_some(all);
}

fn path_parameter(variable: &str, description: &str, kind: Variable) -> Parameter {
    let schema: RefOr<Schema> = match kind {
        Variable::Number => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0))
            .into(),
        Variable::Text => ObjectBuilder::new().schema_type(Type::String).into(),
        Variable::Schema(name) => RefOr::Ref(Ref::from_schema_name(name)),
    };
    ParameterBuilder::new()
        .name(variable)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn declare_folder_limit(operation: &mut Operation) {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let limit = ExtensionsBuilder::new().add("x-folder", word_of_limit(id));
    let extensions = operation.extensions.get_or_insert_default();
    extensions.merge(limit.build());
}

fn declare_problems(operation: &mut Operation) {
    for (statuses, description) in PROBLEMS {
        let problem = Ref::from_schema_name("Problem");
        let content = utoipa::openapi::Content::new(Some(problem));
        let mut response = Response::new(description);
        let json = "application/json".to_owned();
        response.content.insert(json, RefOr::T(content));
        let responses = &mut operation.responses.responses;
        responses.insert(statuses.to_owned(), RefOr::T(response));
    }
}

fn describe_responses(operation: &mut Operation, components: &Components) {
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else {
            continue;
        };
        if !response.description.is_empty() {
            continue;
        }
        let content = response.content.values().next();
        response.description = match content {
            None if status == "204" => {
                "The request was carried out. The answer has no body.".to_owned()
            }
            None => continue,
            Some(RefOr::T(content)) => described(content.schema.as_ref(), components),
            Some(RefOr::Ref(_)) => continue,
        };
    }
}

/// Returns the description of a type. A list is described by its items.
fn described(schema: Option<&RefOr<Schema>>, components: &Components) -> String {
    match schema {
        Some(RefOr::Ref(of)) => {
            let name = of.ref_location.strip_prefix(SCHEMAS).unwrap_or_default();
            match components.schemas.get(name) {
                Some(RefOr::T(schema)) => own_words(schema).unwrap_or_default(),
                _ => String::new(),
            }
        }
        Some(RefOr::T(Schema::Array(list))) => match &list.items {
            ArrayItems::RefOrSchema(items) => match described(Some(items), components) {
                empty if empty.is_empty() => empty,
                each => format!("A list. Each item: {each}"),
            },
            ArrayItems::False => String::new(),
        },
        Some(RefOr::T(schema)) => own_words(schema).unwrap_or_default(),
        None => String::new(),
    }
}

fn own_words(schema: &Schema) -> Option<String> {
    match schema {
        Schema::Array(of) => of.description.clone(),
        Schema::Object(of) => of.description.clone(),
        Schema::OneOf(of) => of.description.clone(),
        Schema::AllOf(of) => of.description.clone(),
        Schema::AnyOf(of) => of.description.clone(),
        _ => None,
    }
}

/// Gives each alternative of each type a name of its own.
fn name_alternatives(components: &mut Components) {
    let taken: BTreeSet<String> = components.schemas.keys().cloned().collect();
    let mut named = Vec::new();
    for (name, schema) in &mut components.schemas {
        let RefOr::T(Schema::OneOf(one_of)) = schema else {
            continue;
        };
        let mut told_by = None;
        for item in &mut one_of.items {
            let RefOr::T(Schema::Object(object)) = item else {
                continue;
            };
            let Some((word, tag)) = alternative(object) else {
                continue;
            };
            let own_name = format!("{name}{}", capitalised(&word));
            if taken.contains(&own_name) {
                continue;
            }
            let reference = Ref::from_schema_name(&own_name);
            if let Some(tag) = tag {
                let mapping = told_by.get_or_insert_with(|| Discriminator::new(tag));
                let mapping = &mut mapping.mapping;
                mapping.insert(word, reference.ref_location.clone());
            }
            let alternative = std::mem::replace(item, RefOr::Ref(reference));
            named.push((own_name, alternative));
        }
        if told_by.is_some() {
            one_of.discriminator = told_by;
        }
    }
    components.schemas.extend(named);
}

/// Returns the word that tells an alternative from the others, and the property that holds the
/// word. Without a property, the word is the alternative's only property.
fn alternative(object: &Object) -> Option<(String, Option<String>)> {
    let tag = object.properties.iter().find_map(|(property, schema)| {
        let RefOr::T(Schema::Object(of)) = schema else {
            return None;
        };
        match of.enum_values.as_deref() {
            Some([value]) => Some((value.as_str()?.to_owned(), Some(property.clone()))),
            _ => None,
        }
    });
    tag.or_else(|| match object.required.as_slice() {
        [only] if object.properties.len() == 1 => Some((only.clone(), None)),
        _ => None,
    })
}

/// Converts `change-vdevs` to `ChangeVdevs`.
fn capitalised(word: &str) -> String {
    let parts = word.split(['-', '_', ' ']);
    let capital = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    parts.map(capital).collect()
}
