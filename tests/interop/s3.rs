//! Recordings in a bucket of a server of S3 that people run (versitygw, over a folder).

use crate::GLASSLINE;
use glassline_test_support::http::get;
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::skip;
use glassline_test_support::wait::until;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As `scripts/setup` has it.
const VERSION: &str = "1.8.0";

fn versitygw() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    let program = cache.join(format!("glassline/versitygw-{VERSION}/bin/versitygw"));
    program.exists().then_some(program)
}

/// A server of S3 over `folder`, in which each folder is a bucket.
fn start(program: &Path, address: SocketAddr, folder: &Path) -> Running {
    let port = address.to_string();
    let words = ["--access", "ACCESS", "--secret", "SECRET", "--port", &port, "posix"];
    let server = Running::start(Command::new(program).args(words).arg(folder));
    until("the server of S3", || TcpStream::connect(address).is_ok());
    server
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn key(scratch: &Scratch, name: &str, key: &str) {
    let file = scratch.write(name, key);
    fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
}

fn figure(server: &Server, name: &str, label: &str) -> f64 {
    server.metrics().sum(&format!("glassline_record_{name}"), label)
}

/// Whether the index of the only recording below `bucket` says that it has ended, and each segment that it names is there.
fn has_ended(bucket: &Path) -> bool {
    let Some(session) = fs::read_dir(bucket.join("tv/hall")).ok().and_then(|mut it| it.next()) else {
        return false;
    };
    let session = session.unwrap().path();
    let Ok(parts) = fs::read_dir(session.join("index")) else { return false };
    let texts: Vec<String> = parts.map(|part| fs::read_to_string(part.unwrap().path()).unwrap()).collect();
    let lines: Vec<serde_json::Value> =
        texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect();
    for segment in lines.iter().filter_map(|line| line.get("segment")) {
        let file =
            session.join(segment["rendition"].as_str().unwrap()).join(format!("{}.m4s", segment["number"]));
        assert_eq!(Some(fs::metadata(&file).unwrap().len()), segment["bytes"].as_u64(), "{}", file.display());
    }
    assert!(lines.iter().all(|line| line.get("hole").is_none()));
    lines.iter().any(|line| line.get("ended").is_some())
}

#[test]
fn a_stream_is_recorded_into_a_bucket_that_is_missing_locked_away_and_gone_for_a_while() {
    let Some(program) = versitygw() else {
        let test = "a_stream_is_recorded_into_a_bucket_that_is_missing_locked_away_and_gone_for_a_while";
        return skip(
            test,
            "versitygw is not installed (scripts/setup test builds it where Go is new enough)",
        );
    };
    let (scratch, folder, address) = (Scratch::new("s3"), Scratch::new("s3-folder"), free());
    let mut s3 = start(&program, address, folder.path());
    key(&scratch, "access.key", "ACCESS\n");
    key(&scratch, "secret.key", "WRONG\n");
    let config = format!(
        "[record]\nstore = 's3://live/tv'\nendpoint = 'http://{address}'\nspool = '{}'\naccess_key_file = 'access.key'\n\
         secret_key_file = 'secret.key'\n[stream.hall]\nrecord = true\n[package]\nsegment = '1s'\n\
         [encode.hall]\ninput = 'test:160x90@25'\nkeyint = '1s'\nthreads = 1\n",
        scratch.path().join("spool").display()
    );
    let file = scratch.write("glassline.toml", config);
    let mut server = Server::start(GLASSLINE, &["--config", &file]);
    until("the refusal", || figure(&server, "store_errors_total", "\"denied\"") > 0.0);
    assert!(server.process.output().contains("refuses the credentials"), "{}", server.process.output());
    key(&scratch, "secret.key", "SECRET\n");
    until("the missing bucket", || figure(&server, "store_errors_total", "\"no_store\"") > 0.0);
    let bucket = folder.path().join("live");
    fs::create_dir(&bucket).unwrap();
    until("what has waited", || figure(&server, "uploaded_objects_total", "") >= 6.0);
    s3.kill();
    until("the store to be away", || figure(&server, "store_errors_total", "\"unreachable\"") > 0.0);
    until("what waits", || figure(&server, "oldest_waiting_seconds", "") > 1.0);
    assert_eq!(get(server.address(), "/live/hall/video.m3u8").status, 200);
    let _s3 = start(&program, address, folder.path());
    until("the store", || figure(&server, "store_up", "") == 1.0);
    server.process.signal("TERM");
    assert_eq!(server.process.wait().code(), Some(0));
    if !has_ended(&bucket) {
        // It had only some seconds: the next start has it end.
        let _next = Server::start(GLASSLINE, &["--config", &file]);
        until("the end of the first recording", || {
            fs::read_dir(bucket.join("tv/hall")).is_ok_and(|it| it.count() >= 1) && has_ended(&bucket)
        });
    }
}
