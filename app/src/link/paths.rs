//! The paths of a link on the command line: by which local addresses and network interfaces it leads, and what they are for.

use crate::failure;
use anyhow::Result;
use glassline_call::link::Local;
use glassline_io::nic;
use glassline_media::quantity::{Bitrate, ByteRate};
use glassline_transport::link::Bonding;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Below which rate of the others a spare path is used where nothing is said: less is no video.
const SPARE_BELOW: Bitrate = Bitrate::from_bits_per_second(500_000);

/// Over which paths the link leads.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Several paths")]
pub(crate) struct PathArgs {
    /// A path of the link: a network interface (wwan0), a local address, or both (192.0.2.7@wwan0); given several times, the
    /// link has several paths. With ",spare" it is used only while the others do not answer or together carry less than
    /// 500 kbit/s, and with ",spare=2M" than that
    #[arg(long, value_name = "[ADDR@]IFACE[,spare[=RATE]]")]
    path: Vec<PathArg>,
    /// How several paths are used
    #[arg(long, value_enum, value_name = "HOW", requires = "path")]
    bonding: Option<BondingArg>,
}

/// How several paths are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BondingArg {
    /// Up to four paths carry the sum of what each does: messages are split so that all parts arrive together, and what is
    /// small or urgent is sent over the best two (default of `send`)
    Sum,
    /// Everything is sent over both of two paths, and the copy that arrives first counts
    Both,
    /// The second of two paths is used while the first is silent (default of `link connect`)
    Failover,
}

impl BondingArg {
    /// As the link takes it.
    pub(crate) fn bonding(self) -> Bonding {
        match self {
            BondingArg::Sum => Bonding::Sum,
            BondingArg::Both => Bonding::Both,
            BondingArg::Failover => Bonding::Failover,
        }
    }

    /// As it stands on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BondingArg::Sum => "sum",
            BondingArg::Both => "both",
            BondingArg::Failover => "failover",
        }
    }
}

/// `[ADDR@]IFACE[,spare[=RATE]]`, or `ADDR`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PathArg {
    address: Option<IpAddr>,
    interface: Option<String>,
    spare: Option<Bitrate>,
}

impl FromStr for PathArg {
    type Err = String;
    fn from_str(text: &str) -> Result<PathArg, String> {
        let (place, option) = text.split_once(',').map_or((text, None), |(place, rest)| (place, Some(rest)));
        let spare = match option {
            None => None,
            Some("spare") => Some(SPARE_BELOW),
            Some(other) => {
                let rate = other.strip_prefix("spare=").ok_or_else(|| {
                    format!("{other:?}: after the comma of a path stands spare, or spare=RATE as in spare=2M")
                })?;
                Some(rate.parse().map_err(|error| format!("spare={rate}: {error}"))?)
            }
        };
        let wrong = || {
            format!(
                "{text:?} is no address and no name of a network interface; write an interface (wwan0), an address \
                 (192.0.2.7), or both (0.0.0.0@wwan0)"
            )
        };
        let ip = |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let (address, interface) = match place.split_once('@') {
            Some((_, "")) => return Err(wrong()),
            Some((address, interface)) => (Some(ip(address).ok_or_else(wrong)?), Some(interface.to_owned())),
            None => match ip(place) {
                Some(address) => (Some(address), None),
                None if may_be_interface(place) => (None, Some(place.to_owned())),
                None => return Err(wrong()),
            },
        };
        Ok(PathArg { address, interface, spare })
    }
}

/// Whether an interface may have this name (at most 15 bytes). One that is not there may come: a modem that starts slowly.
fn may_be_interface(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=15).contains(&name.len())
        && name.bytes().all(is_plain)
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// This machine's network interfaces.
fn names() -> Vec<String> {
    // One that cannot be told is none that could be named.
    nic::interfaces().unwrap_or_default()
}

impl PathArg {
    /// As it was written.
    fn name(&self) -> String {
        match (&self.address, &self.interface) {
            (Some(address), Some(interface)) => format!("{address}@{interface}"),
            (Some(address), None) => address.to_string(),
            (None, interface) => interface.clone().unwrap_or_default(),
        }
    }

    /// The socket's end here for a peer at one of `to`.
    fn towards(&self, to: &[SocketAddr]) -> Result<Local> {
        let any = |remote: &SocketAddr| match remote {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let address = self.address.or_else(|| to.first().map(any)).unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        if !to.iter().any(|to| address.is_ipv4() == to.is_ipv4()) {
            let to = to.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(failure::usage(
                format!("--path {address} cannot reach {to}: one is IPv4, the other IPv6"),
                "name an address of the same family",
            ));
        }
        Ok(Local { interface: self.interface.clone(), ..Local::at((address, 0).into()) })
    }
}

/// The paths, checked and in the order in which they are opened.
#[derive(Debug)]
pub(crate) struct Paths {
    paths: Vec<PathArg>,
    /// What they are for.
    pub(crate) bonding: Bonding,
}

impl PathArgs {
    /// These paths, as they are written, and how they are used.
    ///
    /// # Errors
    /// One of them is none.
    pub(crate) fn of(paths: &[String], bonding: Option<BondingArg>) -> Result<PathArgs, String> {
        let path = paths.iter().map(|path| path.parse()).collect::<Result<_, _>>()?;
        Ok(PathArgs { path, bonding })
    }

    /// Whether there is more than one.
    pub(crate) fn are_several(&self) -> bool {
        self.path.len() > 1
    }

    /// Whether it is said how several are used.
    pub(crate) fn says_how(&self) -> bool {
        self.bonding.is_some()
    }

    /// Checks them. Several are used as `otherwise` says where nothing is said.
    pub(crate) fn check(&self, otherwise: Bonding) -> Result<Paths> {
        let bonding = match self.bonding {
            Some(_) if self.path.len() < 2 => {
                return Err(failure::usage(
                    "--bonding is about several paths",
                    "give --path a second time, as in --path wwan0 --path wwan1",
                ));
            }
            Some(bonding) => bonding.bonding(),
            None => otherwise,
        };
        let most = bonding.max_paths();
        if self.path.len() > most {
            let advice = match bonding {
                Bonding::Sum => "name the best of them".to_owned(),
                Bonding::Both | Bonding::Failover => {
                    format!("--bonding sum has up to {}", Bonding::Sum.max_paths())
                }
            };
            return Err(failure::usage(
                format!("{} paths are given, and a link has {most} at most in this way", self.path.len()),
                advice,
            ));
        }
        for (number, path) in self.path.iter().enumerate() {
            if self.path[..number].iter().any(|other| other.name() == path.name()) {
                return Err(failure::usage(
                    format!("--path {} is given twice", path.name()),
                    "each path leads over another interface, or has another address",
                ));
            }
        }
        let mut paths = self.path.clone();
        // The link begins with one that costs nothing.
        paths.sort_by_key(|path| path.spare.is_some());
        if paths.first().is_some_and(|path| path.spare.is_some()) {
            return Err(failure::usage("all paths are spare ones", "leave \",spare\" out of one of them"));
        }
        if bonding != Bonding::Sum && paths.iter().any(|path| path.spare.is_some()) {
            return Err(failure::usage(
                "a spare path is for --bonding sum",
                "with failover the second path is a spare one anyway",
            ));
        }
        Ok(Paths { paths, bonding })
    }
}

impl Paths {
    /// The sockets' ends here for a peer at one of `to`.
    ///
    /// # Errors
    /// An address of another family than the peer's; or none of the interfaces is there.
    pub(crate) fn locals(&self, to: &[SocketAddr]) -> Result<Vec<Local>> {
        let is_absent = |path: &PathArg| path.interface.as_deref().is_some_and(|name| !nic::exists(name));
        if !self.paths.is_empty() && self.paths.iter().all(is_absent) {
            return Err(failure::usage(
                format!("there is no network interface {}", self.names()),
                format!("this machine has {}", names().join(", ")),
            ));
        }
        match &self.paths[..] {
            [] => Ok(vec![super::local_towards(to)]),
            paths => paths.iter().map(|path| path.towards(to)).collect(),
        }
    }

    /// By the sockets' numbers: below which rate of the others a path is needed that is a spare one.
    pub(crate) fn spares(&self) -> Vec<Option<ByteRate>> {
        let rate = |rate: Bitrate| ByteRate::from_bytes_per_second(rate.bits_per_second() / 8);
        self.paths.iter().map(|path| path.spare.map(rate)).collect()
    }

    /// Whether the first path has an address of IPv4, where one is named.
    pub(crate) fn is_ipv4(&self) -> Option<bool> {
        self.paths.first().and_then(|path| path.address).map(|address| address.is_ipv4())
    }

    /// Their names, for errors.
    pub(crate) fn names(&self) -> String {
        match &self.paths[..] {
            [] => "any address".to_owned(),
            paths => paths.iter().map(PathArg::name).collect::<Vec<_>>().join(" and "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Result<PathArg, String> {
        text.parse()
    }

    #[test]
    fn a_path_is_an_address_an_interface_or_both() {
        let expected = |address: Option<&str>, interface: Option<&str>, spare: Option<&str>| {
            Ok(PathArg {
                address: address.map(|address| address.parse().unwrap()),
                interface: interface.map(str::to_owned),
                spare: spare.map(|rate| rate.parse().unwrap()),
            })
        };
        assert_eq!(path("192.0.2.7"), expected(Some("192.0.2.7"), None, None));
        assert_eq!(path("[::1]@lo"), expected(Some("::1"), Some("lo"), None));
        assert_eq!(path("lo"), expected(None, Some("lo"), None));
        assert_eq!(path("lo,spare"), expected(None, Some("lo"), Some("500k")));
        assert_eq!(path("0.0.0.0@wwan1,spare=2M"), expected(Some("0.0.0.0"), Some("wwan1"), Some("2M")));
        assert_eq!(path("no-such-if"), expected(None, Some("no-such-if"), None));
        for bad in ["", "192.0.2", "192.0.2.7@", "@wlan0", "wwan 0", "a-name-that-is-too-long"] {
            let error = path(bad).unwrap_err();
            assert!(error.contains("0.0.0.0@wwan0"), "{bad}: {error}");
        }
        assert!(path("lo,cost").unwrap_err().contains("spare=2M"));
        assert!(path("lo,spare=much").unwrap_err().contains("spare=much"));
    }

    #[test]
    fn several_paths_are_checked_together() {
        let check = |paths: &[&str], bonding| {
            let path = paths.iter().map(|path| self::path(path).unwrap()).collect();
            PathArgs { path, bonding }.check(Bonding::Failover)
        };
        let names = check(&["127.0.0.2,spare", "127.0.0.1", "::1"], Some(BondingArg::Sum)).unwrap();
        assert_eq!(
            (names.names().as_str(), names.bonding),
            ("127.0.0.1 and ::1 and 127.0.0.2", Bonding::Sum)
        );
        assert_eq!(names.spares().iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(check(&[], None).unwrap().bonding, Bonding::Failover);
        let error = |paths: &[&str], bonding| check(paths, bonding).unwrap_err().to_string();
        assert!(error(&["lo"], Some(BondingArg::Both)).contains("several paths"));
        assert!(error(&["lo", "127.0.0.1", "127.0.0.2"], None).contains("3 paths"));
        assert!(error(&["lo", "lo,spare"], Some(BondingArg::Sum)).contains("twice"));
        assert!(error(&["lo,spare"], None).contains("all paths"));
        assert!(error(&["lo", "127.0.0.1,spare"], Some(BondingArg::Both)).contains("--bonding sum"));
    }

    #[test]
    fn an_interface_alone_takes_the_family_of_the_peer() {
        let towards = |to: &str| path("lo").unwrap().towards(&[to.parse().unwrap()]).unwrap();
        assert_eq!(towards("192.0.2.1:7000").address.to_string(), "0.0.0.0:0");
        assert_eq!(towards("[2001:db8::1]:7000").address.to_string(), "[::]:0");
        let absent = PathArgs { path: vec![path("no-such-if").unwrap()], bonding: None };
        let to = ["192.0.2.1:7000".parse().unwrap()];
        let error = absent.check(Bonding::Sum).unwrap().locals(&to).unwrap_err().to_string();
        assert!(error.contains("no network interface no-such-if"), "{error}");
        assert!(path("::1").unwrap().towards(&["192.0.2.1:7000".parse().unwrap()]).is_err());
    }
}
