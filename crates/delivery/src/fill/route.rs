//! Which upstream servers are asked for what: by the name that a client called, and by path.

use super::target::upstream_target;
use crate::http1::Host;
use crate::policy::is_live_path;
use std::borrow::Cow;
use std::fmt;
use thiserror::Error;

/// What of the requests goes to servers of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    host: HostPattern,
    /// What paths begin with; empty: any.
    path: String,
    /// What is taken off their front.
    strip: String,
    keeps_host: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Any,
    /// Names below this one, which begins with a dot.
    Below(String),
    Exactly(String),
}

/// Why there is no such route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// It is for everything.
    #[error("has neither host nor path; servers for everything else stand in [upstream] servers")]
    Everything,
    /// What is given for a host is none.
    #[error(
        "host is a name or address without a port, as in \"a.example\", or all names below one, as in \"*.example\""
    )]
    Host,
    /// What is given for a path is none.
    #[error("path begins with a slash and has no query, as in \"/live/sports/\"")]
    Path,
    /// What `strip` takes off is not the begin of `path`, up to one of its slashes.
    #[error(
        "strip is the begin of path, up to one of its slashes and without it, as in \"/sports\" where path is \"/sports/\""
    )]
    Strip,
    /// What is left of the path is where streams are.
    #[error(
        "strip leaves of path what streams here are called by (/live/…), of which servers are never asked: who may watch is \
         decided by the whole path; take the servers' own folder for it, or strip /live too"
    )]
    Live,
    /// This server answers there itself.
    #[error("path {0} is this server's own, and no server is ever asked for it; choose another")]
    Own(&'static str),
}

/// What this server answers itself, whatever its upstream servers have there.
const OWN: [&str; 7] = ["/api", "/metrics", "/healthz", "/readyz", "/gen204", "/watch", "/stream"];

impl Route {
    /// Requests for this host, exactly it or `*.` and what names have to end with, and for paths that begin like this: whole
    /// parts of them, so that `/a` is for `/a` and `/a/b`, and not for `/ab`. `None` is any. `strip` is taken off the paths'
    /// front. With `keeps_host` servers are asked by the name that the client called.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn new(
        host: Option<&str>,
        path: Option<&str>,
        strip: Option<&str>,
        keeps_host: bool,
    ) -> Result<Route, RouteError> {
        if host.is_none() && path.is_none() {
            return Err(RouteError::Everything);
        }
        let is_name = |name: &str| {
            let is_part = |part: &str| !part.is_empty() && !part.contains('*');
            name.split('.').all(is_part)
                && matches!(Host::parse(name), Some(Host::Name(whole)) if whole == name)
        };
        let host = match host {
            None => HostPattern::Any,
            Some(host) => match host.strip_prefix("*.") {
                Some(name) if is_name(name) => HostPattern::Below(format!(".{}", name.to_ascii_lowercase())),
                None if is_name(host) => HostPattern::Exactly(host.to_ascii_lowercase()),
                None => match host.parse::<std::net::IpAddr>() {
                    Ok(address) => HostPattern::Exactly(address.to_string()),
                    Err(_) => return Err(RouteError::Host),
                },
                Some(_) => return Err(RouteError::Host),
            },
        };
        let path = path.unwrap_or_default();
        let is_path = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
        if !(path.is_empty() || path.starts_with('/')) || !is_path {
            return Err(RouteError::Path);
        }
        let strip = strip.unwrap_or_default();
        if !strip.is_empty() && (!is_below(path, strip) || strip.ends_with('/')) {
            return Err(RouteError::Strip);
        }
        if let Some(own) = OWN.into_iter().find(|own| is_below(path, own)) {
            return Err(RouteError::Own(own));
        }
        if !strip.is_empty() && path.strip_prefix(strip).is_some_and(|left| is_below(left, "/live")) {
            return Err(RouteError::Live);
        }
        Ok(Route { host, path: path.to_owned(), strip: strip.to_owned(), keeps_host })
    }

    /// Whether it is for the same requests.
    pub fn is_like(&self, other: &Route) -> bool {
        (&self.host, &self.path) == (&other.host, &other.path)
    }

    /// What paths begin with; empty: any.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// What is taken off the front of paths; empty where nothing is.
    pub(super) fn stripped(&self) -> &str {
        &self.strip
    }

    /// A host that it is for; `None`: it is for any.
    pub(super) fn example_host(&self) -> Option<String> {
        match &self.host {
            HostPattern::Any => None,
            HostPattern::Below(end) => Some(format!("a{end}")),
            HostPattern::Exactly(name) if name.contains(':') => Some(format!("[{name}]")),
            HostPattern::Exactly(name) => Some(name.clone()),
        }
    }

    /// How closely it fits a request; `None` where it is for others.
    fn fit(&self, host: Option<&str>, path: &str) -> Option<(usize, usize)> {
        let name = match &self.host {
            HostPattern::Any => 0,
            HostPattern::Exactly(name) => {
                host.filter(|host| host.eq_ignore_ascii_case(name)).map(|_| usize::MAX)?
            }
            HostPattern::Below(end) => host
                .and_then(|host| host.split_at_checked(host.len().checked_sub(end.len())?))
                .filter(|(below, found)| !below.is_empty() && found.eq_ignore_ascii_case(end))
                .map(|_| end.len())?,
        };
        self.fits_path(path).then_some((name, self.path.len()))
    }

    /// Whether it is for `path`, by whatever host: `/sport` is not for `/sports`.
    pub(super) fn fits_path(&self, path: &str) -> bool {
        let is_open = self.path.is_empty() || self.path.ends_with('/');
        if is_open { path.starts_with(&self.path) } else { is_below(path, &self.path) }
    }
}

/// Whether `path` is `folder` or in it, by whole parts of the path.
fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostPattern::Any => {}
            HostPattern::Below(end) => write!(f, "*{end}")?,
            HostPattern::Exactly(name) => f.write_str(name)?,
        }
        f.write_str(&self.path)
    }
}

/// Where the object of a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Which route it goes by; `None`: to the servers for everything else.
    pub route: Option<usize>,
    /// Path and query at the server.
    pub target: String,
    /// What the server is called by, where that is not its own name.
    pub host: Option<String>,
}

impl Located {
    /// What the object is kept under: two routes may have the same path.
    pub fn key(&self) -> Cow<'_, str> {
        match self.route {
            None => Cow::Borrowed(&self.target),
            // Other keys begin with a slash.
            Some(route) => {
                Cow::Owned(format!("{route} {} {}", self.host.as_deref().unwrap_or_default(), self.target))
            }
        }
    }
}

/// Where the object is that a request for `path` with `query` and this `Host` is about. Of the routes that fit, one with an
/// exact host goes first, then the one with the longest host, then the one with the longest path. `None` as for
/// [`upstream_target`], also where the path would become that of a stream: whether it may be watched was not looked at.
pub fn locate<'a>(
    routes: impl Iterator<Item = &'a Route>,
    host: Option<&str>,
    path: &str,
    query: &str,
) -> Option<Located> {
    let mut routes = routes.enumerate().peekable();
    if routes.peek().is_none() {
        return Some(Located { route: None, target: upstream_target(path, query)?, host: None });
    }
    let field = host;
    let address;
    let host = match field.and_then(Host::parse) {
        None => None,
        Some(Host::Name(name)) => Some(name.strip_suffix('.').unwrap_or(name)),
        Some(Host::Address(found)) => {
            address = found.to_string();
            Some(address.as_str())
        }
    };
    let fitting = routes.filter_map(|(at, route)| Some((route.fit(host, path)?, at, route)));
    let Some((_, at, route)) = fitting.max_by_key(|(fit, ..)| *fit) else {
        return Some(Located { route: None, target: upstream_target(path, query)?, host: None });
    };
    // The path as it was asked for has to be a good one, too.
    upstream_target(path, "")?;
    let stripped = path.strip_prefix(&*route.strip).unwrap_or(path);
    let stripped = if stripped.is_empty() { "/" } else { stripped };
    if stripped != path && is_live_path(stripped) {
        return None;
    }
    let host = field.filter(|_| route.keeps_host).map(str::to_ascii_lowercase);
    Some(Located { route: Some(at), target: upstream_target(stripped, query)?, host })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(host: &str, path: &str) -> Route {
        let given = |text: &'static str| (!text.is_empty()).then_some(text);
        let (host, path) = (host.to_owned().leak(), path.to_owned().leak());
        Route::new(given(host), given(path), None, false).unwrap()
    }

    #[test]
    fn the_closest_route_is_taken() {
        let routes = [
            route("a.example", ""),
            route("*.example", "/live/sports/"),
            route("*.b.example", ""),
            route("", "/live/"),
            route("", "/live/sports"),
            route("a.example", "/live/news"),
            route("::1", ""),
        ];
        let found = |host, path| locate(routes.iter(), host, path, "").unwrap().route;
        for (host, path, wanted) in [
            (Some("a.example"), "/x", Some(0)),
            (Some("A.Example.:8080"), "/x", Some(0)),
            (Some("a.example"), "/live/sports/1.m4s", Some(0)),
            (Some("a.example"), "/live/news/1.m4s", Some(5)),
            (Some("a.example"), "/live/newsroom/1.m4s", Some(0)),
            (Some("c.example"), "/live/sports/1.m4s", Some(1)),
            (Some("c.b.example"), "/live/sports/1.m4s", Some(2)),
            (Some("c.example"), "/live/x/1.m4s", Some(3)),
            (Some("example"), "/live/sports/1.m4s", Some(4)),
            (Some(".example"), "/live/sportsmen/1.m4s", Some(3)),
            (None, "/live/sports", Some(4)),
            (Some("[::1]:80"), "/x", Some(6)),
            (Some("elsewhere"), "/x", None),
            (None, "/x", None),
        ] {
            assert_eq!(found(host, path), wanted, "{host:?} {path}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let wrong = |host, path, strip| Route::new(host, path, strip, false).unwrap_err();
        assert_eq!(wrong(None, None, None), RouteError::Everything);
        for host in ["", "*", "*.", "a.*.example", "*a.example", "a.example:80", "a b", "a..b", "a/"] {
            assert_eq!(wrong(Some(host), None, None), RouteError::Host, "{host}");
        }
        for path in ["live", "/a?b", "/a b", "/a#b"] {
            assert_eq!(wrong(None, Some(path), None), RouteError::Path, "{path}");
        }
        for strip in ["/b", "/a/", "/a/b", "a"] {
            assert_eq!(wrong(None, Some("/a/bc"), Some(strip)), RouteError::Strip, "{strip}");
        }
        assert_eq!(wrong(Some("h"), None, Some("/a")), RouteError::Strip);
    }

    #[test]
    fn keys_tell_routes_apart_and_hosts_where_they_count() {
        let keeping = Route::new(Some("*.example"), None, None, true).unwrap();
        let routes = [route("a.example", ""), route("b.example", ""), keeping];
        let key = |host| locate(routes.iter(), Some(host), "/1.m4s", "token=x&y").unwrap().key().into_owned();
        let keys: Vec<String> =
            ["h", "a.example", "b.example", "C.example:80", "d.example"].map(key).to_vec();
        assert_eq!(
            keys,
            ["/1.m4s?y", "0  /1.m4s?y", "1  /1.m4s?y", "2 c.example:80 /1.m4s?y", "2 d.example /1.m4s?y"]
        );
    }

    #[test]
    fn what_is_taken_off_leads_around_no_rules() {
        let strip = |path, strip| [Route::new(None, Some(path), Some(strip), false).unwrap()];
        let target = |routes: &[Route], path| Some(locate(routes.iter(), None, path, "q")?.target);
        let sports = strip("/sports/", "/sports");
        assert_eq!(target(&sports, "/sports/a/1.m4s").as_deref(), Some("/a/1.m4s?q"));
        assert_eq!(target(&sports, "/sports/live/a/1.m4s"), None, "its rules were not looked at");
        assert_eq!(target(&sports, "/sports/%6Cive/a/1.m4s"), None);
        assert_eq!(target(&sports, "/sports//live/a/1.m4s"), None);
        assert_eq!(target(&strip("/sports", "/sports"), "/sports").as_deref(), Some("/?q"));
        let within = strip("/live", "/live");
        assert_eq!(target(&within, "/live/live/closed/1.m4s"), None, "another stream's rules were looked at");
        let live = strip("/live/eu/", "/live");
        assert_eq!(target(&live, "/live/eu/1.m4s").as_deref(), Some("/eu/1.m4s?q"));
    }

    proptest! {
        /// Routes change no path but by what is taken off, and never make one a stream's.
        #[test]
        fn a_target_is_the_end_of_the_path(path in "/(live|a|b|%6C|/|\\.|é){0,6}", host in "[ab.*:0-9]{0,8}") {
            let stripped = Route::new(Some("*.b"), Some("/a"), Some("/a"), true).unwrap();
            let routes = [route("a", "/a/"), stripped];
            if let Some(located) = locate(routes.iter(), Some(&host), &path, "") {
                prop_assert!(path.ends_with(&located.target) || located.target == "/");
                prop_assert!(path == located.target || !is_live_path(&located.target));
            }
        }
    }
}
