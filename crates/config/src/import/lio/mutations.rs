//! Damaged files of LIO.

use serde_json::{Value, json};

use super::*;
use crate::import::mutations::{FILES, check, mutated, refused_line, tells_of};
use crate::import::oracle::dice;

const SAMPLE: &str = include_str!("saveconfig.json");

/// Fields that LIO writes itself, and that mean nothing elsewhere.
const WITHOUT_MEANING: [&str; 2] = ["alias", "tg_pt_gp_id"];

#[test]
fn changed_files_are_refused_with_a_line_or_all_their_objects_are_accounted_for() {
    let pretty = pretty(&serde_json::from_str(SAMPLE).unwrap());
    for seed in 0..FILES {
        let text = mutated(&pretty, &mut dice(seed));
        let imported = read(&text);
        check(&text, &imported);
        let Ok(imported) = imported else { continue };
        let saved: Value = serde_json::from_str(&text).unwrap();
        let names = |list: &str, field: &str| -> Vec<String> {
            let list = saved[list].as_array().into_iter().flatten();
            list.map(|object| object[field].as_str().unwrap().to_owned())
                .collect()
        };
        let objects = names("storage_objects", "name");
        for name in objects.into_iter().chain(names("targets", "wwn")) {
            let plain = super::super::plain_name(&name);
            let told = tells_of(&imported, &[&name, &plain]);
            assert!(told, "{name} is gone: {text}\n{:#?}", imported.notes);
        }
    }
}

#[test]
fn a_value_is_understood_or_named_or_refused_with_its_line() {
    let saved: Value = serde_json::from_str(SAMPLE).unwrap();
    let mut leaves = Vec::new();
    collect(&saved, String::new(), &mut leaves);
    for pointer in leaves {
        let field = pointer.rsplit('/').next().unwrap().to_owned();
        let mut marked = saved.clone();
        *marked.pointer_mut(&pointer).unwrap() = json!("marked");
        let text = pretty(&marked);
        let line = 1 + text.lines().position(|l| l.contains("\"marked\"")).unwrap();
        for garbage in [
            json!("banana"),
            json!(-17),
            json!(1.5),
            json!({"banana": 1}),
        ] {
            let mut changed = saved.clone();
            *changed.pointer_mut(&pointer).unwrap() = garbage.clone();
            let text = pretty(&changed);
            match read(&text) {
                Err(error) => {
                    let last = line + pretty(&garbage).lines().count() - 1;
                    let named = refused_line(&error).unwrap();
                    assert!(
                        (line..=last).contains(&named),
                        "{pointer} {garbage}: {error}"
                    );
                }
                Ok(_) if WITHOUT_MEANING.contains(&field.as_str()) => {}
                Ok(imported) => {
                    let shown = match garbage.as_str() {
                        Some(text) => text.to_owned(),
                        None => garbage.to_string(),
                    };
                    let mut words = vec![shown.as_str(), &field];
                    // Secrets are not shown. An object that is left out takes its content with it.
                    words.extend(field.ends_with("password").then_some("its secret"));
                    words.extend(pointer.starts_with("/targets/1").then_some("loopback"));
                    let old = pointer.starts_with("/storage_objects/2");
                    words.extend(old.then_some("storage object old was left out"));
                    assert!(
                        tells_of(&imported, &words),
                        "{pointer} {garbage} vanished: {:#?}",
                        imported.notes
                    );
                }
            }
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

fn collect(value: &Value, pointer: String, leaves: &mut Vec<String>) {
    match value {
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, format!("{pointer}/{index}"), leaves);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                collect(value, format!("{pointer}/{key}"), leaves);
            }
        }
        _ => leaves.push(pointer),
    }
}
