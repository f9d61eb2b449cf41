//! Serial lines: a terminal device that carries bytes as they are, at some speed.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, isatty, tcgetattr, tcsetattr};
use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a serial line for reading and writing: eight data bits, no parity, no flow control, no echo, `baud` a second.
/// Reading waits for at least a byte.
///
/// # Errors
/// Where it cannot be opened, is no terminal device, or does not have that speed.
pub fn open(path: &Path, baud: u32) -> io::Result<File> {
    let line = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    if !isatty(&line) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no serial line"));
    }
    let mut settings = tcgetattr(&line)?;
    settings.make_raw();
    settings.set_speed(baud)?;
    tcsetattr(&line, OptionalActions::Now, &settings)?;
    Ok(line.into())
}

/// Whether an error of reading or writing says that the device is not there any more.
pub fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::IO, Errno::NXIO, Errno::NODEV];
    error.raw_os_error().is_some_and(|number| gone.iter().any(|errno| errno.raw_os_error() == number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::{Read, Write};

    #[test]
    fn bytes_pass_as_they_are() {
        let Ok(master) = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY) else {
            return glassline_test_support::skip("bytes_pass_as_they_are", "no pseudo-terminals");
        };
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let mut line = open(Path::new(name.to_str().unwrap()), 115_200).unwrap();
        let mut far = File::from(master);
        // What a terminal would change, echo or take for itself.
        let bytes = b"\r\n\x03\x04\x11\x13\xff\0a";
        line.write_all(bytes).unwrap();
        let mut got = [0; 9];
        far.read_exact(&mut got).unwrap();
        assert_eq!(&got, bytes);
        far.write_all(bytes).unwrap();
        line.read_exact(&mut got).unwrap();
        assert_eq!(&got, bytes);
    }

    #[test]
    fn a_line_that_has_gone_says_so() {
        let Ok(master) = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY) else {
            return glassline_test_support::skip("a_line_that_has_gone_says_so", "no pseudo-terminals");
        };
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let mut line = open(Path::new(name.to_str().unwrap()), 9600).unwrap();
        drop(master);
        assert!(is_gone(&line.write_all(b"nobody").unwrap_err()));
        let read = line.read(&mut [0; 8]);
        assert!(matches!(&read, Ok(0)) || read.as_ref().is_err_and(is_gone), "{read:?}");
        assert!(!is_gone(&io::ErrorKind::WouldBlock.into()));
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let error = open(Path::new("/dev/null"), 9600).unwrap_err();
        assert!(error.to_string().contains("no serial line"), "{error}");
        assert_eq!(open(Path::new("/no/such/line"), 9600).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
