//! TLS by rustls, for addresses that other machines reach.

#[cfg(feature = "tls")]
mod real {
    use std::path::Path;
    use std::sync::Arc;

    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use crate::protocol::Failure;

    pub(crate) use tokio_rustls::TlsAcceptor;

    /// Reads the certificate with its chain, and its key, from files in PEM.
    pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, Failure> {
        let failed = |path: &Path, error: &dyn std::fmt::Display| {
            Failure::Usage(format!("{}: {error}\nhint: the file must be in PEM", path.display()))
        };
        let certificates = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| failed(certificate, &error))?;
        if certificates.is_empty() {
            return Err(failed(certificate, &"there is no certificate"));
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config
            .with_single_cert(certificates, private)
            .map_err(|error| failed(certificate, &error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// The missing options of a server at an address that other machines reach.
    pub(crate) fn advice() -> String {
        "add --tls-cert and --tls-key".to_owned()
    }
}

#[cfg(not(feature = "tls"))]
mod real {
    use std::io;
    use std::path::Path;

    use tokio::net::TcpStream;

    use crate::protocol::Failure;
    use crate::protocol::failure::left_out::LeftOut;

    /// A program that was built without TLS.
    #[derive(Debug, Clone)]
    pub(crate) enum TlsAcceptor {}

    impl TlsAcceptor {
        #[expect(clippy::unused_async, reason = "another build agrees on encryption here")]
        pub(crate) async fn accept(&self, _: TcpStream) -> io::Result<TcpStream> {
            match *self {}
        }
    }

    pub(crate) fn acceptor(_: &Path, _: &Path) -> Result<TlsAcceptor, Failure> {
        Err(LeftOut::TLS.failure("--tls-cert"))
    }

    pub(crate) fn advice() -> String {
        format!("encryption needs a program with TLS: {}", LeftOut::TLS.hint())
    }
}

pub(super) use real::{TlsAcceptor, acceptor, advice};
