//! The forwards of streams over RTMP, from what is configured.

use crate::config::{Config, Stream, StreamForward};
use glassline_delivery::policy::StreamName;
use glassline_doors::forward::WantedForward;
use glassline_io::tls::Roots;

/// The forwards that `config` asks for.
pub(super) fn wanted(config: &Config) -> Vec<WantedForward> {
    let of_stream = |(name, stream): (&String, &Stream)| {
        let name = StreamName::parse(name)?;
        let roots = stream.ca.clone().map_or(Roots::System, Roots::File);
        let addresses = stream.forward.iter().filter_map(StreamForward::rtmp);
        let wanted = |address: &glassline_transport::rtmp::Address| WantedForward {
            stream: name.clone(),
            address: address.clone(),
            roots: roots.clone(),
        };
        Some(addresses.map(wanted).collect::<Vec<_>>())
    };
    config.stream.iter().filter_map(of_stream).flatten().collect()
}
