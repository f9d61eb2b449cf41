//! The judgement of what a configuration names and was tried before: ports, certificates, files, programs.

use super::facts::{CertificateFound, Fault, FileFound, PortFound, Problem, ProgramFound};
use super::job::Job;
use super::row::{AS_ROOT, IN_SERVICE, Row, State, better_unless};
use glassline_media::Utc;

/// A certificate is renewed a month before its end by most programs that do so; two weeks before it that has failed.
const RENEWAL_DAYS: i64 = 14;
const DAY_SECONDS: i64 = 86_400;

/// The rows of all of them.
pub(super) fn rows(job: &Job, now: Utc) -> Vec<Row> {
    let now_seconds = i64::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX);
    let ports = job.ports.iter().map(|found| port(found, job.is_ordinary_user));
    let certificates = job.certificates.iter().map(|found| certificate(found, now_seconds));
    let files = job.files.iter().map(file);
    let programs = job.programs.iter().map(|found| program(found, job.is_configured));
    ports.chain(certificates).chain(files).chain(programs).collect()
}

fn port(found: &PortFound, is_ordinary_user: bool) -> Row {
    let PortFound { key, address, is_udp, problem } = found;
    let protocol = if *is_udp { "UDP" } else { "TCP" };
    let check = format!("port {protocol} {address} ({key})");
    let row = |now: &str, state| Row::new(&check, now, "free, and allowed for this user").state(state);
    let lists = if *is_udp { "ss -lunp" } else { "ss -ltnp" };
    match problem {
        None => row("free", State::Ok),
        Some(Problem::Taken) => row("taken by another process", State::Fails)
            .command(format!("{lists} 'sport = :{}'", address.port()))
            .worth(
                "the server does not start; the command shows which process has it. If that is the server with this \
                 configuration, `glassline serve --upgrade` replaces it",
            ),
        Some(Problem::NotAllowed { is_started_as_root: true }) => {
            row("unknown: only root may try, and root starts the server", State::Better)
                .command(AS_ROOT)
                .worth("whether the port is free is known then")
        }
        Some(Problem::NotAllowed { .. }) if is_ordinary_user => {
            row("unknown: not allowed for this user, and a service may be", State::Better)
                .command(IN_SERVICE)
                .worth(
                    "the server starts where it has the capability: by systemd with AmbientCapabilities=CAP_NET_BIND_SERVICE \
                     (examples/glassline.service), or by sudo setcap cap_net_bind_service+ep \"$(command -v glassline)\"",
                )
        }
        Some(Problem::NotAllowed { .. }) => row("not allowed for this user", State::Fails)
            .command("sudo setcap cap_net_bind_service+ep \"$(command -v glassline)\"")
            .worth(
                "the server does not start; or start it as root with [process] user, or by systemd with \
                 AmbientCapabilities=CAP_NET_BIND_SERVICE",
            ),
        Some(Problem::NoSuchAddress) => row("no interface of this machine has the address", State::Fails)
            .command("ip address")
            .worth("the server does not start; the command lists the addresses that there are"),
        Some(Problem::Other(reason)) => {
            row(reason, State::Fails).command("ip address").worth("the server does not start")
        }
    }
}

/// `in 13 days`, by whole days towards zero.
fn days(seconds: i64) -> String {
    match seconds / DAY_SECONDS {
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

fn certificate(found: &CertificateFound, now_seconds: i64) -> Row {
    let CertificateFound { file, validity } = found;
    let check = format!("certificate {file}");
    let wanted = format!("good for {RENEWAL_DAYS} days or more");
    let renew = "sudo certbot renew";
    let row = |now: String, state| Row::new(&check, now, &wanted).state(state);
    match validity {
        Ok((_, until)) if *until < now_seconds => {
            row(format!("expired {} ago", days(now_seconds - until)), State::Fails)
                .command(renew)
                .worth("browsers refuse every connection")
        }
        Ok((from, _)) if *from > now_seconds => row(
            format!("not good yet, for {} more", days(from - now_seconds)),
            State::Fails,
        )
        .command("date -u")
        .worth(
            "browsers refuse every connection; if the clock is right, use the certificate before this one",
        ),
        Ok((_, until)) => {
            let left = until - now_seconds;
            row(format!("good for {}", days(left)), better_unless(left >= RENEWAL_DAYS * DAY_SECONDS))
                .command(renew)
                .worth("browsers refuse every connection from its last day on; the server reads renewed files by itself")
        }
        Err(Fault::NotForThisUser(reason) | Fault::ForService(reason)) => {
            row(format!("unknown: {reason}"), State::Better)
                .command(AS_ROOT)
                .worth("this user may not read it; the one that starts the server must")
        }
        Err(Fault::Certain(reason)) => row(reason.clone(), State::Fails)
            .command(format!("ls -l {file}   (docs/certificates.md says how to make one)"))
            .worth("the server does not start"),
    }
}

fn file(found: &FileFound) -> Row {
    let FileFound { key, name, fault, command } = found;
    let row = |now: String, state| {
        let row = Row::new(format!("{key} {name}"), now, "there, and usable for this user").state(state);
        match (command, state) {
            _ if matches!(fault, Some(Fault::ForService(_))) => row.command(IN_SERVICE),
            (_, State::Better) => row.command(AS_ROOT),
            (Some(command), _) => row.command(command),
            (None, _) => row,
        }
    };
    match fault {
        None => row("good".to_owned(), State::Ok),
        Some(Fault::NotForThisUser(reason)) => row(format!("unknown: {reason}"), State::Better)
            .worth("this user may not find out; the one that starts the server must"),
        Some(Fault::ForService(reason)) => row(format!("unknown: {reason}"), State::Better).worth(
            "the server starts where it is there: systemd makes it with LogsDirectory= (examples/glassline.service), and otherwise \
             it has to be made for the server's user",
        ),
        Some(Fault::Certain(reason)) => {
            row(reason.clone(), State::Fails).worth("what the configuration names does not work")
        }
    }
}

fn program(found: &ProgramFound, is_configured: bool) -> Row {
    let ProgramFound { name, purpose, found, is_needed, is_wanted, command } = found;
    let wanted = match (is_needed, is_configured) {
        (true, _) => format!("there: the configuration needs it for {purpose}"),
        (false, true) if *is_wanted => format!("there for {purpose}"),
        (false, true) => format!("there for {purpose}, which this configuration does not use"),
        (false, false) => format!("there for {purpose}"),
    };
    match found {
        Ok(version) => Row::new(name, version, wanted),
        Err(reason) => {
            let state = match (is_needed, is_configured) {
                (true, _) => State::Fails,
                (false, true) if !is_wanted => State::Ok,
                (false, _) => State::Better,
            };
            Row::new(name, reason, wanted)
                .state(state)
                .command(command)
                .worth(format!("without it there is no support for {purpose}"))
        }
    }
}
