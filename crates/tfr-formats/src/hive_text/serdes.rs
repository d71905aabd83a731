//! [`HiveSerde`]: the SerDes of Hive for text.

/// What a line of a file is, by the SerDe of Hive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HiveSerde {
    /// Cells between delimiters: LazySimpleSerDe, and MultiDelimitSerDe.
    #[default]
    Lazy,
    /// Cells that may be in quotes, all of which are texts: OpenCSVSerde.
    OpenCsv,
    /// A JSON object: JsonSerDe.
    Json,
}

impl HiveSerde {
    /// The name of the class for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lazy => "Hive text",
            Self::OpenCsv => "OpenCSVSerde",
            Self::Json => "JsonSerDe",
        }
    }
}

/// The characters of OpenCSVSerde, all of which are ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenCsvOptions {
    /// Between cells (`separatorChar`).
    pub separator: u8,
    /// Around cells (`quoteChar`); zero: none.
    pub quote: u8,
    /// Before a quote or itself (`escapeChar`); zero: none.
    pub escape: u8,
}

impl Default for OpenCsvOptions {
    fn default() -> Self {
        Self { separator: b',', quote: b'"', escape: b'\\' }
    }
}

/// How JsonSerDe reads bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsonBinary {
    /// They are in base64.
    #[default]
    Base64,
    /// They are the UTF-8 of the text.
    RawString,
}
