use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that is removed when a test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("glassline-store-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn store(&self) -> Store {
        Store::start(StoreSettings::new(Location::Folder(self.0.clone()))).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pieces(texts: &[&'static str]) -> Vec<Bytes> {
    texts.iter().map(|text| Bytes::from_static(text.as_bytes())).collect()
}

#[test]
fn what_is_put_is_there_whole_until_it_is_deleted() {
    let folder = Folder::new();
    let store = folder.store();
    store.put_blocking("hall/s/video/1.m4s", pieces(&["one ", "two"])).unwrap();
    store.put_blocking("hall/s/video/10.m4s", pieces(&["ten"])).unwrap();
    store.put_blocking("hall/t/video/1.m4s", pieces(&[""])).unwrap();
    assert_eq!(store.get_blocking("hall/s/video/1.m4s", None).unwrap(), "one two");
    assert_eq!(store.get_blocking("hall/s/video/1.m4s", Some(2..5)).unwrap(), "e t");
    let listed = store.list_blocking("hall/s", 100).unwrap();
    let sizes: Vec<_> = listed.iter().map(|one| (one.path.as_str(), one.bytes)).collect();
    assert_eq!(sizes, [("hall/s/video/1.m4s", 7), ("hall/s/video/10.m4s", 3)]);
    assert_eq!(store.list_blocking("hall", 2).unwrap().len(), 2);
    assert_eq!(store.folders_blocking("hall").unwrap(), ["s", "t"]);
    assert_eq!(store.folders_blocking("").unwrap(), ["hall"]);
    store.put_blocking("hall/s/video/1.m4s", pieces(&["other"])).unwrap();
    assert_eq!(store.get_blocking("hall/s/video/1.m4s", None).unwrap(), "other");
    store.delete_blocking("hall/s/video/1.m4s").unwrap();
    store.delete_blocking("hall/s/video/1.m4s").unwrap();
    let error = store.get_blocking("hall/s/video/1.m4s", None).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NotFound);
    assert_eq!(store.list_blocking("nowhere", 10).unwrap(), []);
    assert_eq!(store.folders_blocking("nowhere").unwrap(), Vec::<String>::new());
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.join("inside")).unwrap();
    let store = Store::start(StoreSettings::new(Location::Folder(folder.0.join("inside")))).unwrap();
    for path in ["../out", "a/../../out", "/out", "a//out", "a/./out", "a/", ".", "..", ""] {
        let error = store.put_blocking(path, pieces(&["x"])).expect_err(path);
        assert!(
            matches!(error.kind(), StoreErrorKind::BadRequest | StoreErrorKind::Denied),
            "{path}: {error}"
        );
    }
    assert!(!folder.0.join("out").exists());
    // Odd characters stay within the name.
    store.put_blocking("a%2f..%2f..%2fout\\x", pieces(&["x"])).unwrap();
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn a_folder_that_is_not_there_is_said_and_not_made() {
    let folder = Folder::new();
    let path = folder.0.join("disk");
    let store = Store::start(StoreSettings::new(Location::Folder(path.clone()))).unwrap();
    let error = store.put_blocking("hall/1", pieces(&["x"])).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NoStore);
    assert!(error.to_string().contains("create it"), "{error}");
    std::fs::create_dir(&path).unwrap();
    store.put_blocking("hall/1", pieces(&["x"])).unwrap();
    // It goes while it is used, as a disk that is unmounted does.
    std::fs::remove_dir_all(&path).unwrap();
    assert_eq!(store.put_blocking("hall/2", pieces(&["x"])).unwrap_err().kind(), StoreErrorKind::NoStore);
    assert_eq!(store.get_blocking("hall/1", None).unwrap_err().kind(), StoreErrorKind::NoStore);
    assert!(!path.exists());
}

#[test]
fn keys_that_cannot_be_read_are_said_and_read_again() {
    let folder = Folder::new();
    let keys = |name: &str| Some(folder.0.join(name));
    let mut settings = StoreSettings::new("s3://bucket/x".parse().unwrap());
    (settings.access_key_file, settings.secret_key_file) = (keys("access"), keys("secret"));
    // No server: whether the keys were read shows by which failure it is.
    settings.endpoint = Some("http://127.0.0.1:1".into());
    assert!(settings.check_keys().unwrap_err().to_string().contains("access_key_file"));
    let store = Store::start(settings.clone()).unwrap();
    let error = store.put_blocking("hall/1", pieces(&["x"])).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    assert!(error.to_string().contains("access_key_file"), "{error}");
    let write = |name: &str, text: &str| {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(folder.0.join(name)).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    };
    write("access", "AK\n");
    write("secret", "two lines\nwith spaces\n");
    let error = store.put_blocking("hall/1", pieces(&["x"])).unwrap_err();
    assert!(error.kind() == StoreErrorKind::Denied && error.to_string().contains("one line"), "{error}");
    assert!(!error.to_string().contains("two lines"), "{error}");
    write("secret", "SK\n");
    assert_eq!(settings.check_keys(), Ok(()));
    let error = store.put_blocking("hall/1", pieces(&["x"])).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
}

#[test]
fn requests_that_were_made_are_answered_after_the_last_handle_is_gone() {
    let folder = Folder::new();
    let (sender, receiver) = mpsc::channel();
    let store = folder.store();
    for number in 0..20 {
        let sender = sender.clone();
        store.put(&format!("a/{number}"), pieces(&["x"]), move |result| sender.send(result).unwrap());
    }
    drop((store, sender));
    assert_eq!(receiver.iter().filter(Result::is_ok).count(), 20);
}

/// A server of HTTP on loopback that gives each request this answer.
fn server_with(answer: &'static str) -> std::net::SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut bytes = [0; 4096];
            // The body is short: it comes with the head or right behind it.
            while !head.windows(4).any(|window| window == b"\r\n\r\n") {
                match stream.read(&mut bytes) {
                    Ok(count) if count > 0 => head.extend_from_slice(&bytes[..count]),
                    _ => break,
                }
            }
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// What servers of S3 answer, and what it is.
#[test]
fn answers_of_s3_are_known_by_their_kinds_and_told_by_their_words() {
    use std::os::unix::fs::OpenOptionsExt;
    let folder = Folder::new();
    for name in ["access", "secret"] {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).mode(0o600).open(folder.0.join(name)).unwrap();
        std::io::Write::write_all(&mut file, b"KEY").unwrap();
    }
    for (answer, kind, words) in [
        (
            "HTTP/1.1 503 Slow Down\r\nContent-Length: 87\r\nConnection: close\r\n\r\n<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
            StoreErrorKind::Busy,
            "SlowDown: Please reduce your request rate.",
        ),
        (
            "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            StoreErrorKind::Busy,
            "429",
        ),
        (
            "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            StoreErrorKind::Busy,
            "500",
        ),
        (
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 98\r\nConnection: close\r\n\r\n<Error><Code>InvalidAccessKeyId</Code><Message>The access key does not exist here.</Message></Error>",
            StoreErrorKind::Denied,
            "InvalidAccessKeyId",
        ),
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 82\r\nConnection: close\r\n\r\n<Error><Code>NoSuchBucket</Code><Message>There is no bucket.</Message></Error>    ",
            StoreErrorKind::NoStore,
            "create it",
        ),
        (
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            StoreErrorKind::BadRequest,
            "400",
        ),
        (
            "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            StoreErrorKind::BadRequest,
            "413",
        ),
        (
            "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            StoreErrorKind::Busy,
            "408",
        ),
        (
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            StoreErrorKind::Denied,
            "401",
        ),
        (
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 77\r\nConnection: close\r\n\r\n<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>",
            StoreErrorKind::Denied,
            "ExpiredToken",
        ),
        (
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 71\r\nConnection: close\r\n\r\n<Error><Code>RequestTimeout</Code><Message>Too slow.</Message></Error>  ",
            StoreErrorKind::Busy,
            "RequestTimeout",
        ),
        ("nonsense\r\n\r\n", StoreErrorKind::Unreachable, ""),
        ("", StoreErrorKind::Unreachable, "cannot be reached"),
    ] {
        let mut settings = StoreSettings::new("s3://bucket/x".parse().unwrap());
        settings.access_key_file = Some(folder.0.join("access"));
        settings.secret_key_file = Some(folder.0.join("secret"));
        settings.endpoint = Some(format!("http://{}", server_with(answer)));
        let store = Store::start(settings).unwrap();
        let error = store.put_blocking("hall/1", pieces(&["x"])).expect_err(answer);
        assert_eq!(error.kind(), kind, "{answer}: {error}");
        assert!(error.to_string().contains(words), "{answer}: {error}");
        assert!(error.to_string().len() < 400, "{error}");
    }
}
