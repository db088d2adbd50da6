//! The client of a store, from its address and the environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};

use plan_ledger::internals::store::{DirectoryObjects, Objects};
use plan_ledger::{Error, ErrorKind};

use crate::output::Failure;

use super::remote::{CallFailure, RemoteObjects, Transport};
use super::url::{Engine, StoreUrl};

/// A store that can be used.
#[derive(Debug)]
pub(super) struct OpenStore {
    pub(super) url: StoreUrl,
    pub(super) objects: Arc<dyn Objects>,
    /// The endpoint of requests, if the environment names one.
    pub(super) endpoint: Option<String>,
    remote: Option<(Arc<RemoteObjects>, Transport)>,
}

/// The client gives up later than `ledger`.
const CLIENT_TIMEOUT: &str = "1h";

impl OpenStore {
    /// Make one request, and explain why it fails.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Some((remote, _)) = &self.remote else { return Ok(()) };
        let failed = |failure: CallFailure| failure.of_command(&self.url, self.endpoint.as_deref());
        remote.list_folder("probe/").map(drop).map_err(failed)
    }

    /// The name that the server gave itself.
    pub(super) fn server(&self) -> Option<String> {
        self.remote.as_ref().and_then(|(_, transport)| transport.server())
    }
}

/// The store at an address, for tests of the protocol on real stores.
///
/// # Errors
/// A text for people.
pub fn open_objects(url: &str, timeout: Duration) -> Result<Arc<dyn Objects>, String> {
    let store = open(&url.parse()?, timeout, false).map_err(|failure| failure.to_string())?;
    Ok(store.objects)
}

/// The store at an address. This makes no request.
pub(super) fn open(
    url: &StoreUrl,
    timeout: Duration,
    allow_http: bool,
) -> Result<OpenStore, Failure> {
    if url.engine == Engine::Folder {
        return open_folder(url);
    }
    let transport = Transport::new(allow_http);
    let built = match url.engine {
        Engine::Azure => azure(&url.bucket, &transport),
        Engine::Google => google(&url.bucket, &transport),
        Engine::S3 | Engine::Folder => s3(&url.bucket, &transport),
    };
    let (store, endpoint) = built.map_err(|error| {
        let reason = CallFailure::of(&error);
        Failure::Usage(format!(
            "cannot open {url}: {reason}\nhint: check the environment: `ledger store --help` lists its variables"
        ))
    })?;
    let io = |error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}"));
    let remote =
        Arc::new(RemoteObjects::new(store, url.prefix.clone(), timeout, url.engine).map_err(io)?);
    let objects: Arc<dyn Objects> = Arc::<RemoteObjects>::clone(&remote);
    Ok(OpenStore { url: url.clone(), objects, endpoint, remote: Some((remote, transport)) })
}

fn open_folder(url: &StoreUrl) -> Result<OpenStore, Failure> {
    let folder = expect_no_file(url)?;
    if !folder.is_dir() {
        let path = folder.display();
        return Err(Failure::Usage(format!(
            "cannot open {url}: there is no folder {path}\nhint: create it first, as you would a bucket: `mkdir -p {path}`"
        )));
    }
    let objects = open_directory(&folder)?;
    Ok(OpenStore { url: url.clone(), objects, endpoint: None, remote: None })
}

/// The folder of a store in the file system, unless a file has its name.
pub(super) fn expect_no_file(url: &StoreUrl) -> Result<PathBuf, Failure> {
    let folder = url.folder();
    if folder.is_dir() {
        return Ok(folder);
    }
    match folder.ancestors().find(|path| path.exists()) {
        Some(file) if !file.is_dir() => Err(Failure::Usage(format!(
            "cannot open {url}: {} is a file\nhint: name a folder: a store has many objects",
            file.display()
        ))),
        _ => Ok(folder),
    }
}

fn open_directory(folder: &Path) -> Result<Arc<dyn Objects>, Failure> {
    let opened = DirectoryObjects::open(folder);
    let opened = opened.map_err(|error| Error::io("open the store in", folder, error))?;
    Ok(Arc::new(opened))
}

type Built = object_store::Result<(Arc<dyn ObjectStore>, Option<String>)>;

/// No request is repeated: the protocol first checks its outcome.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Whether an endpoint is not encrypted, so that certificates are of no use.
fn is_plain(endpoint: Option<&str>) -> bool {
    endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"))
}

fn s3(bucket: &str, transport: &Transport) -> Built {
    let client = AmazonS3ConfigKey::Client;
    let builder = AmazonS3Builder::from_env();
    let endpoint = builder
        .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
        .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
    let is_plain = is_plain(endpoint.as_deref());
    let builder = builder
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        // One object is deleted at a time, and not every server knows the request for many.
        .with_disable_bulk_delete(true)
        .with_config(client(ClientConfigKey::Timeout), CLIENT_TIMEOUT)
        .with_config(client(ClientConfigKey::NoSystemCertificates), is_plain.to_string())
        .with_retry(no_retries())
        .with_allow_http(is_plain)
        .with_http_connector(transport.clone());
    Ok((Arc::new(builder.build()?), endpoint))
}

fn azure(container: &str, transport: &Transport) -> Built {
    let client = AzureConfigKey::Client;
    let builder = MicrosoftAzureBuilder::from_env();
    let is_emulator =
        builder.get_config_value(&AzureConfigKey::UseEmulator).as_deref() == Some("true");
    let endpoint = if is_emulator {
        std::env::var("AZURITE_BLOB_STORAGE_URL").ok()
    } else {
        builder.get_config_value(&AzureConfigKey::Endpoint)
    };
    let is_plain = is_emulator || is_plain(endpoint.as_deref());
    let builder = builder
        .with_container_name(container)
        .with_config(client(ClientConfigKey::Timeout), CLIENT_TIMEOUT)
        .with_config(client(ClientConfigKey::NoSystemCertificates), is_plain.to_string())
        .with_retry(no_retries())
        .with_allow_http(is_plain)
        .with_http_connector(transport.clone());
    Ok((Arc::new(builder.build()?), endpoint))
}

fn google(bucket: &str, transport: &Transport) -> Built {
    let client = GoogleConfigKey::Client;
    let builder = GoogleCloudStorageBuilder::from_env();
    let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    let is_plain = is_plain(endpoint.as_deref());
    let builder = builder
        .with_bucket_name(bucket)
        .with_config(client(ClientConfigKey::AllowHttp), is_plain.to_string())
        .with_config(client(ClientConfigKey::Timeout), CLIENT_TIMEOUT)
        .with_config(client(ClientConfigKey::NoSystemCertificates), is_plain.to_string())
        .with_retry(no_retries())
        .with_http_connector(transport.clone());
    Ok((Arc::new(builder.build()?), endpoint))
}
