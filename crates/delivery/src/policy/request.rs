//! What a client wants to do with which stream: the question that each protocol asks before it does anything.
//!
//! ```text
//! HTTP head ─ http1::access ─► AccessRequest ─► Rules::check ─► Ok, or Refusal ─ http1::access ─► status and words
//! ```

use super::{Caller, Refusal, Rules, StreamName};
use glassline_media::Utc;
use std::fmt;

/// What a client wants to do with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To send it.
    Publish,
    /// To get it.
    Watch,
}

/// The protocol by which it is asked. For logs: no rule depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// HTTP/1.1 (RFC 9112).
    Http,
    /// The same over TLS.
    Https,
    /// SRT (draft-sharabayko-srt).
    Srt,
    /// RTMP.
    Rtmp,
    /// The same over TLS.
    Rtmps,
    /// RTSP 1.0 (RFC 2326).
    Rtsp,
    /// The same over TLS.
    Rtsps,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Http => "http",
            Protocol::Https => "https",
            Protocol::Srt => "srt",
            Protocol::Rtmp => "rtmp",
            Protocol::Rtmps => "rtmps",
            Protocol::Rtsp => "rtsp",
            Protocol::Rtsps => "rtsps",
        })
    }
}

/// A request to publish or to watch a stream.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    /// The stream.
    pub name: &'a StreamName,
    /// What the client wants to do with it.
    pub action: Action,
    /// By which protocol.
    pub protocol: Protocol,
    /// The client.
    pub caller: &'a Caller<'a>,
}

impl Rules {
    /// Whether what is asked may be done. That is decided by the name and the credential alone, whether or not there is such a
    /// stream: a caller that may not watch it gets the same answer either way.
    pub fn check(&self, request: &AccessRequest<'_>, now: Utc) -> Result<(), Refusal> {
        let AccessRequest { name, action, caller, .. } = request;
        let rules = self.of(name);
        match action {
            Action::Publish => rules.publish.check(caller),
            Action::Watch => rules.watch.check(caller, name, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Credential, Networks, PublishPolicy, Route, ShownToken, StreamRules, Token, WatchPolicy,
    };
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> StreamName {
        StreamName::parse(text).unwrap()
    }

    fn rules() -> Rules {
        let publish = PublishPolicy { key: Some("publisher".into()), ..PublishPolicy::default() };
        let watch = WatchPolicy { key: Some("viewer".into()), ..WatchPolicy::default() };
        let own = [(name("stage"), StreamRules { publish, watch, ..StreamRules::default() })].into();
        Rules { own, ..Rules::default() }
    }

    fn ask(stream: &str, action: Action, peer: &str, credential: Credential<'_>) -> Result<(), Refusal> {
        let caller = Caller { peer: peer.parse().unwrap(), credential, route: Route::DIRECT };
        let request =
            AccessRequest { name: &name(stream), action, protocol: Protocol::Http, caller: &caller };
        rules().check(&request, Utc::from_nanos(999_000_000_000))
    }

    const FAR: &str = "192.0.2.7";

    #[test]
    fn each_stream_has_its_own_rules_for_each_action() {
        let none = Credential::default;
        let key = |key: &'static str| Credential { key: Some(key.into()), ..Credential::default() };
        assert_eq!(ask("stage", Action::Publish, "127.0.0.1", none()), Err(Refusal::Key));
        assert_eq!(ask("stage", Action::Publish, FAR, key("publisher")), Ok(()));
        assert_eq!(ask("stage", Action::Publish, FAR, key("viewer")), Err(Refusal::Key));
        assert_eq!(ask("stage", Action::Watch, FAR, none()), Err(Refusal::Token));
        assert_eq!(ask("stage", Action::Watch, FAR, key("viewer")), Ok(()));
        assert_eq!(ask("stage", Action::Watch, FAR, key("publisher")), Err(Refusal::Token));
        assert_eq!(ask("hall", Action::Publish, FAR, none()), Err(Refusal::NotLocal));
        assert_eq!(ask("hall", Action::Publish, "127.0.0.1", none()), Ok(()));
        assert_eq!(ask("hall", Action::Watch, FAR, none()), Ok(()));
    }

    #[test]
    fn a_token_is_for_watching_one_stream_for_a_while() {
        let shown = |stream: &str, expires_s| {
            let query = Token::sign("viewer", &name(stream), expires_s).query();
            let (expires, token) = query.split_once("&token=").unwrap();
            let token = ShownToken::parse(expires.trim_start_matches("expires="), token);
            Credential { token: Some(token.unwrap()), ..Credential::default() }
        };
        assert_eq!(ask("stage", Action::Watch, FAR, shown("stage", 1000)), Ok(()));
        assert_eq!(ask("stage", Action::Watch, FAR, shown("stage", 999)), Err(Refusal::Expired));
        assert_eq!(ask("stage", Action::Watch, FAR, shown("hall", 1000)), Err(Refusal::Token));
        assert_eq!(ask("stage", Action::Publish, FAR, shown("stage", 1000)), Err(Refusal::Key));
    }

    proptest! {
        /// However a key is shown, and wherever it is shown from: no other than the stream's own lets in.
        #[test]
        fn no_other_key_lets_in(key in ".{0,20}", in_address in any::<bool>(), watches in any::<bool>(), near in any::<bool>()) {
            prop_assume!(key != "publisher" && key != "viewer");
            let shown = Some(key.into());
            let credential = if in_address {
                Credential { key_in_address: shown, ..Credential::default() }
            } else {
                Credential { key: shown, ..Credential::default() }
            };
            let (action, refusal) = if watches { (Action::Watch, Refusal::Token) } else { (Action::Publish, Refusal::Key) };
            let peer = if near { "::1" } else { FAR };
            prop_assert_eq!(ask("stage", action, peer, credential), Err(refusal));
        }
    }

    #[test]
    fn an_address_in_front_of_which_a_proxy_stands_is_not_believed() {
        let networks = Networks::parse(["192.0.2.0/24"]).unwrap();
        let mut rules = Rules::default();
        rules.general.publish.networks = networks.clone();
        rules.general.watch.networks = networks;
        let ask = |action, route| {
            let caller = Caller { peer: FAR.parse().unwrap(), credential: Credential::default(), route };
            let request =
                AccessRequest { name: &name("hall"), action, protocol: Protocol::Https, caller: &caller };
            rules.check(&request, Utc::from_nanos(0))
        };
        let proxied = Route { is_proxied: true, ..Route::DIRECT };
        let foreign = Route { is_foreign_page: true, ..Route::DIRECT };
        for action in [Action::Publish, Action::Watch] {
            assert_eq!(ask(action, Route::DIRECT), Ok(()));
            assert_eq!(ask(action, proxied), Err(Refusal::Proxied));
        }
        assert_eq!(ask(Action::Publish, foreign), Err(Refusal::ForeignPage));
        assert_eq!(ask(Action::Watch, foreign), Ok(()), "a link on another page leads here");
    }
}
