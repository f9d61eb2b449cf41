//! Room in the kernel for connections and datagrams.

use super::job::Job;
use super::row::{Row, better_unless, of_known};
use super::trials::Trials;
use glassline_io::machine::{Known, Machine};
use glassline_io::tcp::ACCEPT_BACKLOG;
use glassline_io::udp::RECEIVE_BUFFER_BYTES;

/// What uncompressed video asks for: 10 Gbit/s for 30 ms.
const RAW_VIDEO_BYTES: u64 = 38 << 20;
/// What `send-raw` may have waiting.
const RAW_SEND_BYTES: u64 = 16 << 20;
/// What Linux itself lets a connection grow to by default. A stream of 20 Mbit/s over a path of 300 ms has 750 kB under way,
/// and takes twice that while a lost packet is sent again.
const STREAM_BUFFER_BYTES: u64 = 4 << 20;

/// Packets that may wait between a card and the socket of uncompressed video.
const RAW_BACKLOG: u64 = 20_000;

pub(super) fn rows(machine: &Machine, job: &Job, trials: &Trials) -> Vec<Row> {
    let mut rows = vec![receive(machine, job, trials), send(machine, job)];
    let number = |name: &str, least: u64, worth: &str| {
        let wanted = format!("{least} or more");
        of_known(name, &machine.number(name), &wanted, |found| {
            Row::new(name, found.to_string(), &wanted)
                .state(better_unless(*found >= least))
                .command(format!("sudo sysctl -w {name}={least}"))
                .worth(worth)
        })
    };
    rows.push(number(
        "net.core.somaxconn",
        u64::from(ACCEPT_BACKLOG.unsigned_abs()),
        "so many viewers can come in the same moment, as when a stream begins, without waiting a second to try again \
         (listen(2))",
    ));
    rows.push(number(
        "net.ipv4.tcp_max_syn_backlog",
        1024,
        "connections that are half open while many viewers come at once (tcp(7))",
    ));
    if job.takes_raw_video {
        rows.push(number(
            "net.core.netdev_max_backlog",
            RAW_BACKLOG,
            "packets between the card and the socket while another processor is busy; /proc/net/softnet_stat counts those \
             that were dropped (docs/raw-video.md)",
        ));
    }
    for (name, direction, peer) in
        [("net.ipv4.tcp_wmem", "send", "viewer"), ("net.ipv4.tcp_rmem", "receive", "publisher or source")]
    {
        let wanted = format!("a last number of {STREAM_BUFFER_BYTES} or more");
        rows.push(of_known(name, &machine.number(name), &wanted, |found| {
            let text = machine.parameter(name).value().cloned().unwrap_or_default();
            let now = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            Row::new(name, now, &wanted)
                .state(better_unless(*found >= STREAM_BUFFER_BYTES))
                .command(format!("sudo sysctl -w {name}='4096 131072 {STREAM_BUFFER_BYTES}'"))
                .worth(format!(
                    "the {direction} buffer bounds what a distant {peer} gets: rate = buffer / round trip (RFC 7323 §1.1)"
                ))
        }));
    }
    let name = "net.ipv4.tcp_slow_start_after_idle";
    rows.push(of_known(name, &machine.number(name), "0", |found| {
        Row::new(name, found.to_string(), "0")
            .state(better_unless(*found == 0))
            .command(format!("sudo sysctl -w {name}=0"))
            .worth(
                "a viewer of segments, or one that a busy server makes wait, need not begin slowly after each pause \
                 (RFC 5681 §4.1; docs/serve.md, \"A busy server\")",
            )
    }));
    let name = "net.ipv4.tcp_congestion_control";
    rows.push(of_known(name, machine.parameter(name), "cubic or bbr", |found| {
        Row::new(name, found, "cubic or bbr")
            .state(better_unless(matches!(found.as_str(), "cubic" | "bbr")))
            .command(format!("sudo sysctl -w {name}=cubic"))
            .worth("a connection over a long path has its rate back sooner after a loss (RFC 9438)")
    }));
    rows
}

/// How many bytes of datagrams wait unread. With `CAP_NET_ADMIN` the limit does not count, so a socket was asked.
fn receive(machine: &Machine, job: &Job, trials: &Trials) -> Row {
    let check = "net.core.rmem_max";
    let limit = machine.number(check);
    if !job.concerns(job.takes_raw_video || job.takes_datagrams) {
        return of_no_concern(check, &limit, "no stream of this configuration comes in datagrams");
    }
    let asked = if job.takes_raw_video { RAW_VIDEO_BYTES } else { RECEIVE_BUFFER_BYTES as u64 };
    let wanted = format!("{asked} bytes or more for streams that come in datagrams");
    let held = trials.receive.as_ref().map_or_else(
        || "datagrams are lost when it is full while the program does not run (docs/raw-video.md)".to_owned(),
        |trial| {
            format!(
                "measured now: a buffer of {} bytes held {} datagrams of {} bytes, {:.0} ms of 10 Mbit/s, before one was \
                 lost; for so long the program need not run",
                trial.granted_bytes, trial.datagrams, trial.datagram_bytes, trial.millis_of(10e6)
            )
        },
    );
    let granted = trials.receive.as_ref().map(|trial| trial.granted_bytes as u64);
    let is_limit = |limit: u64| granted.is_none_or(|granted| granted <= limit);
    match (limit, granted) {
        (Known::Is(limit), _) if is_limit(limit) => Row::new(check, format!("{limit} bytes"), &wanted)
            .state(better_unless(limit >= asked))
            .command(format!("sudo sysctl -w {check}={asked}"))
            .worth(held),
        // A user that may exceed the limit, or a network of a container that does not tell it.
        (_, Some(granted)) => {
            // The trial asks for what streams of datagrams do, so more is not known.
            let is_good = granted >= asked.min(RECEIVE_BUFFER_BYTES as u64);
            Row::new(check, format!("this user gets {granted} bytes"), &wanted)
                .state(better_unless(is_good))
                .command(format!("sudo sysctl -w {check}={asked}"))
                .worth(held)
        }
        (other, None) => of_known(check, &other, &wanted, |_| Row::new(check, "unknown", &wanted)),
    }
}

fn send(machine: &Machine, job: &Job) -> Row {
    let check = "net.core.wmem_max";
    let limit = machine.number(check);
    if job.is_configured {
        return of_no_concern(check, &limit, "a server's bursts of datagrams fit into what each socket has");
    }
    let wanted = format!("{RAW_SEND_BYTES} bytes or more for send-raw");
    of_known(check, &limit, &wanted, |bytes| {
        Row::new(check, format!("{bytes} bytes"), &wanted)
            .state(better_unless(*bytes >= RAW_SEND_BYTES))
            .command(format!("sudo sysctl -w {check}={RAW_SEND_BYTES}"))
            .worth("send-raw sends messages of many packets, and sends none while they do not fit (docs/raw-video.md)")
    })
}

fn of_no_concern(check: &str, limit: &Known<u64>, why: &str) -> Row {
    let now = limit
        .value()
        .map_or("unknown: this system does not tell".to_owned(), |bytes| format!("{bytes} bytes"));
    Row::new(check, now, format!("of no concern: {why}"))
}
