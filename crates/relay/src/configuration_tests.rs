use super::*;
use crate::pull::Pull;
use crate::test_streams::name;
use glassline_delivery::pull::Source;
use glassline_delivery::stream::Pacing;

fn pull(stream: &str, source: &str) -> Pull {
    let source = Source::parse(source).expect("a source");
    Pull { name: name(stream), source, alternates: Vec::new(), mux: None, ca: None, via: None, renewed: 0 }
}

#[test]
fn a_name_belongs_to_its_source_or_to_an_encoder_or_to_any_publisher() {
    let settings = Settings {
        pulls: vec![pull("pulled", "http://127.0.0.1:9/a.ts"), pull("both", "http://127.0.0.1:9/b.ts")],
        reserved: [name("encoded"), name("both")].into(),
        ..Settings::default()
    };
    let configuration = Configuration::new(settings, 3);
    assert_eq!(configuration.owner(&name("pulled")), Some(Owner::Source));
    assert_eq!(configuration.owner(&name("encoded")), Some(Owner::Encoder));
    assert_eq!(configuration.owner(&name("both")), Some(Owner::Source));
    assert_eq!(configuration.owner(&name("free")), None);
    assert_eq!((configuration.workers(), configuration.max_streams()), (3, 256));
}

#[test]
fn settings_change_at_once_and_those_in_hand_stay_as_they_were() {
    let configuration = Configuration::new(Settings::default(), 1);
    let in_hand = configuration.settings();
    let own = stream::Settings { pacing: Pacing::Off, ..in_hand.stream };
    let changed = Settings { max_streams: 7, streams: [(name("own"), own)].into(), ..Settings::default() };
    configuration.change(Arc::new(changed));
    assert_eq!((in_hand.max_streams, configuration.max_streams()), (256, 7));
    assert_eq!(Plan::settings(&configuration, &name("own")).pacing, Pacing::Off);
    assert_eq!(Plan::settings(&configuration, &name("other")).pacing, Pacing::Factor(3.0));
}

#[test]
fn sources_change_by_themselves_and_not_with_the_settings() {
    let first = Settings { pulls: vec![pull("a", "http://127.0.0.1:9/a.ts")], ..Settings::default() };
    let configuration = Configuration::new(first, 1);
    let before = configuration.pulls();
    configuration.change(Arc::new(Settings::default()));
    assert!(Arc::ptr_eq(&configuration.pulls(), &before) && before.has(&name("a")));
    configuration.set_pulls(|former| {
        assert!(former.has(&name("a")));
        PullTable::new(&[pull("b", "http://127.0.0.1:9/b.ts")], former)
    });
    assert!(!configuration.pulls().has(&name("a")) && configuration.pulls().has(&name("b")));
    assert!(before.has(&name("a")), "a table in hand stays as it was");
}

#[test]
fn streams_with_an_output_are_told_from_others() {
    let configuration = Configuration::new(Settings::default(), 1);
    assert!(!configuration.has_outputs(&name("a")));
    assert!(!configuration.outputs().has(&name("a")));
}
