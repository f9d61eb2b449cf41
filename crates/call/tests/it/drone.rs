//! The example of the link flies.

#[allow(dead_code, reason = "its main is for people")]
#[path = "../../../../examples/drone.rs"]
mod example;

#[test]
fn commands_arrive_in_order_while_frames_and_telemetry_come() {
    let (seen, given) = example::fly(40).unwrap();
    assert_eq!(given, ["arm", "climb 10", "climb 20", "climb 30", "climb 40", "land"]);
    assert_eq!(seen.frames, 40);
    assert!(seen.last_frame >= 39 && seen.telemetry > 0, "{seen:?}");
}
