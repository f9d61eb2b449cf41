//! Playlists and manifests of another server, with a viewer's token in their addresses.
//!
//! ```text
//! upstream's playlist, as it is kept ─► with_token ─► this viewer's answer
//!   1.0.m4s                                             1.0.m4s?expires=…&token=…
//!   #EXT-X-MAP:URI="init.mp4?x=1"                       #EXT-X-MAP:URI="init.mp4?x=1&expires=…&token=…"
//!   https://elsewhere.example/1.m4s                     as it was
//! ```
//! A server that checks tokens asks its upstream without them, so a playlist that comes names its objects without them. A player
//! asks this server for those objects, and needs the token there. A token goes only to the server that it came to: into
//! relative addresses, and absolute ones of the server that the viewer has asked. Where an address could be read in two ways,
//! it is left alone.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod address;
mod dash;
mod hls;

pub use address::AskedServer;

use crate::policy::TOKEN_PARAMETERS;

/// A longer playlist is given as it is. One of a day of recorded segments has 7 MB.
pub const PLAYLIST_BYTES_MAX: usize = 12 << 20;
/// What a playlist may become. An upstream server that writes very many short addresses gets no further.
const WRITTEN_BYTES_MAX: usize = 16 << 20;
/// Longer tokens are none of ours, which have about 80 with their time; what has is put behind each address.
const TOKEN_BYTES_MAX: usize = 256;

/// A kind of text with addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaylistKind {
    /// HLS: multivariant and media playlists.
    Hls,
    /// DASH.
    Dash,
}

impl PlaylistKind {
    /// What an answer of this media type at this path is, if it is a playlist.
    pub fn of(media_type: Option<&str>, path: &str) -> Option<PlaylistKind> {
        let media_type = media_type.and_then(|it| it.split(';').next()).unwrap_or_default().trim();
        let is = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(media_type));
        let ends = |ending: &str| {
            let at = path.len().saturating_sub(ending.len());
            path.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(ending))
        };
        let hls =
            ["application/vnd.apple.mpegurl", "application/x-mpegurl", "audio/mpegurl", "audio/x-mpegurl"];
        if is(&hls) || ends(".m3u8") {
            Some(PlaylistKind::Hls)
        } else if is(&["application/dash+xml"]) || ends(".mpd") {
            Some(PlaylistKind::Dash)
        } else {
            None
        }
    }
}

/// A viewer's token, as it stands in a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewerToken(String);

impl ViewerToken {
    /// The one in the query of a viewer's request; `None` where there is none. Written as form data: none of its characters
    /// has a meaning in a playlist, in XML or in DASH's templates.
    pub fn of(query: &str) -> Option<ViewerToken> {
        let mut written = form_urlencoded::Serializer::new(String::new());
        let pairs = || form_urlencoded::parse(query.as_bytes());
        // Of several the first one counts (`http1::server::Request::parameter`).
        written.extend_pairs(
            TOKEN_PARAMETERS.iter().filter_map(|known| pairs().find(|(name, _)| name == known)),
        );
        let written = written.finish();
        (!written.is_empty() && written.len() <= TOKEN_BYTES_MAX).then_some(ViewerToken(written))
    }
}

/// `text` with `token` in its addresses, as far as they lead to `asked`; `None` where it stays as it is: it is no playlist,
/// too long, or says itself that relative addresses lead elsewhere.
pub fn with_token(
    kind: PlaylistKind,
    text: &str,
    token: &ViewerToken,
    asked: &AskedServer<'_>,
) -> Option<String> {
    if text.len() > PLAYLIST_BYTES_MAX {
        return None;
    }
    let mut written = Written(String::with_capacity(text.len().saturating_add(text.len() / 2)));
    match kind {
        PlaylistKind::Hls => hls::carry(text, &token.0, asked, &mut written)?,
        // Only the separator has a meaning in XML.
        PlaylistKind::Dash => dash::carry(text, &token.0.replace('&', "&amp;"), asked, &mut written)?,
    }
    Some(written.0)
}

/// The address that a redirect leads to, with `token` in it, as far as that leads to `asked`; `None` where it stays as it is.
pub fn location_with_token(location: &str, token: &ViewerToken, asked: &AskedServer<'_>) -> Option<String> {
    address::carry(location, &token.0, asked, address::Ampersand::Plain)
}

/// A text that does not grow without bound.
struct Written(String);

impl Written {
    fn push(&mut self, text: &str) -> Option<()> {
        (self.0.len().saturating_add(text.len()) <= WRITTEN_BYTES_MAX).then(|| self.0.push_str(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ASKED: AskedServer<'_> = AskedServer { authority: "edge.example:8080", is_secure: false };

    fn token() -> ViewerToken {
        ViewerToken::of("a=1&expires=7&token=Zq_-9&_HLS_msn=4").unwrap()
    }

    fn hls(text: &str) -> Option<String> {
        with_token(PlaylistKind::Hls, text, &token(), &ASKED)
    }

    fn dash(text: &str) -> Option<String> {
        with_token(PlaylistKind::Dash, text, &token(), &ASKED)
    }

    #[test]
    fn a_token_is_what_is_in_the_query_and_nothing_else() {
        assert_eq!(token().0, "expires=7&token=Zq_-9");
        assert_eq!(ViewerToken::of("token=a&token=b&expires=7&token=c").unwrap().0, "expires=7&token=a");
        assert_eq!(ViewerToken::of("a=1&_HLS_msn=7"), None);
        assert_eq!(ViewerToken::of("token=a%22%3C%24%0A&x").unwrap().0, "token=a%22%3C%24%0A");
        assert_eq!(ViewerToken::of(&format!("token={}", "a".repeat(2000))), None);
    }

    #[test]
    fn a_redirect_to_the_same_server_carries_it() {
        let to = |location| location_with_token(location, &token(), &ASKED);
        assert_eq!(to("../b/1.m4s?s=1#t").as_deref(), Some("../b/1.m4s?s=1&expires=7&token=Zq_-9#t"));
        for elsewhere in ["http://elsewhere.example/1", "//elsewhere.example", "b?token=own", ""] {
            assert_eq!(to(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn kinds_are_told_by_type_or_path() {
        let kind = |media_type, path| PlaylistKind::of(Some(media_type), path);
        assert_eq!(kind("Application/VND.apple.mpegurl; charset=utf-8", "/a"), Some(PlaylistKind::Hls));
        assert_eq!(kind("text/plain", "/a.M3U8"), Some(PlaylistKind::Hls));
        assert_eq!(kind("application/dash+xml", "/a"), Some(PlaylistKind::Dash));
        assert_eq!(PlaylistKind::of(None, "/a/manifest.mpd"), Some(PlaylistKind::Dash));
        assert_eq!(kind("video/mp4", "/é"), None);
    }

    #[test]
    fn hls_addresses_carry_it() {
        let text = "#EXTM3U\n#EXT-X-VERSION:9\r\n\
            #EXT-X-MAP:URI=\"init.mp4\",BYTERANGE=\"4@0\"\n\
            #EXT-X-PART:DURATION=0.2,URI=\"v/1.0.m4s?x=1\",INDEPENDENT=YES\n\
            #EXT-X-MEDIA:TYPE=AUDIO,NAME=\"a,URI=b\",URI=\"/live/a/audio.m3u8#top\"\n\
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://key\"\n\
            # a comment with URI=\"x\"\n\
            #EXTINF:2.0,URI=\"title\"\n\
            v/1.m4s\r\n\
            \n\
            http://EDGE.example:8080/live/a/2.m4s\n\
            http://edge.example/live/a/3.m4s\n\
            //elsewhere.example/4.m4s\n\
            5.m4s?token=own";
        let mut wanted = text.to_owned();
        for (before, after) in [
            ("init.mp4", "init.mp4?T"),
            ("m4s?x=1", "m4s?x=1&T"),
            ("audio.m3u8#top", "audio.m3u8?T#top"),
            ("v/1.m4s", "v/1.m4s?T"),
            ("2.m4s", "2.m4s?T"),
        ] {
            wanted = wanted.replace(before, &after.replace('T', "expires=7&token=Zq_-9"));
        }
        assert_eq!(hls(text).unwrap(), wanted);
        assert_eq!(
            hls("\u{feff}#EXTM3U\n#EXT-X-MAP:URI=\"a").unwrap(),
            "\u{feff}#EXTM3U\n#EXT-X-MAP:URI=\"a"
        );
        assert_eq!(hls("<html>\na"), None, "it is no playlist");
    }

    #[test]
    fn dash_addresses_carry_it() {
        let text = "<?xml version=\"1.0\"?>\n<!-- <BaseURL>x</BaseURL> -->\
            <MPD id='a>b'><Location>manifest.mpd</Location><Period><BaseURL>video/</BaseURL>\
            <AdaptationSet><SegmentTemplate media='$Number$.m4s?x=1&amp;y=2' initialization=\"init.mp4\"/>\
            <Representation id=\"v1\"><BaseURL>whole.mp4</BaseURL><mpd:SegmentURL media=\"1.m4s\"/>\
            <Initialization sourceURL = 'i.mp4' /></Representation></AdaptationSet></Period>\
            <UTCTiming value=\"/api/time\"/><SegmentTemplate media=\"https://cdn.example/1.m4s\"/></MPD>";
        let mut wanted = text.to_owned();
        for (before, after) in [
            ("manifest.mpd", "manifest.mpd?T"),
            ("y=2", "y=2&amp;T"),
            ("init.mp4", "init.mp4?T"),
            ("whole.mp4", "whole.mp4?T"),
            ("\"1.m4s", "\"1.m4s?T"),
            ("'i.mp4", "'i.mp4?T"),
        ] {
            wanted = wanted.replace(before, &after.replace('T', "expires=7&amp;token=Zq_-9"));
        }
        assert_eq!(dash(text).unwrap(), wanted);
    }

    #[test]
    fn a_manifest_whose_relative_addresses_may_lead_elsewhere_stays_as_it_is() {
        for text in [
            "<MPD><BaseURL>https://cdn.example/</BaseURL><SegmentTemplate media=\"1.m4s\"/></MPD>",
            "<MPD><SegmentTemplate media=\"1.m4s\"/><Period><BaseURL>//cdn.example/</BaseURL></Period></MPD>",
            "<MPD><BaseURL>&#x2f;/cdn.example/</BaseURL></MPD>",
            "<MPD><BaseURL><![CDATA[https://cdn.example/]]></BaseURL></MPD>",
            "<MPD><BaseURL>a<!-- -->b</BaseURL></MPD>",
            "<!DOCTYPE MPD [<!ENTITY x \"y\">]><MPD><SegmentURL media=\"1.m4s\"/></MPD>",
            "<MPD xml:base=\"https://cdn.example/\"><SegmentURL media=\"1.m4s\"/></MPD>",
            "<MPD><Representation id=\"//cdn.example\"/><SegmentTemplate media=\"$RepresentationID$/1.m4s\"/></MPD>",
            "<MPD><SegmentURL media=\"1.m4s\"",
            "<MPD><SegmentURL media=1.m4s/></MPD>",
            "<MPD><!-- ",
            "MPD",
        ] {
            assert_eq!(dash(text), None, "{text}");
        }
    }

    #[test]
    fn what_would_become_too_long_stays_as_it_is() {
        let long = ViewerToken::of(&format!("token={}", "a".repeat(200))).unwrap();
        let text = format!("#EXTM3U\n{}", "a\n".repeat(100_000));
        assert_eq!(with_token(PlaylistKind::Hls, &text, &long, &ASKED), None);
        assert_eq!(hls(&format!("#EXTM3U\n{}", "a".repeat(PLAYLIST_BYTES_MAX))), None);
    }

    proptest! {
        /// Whatever comes, nothing but the token is put in.
        #[test]
        fn nothing_else_changes(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "\n", "\r\n", "#EXTM3U", "#EXT-X-MAP:", "URI=\"", "\"", ",", "a.m4s", "?x=1", "#", "//", "http://",
                "edge.example:8080", "/", "\\", " ", "<", ">", "MPD", "BaseURL", "SegmentURL", " media=", "'", "&amp;",
                "&", "</", "/>", "<!--", "-->", "<![CDATA[", "]]>", "$RepresentationID$", "é", ":", "{$x}",
            ]), 0..60),
            is_hls: bool,
        ) {
            let text = if is_hls { "#EXTM3U\n".to_owned() } else { "<MPD>".to_owned() } + &pieces.concat();
            if let Some(written) = if is_hls { hls(&text) } else { dash(&text) } {
                let token = if is_hls { "expires=7&token=Zq_-9" } else { "expires=7&amp;token=Zq_-9" };
                let mut bare = written;
                for mark in ["?", "&amp;", "&"] {
                    bare = bare.replace(&format!("{mark}{token}"), "");
                }
                prop_assert_eq!(bare, text);
            }
        }
    }
}
