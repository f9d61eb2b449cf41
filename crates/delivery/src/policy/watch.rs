//! Which clients may watch.
//!
//! Where a key is configured, a viewer's URL carries a token that was signed with the key for one stream until one
//! moment; the server keeps no list. A token is checked when a request comes: a viewer that is being served when it expires
//! stays. A request that shows the key itself (`Authorization`) needs no token: it comes from a server that stands in front of
//! this one and decides itself which of its viewers may watch, and with the key it could sign any token.
//!
//! ```text
//! token = base64url( HMAC-SHA256( key, "watch" LF name LF expires ) )        RFC 2104, RFC 4648 §5
//! /live/NAME.ts?expires=1790000000&token=…                                   expires: Unix time in seconds
//! ```
//! The page of an event is let into by a token of its own, in which `"event"` stands for `"watch"`; the server answers with tokens
//! for the event's streams that are good as long.

use super::credential::ShownToken;
use super::{Caller, Full, Networks, Refusal, Secret, StreamName, credential};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use glassline_media::Utc;
use ring::hmac;
use std::fmt;

/// The parameters of a query that are a viewer's own: when its token expires, and the token.
pub const TOKEN_PARAMETERS: [&str; 2] = ["expires", "token"];

/// Which clients may watch.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WatchPolicy {
    /// The secret that viewers' tokens are signed with; without one no viewer needs a token.
    pub key: Option<Secret>,
    /// From where watching is allowed; without a key, a request that a proxy passed on does not count as one from there.
    pub networks: Networks,
    /// Viewers of all streams at once; 0 is any number.
    pub max_viewers: usize,
    /// Viewers of one stream at once; 0 is any number.
    pub max_per_stream: usize,
    /// Viewers from one address at once; 0 is any number.
    pub max_per_address: usize,
    /// Bits a second of all viewers' streams together; 0 is any number.
    pub max_bps: u64,
    /// Bits a second of the streams that one address watches; 0 is any number.
    pub max_bps_per_address: u64,
}

/// What the present viewers take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How many they are.
    pub count: usize,
    /// Bits a second: for each viewer what its stream had when it came.
    pub bps: u64,
}

/// The key does not show: policies get logged.
impl fmt::Debug for WatchPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "(secret)");
        let mut shown = f.debug_struct("WatchPolicy");
        shown.field("key", &key).field("networks", &self.networks).field("max_viewers", &self.max_viewers);
        shown.field("max_per_stream", &self.max_per_stream).field("max_per_address", &self.max_per_address);
        shown.field("max_bps", &self.max_bps).field("max_bps_per_address", &self.max_bps_per_address);
        shown.finish()
    }
}

/// What lets a viewer in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Until when, in Unix seconds.
    pub expires_s: u64,
    text: String,
}

impl Token {
    /// Signs the stream `name` until `expires_s`, in Unix seconds.
    pub fn sign(key: &str, name: &StreamName, expires_s: u64) -> Token {
        Token::of(key, &signed(name, expires_s), expires_s)
    }

    /// Signs the event `name`, and with it its streams, until `expires_s`, in Unix seconds.
    pub fn sign_event(key: &str, name: &StreamName, expires_s: u64) -> Token {
        Token::of(key, &signed_event(name, expires_s), expires_s)
    }

    fn of(key: &str, signed: &[u8], expires_s: u64) -> Token {
        let tag = hmac::sign(&token_key(key), signed);
        let text = BASE64_URL_SAFE_NO_PAD.encode(tag.as_ref());
        Token { expires_s, text }
    }

    /// As the query of a URL: `expires=…&token=…`.
    pub fn query(&self) -> String {
        format!("expires={}&token={}", self.expires_s, self.text)
    }
}

impl ShownToken {
    /// What the parameters `expires` and `token` of a query say ([`Token::query`]); `None` where they are no token's.
    pub fn parse(expires: &str, token: &str) -> Option<ShownToken> {
        let tag = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
        Some(ShownToken { expires_s: expires.parse().ok()?, tag })
    }
}

fn token_key(key: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes())
}

/// What a token signs.
fn signed(name: &StreamName, expires_s: u64) -> Vec<u8> {
    format!("watch\n{name}\n{expires_s}").into_bytes()
}

/// What the token of an event signs.
fn signed_event(name: &StreamName, expires_s: u64) -> Vec<u8> {
    format!("event\n{name}\n{expires_s}").into_bytes()
}

/// An operator's links are good for so many hours at least, and change once an hour.
const TICKET_HOURS: u64 = 12;

fn ticket_expires_s(now: Utc) -> u64 {
    (now.as_nanos() / 1_000_000_000 / 3600 + 1 + TICKET_HOURS) * 3600
}

impl WatchPolicy {
    /// A token for an operator's own links to `name`; `None` where viewers need none.
    pub fn ticket(&self, name: &StreamName, now: Utc) -> Option<Token> {
        Some(Token::sign(self.key.as_deref()?, name, ticket_expires_s(now)))
    }

    /// A token for an operator's own links to the event `name`; `None` where viewers need none.
    pub fn event_ticket(&self, name: &StreamName, now: Utc) -> Option<Token> {
        Some(Token::sign_event(self.key.as_deref()?, name, ticket_expires_s(now)))
    }

    /// Until when, in Unix seconds, the token that `caller` shows lets in to the event `name`; `None` where it shows none that
    /// does.
    pub fn event_expires_s(&self, caller: &Caller<'_>, name: &StreamName, now: Utc) -> Option<u64> {
        let ShownToken { expires_s, tag } = caller.credential.token.as_ref()?;
        let key = token_key(self.key.as_deref()?);
        let is_its = hmac::verify(&key, &signed_event(name, *expires_s), tag).is_ok();
        (is_its && now.as_nanos() / 1_000_000_000 < *expires_s).then_some(*expires_s)
    }

    /// Whether `caller` may watch `name`. Tokens are compared in constant time, and looked at where none is needed too: how long
    /// it takes does not tell streams that need one from those that do not. Where nothing but the address lets in, that has to be
    /// believable ([`Caller::check_address`]).
    pub fn check(&self, caller: &Caller<'_>, name: &StreamName, now: Utc) -> Result<(), Refusal> {
        if !self.networks.contain(caller.peer) {
            return Err(Refusal::Network);
        }
        let credential = &caller.credential;
        let verdict = self.check_token(credential.token.as_ref(), name, now);
        match &self.key {
            Some(key) if credential.key.as_deref().is_some_and(|shown| credential::is_key(key, shown)) => {
                Ok(())
            }
            Some(_) => verdict,
            None if self.networks.are_all() => Ok(()),
            None => Ok(caller.check_address()?),
        }
    }

    fn check_token(&self, shown: Option<&ShownToken>, name: &StreamName, now: Utc) -> Result<(), Refusal> {
        let ShownToken { expires_s, tag } = shown.ok_or(Refusal::Token)?;
        let key = token_key(self.key.as_deref().unwrap_or_default());
        let is_for = |name: &StreamName| hmac::verify(&key, &signed(name, *expires_s), tag).is_ok();
        // One that is signed for a ladder is good for its versions.
        let group = name.version().map(|version| version.group);
        let (is_own, is_of_group) = (is_for(name), group.is_some_and(|group| is_for(&group)));
        if !is_own && !is_of_group {
            return Err(Refusal::Token);
        }
        if now.as_nanos() / 1_000_000_000 < *expires_s { Ok(()) } else { Err(Refusal::Expired) }
    }

    /// Whether one more viewer, of a stream of `bps` bits a second, may come where that stream has `of_stream`
    /// viewers, the viewer's address `of_address` and the server `in_all`. Bit rates are as they are at this moment: when
    /// the rate of a stream rises later, its viewers stay.
    pub fn check_load(&self, of_stream: usize, of_address: Load, in_all: Load, bps: u64) -> Result<(), Full> {
        let is_full = |count, limit| limit > 0 && count >= limit;
        let is_busy = |taken: u64, limit| limit > 0 && taken.saturating_add(bps) > limit;
        if is_full(of_stream, self.max_per_stream) {
            return Err(Full::Stream);
        }
        if is_full(in_all.count, self.max_viewers) || is_busy(in_all.bps, self.max_bps) {
            return Err(Full::All);
        }
        if is_full(of_address.count, self.max_per_address) {
            return Err(Full::Address);
        }
        if is_busy(of_address.bps, self.max_bps_per_address) {
            return Err(Full::AddressRate);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::access::tests::{from, request as parse};
    use crate::http1::server::Request;

    fn request(query: &str, fields: &str) -> Request {
        parse(&format!("GET /live/stage.ts?{query} HTTP/1.1"), &format!("Host: relay.example\r\n{fields}"))
    }

    fn policy() -> WatchPolicy {
        WatchPolicy { key: Some("a-viewer-key".into()), ..WatchPolicy::default() }
    }

    #[test]
    fn the_token_of_an_event_is_for_that_event_until_it_expires() {
        let name = |text| StreamName::parse(text).unwrap();
        let until = |policy: &WatchPolicy, query: &str, event, at_s: u64| {
            let now = Utc::from_nanos(at_s * 1_000_000_000);
            from("192.0.2.1", &request(query, ""), |caller| policy.event_expires_s(caller, &name(event), now))
        };
        let query = Token::sign_event("a-viewer-key", &name("stage"), 1000).query();
        assert_eq!(until(&policy(), &query, "stage", 999), Some(1000));
        assert_eq!(until(&policy(), &query, "stage", 1000), None, "it has expired");
        assert_eq!(until(&policy(), &query, "other", 999), None);
        assert_eq!(until(&policy(), &query.replace("1000", "2000"), "stage", 999), None);
        assert_eq!(until(&WatchPolicy::default(), &query, "stage", 999), None, "there is no key");
        // It is none for the stream of the same name, nor is that stream's one for the event.
        assert_eq!(check(&query, 999), Err(Refusal::Token));
        let of_stream = Token::sign("a-viewer-key", &name("stage"), 1000).query();
        assert_eq!(until(&policy(), &of_stream, "stage", 999), None);
        let ticket = policy().event_ticket(&name("stage"), Utc::from_nanos(0)).unwrap();
        assert_eq!(until(&policy(), &ticket.query(), "stage", 12 * 3600), Some(13 * 3600));
    }

    fn ask(policy: &WatchPolicy, peer: &str, request: &Request, at_s: u64) -> Result<(), Refusal> {
        let name = StreamName::parse("stage").unwrap();
        let now = Utc::from_nanos(at_s * 1_000_000_000);
        from(peer, request, |caller| policy.check(caller, &name, now))
    }

    fn check(query: &str, at_s: u64) -> Result<(), Refusal> {
        ask(&policy(), "192.0.2.1", &request(query, ""), at_s)
    }

    #[test]
    fn a_signed_address_lets_in_until_it_expires() {
        let name = StreamName::parse("stage").unwrap();
        let query = Token::sign("a-viewer-key", &name, 1000).query();
        assert_eq!(check(&query, 999), Ok(()));
        assert_eq!(check(&query, 1000), Err(Refusal::Expired));
        assert_eq!(check(&query.replace("1000", "2000"), 999), Err(Refusal::Token));
        let other = Token::sign("a-viewer-key", &StreamName::parse("backstage").unwrap(), 1000).query();
        assert_eq!(check(&other, 999), Err(Refusal::Token));
        assert_eq!(check(&Token::sign("another-key", &name, 1000).query(), 999), Err(Refusal::Token));
    }

    #[test]
    fn a_ladders_token_is_good_for_its_versions() {
        let of = |name: &str| StreamName::parse(name).unwrap();
        let request = request(&Token::sign("a-viewer-key", &of("hall"), 1000).query(), "");
        let now = Utc::from_nanos(999_000_000_000);
        let check = |name: &str| from("192.0.2.1", &request, |caller| policy().check(caller, &of(name), now));
        assert_eq!(check("hall-720p50"), Ok(()));
        assert_eq!(check("hall-360p25-2.5M"), Ok(()));
        assert_eq!(check("hall-secret"), Err(Refusal::Token));
        assert_eq!(check("hall-2-720p50"), Err(Refusal::Token));
        let version = Token::sign("a-viewer-key", &of("hall-720p50"), 1000).query();
        let request = self::request(&version, "");
        let check = |name: &str| from("192.0.2.1", &request, |caller| policy().check(caller, &of(name), now));
        assert_eq!(check("hall"), Err(Refusal::Token), "and not the other way round");
        assert_eq!(check("hall-360p25"), Err(Refusal::Token));
    }

    #[test]
    fn a_server_in_front_shows_the_key_itself() {
        let ask = |peer: &str, query: &str, field: &str| {
            let networks = Networks::parse(["192.0.2.0/24"]).unwrap();
            self::ask(&WatchPolicy { networks, ..policy() }, peer, &request(query, field), 1)
        };
        // any:a-viewer-key
        let basic = "Authorization: Basic YW55OmEtdmlld2VyLWtleQ==\r\nVia: 1.1 edge\r\n";
        assert_eq!(ask("192.0.2.1", "", basic), Ok(()));
        assert_eq!(ask("192.0.2.1", "", "Authorization: Bearer a-viewer-key\r\n"), Ok(()));
        assert_eq!(ask("192.0.2.1", "expires=0&token=AAAA", basic), Ok(()), "whatever it hands on");
        assert_eq!(ask("198.51.100.1", "", basic), Err(Refusal::Network));
        for field in ["", "Authorization: Bearer \r\n", "Authorization: Bearer a-viewer-key2\r\n"] {
            assert_eq!(ask("192.0.2.1", "", field), Err(Refusal::Token), "{field}");
        }
        assert_eq!(
            ask("192.0.2.1", "key=a-viewer-key", ""),
            Err(Refusal::Token),
            "it would stand in playlists"
        );
        // Without a key nothing that is shown takes its place.
        let networks = Networks::parse(["192.0.2.0/24"]).unwrap();
        let open = WatchPolicy { networks, ..WatchPolicy::default() };
        let shown = request("", "Authorization: Bearer \r\nVia: 1.1 edge\r\n");
        assert_eq!(self::ask(&open, "192.0.2.1", &shown, 1), Err(Refusal::Proxied));
    }

    #[test]
    fn what_is_no_token_does_not_let_in() {
        for query in [
            "",
            "expires=1000",
            "token=AAAA",
            "expires=1000&token=",
            "expires=x&token=AAAA",
            "token=%&expires=9",
        ] {
            assert_eq!(check(query, 1), Err(Refusal::Token), "{query}");
        }
    }

    /// The signature as `printf 'watch\nstage\n1000' | openssl dgst -sha256 -hmac a-viewer-key -binary` gives it.
    #[test]
    fn a_token_is_what_other_programs_make_of_it() {
        let token = Token::sign("a-viewer-key", &StreamName::parse("stage").unwrap(), 1000);
        assert_eq!(token.query(), "expires=1000&token=js6IVJx7Jp02rUUFIazuMAR_DX_e97iSLzdhdOwTbJc");
    }

    #[test]
    fn counts_and_networks_are_limits() {
        let load = |count, bps| Load { count, bps };
        let policy =
            WatchPolicy { max_per_stream: 2, max_per_address: 1, max_viewers: 4, ..WatchPolicy::default() };
        assert_eq!(policy.check_load(1, load(0, 9), load(3, 9), 9), Ok(()));
        assert_eq!(policy.check_load(2, load(0, 0), load(3, 0), 9), Err(Full::Stream));
        assert_eq!(policy.check_load(1, load(1, 0), load(3, 0), 9), Err(Full::Address));
        assert_eq!(policy.check_load(1, load(0, 0), load(4, 0), 9), Err(Full::All));
        let policy = WatchPolicy { max_bps: 100, max_bps_per_address: 30, ..WatchPolicy::default() };
        assert_eq!(policy.check_load(9, load(1, 20), load(9, 90), 10), Ok(()));
        assert_eq!(policy.check_load(9, load(1, 20), load(9, 91), 10), Err(Full::All));
        assert_eq!(policy.check_load(9, load(1, 21), load(9, 90), 10), Err(Full::AddressRate));
        assert_eq!(WatchPolicy::default().check_load(9, load(9, 9), load(9, u64::MAX), 9), Ok(()));
        assert!(!format!("{:?}", self::policy()).contains("a-viewer-key"));
    }

    #[test]
    fn networks_are_judged_by_addresses_that_can_be_believed() {
        let networks = Networks::parse(["10.0.0.0/8", "127.0.0.1"]).unwrap();
        let near = WatchPolicy { networks, ..WatchPolicy::default() };
        let plain = request("", "");
        assert_eq!((ask(&near, "10.9.9.9", &plain, 1), ask(&near, "127.0.0.1", &plain, 1)), (Ok(()), Ok(())));
        assert_eq!(ask(&near, "11.9.9.9", &plain, 1), Err(Refusal::Network));
        let proxied = request("", "X-Forwarded-For: 192.0.2.1\r\n");
        let rebound = parse("GET /live/stage.ts HTTP/1.1", "Host: evil.example\r\n");
        for peer in ["10.9.9.9", "127.0.0.1"] {
            assert_eq!(ask(&near, peer, &proxied, 1), Err(Refusal::Proxied));
            assert_eq!(ask(&near, peer, &rebound, 1), Err(Refusal::Host));
        }
        // A token says more than an address, and where everybody may watch there is nothing to believe.
        let token = Token::sign("a-viewer-key", &StreamName::parse("stage").unwrap(), 9).query();
        let signed = request(&token, "Via: 1.1 proxy\r\n");
        assert_eq!(ask(&WatchPolicy { key: policy().key, ..near }, "10.9.9.9", &signed, 1), Ok(()));
        assert_eq!(ask(&WatchPolicy::default(), "10.9.9.9", &proxied, 1), Ok(()));
        assert_eq!(ask(&WatchPolicy::default(), "10.9.9.9", &rebound, 1), Ok(()));
    }
}
