//! The Unix socket in a ledger's folder.
//!
//! Only the owner of the folder can connect: the socket has mode 0600 from the moment it exists. A
//! socket address has at most about 100 bytes; for a longer path the address goes through the open
//! folder in `/proc/self/fd`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The name of the socket in the ledger's folder.
pub const SOCKET_NAME: &str = "serve.sock";

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// The longest path, in bytes, that fits into every system's socket address.
const PATH_LENGTH_MAX: usize = 90;

/// The address of a ledger's socket.
#[derive(Debug)]
pub(super) struct Address {
    path: PathBuf,
    /// Keeps the folder open while a path through `/proc/self/fd` is in use.
    _folder: Option<File>,
}

impl Address {
    /// The address of the socket in a folder, by its path if that is short enough.
    pub(super) fn in_folder(dir: &Path) -> io::Result<Self> {
        let path = dir.join(SOCKET_NAME);
        if path.as_os_str().len() <= PATH_LENGTH_MAX {
            return Ok(Self { path, _folder: None });
        }
        Self::through(dir)
    }

    /// The address through the open folder: it stays valid when the folder is moved.
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

#[derive(Debug)]
pub(super) struct ListeningSocket {
    pub(super) listener: UnixListener,
    address: Address,
}

impl ListeningSocket {
    /// Binds and listens, and replaces the socket of a dead process. Only the lock holder may call
    /// this.
    pub(super) fn bind(dir: &Path) -> io::Result<Self> {
        let address = Address::through(dir)?;
        match std::fs::remove_file(&address.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The file gets the mode of the socket, so it is never open to other users.
        let owner = Mode::RUSR | Mode::WUSR;
        rustix::fs::fchmod(&socket, owner)?;
        rustix::net::bind(&socket, &address.name()?)?;
        let listening = Self { listener: socket.into(), address };
        // Some systems ignore the mode of an unbound socket.
        rustix::fs::chmod(&listening.address.path, owner)?;
        rustix::net::listen(&listening.listener, BACKLOG)?;
        Ok(listening)
    }

    /// Removes the socket's file, so that no further client can connect.
    pub(super) fn unlink(&self) {
        // If removing it fails, the next lock holder replaces it.
        let _ = std::fs::remove_file(&self.address.path);
    }
}

/// The result of an attempt to connect.
#[derive(Debug)]
pub(super) enum ConnectOutcome {
    /// A server has accepted the connection, or will accept it.
    Connected(UnixStream),
    /// There is no server, or it belongs to another user.
    NoServer,
    /// The server's queue of connections is full.
    Busy,
}

/// Connects to the server of the ledger in a folder.
pub(super) fn connect(dir: &Path) -> ConnectOutcome {
    let attempt = || -> io::Result<ConnectOutcome> {
        // A link could lead to the server of another user.
        if !std::fs::symlink_metadata(dir.join(SOCKET_NAME))?.file_type().is_socket() {
            return Ok(ConnectOutcome::NoServer);
        }
        let address = Address::in_folder(dir)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &address.name()?) {
            Err(Errno::AGAIN) => return Ok(ConnectOutcome::Busy),
            connected => connected?,
        }
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(ConnectOutcome::Connected(stream))
    };
    attempt().unwrap_or(ConnectOutcome::NoServer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn socket_is_private_and_replaces_a_dead_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut dir = folder.path().to_owned();
        for long in [false, true] {
            if long {
                dir = dir.join("a".repeat(120)).join("b".repeat(120));
                std::fs::create_dir_all(&dir).unwrap();
            }
            assert!(matches!(connect(&dir), ConnectOutcome::NoServer));
            let dead = ListeningSocket::bind(&dir).unwrap();
            let mode = dir.join(SOCKET_NAME).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            drop(dead.listener);
            assert!(matches!(connect(&dir), ConnectOutcome::NoServer));
            let alive = ListeningSocket::bind(&dir).unwrap();
            assert!(matches!(connect(&dir), ConnectOutcome::Connected(_)));
            alive.unlink();
            assert!(!dir.join(SOCKET_NAME).exists());
        }
    }
}
