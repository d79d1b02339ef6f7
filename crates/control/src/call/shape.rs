//! Shape of a JSON body: each object that the OpenAPI document describes is sent as an object.
//!
//! serde also fills a struct from a list of values, by the order of its fields. The document does
//! not tell that order, and the next version may add a field in the middle. A client that sent a
//! list by mistake would then set other fields than it meant to. Decoders of tagged enums buffer
//! their input, so no wrapper around a decoder sees every struct. The schema of the body does.

use std::collections::HashMap;

use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, Object, Schema, SchemaType, Type};

use crate::endpoint::description::Schemas;

/// Schema of a body, with the schemas to which it refers.
pub(crate) struct Shape {
    schema: RefOr<Schema>,
    named: HashMap<String, RefOr<Schema>>,
}

/// Path to a list that stands for an object, such as `.chap` or `.config.hosts[2].chap`.
type Misplaced = String;

impl Shape {
    /// Returns the shape of a type.
    pub(crate) fn of<T: ToSchema>() -> Self {
        let mut named = Schemas::new();
        T::schemas(&mut named);
        Self {
            schema: T::schema(),
            named: named.into_iter().collect(),
        }
    }

    /// Finds a list in the place of an object, and returns the name of its field. A body that is
    /// itself such a list has no name.
    pub(crate) fn list_for_object(&self, body: &Value) -> Option<String> {
        let misplaced = self.check(&self.schema, body).err()?;
        Some(misplaced.trim_start_matches('.').to_owned())
    }

    /// Checks a value and everything within it. All other faults are left to the decoder.
    fn check(&self, schema: &RefOr<Schema>, value: &Value) -> Result<(), Misplaced> {
        match self.resolved(schema) {
            Some(Schema::Object(object)) => self.check_object(object, value),
            Some(Schema::Array(list)) => match (&list.items, value) {
                (ArrayItems::RefOrSchema(items), Value::Array(values)) => {
                    let mut values = values.iter().enumerate();
                    values.try_for_each(|(index, value)| {
                        let checked = self.check(items, value);
                        checked.map_err(|path| format!("[{index}]{path}"))
                    })
                }
                _ => Ok(()),
            },
            Some(Schema::OneOf(of)) => self.check_alternatives(&of.items, value),
            Some(Schema::AnyOf(of)) => self.check_alternatives(&of.items, value),
            Some(Schema::AllOf(of)) => of.items.iter().try_for_each(|item| self.check(item, value)),
            _ => Ok(()),
        }
    }

    fn check_object(&self, object: &Object, value: &Value) -> Result<(), Misplaced> {
        let map = match value {
            Value::Array(_) if takes(&object.schema_type, &Type::Object) => {
                let takes_lists = takes(&object.schema_type, &Type::Array);
                return if takes_lists {
                    Ok(())
                } else {
                    Err(String::new())
                };
            }
            Value::Object(map) => map,
            _ => return Ok(()),
        };
        let others = match object.additional_properties.as_deref() {
            Some(AdditionalProperties::RefOr(schema)) => Some(schema),
            _ => None,
        };
        map.iter().try_for_each(|(name, value)| {
            let (schema, name) = match (object.properties.get(name), others) {
                (Some(schema), _) => (schema, name.as_str()),
                // The name is the client's, and may be a secret in the wrong place.
                (None, Some(schema)) => (schema, "*"),
                (None, None) => return Ok(()),
            };
            let checked = self.check(schema, value);
            checked.map_err(|path| format!(".{name}{path}"))
        })
    }

    /// Checks a value that may be one of several things. Only those count that it is meant to be.
    fn check_alternatives(
        &self,
        alternatives: &[RefOr<Schema>],
        value: &Value,
    ) -> Result<(), Misplaced> {
        let meant: Vec<&RefOr<Schema>> = alternatives
            .iter()
            .filter(|alternative| self.is_meant(alternative, value))
            .collect();
        if meant.is_empty() && value.is_array() {
            return alternatives.iter().try_for_each(|it| self.check(it, value));
        }
        let mut checked = meant.into_iter().map(|it| self.check(it, value));
        match checked.next() {
            Some(Err(first)) if checked.all(|other| other.is_err()) => Err(first),
            _ => Ok(()),
        }
    }

    /// Reports whether a value is meant to be what a schema describes: it has the type, the fields
    /// that are required, and the word that tells the schema from others.
    fn is_meant(&self, schema: &RefOr<Schema>, value: &Value) -> bool {
        let object = match self.resolved(schema) {
            Some(Schema::Object(object)) => object,
            Some(Schema::Array(_)) => return value.is_array(),
            Some(Schema::OneOf(of)) => return of.items.iter().any(|it| self.is_meant(it, value)),
            Some(Schema::AnyOf(of)) => return of.items.iter().any(|it| self.is_meant(it, value)),
            Some(Schema::AllOf(of)) => return of.items.iter().all(|it| self.is_meant(it, value)),
            _ => return false,
        };
        let Value::Object(map) = value else {
            return takes(&object.schema_type, &type_of(value));
        };
        takes(&object.schema_type, &Type::Object)
            && object.required.iter().all(|name| map.contains_key(name))
            && object.properties.iter().all(|(name, schema)| {
                match (self.resolved(schema), map.get(name)) {
                    (Some(Schema::Object(word)), Some(value)) => match &word.enum_values {
                        Some(words) => words.contains(value),
                        None => true,
                    },
                    _ => true,
                }
            })
    }

    fn resolved<'a>(&'a self, schema: &'a RefOr<Schema>) -> Option<&'a Schema> {
        match schema {
            RefOr::T(schema) => Some(schema),
            RefOr::Ref(reference) => {
                let name = reference.ref_location.rsplit('/').next()?;
                match self.named.get(name)? {
                    RefOr::T(schema) => Some(schema),
                    // A name never stands for another name alone.
                    RefOr::Ref(_) => None,
                }
            }
        }
    }
}

/// Reports whether a schema of these types describes values of a type.
fn takes(types: &SchemaType, wanted: &Type) -> bool {
    match types {
        SchemaType::Type(own) => own == wanted,
        SchemaType::Array(all) => all.contains(wanted),
        SchemaType::AnyValue => true,
    }
}

fn type_of(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Boolean,
        Value::Number(number) if number.is_f64() => Type::Number,
        Value::Number(_) => Type::Integer,
        Value::String(_) => Type::String,
        Value::Array(_) => Type::Array,
        Value::Object(_) => Type::Object,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::endpoint::config::Apply;
    use config::change::{CreateUnit, LogIn};
    use model::pool::dataset::change::DatasetChange;

    fn found<T: ToSchema>(body: &Value) -> Option<String> {
        Shape::of::<T>().list_for_object(body)
    }

    #[test]
    fn a_list_in_the_place_of_an_object_is_found_wherever_it_lies() {
        let log_in = |name: &str, value: Value| {
            let mut body = json!({"iqn": "iqn.x", "portals": ["192.0.2.1"], "binds": []});
            body[name] = value;
            found::<LogIn>(&body)
        };
        let path = |text: &str| Some(text.to_owned());
        assert_eq!(log_in("chap", json!(["user", "secret"])), path("chap"));
        assert_eq!(log_in("mutual_chap", json!([])), path("mutual_chap"));
        assert_eq!(log_in("parameters", json!([])), path("parameters"));
        assert_eq!(log_in("chap", json!({"user": "u", "secret": "s"})), None);
        assert_eq!(log_in("chap", Value::Null), None);
        assert_eq!(found::<LogIn>(&json!(["iqn.x", []])), path(""));
        let unit = json!({"name": "vm1", "backend": ["memory", 4096]});
        assert_eq!(found::<CreateUnit>(&unit), path("backend"));
        let hosts = json!([{"name": "a"}, {"name": "b", "chap": ["u", "s"]}]);
        let applied = json!({"config": {"hosts": hosts}});
        assert_eq!(found::<Apply>(&applied), path("config.hosts[1].chap"));
        let applied = json!({"config": {"hosts": [["a"]]}});
        assert_eq!(found::<Apply>(&applied), path("config.hosts[0]"));
        assert_eq!(found::<Apply>(&json!({"config": []})), path("config"));
    }

    #[test]
    fn lists_and_maps_that_are_meant_are_left_alone() {
        for change in [
            json!({"verb": "snapshot", "names": ["tank/a@x"], "recursive": true}),
            json!({"verb": "set", "name": "tank/a", "properties": {"compression": "lz4"}}),
            json!({"verb": "snapshot", "names": "tank/a@x"}),
            // The decoder refuses these, with words of its own.
            json!({"verb": "unknown", "names": [[]]}),
            json!({"verb": 7}),
            json!("snapshot"),
            json!(null),
        ] {
            assert_eq!(found::<DatasetChange>(&change), None, "{change}");
        }
        assert_eq!(found::<Apply>(&json!({"toml": "[a]"})), None);
    }
}
