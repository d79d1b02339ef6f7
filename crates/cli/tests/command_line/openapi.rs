//! Tests of the OpenAPI document: all that a validator asks for, and all that generators of clients
//! need beyond that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::api::http;
use super::daemon::Daemon;

/// Returns the document that the command line prints.
pub(crate) fn document() -> Value {
    let ran = super::daemon::run(std::path::Path::new("/nonexistent"), &["openapi"], None);
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

/// Returns each operation, such as `GET /v1/lus`, with its path and its description.
pub(crate) fn operations(document: &Value) -> Vec<(String, String, Map<String, Value>)> {
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = format!("{} {path}", method.to_uppercase());
            found.push((name, path.clone(), operation.as_object().unwrap().clone()));
        }
    }
    assert!(found.len() > 80, "{}", found.len());
    found
}

/// Calls `look` with each value in the document and its place.
fn walk(value: &Value, at: &str, look: &mut impl FnMut(&str, &Value)) {
    look(at, value);
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, field)| walk(field, &format!("{at}/{name}"), look)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(number, item)| walk(item, &format!("{at}/{number}"), look)),
        _ => {}
    }
}

fn is_said(value: Option<&Value>) -> bool {
    value
        .and_then(Value::as_str)
        .is_some_and(|it| !it.is_empty())
}

#[test]
fn the_daemon_serves_the_document_that_the_command_line_prints() {
    let daemon = Daemon::start();
    let (code, served) = http(&daemon, "GET /openapi.json", "");
    assert_eq!(code, 200);
    let served: Value = serde_json::from_str(&served).unwrap();
    assert_eq!(served, document());
    assert!(served["openapi"].as_str().unwrap().starts_with("3.1"));
}

#[test]
fn operation_ids_are_unique_and_are_those_that_clients_know() {
    let mut ids: Vec<String> = Vec::new();
    for (name, _, operation) in operations(&document()) {
        let id = operation.get("operationId").and_then(Value::as_str);
        ids.push(id.unwrap_or_else(|| panic!("{name}")).to_owned());
        assert!(is_said(operation.get("summary")), "{name}");
    }
    ids.sort();
    let snapshot: Vec<&str> = include_str!("operations.txt").lines().collect();
    assert_eq!(
        ids, snapshot,
        "the API changed: check that clients survive it, then update operations.txt"
    );
    let unique: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len());
}

#[test]
fn each_variable_of_a_path_is_declared_and_nothing_else_is() {
    for (name, path, operation) in operations(&document()) {
        let variables: BTreeSet<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
        let parameters = operation.get("parameters").and_then(Value::as_array);
        let parameters = parameters.cloned().unwrap_or_default();
        let mut seen = BTreeSet::new();
        for parameter in &parameters {
            let place = parameter["in"].as_str().unwrap();
            let own_name = parameter["name"].as_str().unwrap();
            assert!(seen.insert((place, own_name)), "{name}: {own_name} twice");
            assert!(is_said(parameter.get("description")), "{name}: {own_name}");
            assert!(parameter["schema"].is_object(), "{name}: {own_name}");
            if place == "path" {
                assert_eq!(parameter["required"], true, "{name}: {own_name}");
            } else {
                assert_eq!(place, "query", "{name}: {own_name}");
            }
        }
        let declared = seen.iter().filter(|(place, _)| *place == "path");
        let declared: BTreeSet<&str> = declared.map(|(_, variable)| *variable).collect();
        assert_eq!(declared, variables, "{name}");
    }
}

#[test]
fn each_response_is_described_and_each_operation_tells_its_problems() {
    for (name, _, operation) in operations(&document()) {
        let responses = operation["responses"].as_object().unwrap();
        for (status, response) in responses {
            assert!(is_said(response.get("description")), "{name}: {status}");
            if status != "204" {
                let content = response["content"].as_object();
                assert!(content.is_some_and(|it| !it.is_empty()), "{name}: {status}");
            }
        }
        assert!(
            responses.keys().any(|status| status.starts_with("20")),
            "{name}"
        );
        for problems in ["4XX", "5XX"] {
            let pointer = format!("/{problems}/content/application~1json/schema/$ref");
            let schema = operation["responses"].pointer(&pointer);
            let problem = Some("#/components/schemas/Problem");
            assert_eq!(schema.and_then(Value::as_str), problem, "{name}");
        }
    }
}

#[test]
fn each_reference_leads_somewhere_and_each_type_is_described() {
    let document = document();
    let mut references = 0;
    walk(&document, "", &mut |at, value| {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            references += 1;
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{at}: {reference}");
        }
    });
    assert!(references > 200, "{references}");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(is_said(schema.get("description")), "{name}");
    }
    let problem = &document["components"]["schemas"]["Problem"]["properties"];
    for field in ["kind", "message", "not_changed", "next"] {
        assert!(problem[field].is_object(), "{field}");
    }
}

#[test]
fn types_are_of_the_kinds_that_generators_of_clients_read() {
    walk(&document(), "", &mut |at, value| {
        // Generators take closed tuples for no schema at all.
        assert_ne!(value.get("items"), Some(&Value::Bool(false)), "{at}");
        if at.ends_with("/application/octet-stream/schema") {
            let reference = value["$ref"].as_str().unwrap_or_default();
            assert!(reference.ends_with("/Octets"), "{at}: {value}");
        }
    });
    let document = document();
    let octets = &document["components"]["schemas"]["Octets"];
    assert_eq!(octets["format"], "binary", "{octets}");
}

#[test]
fn each_alternative_that_a_word_tells_has_a_name_and_is_found_by_the_word() {
    let document = document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut found = BTreeMap::new();
    for (name, schema) in schemas {
        let Some(alternatives) = schema["oneOf"].as_array() else {
            continue;
        };
        for alternative in alternatives {
            let is_inline = alternative["properties"].is_object();
            assert!(!is_inline, "{name}: {alternative} has no name");
        }
        let Some(discriminator) = schema.get("discriminator") else {
            continue;
        };
        let property = discriminator["propertyName"].as_str().unwrap();
        let mapping = discriminator["mapping"].as_object().unwrap();
        assert_eq!(mapping.len(), alternatives.len(), "{name}");
        for (word, reference) in mapping {
            let pointer = reference.as_str().unwrap().strip_prefix('#').unwrap();
            let told_by = &document.pointer(pointer).unwrap()["properties"][property];
            assert_eq!(told_by["enum"], serde_json::json!([word]), "{name}");
        }
        found.insert(name.as_str(), property);
    }
    for (name, property) in [("BackendSpec", "kind"), ("DatasetChange", "verb")] {
        assert_eq!(found.get(name), Some(&property), "{found:?}");
    }
}
