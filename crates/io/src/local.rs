//! Sockets under a path of the file system, for this user alone.

use rustix::fs::Mode;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A listening socket; its file stays until a [`Removal`] of it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of the file: another one in its place is not ours to remove.
    file: (u64, u64),
}

impl Listener {
    /// Listens under `path`, mode 0600. A socket with no process that listens on it any more is replaced. For the
    /// length of the call files that other threads make are this user's alone, too.
    ///
    /// # Errors
    /// `AddrInUse` where a process listens there, `AlreadyExists` where something else has the name.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(io::ErrorKind::AlreadyExists.into()),
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
                Err(error) => return Err(error),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // There is no way to make the file with a mode, and to change it later leaves a moment for others.
        let before = rustix::process::umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
        let socket = UnixListener::bind(path);
        rustix::process::umask(before);
        let socket = socket?;
        let made = fs::symlink_metadata(path)?;
        Ok(Listener { socket, path: path.to_owned(), file: (made.dev(), made.ino()) })
    }

    /// The next connection; waits for it.
    pub fn accept(&self) -> io::Result<UnixStream> {
        loop {
            match self.socket.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What removes the file, for a program that ends while another of its threads waits in [`Listener::accept`].
    pub fn removal(&self) -> Removal {
        Removal { path: self.path.clone(), file: self.file }
    }
}

/// Removes a listener's file when it is dropped, if it is still that one.
#[derive(Debug)]
pub struct Removal {
    path: PathBuf,
    file: (u64, u64),
}

impl Drop for Removal {
    fn drop(&mut self) {
        let is_ours =
            |found: fs::Metadata| found.file_type().is_socket() && (found.dev(), found.ino()) == self.file;
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            // Where it cannot be removed, the next `bind` finds that no process listens, and replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_is_this_users_alone_and_goes_with_its_listener() {
        let folder = std::env::temp_dir().join(format!("glassline-local-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("control");
        let listener = Listener::bind(&path).unwrap();
        let removal = listener.removal();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Listener::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let client = UnixStream::connect(&path).unwrap();
        // The connection of the one who looked whether anybody is there, and ours.
        listener.accept().unwrap();
        listener.accept().unwrap();
        drop(client);
        // One that was left behind is replaced, and what is not its own is left alone.
        drop(listener);
        let next = Listener::bind(&path).unwrap();
        drop((next.removal(), next));
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        drop(removal);
        assert_eq!(Listener::bind(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::remove_dir_all(&folder).unwrap();
    }
}
