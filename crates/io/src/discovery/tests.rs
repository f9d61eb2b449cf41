use super::announcement::host_label;
use super::browser::{instance_name, rank};
use super::*;
use mdns_sd::ServiceInfo;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Instant;

const KIND: &str = "_glassline-test._udp.local.";

#[test]
fn names_that_may_be_announced() {
    for good in ["drone", "Käthe's drone (2)", &"x".repeat(63)] {
        check_name(good).unwrap();
    }
    for bad in ["", "a.b", "a\\b", "a\nb", "\u{1b}[2J", &"x".repeat(64)] {
        let error = check_name(bad).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad:?}");
    }
    assert_eq!(host_label("Ground-7.example.org\n"), "ground-7");
    assert_eq!(host_label("_käthe"), "k-the");
    assert_eq!(host_label(""), "host");
    assert_eq!(host_label(&"a".repeat(100)).len(), 53);
}

#[test]
fn what_is_told_of_a_service_is_read_and_bounded() {
    let many: Vec<String> = (0..100).map(|number| format!("192.0.2.{number}")).collect();
    let properties: Vec<(String, String)> = (0..100).map(|n| (format!("k{n}"), "v".into())).collect();
    let addresses = format!("::1,127.0.0.1,fe80::7,0.0.0.0,224.0.0.1,2001:db8::5,{}", many.join(","));
    let info = |port| {
        ServiceInfo::new(KIND, "drone", "host.local.", addresses.as_str(), port, &properties[..]).unwrap()
    };
    let found = Found::new(&info(7000).as_resolved_service(), KIND).unwrap();
    assert_eq!((found.name.as_str(), found.host.as_str()), ("drone", "host.local"));
    assert_eq!(found.addresses[0], "192.0.2.0:7000".parse().unwrap());
    assert_eq!((found.addresses.len(), found.properties.len()), (16, 32));
    assert_eq!(found.properties["k0"], "v");
    assert_eq!(Found::new(&info(0).as_resolved_service(), KIND), None, "port 0 is nowhere");
    let only = |text: &str| {
        let info = ServiceInfo::new(KIND, "drone", "host.local.", text, 7000, &[("v", "1")][..]).unwrap();
        Found::new(&info.as_resolved_service(), KIND).map(|found| found.addresses)
    };
    assert_eq!(only("0.0.0.0,224.0.0.1"), None);
    let order = ["192.0.2.9", "2001:db8::5", "169.254.1.1", "fe80::7", "127.0.0.1"];
    let sorted: Vec<SocketAddr> = order.map(|ip| SocketAddr::new(ip.parse().unwrap(), 7000)).into();
    assert_eq!(only("127.0.0.1,fe80::7,2001:db8::5,169.254.1.1,192.0.2.9").unwrap(), sorted);
    assert!(order.map(|ip| rank(ip.parse().unwrap())).is_sorted());
}

#[test]
fn names_stand_before_the_type() {
    assert_eq!(instance_name("a.b._Glassline-Test._udp.local.", KIND), "a.b");
    for other in
        ["", "drone", "_glassline-test._udp.local.", "x._other._udp.local.", "ä_glassline-test._udp.local."]
    {
        let name = instance_name(other, KIND);
        assert!(name == other || !name.contains(KIND), "{other}: {name}");
    }
    // A letter of two bytes stands where the dot before the type would.
    assert_eq!(instance_name("äglassline-test._udp.local.", KIND), "äglassline-test._udp.local.");
}

proptest! {
    /// Anybody in the network may announce any name of up to 255 bytes.
    #[test]
    fn any_name_is_read(
        name in any::<String>(),
        letters in prop::collection::vec(any::<char>(), 0..40),
        cut in 0usize..40,
        upper in any::<bool>(),
    ) {
        let kind = if upper { KIND.to_ascii_uppercase() } else { KIND.to_owned() };
        prop_assert_eq!(instance_name(&format!("{name}.{kind}"), KIND), name.as_str());
        // What has no type at its end keeps its name, wherever the cut falls in it.
        let tail: String = KIND.chars().skip(1 + cut.min(KIND.len() - 2)).collect();
        let other = format!("{name}{}{tail}", letters.iter().collect::<String>());
        if !other.to_ascii_lowercase().ends_with(&format!(".{KIND}")) {
            prop_assert_eq!(instance_name(&other, KIND), other.as_str());
        }
    }
}

#[test]
fn an_address_says_where_is_spoken() {
    let scope = |address: &str, interface: Option<&str>| Scope {
        interface: interface.map(str::to_owned),
        address: address.parse().unwrap(),
    };
    let at = |scope: &Scope, name: &str, address: &str| scope.has(name, address.parse().unwrap());
    let all = scope("::", None);
    assert!(at(&all, "lan", "192.0.2.1") && at(&all, "lan", "fe80::1") && at(&all, "lo", "127.0.0.1"));
    let four = scope("0.0.0.0", Some("lan"));
    assert!(at(&four, "lan", "192.0.2.1") && !at(&four, "lan", "fe80::1") && !at(&four, "wan", "192.0.2.1"));
    let one = scope("192.0.2.1", None);
    assert!(at(&one, "lan", "192.0.2.1") && !at(&one, "lan", "192.0.2.2") && !at(&one, "lo", "127.0.0.1"));
    let own = scope("127.0.0.5", None);
    assert!(at(&own, "lo", "127.0.0.1") && !at(&own, "lan", "192.0.2.1"));
    let missing = Browser::new(KIND, Some("nowhere0")).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    assert!(missing.to_string().contains("nowhere0"));
}

#[test]
fn what_is_announced_is_found_and_its_end_told() {
    if !glassline_test_support::multicast::loopback_hears_itself() {
        glassline_test_support::skip(
            "what_is_announced_is_found_and_its_end_told",
            "no multicast at the loopback interface, or its port is taken",
        );
        return;
    }
    let name = format!("test {}", std::process::id());
    let address = "127.0.0.1:7007".parse().unwrap();
    let service =
        Service { kind: KIND, name: &name, address, interface: Some("lo"), properties: &[("v", "1")] };
    let announced = Announcement::new(&service, |_| {}).unwrap();
    let browser = Browser::new(KIND, Some("lo")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let next = |what: &str| browser.next(deadline).unwrap_or_else(|| panic!("{what} within a minute"));
    let found = loop {
        match next("found") {
            Change::Found(found) if found.name == name => break found,
            _ => {}
        }
    };
    assert_eq!((found.addresses, found.properties["v"].as_str()), (vec![address], "1"));
    drop(announced);
    while next("gone") != Change::Gone(name.clone()) {}
}
