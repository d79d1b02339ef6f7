//! Snapshots of a large volume: the time that one takes, and what the end of a volume with many
//! blocks costs those who read and write meanwhile.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::phases::Bench;
use super::process::Load;
use super::table::{Line, Side, Wanted};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Number of 4 KiB blocks in a large volume.
const LARGE_BLOCKS: u64 = 10_000_000;

impl Bench<'_> {
    /// Measures snapshots of a volume of 1 TiB with as much data as the device holds. The blocks
    /// lie far apart, so each has nodes of its own, twice.
    pub(super) fn snapshots(&mut self) -> Result<(), String> {
        self.new_disk_pool(1 << 40, 4 * KIB)?;
        let bytes = self.options.size / 8 * 3;
        let write = Load::random_write(4096, 32).bytes(bytes).flushed();
        self.one(write.on("tank/v"))?;
        self.take_snapshots(bytes)?;
        self.destroy_beside_reads(bytes)
    }

    /// Measures snapshots with ten million blocks, written in their order, on a device that grows
    /// with them.
    pub(super) fn large(&mut self) -> Result<(), String> {
        let bytes = LARGE_BLOCKS * 4096;
        let needed = bytes + bytes / 4;
        let free = free_bytes(&self.options.dir)?;
        if free < needed {
            self.table.note(format!(
                "ten million blocks could not be measured: they need {} GiB of disk, and {} GiB are free",
                needed >> 30,
                free >> 30
            ));
            return Ok(());
        }
        let device = self.path("large");
        let file = std::fs::File::create(&device).and_then(|file| file.set_len(2 * needed));
        file.map_err(|error| format!("{}: {error}", device.display()))?;
        self.new_pool("disk", std::slice::from_ref(&device))?;
        self.new_volume(1 << 40, 4 * KIB)?;
        self.loader.reset_peak_memory()?;
        let write = Load::sequential_write(MIB as u32, 8).bytes(bytes).flushed();
        self.one(write.on("tank/v"))?;
        self.take_snapshots(bytes)?;
        self.destroy_beside_reads(bytes)?;
        self.memory("memory beyond the cache's cap, ten million blocks of 1 TiB")?;
        self.ask(json!({ "do": "destroy", "pool": "tank" }))?;
        std::fs::remove_file(&device).map_err(|error| error.to_string())?;
        // Memory that this phase took does not concern the other phases.
        self.begin_again("large-done", self.options.cache)
    }

    fn take_snapshots(&mut self, bytes: u64) -> Result<(), String> {
        let snapshot = |name: &str| json!({ "do": "change", "verb": "snapshot", "names": [name] });
        let mut line = Line::new(
            format!(
                "snapshot of 1 TiB, {} K blocks written",
                bytes / 4096 / 1000
            ),
            "ms",
            &[Wanted::AtMost(10.0)],
        );
        for round in 0..self.options.rounds {
            let answer = self.ask(snapshot(&format!("tank/v@s{round}")))?;
            line.push(
                Side::Pool,
                answer["took_s"].as_f64().unwrap_or(f64::NAN) * 1e3,
            );
        }
        self.table.push(line);
        Ok(())
    }

    /// Measures how much longer the slowest hundredth takes while blocks of a destroyed volume are
    /// freed.
    fn destroy_beside_reads(&mut self, bytes: u64) -> Result<(), String> {
        let small = self.options.size / 16;
        self.ask(json!({
            "do": "change", "verb": "create", "name": "tank/w",
            "size": small, "block_size": 4096, "sparse": true,
        }))?;
        let fill = Load::sequential_write(MIB as u32, 4).bytes(small).flushed();
        self.one(fill.on("tank/w"))?;
        let read = Load::random_read(4096, 16).seconds(self.options.seconds);
        let write = Load::random_write(4096, 4).seconds(self.options.seconds);
        let loads = [read.on("tank/w"), write.on("tank/w")];
        let before = self.loader.load(&loads)?;
        let destroy = json!({
            "do": "change", "verb": "destroy", "names": ["tank/v"], "recursive": true,
        });
        let took = self.ask(destroy)?["took_s"].as_f64().unwrap_or(f64::NAN);
        let during = self.loader.load(&loads)?;
        let status = self.ask(json!({ "do": "status", "pool": "tank" }))?;
        if status["allocated"]
            .as_u64()
            .is_none_or(|left| left < 2 * small)
        {
            self.table.note(format!(
                "most of {} MiB was free before the loads beside it ended: the p99 proves less than it seems",
                bytes / MIB
            ));
        }
        for (at, what) in ["reads", "writes"].into_iter().enumerate() {
            let name = format!("p99 of {what} while {} MiB are freed / before", bytes / MIB);
            let ratio = during[at].p99_us / before[at].p99_us;
            let line = Line::single(name, "ratio", Wanted::AtMost(2.0), ratio);
            self.table.push(line);
        }
        let line = Line::single("destroy", "ms", Wanted::Nothing, took * 1e3);
        self.table.push(line);
        Ok(())
    }
}

/// Returns the free bytes of the disk under a folder.
fn free_bytes(dir: &Path) -> Result<u64, String> {
    let output = Command::new("df")
        .args(["--output=avail", "-B1"])
        .arg(dir)
        .output()
        .map_err(|error| format!("df cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let free = text
        .lines()
        .nth(1)
        .and_then(|line| line.trim().parse().ok());
    free.ok_or_else(|| format!("df said '{}'", text.trim()))
}
