//! The user as which the server continues.

use super::access_log::Opened;
use crate::config::{Config, Process, StreamSource};
use crate::failure;
use anyhow::Result;
use glassline_delivery::pull::Source;
use glassline_io::privileges::{self, Keep, PrivilegeError};
use glassline_transport::srt::Mode;

/// Becomes the user that the configuration names, once ports and files are open and before there are threads. Of
/// root's privileges the process keeps those that it needs while it runs; those that it needs only at the start are
/// used before. Without a configured user it continues as the user that started it.
pub(super) fn assume(config: &Config, access_log: Option<&Opened>) -> Result<()> {
    if let Err(error) = glassline_io::spool::large_pages::prepare() {
        tracing::debug!(%error, "streams lie in the system's pages for memory files; large ones take CAP_SYS_ADMIN");
    }
    let Process { user: Some(user), group, .. } = &config.process else {
        if privileges::is_root() {
            tracing::warn!(
                "runs as root; give it a user of its own: [process] user or --user ('root' if it is meant so)"
            );
        }
        return Ok(());
    };
    let identity = privileges::find(user, group.as_deref()).map_err(explain)?;
    if identity.uid == 0 && privileges::is_root() {
        return Ok(());
    }
    // The log is opened again when the configuration is read again, so the user needs the right to write it.
    if let Some(opened) = access_log.filter(|opened| opened.is_new && privileges::is_root()) {
        let given = privileges::give_file(&opened.file, &identity);
        given.map_err(|error| {
            failure::failed(
                format!("cannot give the access log to user {user}: {error}"),
                "make the file beforehand, or choose another folder for [log] access",
            )
        })?;
    }
    privileges::become_user(&identity, needs(config)).map_err(explain)?;
    tracing::info!(user, uid = identity.uid, gid = identity.gid, "continues as this user");
    Ok(())
}

/// The privileges of root that the configuration needs while the server runs.
fn needs(config: &Config) -> Keep {
    let is_low = |port: u16| (1..1024).contains(&port);
    let streams = || config.stream.values();
    let marks = |mark: Option<u32>, pool: bool| mark.is_some() || pool;
    Keep {
        net_admin: marks(config.viewer.mark, config.viewer.mark_pool.is_some())
            || streams().any(|stream| marks(stream.mark, stream.mark_pool.is_some())),
        low_ports: config
            .srt
            .iter()
            .flat_map(|srt| srt.listen.iter().chain(&srt.srtla))
            .any(|address| is_low(address.port()))
            || super::listeners(config).iter().any(|listen| is_low(listen.address.port()))
            || super::rtsp::listeners(config).iter().any(|listen| is_low(listen.address.port()))
            || streams().any(|stream| match &stream.source {
                Some(StreamSource::Pulled(Source::Udp(udp))) => is_low(udp.address.port()),
                Some(StreamSource::Link(address)) => is_low(address.port()),
                Some(StreamSource::Srt(address)) => is_low(address.port) && address.mode == Mode::Listener,
                _ => false,
            }),
    }
}

fn explain(error: PrivilegeError) -> anyhow::Error {
    let advice = match &error {
        PrivilegeError::Unknown { .. } => {
            "make it (adduser --system), or give a number; [process] or --user names it"
        }
        PrivilegeError::NotRoot { .. } => {
            "start it as root or as that user, or leave out [process] user and --user"
        }
        PrivilegeError::Unreadable { .. } => "give user and group by number",
        PrivilegeError::Threads { .. } => "this is a fault of the program; start it as that user for now",
        _ => "root in a container may lack what that takes: start it there as that user",
    };
    let named = format!("cannot continue as another user: {error}");
    match error {
        PrivilegeError::Unknown { .. } | PrivilegeError::NotRoot { .. } => failure::usage(named, advice),
        _ => failure::failed(named, advice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_it_goes_on_to_need() {
        let needs = |text: &str| {
            let keep = needs(&Config::parse(text, "glassline.toml".as_ref()).unwrap());
            (keep.net_admin, keep.low_ports)
        };
        assert_eq!(needs(""), (false, false));
        assert_eq!(needs("listen = ['[::]:1024', '[::]:0']"), (false, false));
        assert_eq!(needs("listen = ['[::]:8080', '127.0.0.1:1023']"), (false, true));
        assert_eq!(needs("[admin]\nlisten = ['127.0.0.1:900']"), (false, true));
        assert_eq!(needs("[rtsp]\nlisten = ['[::]:554']"), (false, true));
        assert_eq!(needs("[stream.a]\nsource = 'udp://@:1023'"), (false, true));
        assert_eq!(needs("[stream.a]\nsource = 'udp://@:5000'"), (false, false));
        assert_eq!(needs("[stream.a]\nsource = 'http://h:80/'"), (false, false));
        for marks in ["[viewer]\nmark = 7", "[viewer]\nmark_pool = '1-9'", "[stream.a]\nmark_pool = '1-9'"] {
            assert_eq!(needs(marks), (true, false), "{marks}");
        }
    }
}
