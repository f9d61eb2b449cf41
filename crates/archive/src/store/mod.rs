//! The store of objects: a folder, or a bucket of a server that speaks S3.
//!
//! ```text
//! any thread ─ put, get, list, delete ─► thread "archive" (tokio, current_thread) ─► object_store ─► folder, S3
//!      ▲                                          │
//!      └────────────── callback ──────────────────┘
//! ```
//! A request is made once: when it is made again is decided by the caller, which knows what else waits. A callback runs on the
//! thread "archive" and must be short; the `…_blocking` variants wait for it.

mod client;
mod error;

pub use error::{StoreError, StoreErrorKind};

use bytes::Bytes;
use client::Client;
use glassline_delivery::archive::location::Location;
use glassline_media::Utc;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::mpsc as requests;
use tokio::task::JoinSet;

/// Threads for system calls on files, which the runtime starts when they are needed.
const FILE_THREADS: usize = 8;
/// How long a request that reads may take, whatever the store is.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// How long requests under way are waited for when the last handle is gone.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// What a store is opened by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Where.
    pub location: Location,
    /// Address of the server that speaks S3, `http://` or `https://`; `None`: Amazon's of the region.
    pub endpoint: Option<String>,
    /// Region of the bucket; `None`: `us-east-1`, which other servers than Amazon's take.
    pub region: Option<String>,
    /// File with the access key. `None`, as `secret_key_file`: the credentials of the machine (instance, container).
    pub access_key_file: Option<PathBuf>,
    /// File with the secret key.
    pub secret_key_file: Option<PathBuf>,
}

impl StoreSettings {
    /// Of a place alone.
    pub fn new(location: Location) -> StoreSettings {
        StoreSettings { location, endpoint: None, region: None, access_key_file: None, secret_key_file: None }
    }

    /// Reads the key files, as each connection to the store does.
    ///
    /// # Errors
    /// One cannot be read, others may read it, or it holds no key: named in words.
    pub fn check_keys(&self) -> Result<(), StoreError> {
        client::read_keys(self).map(|_| ())
    }
}

/// An object, as a listing has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its path below the store's prefix.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was written, by the store's clock.
    pub modified: Utc,
}

/// Is called with what became of a request, on the thread "archive".
type Done<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

enum Request {
    Put(String, Vec<Bytes>, Done<()>),
    Get(String, Option<Range<u64>>, Done<Bytes>),
    List(String, usize, Done<Vec<Listed>>),
    Folders(String, Done<Vec<String>>),
    Delete(String, Done<()>),
    Sweep(String, Done<()>),
}

/// A store, by its thread. Clones are handles of the same one; the thread ends with the last of them.
#[derive(Clone, Debug)]
pub struct Store {
    requests: requests::UnboundedSender<Request>,
    location: Arc<Location>,
}

impl Store {
    /// Starts the thread of a store. Nothing is asked of the store yet: whether it is there shows with the first request.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(settings: StoreSettings) -> io::Result<Store> {
        let (sender, receiver) = requests::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(FILE_THREADS)
            .thread_name("archive-file")
            .build()?;
        let location = Arc::new(settings.location.clone());
        std::thread::Builder::new()
            .name("archive".into())
            .spawn(move || runtime.block_on(serve(Arc::new(Client::new(settings)), receiver)))?;
        Ok(Store { requests: sender, location })
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    fn send(&self, request: Request) {
        // The thread is there while a sender is: only a panic of its own ends it, which drops the request, and its callback.
        let _ = self.requests.send(request);
    }

    /// Writes the object `path`, whole or not at all, in place of one that is there: the `pieces`, one after another.
    pub fn put(
        &self,
        path: &str,
        pieces: Vec<Bytes>,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        self.send(Request::Put(path.to_owned(), pieces, Box::new(done)));
    }

    /// Reads the object `path`, or the bytes `range` of it.
    pub fn get(
        &self,
        path: &str,
        range: Option<Range<u64>>,
        done: impl FnOnce(Result<Bytes, StoreError>) + Send + 'static,
    ) {
        self.send(Request::Get(path.to_owned(), range, Box::new(done)));
    }

    /// Lists the objects below the folder `folder` in the order of their paths, at most `limit` of them. Where there is no such
    /// folder, there are none.
    pub fn list(
        &self,
        folder: &str,
        limit: usize,
        done: impl FnOnce(Result<Vec<Listed>, StoreError>) + Send + 'static,
    ) {
        self.send(Request::List(folder.to_owned(), limit, Box::new(done)));
    }

    /// Lists the names of the folders in the folder `folder`; the empty one is the store itself.
    pub fn folders(&self, folder: &str, done: impl FnOnce(Result<Vec<String>, StoreError>) + Send + 'static) {
        self.send(Request::Folders(folder.to_owned(), Box::new(done)));
    }

    /// Deletes the object `path`. One that is not there is deleted already.
    pub fn delete(&self, path: &str, done: impl FnOnce(Result<(), StoreError>) + Send + 'static) {
        self.send(Request::Delete(path.to_owned(), Box::new(done)));
    }

    /// Removes what crashes have left in the folder `folder`, of which all objects were deleted. Waits for it.
    ///
    /// # Errors
    /// What the store answers.
    pub fn sweep_blocking(&self, folder: &str) -> Result<(), StoreError> {
        wait(|done| self.send(Request::Sweep(folder.to_owned(), done)))
    }

    /// [`Store::put`], waited for.
    ///
    /// # Errors
    /// What the store answers.
    pub fn put_blocking(&self, path: &str, pieces: Vec<Bytes>) -> Result<(), StoreError> {
        wait(|done| self.put(path, pieces, done))
    }

    /// [`Store::get`], waited for.
    ///
    /// # Errors
    /// What the store answers.
    pub fn get_blocking(&self, path: &str, range: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        wait(|done| self.get(path, range, done))
    }

    /// [`Store::list`], waited for.
    ///
    /// # Errors
    /// What the store answers.
    pub fn list_blocking(&self, folder: &str, limit: usize) -> Result<Vec<Listed>, StoreError> {
        wait(|done| self.list(folder, limit, done))
    }

    /// [`Store::folders`], waited for.
    ///
    /// # Errors
    /// What the store answers.
    pub fn folders_blocking(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        wait(|done| self.folders(folder, done))
    }

    /// [`Store::delete`], waited for.
    ///
    /// # Errors
    /// What the store answers.
    pub fn delete_blocking(&self, path: &str) -> Result<(), StoreError> {
        wait(|done| self.delete(path, done))
    }
}

/// Waits for what the callback that `ask` is handed is called with.
fn wait<T: Send + 'static>(
    ask: impl FnOnce(Box<dyn FnOnce(Result<T, StoreError>) + Send>),
) -> Result<T, StoreError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    ask(Box::new(move |result| {
        let _ = sender.send(result);
    }));
    receiver.recv().unwrap_or_else(|_| Err(StoreError::thread_ended()))
}

/// Serves requests, each as a task of its own, until no handle is left.
async fn serve(client: Arc<Client>, mut requests: requests::UnboundedReceiver<Request>) {
    let mut tasks = JoinSet::new();
    while let Some(request) = requests.recv().await {
        let client = Arc::clone(&client);
        tasks.spawn(async move {
            match request {
                Request::Put(path, pieces, done) => done(client.put(&path, pieces).await),
                Request::Get(path, range, done) => done(answered(client.get(&path, range)).await),
                Request::List(folder, limit, done) => done(answered(client.list(&folder, limit)).await),
                Request::Folders(folder, done) => done(answered(client.folders(&folder)).await),
                Request::Delete(path, done) => done(client.delete(&path).await),
                Request::Sweep(folder, done) => done(client.sweep(&folder).await),
            }
        });
        while tasks.try_join_next().is_some() {}
    }
    let _ = tokio::time::timeout(LEAVE_WITHIN, async { while tasks.join_next().await.is_some() {} }).await;
}

/// What reads comes to, in its time: the disk of a folder may hang, which has no time limits of its own.
async fn answered<T>(request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    tokio::time::timeout(READ_WITHIN, request).await.unwrap_or_else(|_| Err(StoreError::no_answer()))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
