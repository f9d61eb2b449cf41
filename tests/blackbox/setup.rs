//! A machine without Rust: what `scripts/setup` brings, from a stand-in for Rust's servers on loopback.
//!
//! The real download is not tested here. Its address and checksum are those that the stand-in is asked for.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use glassline_test_support::program::Scratch;
use glassline_test_support::skip;

const SETUP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/setup");

/// Files by their paths, over HTTP, and what was asked for.
struct Files {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Files {
    fn serve(files: impl FnOnce(&str) -> HashMap<String, Vec<u8>>) -> Files {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let files = Arc::new(files(&format!("http://{address}")));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (files, seen) = (Arc::clone(&files), Arc::clone(&seen));
                std::thread::spawn(move || answer(stream, &files, &seen));
            }
        });
        Files { address, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request a connection.
fn answer(mut stream: TcpStream, files: &HashMap<String, Vec<u8>>, seen: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    for line in lines {
        if line.is_empty() {
            break;
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(path.clone());
    let (status, body) = match files.get(&path) {
        Some(body) => ("200 OK", body.as_slice()),
        None => ("404 Not Found", &b""[..]),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// What setup says of itself: the version and the checksum that it has fixed.
fn fixed(name: &str) -> String {
    let script = fs::read_to_string(SETUP).unwrap();
    let line = script.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    line.unwrap_or_else(|| panic!("{SETUP} has no {name}")).to_owned()
}

fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn sha256(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

/// rustup's own program, if this machine has one: installer and proxy are the same file.
fn rustup() -> Option<PathBuf> {
    let output = Command::new("sh").args(["-c", "command -v rustup"]).output().ok()?;
    let found = String::from_utf8(output.stdout).ok()?;
    fs::canonicalize(found.trim()).ok()
}

/// A package of a toolchain, as Rust's own are packed: a program that tells its name and version.
fn package(folder: &Scratch, name: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let top = folder.path().join(format!("{name}-stable"));
    let component = top.join(name);
    fs::create_dir_all(&component).unwrap();
    fs::write(top.join("rust-installer-version"), "3\n").unwrap();
    fs::write(top.join("components"), format!("{name}\n")).unwrap();
    let mut manifest = String::new();
    for (path, content) in files {
        let file = component.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        assert!(Command::new("chmod").arg("755").arg(&file).status().unwrap().success());
        manifest += &format!("file:{path}\n");
    }
    fs::write(component.join("manifest.in"), manifest).unwrap();
    let archive = folder.path().join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(folder.path()).arg("-czf").arg(&archive).arg(format!("{name}-stable"));
    assert!(tar.status().unwrap().success());
    fs::read(archive).unwrap()
}

/// Rust's distribution server with one toolchain of scripts, and the installer.
fn distribution(folder: &Scratch, version: &str, installer: Vec<u8>) -> Files {
    let triple = triple();
    let program = |name: &str| format!("#!/bin/sh\necho '{name} {version} (stand-in)'\n");
    let packages = [
        ("rustc", vec![("bin/rustc", program("rustc"))]),
        ("cargo", vec![("bin/cargo", program("cargo"))]),
        ("rust-std", vec![("lib/stand-in", String::new())]),
    ];
    Files::serve(|root| {
        let mut files = HashMap::new();
        let mut manifest = format!(
            "manifest-version = \"2\"\ndate = \"2026-01-01\"\n[profiles]\nminimal = [\"rustc\", \"cargo\", \"rust-std\"]\n\
             [pkg.rust]\nversion = \"{version} (stand-in)\"\n[pkg.rust.target.{triple}]\navailable = true\n"
        );
        for (name, _) in &packages {
            manifest += &format!(
                "[[pkg.rust.target.{triple}.components]]\npkg = \"{name}\"\ntarget = \"{triple}\"\n"
            );
        }
        for (name, content) in &packages {
            let content: Vec<_> = content.iter().map(|(path, text)| (*path, text.as_str())).collect();
            let bytes = package(folder, name, &content);
            let sum = sha256(&folder.path().join(format!("{name}.tar.gz")));
            manifest += &format!(
                "[pkg.{name}]\nversion = \"{version} (stand-in)\"\n[pkg.{name}.target.{triple}]\navailable = true\n\
                 url = \"{root}/dist/{name}.tar.gz\"\nhash = \"{sum}\"\n"
            );
            files.insert(format!("/dist/{name}.tar.gz"), bytes);
        }
        let file = folder.write("channel.toml", &manifest);
        let sum = format!("{}  channel-rust-stable.toml\n", sha256(Path::new(&file)));
        files.insert("/dist/channel-rust-stable.toml".to_owned(), manifest.into_bytes());
        files.insert("/dist/channel-rust-stable.toml.sha256".to_owned(), sum.into_bytes());
        files.insert(format!("/rustup/archive/{}/{triple}/rustup-init", fixed("rustup_version")), installer);
        files
    })
}

/// A machine on which all is installed but Rust: a home of its own, and commands in front of the system's.
struct Machine {
    folder: Scratch,
}

impl Machine {
    /// `None` where the system's own folders have a Rust, which would be found before any other.
    fn new() -> Option<Machine> {
        let has = |name: &str| {
            ["/usr/bin", "/bin", "/usr/local/bin"].iter().any(|at| Path::new(at).join(name).exists())
        };
        if has("cargo") || has("rustc") || has("rustup") {
            return None;
        }
        let folder = Scratch::new("setup");
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        Some(Machine { folder })
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A command that is found before the system's of that name.
    fn command(&self, name: &str, script: &str) {
        let file = self.folder.write(&format!("bin/{name}"), format!("#!/bin/sh\n{script}\n"));
        assert!(Command::new("chmod").args(["755", &file]).status().unwrap().success());
    }

    /// `scripts/setup build` with Rust's servers at `files`: whether it ended well, and what it said.
    fn setup(&self, files: &Files, more: &[(&str, &str)]) -> (bool, String) {
        let bin = self.folder.path().join("bin");
        let mut setup = Command::new("bash");
        setup
            .args([SETUP, "build"])
            .env_clear()
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", bin.display()))
            .env("HOME", self.home())
            .env("CARGO_TARGET_DIR", self.folder.path().join("target"))
            .env("RUSTUP_UPDATE_ROOT", files.url("/rustup"))
            .env("RUSTUP_DIST_SERVER", files.url(""))
            .envs(more.iter().copied());
        let output = setup.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// What `rustc --version` of this home says.
    fn rustc(&self, path: &Path) -> String {
        let mut rustc = Command::new(path);
        rustc.arg("--version").env("HOME", self.home()).env_remove("RUSTUP_HOME");
        let output = rustc.env_remove("CARGO_HOME").env_remove("RUSTUP_TOOLCHAIN").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// The answers of a Debian 12 to apt: there is no package of rustup.
fn debian_12(machine: &Machine) {
    machine.command("apt-get", "exit 0");
    machine.command("apt-cache", "printf 'rustup:\\n  Candidate: (none)\\n'");
}

#[test]
fn the_official_installer_brings_rust_to_who_has_none() {
    let test = "the_official_installer_brings_rust_to_who_has_none";
    let Some(machine) = Machine::new() else {
        return skip(test, "the system's folders have a Rust of their own");
    };
    let sum = fixed(&format!("rustup_sha256_{}", std::env::consts::ARCH));
    let Some(rustup) = rustup().filter(|file| sha256(file) == sum) else {
        return skip(test, &format!("there is no rustup {} here to hand out", fixed("rustup_version")));
    };
    let files = distribution(&machine.folder, "1.95.0", fs::read(rustup).unwrap());
    debian_12(&machine);
    let (done, said) = machine.setup(&files, &[]);
    assert!(done, "{said}");
    // It says what it will do before it does it.
    assert!(said.find("no Rust toolchain found: installing") < said.find("fetching "), "{said}");
    assert!(
        said.contains("GLASSLINE_NO_RUSTUP=1 refuses") && said.contains("installed Rust 1.95.0"),
        "{said}"
    );
    assert!(files.asked().iter().any(|path| path.ends_with("/rustup-init")), "{:?}", files.asked());
    let rustc = machine.home().join(".cargo/bin/rustc");
    assert!(machine.rustc(&rustc).contains("1.95.0 (stand-in)"), "{said}");
    // A second call finds all there and says nothing.
    assert_eq!(machine.setup(&files, &[]), (true, String::new()));
}

#[test]
fn debians_rustup_is_taken_where_there_is_one() {
    let test = "debians_rustup_is_taken_where_there_is_one";
    let Some(machine) = Machine::new() else {
        return skip(test, "the system's folders have a Rust of their own");
    };
    let Some(rustup) = rustup() else { return skip(test, "there is no rustup here") };
    let files = distribution(&machine.folder, "1.95.0", Vec::new());
    // Debian 13: the package has rustup and its proxies.
    let bin = machine.folder.path().join("bin");
    let names = ["rustup", "cargo", "rustc"].map(|name| bin.join(name).display().to_string()).join(" ");
    let install =
        format!("case \"$*\" in *rustup*) for at in {names}; do ln -s {} $at; done;; esac", rustup.display());
    machine.command("apt-get", &install);
    machine.command("apt-cache", "printf 'rustup:\\n  Candidate: 1.27.1-1+b4\\n'");
    let (done, said) = machine.setup(&files, &[]);
    assert!(done, "{said}");
    assert!(!files.asked().iter().any(|path| path.ends_with("/rustup-init")), "{:?}", files.asked());
    assert!(machine.rustc(&bin.join("rustc")).contains("1.95.0 (stand-in)"), "{said}");
}

#[test]
fn rustup_without_a_toolchain_gets_one() {
    let test = "rustup_without_a_toolchain_gets_one";
    let Some(machine) = Machine::new() else {
        return skip(test, "the system's folders have a Rust of their own");
    };
    let Some(rustup) = rustup() else { return skip(test, "there is no rustup here") };
    let files = distribution(&machine.folder, "1.95.0", Vec::new());
    let bin = machine.folder.path().join("bin");
    for name in ["rustup", "cargo", "rustc"] {
        symlink(&rustup, bin.join(name)).unwrap();
    }
    let (done, said) = machine.setup(&files, &[("RUSTUP_AUTO_INSTALL", "0")]);
    assert!(done, "{said}");
    assert!(machine.rustc(&bin.join("rustc")).contains("1.95.0 (stand-in)"), "{said}");
}

#[test]
fn an_installer_with_another_checksum_is_not_started() {
    let test = "an_installer_with_another_checksum_is_not_started";
    let Some(machine) = Machine::new() else {
        return skip(test, "the system's folders have a Rust of their own");
    };
    let marker = machine.folder.path().join("started");
    let foreign = format!("#!/bin/sh\ntouch {}\n", marker.display());
    let files = distribution(&machine.folder, "1.95.0", foreign.into_bytes());
    debian_12(&machine);
    let (done, said) = machine.setup(&files, &[]);
    assert!(!done && said.contains("its checksum is"), "{said}");
    assert!(!marker.exists(), "what has the wrong checksum was started");
}

#[test]
fn rust_that_is_refused_or_cannot_be_fetched_or_is_too_old_is_told() {
    let test = "rust_that_is_refused_or_cannot_be_fetched_or_is_too_old_is_told";
    let Some(machine) = Machine::new() else {
        return skip(test, "the system's folders have a Rust of their own");
    };
    debian_12(&machine);
    let nothing = Files::serve(|_| HashMap::new());
    let (done, said) = machine.setup(&nothing, &[("GLASSLINE_NO_RUSTUP", "1")]);
    assert!(!done && said.contains("GLASSLINE_NO_RUSTUP") && said.contains("https://rustup.rs"), "{said}");
    assert_eq!(nothing.asked(), Vec::<String>::new());
    let (done, said) = machine.setup(&nothing, &[]);
    assert!(!done && said.contains("cannot be fetched from"), "{said}");
    machine.command("cargo", "echo 'cargo 1.63.0'");
    machine.command("rustc", "echo 'rustc 1.63.0 (4b91a6ea7 2022-08-08)'");
    let (done, said) = machine.setup(&nothing, &[]);
    assert!(!done && said.contains("1.63.0 is too old") && said.contains("apt-get remove"), "{said}");
}
