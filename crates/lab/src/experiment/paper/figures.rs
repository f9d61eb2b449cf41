//! Which cases belong together, and the paper's own figures beside them: those of its table and plots, as its authors have
//! published them (excamera/salsify-results at 1ec0297, `graphs/paper/*/*.dat`: the 95th percentile of the delay, less the 66.7 ms
//! of their testbed, and the mean of SSIM of luma by Daala's `dump_ssim`, in decibels).

/// A system of the paper's on the same network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its name there.
    pub who: &'static str,
    /// The 95th percentile of the delay, ms.
    pub delay_p95_ms: f64,
    /// SSIM as the tools of Daala compute it, dB.
    pub ssim_daala_db: f64,
}

/// What is drawn over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Panels {
    /// The time of the first picture that is shown, seconds after the first that was captured.
    pub from_s: f64,
    /// How much is shown, seconds.
    pub length_s: f64,
}

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// For links.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    /// Names of the cases.
    pub cases: &'static [&'static str],
    /// The paper's, if it has any.
    pub points: &'static [Point],
    /// Whether ours were measured on the paper's network, so that they may be compared.
    pub is_comparable: bool,
    /// What is drawn over time, if anything is.
    pub panels: Option<Panels>,
    /// What a reader has to know of it.
    pub note: &'static str,
}

const fn point(who: &'static str, delay_p95_ms: f64, ssim_daala_db: f64) -> Point {
    Point { who, delay_p95_ms, ssim_daala_db }
}

const fn minute(from_s: f64) -> Option<Panels> {
    Some(Panels { from_s, length_s: 60.0 })
}

/// Shares of the pictures of which Salsify sent the better candidate, the worse, and none.
pub const CHOSEN: [f64; 3] = [0.50, 0.32, 0.18];
/// States that its sender and its receiver held.
pub const STATES: [u32; 2] = [6, 3];

/// All, in the paper's order.
pub const FIGURES: &[Figure] = &[
    Figure {
        key: "verizon",
        title: "Verizon LTE, and what each part is worth",
        cases: &[
            "verizon-1c",
            "verizon-2c",
            "salsify-transport",
            "no-grace",
            "conventional-codec",
            "conventional",
        ],
        points: &[
            point("Salsify-1c", 684.03, 15.5347),
            point("Salsify-2c", 1256.80, 15.6029),
            point("Salsify (no grace period)", 539.37, 8.0513),
            point("Salsify (conventional codec)", 962.68, 11.3951),
            point("Salsify (conventional transport and codec)", 4292.93, 12.2223),
            point("FaceTime", 2044.20, 13.9391),
            point("Hangouts", 1719.05, 10.3646),
            point("Skype", 6600.24, 14.1205),
            point("WebRTC", 4977.37, 13.6641),
            point("WebRTC (VP9-SVC)", 5411.85, 14.0611),
        ],
        is_comparable: false,
        panels: minute(30.0),
        note: "The paper's points are of a longer recording of the same network, and are shown for their order, not to be \
               compared. A conventional codec is given a quantiser once a second and sends every picture; the conventional \
               transport is our own controller, which tells it a rate.",
    },
    Figure {
        key: "att",
        title: "AT&T LTE",
        cases: &["att-1c", "att-2c"],
        points: &[
            point("Salsify-1c", 448.51, 15.4096),
            point("Salsify-2c", 362.40, 15.3661),
            point("FaceTime", 1023.58, 13.2854),
            point("Hangouts", 1862.38, 11.1986),
            point("Skype", 557.43, 8.5467),
            point("WebRTC", 4729.94, 13.3534),
            point("WebRTC (VP9-SVC)", 3547.24, 14.0535),
        ],
        is_comparable: true,
        panels: minute(210.0),
        note: "",
    },
    Figure {
        key: "umts",
        title: "T-Mobile UMTS",
        cases: &["umts-1c", "umts-2c"],
        points: &[
            point("Salsify-1c", 3906.75, 13.2300),
            point("Salsify-2c", 4129.35, 13.2824),
            point("FaceTime", 5699.65, 10.4982),
            point("Hangouts", 7096.95, 9.3797),
            point("Skype", 5745.89, 11.7711),
            point("WebRTC", 8685.53, 11.5433),
            point("WebRTC (VP9-SVC)", 18215.30, 12.7668),
        ],
        is_comparable: true,
        panels: minute(500.0),
        note: "",
    },
    Figure {
        key: "intermittent",
        title: "Intermittent link: 12 Mbit/s, on for 5 s and off for 0.2 s by chance",
        cases: &["intermittent-1c", "intermittent-2c"],
        points: &[
            point("Salsify-1c", 373.64, 16.6736),
            point("Salsify-2c", 263.27, 16.5711),
            point("FaceTime", 415.80, 14.6974),
            point("Hangouts", 1771.41, 9.2719),
            point("Skype", 229.68, 15.6518),
            point("WebRTC", 169.11, 16.1199),
            point("WebRTC (VP9-SVC)", 3216.95, 13.3783),
        ],
        is_comparable: true,
        panels: minute(0.0),
        note: "",
    },
    Figure {
        key: "wifi",
        title: "Emulated Wi-Fi: 0.57 Mbit/s, Poisson arrivals",
        cases: &["wifi-1c", "wifi-2c"],
        points: &[
            point("Salsify-1c", 593.90, 9.5722),
            point("Salsify-2c", 429.23, 9.5606),
            point("FaceTime", 1080.15, 8.7824),
            point("Hangouts", 980.49, 8.4499),
            point("Skype", 495.14, 7.7779),
            point("WebRTC", 721.04, 10.1963),
            point("WebRTC (VP9-SVC)", 14767.26, 11.7475),
        ],
        is_comparable: true,
        panels: minute(0.0),
        note: "",
    },
    Figure {
        key: "ramp",
        title: "Capacity that falls to nothing and comes back",
        cases: &["ramp", "ramp-conventional"],
        points: &[],
        is_comparable: true,
        panels: Some(Panels { from_s: 70.0, length_s: 40.0 }),
        note: "24 Mbit/s, down to nothing within twenty seconds, and up again within twenty more; the paper shows these forty.",
    },
    Figure {
        key: "outage",
        title: "An outage of one second at 500 kbit/s",
        cases: &["outage", "outage-conventional"],
        points: &[],
        is_comparable: true,
        panels: Some(Panels { from_s: 15.0, length_s: 15.0 }),
        note: "The network is off for a second after twenty.",
    },
    Figure {
        key: "queue-64",
        title: "Verizon LTE, queue of 64 packets",
        cases: &["queue-64"],
        points: &[
            point("Salsify-1c", 1210.79, 14.8886),
            point("Salsify-2c", 947.35, 14.6534),
            point("Hangouts", 1767.72, 9.9147),
            point("WebRTC", 5510.38, 15.0141),
            point("WebRTC (VP9-SVC)", 3345.56, 14.2633),
        ],
        is_comparable: false,
        panels: None,
        note: QUEUES,
    },
    Figure {
        key: "queue-256",
        title: "Verizon LTE, queue of 256 packets",
        cases: &["verizon-2c"],
        points: &[
            point("Salsify-1c", 684.03, 15.5347),
            point("Salsify-2c", 1256.80, 15.6029),
            point("Hangouts", 1719.05, 10.3646),
            point("WebRTC", 4977.37, 13.6641),
            point("WebRTC (VP9-SVC)", 5411.85, 14.0611),
        ],
        is_comparable: false,
        panels: None,
        note: QUEUES,
    },
    Figure {
        key: "queue-1024",
        title: "Verizon LTE, queue of 1024 packets",
        cases: &["queue-1024"],
        points: &[
            point("Salsify-1c", 849.31, 15.5662),
            point("Salsify-2c", 934.92, 15.6023),
            point("Hangouts", 2354.92, 9.9476),
            point("WebRTC", 5839.73, 14.4767),
            point("WebRTC (VP9-SVC)", 2882.80, 13.9739),
        ],
        is_comparable: false,
        panels: None,
        note: QUEUES,
    },
];

const QUEUES: &str = "The paper's points are of a longer recording of the same network: compare how much a queue changes, not the points.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::paper::{CASES, Case};
    use std::collections::BTreeSet;

    #[test]
    fn each_case_has_its_figure_and_each_figure_its_cases() {
        let shown: BTreeSet<_> = FIGURES.iter().flat_map(|figure| figure.cases.iter().copied()).collect();
        for name in &shown {
            assert!(Case::named(name).is_some(), "{name}");
        }
        let hidden: Vec<_> =
            CASES.iter().map(|case| case.name).filter(|name| !shown.contains(name)).collect();
        assert_eq!(hidden, ["testbed"]);
        let keys: BTreeSet<_> = FIGURES.iter().map(|figure| figure.key).collect();
        assert_eq!(keys.len(), FIGURES.len());
    }

    #[test]
    fn what_is_not_the_papers_network_is_said() {
        for figure in FIGURES.iter().filter(|figure| !figure.is_comparable) {
            assert!(figure.note.contains("longer recording"), "{}", figure.key);
        }
    }
}
