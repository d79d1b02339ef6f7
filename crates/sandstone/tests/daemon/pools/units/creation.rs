//! `lu create`: a volume of the pool by default, and a clear answer where it cannot be.

use super::*;

#[test]
fn a_unit_is_a_volume_of_the_pool_by_default() {
    let process = Process::start();
    let text = process.refused("lu create vm1 --size 64M");
    assert!(
        text.contains("there is no pool for the volume of logical unit vm1"),
        "{text}"
    );
    assert!(
        text.contains("sandstone lu create vm1 --file --size 64M"),
        "{text}"
    );
    process.done("lu create plain --file --size 64M");
    process.done("pool create --size 256M tank a");
    process.done("lu create vm1 --size 64M");
    process.done("lu create vm2 --size 64M --preallocate --volblocksize 4K");
    let listed = process.done("volume list -H -p -o name,volsize,volblock -t volume");
    assert_eq!(
        listed,
        "tank/vm1\t67108864\t16384\ntank/vm2\t67108864\t4096\n"
    );
    let got = process.done("volume get -H -p -o name,value refreservation tank/vm1 tank/vm2");
    assert_eq!(got, "tank/vm1\tnone\ntank/vm2\t67108864\n");
    let columns = "name,used,refer,usedbyrefreservation,refreservation";
    let listed = process.done(&format!("volume list -H -p -t volume -o {columns}"));
    assert_eq!(
        listed,
        "tank/vm1\t0\t0\t0\tnone\ntank/vm2\t67108864\t0\t67108864\t67108864\n"
    );
    let listed = process.done("volume get -H -p -o value,source usedbyrefreservation tank/vm2");
    assert_eq!(listed, "67108864\t-\n");
    let listed = process.done("lu list -H -o name,backend,physical plain vm1 vm2");
    assert_eq!(
        listed,
        "plain\tvolumes/plain.img\t4K\nvm1\ttank/vm1\t4K\nvm2\ttank/vm2\t4K\n"
    );

    // A dry run makes nothing; nor does a refused command.
    process.done("lu create vm3 --size 64M --dry-run");
    process.refused("lu create vm1 --volume tank/vm3 --size 64M");
    process.refused("lu create vm3 --volume tank/vm3 --size 64M --naa 5000");
    process.refused("lu create vm3 --volume tank/vm3");
    let text = process.refused("lu create vm1 --size 64M");
    assert!(text.contains("tank/vm1"), "{text}");
    let listed = process.done("volume list -H -o name -t volume");
    assert_eq!(listed, "tank/vm1\ntank/vm2\n");

    // The volume outlives the unit.
    let text = process.done("lu delete -y vm1");
    assert!(text.contains("its data stays in tank/vm1"), "{text}");
    process.done("lu create again --volume tank/vm1");

    process.done("pool create --size 256M pond b");
    let text = process.refused("lu create vm3 --size 64M");
    assert!(text.contains("several pools (pond, tank)"), "{text}");
    assert!(text.contains("--volume pond/vm3 --size 64M"), "{text}");
    let text = process.refused("lu create pond/vm3 --size 64M");
    assert!(
        text.contains("lu create vm3 --volume pond/vm3 --size 64M"),
        "{text}"
    );
    process.done("lu create vm3 --volume pond/vm3 --size 64M");
    process.done(&format!(
        "share vm4 --host iqn.2026-01.io.sandstone:client --target {TARGET} --portal {} --volume pond/vm4 --size 64M",
        free_portal()
    ));
    // Sharing the unit once more makes nothing.
    process.done(&format!(
        "share vm4 --host iqn.2026-01.io.sandstone:other --target {TARGET} --volume pond/vm4 --size 64M"
    ));
    let listed = process.done("volume list -H -o name -t volume -r pond");
    assert_eq!(listed, "pond\npond/vm3\npond/vm4\n");
}

#[test]
fn a_unit_has_the_size_of_its_volume_when_that_is_set() {
    let bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M");
    let mut session = bench.log_in(1, 1);
    let blocks = |session: &mut Session| {
        let mut capacity = cdb(0x9e, 0, 32);
        capacity[1] = 0x10;
        let told = ask(session, 0, &capacity);
        u64::from_be_bytes(told[..8].try_into().expect("eight bytes")) + 1
    };
    assert_eq!(blocks(&mut session), (64 << 20) / BLOCK as u64);
    for (line, mebibytes) in [
        ("volume set volsize=96M tank/vm", 96),
        ("volume set --shrink volsize=32M tank/vm", 32),
    ] {
        bench.process.done(line);
        let told = session.read(0, &[0; 6], 0).unwrap();
        assert_eq!(sense(&told), Some([6, 0x2a, 0x09]), "{line}");
        assert_eq!(
            blocks(&mut session),
            (mebibytes << 20) / BLOCK as u64,
            "{line}"
        );
    }
}
