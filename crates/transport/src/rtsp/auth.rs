//! Credentials: Basic (RFC 7617) and Digest (RFC 7616, RFC 2069) as cameras ask for them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest as _, Md5};
use ring::digest::{SHA256, digest};
use std::fmt;
use zeroize::Zeroizing;

/// Challenges of a response that are looked at, and parameters of each.
const CHALLENGES_MAX: usize = 8;
const PARAMETERS_MAX: usize = 32;

/// User and password. Neither is shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Zeroizing<String>,
    password: Zeroizing<String>,
}

impl Credentials {
    /// Of a user with a password.
    pub fn new(user: &str, password: &str) -> Credentials {
        Credentials { user: Zeroizing::new(user.to_owned()), password: Zeroizing::new(password.to_owned()) }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// How a digest is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// RFC 2069 and 2617.
    Md5,
    /// RFC 7616.
    Sha256,
}

impl Algorithm {
    fn hash(self, text: &str) -> String {
        match self {
            Algorithm::Md5 => hexadecimal(&Md5::digest(text.as_bytes())),
            Algorithm::Sha256 => hexadecimal(digest(&SHA256, text.as_bytes()).as_ref()),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Algorithm::Md5 => "MD5",
            Algorithm::Sha256 => "SHA-256",
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a server asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// User and password as they are.
    Basic {
        /// What they are for.
        realm: String,
    },
    /// A digest of them.
    Digest {
        /// What they are for.
        realm: String,
        /// What the digest is made with.
        nonce: String,
        /// What is given back as it is.
        opaque: Option<String>,
        /// How it is made.
        algorithm: Algorithm,
        /// Whether the algorithm was named.
        is_named: bool,
        /// Protection `auth`: with a count and a nonce of the client's own.
        has_protection: bool,
        /// The nonce before was too old, and the credentials were right.
        is_stale: bool,
    },
}

impl Challenge {
    /// Reads a value of `WWW-Authenticate`; `None` of schemes and algorithms that are not known.
    pub fn parse(value: &str) -> Option<Challenge> {
        let (scheme, rest) = value.trim().split_once(char::is_whitespace).unwrap_or((value.trim(), ""));
        let parameters = parameters(rest);
        let get = |name: &str| {
            parameters
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.clone())
        };
        let realm = get("realm").unwrap_or_default();
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic { realm });
        }
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let named = get("algorithm");
        let algorithm = match named.as_deref().map(str::to_ascii_uppercase).as_deref() {
            None | Some("MD5" | "") => Algorithm::Md5,
            Some("SHA-256") => Algorithm::Sha256,
            Some(_) => return None,
        };
        let protections = get("qop").unwrap_or_default();
        let has_protection = protections.split(',').any(|word| word.trim().eq_ignore_ascii_case("auth"));
        // One with `auth-int` alone asks for more than is done here.
        if !has_protection && !protections.trim().is_empty() {
            return None;
        }
        Some(Challenge::Digest {
            realm,
            nonce: get("nonce")?,
            opaque: get("opaque"),
            algorithm,
            is_named: named.is_some(),
            has_protection,
            is_stale: get("stale").is_some_and(|stale| stale.eq_ignore_ascii_case("true")),
        })
    }

    /// The safest of several.
    pub fn best<'a>(values: impl Iterator<Item = &'a str>) -> Option<Challenge> {
        let rank = |challenge: &Challenge| match challenge {
            Challenge::Basic { .. } => 0,
            Challenge::Digest { algorithm: Algorithm::Md5, .. } => 1,
            Challenge::Digest { algorithm: Algorithm::Sha256, .. } => 2,
        };
        values.take(CHALLENGES_MAX).filter_map(Challenge::parse).max_by_key(rank)
    }

    /// Its nonce; empty of Basic.
    pub fn nonce(&self) -> &str {
        match self {
            Challenge::Basic { .. } => "",
            Challenge::Digest { nonce, .. } => nonce,
        }
    }
}

/// `name=value, name="value", …`; quotes may have commas in them.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && found.len() < PARAMETERS_MAX {
        let Some((name, behind)) = rest.split_once('=') else { break };
        let name = name.trim().trim_start_matches(',').trim();
        let behind = behind.trim_start();
        let (value, behind) = match behind.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let (value, behind) = behind.split_once(',').unwrap_or((behind, ""));
                (value.trim().to_owned(), behind)
            }
        };
        found.push((name.to_owned(), value));
        rest = behind.trim_start().trim_start_matches(',').trim_start();
    }
    found
}

/// A quoted string up to its end, and what follows.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, text.get(at.saturating_add(1)..).unwrap_or_default()),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            letter => value.push(letter),
        }
    }
    (value, "")
}

/// What a client shows to a server.
#[derive(Clone, PartialEq, Eq)]
pub enum Shown {
    /// User and password as they are.
    Basic(Credentials),
    /// A digest of them.
    Digest {
        /// The user.
        user: String,
        /// What the digest was made with.
        nonce: String,
        /// The address that it was made with.
        uri: String,
        /// The digest.
        response: String,
        /// How it was made.
        algorithm: Algorithm,
        /// With protection: count and the client's nonce.
        protection: Option<(String, String)>,
    },
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown(…)")
    }
}

impl Shown {
    /// Reads a value of `Authorization`; `None` of schemes and algorithms that are not known.
    pub fn parse(value: &str) -> Option<Shown> {
        let (scheme, rest) = value.trim().split_once(char::is_whitespace)?;
        if scheme.eq_ignore_ascii_case("basic") {
            let both = Zeroizing::new(BASE64_STANDARD.decode(rest.trim()).ok()?);
            let (user, password) = std::str::from_utf8(&both).ok()?.split_once(':')?;
            return Some(Shown::Basic(Credentials::new(user, password)));
        }
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let parameters = parameters(rest);
        let get = |name: &str| {
            parameters
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.clone())
        };
        let algorithm = match get("algorithm").as_deref().map(str::to_ascii_uppercase).as_deref() {
            None | Some("MD5" | "") => Algorithm::Md5,
            Some("SHA-256") => Algorithm::Sha256,
            Some(_) => return None,
        };
        let protection = get("qop").and_then(|_| get("nc").zip(get("cnonce")));
        let (user, nonce, uri, response) = (get("username")?, get("nonce")?, get("uri")?, get("response")?);
        Some(Shown::Digest { user, nonce, uri, response, algorithm, protection })
    }

    /// The password, where it is shown as it is.
    pub fn password(&self) -> Option<&str> {
        match self {
            Shown::Basic(credentials) => Some(&credentials.password),
            Shown::Digest { .. } => None,
        }
    }

    /// Whether it is a digest of this user and password, made with this realm and nonce for a request of this method. Of Basic, `false`:
    /// the caller compares its password.
    pub fn proves(&self, user: &str, password: &str, realm: &str, nonce: &str, method: &str) -> bool {
        let Shown::Digest { user: said, nonce: used, uri, response: shown, algorithm, protection } = self
        else {
            return false;
        };
        let secret = Zeroizing::new(format!("{user}:{realm}:{password}"));
        let protection = protection.as_ref().map(|(count, own)| (count.as_str(), own.as_str()));
        let expected = response(*algorithm, &secret, nonce, protection, method, uri);
        // Digests are compared in their whole length, wherever they differ.
        let differs = expected.bytes().zip(shown.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
        said == user && used == nonce && expected.len() == shown.len() && differs == 0
    }
}

/// Answers challenges of one server.
#[derive(Clone, Debug)]
pub struct Answerer {
    credentials: Credentials,
    challenge: Challenge,
    count: u32,
}

impl Answerer {
    /// Answers this challenge.
    pub fn new(credentials: Credentials, challenge: Challenge) -> Answerer {
        Answerer { credentials, challenge, count: 0 }
    }

    /// What is answered.
    pub fn challenge(&self) -> &Challenge {
        &self.challenge
    }

    /// The value of `Authorization` for a request. `random` is the client's nonce, another one each time.
    pub fn answer(&mut self, method: &str, uri: &str, random: u64) -> String {
        let Credentials { user, password } = &self.credentials;
        match &self.challenge {
            Challenge::Basic { .. } => {
                let both = Zeroizing::new(format!("{}:{}", **user, **password));
                format!("Basic {}", BASE64_STANDARD.encode(both.as_bytes()))
            }
            Challenge::Digest { realm, nonce, opaque, algorithm, is_named, has_protection, .. } => {
                let secret = Zeroizing::new(format!("{}:{realm}:{}", **user, **password));
                self.count = self.count.saturating_add(1);
                let own = has_protection.then(|| (format!("{:08x}", self.count), format!("{random:016x}")));
                let protection = own.as_ref().map(|(count, own)| (count.as_str(), own.as_str()));
                let response = response(*algorithm, &secret, nonce, protection, method, uri);
                let mut text = format!(
                    "Digest username=\"{}\", realm=\"{}\", nonce=\"{}\", uri=\"{uri}\", response=\"{response}\"",
                    quote(user),
                    quote(realm),
                    quote(nonce)
                );
                if *is_named {
                    text += &format!(", algorithm={}", algorithm.name());
                }
                if let Some(opaque) = opaque {
                    text += &format!(", opaque=\"{}\"", quote(opaque));
                }
                if let Some((count, own)) = own {
                    text += &format!(", qop=auth, nc={count}, cnonce=\"{own}\"");
                }
                text
            }
        }
    }
}

fn quote(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// The digest of RFC 7616 §3.4.1, or without `protection`, which is count and client's nonce, that of RFC 2069. `secret` is
/// user, realm and password with colons between them.
fn response(
    algorithm: Algorithm,
    secret: &str,
    nonce: &str,
    protection: Option<(&str, &str)>,
    method: &str,
    uri: &str,
) -> String {
    let first = Zeroizing::new(algorithm.hash(secret));
    let second = algorithm.hash(&format!("{method}:{uri}"));
    algorithm.hash(&match protection {
        Some((count, own)) => format!("{}:{nonce}:{count}:{own}:auth:{second}", *first),
        None => format!("{}:{nonce}:{second}", *first),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn digests_are_those_of_the_rfcs() {
        // RFC 2617 §3.5 and RFC 7616 §3.9.1.
        let secret = "Mufasa:testrealm@host.com:Circle Of Life";
        let protection = Some(("00000001", "0a4f113b"));
        let nonce = "dcd98b7102dd2f0e8b11d0f600bfb0c093";
        let found = response(Algorithm::Md5, secret, nonce, protection, "GET", "/dir/index.html");
        assert_eq!(found, "6629fae49393a05397450978507c4ef1");
        let secret = "Mufasa:http-auth@example.org:Circle of Life";
        let protection = Some(("00000001", "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"));
        let nonce = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
        let sha = response(Algorithm::Sha256, secret, nonce, protection, "GET", "/dir/index.html");
        assert_eq!(sha, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1");
    }

    #[test]
    fn a_challenge_is_answered_as_it_is_asked() {
        let answer = |value: &str| {
            let challenge = Challenge::parse(value).unwrap();
            Answerer::new(Credentials::new("me", "secret"), challenge).answer("DESCRIBE", "rtsp://h/a", 7)
        };
        assert_eq!(answer("Basic realm=\"cam\""), "Basic bWU6c2VjcmV0");
        let old = answer("Digest realm=\"c, \\\"m\", nonce=\"5a\"");
        assert!(old.starts_with(
            "Digest username=\"me\", realm=\"c, \\\"m\", nonce=\"5a\", uri=\"rtsp://h/a\", response=\""
        ));
        assert!(!old.contains("qop") && !old.contains("algorithm"), "{old}");
        let new = answer(
            "Digest qop=\"auth-int,auth\", realm=x, nonce=\"n\", opaque=\"o\", algorithm=MD5, stale=TRUE",
        );
        assert!(
            new.ends_with(
                ", algorithm=MD5, opaque=\"o\", qop=auth, nc=00000001, cnonce=\"0000000000000007\""
            ),
            "{new}"
        );
        for unknown in [
            "Digest realm=x",
            "Digest nonce=a,algorithm=SHA-512-256",
            "Digest nonce=a,qop=auth-int",
            "Bearer",
        ] {
            assert_eq!(Challenge::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn what_a_client_shows_proves_its_password_and_no_other() {
        for challenge in [
            "Digest realm=\"glassline\", nonce=\"5a\"",
            "Digest realm=\"glassline\", nonce=\"5a\", algorithm=SHA-256, qop=\"auth\"",
        ] {
            let challenge = Challenge::parse(challenge).unwrap();
            let value = Answerer::new(Credentials::new("hall", "key"), challenge).answer(
                "ANNOUNCE",
                "rtsp://h/live/hall",
                7,
            );
            let shown = Shown::parse(&value).unwrap();
            let proves =
                |user, password, nonce, method| shown.proves(user, password, "glassline", nonce, method);
            assert!(proves("hall", "key", "5a", "ANNOUNCE"), "{value}");
            assert!(!proves("hall", "kez", "5a", "ANNOUNCE") && !proves("stage", "key", "5a", "ANNOUNCE"));
            assert!(!proves("hall", "key", "5b", "ANNOUNCE") && !proves("hall", "key", "5a", "PLAY"));
            assert_eq!(shown.password(), None);
        }
        let basic = Shown::parse("Basic aGFsbDprZXk6MQ==").unwrap();
        assert_eq!((basic.password(), basic.proves("hall", "key:1", "", "", "")), (Some("key:1"), false));
        assert_eq!(format!("{basic:?}"), "Shown(…)");
        for bad in ["Basic", "Basic !", "Digest username=a", "Bearer x"] {
            assert_eq!(Shown::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_safest_challenge_is_taken() {
        let values = ["Basic realm=a", "Digest realm=a,nonce=1,algorithm=SHA-256", "Digest realm=a,nonce=2"];
        let nonce = |values: &[&str]| Challenge::best(values.iter().copied()).unwrap().nonce().to_owned();
        assert_eq!(
            (nonce(&values), nonce(&values[2..]), nonce(&values[..1])),
            ("1".into(), "2".into(), "".into())
        );
    }

    #[test]
    fn no_password_is_shown() {
        let text = format!("{:?}", Credentials::new("me", "secret"));
        assert!(!text.contains("secret") && !text.contains("me"), "{text}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(Digest |Basic )?(realm|nonce|qop|[=,\"\\\\ a-zé]){0,30}") {
            let _ = Shown::parse(&text);
            if let Some(challenge) = Challenge::parse(&text) {
                let answer = Answerer::new(Credentials::new("a", "b"), challenge).answer("PLAY", "rtsp://h/", 1);
                prop_assert!(!answer.is_empty());
            }
        }
    }
}
