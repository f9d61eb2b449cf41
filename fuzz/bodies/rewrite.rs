//! Playlists and manifests of an upstream server, into whose addresses a viewer's token goes.
//!
//! The first byte says which of the two it is (even: HLS), the rest is the text.

use glassline_delivery::playlist::rewrite::{
    AskedServer, PLAYLIST_BYTES_MAX, PlaylistKind, ViewerToken, with_token,
};

/// Carries a token into a text. Panics where anything but the token changes, where it does not stay in proportion, or where
/// the token stands behind the name of another server.
pub fn run(data: &[u8]) {
    let Some((&kind, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let kind = if kind % 2 == 0 { PlaylistKind::Hls } else { PlaylistKind::Dash };
    let token = ViewerToken::of("expires=7&token=Zq_-9").expect("a token");
    let asked = AskedServer { authority: "edge.example", is_secure: false };
    let Some(written) = with_token(kind, text, &token, &asked) else { return };
    assert!(text.len() <= PLAYLIST_BYTES_MAX && written.len() <= 16 << 20);
    if text.contains("Zq_-9") {
        return;
    }
    let signs: &[&str] = if kind == PlaylistKind::Hls { &["?", "&"] } else { &["?", "&amp;"] };
    let put_in = match kind {
        PlaylistKind::Hls => "expires=7&token=Zq_-9",
        PlaylistKind::Dash => "expires=7&amp;token=Zq_-9",
    };
    let bare = signs.iter().fold(written.clone(), |bare, sign| bare.replace(&format!("{sign}{put_in}"), ""));
    assert!(bare == text, "something else has changed");
    for (at, _) in written.match_indices(put_in) {
        // The address that it is in, from a quote, a tag or a line's begin on.
        let front = &written[..at];
        let begin = front.rfind(['"', '\'', '>', '\n']).map_or(0, |quote| quote + 1);
        let address = &front[begin..];
        if let Some((before, behind)) = address.split_once("//")
            && (before.is_empty() || before.ends_with(':'))
            && !before.contains(['/', '?', '#'])
        {
            let authority = behind.split(['/', '?', '#']).next().unwrap_or_default();
            assert!(authority.eq_ignore_ascii_case("edge.example"), "{address}");
        }
    }
}
