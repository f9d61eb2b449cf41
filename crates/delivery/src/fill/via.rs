//! By which servers a request has come (`Via`, RFC 9110 §7.6.3), as far as that is told to the next one.
//!
//! One fetch serves all requests for an object. It names the servers by which the first of these requests came, so that servers
//! that ask each other in a loop detect it. What a client writes must not decide what becomes of that fetch: a field of 16 kB, or
//! the name of a server that refuses requests with its own name in them, would take an object from all other clients. So only
//! names go on that have the form which servers of this program choose for themselves ([`server_name`]: random, and told to
//! upstream servers alone), the newest [`HOPS_MAX`] of them. A loop of that many servers is detected whatever else a client has
//! written in front.

use crate::http1::Headers;

/// Servers of which the next one is told, this one not among them.
pub const HOPS_MAX: usize = 16;
/// What a server's name begins with.
const NAME_PREFIX: &str = "glassline-";
/// Hexadecimal digits behind that.
const NAME_DIGITS: usize = 16;

/// What a server calls itself in `Via`; `seed` is random.
pub fn server_name(seed: u64) -> String {
    format!("{NAME_PREFIX}{seed:0NAME_DIGITS$x}")
}

fn is_server_name(word: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    word.strip_prefix(NAME_PREFIX)
        .is_some_and(|digits| digits.len() == NAME_DIGITS && digits.bytes().all(is_digit))
}

/// The servers by which a request has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Via {
    /// The newest last.
    names: Vec<String>,
}

impl Via {
    /// Of a request's fields. One that `Connection` names is for this connection alone (RFC 9110 §7.6.1).
    pub fn of(headers: &Headers) -> Via {
        if headers.is_of_connection("via") {
            return Via::default();
        }
        let all: Vec<&str> = headers.all("via").flat_map(|value| value.split(',')).filter_map(name).collect();
        let newest = all.get(all.len().saturating_sub(HOPS_MAX)..).unwrap_or_default();
        Via { names: newest.iter().map(|&name| name.to_owned()).collect() }
    }

    /// Whether the request has come by no server of this program.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Servers of this program by which the request has come, at most [`HOPS_MAX`].
    pub fn hops(&self) -> u32 {
        self.names.len() as u32
    }

    /// The field's value for the next server, with `own` behind them. At most some hundred bytes, whatever came.
    pub fn then(&self, own: &str) -> String {
        let names = self.names.iter().map(String::as_str).chain([own]);
        names.map(|name| format!("1.1 {name}")).collect::<Vec<_>>().join(", ")
    }
}

/// The name in `received-protocol RWS received-by [ RWS comment ]`, if it is one of a server of this program.
fn name(hop: &str) -> Option<&str> {
    hop.split_ascii_whitespace().nth(1).filter(|word| is_server_name(word))
}

/// Whether a request with these fields has come by the server called `own` before.
pub fn has_passed(headers: &Headers, own: &str) -> bool {
    headers.all("via").flat_map(|value| value.split(',')).any(|hop| name(hop) == Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::access::tests::request;
    use proptest::prelude::*;

    const OWN: &str = "glassline-00000000000000ff";

    fn then(fields: &str) -> String {
        Via::of(&request("GET / HTTP/1.1", &format!("Host: h\r\n{fields}")).headers).then(OWN)
    }

    #[test]
    fn names_of_our_own_kind_go_on_and_nothing_else() {
        assert_eq!(server_name(255), OWN);
        let [a, b] = [1, 2].map(server_name);
        assert_eq!(then(""), format!("1.1 {OWN}"));
        let came_by =
            |fields: &str| Via::of(&request("GET / HTTP/1.1", &format!("Host: h\r\n{fields}")).headers);
        assert!(
            came_by("Via: 1.1 squid.example\r\n").is_empty()
                && !came_by(&format!("Via: 1.1 {a}\r\n")).is_empty()
        );
        assert_eq!(
            then(&format!("Via: 1.1 {a} (a comment), HTTP/2 proxy.example\r\nVia: 1.0 {b}\r\n")),
            format!("1.1 {a}, 1.1 {b}, 1.1 {OWN}")
        );
        for other in [
            "1.1 squid.example (squid/5)",
            "1.1 glassline-1",
            "1.1 glassline-000000000000000G",
            "1.1 glassline-00000000000000FF",
            "glassline-0000000000000001",
            "1.1 x glassline-0000000000000001",
            &"x".repeat(15_000),
        ] {
            assert_eq!(then(&format!("Via: {other}\r\n")), format!("1.1 {OWN}"), "{other}");
        }
        assert_eq!(then(&format!("Connection: close, VIA\r\nVia: 1.1 {a}\r\n")), format!("1.1 {OWN}"));
    }

    #[test]
    fn the_newest_names_go_on_so_that_what_a_client_writes_hides_no_circle() {
        let names = |range: std::ops::Range<u64>| -> Vec<String> {
            range.map(|seed| format!("1.1 {}", server_name(seed))).collect()
        };
        let told = then(&format!("Via: {}\r\n", names(0..300).join(", ")));
        assert_eq!(told, format!("{}, 1.1 {OWN}", names(284..300).join(", ")));
        assert!(told.len() < 600);
    }

    #[test]
    fn a_request_that_has_passed_is_known() {
        let passed = |fields: &str| {
            has_passed(&request("GET / HTTP/1.1", &format!("Host: h\r\n{fields}")).headers, OWN)
        };
        assert!(passed(&format!("Via: 1.1 a, 1.1 {OWN}, 1.1 b\r\n")));
        assert!(passed(&format!("Via: 1.1 a\r\nVia: 1.1 {OWN}\r\n")));
        assert!(!passed("") && !passed("Via: 1.1 a\r\n") && !passed(&format!("Via: 1.1 a ({OWN})\r\n")));
    }

    proptest! {
        /// Whatever a client writes, the next server gets a short field of names, and this server knows it again.
        #[test]
        fn what_goes_on_is_short_and_known_again(
            hops in prop::collection::vec(prop::sample::select(vec![
                "1.1 glassline-0123456789abcdef", "1.1 a", ", ", ",", " ", "(", ")", "\"", "1.1 ", "glassline-", "é",
            ]), 0..200),
        ) {
            let told = then(&format!("Via: {}\r\n", hops.concat()));
            prop_assert!(told.len() <= (HOPS_MAX + 1) * 32, "{}", told);
            prop_assert!(told.split(", ").all(|hop| name(hop).is_some()), "{}", told);
            let next = request("GET / HTTP/1.1", &format!("Host: h\r\nVia: {told}\r\n"));
            prop_assert!(has_passed(&next.headers, OWN));
        }
    }
}
