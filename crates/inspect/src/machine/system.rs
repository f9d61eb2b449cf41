//! Kernel, descriptors, processors, memory, clock.

use super::job::{Descriptors, Job};
use super::row::{IN_SERVICE, Row, State, better_unless, of_known};
use super::trials::Trials;
use glassline_io::machine::{Known, Machine, parse};
use glassline_media::stamps::ClockAccuracy;
use std::time::Duration;

/// The oldest kernel that this program is tested on, and the one from which on a batch of sends costs least.
const KERNEL_LEAST: (u32, u32) = (5, 15);
const KERNEL_GOOD: (u32, u32) = (6, 1);
/// An age of pictures that is told to viewers is wrong by the clock's error; a picture takes 20 to 40 ms.
const CLOCK_ERROR_MAX: Duration = Duration::from_millis(10);
/// Sources of time that are read without leaving the processor.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];
/// Huge pages of 2 MiB that hold some pictures of uncompressed 1080p each way: 1 GiB.
const HUGE_PAGES: u64 = 512;

/// What this process may not do, the server may.
const STARTED_BY_ROOT: &str = "unknown: root starts the server, and may do this unless a container bars it";

pub(super) fn rows(machine: &Machine, job: &Job, trials: &Trials) -> Vec<Row> {
    let mut rows = vec![
        kernel(machine),
        descriptors(&job.descriptors, machine),
        memory(machine, job),
        workers(machine, job),
        quota(machine),
        governor(machine),
        io_uring(machine, job, trials),
        large_pages(machine, job, trials),
        clock(machine, job),
        clock_source(machine),
    ];
    if job.concerns(job.takes_raw_video) {
        rows.extend([huge_pages(machine), reserved_pages(machine), ptp(machine)]);
    }
    rows.extend(job.marks.as_ref().map(|found| marks(found, job)));
    rows
}

fn kernel(machine: &Machine) -> Row {
    let check = "kernel";
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let wanted = format!("{} or later; {} or later is better", version(KERNEL_LEAST), version(KERNEL_GOOD));
    of_known(check, &machine.release, &wanted, |release| {
        let found = parse::kernel_version(release);
        let state = better_unless(found.is_none_or(|found| found >= KERNEL_GOOD));
        let worth = match found {
            Some(found) if found < KERNEL_LEAST => "this program is not tested with it",
            _ => {
                "sends in batches then cost the kernel less work (IORING_SETUP_DEFER_TASKRUN, io_uring_setup(2))"
            }
        };
        Row::new(check, release, &wanted).state(state).command("sudo apt full-upgrade").worth(worth)
    })
}

fn descriptors(found: &Descriptors, machine: &Machine) -> Row {
    let Descriptors { limit, connections, asked, enough } = *found;
    let now = format!("{limit}: {connections} connections are let in beside streams and files");
    let wanted = match (asked, enough) {
        (0, None) => "enough for the streams that are configured".to_owned(),
        (asked, None) => format!("enough for {asked} connections"),
        (_, Some(enough)) => format!("{enough} or more"),
    };
    let state = match enough {
        _ if asked > connections => State::Fails,
        Some(_) => State::Better,
        None => State::Ok,
    };
    let enough = enough.unwrap_or(limit);
    let raise = match machine.number("fs.nr_open") {
        Known::Is(most) if most < enough => format!("sudo sysctl -w fs.nr_open={enough}; "),
        _ => String::new(),
    };
    Row::new("descriptors (RLIMIT_NOFILE)", now, wanted)
        .state(state)
        .command(format!(
            "{raise}sudo prlimit --pid $$ --nofile={enough}:{enough}   (systemd: LimitNOFILE={enough})"
        ))
        .worth("each viewer takes one; further viewers are refused")
}

/// Bytes as people compare them.
fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn memory(machine: &Machine, job: &Job) -> Row {
    let check = "memory";
    let wanted = format!("{} at most, for {}", gibibytes(job.memory_bytes), job.memory_for);
    of_known(check, &machine.memory, &wanted, |(total, available)| {
        let limit = machine.memory_limit.value().copied().unwrap_or(u64::MAX);
        let (has, may) = ((*available).min(limit), (*total).min(limit));
        let of = if limit < *total { "of the limit of this group of processes" } else { "of this machine" };
        let now = format!("{} free, {} {of}", gibibytes(has), gibibytes(may));
        Row::new(check, now, &wanted)
            .state(better_unless(job.memory_bytes <= has))
            .command(
                "lower max_streams, backlog_max, max_connections or [upstream] cache in the configuration",
            )
            .worth("the system ends the server when there is none left; docs/serve.md has the sum")
    })
}

fn workers(machine: &Machine, job: &Job) -> Row {
    let (workers, processors) = (job.workers, machine.processors);
    Row::new("workers", format!("{workers} on {processors} processors"), "as many as processors, or fewer")
        .state(better_unless(workers <= processors))
        .command("workers = 0 in the configuration")
        .worth("workers that share a processor wait for each other, and the longest delays grow (docs/serve.md, \"More cores\")")
}

fn quota(machine: &Machine) -> Row {
    let check = "processor quota";
    match &machine.processor_quota {
        Known::Is(quota) => Row::new(check, format!("{quota:.1} of {} processors", machine.processors), "none")
            .state(better_unless(*quota >= machine.processors as f64))
            .command("systemctl edit glassline: CPUQuota= without a value; containers: leave out --cpus")
            .worth("a quota that is used up stops all threads until its period ends, up to 100 ms (cgroups(7), cpu.max)"),
        Known::Absent => Row::new(check, "none", "none"),
        Known::Hidden(reason) => Row::new(check, format!("unknown: {reason}"), "none"),
    }
}

fn governor(machine: &Machine) -> Row {
    let (check, wanted) = ("processor governor", "performance");
    let Known::Is(pairs) = &machine.governors else {
        let none = "none: the clock rate is not this system's to choose";
        return match &machine.governors {
            Known::Absent => Row::new(check, none, wanted),
            other => of_known(check, other, wanted, |_| Row::new(check, none, wanted)),
        };
    };
    let now: Vec<_> = pairs.iter().map(|(driver, governor)| format!("{governor} ({driver})")).collect();
    Row::new(check, now.join(", "), wanted)
        .state(better_unless(pairs.iter().all(|(_, governor)| governor == "performance")))
        .command("sudo cpupower frequency-set -g performance")
        .worth("a processor that was idle is at its full rate at once, not some ten milliseconds later (cpufreq governors, kernel.org)")
}

fn io_uring(machine: &Machine, job: &Job, trials: &Trials) -> Row {
    let (check, wanted) = ("io_uring", "allowed");
    match (&job.io_uring, &trials.batches) {
        (Ok(()), trial) => {
            let worth = trial.as_ref().map_or_else(String::new, |trial| {
                format!(
                    "measured now: a small send takes {:.1} µs in batches and {:.1} µs one by one",
                    micros(trial.batched),
                    micros(trial.single)
                )
            });
            Row::new(check, "allowed", wanted).worth(worth)
        }
        (Err(reason), _) => {
            let is_barred =
                machine.number("kernel.io_uring_disabled").value().is_some_and(|value| *value > 0);
            let command = if is_barred {
                "sudo sysctl -w kernel.io_uring_disabled=0"
            } else {
                "let the container have io_uring_setup, io_uring_enter and io_uring_register (docker: --security-opt seccomp=FILE)"
            };
            Row::new(check, format!("not allowed: {reason}"), wanted)
                .state(State::Better)
                .command(command)
                .worth("sends to many viewers go out 128 by one call; docs/tuning.md has what that was measured to save")
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Pages of 2 MiB for the bytes of streams.
fn large_pages(machine: &Machine, job: &Job, trials: &Trials) -> Row {
    let (check, wanted) = ("large pages for streams", "the server's own tmpfs, or shmem_enabled always");
    let measured = trials.pages.as_ref().map(|trial| {
        format!(
            "measured now: a send of 60 kB and its receiving take {:.1} µs from large pages and {:.1} µs from small ones",
            micros(trial.large),
            micros(trial.small)
        )
    });
    let worth = measured.unwrap_or_else(|| {
        "a sixth of the processor time of large sends; docs/tuning.md has how it was measured".to_owned()
    });
    let of_system = machine.huge_memory_files.value().map_or("not told", String::as_str);
    let is_given = matches!(of_system, "always" | "within_size" | "force");
    let now = match &job.large_pages {
        Err(_) if job.is_for_root => return Row::new(check, STARTED_BY_ROOT, wanted),
        Ok(()) => "this process may make them".to_owned(),
        Err(_) if is_given => format!("the system gives them (shmem_enabled: {of_system})"),
        Err(reason) => {
            format!("not for this user ({reason}), nor from the system (shmem_enabled: {of_system})")
        }
    };
    Row::new(check, now, wanted)
        .state(better_unless(job.large_pages.is_ok() || is_given))
        .command("echo always | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled   (or start as root with [process] user)")
        .worth(worth)
}

fn huge_pages(machine: &Machine) -> Row {
    let (check, wanted) = ("transparent huge pages", "madvise or always");
    of_known(check, &machine.huge_pages, wanted, |found| {
        Row::new(check, found, wanted)
            .state(better_unless(matches!(found.as_str(), "madvise" | "always")))
            .command("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
            .worth("pictures of uncompressed video lie in two or three pages in place of a thousand (docs/raw-video.md)")
    })
}

fn reserved_pages(machine: &Machine) -> Row {
    let check = "vm.nr_hugepages";
    let wanted = format!("of no concern where transparent ones are given; else {HUGE_PAGES} (1 GiB)");
    let are_given =
        machine.huge_pages.value().is_none_or(|found| matches!(found.as_str(), "madvise" | "always"));
    of_known(check, &machine.number(check), &wanted, |found| {
        Row::new(check, found.to_string(), &wanted)
            .state(better_unless(are_given || *found >= HUGE_PAGES))
            .command(format!("sudo sysctl -w {check}={HUGE_PAGES}"))
            .worth("the same for uncompressed video, certain from the start on (docs/raw-video.md)")
    })
}

fn clock(machine: &Machine, job: &Job) -> Row {
    let (check, wanted) =
        ("wall clock", format!("kept by NTP or PTP, within {} ms of UTC", CLOCK_ERROR_MAX.as_millis()));
    let (now, state) = match machine.accuracy {
        ClockAccuracy::Within(error) => {
            (format!("within {:.3} ms", error.as_secs_f64() * 1e3), better_unless(error <= CLOCK_ERROR_MAX))
        }
        ClockAccuracy::Unsynchronised => ("nothing keeps it".to_owned(), State::Better),
        ClockAccuracy::Unknown => ("unknown: the system does not tell".to_owned(), State::Ok),
    };
    let has_ptp = machine.ptp_clocks.value().is_some_and(|clocks| !clocks.is_empty());
    let command = if job.takes_raw_video && has_ptp {
        "sudo apt install linuxptp   (then ptp4l on the card and phc2sys: ptp4l(8), phc2sys(8))"
    } else {
        "sudo apt install chrony   (in a container: on the machine below it)"
    };
    Row::new(check, now, wanted).state(state).command(command).worth(
        "ages of pictures in pages, budgets and `probe --glass` compare the clocks of two machines, and certificates, signed \
         links and TLS need the right hour (docs/latency.md)",
    )
}

fn ptp(machine: &Machine) -> Row {
    let (check, wanted) =
        ("PTP clocks", "one on the card that ST 2110 comes by, where its senders follow PTP");
    match &machine.ptp_clocks {
        Known::Is(clocks) if !clocks.is_empty() => Row::new(check, clocks.join(", "), wanted),
        Known::Is(_) | Known::Absent => Row::new(check, "none", wanted),
        Known::Hidden(reason) => Row::new(check, format!("unknown: {reason}"), wanted),
    }
}

fn clock_source(machine: &Machine) -> Row {
    let (check, wanted) =
        ("clock source", "one that is read without a system call, such as tsc or kvm-clock");
    of_known(check, &machine.clock_source, wanted, |found| {
        Row::new(check, found, wanted)
            .state(better_unless(!SLOW_CLOCKS.contains(&found.as_str())))
            .command("echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource")
            .worth("the time is read several times for each send: 20 ns each by tsc, 1 µs and more by others (vdso(7))")
    })
}

fn marks(found: &Result<(), String>, job: &Job) -> Row {
    let (check, wanted) = ("marks on connections (SO_MARK)", "allowed: the configuration marks viewers");
    match found {
        Err(_) if job.is_for_root => Row::new(check, STARTED_BY_ROOT, wanted),
        Err(reason) if job.is_ordinary_user => {
            Row::new(check, format!("unknown: not allowed for this user ({reason}), and a service may be"), wanted)
                .state(State::Better)
                .command(IN_SERVICE)
                .worth(
                    "the server starts where it has the capability: by systemd with AmbientCapabilities=CAP_NET_ADMIN \
                     (examples/glassline.service), or by sudo setcap cap_net_admin+ep \"$(command -v glassline)\"",
                )
        }
        Ok(()) => Row::new(check, "allowed", wanted),
        Err(reason) => Row::new(check, format!("not allowed: {reason}"), wanted)
            .state(State::Fails)
            .command("sudo setcap cap_net_admin+ep \"$(command -v glassline)\"   (systemd: AmbientCapabilities=CAP_NET_ADMIN)")
            .worth("the server does not start; or start it as root with [process] user, or remove mark and mark_pool"),
    }
}
