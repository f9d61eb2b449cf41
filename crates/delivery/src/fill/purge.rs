//! Which objects a purge is about: those of a path as clients ask for it, with whatever query, or of all paths that begin so.

use super::route::Route;
use super::target::upstream_target;

/// The objects that a purge removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// By which route, and at which path of its servers. None at all: everything.
    meant: Vec<(Option<usize>, String)>,
    is_prefix: bool,
}

impl Purge {
    /// The objects that clients ask for at `path`, or with `is_prefix` at all paths that begin with it, by any host. `None` where
    /// it is no path that servers are asked for.
    pub fn new<'a>(routes: impl Iterator<Item = &'a Route>, path: &str, is_prefix: bool) -> Option<Purge> {
        let path = upstream_target(path.split('?').next()?, "").filter(|path| path.starts_with('/'))?;
        let mut meant = vec![(None, path.clone())];
        for (number, route) in routes.enumerate() {
            let begins = route.path();
            let target = if route.fits_path(&path) {
                path.strip_prefix(route.stripped()).unwrap_or(&path)
            } else if is_prefix && begins.starts_with(&path) {
                begins.strip_prefix(route.stripped()).unwrap_or(begins)
            } else {
                continue;
            };
            meant.push((Some(number), if target.is_empty() { "/".to_owned() } else { target.to_owned() }));
        }
        Some(Purge { meant, is_prefix })
    }

    /// All objects.
    pub fn everything() -> Purge {
        Purge { meant: Vec::new(), is_prefix: true }
    }

    /// Whether it is about the object at `target`, path and query, of the servers of `route`.
    pub fn is_about(&self, route: Option<usize>, target: &str) -> bool {
        let path = target.split('?').next().unwrap_or_default();
        self.meant.is_empty()
            || self.meant.iter().any(|(of, meant)| {
                *of == route && if self.is_prefix { path.starts_with(meant.as_str()) } else { path == meant }
            })
    }

    /// The same, by the key that the object has in memory ([`super::Located::key`]).
    pub fn is_about_key(&self, key: &str) -> bool {
        match key.split_once(' ') {
            None => self.is_about(None, key),
            Some((route, rest)) => {
                let target = rest.rsplit_once(' ').map_or(rest, |(_, target)| target);
                // Of a node of a cluster, by its number.
                if route.starts_with('@') {
                    return self.is_about(None, target);
                }
                route.parse().is_ok_and(|route| self.is_about(Some(route), target))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::locate;
    use proptest::prelude::*;

    fn routes() -> Vec<Route> {
        let route = |host, path, strip| Route::new(host, path, strip, false).unwrap();
        vec![
            route(None, Some("/live/sports/"), Some("/live")),
            route(Some("a.example"), None, None),
            route(None, Some("/vod"), Some("/vod")),
        ]
    }

    #[test]
    fn objects_of_other_nodes_are_purged_by_their_path() {
        let purge = Purge::new(std::iter::empty::<&Route>(), "/live/a/1.m4s", false).unwrap();
        assert!(purge.is_about_key("@0 7 /live/a/1.m4s?x") && !purge.is_about_key("@0 7 /live/b/1.m4s"));
        assert!(Purge::everything().is_about_key("@12 0 /live/a/1.m4s"));
    }

    fn is_purged(path: &str, is_prefix: bool, host: &str, asked: &str, query: &str) -> bool {
        let routes = routes();
        let purge = Purge::new(routes.iter(), path, is_prefix).unwrap();
        let located = locate(routes.iter(), Some(host), asked, query).unwrap();
        let found = purge.is_about_key(&located.key());
        assert_eq!(found, purge.is_about(located.route, &located.target));
        found
    }

    #[test]
    fn everything_is_all_of_every_route() {
        for route in [None, Some(0), Some(7)] {
            assert!(Purge::everything().is_about(route, "/a?b"));
        }
        assert!(Purge::everything().is_about_key("/a") && Purge::everything().is_about_key("1 h /a"));
    }

    #[test]
    fn a_route_is_for_whole_parts_of_a_path() {
        let purge = Purge::new(routes().iter(), "/vods", false).unwrap();
        assert!(!purge.is_about(Some(2), "s"));
        assert!(Purge::new(routes().iter(), "/vod/s", false).unwrap().is_about(Some(2), "/s"));
    }

    #[test]
    fn a_path_is_that_of_clients_whatever_becomes_of_it() {
        for (path, is_prefix, host, asked, query, expected) in [
            ("/film.mp4", false, "x", "/film.mp4", "", true),
            ("/film.mp4", false, "x", "/film.mp4", "part=1", true),
            ("/film.mp4", false, "x", "/film.mp45", "", false),
            ("/film", true, "x", "/film.mp4", "", true),
            ("/film.mp4", false, "a.example", "/film.mp4", "", true),
            ("/live/sports/1.m4s", false, "x", "/live/sports/1.m4s", "", true),
            ("/live/sports/1.m4s", false, "x", "/live/sports/2.m4s", "", false),
            ("/live/", true, "x", "/live/sports/2.m4s", "", true),
            ("/live/news/", true, "x", "/live/sports/2.m4s", "", false),
            ("/vod/", true, "x", "/vod/a", "q", true),
            // A route is for whole parts of a path.
            ("/vods", false, "x", "/vods", "", true),
            ("/vods", false, "x", "/vod/s", "", false),
            ("/vods", false, "x", "/vod", "", false),
            ("/vod", true, "x", "/vod/s", "", true),
            ("/", true, "x", "/vod/a", "", true),
            // What the servers call it is not what clients do.
            ("/sports/1.m4s", false, "x", "/live/sports/1.m4s", "", false),
        ] {
            assert_eq!(is_purged(path, is_prefix, host, asked, query), expected, "{path} {host} {asked}");
        }
        assert_eq!(Purge::new(routes().iter(), "no path", false), None);
    }

    proptest! {
        #[test]
        fn what_was_asked_for_is_purged_by_its_path_and_by_each_folder_of_it(
            parts in prop::collection::vec("[a-z]{1,3}", 1..5), host in prop::sample::select(vec!["x", "a.example"]),
            query in "[a-z]{0,3}", cut in 0usize..20,
        ) {
            let path = format!("/{}", parts.join("/"));
            prop_assume!(!crate::policy::is_live_path(&path) || path.starts_with("/live/sports/"));
            prop_assert!(is_purged(&path, false, host, &path, &query));
            prop_assert!(is_purged(&path[..1 + cut.min(path.len() - 1)], true, host, &path, &query));
            let other = format!("{path}x");
            prop_assert!(!is_purged(&other, false, host, &path, &query));
        }
    }
}
