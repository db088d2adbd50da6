//! `ledger store`: object stores, where a log can outlive its machine (`format/store.md`).
//!
//! `url` parses the address of a store, and `open` makes its client from the environment. `remote`
//! is the adapter between the library's port and the clients of S3, Azure and Google Cloud Storage:
//! it blocks, repeats no request, and treats every answer except a success as unclear. `patience`
//! decides how often a process asks again. `option` has the shared options of the commands, and
//! `lines` their JSON. `hold` holds a ledger in a store for `ledger serve`, or stands by; `held` is
//! the server's view of it. `copy` copies folders to stores, and makes folders from stores.
//! `reading` makes a ledger in a store readable for every command that reads one, and `retention`
//! deletes unnecessary objects.
//!
//! Invariants:
//! - Credentials come from the environment, and are neither stored nor printed.
//! - Requests to other machines are encrypted, unless the user allows otherwise.

#[cfg(feature = "store")]
mod command;
#[cfg(feature = "store")]
mod copy;
pub(crate) mod held;
#[cfg(feature = "store")]
mod hold;
pub(crate) mod lines;
#[cfg(feature = "store")]
mod open;
#[cfg(feature = "store")]
mod option;
#[cfg(feature = "store")]
mod patience;
#[cfg(feature = "store")]
mod probe;
mod reading;
#[cfg(feature = "store")]
mod remote;
#[cfg(feature = "store")]
mod retention;
#[cfg(feature = "store")]
mod status;
#[cfg(feature = "store")]
mod url;

#[cfg(feature = "store")]
pub(crate) use command::{StoreArgs, store};
#[cfg(feature = "store")]
pub(crate) use copy::{ReplicateArgs, RestoreArgs, replicate, restore};
#[cfg(feature = "store")]
pub(crate) use hold::{Before, HoldOptions, hold, standby_text, store_health};
#[cfg(feature = "store")]
pub use open::open_objects;
#[cfg(feature = "store")]
pub(crate) use reading::cache_in;
pub(crate) use reading::source;
