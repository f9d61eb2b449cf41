use super::*;
use glassline_io::machine::{Interface, Known, Queues};
use glassline_io::nic::Ring;
use glassline_media::stamps::ClockAccuracy;
use std::time::Duration;

const NOW: Utc = Utc::from_nanos(1_800_000_000 * 1_000_000_000);
const DAY: i64 = 86_400;

fn row(machine: &Machine, job: &Job, trials: &Trials, check: &str) -> Row {
    let rows = judge(machine, job, trials, NOW);
    let found: Vec<&Row> = rows.iter().filter(|row| row.check.starts_with(check)).collect();
    assert_eq!(
        found.len(),
        1,
        "{check}: {found:?} of {:?}",
        rows.iter().map(|row| &row.check).collect::<Vec<_>>()
    );
    // A row that is not good says what to do, and what for.
    let row = found[0].clone();
    assert_eq!(row.state == State::Ok, row.command.is_none(), "{row:?}");
    assert!(row.state == State::Ok || !row.worth.is_empty(), "{row:?}");
    row
}

fn state(machine: &Machine, job: &Job, check: &str) -> State {
    row(machine, job, &Trials::default(), check).state
}

#[test]
fn parameters_of_sockets_are_good_from_their_border_on() {
    for (name, short, enough) in [
        ("net.core.somaxconn", "4095", "4096"),
        ("net.ipv4.tcp_max_syn_backlog", "1023", "1024"),
        ("net.ipv4.tcp_wmem", "4096\t16384\t4194303", "4096\t16384\t4194304"),
        ("net.ipv4.tcp_rmem", "4096 131072 4194303", "4096 131072 6291456"),
        ("net.ipv4.tcp_slow_start_after_idle", "1", "0"),
        ("net.ipv4.tcp_congestion_control", "reno", "cubic"),
        ("net.ipv4.tcp_congestion_control", "vegas", "bbr"),
    ] {
        let with = |value: &str| Machine::silent().with_parameter(name, Known::Is(value.to_owned()));
        let job = Job::default();
        assert_eq!(state(&with(short), &job, name), State::Better, "{name} {short}");
        assert_eq!(state(&with(enough), &job, name), State::Ok, "{name} {enough}");
        let absent = row(&Machine::silent(), &job, &Trials::default(), name);
        assert!(absent.state == State::Ok && absent.now.starts_with("unknown"), "{absent:?}");
        let hidden = Machine::silent().with_parameter(name, Known::Hidden("Permission denied".into()));
        let hidden = row(&hidden, &job, &Trials::default(), name);
        assert!(
            hidden.state == State::Better && hidden.now.contains("unknown: Permission denied"),
            "{hidden:?}"
        );
    }
}

#[test]
fn room_for_datagrams_matters_where_they_come() {
    let name = "net.core.rmem_max";
    let with = |bytes: u64| Machine::silent().with_parameter(name, Known::Is(bytes.to_string()));
    let none = Job::default();
    let pulls = Job { takes_datagrams: true, ..Job::default() };
    let raw = Job { takes_raw_video: true, ..Job::default() };
    let bare = Job { is_configured: false, ..Job::default() };
    for (job, bytes, expected) in [
        (&none, 0, State::Ok),
        (&pulls, (8 << 20) - 1, State::Better),
        (&pulls, 8 << 20, State::Ok),
        (&bare, (8 << 20) - 1, State::Better),
        (&raw, 8 << 20, State::Better),
        (&raw, 38 << 20, State::Ok),
    ] {
        assert_eq!(state(&with(bytes), job, name), expected, "{bytes}");
    }
    // A socket that was asked says more than the limit: it may be above, and a container may tell no limit.
    let trial = |granted_bytes| Trials {
        receive: Some(ReceiveTrial {
            asked_bytes: 8 << 20,
            granted_bytes,
            datagrams: 90,
            datagram_bytes: 1316,
        }),
        ..Trials::default()
    };
    let found = row(&with(212_992), &pulls, &trial(8 << 20), name);
    assert!(found.state == State::Ok && found.now.contains("this user gets 8388608"), "{found:?}");
    let found = row(&Machine::silent(), &pulls, &trial(212_992), name);
    assert!(found.state == State::Better && found.now.contains("this user gets 212992"), "{found:?}");
    let found = row(&with(212_992), &pulls, &trial(212_992), name);
    assert_eq!(found.command.as_deref(), Some("sudo sysctl -w net.core.rmem_max=8388608"));
    assert!(found.worth.contains("held 90 datagrams") && found.worth.contains("95 ms"), "{found:?}");
    let backlog = |count: &str| {
        Machine::silent().with_parameter("net.core.netdev_max_backlog", Known::Is(count.into()))
    };
    assert_eq!(state(&backlog("19999"), &raw, "net.core.netdev_max_backlog"), State::Better);
    assert_eq!(state(&backlog("20000"), &raw, "net.core.netdev_max_backlog"), State::Ok);
    let send = "net.core.wmem_max";
    let with = |bytes: u64| Machine::silent().with_parameter(send, Known::Is(bytes.to_string()));
    assert_eq!(state(&with(0), &none, send), State::Ok);
    assert_eq!(state(&with((16 << 20) - 1), &bare, send), State::Better);
    assert_eq!(state(&with(16 << 20), &bare, send), State::Ok);
}

#[test]
fn descriptors_fail_where_viewers_that_are_configured_do_not_fit() {
    let job = |connections, asked, enough| Job {
        descriptors: Descriptors { limit: 4096, connections, asked, enough },
        ..Job::default()
    };
    let machine = Machine::silent();
    let check = "descriptors";
    assert_eq!(state(&machine, &job(3552, 3552, None), check), State::Ok);
    assert_eq!(state(&machine, &job(3552, 0, Some(5000)), check), State::Better);
    let fails = row(&machine, &job(3552, 3553, Some(5000)), &Trials::default(), check);
    assert_eq!(fails.state, State::Fails);
    assert!(fails.command.as_ref().is_some_and(|command| command.contains("LimitNOFILE=5000")), "{fails:?}");
    assert!(!fails.command.unwrap().contains("nr_open"));
    let low = Machine::silent().with_parameter("fs.nr_open", Known::Is("4096".into()));
    let fails = row(&low, &job(3552, 3553, Some(5000)), &Trials::default(), check);
    assert!(fails.command.unwrap().starts_with("sudo sysctl -w fs.nr_open=5000"), "a limit has a limit");
}

#[test]
fn a_port_fails_where_it_cannot_be_had_and_not_where_that_is_not_known() {
    let port = |problem| PortFound {
        key: "listen".into(),
        address: "0.0.0.0:80".parse().unwrap(),
        is_udp: false,
        problem,
    };
    for (problem, expected) in [
        (None, State::Ok),
        (Some(Problem::Taken), State::Fails),
        (Some(Problem::NoSuchAddress), State::Fails),
        (Some(Problem::Other("no such interface".into())), State::Fails),
        (Some(Problem::NotAllowed { is_started_as_root: false }), State::Fails),
        (Some(Problem::NotAllowed { is_started_as_root: true }), State::Better),
    ] {
        let job = Job { ports: vec![port(problem.clone())], ..Job::default() };
        assert_eq!(state(&Machine::silent(), &job, "port TCP 0.0.0.0:80 (listen)"), expected, "{problem:?}");
    }
}

#[test]
fn a_certificate_is_good_for_two_weeks_or_could_be_better() {
    let now = i64::try_from(NOW.as_nanos() / 1_000_000_000).unwrap();
    let fault = |fault| CertificateFound { file: "a.pem".into(), validity: Err(fault) };
    let dates =
        |from, until| CertificateFound { file: "a.pem".into(), validity: Ok((now + from, now + until)) };
    for (found, expected, words) in [
        (dates(-DAY, 14 * DAY), State::Ok, "good for 14 days"),
        (dates(-DAY, 14 * DAY - 1), State::Better, "good for 13 days"),
        (dates(0, 0), State::Better, "good for 0 days"),
        (dates(-3 * DAY, -DAY), State::Fails, "expired 1 day ago"),
        (dates(-3 * DAY, -1), State::Fails, "expired 0 days ago"),
        (dates(1, DAY), State::Fails, "not good yet"),
        (fault(Fault::Certain("no certificate in it".into())), State::Fails, "no certificate in it"),
        (fault(Fault::NotForThisUser("denied".into())), State::Better, "unknown: denied"),
    ] {
        let job = Job { certificates: vec![found.clone()], ..Job::default() };
        let row = row(&Machine::silent(), &job, &Trials::default(), "certificate a.pem");
        assert!(row.state == expected && row.now.starts_with(words), "{found:?}: {row:?}");
    }
}

#[test]
fn files_and_programs_fail_where_the_configuration_needs_them() {
    let file = |fault| Job {
        files: vec![FileFound {
            key: "encode.a.input".into(),
            name: "a.y4m".into(),
            fault,
            command: Some("ls".into()),
        }],
        ..Job::default()
    };
    let check = "encode.a.input a.y4m";
    assert_eq!(state(&Machine::silent(), &file(None), check), State::Ok);
    assert_eq!(state(&Machine::silent(), &file(Some(Fault::Certain("missing".into()))), check), State::Fails);
    let hidden = file(Some(Fault::NotForThisUser("denied".into())));
    let row = row(&Machine::silent(), &hidden, &Trials::default(), check);
    assert!(row.state == State::Better && row.now == "unknown: denied", "{row:?}");
    for (is_configured, is_needed, is_wanted, found, expected) in [
        (true, true, false, Ok("5.1"), State::Ok),
        (true, true, true, Err("not in PATH"), State::Fails),
        (true, false, false, Err("not in PATH"), State::Ok),
        (true, false, true, Err("not in PATH"), State::Better),
        (false, false, false, Err("not in PATH"), State::Better),
    ] {
        let program = ProgramFound {
            name: "ffmpeg".into(),
            purpose: "films".into(),
            found: found.map(str::to_owned).map_err(str::to_owned),
            is_needed,
            is_wanted,
            command: "sudo apt install ffmpeg".into(),
        };
        let job = Job { is_configured, programs: vec![program], ..Job::default() };
        assert_eq!(state(&Machine::silent(), &job, "ffmpeg"), expected, "{is_configured} {is_needed}");
    }
}

fn card(receive: (usize, usize), transmit: (usize, usize), kinds: &[&str]) -> Interface {
    let queues = |(count, steered)| Queues { count, steered };
    Interface {
        name: "eth0".into(),
        rings: Known::Is((Some(Ring { current: 256, maximum: 256 }), None)),
        receive: queues(receive),
        transmit: queues(transmit),
        disciplines: Known::Is(kinds.iter().map(|kind| (*kind).to_owned()).collect()),
    }
}

fn with_card(card: Interface, processors: usize) -> Machine {
    Machine { cards: Known::Is(vec![card]), processors, ..Machine::silent() }
}

#[test]
fn rings_are_good_when_they_are_as_long_as_they_can_be() {
    let job = Job::default();
    let mut short = card((1, 0), (1, 0), &["fq"]);
    assert_eq!(state(&with_card(short.clone(), 1), &job, "receive ring of eth0"), State::Ok);
    short.rings =
        Known::Is((Some(Ring { current: 255, maximum: 256 }), Some(Ring { current: 1, maximum: 2 })));
    let receive = row(&with_card(short.clone(), 1), &job, &Trials::default(), "receive ring of eth0");
    assert_eq!(receive.command.as_deref(), Some("sudo ethtool -G eth0 rx 256"));
    let transmit = row(&with_card(short.clone(), 1), &job, &Trials::default(), "transmit ring of eth0");
    assert_eq!(transmit.command.as_deref(), Some("sudo ethtool -G eth0 tx 2"));
    short.rings = Known::Hidden("not permitted".into());
    assert_eq!(state(&with_card(short, 1), &job, "rings of eth0"), State::Better);
}

#[test]
fn queues_are_spread_where_there_are_processors_for_them() {
    let job = Job::default();
    for (receive, processors, expected) in [
        ((1, 0), 1, State::Ok),
        ((1, 0), 2, State::Better),
        ((1, 1), 2, State::Ok),
        ((2, 0), 2, State::Ok),
        ((2, 0), 4, State::Better),
        ((2, 1), 4, State::Better),
        ((3, 0), 16, State::Better),
        ((4, 0), 16, State::Ok),
        ((0, 0), 4, State::Ok),
    ] {
        let machine = with_card(card(receive, (1, 0), &["fq"]), processors);
        assert_eq!(state(&machine, &job, "receive queues of eth0"), expected, "{receive:?} {processors}");
    }
    let transmit = |steered| with_card(card((2, 0), (2, steered), &["fq"]), 2);
    assert_eq!(state(&transmit(0), &job, "transmit queues of eth0"), State::Better);
    assert_eq!(state(&transmit(2), &job, "transmit queues of eth0"), State::Ok);
    let flows = |entries: &str| {
        transmit(2).with_parameter("net.core.rps_sock_flow_entries", Known::Is(entries.into()))
    };
    assert_eq!(state(&flows("0"), &job, "net.core.rps_sock_flow_entries"), State::Better);
    assert_eq!(state(&flows("32768"), &job, "net.core.rps_sock_flow_entries"), State::Ok);
}

#[test]
fn a_discipline_is_fair_and_paces_where_that_is_wanted() {
    let (server, bare) = (Job::default(), Job { is_configured: false, ..Job::default() });
    for (kinds, of_server, of_bare) in [
        (&["fq"][..], State::Ok, State::Ok),
        (&["mq", "fq", "fq"], State::Ok, State::Ok),
        (&["etf"], State::Ok, State::Ok),
        (&["fq_codel"], State::Ok, State::Better),
        (&["mq", "fq_codel", "fq"], State::Ok, State::Better),
        (&["pfifo_fast"], State::Better, State::Better),
        (&["mq", "fq", "pfifo_fast"], State::Better, State::Better),
        (&[], State::Ok, State::Ok),
        (&["noqueue"], State::Better, State::Better),
    ] {
        let machine = with_card(card((1, 0), (1, 0), kinds), 1);
        assert_eq!(state(&machine, &server, "queueing of eth0"), of_server, "{kinds:?}");
        assert_eq!(state(&machine, &bare, "queueing of eth0"), of_bare, "{kinds:?}");
    }
    let spread = with_card(card((1, 0), (1, 0), &["mq", "pfifo_fast"]), 1);
    let command = row(&spread, &server, &Trials::default(), "queueing of eth0").command.unwrap();
    assert!(command.contains("default_qdisc=fq") && command.ends_with("root mq"), "{command}");
}

#[test]
fn kernel_processors_and_memory_have_borders() {
    let job = Job { workers: 2, memory_bytes: 1000, ..Job::default() };
    let release = |text: &str| Machine { release: Known::Is(text.into()), ..Machine::silent() };
    assert_eq!(state(&release("6.1.0-18-amd64"), &job, "kernel"), State::Ok);
    assert_eq!(state(&release("6.0.9"), &job, "kernel"), State::Better);
    let old = row(&release("5.14.0"), &job, &Trials::default(), "kernel");
    assert!(old.worth.contains("not tested"), "{old:?}");
    assert_eq!(state(&release("strange"), &job, "kernel"), State::Ok);
    let processors = |processors| Machine { processors, ..Machine::silent() };
    assert_eq!(state(&processors(1), &job, "workers"), State::Better);
    assert_eq!(state(&processors(2), &job, "workers"), State::Ok);
    let quota = |quota| Machine { processor_quota: Known::Is(quota), ..processors(2) };
    assert_eq!(state(&quota(1.5), &job, "processor quota"), State::Better);
    assert_eq!(state(&quota(2.0), &job, "processor quota"), State::Ok);
    let memory = |available, limit| Machine {
        memory: Known::Is((2000, available)),
        memory_limit: limit,
        ..Machine::silent()
    };
    assert_eq!(state(&memory(1000, Known::Absent), &job, "memory"), State::Ok);
    assert_eq!(state(&memory(999, Known::Absent), &job, "memory"), State::Better);
    assert_eq!(state(&memory(2000, Known::Is(999)), &job, "memory"), State::Better);
    let governor = |pairs: &[(&str, &str)]| Machine {
        governors: Known::Is(pairs.iter().map(|(driver, name)| ((*driver).into(), (*name).into())).collect()),
        ..Machine::silent()
    };
    assert_eq!(state(&governor(&[("acpi-cpufreq", "performance")]), &job, "processor governor"), State::Ok);
    let mixed = governor(&[("acpi-cpufreq", "performance"), ("acpi-cpufreq", "schedutil")]);
    assert_eq!(state(&mixed, &job, "processor governor"), State::Better);
    assert_eq!(state(&Machine::silent(), &job, "processor governor"), State::Ok);
}

#[test]
fn clocks_are_kept_and_read_quickly() {
    let job = Job::default();
    let accuracy = |accuracy| Machine { accuracy, ..Machine::silent() };
    let within = |micros| accuracy(ClockAccuracy::Within(Duration::from_micros(micros)));
    assert_eq!(state(&within(10_000), &job, "wall clock"), State::Ok);
    assert_eq!(state(&within(10_001), &job, "wall clock"), State::Better);
    assert_eq!(state(&accuracy(ClockAccuracy::Unsynchronised), &job, "wall clock"), State::Better);
    assert_eq!(state(&accuracy(ClockAccuracy::Unknown), &job, "wall clock"), State::Ok);
    let source = |name: &str| Machine { clock_source: Known::Is(name.into()), ..Machine::silent() };
    assert_eq!(state(&source("kvm-clock"), &job, "clock source"), State::Ok);
    assert_eq!(state(&source("hpet"), &job, "clock source"), State::Better);
    let raw = Job { takes_raw_video: true, ..Job::default() };
    let ptp = Machine {
        ptp_clocks: Known::Is(vec!["ptp0 (igb)".into()]),
        ..accuracy(ClockAccuracy::Unsynchronised)
    };
    assert!(row(&ptp, &raw, &Trials::default(), "wall clock").command.unwrap().contains("ptp4l"));
    assert_eq!(row(&ptp, &raw, &Trials::default(), "PTP clocks").now, "ptp0 (igb)");
}

#[test]
fn pages_and_batches_come_with_what_was_measured() {
    let trials = Trials {
        receive: None,
        batches: Some(BatchTrial { single: Duration::from_nanos(5600), batched: Duration::from_nanos(3400) }),
        pages: Some(PageTrial { small: Duration::from_micros(20), large: Duration::from_micros(16) }),
    };
    let machine = Machine::silent();
    let found = row(&machine, &Job::default(), &trials, "io_uring");
    assert!(found.worth.contains("3.4 µs in batches and 5.6 µs one by one"), "{found:?}");
    let found = row(&machine, &Job::default(), &trials, "large pages");
    assert!(found.worth.contains("16.0 µs from large pages and 20.0 µs"), "{found:?}");
    let barred = Job {
        io_uring: Err("Operation not permitted".into()),
        large_pages: Err("Operation not permitted".into()),
        takes_raw_video: true,
        ..Job::default()
    };
    assert_eq!(state(&machine, &barred, "io_uring"), State::Better);
    assert_eq!(state(&machine, &barred, "large pages"), State::Better);
    let given = Machine { huge_memory_files: Known::Is("always".into()), ..Machine::silent() };
    assert_eq!(state(&given, &barred, "large pages"), State::Ok);
    let disabled = Machine::silent().with_parameter("kernel.io_uring_disabled", Known::Is("2".into()));
    let command = row(&disabled, &barred, &Trials::default(), "io_uring").command.unwrap();
    assert!(command.contains("sysctl"), "{command}");
    for (choice, expected) in [("never", State::Better), ("madvise", State::Ok), ("always", State::Ok)] {
        let machine = Machine { huge_pages: Known::Is(choice.into()), ..Machine::silent() };
        assert_eq!(state(&machine, &barred, "transparent huge pages"), expected, "{choice}");
    }
    let reserved = |count: &str| {
        let without = Machine { huge_pages: Known::Is("never".into()), ..Machine::silent() };
        without.with_parameter("vm.nr_hugepages", Known::Is(count.into()))
    };
    assert_eq!(state(&reserved("511"), &barred, "vm.nr_hugepages"), State::Better);
    assert_eq!(state(&reserved("512"), &barred, "vm.nr_hugepages"), State::Ok);
}

#[test]
fn what_a_service_may_be_allowed_is_no_failure_for_an_ordinary_user() {
    let job = Job {
        is_ordinary_user: true,
        in_service: "sudo systemd-run --pipe doctor".into(),
        marks: Some(Err("not permitted".into())),
        ports: vec![PortFound {
            key: "listen".into(),
            address: "0.0.0.0:80".parse().unwrap(),
            is_udp: false,
            problem: Some(Problem::NotAllowed { is_started_as_root: false }),
        }],
        files: vec![FileFound {
            key: "log.access, its folder".into(),
            name: "/var/log/glassline".into(),
            fault: Some(Fault::ForService("No such file".into())),
            command: Some("ls".into()),
        }],
        ..Job::default()
    };
    for check in ["marks", "port TCP 0.0.0.0:80 (listen)", "log.access, its folder"] {
        let row = row(&Machine::silent(), &job, &Trials::default(), check);
        assert!(row.state == State::Better && row.now.starts_with("unknown: "), "{row:?}");
        assert_eq!(row.command.as_ref(), Some(&job.in_service));
    }
    let job = Job { is_ordinary_user: false, ..job };
    for check in ["marks", "port TCP 0.0.0.0:80 (listen)"] {
        assert_eq!(state(&Machine::silent(), &job, check), State::Fails);
    }
}

#[test]
fn marks_fail_where_they_are_not_allowed() {
    let job = |marks| Job { marks: Some(marks), ..Job::default() };
    assert_eq!(state(&Machine::silent(), &job(Ok(())), "marks"), State::Ok);
    assert_eq!(state(&Machine::silent(), &job(Err("not permitted".into())), "marks"), State::Fails);
    let for_root = Job {
        is_for_root: true,
        large_pages: Err("not permitted".into()),
        ..job(Err("not permitted".into()))
    };
    for check in ["marks", "large pages"] {
        let row = row(&Machine::silent(), &for_root, &Trials::default(), check);
        assert!(row.state == State::Ok && row.now.starts_with("unknown"), "{row:?}");
    }
}

#[test]
fn what_only_root_may_read_is_looked_at_again_with_the_same_configuration() {
    let name = "net.core.somaxconn";
    let machine = Machine::silent().with_parameter(name, Known::Hidden("denied".into()));
    let job = Job { as_root: "sudo glassline doctor --config a.toml".into(), ..Job::default() };
    let row = row(&machine, &job, &Trials::default(), name);
    assert_eq!(row.command.as_deref(), Some("sudo glassline doctor --config a.toml"));
}

#[test]
fn a_machine_that_tells_nothing_fails_nowhere() {
    for is_configured in [false, true] {
        let job = Job { is_configured, takes_raw_video: true, takes_datagrams: true, ..Job::default() };
        let rows = judge(&Machine::silent(), &job, &Trials::default(), NOW);
        assert!(rows.iter().all(|row| row.state != State::Fails), "{rows:?}");
        assert!(rows.iter().any(|row| row.now.starts_with("unknown")));
    }
}

#[test]
fn a_row_in_json_has_its_keys() {
    let rows = judge(&Machine::silent(), &Job::default(), &Trials::default(), NOW);
    let json = serde_json::to_value(&rows[0]).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["check", "command", "now", "state", "wanted", "worth"]);
    assert_eq!(json["state"], "ok");
}
