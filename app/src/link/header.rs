//! What a link's datagrams bear in IP's header for the routers on their way.

use glassline_call::link::Local;
use glassline_io::header_marks::{DSCP_MAX, FlowLabels};

/// What datagrams bear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct HeaderArgs {
    /// DSCP of what is sent, by which routers can prioritise it: 0 to 63; video calls use 34 (AF41) [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(DSCP_MAX)))]
    dscp: Option<u8>,
    /// Whether packets of IPv6 have a flow label, by which routers keep a link on one way (ECMP)
    /// [default: as net.ipv6.auto_flowlabels says]
    #[arg(long, value_name = "true|false")]
    flow_label: Option<bool>,
}

impl HeaderArgs {
    /// These.
    pub(crate) fn of(dscp: Option<u8>, flow_label: Option<bool>) -> HeaderArgs {
        HeaderArgs { dscp, flow_label }
    }

    /// `local`, with datagrams that bear it.
    pub(crate) fn mark(self, local: Local) -> Local {
        Local { dscp: self.dscp.or(local.dscp), flow_label: self.flow_label.or(local.flow_label), ..local }
    }

    /// Warns where the system does otherwise in any case.
    pub(crate) fn warn(self) {
        warn_of_flow_labels(self.flow_label);
    }
}

/// Warns where the system is set so that what is said of flow labels has no effect.
pub(crate) fn warn_of_flow_labels(wanted: impl IntoIterator<Item = bool>) {
    let overruled = match FlowLabels::of_system() {
        Some(FlowLabels::Off) => (true, 0),
        Some(FlowLabels::Forced) => (false, 3),
        _ => return,
    };
    if wanted.into_iter().any(|wanted| wanted == overruled.0) {
        tracing::warn!(
            "flow_label = {} has no effect, since net.ipv6.auto_flowlabels is {}: sysctl -w net.ipv6.auto_flowlabels=1 changes that",
            overruled.0,
            overruled.1
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        header: HeaderArgs,
    }

    fn line(words: &[&str]) -> Result<HeaderArgs, clap::Error> {
        Line::try_parse_from(["line"].iter().chain(words)).map(|line| line.header)
    }

    #[test]
    fn a_socket_s_end_gets_what_is_said_and_nothing_else() {
        let any = Local::at("[::]:0".parse().unwrap());
        assert_eq!(line(&[]).unwrap().mark(any.clone()), any);
        let marked = line(&["--dscp", "63", "--flow-label", "false"]).unwrap().mark(any.clone());
        assert_eq!(marked, Local { dscp: Some(63), flow_label: Some(false), ..any });
    }

    #[test]
    fn what_is_no_dscp_is_refused_with_the_range() {
        for bad in ["64", "-1", "AF41", ""] {
            let error = line(&[&format!("--dscp={bad}")]).unwrap_err().to_string();
            assert!(error.contains("--dscp"), "{error}");
        }
        assert!(line(&["--dscp=64"]).unwrap_err().to_string().contains("0..=63"));
        assert!(line(&["--flow-label=1"]).is_err());
    }
}
