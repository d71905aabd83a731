//! [`HiveRefusal`]: why a Hive table cannot be read.

/// Why a Hive table cannot be read, by its classes and properties.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HiveRefusal {
    /// There is no reader for the class of the SerDe.
    #[error("the SerDe {class} is not supported")]
    Serde {
        /// The class.
        class: String,
    },
    /// There is no reader for the class of the input format.
    #[error("the input format {class} is not supported")]
    InputFormat {
        /// The class.
        class: String,
    },
    /// The SerDe cannot read what the input format returns.
    #[error("the SerDe {serde} does not fit the input format {input_format}")]
    Classes {
        /// The class of the SerDe.
        serde: String,
        /// The class of the input format.
        input_format: String,
    },
    /// A property changes values in a way that the reader does not have.
    #[error("the property '{key}'='{value}' is not supported{}", reason.map(|reason| format!(": {reason}")).unwrap_or_default())]
    Property {
        /// The name of the property.
        key: String,
        /// Its value.
        value: String,
        /// Why it is not.
        reason: Option<&'static str>,
    },
    /// The reader does not have the property.
    #[error("the property '{key}' is unknown: it could change the values")]
    UnknownProperty {
        /// The name of the property.
        key: String,
    },
    /// The SerDe needs a property that is missing.
    #[error("the property '{key}' is missing, which the SerDe requires")]
    MissingProperty {
        /// The name of the property.
        key: &'static str,
    },
    /// The rows are in base and delta directories, and only the metastore records which of them are committed.
    #[error("the table is transactional (ACID): its files do not record which rows are committed")]
    Transactional,
    /// The rows are in another system.
    #[error("the rows are not in files, but behind the storage handler {class}")]
    StorageHandler {
        /// The class.
        class: String,
    },
    /// Spark reads the files by a format of its own, whatever the classes are.
    #[error("it is a table of Spark's data source {provider:?}, and its classes are not those of its files")]
    Provider {
        /// The name of the data source.
        provider: String,
    },
    /// The table is a view.
    #[error("it is a view ({kind}), which has no files")]
    View {
        /// The kind in the metastore.
        kind: String,
    },
}
