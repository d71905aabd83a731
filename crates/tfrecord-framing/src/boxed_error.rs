//! [`boxed_error!`](crate::boxed_error): the part of an error type that is the same in every crate.

/// Declares an error type that boxes its kind, so that a `Result` stays one pointer wide.
///
/// The declared type has:
/// - `kind()` and `into_kind()`, which return the kind;
/// - `Debug` and `Display`, which are those of the kind;
/// - `source()`, which is that of the kind;
/// - `From<E>` for every `E` that converts to the kind.
///
/// `includes` lists the kinds whose text includes that of their field `error`. For these, `source()` is the source of
/// that inner error, so that a chain of errors does not repeat its text.
///
/// ```
/// #[derive(Debug, thiserror::Error)]
/// pub enum ErrorKind {
///     #[error("line {line}: {error}")]
///     Line { line: usize, error: tfrecord_framing::Error },
/// }
///
/// tfrecord_framing::boxed_error! {
///     /// A failure to read a list of records.
///     pub struct Error(Box<ErrorKind>) includes Line;
/// }
/// ```
///
/// For the crates of this workspace. It may change in any release.
#[doc(hidden)]
#[macro_export]
macro_rules! boxed_error {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $error:ident(Box<$kind:ident>) $(includes $($including:ident),+)?;
    ) => {
        $(#[$attribute])*
        $visibility struct $error(::std::boxed::Box<$kind>);

        impl $error {
            /// Returns the kind of the error.
            pub fn kind(&self) -> &$kind {
                &self.0
            }

            /// Returns the kind of the error, by value.
            pub fn into_kind(self) -> $kind {
                *self.0
            }
        }

        impl<E: ::std::convert::Into<$kind>> ::std::convert::From<E> for $error {
            fn from(kind: E) -> Self {
                Self(::std::boxed::Box::new(kind.into()))
            }
        }

        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Debug::fmt(&self.0, f)
            }
        }

        impl ::std::fmt::Display for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl ::std::error::Error for $error {
            fn source(&self) -> ::std::option::Option<&(dyn ::std::error::Error + 'static)> {
                $($(
                    if let $kind::$including { error, .. } = self.kind() {
                        return ::std::error::Error::source(error);
                    }
                )+)?
                ::std::error::Error::source(self.kind())
            }
        }
    };
}
