//! The program under test, as a child process that ends with the test.

use crate::http;
use crate::metrics::Metrics;
use crate::wait::{until, until_some};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A child that is killed when the test ends, however it ends, and whose output is collected.
#[derive(Debug)]
pub struct Running {
    child: Child,
    output: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

/// How long what a program has said is waited for after its end: a child of its own may hold its pipes open for longer.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl Running {
    /// Starts `command` with its output collected, line by line.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start(command: &mut Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = Arc::new(Mutex::new(String::new()));
        let pipes: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|pipe| Box::new(pipe) as _),
            child.stderr.take().map(|pipe| Box::new(pipe) as _),
        ];
        let read = |pipe: Box<dyn Read + Send>| {
            let output = Arc::clone(&output);
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).into_owned() + "\n";
                    output.lock().expect("nobody panics with it").push_str(&line);
                }
            })
        };
        let readers = pipes.into_iter().flatten().map(read).collect();
        Running { child, output, readers }
    }

    /// Both of its outputs so far.
    pub fn output(&self) -> String {
        self.output.lock().expect("nobody panics with it").clone()
    }

    /// Waits until it says where its page is to be opened.
    ///
    /// # Panics
    /// Where it ends, or does not say it.
    pub fn page_address(&mut self) -> SocketAddr {
        until_some("the address of a page", || {
            let ended = self.ended();
            let output = self.output();
            assert!(ended.is_none(), "it ended with {ended:?}: {output}");
            let (_, rest) = output.split_once("open http://")?;
            let (authority, _) = rest.split_once(['/', '\n'])?;
            Some(authority.replace("localhost", "127.0.0.1").parse().unwrap_or_else(|error| {
                panic!("{authority:?} is no address: {error}");
            }))
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, once it has ended; then its output is whole, since a process can end before its pipes are read.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a child of ours")?;
        self.read_to_end();
        Some(status)
    }

    fn read_to_end(&mut self) {
        let deadline = Instant::now() + LAST_WORDS;
        while self.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.readers.clear();
    }

    /// Sends a signal by its name: `TERM`, `STOP`.
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let done = Command::new("kill").args(["-s", name, &id]).status();
        assert!(done.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// Where it does not end.
    pub fn wait(&mut self) -> ExitStatus {
        until_some("the end of a program", || self.ended())
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.read_to_end();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- output of process {}:\n{}---", self.id(), self.output());
        }
    }
}

/// `glassline serve` on a port of its own.
#[derive(Debug)]
pub struct Server {
    /// The process.
    pub process: Running,
    address: SocketAddr,
}

impl Server {
    /// Starts `binary serve` on a free loopback port and waits until it says where it is.
    pub fn start(binary: &str, arguments: &[&str]) -> Server {
        Server::start_at(binary, "127.0.0.1:0", arguments)
    }

    /// The same on a given address.
    ///
    /// # Panics
    /// Where it ends, or does not say where it listens.
    pub fn start_at(binary: &str, listen: &str, arguments: &[&str]) -> Server {
        Server::start_by(Command::new(binary), listen, arguments)
    }

    /// The same with a command of its own, which has the program and its environment.
    ///
    /// # Panics
    /// Where it ends, or does not say where it listens.
    pub fn start_by(mut command: Command, listen: &str, arguments: &[&str]) -> Server {
        command.args(["serve", "--listen", listen]).args(arguments);
        let mut process = Running::start(&mut command);
        let address = process.page_address();
        Server { process, address }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The entry of `/api/streams` for a stream, where it is listed.
    pub fn stream(&self, name: &str) -> Option<serde_json::Value> {
        let streams = http::get(self.address, "/api/streams").json();
        let list = streams["streams"].as_array().expect("a list of streams");
        list.iter().find(|stream| stream["name"] == name).cloned()
    }

    /// A number out of a stream's entry; 0 where the stream is not listed.
    pub fn count(&self, name: &str, field: &str) -> u64 {
        self.stream(name).map_or(0, |stream| stream[field].as_u64().unwrap_or(0))
    }

    /// Waits until a stream is live with a key frame that a viewer can begin at.
    pub fn wait_for_pictures(&self, name: &str) {
        until(&format!("pictures of {name}"), || {
            self.stream(name).is_some_and(|stream| {
                // A PMT may name the sound before the pictures.
                let mut codecs = stream["codecs"].as_array().into_iter().flatten();
                stream["live"] == true && codecs.any(|codec| codec["width"].as_u64() > Some(0))
            })
        });
    }

    /// What `/metrics` says.
    ///
    /// # Panics
    /// Where it is not the format.
    pub fn metrics(&self) -> Metrics {
        let text = http::get(self.address, "/metrics").text();
        Metrics::parse(&text).unwrap_or_else(|error| panic!("/metrics: {error}\n{text}"))
    }

    /// Memory of the process that is in RAM and its own (neither files nor the spools' shared memory).
    ///
    /// # Panics
    /// Where /proc does not say.
    pub fn own_memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Descriptors that it has open.
    ///
    /// # Panics
    /// Where /proc does not say.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("its descriptors").count()
    }
}

/// What a program that ran to its end left.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit status; `None` where a signal ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Runs a program to its end, which must come within `seconds`.
///
/// # Panics
/// Where it cannot be started.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: &[S], seconds: u32) -> Outcome {
    let done = Command::new("timeout")
        .args(["--signal=KILL", &seconds.to_string(), program])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let (status, stderr) = (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned());
    assert_ne!(status, Some(137), "{program} did not end within {seconds} s: {stderr}");
    Outcome { status, stdout: done.stdout, stderr }
}

/// Pictures that `encode` has left out, as it says at its end among all that it `said`: a busy machine makes it do so, and
/// nothing else may be missing of its stream.
///
/// # Panics
/// Where it does not say.
pub fn left_out(said: &str) -> u32 {
    let summary = said.lines().rev().find(|line| line.contains(" of transport stream"));
    let counted = summary.and_then(|line| line.split(" dropped").next()?.rsplit(' ').next()?.parse().ok());
    counted.unwrap_or_else(|| panic!("no summary: {said}"))
}

/// A folder of its own for a test, removed with it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty folder.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn new(name: &str) -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("glassline-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a scratch folder");
        Scratch(path)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it, as text for a command line.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Writes a file in it and returns its path. One whose name ends with `key` is its user's alone, as keys have to be.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let (path, mode) = (self.0.join(name), if name.ends_with("key") { 0o600 } else { 0o644 });
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(mode).open(path);
        file.and_then(|mut file| file.write_all(bytes.as_ref())).expect("a scratch file");
        self.file(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An address of this machine that is not loopback, if it has one (IPv4).
pub fn outer_address() -> Option<std::net::Ipv4Addr> {
    // No packet goes out: connecting a datagram socket only chooses the source address.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    let chosen = socket.connect("192.0.2.1:9").ok().and_then(|()| socket.local_addr().ok());
    let listed = || {
        let names = Command::new("hostname").arg("-I").output().ok()?;
        String::from_utf8_lossy(&names.stdout).split_whitespace().find_map(|word| word.parse().ok())
    };
    match chosen.map(|address| address.ip()) {
        Some(std::net::IpAddr::V4(address)) if !address.is_loopback() && !address.is_unspecified() => {
            Some(address)
        }
        _ => listed(),
    }
}
