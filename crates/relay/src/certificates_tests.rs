use super::*;
use glassline_test_support::program::Scratch;
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::until;

const EVERY: Duration = Duration::from_secs(60);
/// So long that its files differ in size from those before, however coarse the times of files are.
const SECOND: &str = "second.server.with.a.name.that.is.rather.long.example";

fn files(folder: &Scratch, name: &str) -> CertificateFiles {
    let [chain, key] = ["pem", "key"].map(|ending| folder.file(&format!("{name}.{ending}")).into());
    CertificateFiles { chain, key }
}

/// Certificates for `first.example`, and the files that they were read from.
fn shown(folder: &Scratch) -> (Arc<Certificates>, Vec<CertificateFiles>) {
    Identity::new(&["first.example"]).write(folder, "server");
    let files = vec![files(folder, "server")];
    let certificates = Arc::new(Certificates::new().expect("an acceptor"));
    assert!(!certificates.have_name("first.example"));
    certificates.show(Fresh::read(&files, Accept::RegularFile).expect("good files"));
    assert!(certificates.have_name("first.example"));
    (certificates, files)
}

#[test]
fn files_that_have_changed_are_read_again_and_others_are_not() {
    let folder = Scratch::new("certificates");
    let (certificates, files) = shown(&folder);
    let before = Looked::at(&files);
    certificates.look(&files);
    assert!(*certificates.looked.lock().unwrap() == before, "they are as they were");
    // What is shown meanwhile would be replaced if they were read.
    Identity::new(&["other.example"]).write(&folder, "other");
    let other = Fresh::read(&[self::files(&folder, "other")], Accept::RegularFile).expect("good files");
    certificates.show(Fresh { looked: before, ..other });
    certificates.look(&files);
    assert!(certificates.have_name("other.example"));
    Identity::new(&[SECOND]).write(&folder, "server");
    certificates.look(&files);
    assert!(certificates.have_name(SECOND) && !certificates.have_name("first.example"));
}

#[test]
fn files_that_are_no_good_leave_the_old_certificates_and_are_tried_once() {
    let folder = Scratch::new("certificates");
    let (certificates, files) = shown(&folder);
    folder.write("server.pem", "nonsense");
    certificates.look(&files);
    assert!(certificates.have_name("first.example"));
    let broken = Looked::at(&files);
    assert!(*certificates.looked.lock().unwrap() == broken, "it is known that they are no good");
    Identity::new(&["third.example"]).write(&folder, "server");
    certificates.look(&files);
    assert!(certificates.have_name("third.example"));
}

#[test]
fn a_file_that_has_gone_and_comes_back_is_noticed_both_times() {
    let folder = Scratch::new("certificates");
    let (certificates, files) = shown(&folder);
    std::fs::remove_file(&files[0].key).expect("it is there");
    assert!(Looked::at(&files) != *certificates.looked.lock().unwrap());
    certificates.look(&files);
    assert!(certificates.have_name("first.example"));
    Identity::new(&[SECOND]).write(&folder, "server");
    certificates.look(&files);
    assert!(certificates.have_name(SECOND));
}

#[test]
fn files_are_looked_at_when_their_time_has_come_and_not_before() {
    let folder = Scratch::new("certificates");
    let (certificates, files) = shown(&folder);
    let at = Time::from_millis;
    let next = |certificates: &Certificates| *certificates.next_look.lock().unwrap();
    certificates.look_in_time(&files, EVERY, at(1000));
    assert_eq!(next(&certificates), Some(at(61_000)), "they were looked at when they were read");
    Identity::new(&[SECOND]).write(&folder, "server");
    certificates.look_in_time(&files, EVERY, at(60_999));
    assert_eq!(next(&certificates), Some(at(61_000)));
    certificates.look_in_time(&files, EVERY, at(61_000));
    assert_eq!(next(&certificates), Some(at(121_000)));
    until("the new certificate", || certificates.have_name(SECOND));
}

#[test]
fn an_interval_that_has_become_shorter_holds_at_once_and_a_longer_one_from_the_next_look_on() {
    let folder = Scratch::new("certificates");
    let (certificates, files) = shown(&folder);
    let at = Time::from_millis;
    for (every, now, next) in [(60, 0, 60_000), (10, 1000, 11_000), (600, 2000, 11_000)] {
        certificates.look_in_time(&files, Duration::from_secs(every), at(now));
        assert_eq!(*certificates.next_look.lock().unwrap(), Some(at(next)), "{every} s");
    }
}

#[test]
fn where_there_are_no_files_none_are_looked_at() {
    let certificates = Arc::new(Certificates::new().expect("an acceptor"));
    certificates.look_in_time(&[], EVERY, Time::ZERO);
    assert_eq!(*certificates.next_look.lock().unwrap(), None);
}

#[test]
fn files_that_are_no_good_are_refused_where_they_are_read_first() {
    let folder = Scratch::new("certificates");
    assert!(Fresh::read(&[files(&folder, "absent")], Accept::AnyFile).is_err());
    let (one, other) = (Identity::new(&["one.example"]), Identity::new(&["other.example"]));
    folder.write("mixed.pem", &one.chain);
    folder.write("mixed.key", &other.key);
    assert!(
        Fresh::read(&[files(&folder, "mixed")], Accept::AnyFile).is_err(),
        "a key of another certificate"
    );
}
