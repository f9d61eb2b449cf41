use super::*;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// A folder with the files of a machine, which ends with the test.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Tree {
        let root = std::env::temp_dir().join(format!("glassline-machine-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir_all(&root).unwrap();
        Tree(root)
    }

    fn files(&self) -> Files {
        Files { proc: self.0.join("proc"), sys: self.0.join("sys") }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_machine_is_read_from_its_files() {
    let tree = Tree::new(
        "whole",
        &[
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
            ("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
            ("proc/meminfo", "MemTotal: 4 kB\nMemAvailable: 2 kB\n"),
            ("proc/self/cgroup", "0::/system.slice/x.service\n"),
            ("sys/fs/cgroup/system.slice/cpu.max", "300000 100000\n"),
            ("sys/fs/cgroup/system.slice/x.service/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/system.slice/x.service/memory.max", "1048576\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "max\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "schedutil\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_driver", "acpi-cpufreq\n"),
            ("sys/devices/system/cpu/cpufreq/other", "\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("sys/class/ptp/ptp0/clock_name", "igb\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/kernel/mm/transparent_hugepage/shmem_enabled", "nonsense\n"),
            ("sys/class/net/card9/operstate", "up\n"),
            ("sys/class/net/card9/device/vendor", "0x8086\n"),
            ("sys/class/net/card9/queues/rx-0/rps_cpus", "03\n"),
            ("sys/class/net/card9/queues/rx-1/rps_cpus", "00\n"),
            ("sys/class/net/card9/queues/tx-0/xps_cpus", "00\n"),
            ("sys/class/net/down/operstate", "down\n"),
            ("sys/class/net/down/device/vendor", "0x8086\n"),
            ("sys/class/net/bridge/operstate", "up\n"),
        ],
    );
    let machine = Machine::read(&tree.files());
    assert_eq!(machine.release.value().map(|text| parse::kernel_version(text)), Some(Some((6, 1))));
    assert_eq!(machine.number("net.core.rmem_max"), Known::Is(212_992));
    assert_eq!(machine.number("net.ipv4.tcp_wmem"), Known::Is(4_194_304));
    assert_eq!(machine.number("net.core.wmem_max"), Known::Absent);
    assert!(matches!(machine.number("net.ipv4.tcp_congestion_control"), Known::Hidden(_)));
    assert_eq!(machine.memory, Known::Is((4096, 2048)));
    assert_eq!(machine.processor_quota, Known::Is(3.0), "the group above has one");
    assert_eq!(machine.memory_limit, Known::Is(1 << 20));
    assert_eq!(machine.governors, Known::Is(vec![("acpi-cpufreq".into(), "schedutil".into())]));
    assert_eq!(machine.clock_source, Known::Is("tsc".into()));
    assert_eq!(machine.ptp_clocks, Known::Is(vec!["ptp0 (igb)".into()]));
    assert_eq!(machine.huge_pages, Known::Is("madvise".into()));
    assert!(matches!(machine.huge_memory_files, Known::Hidden(_)));
    let Known::Is(cards) = machine.cards else { panic!("no cards") };
    let [card] = &cards[..] else { panic!("{cards:?}") };
    assert_eq!((card.receive.count, card.receive.steered), (2, 1));
    assert_eq!((card.transmit.count, card.transmit.steered), (1, 0));
    // No interface of this machine has the name.
    assert_eq!((&card.rings, &card.disciplines), (&Known::Absent, &Known::Absent));
}

#[test]
fn a_bare_environment_tells_nothing_and_fails_nowhere() {
    let machine = Machine::read(&Tree::new("bare", &[]).files());
    assert_eq!(machine.release, Known::Absent);
    assert_eq!((machine.memory, machine.memory_limit), (Known::Absent, Known::Absent));
    assert_eq!((machine.governors, machine.cards), (Known::Absent, Known::Absent));
    assert!(machine.processors > 0 && machine.descriptors.1 >= machine.descriptors.0);
}

#[test]
fn a_file_that_may_not_be_read_is_hidden_and_not_absent() {
    if crate::privileges::is_root() {
        // Root reads all; a folder in a file's place is as unreadable.
        let tree = Tree::new("folder", &[("proc/sys/kernel/osrelease/x", "")]);
        assert!(matches!(Machine::read(&tree.files()).release, Known::Hidden(_)));
        return;
    }
    let tree = Tree::new("hidden", &[("proc/sys/kernel/osrelease", "6.1")]);
    fs::set_permissions(tree.0.join("proc/sys/kernel/osrelease"), Permissions::from_mode(0o000)).unwrap();
    assert!(matches!(Machine::read(&tree.files()).release, Known::Hidden(_)));
}

#[test]
fn this_machine_is_read() {
    let machine = Machine::read(&Files::default());
    assert!(machine.release.value().is_some_and(|text| parse::kernel_version(text).is_some()), "{machine:?}");
    assert!(machine.memory.value().is_some());
}
