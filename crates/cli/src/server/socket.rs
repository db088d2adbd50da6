//! The socket in a ledger's folder, and messages on it: one JSON object a line, each way.
//!
//! Invariants:
//! - Only the owner of the folder may connect: the socket has mode 0600 from its beginning on.
//! - A path may be longer than an address of a socket can be: then the folder is named by its
//!   open file.
//! - No message is longer than [`MESSAGE_LENGTH_MAX`], whatever it claims.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The name of the socket in the ledger's folder.
pub const SOCKET_NAME: &str = "serve.sock";

/// The longest message, its line end included, in bytes.
pub const MESSAGE_LENGTH_MAX: u64 = 16 << 20;

/// How many clients may wait to be let in.
const BACKLOG: i32 = 1024;

/// The longest path that surely is an address.
const PATH_LENGTH_MAX: usize = 90;

/// Where a ledger's socket is.
#[derive(Debug)]
pub(super) struct Address {
    path: PathBuf,
    /// What the path goes through, if it would be too long otherwise.
    _folder: Option<File>,
}

impl Address {
    /// The address of the socket in that folder, by the shortest name.
    pub(super) fn in_folder(dir: &Path) -> io::Result<Self> {
        let path = dir.join(SOCKET_NAME);
        if path.as_os_str().len() <= PATH_LENGTH_MAX {
            return Ok(Self { path, _folder: None });
        }
        Self::through(dir)
    }

    /// The same, through the folder's open file: it stays the same wherever the folder is moved.
    fn through(dir: &Path) -> io::Result<Self> {
        let folder = File::open(dir)?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
        if !path.exists() {
            return Ok(Self { path: dir.join(SOCKET_NAME), _folder: None });
        }
        Ok(Self { path: path.join(SOCKET_NAME), _folder: Some(folder) })
    }

    fn name(&self) -> io::Result<SocketAddrUnix> {
        Ok(SocketAddrUnix::new(&self.path)?)
    }
}

/// A socket that is listened at; its name is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) listener: UnixListener,
    address: Address,
}

impl Listening {
    /// Make the socket, in the place of whatever a dead holder left. Only the holder of the
    /// ledger's lock may.
    pub(super) fn begin(dir: &Path) -> io::Result<Self> {
        let address = Address::through(dir)?;
        match std::fs::remove_file(&address.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The name gets the mode that the socket has: there is no moment at which it is open to all.
        let owner = Mode::RUSR | Mode::WUSR;
        rustix::fs::fchmod(&socket, owner)?;
        rustix::net::bind(&socket, &address.name()?)?;
        let listening = Self { listener: socket.into(), address };
        // Systems that ignore the mode of an unnamed socket take it now.
        rustix::fs::chmod(&listening.address.path, owner)?;
        rustix::net::listen(&listening.listener, BACKLOG)?;
        Ok(listening)
    }

    /// Nobody finds it any more.
    pub(super) fn unname(&self) {
        // What is left of it is removed by the next holder.
        let _ = std::fs::remove_file(&self.address.path);
    }
}

/// What came of knocking.
#[derive(Debug)]
pub(super) enum Knock {
    /// Somebody serves.
    Open(UnixStream),
    /// Nobody does, or not for us.
    Nobody,
    /// Somebody does, and too many wait already.
    Busy,
}

/// Connect to whoever serves the ledger in that folder.
pub(super) fn knock(dir: &Path) -> Knock {
    let connect = || -> io::Result<Knock> {
        let address = Address::in_folder(dir)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &address.name()?) {
            Err(Errno::AGAIN) => return Ok(Knock::Busy),
            connected => connected?,
        }
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(Knock::Open(stream))
    };
    connect().unwrap_or(Knock::Nobody)
}

/// The next message; `None` at the end.
///
/// # Errors
/// `FileTooLarge` for a message that is too long; what reading says.
pub(super) fn receive(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut message = Vec::new();
    from.take(MESSAGE_LENGTH_MAX).read_until(b'\n', &mut message)?;
    if message.last() == Some(&b'\n') {
        return Ok(Some(message));
    }
    if u64::try_from(message.len()).unwrap_or(u64::MAX) >= MESSAGE_LENGTH_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // A message without its end was cut short: nobody may act on it.
    Ok(None)
}

/// The bytes of a message, with its line end.
///
/// # Errors
/// `FileTooLarge` for a message that is too long.
pub(super) fn encode(message: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MESSAGE_LENGTH_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    //! Goal: messages end at their line ends, and a long one at the limit; long paths work.

    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_message_ends_with_its_line() {
        let mut bytes: &[u8] = b"one\ntwo\nthr";
        assert_eq!(receive(&mut bytes).unwrap().unwrap(), b"one\n");
        assert_eq!(receive(&mut bytes).unwrap().unwrap(), b"two\n");
        assert!(receive(&mut bytes).unwrap().is_none(), "half a message is none");
        assert!(receive(&mut bytes).unwrap().is_none());
    }

    #[test]
    fn the_limit_of_a_message_holds_at_its_edge() {
        let length = usize::try_from(MESSAGE_LENGTH_MAX).unwrap();
        let mut most = vec![b'x'; length];
        most[length - 1] = b'\n';
        assert_eq!(receive(&mut most.as_slice()).unwrap().unwrap().len(), length);
        let more = vec![b'x'; length + 1];
        let error = receive(&mut more.as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let text = "x".repeat(length - 3);
        assert_eq!(encode(&text).unwrap().len(), length);
        let text = "x".repeat(length - 2);
        assert_eq!(encode(&text).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_socket_is_its_owners_and_a_dead_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let mut dir = folder.path().to_owned();
        for long in [false, true] {
            if long {
                dir = dir.join("a".repeat(120)).join("b".repeat(120));
                std::fs::create_dir_all(&dir).unwrap();
            }
            assert!(matches!(knock(&dir), Knock::Nobody));
            let dead = Listening::begin(&dir).unwrap();
            let mode = dir.join(SOCKET_NAME).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            drop(dead.listener);
            assert!(matches!(knock(&dir), Knock::Nobody));
            let alive = Listening::begin(&dir).unwrap();
            assert!(matches!(knock(&dir), Knock::Open(_)));
            alive.unname();
            assert!(!dir.join(SOCKET_NAME).exists());
        }
    }
}
