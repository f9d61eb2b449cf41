//! Who is measured.

use anyhow::Result;
use clap::ValueEnum;
use std::net::SocketAddr;
use std::time::Duration;

use crate::carrier::{Carrier, Load};
use crate::handles::Handles;
use crate::ours::Core;
use crate::quic::{Control, Quic};
use crate::srt::Srt;
use crate::tcp::Tcp;

/// A carrier of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Who {
    /// Ours, by the handles that programs have
    Ours,
    /// Ours: the core in the bench's loop, without handles, locks and threads
    Core,
    /// quinn with CUBIC
    Quinn,
    /// quinn with BBR
    QuinnBbr,
    /// quinn with a controller that goes by the queue's delay
    QuinnDelay,
    /// TCP with BBR
    TcpBbr,
    /// TCP with CUBIC
    TcpCubic,
    /// SRT in live mode, whose messages all wait until 120 ms are over
    #[value(name = "srt-120")]
    Srt120,
    /// The same with 400 ms, which a second resend fits into here
    #[value(name = "srt-400")]
    Srt400,
}

impl Who {
    /// The column of a table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Ours => "glassline",
            Who::Core => "glassline core",
            Who::Quinn => "quinn",
            Who::QuinnBbr => "quinn BBR",
            Who::QuinnDelay => "quinn delay",
            Who::TcpBbr => "TCP BBR",
            Who::TcpCubic => "TCP CUBIC",
            Who::Srt120 => "SRT 120 ms",
            Who::Srt400 => "SRT 400 ms",
        }
    }

    /// The word on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// TCP's congestion control, if it is TCP.
    pub(crate) fn congestion(self) -> Option<&'static str> {
        match self {
            Who::TcpBbr => Some("bbr"),
            Who::TcpCubic => Some("cubic"),
            _ => None,
        }
    }

    /// SRT's latency, if it is SRT.
    pub(crate) fn latency(self) -> Option<Duration> {
        match self {
            Who::Srt120 => Some(Duration::from_millis(120)),
            Who::Srt400 => Some(Duration::from_millis(400)),
            _ => None,
        }
    }

    pub(crate) fn listen(self, address: SocketAddr, load: Load) -> Result<Box<dyn Carrier>> {
        Ok(match self {
            Who::Ours => Box::new(Handles::listen(address, load)?),
            Who::Core => Box::new(Core::listen(address, load)?),
            Who::Quinn => Box::new(Quic::listen(address, load, Control::Cubic)?),
            Who::QuinnBbr => Box::new(Quic::listen(address, load, Control::Bbr)?),
            Who::QuinnDelay => Box::new(Quic::listen(address, load, Control::Delay)?),
            Who::TcpBbr => Box::new(Tcp::listen(address, load, "bbr")?),
            Who::TcpCubic => Box::new(Tcp::listen(address, load, "cubic")?),
            Who::Srt120 | Who::Srt400 => Box::new(Srt::listen(address, self.latency().unwrap_or_default())?),
        })
    }

    pub(crate) fn connect(self, address: SocketAddr, load: Load) -> Result<Box<dyn Carrier>> {
        Ok(match self {
            Who::Ours => Box::new(Handles::connect(address, load)?),
            Who::Core => Box::new(Core::connect(address, load)?),
            Who::Quinn => Box::new(Quic::connect(address, load, Control::Cubic)?),
            Who::QuinnBbr => Box::new(Quic::connect(address, load, Control::Bbr)?),
            Who::QuinnDelay => Box::new(Quic::connect(address, load, Control::Delay)?),
            Who::TcpBbr => Box::new(Tcp::connect(address, load, "bbr")?),
            Who::TcpCubic => Box::new(Tcp::connect(address, load, "cubic")?),
            Who::Srt120 | Who::Srt400 => Box::new(Srt::connect(address, self.latency().unwrap_or_default())?),
        })
    }
}
