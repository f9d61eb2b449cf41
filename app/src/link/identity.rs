//! The identity of an end of a link: its key, the keys of its peers, its name.

use crate::failure;
use crate::key::{self, Secret};
use anyhow::Result;
use glassline_transport::link::{Credentials, Key, MAX_NAME, Settings};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The identity of this end and of its peers.
#[derive(Debug, clap::Args)]
pub(crate) struct Identity {
    /// File with the key: the key that both ends share, or with --peer the private half of this end's pair
    #[arg(long, value_name = "FILE", required_unless_present = "insecure")]
    key: Option<PathBuf>,
    /// Public half of the other end's key pair; a listener accepts several
    #[arg(long, value_name = "PUBLIC", requires = "key", value_parser = public)]
    peer: Vec<Key>,
    /// Let anyone connect, without a key: for the lab
    #[arg(long, conflicts_with = "key")]
    insecure: bool,
    /// Name by which a listener distinguishes this end from others with the same key [default: from this machine and
    /// command]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

pub(crate) fn public(text: &str) -> Result<Key, String> {
    key::parse_hex(text).ok_or_else(|| {
        "a public half has 64 hexadecimal digits; glassline key show FILE prints that of a pair".to_owned()
    })
}

impl Identity {
    /// An end with this key, or for every peer.
    pub(crate) fn of(key: Option<PathBuf>, peer: Vec<Key>, insecure: bool) -> Identity {
        Identity { key, peer, insecure, name: None }
    }

    /// The file with the key.
    pub(crate) fn key(&self) -> Option<&Path> {
        self.key.as_deref()
    }

    /// An endpoint's settings with these credentials, and the defaults.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let credentials = match &self.key {
            None => Credentials::Insecure,
            Some(file) => match (key::read(file)?, &self.peer[..]) {
                (Secret::Shared(key), []) => Credentials::Shared(key),
                (Secret::Private(private), peers @ [_, ..]) => {
                    Credentials::Pair { private, peers: peers.to_vec() }
                }
                (Secret::Private(_), []) => {
                    return Err(failure::usage(
                        format!("{} is one half of a key pair, and --peer is missing", file.display()),
                        "say with whom: --peer and what `glassline key show` prints of the other end's file",
                    ));
                }
                (Secret::Shared(_), _) => {
                    return Err(failure::usage(
                        format!("--peer goes with a key pair, and {} is a shared key", file.display()),
                        "leave --peer out, or make a pair at both ends: glassline key new --pair FILE",
                    ));
                }
            },
        };
        let name = self.name.clone().unwrap_or_else(default_name);
        if name.len() > MAX_NAME {
            return Err(failure::usage(
                format!("the name {name:?} has more than {MAX_NAME} bytes"),
                "choose a shorter --name",
            ));
        }
        Ok(Settings { name: name.into_bytes(), boot: boot(), ..Settings::new(credentials) })
    }
}

/// A number of this boot of the machine. By it a listener distinguishes a command that was started again from the same
/// command on a clone of this machine.
pub(crate) fn boot() -> Option<u64> {
    boot_of(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
}

/// The first half of a UUID, most of which is random.
fn boot_of(text: &str) -> Option<u64> {
    let digits: String = text.trim().chars().filter(|one| *one != '-').collect();
    u64::from_str_radix(digits.get(..16).filter(|_| digits.len() == 32)?, 16).ok()
}

/// The machine's name, and a hash that distinguishes this command from others on the machine. Both are the same after a
/// restart, so that the listener recognises this end again.
fn default_name() -> String {
    name_of(&(std::env::args_os().skip(1).collect::<Vec<_>>(), std::env::current_dir().ok()))
}

/// The machine's name, and a hash that distinguishes `end` from other ends on it.
pub(crate) fn name_of(end: &impl Hash) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut machine = machine.trim().to_owned();
    let mut hasher = DefaultHasher::new();
    end.hash(&mut hasher);
    while machine.len() > MAX_NAME - 9 {
        machine.pop();
    }
    format!("{machine}-{:08x}", hasher.finish() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_has_a_number_of_its_own() {
        assert_eq!(boot_of("0d7dc9a1-5c3f-4a3e-9f0b-1d2c3b4a5968\n"), Some(0x0d7d_c9a1_5c3f_4a3e));
        for bad in ["", "none", "0d7dc9a1-5c3f-4a3e", "0d7dc9a1-5c3f-4a3e-9f0b-1d2c3b4a59681"] {
            assert_eq!(boot_of(bad), None, "{bad}");
        }
    }
}
