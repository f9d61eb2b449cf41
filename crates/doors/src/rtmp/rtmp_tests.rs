use super::*;

#[test]
fn handshakes_differ() {
    assert_ne!(noise(1), noise(2));
    assert!(noise(7).windows(8).all(|bytes| bytes != [0; 8]));
}
