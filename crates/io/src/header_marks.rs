//! What a socket's packets bear in IP's header for the routers on their way: the class of traffic (DSCP, RFC 2474) and the flow
//! label of IPv6 (RFC 6437).
//!
//! Both are options of a socket, take effect with its next packet, need no privilege, and may be changed at any time.

use crate::udp::set_option;
use socket2::{Domain, Socket};
use std::io;

/// The highest DSCP: it has six bits.
pub const DSCP_MAX: u8 = 63;

/// The file in which the kernel says what it does about flow labels (`net.ipv6.auto_flowlabels`).
const AUTO_FLOW_LABELS: &str = "/proc/sys/net/ipv6/auto_flowlabels";

/// What the kernel does about the flow labels of IPv6, for sockets that ask for nothing or for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowLabels {
    /// There are none, whatever a socket asks for (0).
    Off,
    /// Sockets have one unless they ask for none (1, the kernel's default).
    On,
    /// Sockets that ask for one have one (2).
    OnDemand,
    /// All sockets have one, whatever they ask for (3).
    Forced,
}

impl FlowLabels {
    /// What this machine is set to; `None` where it has no IPv6.
    pub fn of_system() -> Option<FlowLabels> {
        FlowLabels::read(&std::fs::read_to_string(AUTO_FLOW_LABELS).ok()?)
    }

    fn read(text: &str) -> Option<FlowLabels> {
        match text.trim() {
            "0" => Some(FlowLabels::Off),
            "1" => Some(FlowLabels::On),
            "2" => Some(FlowLabels::OnDemand),
            "3" => Some(FlowLabels::Forced),
            _ => None,
        }
    }
}

/// Has the packets of `socket` bear this DSCP. TCP's congestion bits (ECN) stay the kernel's.
///
/// # Errors
/// `InvalidInput` above [`DSCP_MAX`]; what the system says otherwise.
pub(crate) fn set_dscp(socket: &Socket, dscp: u8) -> io::Result<()> {
    if dscp > DSCP_MAX {
        let what = format!("DSCP {dscp} is none: they go from 0 to {DSCP_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let class = i32::from(dscp) << 2;
    if socket.domain()? == Domain::IPV6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class)?;
    }
    // A socket of IPv6 sends to addresses of IPv4 too. For these the kernel also derives the socket's priority in this machine's own
    // queues from the bits, by the table of the older type of service (RFC 1349), in which AF41 (34) goes behind all others.
    let priority = socket.priority()?;
    set_option(socket, libc::IPPROTO_IP, libc::IP_TOS, class)?;
    if socket.priority()? != priority { socket.set_priority(priority) } else { Ok(()) }
}

/// Has the packets of `socket` bear a flow label that the kernel derives from the flow, or none. Packets of IPv4 have no room for
/// one: for a socket of IPv4 it does nothing.
///
/// # Errors
/// What the system says.
pub(crate) fn set_flow_label(socket: &Socket, has_label: bool) -> io::Result<()> {
    if socket.domain()? != Domain::IPV6 {
        return Ok(());
    }
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_AUTOFLOWLABEL, i32::from(has_label))
}

/// Both, where they are wanted.
///
/// # Errors
/// As those of [`set_dscp`] and [`set_flow_label`].
pub(crate) fn set(socket: &Socket, dscp: Option<u8>, flow_label: Option<bool>) -> io::Result<()> {
    dscp.map_or(Ok(()), |dscp| set_dscp(socket, dscp))?;
    flow_label.map_or(Ok(()), |has_label| set_flow_label(socket, has_label))
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Protocol, Type};

    fn socket(domain: Domain, kind: Type) -> Option<Socket> {
        Socket::new(domain, kind, None::<Protocol>).ok()
    }

    #[test]
    fn a_dscp_stands_in_the_upper_six_bits_and_changes_no_priority() {
        let test = "a_dscp_stands_in_the_upper_six_bits_and_changes_no_priority";
        for kind in [Type::STREAM, Type::DGRAM] {
            let four = socket(Domain::IPV4, kind).unwrap();
            // 34 and 46 are where the kernel's table has other priorities than 0.
            for dscp in [34, 46, 63, 0] {
                set_dscp(&four, dscp).unwrap();
                assert_eq!((four.tos_v4().unwrap(), four.priority().unwrap()), (u32::from(dscp) << 2, 0));
            }
            assert_eq!(set_dscp(&four, 64).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            four.set_priority(5).unwrap();
            set_dscp(&four, 34).unwrap();
            assert_eq!(four.priority().unwrap(), 5);
            // IPv4 has no flow labels.
            set_flow_label(&four, true).unwrap();
            let Some(six) = socket(Domain::IPV6, kind) else {
                glassline_test_support::skip(test, "no IPv6");
                return;
            };
            set_dscp(&six, 10).unwrap();
            assert_eq!((six.tclass_v6().unwrap(), six.tos_v4().unwrap()), (40, 40));
        }
    }

    #[test]
    fn the_systems_setting_is_read() {
        let all = [FlowLabels::Off, FlowLabels::On, FlowLabels::OnDemand, FlowLabels::Forced];
        for (number, expected) in all.into_iter().enumerate() {
            assert_eq!(FlowLabels::read(&format!("{number}\n")), Some(expected));
        }
        assert_eq!((FlowLabels::read(""), FlowLabels::read("4")), (None, None));
    }
}
