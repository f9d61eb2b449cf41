//! Networks and senders.

use crate::experiment::{Cost, Line, Setup};
use glassline_direct::{CodecMode, SenderSettings};
use glassline_media::FrameRate;
use glassline_transport::emulator::{LinkConfig, OutageEffect, OutageTimes, Outages, Queue, Service, Trace};
use glassline_transport::link::{Bonding, Controller, Fec};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a packet of a trace counts beyond its own bytes: Mahimahi's header of a TUN device.
const TRACE_OVERHEAD_BYTES: u32 = 4;
/// Parity while packets are lost, percent: as `glassline send` has it.
const PARITY_PERCENT: u8 = 25;
/// The longest that is sent where no trace says how long: as long as the paper's clip.
const LONG: Duration = Duration::from_secs(600);

/// How fast a way serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// At once.
    Unlimited,
    /// Bits a second.
    Rate(u64),
    /// The name of a trace.
    Trace(&'static str),
}

/// When both ways are off; what is sent to them then is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Never.
    None,
    /// By chance, exponentially distributed with these means.
    Random {
        /// Mean time on.
        on: Duration,
        /// Mean time off.
        off: Duration,
    },
    /// Once.
    Once {
        /// After the start.
        after: Duration,
        /// How long.
        off: Duration,
    },
}

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The way of the video.
    pub up: Speed,
    /// The way back.
    pub down: Speed,
    /// Each way.
    pub delay: Duration,
    /// Packets that wait before each bottleneck at most; the newest are dropped.
    pub queue_packets: u32,
    /// When it is off.
    pub outage: Outage,
}

/// How long pictures are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As long as the trace of the video's way is.
    Trace,
    /// So long.
    Of(Duration),
}

/// The system that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// As `glassline send` does.
    Ours,
    /// The same over Salsify's controller, which the ablations begin with.
    SalsifyTransport,
    /// Over Salsify's controller, the receiver of which is not told of pauses.
    NoGracePeriods,
    /// Over Salsify's controller, with an encoder that is given a quantiser once a second and sends every picture.
    ConventionalCodec,
    /// This encoder over our own controller, which is what of ours comes nearest to a conventional transport: a rate that is paced,
    /// without a word on single pictures.
    Conventional,
}

impl Scheme {
    /// In a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Ours => "Glassline",
            Scheme::SalsifyTransport => "Glassline (Salsify's transport)",
            Scheme::NoGracePeriods => "Glassline (Salsify's transport, no grace periods)",
            Scheme::ConventionalCodec => "Glassline (Salsify's transport, conventional codec)",
            Scheme::Conventional => "Glassline (conventional transport and codec)",
        }
    }

    fn controller(self) -> Controller {
        match self {
            Scheme::Ours | Scheme::Conventional => Controller::Adaptive,
            Scheme::SalsifyTransport | Scheme::ConventionalCodec => Controller::SALSIFY,
            Scheme::NoGracePeriods => match Controller::SALSIFY {
                Controller::Salsify { delay, .. } => Controller::Salsify { delay, grace_periods: false },
                other => other,
            },
        }
    }

    fn codec(self) -> CodecMode {
        match self {
            Scheme::ConventionalCodec | Scheme::Conventional => CodecMode::Conventional,
            _ => CodecMode::Functional,
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// By which it is asked for; letters, digits and hyphens.
    pub name: &'static str,
    /// The network's name, for people.
    pub network_name: &'static str,
    /// The network.
    pub network: Network,
    /// How long.
    pub length: Length,
    /// The system that sends.
    pub scheme: Scheme,
    /// Processors of the sender.
    pub processors: u32,
}

/// What is not the case's.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of the source.
    pub rate: FrameRate,
    /// No longer than this.
    pub longest: Option<Duration>,
    /// What all chance follows from.
    pub seed: u64,
    /// The encoder's speed.
    pub speed: u8,
}

const fn network(up: Speed, down: Speed) -> Network {
    Network { up, down, delay: Duration::from_millis(20), queue_packets: 256, outage: Outage::None }
}

const VERIZON: Network =
    network(Speed::Trace("Verizon-LTE-short.down"), Speed::Trace("Verizon-LTE-short.up"));
const ATT: Network = network(Speed::Trace("ATT-LTE-driving.down"), Speed::Trace("ATT-LTE-driving.up"));
const UMTS: Network =
    network(Speed::Trace("TMobile-UMTS-driving.down"), Speed::Trace("TMobile-UMTS-driving.up"));
const INTERMITTENT: Network = Network {
    outage: Outage::Random { on: Duration::from_secs(5), off: Duration::from_millis(200) },
    ..network(Speed::Rate(12_000_000), Speed::Rate(12_000_000))
};
const WIFI: Network = network(Speed::Trace("wifi-0.57mbps-poisson"), Speed::Trace("wifi-0.57mbps-poisson"));
const RAMP: Network = network(Speed::Trace("ramp"), Speed::Trace("ramp"));
const OUTAGE: Network = Network {
    outage: Outage::Once { after: Duration::from_secs(20), off: Duration::from_secs(1) },
    ..network(Speed::Rate(500_000), Speed::Rate(500_000))
};
const NOTHING: Network = Network { delay: Duration::ZERO, ..network(Speed::Unlimited, Speed::Unlimited) };

const fn case(
    name: &'static str,
    network_name: &'static str,
    network: Network,
    length: Length,
    scheme: Scheme,
    processors: u32,
) -> Case {
    Case { name, network_name, network, length, scheme, processors }
}

const fn queue(packets: u32) -> Network {
    Network { queue_packets: packets, ..VERIZON }
}

/// All of them. Those that take longest are not the first.
pub const CASES: &[Case] = {
    use Length::{Of, Trace};
    use Scheme::{Conventional, ConventionalCodec, NoGracePeriods, Ours, SalsifyTransport};
    const SHORT: &str = "Verizon LTE (short)";
    &[
        case("testbed", "no network", NOTHING, Of(Duration::from_secs(30)), Ours, 2),
        case("outage", "500 kbit/s, off for a second", OUTAGE, Of(Duration::from_secs(40)), Ours, 2),
        case(
            "outage-conventional",
            "500 kbit/s, off for a second",
            OUTAGE,
            Of(Duration::from_secs(40)),
            Conventional,
            2,
        ),
        case("ramp", "capacity ramp", RAMP, Trace, Ours, 2),
        case("ramp-conventional", "capacity ramp", RAMP, Trace, Conventional, 2),
        case("verizon-1c", SHORT, VERIZON, Trace, Ours, 1),
        case("verizon-2c", SHORT, VERIZON, Trace, Ours, 2),
        case("salsify-transport", SHORT, VERIZON, Trace, SalsifyTransport, 2),
        case("no-grace", SHORT, VERIZON, Trace, NoGracePeriods, 2),
        case("conventional-codec", SHORT, VERIZON, Trace, ConventionalCodec, 2),
        case("conventional", SHORT, VERIZON, Trace, Conventional, 2),
        case("queue-64", "Verizon LTE (short), queue of 64", queue(64), Trace, Ours, 2),
        case("queue-1024", "Verizon LTE (short), queue of 1024", queue(1024), Trace, Ours, 2),
        case("intermittent-1c", "intermittent link", INTERMITTENT, Of(LONG), Ours, 1),
        case("intermittent-2c", "intermittent link", INTERMITTENT, Of(LONG), Ours, 2),
        case("wifi-1c", "emulated Wi-Fi", WIFI, Of(LONG), Ours, 1),
        case("wifi-2c", "emulated Wi-Fi", WIFI, Of(LONG), Ours, 2),
        case("att-1c", "AT&T LTE", ATT, Trace, Ours, 1),
        case("att-2c", "AT&T LTE", ATT, Trace, Ours, 2),
        case("umts-1c", "T-Mobile UMTS", UMTS, Trace, Ours, 1),
        case("umts-2c", "T-Mobile UMTS", UMTS, Trace, Ours, 2),
    ]
};

impl Case {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Case> {
        CASES.iter().find(|case| case.name == name)
    }

    /// The sender's name, as reports show it.
    pub fn who(&self) -> String {
        match self.scheme {
            Scheme::Ours => format!("{}-{}c", self.scheme.name(), self.processors),
            other => other.name().to_owned(),
        }
    }

    /// The names of its traces.
    pub fn traces(&self) -> impl Iterator<Item = &'static str> {
        [self.network.up, self.network.down].into_iter().filter_map(|speed| match speed {
            Speed::Trace(name) => Some(name),
            Speed::Unlimited | Speed::Rate(_) => None,
        })
    }

    /// How long pictures are sent. `traces` are those of [`Case::traces`] by their names.
    pub fn duration(&self, traces: &BTreeMap<String, Arc<Trace>>, options: &Options) -> Duration {
        let whole = match (self.length, self.network.up) {
            (Length::Of(length), _) => length,
            (Length::Trace, Speed::Trace(name)) => traces.get(name).map_or(LONG, |trace| trace.period()),
            (Length::Trace, _) => LONG,
        };
        options.longest.map_or(whole, |longest| longest.min(whole))
    }

    /// What is run. A trace that is not among `traces` is a way without a bound: see that all are there.
    pub fn setup(&self, traces: &BTreeMap<String, Arc<Trace>>, options: &Options) -> Setup {
        let way = |speed| {
            let service = match speed {
                Speed::Unlimited => Service::Unlimited,
                Speed::Rate(rate) => Service::Rate(rate),
                Speed::Trace(name) => {
                    traces.get(name).map_or(Service::Unlimited, |trace| Service::Trace(Arc::clone(trace)))
                }
            };
            let is_trace = matches!(service, Service::Trace(_));
            let times = match self.network.outage {
                Outage::None => OutageTimes::None,
                Outage::Random { on, off } => OutageTimes::Random { on, off },
                Outage::Once { after, off } => OutageTimes::Once { after, off },
            };
            LinkConfig {
                service,
                queue: Queue::packets(self.network.queue_packets),
                delay: self.network.delay,
                outages: Outages { times, effect: OutageEffect::Drop },
                overhead_bytes: if is_trace { TRACE_OVERHEAD_BYTES } else { 0 },
                ..LinkConfig::default()
            }
        };
        Setup {
            lines: vec![Line { up: way(self.network.up), down: way(self.network.down) }],
            bonding: Bonding::default(),
            seed: options.seed,
            rate: options.rate,
            duration: self.duration(traces, options),
            sender: SenderSettings {
                speed: options.speed,
                codec: self.scheme.codec(),
                ..SenderSettings::new(1, options.rate)
            },
            sound: None,
            controller: self.scheme.controller(),
            parity: Fec::WhenLossy(PARITY_PERCENT),
            probing_percent: 0,
            key_interval: None,
            cost: Cost::default().with_processors(self.processors),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speed::Unlimited => write!(f, "no bound"),
            Speed::Rate(rate) => write!(f, "{} kbit/s", rate / 1000),
            Speed::Trace(name) => write!(f, "{name}"),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Network { up, down, delay, queue_packets, outage } = self;
        if *self == NOTHING {
            return write!(f, "no network");
        }
        write!(f, "{up}, back {down}, {} ms each way, queues of {queue_packets} packets", delay.as_millis())?;
        let seconds = |time: &Duration| time.as_secs_f64();
        match outage {
            Outage::None => Ok(()),
            Outage::Random { on, off } => {
                write!(f, ", on for {} s and off for {} s by chance", seconds(on), seconds(off))
            }
            Outage::Once { after, off } => {
                write!(f, ", off for {} s after {} s", seconds(off), seconds(after))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn options(longest: Option<u64>) -> Options {
        let rate = FrameRate::new(30, 1).unwrap();
        Options { rate, longest: longest.map(Duration::from_secs), seed: 1, speed: 6 }
    }

    #[test]
    fn names_are_their_own_and_fit_into_files() {
        let names: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')));
        let runs: BTreeSet<_> =
            CASES.iter().map(|case| format!("{} {} {:?}", case.network, case.who(), case.scheme)).collect();
        assert_eq!(runs.len(), CASES.len(), "no run is there twice");
        assert_eq!(Case::named("att-2c").map(Case::who).as_deref(), Some("Glassline-2c"));
        assert!(Case::named("att").is_none());
    }

    #[test]
    fn a_case_is_a_setup() {
        let traces = BTreeMap::from([
            ("ATT-LTE-driving.down".to_owned(), Arc::new("0\n7000\n".parse::<Trace>().unwrap())),
            ("ATT-LTE-driving.up".to_owned(), Arc::new("0\n9000\n".parse::<Trace>().unwrap())),
        ]);
        let case = Case::named("att-1c").unwrap();
        assert_eq!(case.traces().collect::<Vec<_>>(), ["ATT-LTE-driving.down", "ATT-LTE-driving.up"]);
        let setup = case.setup(&traces, &options(None));
        assert_eq!(setup.duration, Duration::from_secs(7), "as long as the trace");
        assert_eq!(setup.cost.processors, 1);
        assert!(
            matches!(setup.lines[0].up.service, Service::Trace(_)) && setup.lines[0].up.overhead_bytes == 4
        );
        assert_eq!(case.setup(&traces, &options(Some(2))).duration, Duration::from_secs(2));
        let none = BTreeMap::new();
        let setup = Case::named("conventional").unwrap().setup(&none, &options(Some(60)));
        assert_eq!((setup.controller, setup.sender.codec), (Controller::Adaptive, CodecMode::Conventional));
        let setup = Case::named("no-grace").unwrap().setup(&none, &options(None));
        assert!(matches!(setup.controller, Controller::Salsify { grace_periods: false, .. }));
        for case in CASES {
            case.setup(&none, &options(None)).lines[0].up.check().unwrap();
        }
        assert!(Case::named("outage").unwrap().network.to_string().contains("off for 1 s after 20 s"));
    }
}
