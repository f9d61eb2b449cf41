//! What the commands that receive uncompressed video have in common.

use crate::failure;
use anyhow::Result;
use glassline_io::nic;
use glassline_io::process::allowed_processors;
use glassline_media::quantity::{self, ByteSize};
use glassline_studio::raw::described::{self, Options};
use glassline_studio::raw::receive::Receiver;
use glassline_transport::sdp::Description;
use std::path::Path;
use std::time::Duration;

/// What `--skew` is where it is not given.
const SKEW: Duration = Duration::from_millis(50);

/// How packets are received.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReceiveOptions {
    /// The network interface on which multicast groups are joined; give it twice for two paths. Without it the
    /// routing table chooses
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,
    /// The processor for the receiving thread, counted from 0; keep other threads and interrupts off it
    /// (docs/raw-video.md)
    #[arg(long, value_name = "CPU")]
    processor: Option<usize>,
    /// Poll the network device for this long instead of waiting for its interrupt: less delay, but it takes a whole
    /// core. Needs CAP_NET_ADMIN
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    busy_poll: Option<Duration>,
    /// Kernel buffer for packets that have not been read yet; without it 38 MiB, or 50 ms of the stream
    #[arg(long, value_name = "SIZE")]
    socket_buffer: Option<ByteSize>,
    /// How much later one of two paths may be than the other (ST 2022-7)
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = quantity::parse_duration)]
    skew: Duration,
}

impl ReceiveOptions {
    /// The first option that was given, for callers that can use none of them.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let all = [
            ("--interface", !self.interface.is_empty()),
            ("--processor", self.processor.is_some()),
            ("--busy-poll", self.busy_poll.is_some()),
            ("--socket-buffer", self.socket_buffer.is_some()),
            ("--skew", self.skew != SKEW),
        ];
        all.iter().find(|(_, is_given)| *is_given).map(|(name, _)| *name)
    }

    /// The settings for the engine, except for the memory for frames.
    pub(crate) fn options(&self) -> Result<Options> {
        if let Some(processor) = self.processor {
            let allowed = allowed_processors()?;
            if !allowed.contains(&processor) {
                let all: Vec<String> = allowed.iter().map(usize::to_string).collect();
                return Err(failure::usage(
                    format!("--processor {processor}: there is none for us"),
                    format!("choose of {}", all.join(", ")),
                ));
            }
        }
        Ok(Options {
            interfaces: self.interface.clone(),
            socket_bytes: self.socket_buffer.map(|size| usize::try_from(size.bytes()).unwrap_or(usize::MAX)),
            busy_poll: self.busy_poll,
            processor: self.processor,
            skew: self.skew,
            ..Options::default()
        })
    }
}

/// The description that `rtp:FILE.sdp` names.
pub(crate) fn describe(target: &str) -> Result<Description> {
    let Some(path) = target.strip_prefix("rtp:").filter(|path| !path.is_empty()) else {
        return Err(failure::usage(
            format!("{target:?} names no session description"),
            "write rtp:FILE.sdp; the sender's administrator has the file, and `glassline send-raw --sdp FILE` writes one",
        ));
    };
    described::read(Path::new(path)).map_err(|error| {
        let advice = match error {
            described::Error::Read(_) if path.starts_with("//") => {
                "what comes to an address is not known from it alone: name the file with its session description, rtp:FILE.sdp \
                 (`glassline send-raw --sdp FILE` writes one; cameras and gateways offer one on their pages)"
            }
            described::Error::Read(_) => "name a file with a session description (SDP)",
            _ => "see docs/raw-video.md for what is understood",
        };
        failure::usage(error, advice)
    })
}

/// What to do where a description cannot be followed.
pub(crate) fn advice(error: &described::Error) -> &'static str {
    match error {
        described::Error::Memory { .. } => "correct the description's width and height, or free some memory",
        _ => "name the session description (SDP) of uncompressed video or sound: rtp:FILE.sdp",
    }
}

/// Says what of the machine is not as it should be for so much data.
pub(super) fn warn_of_machine(receiver: &Receiver, settings: &glassline_studio::raw::receive::Settings) {
    for (granted, path) in receiver.granted().iter().zip(&settings.paths) {
        if let Some(advice) = granted.advice() {
            tracing::warn!(
                "the socket of {} has room for {} of {} MiB, and loses packets when the machine is busy for long: {advice}",
                path.from.address,
                granted.granted_bytes >> 20,
                granted.asked_bytes >> 20
            );
        }
        let interface = path.from.interface.clone();
        let interface = interface.or_else(|| nic::interface_of(path.from.address.ip()).ok().flatten());
        let Some(interface) = interface else { continue };
        if let Some(advice) = nic::ring(&interface).ok().flatten().and_then(|ring| ring.advice(&interface)) {
            tracing::warn!("the receive ring of {interface} is shorter than it can be: {advice}");
        }
    }
    if !receiver.is_huge() {
        tracing::debug!("frames are not in huge pages (transparent_hugepage, vm.nr_hugepages)");
    }
}

/// Why the engine cannot receive, with what to do.
pub(crate) fn cannot_receive(error: &std::io::Error, addresses: &str) -> anyhow::Error {
    let advice = match error.kind() {
        std::io::ErrorKind::AddrInUse => "another program receives there already: end it",
        std::io::ErrorKind::AddrNotAvailable => {
            "the description names an address that is not this machine's: correct its c= line, or receive on that machine"
        }
        std::io::ErrorKind::PermissionDenied => "give the program CAP_NET_ADMIN, or leave --busy-poll out",
        std::io::ErrorKind::OutOfMemory => "ask for a smaller --pool",
        _ => "see docs/raw-video.md",
    };
    failure::failed(format!("cannot receive at {addresses}: {error}"), advice)
}
