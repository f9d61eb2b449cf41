use super::Config;
use std::path::Path;

#[test]
fn a_wrong_dscp_label_or_port_is_named_with_its_line_and_the_right_value() {
    for (text, expected) in [
        ("[viewer]\ndscp = 64", "glassline.toml:2: viewer.dscp: 64 is out of range; from 0 to 63"),
        ("[viewer]\ndscp = 'AF41'", "glassline.toml:2: viewer.dscp: invalid type: string \"AF41\""),
        ("[viewer]\nflow_label = 1", "glassline.toml:2: viewer.flow_label: invalid type"),
        ("[stream.a]\ndscp = 300", "glassline.toml:2: stream.a.dscp: invalid value"),
        (
            "[stream.a]\nflow_lable = true",
            "glassline.toml:2: unknown key \"flow_lable\" in [stream.a]; did you mean \"flow_label\"?",
        ),
        (
            "[viewer.port.http]\ndscp = 1",
            "glassline.toml:1: viewer.port.http: \"http\" is no port; write a number from 1",
        ),
        ("[viewer.port.65536]\ndscp = 1", "glassline.toml:1: viewer.port.65536: \"65536\" is no port"),
        ("[viewer.port.08080]\ndscp = 1", "glassline.toml:1: viewer.port.08080: \"08080\" is no port"),
        ("[viewer.port.8080]", "glassline.toml:1: viewer.port.8080: says nothing"),
        (
            "[stream.a]\noutputs = ['udp://239.1.2.3:5000?dscp=64']",
            "glassline.toml:2: stream.a.outputs: \"udp://239.1.2.3:5000\": udp:// and rtp:// know",
        ),
    ] {
        let error = Config::parse(text, Path::new("glassline.toml")).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn a_port_without_a_listener_is_named() {
    let unheard = |listen: &str| {
        let text = format!("listen = {listen}\n[viewer.port.8080]\ndscp = 1\n[viewer.port.8081]\ndscp = 1\n");
        let config = Config::parse(&text, Path::new("glassline.toml")).unwrap();
        config.unheard_ports().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(unheard("['[::]:8080', '127.0.0.1:80']"), ["8081"]);
    assert_eq!(unheard("['[::]:8080', '127.0.0.1:8081']"), [""; 0]);
    assert_eq!(unheard("['[::]:0']"), [""; 0]);
}
