//! URLs of sources and outputs, as a configuration has them.

use glassline_delivery::output::{Destination, PACKETS_MAX};
use glassline_delivery::pull::Source;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A password and a query's value that are put into URLs: nothing that is shown may repeat them.
const SECRET: &str = "Pa55w0rd";
/// What a URL that is shown may have more than the one that was read: an address that is written out, a port.
const MORE_BYTES: usize = 64;

/// Reads the text as both. Panics where what is shown is not what was read, where it shows a secret, or where it has
/// characters that break a line of a log.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(source) = Source::parse(text) {
        check_source(&source, text);
    }
    if let Ok(destination) = Destination::parse_unresolved(text) {
        check_destination(&destination, text);
    } else {
        assert!(Destination::parse(text).is_err(), "an address needs no resolver");
    }
}

fn check_shown(shown: &str, text: &str) {
    assert!(shown.len() <= text.len() + MORE_BYTES, "{shown}");
    assert!(shown.chars().all(|character| character.is_ascii_graphic() || character == '…'), "{shown:?}");
}

fn check_source(source: &Source, text: &str) {
    let shown = source.to_string();
    check_shown(&shown, text);
    assert_eq!(format!("{source:?}"), shown);
    let saved = serde_json::to_vec(source).expect("plain values");
    assert_eq!(serde_json::from_slice::<Source>(&saved).as_ref().ok(), Some(source));
    if let Source::Rtsp(url) = source {
        if text.contains(SECRET) || shown.contains('…') {
            return;
        }
        let Ok(Source::Rtsp(again)) = Source::parse(&shown) else {
            panic!("{shown} is read as something else")
        };
        assert_eq!(again.request(), url.request());
        let secret = text.replacen("://", &format!("://us3r:{SECRET}@"), 1);
        let with_password = Source::parse(&secret).expect("a user and a password change nothing else");
        assert_eq!(with_password.to_string(), shown);
        return;
    }
    let Source::Http(url) = source else {
        assert_eq!(Source::parse(&shown).as_ref(), Ok(source), "{shown}");
        return;
    };
    let again = match Source::parse(&shown.replace("?…", "")) {
        Ok(Source::Http(again)) => again,
        other => panic!("{shown} is read as {other:?}"),
    };
    assert_eq!((again.host(), again.port(), again.tls()), (url.host(), url.port(), url.tls()));
    assert_eq!(Source::Http(again).mux(), source.mux());
    if text.contains(SECRET) {
        return;
    }
    let secret = text.replacen("://", &format!("://us3r:{SECRET}@"), 1);
    let with_password = Source::parse(&secret).expect("a user and a password change nothing else");
    assert_eq!(with_password.to_string(), shown);
    if !text.contains(['?', '#']) {
        let with_query = Source::parse(&format!("{secret}?key={SECRET}")).expect("a query");
        assert_eq!(with_query.to_string(), format!("{shown}?…"));
        assert_eq!(with_query.mux(), source.mux());
    }
}

fn check_destination(destination: &Destination, text: &str) {
    let shown = destination.to_string();
    check_shown(&shown, text);
    assert_eq!(Destination::parse_unresolved(&shown).as_ref(), Ok(destination), "{shown}");
    assert!((1..=PACKETS_MAX).contains(&destination.packets) && destination.address.port() != 0);
    assert!(destination.source.is_none_or(|source| source.is_ipv4() == destination.address.is_ipv4()));
    assert!(destination.interface.is_none() || destination.address.ip().is_multicast());
    // Whoever has the machine's address reads the same but for that.
    let ip: IpAddr = match destination.address {
        std::net::SocketAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 7).into(),
        std::net::SocketAddr::V6(_) => Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 7).into(),
    };
    let mut asked = None;
    let resolved = Destination::parse_named(text, &mut |name| {
        asked = Some(name.to_ascii_lowercase());
        Some(ip)
    });
    assert_eq!(asked, destination.name);
    let mut resolved = resolved.expect("a name that is found is as good as one that will be");
    if destination.name.is_some() {
        assert_eq!(resolved.address.ip(), ip);
        (resolved.address, resolved.name) = (destination.address, destination.name.clone());
    }
    assert_eq!(&resolved, destination);
}
