//! Network cards: rings, queues and queueing disciplines.

use super::{Files, Known, Rings, entries, parse};
use crate::{nic, qdisc};
use std::io::{self, ErrorKind};

/// Cards that are looked at. More would make a report that is not read.
const CARDS_MAX: usize = 16;

/// Queues of one direction of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// How many there are.
    pub count: usize,
    /// How many are spread over processors by the kernel: receive packet steering (RPS), transmit packet steering (XPS).
    pub steered: usize,
}

/// A network interface with a device behind it that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Receive and transmit ring, as far as the device tells.
    pub rings: Known<Rings>,
    /// Receive queues.
    pub receive: Queues,
    /// Transmit queues.
    pub transmit: Queues,
    /// Its queueing disciplines, the root first, as [`qdisc::kinds`] tells them.
    pub disciplines: Known<Vec<String>>,
}

/// The cards of this machine.
pub(super) fn cards(files: &Files) -> Known<Vec<Interface>> {
    let names = entries(&files.sys.join("class/net"));
    names.and_then(|names| {
        let is_card = |name: &&String| {
            let folder = format!("class/net/{name}");
            let is_up =
                files.of_sys(&format!("{folder}/operstate")).value().is_some_and(|state| state == "up");
            is_up && files.sys.join(folder).join("device").exists()
        };
        Some(names.iter().filter(is_card).take(CARDS_MAX).map(|name| card(files, name)).collect())
    })
}

fn card(files: &Files, name: &str) -> Interface {
    let queues = entries(&files.sys.join(format!("class/net/{name}/queues")));
    let queues = queues.value().cloned().unwrap_or_default();
    let count = |kind: &str, mask: &str| {
        let mine: Vec<_> = queues.iter().filter(|queue| queue.starts_with(kind)).collect();
        let is_steered = |queue: &&&String| {
            let mask = files.of_sys(&format!("class/net/{name}/queues/{queue}/{mask}"));
            mask.value().and_then(|mask| parse::has_processors(mask)) == Some(true)
        };
        Queues { count: mine.len(), steered: mine.iter().filter(is_steered).count() }
    };
    Interface {
        name: name.to_owned(),
        rings: known(nic::rings(name)),
        receive: count("rx-", "rps_cpus"),
        transmit: count("tx-", "xps_cpus"),
        disciplines: known(qdisc::kinds(name)),
    }
}

fn known<T>(asked: io::Result<T>) -> Known<T> {
    match asked {
        Ok(value) => Known::Is(value),
        Err(error) if error.kind() == ErrorKind::NotFound => Known::Absent,
        Err(error) => Known::Hidden(error.to_string()),
    }
}
