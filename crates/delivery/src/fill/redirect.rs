//! Where a redirect of an upstream server leads, as this server's clients see it.
//!
//! ```text
//! client asks /live/a/1.m4s ─► http://origin:8080/base/live/a/1.m4s ─► 302 http://origin:8080/base/live/b/1.m4s?s=1
//!        told  ../b/1.m4s?s=1 ◄────────────────────────────────────────────────┘
//! ```
//! Clients know this server, and often cannot reach the other one. So what leads to servers that it asks comes back through it.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::key_query::KeyQuery;
use super::route::{Route, locate};
use crate::http1::Url;

/// Which request was redirected.
#[derive(Clone, Copy, Debug)]
pub struct Redirected<'a> {
    /// The server that was asked. A path in it stands in front of each request's.
    pub server: &'a Url,
    /// All servers that have the same, this one among them.
    pub servers: &'a [Url],
    /// Which route the request went by, as in [`super::Located::route`].
    pub route: Option<usize>,
    /// Path and query that were asked for, without the server's own path.
    pub target: &'a str,
    /// By what name it was asked, where that is not its own.
    pub host: Option<&'a str>,
    /// What of a query is part of an object's name.
    pub key_query: &'a KeyQuery,
}

/// The address that `location` has here, relative to the one that the client has asked for: relative, since this server may stand
/// behind a proxy's folder. `None` where it leads to other servers, or to what these have and cannot be asked for here.
pub fn location_here<'a>(
    asked: &Redirected<'_>,
    routes: impl Iterator<Item = &'a Route> + Clone,
    location: &str,
) -> Option<String> {
    let end = location.find([':', '/', '?', '#']).and_then(|at| location.get(at..)).unwrap_or_default();
    if end.starts_with(':') && !end.starts_with("://") {
        return None;
    }
    let base = asked.server.target().trim_end_matches('/');
    let url = asked.server.at(&format!("{base}{}", asked.target)).redirected(location).ok()?;
    let is_like =
        |known: &Url| (known.tls(), known.host(), known.port()) == (url.tls(), url.host(), url.port());
    let is_host = asked.host.is_some_and(|host| {
        let called =
            |scheme: &str| format!("{scheme}://{host}/").parse::<Url>().is_ok_and(|url| is_like(&url));
        called("http") || called("https")
    });
    // Which of the servers it leads to says which path stands in front.
    let base = match asked.servers.iter().find(|known| is_like(known)) {
        Some(known) => known.target().trim_end_matches('/'),
        None if is_host => base,
        None => return None,
    };
    let target = url.target().strip_prefix(base).filter(|rest| rest.starts_with('/'))?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let route = asked.route.map(|at| routes.clone().nth(at)).unwrap_or_default();
    let outside = |path: &str| format!("{}{path}", route.map_or("", Route::stripped));
    // It has to lead there when it is asked for: by the same servers, and with nothing left out.
    let host = route.and_then(Route::example_host).or(asked.host.map(str::to_owned));
    let located = locate(routes, host.as_deref(), &outside(path), &asked.key_query.select(query))?;
    if (located.route, located.target.as_str()) != (asked.route, target) {
        return None;
    }
    let from = asked.target.split('?').next().unwrap_or_default();
    let fragment = location.find('#').and_then(|at| location.get(at..)).unwrap_or_default();
    Some(format!("{}{fragment}", relative(&outside(from), &outside(target))))
}

/// The reference that leads from the path `from` to `to`, a path with perhaps a query (RFC 3986 §4.2). Neither has dot segments.
fn relative(from: &str, to: &str) -> String {
    let (path, query) = to.split_at(to.find('?').unwrap_or(to.len()));
    let folders = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    let (from, folder) = (folders(from), folders(path));
    let (mut above, mut below) = (from.split('/').peekable(), folder.split('/').peekable());
    while above.peek().is_some() && above.peek() == below.peek() {
        above.next();
        below.next();
    }
    let mut reference = "../".repeat(above.count());
    below.for_each(|part| {
        reference.push_str(part);
        reference.push('/');
    });
    reference.push_str(path.rsplit('/').next().unwrap_or_default());
    // An empty one, a colon in the first part and slashes at the begin would mean something else.
    let first = reference.split('/').next().unwrap_or_default();
    if first.is_empty() || first.contains(':') {
        reference.insert_str(0, "./");
    }
    format!("{reference}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct House {
        servers: Vec<Url>,
        routes: Vec<Route>,
        route: Option<usize>,
        host: Option<&'static str>,
        key_query: KeyQuery,
    }

    impl House {
        fn new(servers: &[&str]) -> House {
            let servers = servers.iter().map(|url| url.parse().unwrap()).collect();
            House { servers, routes: Vec::new(), route: None, host: None, key_query: KeyQuery::default() }
        }

        fn by(mut self, host: Option<&str>, path: Option<&str>, strip: Option<&str>) -> House {
            self.routes.push(Route::new(host, path, strip, self.host.is_some()).unwrap());
            self
        }

        fn here(&self, target: &str, location: &str) -> Option<String> {
            let House { servers, routes, route, host, key_query } = self;
            let asked =
                Redirected { server: &servers[0], servers, route: *route, target, host: *host, key_query };
            location_here(&asked, routes.iter(), location)
        }
    }

    #[test]
    fn what_leads_to_the_same_servers_comes_back() {
        let house = House::new(&["http://origin:8080", "http://reserve:81/copy/"]);
        for (location, wanted) in [
            ("/moved.m3u8?session=1", Some("../../moved.m3u8?session=1")),
            ("http://origin:8080/live/a/2.m4s", Some("2.m4s")),
            ("http://Origin:8080/live/b/2.m4s#t", Some("../b/2.m4s#t")),
            ("//origin:8080/live/a/", Some("./")),
            ("2.m4s", Some("2.m4s")),
            ("?session=1", Some("1.m4s?session=1")),
            ("v/../../c/3.m4s", Some("../c/3.m4s")),
            ("/x:y", Some("../../x:y")),
            ("x:y/z", None),
            ("mailto:a@b.example", None),
            ("./x:y", Some("./x:y")),
            ("http://reserve:81/copy/live/a/2.m4s", Some("2.m4s")),
            ("http://reserve:81/other/live/a/2.m4s", None),
            ("http://reserve:81/copycat/2.m4s", None),
            ("http://origin/live/a/2.m4s", None),
            ("https://origin:8080/live/a/2.m4s", None),
            ("http://elsewhere:8080/live/a/2.m4s", None),
            ("//elsewhere/live/a/2.m4s", None),
            ("ftp://origin:8080/", None),
            ("http://", None),
            ("/a b", None),
            // What would not be asked for here.
            ("/LIVE/a/1.m4s", None),
            ("/live/a/1.m4s?token=x", None),
        ] {
            assert_eq!(house.here("/live/a/1.m4s?x=1", location).as_deref(), wanted, "{location}");
        }
    }

    #[test]
    fn a_path_in_front_is_taken_off() {
        let house = House::new(&["http://origin:8080/base/"]);
        assert_eq!(house.here("/a.m4s", "/base/live/b.m4s").as_deref(), Some("live/b.m4s"));
        assert_eq!(house.here("/x/a.m4s", "http://origin:8080/base/").as_deref(), Some("../"));
        assert_eq!(house.here("/a.m4s", "b.m4s").as_deref(), Some("b.m4s"));
        assert_eq!(house.here("/a.m4s", "/elsewhere/b.m4s"), None, "nobody can ask for that here");
        assert_eq!(house.here("/a.m4s", "/baseless/b.m4s"), None);
    }

    #[test]
    fn routes_put_back_what_they_took_off() {
        let mut house = House::new(&["http://sports:80"]).by(None, Some("/sports/"), Some("/sports"));
        house.route = Some(0);
        assert_eq!(house.here("/a/1.m4s", "http://sports/b/1.m4s").as_deref(), Some("../b/1.m4s"));
        assert_eq!(house.here("/a/1.m4s", "/").as_deref(), Some("../"));
        assert_eq!(house.here("/a/1.m4s", "/live/b/1.m4s"), None, "its rules would not be looked at");
        // Those for everything else lead to no route's servers.
        house.route = None;
        assert_eq!(house.here("/a/1.m4s", "/sports/1.m4s"), None);
        assert_eq!(house.here("/a/1.m4s", "/b/1.m4s").as_deref(), Some("../b/1.m4s"));
        // What does not go by the route is another server's.
        let mut house = House::new(&["http://sports"]).by(None, Some("/live/sports/"), None);
        house.route = Some(0);
        assert_eq!(house.here("/live/sports/1", "/live/sports/2").as_deref(), Some("2"));
        assert_eq!(house.here("/live/sports/1", "/live/news/2"), None);
        let mut house = House::new(&["http://one"]).by(Some("*.example"), None, None);
        house.route = Some(0);
        assert_eq!(house.here("/a", "http://one/b").as_deref(), Some("b"));
    }

    #[test]
    fn the_name_that_a_client_called_is_this_server() {
        let mut house = House::new(&["http://origin:8080"]);
        house.host = Some("tv.example:9000");
        house = house.by(Some("*.example"), None, None);
        house.route = Some(0);
        for location in ["http://tv.example:9000/b", "http://TV.example:9000/b", "http://origin:8080/b", "/b"]
        {
            assert_eq!(house.here("/a", location).as_deref(), Some("b"), "{location}");
        }
        assert_eq!(house.here("/a", "http://tv.example/b"), None);
        assert_eq!(house.here("/a", "http://other.example:9000/b"), None);
        house.host = Some("tv.example");
        assert_eq!(house.here("/a", "https://tv.example/b").as_deref(), Some("b"), "whichever scheme");
    }

    #[test]
    fn what_would_be_left_out_of_a_query_is_not_lost() {
        let mut house = House::new(&["http://origin"]);
        house.key_query = KeyQuery::only(["v".to_owned()]);
        assert_eq!(house.here("/a", "/b?v=1").as_deref(), Some("b?v=1"));
        assert_eq!(house.here("/a", "/b?session=1"), None, "it would lead around in a circle");
    }

    proptest! {
        /// A client that follows it asks for what the server has said.
        #[test]
        fn it_leads_where_the_server_said(from in "/([a-c:]{0,2}/){0,3}[a-c]{0,2}", to in "/([a-c:]{0,2}/){0,3}[a-c:]{0,2}(\\?[a-c/]{0,3})?") {
            let house = House::new(&["http://origin"]);
            if let Some(told) = house.here(&from, &to) {
                let edge: Url = format!("http://edge{from}").parse().unwrap();
                let reached = edge.redirected(&told).unwrap();
                prop_assert_eq!((reached.host(), reached.target()), ("edge", to.as_str()), "{} from {}", told, from);
            }
        }
    }
}
