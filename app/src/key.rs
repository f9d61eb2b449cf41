//! `glassline key`: the keys by which the ends of a link authenticate each other.
//!
//! A key's file has one line that counts: `shared HEX` for a key that both ends have, `private HEX` for the private half
//! of a pair. Lines that begin with `#` are for people.

use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_io::secret_file::{self, SecretFileError};
use glassline_io::small_file::{Accept, SmallFileError};
use glassline_transport::link::{Key, public_key};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Make and show keys for links
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  glassline key new drone.key              one key; copy it to both ends
  glassline key new --pair ground.key      a key pair; prints the public half, which is not secret
  glassline key show ground.key            prints the public half again

`glassline link --help` shows how they are used.";

#[derive(Debug, clap::Subcommand)]
enum Command {
    New(New),
    Show(Show),
}

/// Make a key
#[derive(Debug, clap::Args)]
#[command(after_help = NEW_EXAMPLES)]
struct New {
    /// File to write the key to, readable only by you; an existing file is not overwritten. Without FILE, the key is
    /// printed on standard output
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Make a key pair: the private half goes to the file, the public half is printed
    #[arg(long)]
    pair: bool,
}

const NEW_EXAMPLES: &str = "\
Examples:
  glassline key new drone.key              one key; copy it to both ends in a secure way
  glassline key new --pair ground.key      a pair for each end: no secret has to be copied
  ssh drone 'umask 077; cat > link.key' < drone.key";

/// Print the public half of a pair, or a fingerprint of a shared key
#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct Show {
    /// File with the key
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  glassline key show ground.key            for a pair: the public half, for the other end's --peer
  glassline key show drone.key             for a shared key: 16 digits that are the same at both ends";

/// What stands in a key's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Secret {
    /// Both ends have it.
    Shared(Key),
    /// The private half of a pair.
    Private(Key),
}

/// Runs the command to its end.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::New(new) => make(new),
        Command::Show(show) => match read(&show.file)? {
            Secret::Private(key) => output::print(&format!("{}\n", hex(&public_key(&key)))),
            Secret::Shared(key) => output::print(&format!("shared key {}\n", fingerprint(&key))),
        },
    }
}

fn make(new: &New) -> Result<()> {
    let key = Key(glassline_io::random::seed().context("the system has no randomness")?);
    let (public, secret) = (hex(&public_key(&key)), Zeroizing::new(hex(&key)));
    let text = Zeroizing::new(if new.pair {
        format!(
            "# A private key of `glassline link`. Its public half, for the other end's --peer:\n# {public}\nprivate {}\n",
            *secret
        )
    } else {
        format!(
            "# A key of `glassline link`. Copy it to both ends, and keep it secret.\nshared {}\n",
            *secret
        )
    });
    let Some(path) = &new.file else { return output::print(&text) };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(failure::usage(
                format!("{} exists, and a key that is overwritten is lost", path.display()),
                "name another file, or remove that one",
            ));
        }
        other => other.with_context(|| format!("cannot write {}", path.display()))?,
    };
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .with_context(|| format!("cannot write {}", path.display()))?;
    if new.pair {
        output::print(&format!("{public}\n"))
    } else {
        output::print(&format!("shared key {}\n", fingerprint(&key)))
    }
}

/// Reads a key's file, which is refused where others may read it too.
pub(crate) fn read(path: &Path) -> Result<Secret> {
    let no_key = || {
        failure::usage(
            format!("{} is no key of a link", path.display()),
            "it wants one line of `shared` or `private` and 64 hexadecimal digits, as glassline key new writes it",
        )
    };
    let text = secret_file::read_text(path, Accept::AnyFile).map_err(|error| match error {
        SecretFileError::Exposed { file, mode, remedy } => failure::usage(
            format!("others may read the key {} (mode {mode:04o})", file.display()),
            format!("type: {remedy}   (and make another key if other users may have read it)"),
        ),
        SecretFileError::File(SmallFileError::Unreadable { file, reason }) => failure::usage(
            format!("cannot read the key {}: {reason}", file.display()),
            format!("make one: glassline key new {}", file.display()),
        ),
        SecretFileError::File(error) => {
            failure::usage(format!("the key: {error}"), "or make one: glassline key new FILE")
        }
        _ => no_key(),
    })?;
    parse(&text).ok_or_else(no_key)
}

pub(crate) fn parse(text: &str) -> Option<Secret> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (kind, digits) = lines.next()?.split_once(' ')?;
    let key = parse_hex(digits.trim())?;
    match (kind, lines.next()) {
        ("shared", None) => Some(Secret::Shared(key)),
        ("private", None) => Some(Secret::Private(key)),
        _ => None,
    }
}

/// A key of 64 hexadecimal digits.
pub(crate) fn parse_hex(text: &str) -> Option<Key> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut key = Key([0; 32]);
    for (byte, digits) in key.0.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *byte = (digit(0)? * 16 + digit(1)?) as u8;
    }
    Some(key)
}

pub(crate) fn hex(key: &Key) -> String {
    key.0.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Tells a shared key from others, and tells nothing else of it.
fn fingerprint(key: &Key) -> String {
    hex(&public_key(key))[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let key = Key(std::array::from_fn(|index| index as u8 * 7));
        assert_eq!(parse_hex(&hex(&key)), Some(key.clone()));
        assert_eq!(
            parse(&format!("# for people\n\n shared {}\n", hex(&key))),
            Some(Secret::Shared(key.clone()))
        );
        assert_eq!(parse(&format!("private  {}", hex(&key).to_uppercase())), Some(Secret::Private(key)));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let digits = "0".repeat(64);
        for bad in [
            "",
            "# nothing",
            "shared",
            "shared 12",
            &digits,
            &format!("public {digits}"),
            &format!("shared {digits}0"),
            &format!("shared {digits}\nshared {digits}"),
            &format!("shared {}", "g".repeat(64)),
            &format!("shared {}", "ä".repeat(32)),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
