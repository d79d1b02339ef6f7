//! `pool create -n` and `pool add -n`: the layout that a pool would get, as zpool shows it.

use super::tree;
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;

/// Returns the layout in words. `doing` is what would be done, as in `would create`.
pub(super) fn layout(doing: &str, pool: &PoolView) -> String {
    let mut text = format!("{doing} '{}' with the following layout:\n\n", pool.name);
    let sections = [
        (pool.name.as_str(), &pool.vdevs),
        ("logs", &pool.logs),
        ("cache", &pool.caches),
        ("spares", &pool.spares),
    ];
    for (number, (name, children)) in sections.into_iter().enumerate() {
        if number > 0 && children.is_empty() {
            continue;
        }
        let section = VdevView {
            name: name.to_owned(),
            children: children.clone(),
            ..VdevView::default()
        };
        let mut lines = Vec::new();
        tree(&section, 0, &mut lines);
        for (line, _) in lines {
            text.push_str(&format!("\t{line}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_shown_as_by_zpool() {
        let vdev = |name: &str, children| VdevView {
            name: name.to_owned(),
            children,
            ..VdevView::default()
        };
        let pool = PoolView {
            name: "tank".to_owned(),
            vdevs: vec![vdev("mirror", vec![vdev("/a", vec![]), vdev("/b", vec![])])],
            spares: vec![vdev("/c", vec![])],
            ..PoolView::default()
        };
        let expected = "would create 'tank' with the following layout:\n\n\ttank\n\t  mirror\n\t    /a\n\t    /b\n\
                        \tspares\n\t  /c\n";
        assert_eq!(layout("would create", &pool), expected);
    }
}
