//! Who is measured.

use anyhow::Result;
use clap::ValueEnum;
use std::net::SocketAddr;

use crate::carrier::{Carrier, Load};
use crate::handles::Handles;
use crate::ours::Ours;
use crate::quic::{Control, Quic};
use crate::tcp::Tcp;

/// A carrier of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Who {
    /// Ours: the core in the bench's loop
    Ours,
    /// Ours by the handles that programs have; for speed alone
    Handles,
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
}

impl Who {
    /// The column of a table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Ours => "glassline",
            Who::Handles => "handles",
            Who::Quinn => "quinn",
            Who::QuinnBbr => "quinn BBR",
            Who::QuinnDelay => "quinn delay",
            Who::TcpBbr => "TCP BBR",
            Who::TcpCubic => "TCP CUBIC",
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

    pub(crate) fn listen(self, address: SocketAddr, load: Load) -> Result<Box<dyn Carrier>> {
        Ok(match self {
            Who::Ours => Box::new(Ours::listen(address, load)?),
            Who::Handles => Box::new(Handles::listen(address, load)?),
            Who::Quinn => Box::new(Quic::listen(address, load, Control::Cubic)?),
            Who::QuinnBbr => Box::new(Quic::listen(address, load, Control::Bbr)?),
            Who::QuinnDelay => Box::new(Quic::listen(address, load, Control::Delay)?),
            Who::TcpBbr => Box::new(Tcp::listen(address, load, "bbr")?),
            Who::TcpCubic => Box::new(Tcp::listen(address, load, "cubic")?),
        })
    }

    pub(crate) fn connect(self, address: SocketAddr, load: Load) -> Result<Box<dyn Carrier>> {
        Ok(match self {
            Who::Ours => Box::new(Ours::connect(address, load)?),
            Who::Handles => Box::new(Handles::connect(address, load)?),
            Who::Quinn => Box::new(Quic::connect(address, load, Control::Cubic)?),
            Who::QuinnBbr => Box::new(Quic::connect(address, load, Control::Bbr)?),
            Who::QuinnDelay => Box::new(Quic::connect(address, load, Control::Delay)?),
            Who::TcpBbr => Box::new(Tcp::connect(address, load, "bbr")?),
            Who::TcpCubic => Box::new(Tcp::connect(address, load, "cubic")?),
        })
    }
}
