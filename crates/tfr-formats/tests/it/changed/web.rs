//! [`Web`]: a store like a web server, whose only file is replaced at a chosen request.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tfr_stores::{Answer, Error as StoreError, ErrorKind};

/// What the server sends about the version of a file, in addition to its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tags {
    /// A strong entity tag, without a time.
    Strong,
    /// A weak entity tag and a time.
    Weak,
    /// A time.
    Time,
}

#[derive(Debug)]
pub struct Web {
    pub tags: Tags,
    /// Whether the server honours `If-Match`.
    pub honours: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    versions: [Vec<u8>; 2],
    /// Number of requests for bytes so far.
    gets: usize,
    /// The number of the first request that is answered from the second version.
    replaced_at: usize,
}

impl Web {
    pub fn new(tags: Tags, honours: bool, versions: [Vec<u8>; 2], replaced_at: usize) -> Arc<Self> {
        Arc::new(Self { tags, honours, state: Mutex::new(State { versions, gets: 0, replaced_at }) })
    }

    /// Returns the number of requests for bytes so far.
    pub fn gets(&self) -> usize {
        self.state().gets
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meta(&self, location: &Path, version: usize, len: usize) -> ObjectMeta {
        let time = match self.tags {
            Tags::Strong => Duration::ZERO,
            Tags::Weak | Tags::Time => Duration::from_secs(1_000_000_000 + version as u64),
        };
        let e_tag = match self.tags {
            Tags::Strong => Some(format!("\"v{version}\"")),
            Tags::Weak => Some(format!("W/\"v{version}\"")),
            Tags::Time => None,
        };
        let last_modified = (SystemTime::UNIX_EPOCH + time).into();
        ObjectMeta { location: location.clone(), last_modified, size: len as u64, e_tag, version: None }
    }
}

#[async_trait]
impl ObjectStore for Web {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if location.filename().is_none_or(|name| !name.starts_with("t.")) {
            return Err(Error::NotFound { path: location.to_string(), source: "answered 404".into() });
        }
        let mut state = self.state();
        let version = usize::from(state.gets >= state.replaced_at);
        state.gets += usize::from(!options.head);
        let content = &state.versions[version];
        let meta = self.meta(location, version, content.len());
        if let Some(asked) = options.if_match.as_ref().filter(|_| self.honours) {
            assert!(asked.starts_with('"'), "a condition with a weak tag");
            if meta.e_tag.as_ref() != Some(asked) {
                return Err(Error::Precondition { path: location.to_string(), source: "answered 412".into() });
            }
        }
        let len = content.len() as u64;
        let range = match options.range {
            None => 0..len,
            Some(GetRange::Bounded(range)) => range.start..range.end.min(len),
            Some(GetRange::Offset(start)) => start..len,
            Some(GetRange::Suffix(length)) => len.saturating_sub(length)..len,
        };
        if range.is_empty() {
            let answer = Answer { status: Some(416), ..Answer::default() };
            let source = Box::new(StoreError::from(ErrorKind::Refused { store: "http://host".to_owned(), answer }));
            return Err(Error::Generic { store: "web", source });
        }
        let bytes = content[range.start as usize..range.end as usize].to_vec().into();
        let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { Err(Error::NotImplemented { operation: "list".into(), implementer: "web".into() }) })
            .boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(Error::NotImplemented { operation: "list".into(), implementer: "web".into() })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(Error::NotImplemented { operation: "put".into(), implementer: "web".into() })
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented { operation: "put".into(), implementer: "web".into() })
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::empty().boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(Error::NotImplemented { operation: "copy".into(), implementer: "web".into() })
    }
}

impl fmt::Display for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("web")
    }
}
