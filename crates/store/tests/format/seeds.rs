//! Seeds for the fuzz targets of structures on disks: real bytes of the image.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::disks::{Disk, SECTOR};
use super::reader::{ReadLabels, Vdevs, labels, manifest};

/// Writes some seeds of each kind.
pub(crate) fn write(disks: &[Disk]) {
    let found = labels::find(disks);
    let vdevs = Vdevs::new(&found.config, &found.leaves);
    let manifest = manifest(&vdevs, &found.root);
    save("manifest", &[manifest.to_string().into_bytes()]);
    save("root", &sectors(disks, b"SANDROOT", 3));
    save("log_record", &records(disks, &found));
    let lists = sectors(disks, b"SANDLIST", 4).into_iter();
    let mut lists: Vec<Vec<u8>> = lists.map(|chunk| [vec![0], chunk].concat()).collect();
    for contents in manifest["contents"].as_array().expect("a list") {
        let dead = super::reader::from_hex(contents["dead"].as_str().expect("a text"));
        if !dead.is_empty() {
            lists.push([vec![1], dead].concat());
        }
    }
    save("list", &lists);
    save("node", &sectors(disks, b"SANDNODE", 8));
    let label = disks[0].read(0, 256 << 10);
    let config = found.config.to_string().len();
    save("label", &[label[..96 + config].to_vec()]);
    save(
        "catalog",
        &catalogs(&manifest["catalog"], &records(disks, &found)),
    );
}

fn save(target: &str, seeds: &[Vec<u8>]) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = workspace.join("fuzz/corpus").join(target);
    fs::create_dir_all(&folder).expect("a folder");
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(folder.join(format!("image_{number}")), seed).expect("a seed is written");
    }
}

/// Returns some different sectors that begin with the magic bytes, without the zeros at their ends.
fn sectors(disks: &[Disk], magic: &[u8], most: usize) -> Vec<Vec<u8>> {
    let all = disks.iter().flat_map(|disk| disk.sectors.values());
    let all = all.filter(|sector| sector.starts_with(magic) && sector.len() == SECTOR);
    let different: BTreeSet<Vec<u8>> = all.map(|sector| cut(sector)).collect();
    different.into_iter().rev().take(most).collect()
}

fn cut(sector: &[u8]) -> Vec<u8> {
    let end = sector
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    sector[..end].to_vec()
}

/// Returns the records behind the checkpoint, in their order.
fn records(disks: &[Disk], found: &ReadLabels<'_>) -> Vec<Vec<u8>> {
    let seq = |record: &Vec<u8>| u64::from_le_bytes(record[24..32].try_into().expect("8 bytes"));
    let mut records = sectors(disks, b"SANDLOGR", usize::MAX);
    records.retain(|record| seq(record) > found.root.seq);
    records.sort_by_key(seq);
    records
}

/// Returns the catalogue of the checkpoint with the operations since, and then the operations on an
/// empty catalogue.
fn catalogs(catalog: &Value, records: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let operations: Vec<String> = records
        .iter()
        .filter(|record| record[96..100] == [3, 0, 0, 0])
        .map(|record| {
            let len = u64::from_le_bytes(record[104..112].try_into().expect("8 bytes"));
            String::from_utf8_lossy(&record[112..112 + len as usize]).into_owned()
        })
        .collect();
    let all = operations.join("\n");
    vec![
        format!("{catalog}\n{all}").into_bytes(),
        format!("\n{all}").into_bytes(),
    ]
}
