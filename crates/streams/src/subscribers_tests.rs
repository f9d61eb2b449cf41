use super::*;
use std::task::Wake;

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn subscriber(to: &Subscribers) -> (Arc<Subscriber>, Arc<Bell>) {
    let bell = Arc::new(Bell::default());
    (to.add(Waker::from(Arc::clone(&bell))), bell)
}

#[test]
fn each_is_woken_once_until_it_looks() {
    let subscribers = Subscribers::default();
    assert!(subscribers.is_empty());
    subscribers.notify();
    let ((one, first), (_other, second)) = (subscriber(&subscribers), subscriber(&subscribers));
    assert!(!subscribers.is_empty());
    subscribers.notify();
    subscribers.notify();
    assert_eq!((first.rings(), second.rings()), (1, 1));
    one.looks();
    subscribers.notify();
    assert_eq!((first.rings(), second.rings()), (2, 1), "the other one has not looked");
}

#[test]
fn one_that_has_gone_is_woken_no_more() {
    let subscribers = Subscribers::default();
    let ((one, first), (other, second)) = (subscriber(&subscribers), subscriber(&subscribers));
    subscribers.remove(&one);
    subscribers.notify();
    assert_eq!((first.rings(), second.rings()), (0, 1));
    subscribers.remove(&one);
    assert!(!subscribers.is_empty(), "twice is once");
    subscribers.remove(&other);
    assert!(subscribers.is_empty());
}

#[test]
fn the_list_is_usable_behind_a_waker_that_panicked() {
    struct Breaks;
    impl Wake for Breaks {
        fn wake(self: Arc<Self>) {
            panic!("a test's");
        }
    }
    let subscribers = Arc::new(Subscribers::default());
    let broken = subscribers.add(Waker::from(Arc::new(Breaks)));
    let told = Arc::clone(&subscribers);
    assert!(std::thread::spawn(move || told.notify()).join().is_err());
    subscribers.remove(&broken);
    let (_one, bell) = subscriber(&subscribers);
    subscribers.notify();
    assert_eq!(bell.rings(), 1);
}
