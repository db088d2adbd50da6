//! The address of a store: `s3://BUCKET/PREFIX`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::lines::EngineWord;

/// The engine of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    /// S3, and servers that speak its protocol.
    S3,
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Google,
    /// A folder of this machine.
    Folder,
}

impl Engine {
    const ALL: [Self; 4] = [Self::S3, Self::Azure, Self::Google, Self::Folder];

    /// Its word in JSON.
    pub(super) fn word(self) -> EngineWord {
        match self {
            Self::S3 => EngineWord::S3,
            Self::Azure => EngineWord::Azure,
            Self::Google => EngineWord::Gcs,
            Self::Folder => EngineWord::Folder,
        }
    }

    /// The scheme of its addresses.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Azure => "az",
            Self::Google => "gs",
            Self::Folder => "file",
        }
    }
}

/// The address of a ledger's prefix in a store. It has no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoreUrl {
    pub(super) engine: Engine,
    /// The bucket or container; empty for a folder.
    pub(super) bucket: String,
    /// The names between slashes; those of the folder for a folder.
    pub(super) prefix: Vec<String>,
}

const FORMS: &str =
    "expected s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX or file:///FOLDER";

impl StoreUrl {
    /// The folder of a store in the file system.
    pub(super) fn folder(&self) -> PathBuf {
        PathBuf::from(format!("/{}", self.prefix.join("/")))
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or(FORMS)?;
        let engine = Engine::ALL.into_iter().find(|engine| engine.scheme() == scheme);
        let engine = engine.ok_or(FORMS)?;
        if rest.contains('@') {
            return Err("an address has no credentials: set them in the environment".to_owned());
        }
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() != (engine == Engine::Folder) {
            return Err(FORMS.to_owned());
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let prefix: Vec<String> = match path {
            "" => Vec::new(),
            path => path.split('/').map(str::to_owned).collect(),
        };
        let is_plain = |name: &str| {
            let is_known = |it: char| it.is_ascii_alphanumeric() || "-_.=+".contains(it);
            let is_other = |it: char| !it.is_control() && !"?#%\\".contains(it);
            let is_allowed = |it| is_known(it) || (engine == Engine::Folder && is_other(it));
            !["", ".", ".."].contains(&name) && name.chars().all(is_allowed)
        };
        let is_bucket_plain = engine == Engine::Folder || is_plain(bucket);
        if !is_bucket_plain || !prefix.iter().all(|part| is_plain(part)) {
            let message = "names in an address consist of letters, digits and - _ . = +";
            return Err(message.to_owned());
        }
        Ok(Self { engine, bucket: bucket.to_owned(), prefix })
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.engine.scheme(), self.bucket)?;
        self.prefix.iter().try_for_each(|part| write!(f, "/{part}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let parsed = |text: &str| text.parse::<StoreUrl>().unwrap();
        let url = parsed("s3://my-bucket/team/night/");
        assert_eq!((url.engine, url.bucket.as_str()), (Engine::S3, "my-bucket"));
        assert_eq!(url.prefix, ["team", "night"]);
        assert_eq!(url.to_string(), "s3://my-bucket/team/night");
        assert_eq!(parsed("az://box").prefix, Vec::<String>::new());
        assert_eq!(parsed("gs://b/x").engine, Engine::Google);
        let folder = parsed("file:///tmp/my store/x");
        assert_eq!(folder.folder(), PathBuf::from("/tmp/my store/x"));
        assert_eq!(folder.to_string(), "file:///tmp/my store/x");
    }

    #[test]
    fn addresses_that_are_ambiguous_or_have_secrets_are_rejected() {
        let rejected = [
            "bucket/x",
            "s3:/bucket",
            "S3://bucket/x",
            "http://host/bucket",
            "s3://",
            "s3:///x",
            "s3://bucket//x",
            "s3://bucket/x//",
            "s3://bucket/../x",
            "s3://bucket/x?versionId=1",
            "s3://bucket/x#y",
            "s3://bucket/a b",
            "s3://bucket/%2e%2e",
            "file://relative/x",
            "file:///a/../b",
        ];
        for text in rejected {
            assert!(text.parse::<StoreUrl>().is_err(), "{text}");
        }
        let secret = "s3://KEY:secret@bucket/x".parse::<StoreUrl>().unwrap_err();
        assert!(secret.contains("environment") && !secret.contains("KEY"), "{secret}");
    }
}
