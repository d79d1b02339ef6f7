//! The shape of the Grafana dashboard. Its queries run against Prometheus in the lab `prometheus`.

use std::collections::BTreeSet;

use serde_json::Value;

const DASHBOARD: &str = include_str!("../../../../../packaging/grafana/sandstone.json");
/// Columns of Grafana's grid.
const WIDTH: u64 = 24;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn panels_have_places_of_their_own_and_say_what_they_show() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let (mut ids, mut cells, mut titles) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(number(&panel["id"])), "{title}");
        assert!(
            titles.insert((title, panel["type"].as_str())),
            "{title} is there twice"
        );
        let grid = &panel["gridPos"];
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|part| number(&grid[part]));
        assert!(x + w <= WIDTH, "{title}");
        for row in y..y + h {
            assert!(
                (x..x + w).all(|at| cells.insert((row, at))),
                "{title} covers another"
            );
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(
            panel["description"]
                .as_str()
                .is_some_and(|text| text.ends_with('.')),
            "{title}"
        );
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}");
        let mut references = BTreeSet::new();
        for target in targets {
            assert!(
                references.insert(target["refId"].as_str().unwrap()),
                "{title}"
            );
            let query = target["expr"].as_str().unwrap();
            let is_chosen = query.contains("instance=~\"$instance\"") || query.contains("ALERTS{");
            assert!(
                is_chosen,
                "{title} does not follow the chosen machine: {query}"
            );
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}

#[test]
fn whoever_imports_the_dashboard_chooses_source_and_machine() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables
        .iter()
        .map(|of| of["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["datasource", "job", "instance"]);
    assert!(
        dashboard["id"].is_null(),
        "an id of one Grafana does not belong into the file"
    );
}
