//! Network cards: rings, queues, queueing disciplines.

use super::job::Job;
use super::row::{Row, State, better_unless, of_known};
use glassline_io::machine::{Interface, Known, Machine, Queues, Rings, parse};
use glassline_io::nic::Ring;

/// Disciplines that only spread packets over others, one for each transmit queue of the card.
const SPREADING: [&str; 3] = ["mq", "mqprio", "multiq"];
/// Those in which a connection's burst does not make the packets of others wait.
const FAIR: [&str; 5] = ["fq", "fq_codel", "fq_pie", "cake", "etf"];
/// A table for receive flow steering; the kernel's own text recommends it for busy servers (scaling.rst).
const FLOW_ENTRIES: u64 = 32_768;

pub(super) fn rows(machine: &Machine, job: &Job) -> Vec<Row> {
    let check = "network cards";
    let cards = match &machine.cards {
        Known::Is(cards) if !cards.is_empty() => cards,
        Known::Is(_) => {
            let now = "none: rings and queues are those of the machine below a container, or of a card that is down";
            return vec![Row::new(check, now, "looked at where the cards are")];
        }
        other => return vec![of_known(check, other, "to be seen", |_| Row::new(check, "", ""))],
    };
    let mut rows: Vec<Row> = cards.iter().flat_map(|card| of_card(card, machine, job)).collect();
    if machine.processors > 1 {
        rows.push(flow_steering(machine));
    }
    rows
}

fn of_card(card: &Interface, machine: &Machine, job: &Job) -> Vec<Row> {
    let mut rows = rings(card);
    rows.push(receive_queues(card, machine.processors));
    rows.extend(transmit_queues(card, machine.processors));
    rows.push(discipline(card, job));
    rows
}

fn rings(card: &Interface) -> Vec<Row> {
    let name = &card.name;
    let one = |ring: &Option<Ring>, direction: &str, word: &str, worth: &str| {
        let check = format!("{direction} ring of {name}");
        let Some(Ring { current, maximum }) = ring else {
            return Row::new(check, "unknown: the device tells of none", "as long as it can be");
        };
        Row::new(check, format!("{current} packets"), format!("{maximum} packets, all that the device has"))
            .state(better_unless(current >= maximum))
            .command(format!("sudo ethtool -G {name} {word} {maximum}"))
            .worth(worth)
    };
    let of = |(receive, transmit): &Rings| {
        vec![
            one(
                receive,
                "receive",
                "rx",
                "packets wait there until a processor comes: 256 are 0.6 ms of 5 Gbit/s (docs/raw-video.md); the change \
                 interrupts the network for a moment",
            ),
            one(
                transmit,
                "transmit",
                "tx",
                "a burst to many viewers goes out without waiting for the next interrupt (ethtool(8)); the change \
                 interrupts the network for a moment",
            ),
        ]
    };
    match &card.rings {
        Known::Is(found) => of(found),
        other => vec![of_known(&format!("rings of {name}"), other, "as long as they can be", |_| {
            Row::new("", "", "")
        })],
    }
}

fn receive_queues(card: &Interface, processors: usize) -> Row {
    let Interface { name, receive: Queues { count, steered }, .. } = card;
    let check = format!("receive queues of {name} (RSS, RPS)");
    let wanted = "a queue for each processor, or the kernel's steering over all";
    if *count == 0 {
        return Row::new(check, "unknown: the system lists no queues", wanted);
    }
    let now = match (count, steered) {
        (1, 0) => "1, not steered".to_owned(),
        (count, steered) => format!("{count}, of which {steered} are steered"),
    };
    let mask = parse::mask_of_all(processors);
    Row::new(check, now, wanted)
        .state(better_unless(processors == 1 || *count >= processors.min(4) || steered == count))
        .command(format!(
            "for queue in /sys/class/net/{name}/queues/rx-*/rps_cpus; do echo {mask} | sudo tee $queue; done"
        ))
        .worth(
            "one processor takes in all packets otherwise, acknowledgements of all viewers included \
             (Documentation/networking/scaling.rst); `ethtool -L` gives cards that can more queues",
        )
}

/// `None` where the card has one queue: nothing can be spread.
fn transmit_queues(card: &Interface, processors: usize) -> Option<Row> {
    let Interface { name, transmit: Queues { count, steered }, .. } = card;
    if *count < 2 || processors == 1 {
        return None;
    }
    let row = Row::new(
        format!("transmit queues of {name} (XPS)"),
        format!("{count}, of which {steered} are given to processors"),
        "each given to processors of its own",
    );
    let row = row.state(better_unless(*steered > 0)).command(format!(
        "echo 1 | sudo tee /sys/class/net/{name}/queues/tx-0/xps_cpus   (2 for tx-1, 4 for tx-2, 8 for tx-3, …)"
    ));
    Some(row.worth("a worker's packets do not wait for a lock that another processor has (scaling.rst)"))
}

fn flow_steering(machine: &Machine) -> Row {
    let check = "net.core.rps_sock_flow_entries";
    let wanted = format!("{FLOW_ENTRIES}, and rps_flow_cnt of each receive queue");
    of_known(check, &machine.number(check), &wanted, |entries| {
        Row::new(check, entries.to_string(), &wanted)
            .state(better_unless(*entries > 0))
            .command(format!(
                "sudo sysctl -w {check}={FLOW_ENTRIES}; for queue in /sys/class/net/*/queues/rx-*/rps_flow_cnt; do echo 4096 \
                 | sudo tee $queue; done"
            ))
            .worth(
                "acknowledgements arrive on the processor of the worker that sends (scaling.rst; docs/serve.md, \"More \
                 cores\")",
            )
    })
}

fn discipline(card: &Interface, job: &Job) -> Row {
    let name = &card.name;
    let check = format!("queueing of {name}");
    let paces = job.sends_datagrams || !job.is_configured;
    let wanted =
        if paces { "fq: fair, and heeds the launch times of send-raw" } else { "fq or another fair one" };
    of_known(&check, &card.disciplines, wanted, |kinds| {
        let used: Vec<&str> =
            kinds.iter().map(String::as_str).filter(|kind| !SPREADING.contains(kind)).collect();
        let state = match used.as_slice() {
            // A device without a queue, as many virtual ones.
            [] => State::Ok,
            used if !used.iter().all(|kind| FAIR.contains(kind)) => State::Better,
            used if !job.is_configured => {
                better_unless(used.iter().all(|kind| matches!(*kind, "fq" | "etf")))
            }
            _ => State::Ok,
        };
        let mut shown: Vec<&str> = kinds.iter().map(String::as_str).collect();
        shown.dedup();
        let now = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
        let is_spread = kinds.iter().any(|kind| SPREADING.contains(&kind.as_str()));
        let command = if is_spread {
            format!("sudo sysctl -w net.core.default_qdisc=fq; sudo tc qdisc replace dev {name} root mq")
        } else {
            format!("sudo tc qdisc replace dev {name} root fq")
        };
        Row::new(&check, now, wanted).state(state).command(command).worth(
            "a burst to one viewer does not delay the packets of others, and launch times make send-raw punctual \
             (tc-fq(8); docs/send-raw.md)",
        )
    })
}
