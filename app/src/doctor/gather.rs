//! What the configuration names, tried: ports, certificates, files, programs.

use crate::config::{Certificate, Config, ConfigError, KeyRead, StreamSource};
use crate::serve;
use glassline_delivery::pull::{Source, UdpAddress};
use glassline_inspect::machine::{
    CertificateFound, Descriptors, Fault, FileFound, Job, PortFound, Problem, ProgramFound,
};
use glassline_io::batch::Batch;
use glassline_io::secret_file::SecretFileError;
use glassline_io::small_file::{Accept, SmallFileError};
use glassline_io::spool::large_pages;
use glassline_io::tcp::Listener;
use glassline_io::tls::{CertificateFiles, Connector, Identities, Roots, TlsError, Validity};
use glassline_io::udp::{self, Receiver};
use glassline_io::{nic, privileges, process, tcp};
use glassline_studio::capture::{AudioIn, Input};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The job of a configuration: the one in the file at `path`, or the defaults.
pub(super) fn job(config: &mut Config, path: Option<&Path>) -> Job {
    let limit = process::descriptor_limits().1;
    let keys = path.map(|path| key_files(config, path)).unwrap_or_default();
    let settings = serve::settings(config);
    let need = settings.descriptor_need(limit);
    let workers = if config.workers == 0 { process::processors() } else { config.workers };
    let connections = expected_connections(need.connections, need.asked);
    let sources = || config.stream.values().filter_map(|stream| stream.source.as_ref());
    Job {
        is_configured: path.is_some(),
        as_root: path.map_or("sudo glassline doctor".to_owned(), |path| {
            format!("sudo glassline doctor --config {}", path.display())
        }),
        is_for_root: is_for_root(config),
        is_ordinary_user: is_ordinary_user(config),
        in_service: in_service(path),
        workers,
        descriptors: Descriptors {
            limit,
            connections: need.connections,
            asked: need.asked,
            enough: need.enough,
        },
        memory_bytes: settings.memory_budget(usize::try_from(connections).unwrap_or(usize::MAX)),
        memory_for: format!("{} streams and {connections} connections", settings.max_streams),
        takes_datagrams: sources()
            .any(|source| !matches!(source, StreamSource::Pulled(Source::Http(_) | Source::Rtsp(_)))),
        sends_datagrams: config.stream.values().any(|stream| !stream.outputs.is_empty()),
        takes_raw_video: inputs(config).any(|(_, input)| matches!(input, Input::Rtp { .. })),
        marks: settings.rules.want_marks().then(|| tcp::may_mark().map_err(|error| error.to_string())),
        large_pages: large_pages::prepare().map_err(|error| error.to_string()),
        io_uring: Batch::new().map(drop).map_err(|error| error.to_string()),
        ports: ports(config),
        certificates: config.tls.certificates.iter().map(certificate).collect(),
        files: keys.into_iter().chain(files(config)).collect(),
        programs: programs(config),
    }
}

/// Connections that a budget is for: those that are asked for, or a large hall where the configuration does not say so.
fn expected_connections(possible: u64, asked: u64) -> u64 {
    const HALL: u64 = 10_000;
    possible.min(if asked == 0 { HALL } else { asked })
}

/// The inputs of built-in encoders, by section.
fn inputs(config: &Config) -> impl Iterator<Item = (&String, &Input)> {
    config.encode.iter().filter_map(|(name, section)| Some((name, &section.input.as_ref()?.input)))
}

/// Whether root starts the server, by the configuration, and this process is not root's.
fn is_for_root(config: &Config) -> bool {
    config.process.user.is_some() && !privileges::is_root()
}

/// Whether this user starts the server, as far as the configuration says, and is not root: under a service manager the server may
/// be allowed more.
fn is_ordinary_user(config: &Config) -> bool {
    config.process.user.is_none() && !privileges::is_root()
}

/// The command that looks from within such a service as `examples/glassline.service` is.
fn in_service(path: Option<&Path>) -> String {
    // A service begins in the root folder.
    let config = path.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let config = config.map_or_else(String::new, |path| format!(" --config {}", path.display()));
    format!(
        "sudo systemd-run --pipe -p DynamicUser=yes -p LogsDirectory=glassline \
         -p AmbientCapabilities='CAP_NET_BIND_SERVICE CAP_NET_ADMIN' \"$(command -v glassline)\" doctor{config}"
    )
}

fn ports(config: &Config) -> Vec<PortFound> {
    let listeners = [
        ("listen", &config.listen),
        ("tls.listen", &config.tls.listen),
        ("admin.listen", &config.admin.listen),
        ("rtmp.listen", &config.rtmp.listen),
        ("rtmp.tls_listen", &config.rtmp.tls_listen),
        ("rtsp.listen", &config.rtsp.listen),
        ("rtsp.tls_listen", &config.rtsp.tls_listen),
    ];
    let explain = |error: &io::Error| match error.kind() {
        ErrorKind::AddrInUse => Problem::Taken,
        ErrorKind::PermissionDenied => Problem::NotAllowed { is_started_as_root: is_for_root(config) },
        ErrorKind::AddrNotAvailable => Problem::NoSuchAddress,
        _ => Problem::Other(error.to_string()),
    };
    let streams = listeners
        .into_iter()
        .flat_map(|(key, addresses)| addresses.iter().map(move |address| (key, *address)));
    let tcp = streams.map(|(key, address)| PortFound {
        key: key.to_owned(),
        address,
        is_udp: false,
        problem: Listener::bind_group(address, 1).err().map(|error| explain(&error)),
    });
    let datagrams = config.stream.iter().filter_map(|(name, stream)| match stream.source.as_ref()? {
        StreamSource::Pulled(Source::Udp(udp) | Source::Rtp(udp)) => Some(PortFound {
            key: format!("stream.{name}.source"),
            address: udp.address,
            is_udp: true,
            problem: receive_at(udp).err().map(|error| explain(&error)),
        }),
        StreamSource::Link(address) => Some(PortFound {
            key: format!("stream.{name}.source"),
            address: *address,
            is_udp: true,
            problem: receive(*address).err().map(|error| explain(&error)),
        }),
        // What a session description names is seen when it is received.
        StreamSource::Pulled(Source::Http(_) | Source::Rtsp(_) | Source::Sdp(_)) | StreamSource::Srt(_) => {
            None
        }
    });
    let of_srt =
        config.srt.iter().flat_map(|srt| srt.listen.iter().chain(&srt.srtla)).map(|address| PortFound {
            key: "srt".to_owned(),
            address: *address,
            is_udp: true,
            problem: receive(*address).err().map(|error| explain(&error)),
        });
    tcp.chain(datagrams).chain(of_srt).collect()
}

/// Whether datagrams can be received there. A group is not joined, since the network would begin to send its packets here.
fn receive_at(udp: &UdpAddress) -> io::Result<()> {
    if let Some(name) = udp.interface.as_deref().filter(|name| !nic::exists(name)) {
        return Err(io::Error::new(ErrorKind::NotFound, format!("no network interface {name:?}")));
    }
    if udp.address.ip().is_multicast() {
        return Ok(());
    }
    receive(udp.address)
}

fn receive(address: SocketAddr) -> io::Result<()> {
    Receiver::open(&udp::Settings { address, interface: None, sender: None }).map(drop)
}

fn certificate(files: &Certificate) -> CertificateFound {
    let dates = || -> Result<(i64, i64), TlsError> {
        let validity = Validity::of_file(&files.chain, Accept::AnyFile)?;
        let files = CertificateFiles { chain: files.chain.clone(), key: files.key.clone() };
        Identities::read(&[files], Accept::AnyFile)?;
        Ok((validity.from_seconds, validity.until_seconds))
    };
    CertificateFound {
        file: files.chain.display().to_string(),
        validity: dates().map_err(|error| of_tls(&error)),
    }
}

fn of_tls(error: &TlsError) -> Fault {
    match error {
        TlsError::File(file) | TlsError::Secret(SecretFileError::File(file)) => of_file(file),
        other => Fault::Certain(other.to_string()),
    }
}

fn of_file(error: &SmallFileError) -> Fault {
    match error {
        SmallFileError::Unreadable { reason, .. } if reason.kind() == ErrorKind::PermissionDenied => {
            Fault::NotForThisUser(error.to_string())
        }
        other => Fault::Certain(other.to_string()),
    }
}

/// What is wrong with opening something.
fn of_open(opened: io::Result<File>) -> Option<Fault> {
    opened.err().map(|error| match error.kind() {
        ErrorKind::PermissionDenied => Fault::NotForThisUser(error.to_string()),
        _ => Fault::Certain(error.to_string()),
    })
}

/// The files with keys, and whether those that could be read go together.
fn key_files(config: &mut Config, path: &Path) -> Vec<FileFound> {
    let found = |key: KeyRead| {
        let fault = key.read.err().map(|error| match &error {
            ConfigError::File(file) => of_file(file),
            other => Fault::Certain(other.to_string()),
        });
        let name = key.file.display().to_string();
        FileFound { command: Some(format!("ls -l {name}")), key: key.name, name, fault }
    };
    let mut all: Vec<FileFound> = config.read_keys(path, Accept::AnyFile).into_iter().map(found).collect();
    if let Err((section, wrong)) = serve::links::check(config) {
        all.push(FileFound {
            key: section,
            name: "(its links)".to_owned(),
            fault: Some(Fault::Certain(wrong)),
            command: Some(format!("glassline serve --test-config --config {}", path.display())),
        });
    }
    all
}

fn files(config: &Config) -> Vec<FileFound> {
    let mut all = Vec::new();
    let mut add = |key: String, name: String, fault: Option<Fault>| {
        all.push(FileFound { key, command: Some(format!("ls -ld {name}")), name, fault });
    };
    for (name, input) in inputs(config) {
        let path = match input {
            Input::File(path) | Input::V4l2 { device: path, .. } | Input::Rtp { description: path, .. } => {
                path
            }
            Input::Decoded(film) => &film.path,
            Input::Test { .. } | Input::Stdin => continue,
        };
        add(format!("encode.{name}.input"), path.display().to_string(), of_open(open_at_once(path)));
    }
    for (name, section) in &config.encode {
        if let Some(AudioIn::Wav(path) | AudioIn::Rtp(path)) = &section.audio_in {
            add(format!("encode.{name}.audio_in"), path.display().to_string(), of_open(open_at_once(path)));
        }
    }
    let authorities = config.stream.iter().map(|(name, stream)| (format!("stream.{name}.ca"), &stream.ca));
    for (key, file) in authorities.chain([("upstream.ca".to_owned(), &config.upstream.ca)]) {
        let Some(file) = file else { continue };
        let read = Connector::new(&Roots::File(file.clone()), Accept::RegularFile);
        add(key, file.display().to_string(), read.err().map(|error| of_tls(&error)));
    }
    if let Some(folder) = config.log.access.as_deref().map(folder_of) {
        let opened = File::open(folder);
        let is_missing = opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let fault = match of_open(opened) {
            Some(Fault::Certain(reason)) if is_missing && is_ordinary_user(config) => {
                Some(Fault::ForService(reason))
            }
            fault => fault,
        };
        add("log.access, its folder".to_owned(), folder.display().to_string(), fault);
    }
    if let Some(user) = &config.process.user {
        let found = privileges::find(user, config.process.group.as_deref());
        all.push(FileFound {
            key: "process.user".to_owned(),
            name: user.clone(),
            fault: found.err().map(|error| Fault::Certain(error.to_string())),
            command: Some(format!("sudo adduser --system --group {user}")),
        });
    }
    all
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens it for reading without waiting, as a FIFO without a writer would have one wait.
fn open_at_once(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    const O_NONBLOCK: i32 = 0o4000;
    File::options().read(true).custom_flags(O_NONBLOCK).open(path)
}

fn programs(config: &Config) -> Vec<ProgramFound> {
    let encodes = !config.encode.is_empty() || config.demo.enabled;
    let decodes = inputs(config).any(|(_, input)| matches!(input, Input::Decoded(_)));
    let listens = config.encode.values().any(|section| matches!(section.audio_in, Some(AudioIn::Alsa(_))));
    let built_in = |name: &str, purpose: &str, is_there: bool, is_needed: bool, library: &str| ProgramFound {
        name: name.to_owned(),
        purpose: purpose.to_owned(),
        found: if is_there { Ok("built in".to_owned()) } else { Err("left out of this build".to_owned()) },
        is_needed,
        is_wanted: false,
        command: format!("sudo apt install {library} && cargo build --release"),
    };
    vec![
        ProgramFound {
            name: "ffmpeg".to_owned(),
            purpose: "inputs that FFmpeg decodes".to_owned(),
            found: in_path("ffmpeg")
                .map(|path| path.display().to_string())
                .ok_or_else(|| "not in PATH".to_owned()),
            is_needed: decodes,
            is_wanted: false,
            command: "sudo apt install ffmpeg".to_owned(),
        },
        avcodec(config),
        built_in("libx264", "H.264", cfg!(feature = "x264"), encodes, "libx264-dev"),
        built_in("libopus", "Opus", cfg!(feature = "opus"), false, "libopus-dev"),
        built_in("libaom and dav1d", "AV1", cfg!(feature = "av1"), false, "libaom-dev libdav1d-dev"),
        built_in("libasound", "sound devices", cfg!(feature = "alsa"), listens, "libasound2-dev"),
    ]
}

const AVCODEC_PURPOSE: &str = "AAC, and decoding of the streams that are watched";

/// The library that codes AAC, which is opened when it is first asked for.
#[cfg(feature = "aac")]
fn avcodec(config: &Config) -> ProgramFound {
    use glassline_codec::CodecError;
    use glassline_codec::audio::aac;
    use glassline_studio::encode::sound::Audio;
    let opened = aac::Encoder::new(aac::Settings { channels: 2, bitrate_bps: 128_000 });
    let (found, package) = match opened {
        Ok(_) => (Ok("opened".to_owned()), "libavcodec-dev".to_owned()),
        Err(CodecError::Absent { reason, package, .. }) => (Err(reason), package),
        Err(error) => (Err(error.to_string()), "libavcodec-dev".to_owned()),
    };
    ProgramFound {
        name: "libavcodec".to_owned(),
        purpose: AVCODEC_PURPOSE.to_owned(),
        found,
        is_needed: config.encode.values().any(|section| section.audio == Some(Audio::Aac)),
        is_wanted: config.watch.is_some(),
        command: format!("sudo apt install {package}"),
    }
}

#[cfg(not(feature = "aac"))]
fn avcodec(config: &Config) -> ProgramFound {
    ProgramFound {
        name: "libavcodec".to_owned(),
        purpose: AVCODEC_PURPOSE.to_owned(),
        found: Err("left out of this build".to_owned()),
        is_needed: false,
        is_wanted: config.watch.is_some(),
        command: "cargo build --release   (with the default features)".to_owned(),
    }
}

/// The file that a program's name stands for.
fn in_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_for_those_that_may_come() {
        assert_eq!(expected_connections(500_000, 0), 10_000);
        assert_eq!(expected_connections(500, 0), 500);
        assert_eq!(expected_connections(500_000, 200_000), 200_000);
        assert_eq!(expected_connections(500, 200_000), 500);
    }

    #[test]
    fn what_may_not_be_read_is_told_apart_from_what_is_wrong() {
        let denied = of_open(Err(ErrorKind::PermissionDenied.into()));
        assert!(matches!(denied, Some(Fault::NotForThisUser(_))));
        assert!(matches!(of_open(File::open("/nonexistent/a")), Some(Fault::Certain(_))));
        assert_eq!(of_open(File::open("/dev/null")), None);
        assert_eq!(folder_of("access.log".as_ref()), Path::new("."));
    }

    #[test]
    fn what_is_watched_is_decoded_by_libavcodec_where_it_is_there() {
        for (text, is_wanted) in [("[watch]\n", true), ("", false)] {
            let config = Config::parse(text, "a.toml".as_ref()).unwrap();
            let found = avcodec(&config);
            assert_eq!((found.is_needed, found.is_wanted), (false, is_wanted), "{text:?}");
        }
    }

    #[test]
    fn groups_are_not_joined_and_their_interface_is_looked_for() {
        let at = |text: &str| match Source::parse(text).unwrap() {
            Source::Udp(udp) => receive_at(&udp),
            other => panic!("{other:?}"),
        };
        at("udp://239.255.77.9:5000").unwrap();
        assert!(
            at("udp://239.255.77.9:5000?interface=nowhere0").unwrap_err().to_string().contains("nowhere0")
        );
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = at(&format!("udp://{}", taken.local_addr().unwrap())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
}
