//! `pool reguid`: makes a copy of a pool a pool of its own.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::super::{Connection, Done, Terminal};
use super::absolute;
use crate::print::table::json;
use control::endpoint::pool;
use model::pool::reguid::{ReguidPool, ReguidView};

#[derive(Debug, Args)]
pub(in super::super) struct Reguid {
    /// File or device of the copy; give each of them. Nothing else is touched
    #[arg(short = 'd', value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Go on even if the labels say that another host has the copy. Go on also if the devices
    /// belonged to a pool here, and with disks that logical units had meanwhile
    #[arg(short = 'f', long)]
    force: bool,
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
    /// Name or number of the copy, which is that of the original
    pool: String,
    /// New name of the copy; without it, the copy keeps its name
    #[arg(value_name = "NEWNAME")]
    new_name: Option<String>,
}

pub(super) fn run(t: &mut Terminal<'_>, connection: &Connection, args: &Reguid) -> Done {
    let paths = args.paths.iter().map(|path| absolute(path));
    let request = ReguidPool {
        pool: args.pool.clone(),
        paths: paths.collect::<Result<_, _>>()?,
        new_name: args.new_name.clone(),
        force: args.force,
    };
    let client = connection.client();
    let view: ReguidView = client.ask(&pool::REGUID, &[], &(), &request)?;
    if args.json {
        return json(t, &view);
    }
    Ok(write!(t.out, "{}", told(&view))?)
}

fn told(view: &ReguidView) -> String {
    let (name, guid) = (&view.name, &view.guid);
    let paths = view
        .devices
        .iter()
        .map(|path| format!(" -d {}", path.display()));
    let paths: String = paths.collect();
    let completed = match view.is_continued {
        true => "An earlier attempt was interrupted and is complete now.\n",
        false => "",
    };
    let missing = match view.missing.len() {
        0 => String::new(),
        1 => format!("It has no copy of {}.\n", view.missing[0]),
        _ => format!("It has no copies of {}.\n", view.missing.join(", ")),
    };
    format!(
        "{completed}pool {name} has the number {guid} now; the pool that it was copied from keeps {}.\n{missing}\
         Import it with `sandstone pool import{paths} {guid}`, or under another name with NEWNAME at the end.\n",
        view.was
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_next_is_told() {
        let mut view = ReguidView {
            name: "clone".to_owned(),
            guid: "00000000000000ff".to_owned(),
            was: "00000000000000aa".to_owned(),
            devices: vec!["/a".into(), "/b".into()],
            missing: vec!["/c".to_owned()],
            is_continued: false,
        };
        let text = told(&view);
        assert!(text.contains("has no copy of /c"), "{text}");
        assert!(
            text.contains("`sandstone pool import -d /a -d /b 00000000000000ff`"),
            "{text}"
        );
        view.is_continued = true;
        assert!(
            told(&view).starts_with("An earlier attempt"),
            "{}",
            told(&view)
        );
    }
}
