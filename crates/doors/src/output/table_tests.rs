use super::*;
use crate::testing::name;
use glassline_delivery::stream::Mux;

fn output(stream: &str, url: &str) -> Output {
    Output { name: name(stream), destination: Destination::parse(url).unwrap() }
}

fn status(table: &OutputTable, stream: &str) -> Vec<OutputStatus> {
    let mut status = StreamStatus::absent(&name(stream), Mux::MpegTs, None);
    table.complete(&mut status);
    status.outputs
}

#[test]
fn equal_outputs_are_one_and_others_are_told_apart_by_stream_and_by_destination() {
    let outputs = [
        output("a", "udp://192.0.2.1:5000"),
        output("a", "udp://192.0.2.1:5000/"),
        output("a", "rtp://192.0.2.1:5000"),
        output("b", "udp://192.0.2.1:5000"),
        output("a", "udp://192.0.2.1:5000?ttl=3"),
    ];
    let table = OutputTable::new(&outputs, &OutputTable::default());
    assert_eq!(table.iter().count(), 4);
    assert_eq!((status(&table, "a").len(), status(&table, "b").len(), status(&table, "c").len()), (3, 1, 0));
    assert!(table.has(&name("b")) && !table.has(&name("c")));
}

#[test]
fn counts_of_an_output_that_is_still_wanted_stay() {
    let both = [output("a", "udp://192.0.2.1:5000"), output("b", "udp://192.0.2.1:5000")];
    let former = OutputTable::new(&both, &OutputTable::default());
    former.iter().for_each(|entry| entry.set_counts([1, 2, 3, 4]));
    let table = OutputTable::new(&[both[1].clone(), output("c", "udp://192.0.2.1:5000")], &former);
    let counts: Vec<[u64; 4]> = table.iter().map(|entry| entry.counts()).collect();
    assert_eq!(counts, [[1, 2, 3, 4], [0; 4]]);
}

#[test]
fn an_output_sends_while_it_has_begun_and_nothing_fails() {
    let table = OutputTable::new(&[output("a", "udp://192.0.2.1:5000?ttl=9")], &OutputTable::default());
    let entry = table.iter().next().unwrap();
    assert_eq!(status(&table, "a")[0].url, "udp://192.0.2.1:5000?ttl=9");
    assert!(!status(&table, "a")[0].sending);
    entry.begun.store(true, Ordering::Relaxed);
    entry.set_counts([5, 6, 7, 8]);
    let told = &status(&table, "a")[0];
    assert!(told.sending && told.error.is_none());
    assert_eq!([told.datagrams, told.bytes, told.errors, told.moved_forward], [5, 6, 7, 8]);
    *entry.error() = Some("the network is unreachable".to_owned());
    let told = &status(&table, "a")[0];
    assert!(!told.sending && told.error.as_deref() == Some("the network is unreachable"));
}
