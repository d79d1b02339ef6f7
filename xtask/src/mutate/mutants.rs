//! Faults: each removes one promise about the order of writes from the store, or one rule of the
//! target or the initiator. The changes are text, so the product itself has no code for them. A
//! test compares each change with the sources.
//!
//! Three changes are not among them. The first breaks its promise only towards readers of a volume
//! that is gone, of whom no history tells; the others break none:
//! - *The published leaves of a destroyed volume are not forgotten.* A test of the engine finds it
//!   (`crates/store/src/engine/tests/readers.rs`). A volume that is rolled back keeps its number,
//!   but its settings are read anew, which forgets its leaves once more.
//! - *No flush between both rounds of a root.* A power cut may then tear all copies of the new
//!   root. The previous root lies in another slot of each ring, and all that it leads to is still
//!   there. The checkpoint counts only after the second flush.
//! - *A rebuilt leaf is whole one checkpoint earlier, with blocks that no checkpoint has flushed.*
//!   Only labels say that the leaf is whole. Their first round is flushed on every leaf in use
//!   before the second begins, the rebuilt one included. That flush covers the leaf's blocks,
//!   because all of them were answered before the scan ended. Labels of the first round alone count
//!   for nothing. All this holds also for labels that say that another leaf may be removed because
//!   this one is whole.

/// One fault.
#[derive(Debug)]
pub(crate) struct Mutant {
    /// Name of the fault, which selects it for a run.
    pub(crate) name: &'static str,
    /// Finder of the fault.
    pub(crate) seeker: Seeker,
    /// Promise that the fault breaks.
    pub(crate) order: &'static str,
}

/// Finder of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seeker {
    /// The crash laboratory with its storage networks, which tries this family first.
    Family(&'static str),
    /// Test of `crates/sim/tests/worlds.rs` with this name, which fails.
    World(&'static str),
}

/// Place at which the sources are changed. `‹name›` stands for "this fault is chosen".
#[derive(Debug)]
pub(crate) struct Change {
    /// Crate of the file.
    pub(crate) of: &'static str,
    /// File below the crate's `src`.
    pub(crate) file: &'static str,
    /// Text in the source, which occurs exactly once.
    pub(crate) from: &'static str,
    /// Text that replaces it.
    pub(crate) to: &'static str,
}

const fn mutant(name: &'static str, family: &'static str, order: &'static str) -> Mutant {
    Mutant {
        name,
        seeker: Seeker::Family(family),
        order,
    }
}

const fn of_target(name: &'static str, test: &'static str, order: &'static str) -> Mutant {
    Mutant {
        name,
        seeker: Seeker::World(test),
        order,
    }
}

const fn change(file: &'static str, from: &'static str, to: &'static str) -> Change {
    change_of("store", file, from, to)
}

const fn change_of(
    of: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
) -> Change {
    Change { of, file, from, to }
}

/// All faults: those of the store in the order of the life of a write, then those of the target.
pub(crate) const MUTANTS: [Mutant; 62] = [
    mutant(
        "groups-out-of-order",
        "losing-records",
        "a group counts only after all groups before it",
    ),
    mutant(
        "written-is-durable",
        "power-cuts",
        "a written group counts as durable only after a flush",
    ),
    mutant(
        "answered-when-written",
        "apart",
        "a change is acknowledged only after the flush",
    ),
    mutant(
        "failed-flush-believed",
        "failing",
        "a change that a failed flush should have made durable is not acknowledged",
    ),
    mutant(
        "one-leaf-flushed",
        "power-cuts",
        "a flush reaches every leaf that was written to",
    ),
    mutant(
        "promised-after-opening",
        "repeating",
        "nothing is promised before a checkpoint leads past the first group",
    ),
    mutant(
        "signpost-missing",
        "losing-records",
        "a record that leads far away is written twice",
    ),
    mutant(
        "root-before-nodes",
        "power-cuts",
        "all nodes of a checkpoint are written before its root",
    ),
    mutant(
        "root-before-groups",
        "power-cuts",
        "all groups of a checkpoint are written before its root",
    ),
    mutant(
        "root-before-flush",
        "power-cuts",
        "a flush lies between a checkpoint's blocks and its root",
    ),
    mutant(
        "root-before-labels",
        "parting",
        "labels are true before a root that relies on them is written",
    ),
    mutant(
        "root-unflushed",
        "lost-roots",
        "a checkpoint counts only when its root is durable",
    ),
    mutant(
        "freed-before-root",
        "lost-roots",
        "space that a checkpoint dropped is free only when the root is durable",
    ),
    mutant(
        "freed-one-early",
        "full",
        "space that a checkpoint dropped is kept for one more checkpoint",
    ),
    mutant(
        "labels-in-one-round",
        "reshaped",
        "the labels at one end of a device are never written together",
    ),
    mutant(
        "label-rounds-unflushed",
        "reshaped",
        "a flush lies between the two rounds of labels",
    ),
    mutant(
        "labels-unflushed",
        "parting",
        "labels are relied on only when they are durable",
    ),
    mutant(
        "labels-after-one-round",
        "parting",
        "labels are relied on only when both rounds are written",
    ),
    mutant(
        "labels-not-waited-for",
        "apart",
        "nothing is promised while labels lack something new",
    ),
    mutant(
        "space-before-labels",
        "reshaped",
        "labels name a vdev before blocks are written to it",
    ),
    mutant(
        "log-copy-unflushed",
        "logs",
        "copies on a log vdev are promised only when they are flushed",
    ),
    mutant(
        "log-copy-during-labels",
        "pulled-logs",
        "log vdevs promise nothing while labels change",
    ),
    mutant(
        "labels-over-log-debt",
        "pulled-logs",
        "labels change only when the chain has everything that log vdevs promised",
    ),
    mutant(
        "log-ring-reused-early",
        "pulled-logs",
        "the place of a copy is used again only when the chain has its group",
    ),
    mutant(
        "end-without-mark",
        "repeating",
        "an opening marks the end of the log that it found",
    ),
    mutant(
        "opening-unflushed",
        "power-cuts",
        "an opening flushes the data that it found before any client sees the data",
    ),
    mutant(
        "opening-trusts-caches",
        "power-cuts",
        "an opening also flushes the writes of earlier runs",
    ),
    mutant(
        "rings-left-uneven",
        "covered",
        "the root that an opening follows is in all labels before anything builds on it",
    ),
    mutant(
        "group-without-blocks",
        "power-cuts",
        "a record counts only with all its blocks",
    ),
    mutant(
        "rebuilt-without-log",
        "reshaped",
        "a leaf is rebuilt from a checkpoint that has everything the leaf misses",
    ),
    mutant(
        "old-copy-counts",
        "old-copies",
        "a leaf that came back with old data does not count before it is rebuilt",
    ),
    mutant(
        "old-copy-gets-roots",
        "old-copies",
        "a leaf that came back with old data keeps its roots until labels record its gaps",
    ),
    mutant(
        "old-copy-lacks-log",
        "old-copies",
        "an opening brings durable groups onto all their leaves",
    ),
    mutant(
        "half-written-root-counts",
        "old-copies",
        "a root of the first round counts only if all present leaves have it",
    ),
    mutant(
        "given-up-labels-count",
        "parting",
        "a configuration that did not reach the second round does not count",
    ),
    mutant(
        "trimmed-before-root",
        "trimming",
        "space that the newest checkpoint uses is not trimmed",
    ),
    mutant(
        "trimmed-one-early",
        "lost-roots",
        "space that the checkpoint before the newest uses is not trimmed",
    ),
    mutant(
        "second-copy-in-first-place",
        "power-cuts",
        "both copies of a block that leads to other blocks are written, each in its place",
    ),
    mutant(
        "reguid-in-one-round",
        "twins",
        "the labels at one end of a device never get a new identity together",
    ),
    mutant(
        "log-vdev-without-root",
        "old-copies",
        "a log vdev promises nothing before it has a root",
    ),
    mutant(
        "change-not-noted",
        "lanes",
        "no reader finds the place that a block had before an acknowledged change",
    ),
    mutant(
        "published-as-unchanged",
        "lanes",
        "a leaf is published with all changes that its node does not have",
    ),
    mutant(
        "reader-believes-bytes",
        "lanes",
        "a place that was freed and written anew while it was read proves nothing",
    ),
    mutant(
        "reader-ticket-ignored",
        "lanes",
        "bytes that were read before a change do not come into the cache after it",
    ),
    mutant(
        "waiting-bytes-believed",
        "lanes",
        "bytes that were read in advance serve only while their blocks lie there",
    ),
    mutant(
        "lock-overlooked",
        "lanes",
        "changes of a block enter the log one after the other",
    ),
    mutant(
        "prepared-by-old-settings",
        "lanes",
        "what a lane prepared is used only if it was prepared as the volume is now",
    ),
    mutant(
        "foreign-record-overlooked",
        "hosts-clones",
        "a host that sees another host's record acknowledges nothing more",
    ),
    mutant(
        "record-never-too-old",
        "hosts-paused",
        "a host that could write no record for too long acknowledges nothing more",
    ),
    mutant(
        "nobody-watched",
        "hosts-paused",
        "a host that wants a pool checks whether the owner is alive",
    ),
    mutant(
        "claim-not-waited-for",
        "hosts-together",
        "a claim stays on the devices for a while before a pool is opened",
    ),
    of_target(
        "write-not-fenced",
        "old_writes_of_a_closed_path_stay_behind_those_of_the_next",
        "later writes wait for those of a lost session",
    ),
    of_target(
        "session-not-awaited",
        "a_session_that_comes_back_waits_for_the_one_before",
        "a new session waits until the tasks of the one that it replaces are over",
    ),
    of_target(
        "abort-not-awaited",
        "a_write_that_was_aborted_never_lands_after_the_answer",
        "an abort is answered when its task is quiet",
    ),
    of_target(
        "compare-not-alone",
        "compare_and_write_is_atomic_among_writes",
        "COMPARE AND WRITE has its blocks to itself",
    ),
    of_target(
        "departure-not-awaited",
        "a_path_that_has_left_service_writes_no_more",
        "a target port group leaves service when its earlier commands are over",
    ),
    of_target(
        "deletion-not-awaited",
        "a_unit_that_is_deleted_under_commands_leaves_its_disk_alone",
        "a unit leaves service when its commands are over",
    ),
    of_target(
        "takeover-untold",
        "a_session_that_takes_over_is_told_of_the_lost_nexus",
        "the first command of a session that takes over is told of the lost nexus",
    ),
    of_target(
        "floor-for-all",
        "a_session_has_its_floor_while_others_take_all_they_can",
        "each session has a part of the memory to itself",
    ),
    mutant(
        "ghosts-overlooked",
        "san-late-disk",
        "a write waits while a lost one may land on its blocks",
    ),
    mutant(
        "settle-time-skipped",
        "san-late-disk",
        "after the end of a session its writes have time to settle",
    ),
    mutant(
        "new-life-under-new-name",
        "san-storm",
        "a session's next life ends the one before",
    ),
];

/// All changes. Each is of one place, for one fault or several.
pub(crate) const CHANGES: [Change; 61] = [
    change(
        "log/chain.rs",
        "        while let Some(group) = self.under_way.pop_front_if(|group| group.is_written) {",
        "        let counts = |group: &mut Sealed| group.is_written || ‹groups-out-of-order› && group.seq <= seq;
        while let Some(group) = self.under_way.pop_front_if(counts) {",
    ),
    change(
        "log/chain.rs",
        "        let first = self.unflushed.front().copied();",
        "        let first = self.unflushed.front().copied().filter(|_| !‹written-is-durable›);",
    ),
    change(
        "engine/io/commit.rs",
        "        self.commit.chain.written(seq);",
        "        self.commit.chain.written(seq);
        if ‹answered-when-written› {
            self.answer_durable(self.commit.chain.written_seq);
        }",
    ),
    change(
        "engine/io/commit.rs",
        "        self.commit.flushing = None;
        if let Err(error) = result {",
        "        self.commit.flushing = None;
        if let Err(error) = result && !‹failed-flush-believed› {",
    ),
    change(
        "engine/io/commit.rs",
        "        if let Start::Anew(_) = self.commit.start {",
        "        if let Start::Anew(_) = self.commit.start && !‹promised-after-opening› {",
    ),
    change(
        "engine/io/commit.rs",
        "            blocks.push((extent.address(), sector.clone()));",
        "            if !‹signpost-missing› {
                blocks.push((extent.address(), sector.clone()));
            }",
    ),
    change(
        "vdev/flush.rs",
        "        let leaves = covered.flat_map(|(_, top)| top.leaves()).collect();",
        "        let most = if ‹one-leaf-flushed› { 1 } else { usize::MAX };
        let leaves = covered.flat_map(|(_, top)| top.leaves()).take(most).collect();",
    ),
    change(
        "engine/checkpoint/making.rs",
        "        self.writes.count == 0 && written_seq >= self.seq",
        "        (self.writes.count == 0 || ‹root-before-nodes›) && (written_seq >= self.seq || ‹root-before-groups›)",
    ),
    change(
        "engine/checkpoint.rs",
        "            making.writes.count -= 1;",
        "            making.writes.count = making.writes.count.saturating_sub(1);",
    ),
    change(
        "engine/checkpoint.rs",
        "        self.set_stage(CheckpointStage::Flush);",
        "        if ‹root-before-flush› {
            return self.begin_roots();
        }
        self.set_stage(CheckpointStage::Flush);",
    ),
    change(
        "engine/checkpoint.rs",
        "        self.groups_flushed(seq);
        self.begin_roots();",
        "        self.groups_flushed(seq);
        if ‹freed-before-root› {
            self.commit_drops();
        }
        if ‹trimmed-before-root› {
            let dropped: Vec<_> = self.space.dropped().collect();
            for extent in dropped {
                let range = (extent.address(), u64::from(extent.sectors));
                let tag = self.tag(Tag::Trim(u16::MAX));
                self.trim_range(tag, range, None);
            }
        }
        self.begin_roots();",
    ),
    change(
        "engine/checkpoint.rs",
        "        self.commit_drops();
        self.unmerged",
        "        if !‹freed-before-root› {
            self.commit_drops();
        }
        if ‹trimmed-one-early› {
            let waiting: Vec<_> = self.space.waiting().collect();
            for extent in waiting {
                let range = (extent.address(), u64::from(extent.sectors));
                let tag = self.tag(Tag::Trim(u16::MAX));
                self.trim_range(tag, range, None);
            }
        }
        self.unmerged",
    ),
    change(
        "space/checkpoint.rs",
        "        self.freed = std::mem::replace(&mut self.deferred, dropped);",
        "        self.freed = std::mem::replace(&mut self.deferred, dropped);
        if ‹freed-one-early› {
            let early = std::mem::take(&mut self.deferred);
            early.iter().for_each(|extent| self.give_back(extent));
        }",
    ),
    change(
        "engine/checkpoint/root_ring.rs",
        "        if self.are_labels_true() {",
        "        if self.are_labels_true() || ‹root-before-labels› {",
    ),
    change(
        "engine/checkpoint/root_ring.rs",
        "            (false, _) => self.flush_labels(round),",
        "            (false, 1) if ‹root-unflushed› => self.commit_checkpoint(),
            (false, _) => self.flush_labels(round),",
    ),
    change(
        "engine/devices/label_writes.rs",
        "            for copy in ALL_ROUNDS[round] {",
        "            let all = if ‹labels-in-one-round› { vec![0, 1, 2, 3, 4, 5] } else { ALL_ROUNDS[round].to_vec() };
            for copy in all {",
    ),
    change(
        "engine/devices/label_writes.rs",
        "            (round, false) => self.flush_configuration(round),",
        "            (0, false) if ‹label-rounds-unflushed› && !self.labels.is_new() => self.write_configuration(1),
            (1, false) if ‹labels-unflushed› => {
                if let Some(config) = self.labels.end() {
                    self.label_caches(&config);
                }
                self.labels_are_written();
            }
            (round, false) => self.flush_configuration(round),",
    ),
    change(
        "engine/devices/label_writes.rs",
        "        self.labels.is_new() || self.labels.round().is_some()",
        "        let is_behind = |round: usize| !(‹labels-after-one-round› && round == 1);
        !‹labels-not-waited-for› && (self.labels.is_new() || self.labels.round().is_some_and(is_behind))",
    ),
    change(
        "engine/devices/label_writes.rs",
        "        self.write_configuration(0);
    }

    fn write_configuration",
        "        if ‹space-before-labels› {
            self.take_new_space();
        }
        self.write_configuration(0);
    }

    fn write_configuration",
    ),
    change(
        "engine/devices/label_writes.rs",
        "        if self.is_log_owing() {",
        "        if self.is_log_owing() && !‹labels-over-log-debt› {",
    ),
    change(
        "engine/devices/log_vdevs.rs",
        "        let tag = self.tag(Tag::CopiesFlush(vdev));",
        "        if ‹log-copy-unflushed› {
            return self.copies_flushed(vdev, Ok(()));
        }
        let tag = self.tag(Tag::CopiesFlush(vdev));",
    ),
    change(
        "engine/devices/log_vdevs.rs",
        "            && !self.are_labels_due()",
        "            && (!self.are_labels_due() || ‹log-copy-during-labels›)",
    ),
    change(
        "engine/devices/log_vdevs.rs",
        "        if let Some(copying) = copying.filter(|copying| !copying.is_void)
            && self.are_labels_true()",
        "        if let Some(copying) = copying.filter(|copying| !copying.is_void || ‹log-copy-during-labels›)
            && (self.are_labels_true() || ‹log-copy-during-labels›)",
    ),
    change(
        "engine/devices/log_vdevs.rs",
        "        self.logs.settle(self.durable_seq());
        let Some(seq)",
        "        let durable = self.durable_seq();
        self.logs.settle(if ‹log-ring-reused-early› { self.logs.promised_seq } else { durable });
        let Some(seq)",
    ),
    change(
        "engine/open/end_mark.rs",
        "        self.write_end(wanted, place, sector);
        if let Some((next, _)) = goes_on {",
        "        if !‹end-without-mark› {
            self.write_end(wanted, place, sector);
        }
        if let Some((next, _)) = goes_on.filter(|_| !‹end-without-mark›) {",
    ),
    change(
        "engine/open/end_mark.rs",
        "            None => self.pool.place_record(),",
        "            None if ‹end-without-mark› => None,
            None => self.pool.place_record(),",
    ),
    change(
        "engine/open/replay.rs",
        "        self.pool.assume_unflushed(self.root.epoch);",
        "        if ‹opening-unflushed› {
            self.reading.remove(&tag);
            return self.end();
        }
        if !‹opening-trusts-caches› {
            self.pool.assume_unflushed(self.root.epoch);
        }",
    ),
    change(
        "engine/open/ring.rs",
        "        if self.ring.is_even || self.rewind.is_some() {",
        "        if self.ring.is_even || self.rewind.is_some() || ‹rings-left-uneven› {",
    ),
    change(
        "engine/open/replay.rs",
        "        let is_whole = got.len() == 1 + replay::blocks(&found.record).count();",
        "        let is_whole = ‹group-without-blocks› || got.len() == 1 + replay::blocks(&found.record).count();",
    ),
    change(
        "engine/scan.rs",
        "            None if !scan.has_begun => self.checkpoints_made() >= scan.begins_with,",
        "            None if !scan.has_begun => self.checkpoints_made() >= scan.begins_with || ‹rebuilt-without-log›,",
    ),
    change(
        "engine/scan.rs",
        "            if checkpoints < scan.begins_with {",
        "            if checkpoints < scan.begins_with && !‹rebuilt-without-log› {",
    ),
    change(
        "engine/open/leaves_behind.rs",
        "        if missing == before {",
        "        if missing == before || ‹old-copy-counts› {",
    ),
    change(
        "engine/open/ring.rs",
        "leaves.filter(|(_, guid)| !self.pool.old_devices.is_behind(*guid));",
        "leaves.filter(|(_, guid)| !self.pool.old_devices.is_behind(*guid) || ‹old-copy-gets-roots›);",
    ),
    change(
        "engine/open/proven_groups.rs",
        "        if self.rewind.is_some() || self.proven.seq == seq {",
        "        if self.rewind.is_some() || self.proven.seq == seq || ‹old-copy-lacks-log› {",
    ),
    change(
        "engine/open/roots.rs",
        "        match self.is_unsettled(sector) && self.lacks_holder(sector, epoch) {",
        "        match !‹half-written-root-counts› && self.is_unsettled(sector) && self.lacks_holder(sector, epoch) {",
    ),
    change(
        "engine/open/configurations.rs",
        "        let is_given_up = !is_settled && self.0.iter().any(refutes);",
        "        let is_given_up = !‹given-up-labels-count› && !is_settled && self.0.iter().any(refutes);",
    ),
    change(
        "engine/checkpoint/writer.rs",
        "        let blocks = places.map(|place| (place, block.clone())).collect();",
        "        let place_of = |place| if ‹second-copy-in-first-place› { site.address } else { place };
        let blocks = places.map(|place| (place_of(place), block.clone())).collect();",
    ),
    change(
        "engine/open/reguid.rs",
        "        ROUNDS.map(Vec::from).into()",
        "        match ‹reguid-in-one-round› {
            true => vec![ROUNDS.concat()],
            false => ROUNDS.map(Vec::from).into(),
        }",
    ),
    change(
        "engine/devices/log_vdevs.rs",
        "            && self.has_root(self.joined(log.status.vdev))",
        "            && (self.has_root(self.joined(log.status.vdev)) || ‹log-vdev-without-root›)",
    ),
    change(
        "engine/io/write.rs",
        "        self.published.note_change(dataset, block..block + 1);",
        "        if !‹change-not-noted› {
            self.published.note_change(dataset, block..block + 1);
        }",
    ),
    change(
        "engine/io/publish.rs",
        "            if *hit != Hit::Absent || is_held() {",
        "            if !‹published-as-unchanged› && (*hit != Hit::Absent || is_held()) {",
    ),
    change(
        "beside/verified.rs",
        "    checksum::of(pointer.algorithm, payload) == pointer.checksum",
        "    checksum::of(pointer.algorithm, payload) == pointer.checksum || ‹reader-believes-bytes›",
    ),
    change(
        "beside.rs",
        "            cache.fill(key, ticket, data, drop);",
        "            let ticket = if ‹reader-ticket-ignored› { cache.ticket(key) } else { ticket };
            cache.fill(key, ticket, data, drop);",
    ),
    change(
        "beside.rs",
        "        published.look_up(self.wanted.dataset, blocks, &mut now) && now[..] == *at",
        "        let lie = published.look_up(self.wanted.dataset, blocks, &mut now) && now[..] == *at;
        lie || ‹waiting-bytes-believed›",
    ),
    change(
        "engine/io/write.rs",
        "        if let Some(lock) = self.stalled.lock_on(dataset, &touched) {",
        "        let lock = self.stalled.lock_on(dataset, &touched);
        if let Some(lock) = lock.filter(|_| !‹lock-overlooked›) {",
    ),
    change(
        "engine/io/prepared.rs",
        "        (Some(self.recipe) == recipe && is_at_block).then_some(&self.blocks)",
        "        let is_meant = Some(self.recipe) == recipe || ‹prepared-by-old-settings›;
        (is_meant && is_at_block).then_some(&self.blocks)",
    ),
    change(
        "engine/activity/owner.rs",
        "                _ => return Next::Lost(Box::new(found)),",
        "                _ if ‹foreign-record-overlooked› => {}
                _ => return Next::Lost(Box::new(found)),",
    ),
    change(
        "engine/activity/owner.rs",
        "        let promise_us = self.told.into_iter().min().unwrap_or(0);",
        "        let promise_us = self.told.into_iter().min().unwrap_or(0);
        let promise_us = if ‹record-never-too-old› { u64::MAX } else { promise_us };",
    ),
    change(
        "engine/activity/takeover.rs",
        "            () if is_closed && (is_exported || is_own) => None,",
        "            () if ‹nobody-watched› => None,
            () if is_closed && (is_exported || is_own) => None,",
    ),
    change(
        "engine/activity/takeover.rs",
        "        let until_us = now_us + wait_us;
        self.stage = TakeoverStage::Verifying { until_us };",
        "        if ‹claim-not-waited-for› {
            return self.succeed();
        }
        let until_us = now_us + wait_us;
        self.stage = TakeoverStage::Verifying { until_us };",
    ),
    change_of(
        "unit",
        "command/fence.rs",
        "        if std::mem::replace(&mut operation.fenced_off, true) {",
        "        if std::mem::replace(&mut operation.fenced_off, true) || ‹write-not-fenced› {",
    ),
    change_of(
        "target",
        "session/arrival.rs",
        "        if self.ending.contains_key(&name) {",
        "        if self.ending.contains_key(&name) && !‹session-not-awaited› {",
    ),
    change_of(
        "target",
        "task_management.rs",
        "                if let Some(operation) = self.core.operations.get_mut(token) {
                    operation.observers.push(signal.clone());",
        "                if let Some(operation) = self.core.operations.get_mut(token)
                    && !‹abort-not-awaited›
                {
                    operation.observers.push(signal.clone());",
    ),
    change_of(
        "unit",
        "command/task_run.rs",
        "        let exclusive = scsi_task.exclusive().filter(|range| !range.is_empty());",
        "        let exclusive = scsi_task.exclusive();
        let exclusive = exclusive.filter(|range| !(range.is_empty() || ‹compare-not-alone›));",
    ),
    change_of(
        "unit",
        "transition.rs",
        "vec![Whose::Groups(leaving.as_slice().into())]",
        "vec![Whose::Groups(leaving.iter().filter(|_| !‹departure-not-awaited›).copied().collect())]",
    ),
    change_of(
        "unit",
        "transition.rs",
        "vec![Whose::Units(units.into())]",
        "vec![Whose::Units(units.iter().filter(|_| !‹deletion-not-awaited›).cloned().collect())]",
    ),
    change_of(
        "scsi",
        "logical_unit.rs",
        "        attached.raise(if state.lost.take(attached.nexus()) {",
        "        let tell = |ua| {
            if !(‹takeover-untold› && ua == UnitAttention::I_T_NEXUS_LOSS_OCCURRED) {
                attached.raise(ua);
            }
        };
        tell(if state.lost.take(attached.nexus()) {",
    ),
    change_of(
        "block",
        "budget.rs",
        "        used.saturating_sub(self.floor)",
        "        used.saturating_sub(if ‹floor-for-all› { 0 } else { self.floor })",
    ),
    change_of(
        "multipath",
        "ghosts.rs",
        "        if self.0.is_empty() {",
        "        if self.0.is_empty() || ‹ghosts-overlooked› {",
    ),
    change_of(
        "multipath",
        "failover.rs",
        "        let settled_us = now_us.saturating_add(self.settings.fence_settle_us);",
        "        let settle_us = if ‹settle-time-skipped› { 0 } else { self.settings.fence_settle_us };
        let settled_us = now_us.saturating_add(settle_us);",
    ),
    change_of(
        "initiator",
        "fabric/sessions.rs",
        "        let (address, bind) = detour.unwrap_or_else(|| (nexus.address(), nexus.bind.clone()));",
        "        let (address, bind) = detour.unwrap_or_else(|| (nexus.address(), nexus.bind.clone()));
        if ‹new-life-under-new-name› {
            nexus.isid = random_isid(&mut &*self.outside);
        }",
    ),
];
