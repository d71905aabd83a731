//! [`StoreUrl`]: the URL of a store.

use std::fmt;

use url::{ParseError, Position, Url};

use crate::location_text::LocationText;

/// The URL of a store: a scheme and an authority, without a path. Potential secrets are not shown.
///
/// ```
/// use tfr_stores::StoreUrl;
///
/// assert_eq!(StoreUrl::parse("s3://bucket")?.as_str(), "s3://bucket/");
/// assert!(StoreUrl::parse("s3://bucket/key").is_err());
/// # Ok::<(), url::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreUrl(Url);

impl StoreUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// The text is not a URL, or has a path, a query or a fragment.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, ParseError> {
        let mut url = Url::parse(text.as_ref())?;
        if !matches!(&url[Position::BeforePath..], "" | "/") {
            return Err(ParseError::SetHostOnCannotBeABaseUrl);
        }
        url.set_path("/");
        Ok(Self(url))
    }

    /// Returns the URL of the store of local files.
    #[expect(clippy::expect_used, reason = "the text is a URL")]
    pub fn local_files() -> Self {
        Self(Url::parse("file:///").expect("a URL"))
    }

    /// Returns the text, with its secrets. Use it only to open the store.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl AsRef<Url> for StoreUrl {
    fn as_ref(&self) -> &Url {
        &self.0
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&LocationText::from(self.as_str()), f)
    }
}
