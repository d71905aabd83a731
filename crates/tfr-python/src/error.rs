//! [`Failure`]: an error before it becomes a Python exception.

use std::fmt;
use std::io;
use std::path::Path;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use tfr_stores::ErrorKind as StoreKind;

/// The result of this crate's functions.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The class of the Python exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Other,
    Data,
    Exists,
    Missing,
    Usage,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Other => "TfrError",
            Self::Data => "DataError",
            Self::Exists => "ExistsError",
            Self::Missing => "MissingError",
            Self::Usage => "UsageError",
        }
    }
}

/// An error with its location, which can be sent between threads.
#[derive(Debug, Clone)]
pub(crate) struct Failure(Box<Details>);

#[derive(Debug, Clone)]
struct Details {
    class: Class,
    message: String,
    hint: Option<String>,
    file: Option<String>,
    record: Option<u64>,
    byte: Option<u64>,
    column: Option<String>,
    row: Option<u64>,
}

impl Failure {
    fn new(class: Class, message: String) -> Self {
        let (hint, file, record, byte, column, row) = (None, None, None, None, None, None);
        Self(Box::new(Details { class, message, hint, file, record, byte, column, row }))
    }

    /// An argument is invalid.
    pub(crate) fn usage(message: String) -> Self {
        Self::new(Class::Usage, message)
    }

    /// Anything else.
    pub(crate) fn other(message: String) -> Self {
        Self::new(Class::Other, message)
    }

    /// Nothing is at a path or URL.
    pub(crate) fn missing(path: &Path, problem: &str) -> Self {
        Self::new(Class::Missing, format!("{}: {problem}", path.display()))
    }

    /// The work was stopped, so nobody sees this.
    pub(crate) fn stopped() -> Self {
        Self::other("stopped".to_owned())
    }

    /// A store cannot be reached or opened, or a location is not usable or not allowed. `path` is what was to be opened,
    /// unless the error names it.
    pub(crate) fn store(path: Option<&Path>, error: &tfr_stores::Error) -> Self {
        let message = match path {
            Some(path) if !matches!(error.kind(), StoreKind::NotAllowed { .. }) => {
                format!("{}: {}", path.display(), chain(error))
            }
            _ => chain(error),
        };
        let credentials = "Set the credentials of the store in the environment, as for the command.";
        match error.kind() {
            StoreKind::NotAllowed { allowed, .. } => {
                let allowed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
                Self::usage(message).with_hint(&format!("allow= names what may be opened: {allowed}"))
            }
            StoreKind::Location { .. } | StoreKind::UnknownScheme { .. } | StoreKind::NotAFile { .. } => {
                Self::usage(message)
            }
            StoreKind::NoBucket { .. } => Self::new(Class::Missing, message),
            StoreKind::NoCredentials { .. } | StoreKind::Denied { .. } | StoreKind::Settings { .. } => {
                Self::other(message).with_hint(credentials)
            }
            StoreKind::OtherRegion { region, .. } => {
                Self::other(message).with_hint(&format!("Set AWS_REGION={region}."))
            }
            StoreKind::Unreachable { .. } => {
                Self::other(message).with_hint("Check the endpoint, the network and the proxy settings.")
            }
            StoreKind::NoParts { .. } => Self::other(message).with_hint("Download the file, and name the copy."),
            StoreKind::NoListing { .. } => Self::other(message).with_hint("Name the files themselves."),
            _ => Self::other(message),
        }
    }

    /// A request for an object failed.
    pub(crate) fn object(path: &Path, error: &object_store::Error) -> Self {
        let mut failure = match error {
            object_store::Error::NotFound { .. } => Self::missing(path, "no such file or directory"),
            object_store::Error::Precondition { .. } => {
                let problem = "the file changed while it was read: it is no longer the listed version";
                Self::new(Class::Data, format!("{}: {problem}", path.display()))
                    .with_hint("Run it again when nothing writes to the file.")
            }
            error => {
                if let Some(refusal) = tfr_stores::Error::refusal_in(error) {
                    return Self::store(Some(path), &refusal);
                }
                let sources =
                    std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source());
                match sources.into_iter().find_map(|error| error.downcast_ref::<tfr_stores::Error>()) {
                    Some(error) => Self::store(Some(path), error),
                    None => Self::other(format!("{}: {}", path.display(), chain(error))),
                }
            }
        };
        failure.0.file = Some(path.display().to_string());
        failure
    }

    /// Returns the failure to read an object, if it is among an error and its sources: readers wrap it.
    fn within(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut sources = std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as _),
            None => error.source(),
        });
        sources.find_map(|error| error.downcast_ref::<Self>().cloned())
    }

    /// A record of a file is damaged or does not fit the columns.
    pub(crate) fn record(path: &Path, error: &arrow_tfrecord::Error) -> Self {
        if let Some(failure) = Self::within(error) {
            return failure;
        }
        if error.position().is_none() && error.row().is_none() && error.column().is_none() {
            return Self::usage(chain(error));
        }
        let mut failure = Self::new(Class::Data, format!("{}: {}", path.display(), chain(error)));
        failure.0.file = Some(path.display().to_string());
        failure.0.record = error.position().map(|position| position.record);
        failure.0.byte = error.position().map(|position| position.byte);
        failure.0.column = error.column().map(str::to_owned);
        failure
    }

    /// A record that is not in a file is damaged or does not fit the columns.
    pub(crate) fn message(error: &arrow_tfrecord::Error) -> Self {
        let mut failure = Self::new(Class::Data, chain(error));
        failure.0.record = error.position().map(|position| position.record);
        failure.0.column = error.column().map(str::to_owned);
        failure
    }

    /// A file or a set has a defect.
    pub(crate) fn finding(finding: &tfrecord_shards::Finding) -> Self {
        let mut failure = Self::new(Class::Data, finding.to_string());
        failure.0.file = Some(finding.path.display().to_string());
        failure
    }

    /// A file is not what was found before, or a record has no value of the type that was asked for.
    pub(crate) fn data(path: &Path, record: u64, column: Option<&str>, problem: &str) -> Self {
        let of_column = column.map(|column| format!("column {column:?}: ")).unwrap_or_default();
        let message = format!("{}: record {record}: {of_column}{problem}", path.display());
        let mut failure = Self::new(Class::Data, message);
        failure.0.file = Some(path.display().to_string());
        failure.0.record = Some(record);
        failure.0.column = column.map(str::to_owned);
        failure
    }

    /// An operation of the file system failed.
    pub(crate) fn io(path: &Path, action: &str, error: io::Error) -> Self {
        if let Some(failure) = Self::within(&error) {
            return failure;
        }
        let class = match error.kind() {
            io::ErrorKind::NotFound => Class::Missing,
            io::ErrorKind::AlreadyExists => Class::Exists,
            _ => Class::Other,
        };
        let mut failure = Self::new(class, format!("{}: cannot {action}: {error}", path.display()));
        failure.0.file = Some(path.display().to_string());
        failure
    }

    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.0.hint = Some(hint.to_owned());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Failure {}

/// Returns the text of an error and of its sources.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}

impl From<tfrecord_shards::Error> for Failure {
    fn from(error: tfrecord_shards::Error) -> Self {
        use tfrecord_shards::{AttemptError, ErrorKind};

        if let Some(failure) = Self::within(&error) {
            return failure;
        }
        let text = chain(&error);
        match error.kind() {
            ErrorKind::Encode(inner) => {
                let is_data = inner.row().is_some();
                let mut failure = Self::new(if is_data { Class::Data } else { Class::Usage }, text);
                failure.0.column = inner.column().map(str::to_owned);
                failure.0.row = inner.row();
                failure
            }
            ErrorKind::Damaged { path, error } => {
                let mut failure = Self::new(Class::Data, text);
                failure.0.file = Some(path.display().to_string());
                failure.0.record = Some(error.position().record);
                failure.0.byte = Some(error.position().byte);
                failure
            }
            ErrorKind::ShardLength { path, .. } | ErrorKind::EmptyCompressed { path } => {
                let mut failure = Self::new(Class::Data, text);
                failure.0.file = Some(path.display().to_string());
                failure
            }
            ErrorKind::NotWhole(finding) => {
                let mut failure = Self::new(Class::Data, text);
                failure.0.file = Some(finding.path.display().to_string());
                failure
            }
            ErrorKind::Io { path, source, .. } if source.kind() == io::ErrorKind::NotFound => {
                let mut failure = Self::new(Class::Missing, text);
                failure.0.file = Some(path.display().to_string());
                failure
            }
            ErrorKind::Attempt(AttemptError::Report { path, .. } | AttemptError::ReportSyntax { path, .. }) => {
                let mut failure = Self::new(Class::Data, text);
                failure.0.file = Some(path.display().to_string());
                failure
            }
            ErrorKind::Attempt(AttemptError::DamagedTask { .. }) => {
                Self::new(Class::Data, text).with_hint("Stage the rows of this task again.")
            }
            ErrorKind::Attempt(AttemptError::Missing { .. }) => {
                Self::usage(text).with_hint("Run these tasks, and commit with the reports of all tasks.")
            }
            ErrorKind::Attempt(AttemptError::Unexpected { .. } | AttemptError::Setting { .. }) => Self::usage(text),
            ErrorKind::NotEmpty { .. } | ErrorKind::AlreadyThere { .. } => {
                Self::new(Class::Exists, text).with_hint("Choose another directory, or overwrite the set.")
            }
            ErrorKind::NoFiles { .. } | ErrorKind::NotAFile { .. } | ErrorKind::Prefix { .. } => Self::usage(text),
            _ => Self::other(text),
        }
    }
}

static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| to_exception(py, *failure.0).unwrap_or_else(|error| error))
    }
}

fn to_exception(py: Python<'_>, details: Details) -> PyResult<PyErr> {
    let Details { class, message, hint, file, record, byte, column, row } = details;
    let module = CLASSES.get_or_try_init(py, || py.import("tfr_sql._errors").map(Bound::unbind))?;
    let class_object = module.bind(py).getattr(class.name())?.cast_into::<PyType>()?;
    let fields = PyDict::new(py);
    fields.set_item("hint", hint)?;
    if class == Class::Data {
        fields.set_item("file", file)?;
        fields.set_item("record", record)?;
        fields.set_item("byte", byte)?;
        fields.set_item("column", column)?;
        fields.set_item("row", row)?;
    }
    Ok(PyErr::from_value(class_object.call((message,), Some(&fields))?))
}
