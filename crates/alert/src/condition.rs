//! Conditions for alerts, in one table. Evaluation, listings, documents and Prometheus rules are
//! made from it.

use model::event::Severity;

/// A condition that an object may be in, and that somebody should know of.
#[derive(Debug)]
pub struct Condition {
    /// Name of the condition, in kebab case.
    pub id: &'static str,
    /// Gravity of the condition.
    pub severity: Severity,
    /// Seconds for which the condition must hold before anybody is told.
    pub hold_s: u64,
    /// Kind of the objects that the condition is about.
    pub object: &'static str,
    /// Description of the condition, as a sentence.
    pub meaning: &'static str,
    /// Place to look at, as a sentence.
    pub look: &'static str,
    /// Remedy, as a sentence.
    pub remedy: &'static str,
    /// Conditions that say the same of an object, and worse. While one of them holds, the end of
    /// this one is not told.
    pub outranked_by: &'static [&'static str],
}

macro_rules! conditions {
    ($($name:ident = $id:literal, $severity:ident, $hold_s:literal, $object:literal
        $(, below $outranked_by:expr)?;
        $meaning:literal; $look:literal; $remedy:literal;)*) => {
        $(
            #[doc = $meaning]
            pub static $name: Condition = Condition {
                id: $id,
                severity: Severity::$severity,
                hold_s: $hold_s,
                object: $object,
                meaning: $meaning,
                look: $look,
                remedy: $remedy,
                outranked_by: conditions!(@list $($outranked_by)?),
            };
        )*

        /// All conditions.
        pub static CONDITIONS: &[&Condition] = &[$(&$name),*];
    };
    (@list) => { &[] };
    (@list $list:expr) => { $list };
}

conditions! {
    POOL_SUSPENDED = "pool-suspended", Critical, 0, "pool";
    "The pool takes no changes any more: hosts that write to its volumes wait or fail.";
    "`pool status POOL` says why it stopped; `pool events POOL` what happened before.";
    "Bring its devices back. Then `pool clear POOL` resumes it, if it does not resume by itself.";

    POOL_NOT_OPEN = "pool-not-open", Critical, 10, "pool";
    "The pool should be open and is not: nothing of it is served.";
    "`pool status POOL` names the missing devices or the reason.";
    "Attach the missing devices: the pool opens by itself. Or `pool export POOL` if it is not wanted here.";

    DATA_LOST = "data-lost", Critical, 0, "pool";
    "Blocks of the pool have no correct copy on any device, or acknowledged writes are lost.";
    "`pool status -v POOL` names the volumes and ranges.";
    "Restore these data from a backup, then `pool clear POOL` and `pool scrub POOL`.";

    POOL_DEGRADED = "pool-degraded", Error, 10, "pool", below &["pool-suspended", "pool-not-open"];
    "The pool serves everything, but with less redundancy: one more fault may lose data.";
    "`pool status POOL` shows the device that is missing, faulted or offline.";
    "Replace it with `pool replace POOL DEVICE NEW`, or bring it back with `pool online POOL DEVICE`.";

    DEVICE_FAULTED = "device-faulted", Error, 5, "device of a pool";
    "A device of the pool is not used: it failed too often, is gone, or does not answer.";
    "`pool status POOL` shows its state and the reason.";
    "Replace it with `pool replace POOL DEVICE NEW`; `pool clear POOL DEVICE` trusts it again.";

    SPARE_IN_USE = "spare-in-use", Error, 0, "device of a pool";
    "A hot spare stands in for a device that failed.";
    "`pool status POOL` shows which device it replaces.";
    "Replace the failed device with `pool replace POOL DEVICE NEW`; the spare is free again afterwards.";

    NO_SPARE_LEFT = "no-spare-left", Error, 60, "pool";
    "The pool has hot spares, and none of them can be used for the next failure.";
    "`pool status POOL` lists the spares and their states.";
    "Add one with `pool add POOL spare DEVICE`.";

    DEVICE_ERRORS_GROWING = "device-errors-growing", Error, 0, "device of a pool", below &["device-faulted"];
    "A device returned errors or wrong bytes several times within ten minutes.";
    "`pool status POOL` counts them by kind; `pool events POOL` tells where; the kernel's log says why.";
    "Check cable, controller and disk. Replace the disk with `pool replace POOL DEVICE NEW` before it fails.";

    CHECKSUM_ERRORS = "checksum-errors", Error, 0, "device of a pool";
    "A device returned wrong bytes without an error. They were corrected if the pool is redundant.";
    "`pool status POOL`, column CKSUM.";
    "Run `pool scrub POOL`. Replace the device if the number grows; `pool clear POOL DEVICE` ends the alert.";

    DISK_FAILING = "disk-failing", Critical, 0, "disk of this machine";
    "The disk says of itself that it fails or has failed (SMART).";
    "`pool disks` shows its reasons, its serial number and its pool.";
    "Replace it now: `pool replace POOL DEVICE NEW`. `pool disks --locate DISK` lights the lamp of its slot.";

    DISK_WEARING = "disk-wearing", Warning, 0, "disk of this machine", below &["disk-failing"];
    "The disk counts more errors than before (SMART), or is past the life that it is rated for.";
    "`pool disks` shows which count grew. Errors of the cable come from cable and backplane, not from the disk.";
    "Have another disk ready, and check the cable. Growth is told for a month; `alert ack` it if you know of it.";

    SLOWER_THAN_MIRROR = "slower-than-mirror", Warning, 600, "device of a pool";
    "A device takes three times as long as another half of its mirror, and has for ten minutes.";
    "`pool iostat -v -l POOL`, columns of the disk's wait.";
    "A disk that is slow alone often fails soon: check it, and have another one ready.";

    POOL_80_PERCENT = "pool-80-percent", Warning, 60, "pool", below &["pool-90-percent", "pool-full"];
    "80 per cent of the pool's space is in use.";
    "`volume list -t all -r -S used POOL` lists what takes the space.";
    "Destroy what is not needed, or add devices with `pool add POOL VDEV`, before it is full.";

    POOL_90_PERCENT = "pool-90-percent", Error, 60, "pool", below &["pool-full"];
    "90 per cent of the pool's space is in use.";
    "`volume list -t all -r -S used POOL` lists what takes the space.";
    "Destroy snapshots and volumes that are not needed, or add devices with `pool add POOL VDEV`, now.";

    POOL_FULL = "pool-full", Critical, 0, "pool";
    "The pool is full: writes that need space fail, and hosts may stop.";
    "`volume list -t all -r -S used POOL` lists what takes the space.";
    "Destroy snapshots first (`volume destroy POOL/VOLUME@SNAPSHOT`), or add devices with `pool add POOL VDEV`.";

    FULL_WITHIN_14_DAYS = "full-within-14-days", Warning, 3600, "pool", below &["pool-full"];
    "At the pace of the last days, the pool is full within 14 days.";
    "`pool list POOL` shows its space; `volume list -t all -r -S used POOL` what takes it.";
    "Add devices with `pool add POOL VDEV`, or destroy what is not needed.";

    POOL_PROMISED_TOO_MUCH = "pool-promised-too-much", Warning, 60, "pool";
    "The pool's volumes promise hosts more than three times its size.";
    "`pool list POOL` shows its space; `volume list -t all -r -S volsize POOL` the volumes.";
    "Watch how full the pool is, and have devices ready for `pool add POOL VDEV`.";

    SCRUB_OVERDUE = "scrub-overdue", Warning, 0, "pool";
    "No scrub of the pool has ended for 62 days: rotten blocks may wait for the next failure.";
    "`pool status POOL`, line scan.";
    "Run `pool scrub POOL`, once a month.";

    UNIT_FAULTED = "unit-faulted", Critical, 30, "logical unit";
    "The logical unit should serve, and does not: its disk, file or pool is missing or broken.";
    "`lu list LU` shows the reason.";
    "Bring back what lies beneath it: the unit is served again by itself.";

    UNIT_LOST_WRITES = "unit-lost-writes", Critical, 0, "logical unit";
    "Acknowledged writes of the unit may be lost, or a SANITIZE left its blocks undefined.";
    "`lu list LU` and `status` say which.";
    "Let the hosts check their data as after a power cut. Then `lu clear LU KIND` ends the state.";

    UNIT_FULL = "unit-full", Critical, 10, "logical unit";
    "Writes to the unit that need new space fail: nothing is left beneath it.";
    "`lu list -o name,used,avail LU`.";
    "Make space in the pool or file system beneath.";

    UNIT_THRESHOLD = "unit-threshold", Warning, 60, "logical unit", below &["unit-full"];
    "The unit reached the soft threshold of thin provisioning that was set for it.";
    "`lu list -o name,used,avail LU`.";
    "Make space in the pool or file system beneath, or raise the threshold with `lu modify`.";

    UNIT_ONE_PATH = "unit-one-path", Warning, 300, "logical unit";
    "One session uses the unit, and within a day there were several: the next fault of a link stops its host.";
    "`session list` shows the session that is left; `events` when the others ended.";
    "Check the links and the paths of the host. If it was meant, `alert ack` it: it is forgotten after a day.";

    PORTAL_NOT_LISTENING = "portal-not-listening", Error, 30, "portal";
    "A portal of a target cannot be bound: initiators cannot reach the target there.";
    "`status` says why.";
    "Give the address to an interface, or free the port: the portal is bound by itself.";

    HOST_LOST_PATHS = "host-lost-paths", Warning, 60, "initiator";
    "An initiator has fewer paths to a target than it had, and still has others.";
    "`session list` shows its sessions; `events` when the others ended.";
    "Check its network card, cable and switch. If it was meant, `alert ack` it: it is forgotten after a day.";

    DEVICE_ONE_PATH = "device-one-path", Warning, 30, "disk of another machine", below &["device-no-path"];
    "A disk of another machine had several paths, and one is left.";
    "`initiator path list -d DEVICE` shows the dead ones and why.";
    "Check the network to the portals that are dead.";

    DEVICE_NO_PATH = "device-no-path", Critical, 10, "disk of another machine";
    "No path to a disk of another machine is alive: its I/O waits, then fails.";
    "`initiator session list` and `initiator path list -d DEVICE` say why.";
    "Check the other machine and the network. I/O goes on by itself.";

    LOGIN_REFUSED_REPEATEDLY = "login-refused-repeatedly", Warning, 0, "initiator";
    "Logins of an initiator were refused five times or more within ten minutes.";
    "`events --severity warning` says why; `map explain INITIATOR` what it may see.";
    "Correct its name, secret or map; or stop it, if it does not belong here.";

    DIGEST_ERRORS = "digest-errors", Warning, 0, "initiator";
    "Data of a session arrived damaged within the last ten minutes; its digest showed it.";
    "`session list -o initiator,peer,portal,digests`; errors of the network cards on both sides.";
    "Check cables, switch and offloads of the network card. Keep data digests on until it is mended.";

    TCP_RETRANSMITS = "tcp-retransmits", Warning, 300, "portal";
    "More than 0.1 % of the segments that the portal sent were lost on the way, for five minutes.";
    "`session list -o initiator,peer,portal`; drops of the network cards and switches on both sides.";
    "Check cables and switches, flow control, and that the MTU is equal on the whole way.";

    KAVG_HIGH = "kavg-high", Warning, 300, "logical unit";
    "Commands of the unit waited more than 1 ms on average before the device began, for five minutes.";
    "`iostat LU`, column QUEUE.";
    "Look for few commands at once (queue depth), reservations of ranges, or an overloaded machine.";

    DAVG_HIGH = "davg-high", Warning, 300, "logical unit";
    "The device beneath the unit took more than 20 ms on average, for five minutes.";
    "`iostat LU`, column DEVICE; `pool iostat -v -l POOL` for its disks.";
    "Look for a slow disk, a scrub or resilver, or more load than the disks can take.";

    STATE_FOLDER_FULL = "state-folder-full", Error, 0, "state folder";
    "The file system of the state folder is nearly full, or cannot be written: changes may fail.";
    "`df` of the folder that `status` names.";
    "Make space there. What is served goes on.";

    STATE_FILE_DAMAGED = "state-file-damaged", Warning, 0, "state folder";
    "A file of the state folder was damaged, and was replaced or passed over.";
    "`status` says which, and what to do.";
    "Follow its advice; check the disk of the state folder.";

    DAEMON_WAS_KILLED = "daemon-was-killed", Error, 0, "daemon";
    "The last run of the daemon did not end in order. The alert ends after an hour.";
    "The log of the system: `journalctl -b -1 -u sandstone`, `dmesg` for the memory killer.";
    "Find out what ended it. Writes that were acknowledged as durable are kept in any case.";

    WATCH_STALLED = "watch-stalled", Error, 30, "daemon";
    "A part of the daemon does not answer the watch: its alerts show the last known state.";
    "The daemon's log, and `dmesg` for disks that hang.";
    "A disk that hangs is the usual cause: pull or reset it.";

    CLOCK_OFF = "clock-off", Warning, 3600, "clock";
    "No time server has set the clock of this machine for hours, or ever: it may be far off.";
    "`chronyc tracking`, or `timedatectl timesync-status`.";
    "Start a client of a time server, such as chrony. Codes of users, certificates and times of events need the time.";

    CERTIFICATE_ENDS = "certificate-ends", Warning, 0, "certificate";
    "The certificate of the console ends within 21 days, or has ended: clients then refuse the console.";
    "`tls show` says when it ends and where it comes from.";
    "Give the daemon another one with `tls give`, or replace its files. `tls make` makes one of this machine's own.";

    MAIL_NOT_REACHED = "mail-not-reached", Warning, 300, "way out";
    "Alerts cannot be sent by mail: the server does not take them.";
    "`alert way list` shows the last error; `alert test WAY` tries again.";
    "Correct server, user or password with `alert way modify WAY`. Queued alerts are sent for a day.";

    WEBHOOK_NOT_REACHED = "webhook-not-reached", Warning, 300, "way out";
    "Alerts or heartbeats cannot be sent to a webhook: the server does not take them.";
    "`alert way list` shows the last error; `alert test WAY` tries again.";
    "Correct its address or key with `alert way modify WAY`. Queued alerts are sent for a day.";
}

/// Programs of the system that texts of conditions name beside Sandstone's own verbs.
const OF_THE_SYSTEM: &[&str] = &["chronyc", "df", "dmesg", "journalctl", "timedatectl"];

impl Condition {
    /// Returns the place to look at for an object: with commands as they are typed.
    pub fn look_at(&self, object: &str) -> String {
        self.about(object, self.look)
    }

    /// Returns the remedy for an object: with commands as they are typed.
    pub fn remedy_for(&self, object: &str) -> String {
        self.about(object, self.remedy)
    }

    /// Returns a text with the object's name in its commands. Other words in capitals stay: the
    /// reader chooses, for example, the new device.
    fn about(&self, object: &str, text: &str) -> String {
        let names: Vec<(&str, &str)> = match self.object {
            "pool" => vec![("POOL", object)],
            "device of a pool" => {
                let (pool, device) = object.split_once(' ').unwrap_or((object, "DEVICE"));
                vec![("POOL", pool), ("DEVICE", device)]
            }
            "disk of this machine" => vec![("DEVICE", object), ("DISK", object)],
            "disk of another machine" => vec![("DEVICE", object)],
            "logical unit" => vec![("LU", object)],
            "initiator" => vec![("INITIATOR", object)],
            "way out" => vec![("WAY", object)],
            _ => Vec::new(),
        };
        // Initiators and other machines choose names too. One that a shell would read differently
        // stands in no command.
        let is_typed_safely = |name: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_/@+".contains(&byte);
            !name.starts_with('-') && name.bytes().all(is_plain)
        };
        let named = |word: &str| {
            let mut names = names.iter();
            let known = names.find(|(wanted, name)| *wanted == word && is_typed_safely(name));
            known.map_or(word.to_owned(), |(_, name)| (*name).to_owned())
        };
        let mut told = String::new();
        for (at, part) in text.split('`').enumerate() {
            if at % 2 == 0 {
                told.push_str(part);
                continue;
            }
            let words: Vec<String> = part.split(' ').map(named).collect();
            let is_ours = !OF_THE_SYSTEM.contains(&words[0].as_str());
            let program = if is_ours { "sandstone " } else { "" };
            told.push_str(&format!("`{program}{}`", words.join(" ")));
        }
        told
    }
}

/// Returns the condition of this name.
pub fn condition(id: &str) -> Option<&'static Condition> {
    CONDITIONS.iter().copied().find(|it| it.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_kebab_case_and_lead_back() {
        for (at, one) in CONDITIONS.iter().enumerate() {
            let is_kebab = one
                .id
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            assert!(is_kebab, "{}", one.id);
            assert!(CONDITIONS[..at].iter().all(|other| other.id != one.id));
            assert!(condition(one.id).is_some_and(|found| std::ptr::eq(found, *one)));
            assert!(one.severity > Severity::Info, "{}", one.id);
            for above in one.outranked_by {
                let above = condition(above).expect("a condition");
                assert_eq!(above.object, one.object, "{}", one.id);
                assert!(above.severity >= one.severity, "{}", one.id);
            }
        }
    }

    #[test]
    fn commands_about_an_object_can_be_typed() {
        assert_eq!(
            DEVICE_FAULTED.remedy_for("tank /dev/sdb"),
            "Replace it with `sandstone pool replace tank /dev/sdb NEW`; `sandstone pool clear tank /dev/sdb` \
             trusts it again."
        );
        assert_eq!(
            DAEMON_WAS_KILLED.look_at("daemon"),
            "The log of the system: `journalctl -b -1 -u sandstone`, `dmesg` for the memory killer."
        );
        let hostile = LOGIN_REFUSED_REPEATEDLY.look_at("iqn.a;reboot");
        assert!(!hostile.contains("reboot"), "{hostile}");
    }

    /// The document is written for people, and follows the table word for word.
    #[test]
    fn the_document_and_the_table_agree() {
        let text = include_str!("../../../docs/alerts.md");
        let (_, sections) = text.split_once("## Conditions\n").expect("the sections");
        let sections: Vec<&str> = sections.split("### ").skip(1).collect();
        assert_eq!(sections.len(), CONDITIONS.len());
        for (section, condition) in sections.into_iter().zip(CONDITIONS) {
            let held = match condition.hold_s {
                0 => "at once".to_owned(),
                60 => "after 1 minute".to_owned(),
                3600 => "after 1 hour".to_owned(),
                seconds if seconds < 60 => format!("after {seconds} s"),
                seconds => format!("after {} minutes", seconds / 60),
            };
            let expected = format!(
                "{} {:?}, {}, told {held}. {} - Look at: {} - Remedy: {}",
                condition.id,
                condition.severity,
                condition.object,
                condition.meaning,
                condition.look,
                condition.remedy
            );
            let flat: Vec<&str> = section.split_whitespace().collect();
            assert_eq!(flat.join(" "), expected);
        }
    }
}
