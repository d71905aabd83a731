//! [`ErrorDetails`]: the class and the location of an error, for programs.

use std::error::Error as StdError;
use std::io;
use std::path::Path;

use arrow_tfrecord::ErrorKind as RecordKind;
use datafusion_tfrecord::ErrorKind as TableKind;
use tfr_files::ErrorKind as FilesKind;
use tfr_formats::{ErrorKind as FormatKind, MetastoreError, Within};
use tfr_stores::ErrorKind as StoreKind;
use tfrecord_framing::Position;
use tfrecord_shards::ErrorKind as ShardsKind;

use super::Error;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The query, or its options for these columns.
    #[default]
    Query,
    /// The arguments.
    Usage,
    /// Damage, or a value that does not fit.
    Data,
    /// With `--strict`, information would be lost.
    Loss,
    /// The output exists, or another run is writing it.
    Exists,
    /// An input does not exist.
    Missing,
    /// The system or a store failed.
    Io,
    /// A bug.
    Internal,
}

impl ErrorClass {
    /// Returns its name in messages for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Usage => "usage",
            Self::Data => "data",
            Self::Loss => "loss",
            Self::Exists => "exists",
            Self::Missing => "missing",
            Self::Io => "io",
            Self::Internal => "internal",
        }
    }
}

/// The class and the location of an error, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorDetails {
    /// What kind of error it is.
    pub class: ErrorClass,
    /// The file, directory or URL.
    pub file: Option<String>,
    /// The record in the file, from 0.
    pub record: Option<u64>,
    /// The byte in the file, from 0. In a compressed TFRecord file, the byte after decompression.
    pub byte: Option<u64>,
    /// The column or feature.
    pub column: Option<String>,
    /// The row, from 0: of the file, or of the query's part that a thread computes.
    pub row: Option<u64>,
}

impl ErrorDetails {
    /// Adds what one error of a chain knows. Inner errors are the more precise ones.
    pub fn add(&mut self, error: &(dyn StdError + 'static)) {
        if let Some(error) = error.downcast_ref::<Error>() {
            self.add_own(error);
        } else if let Some(error) = error.downcast_ref::<arrow_tfrecord::Error>() {
            self.add_record(error);
        } else if let Some(error) = error.downcast_ref::<tfrecord_shards::Error>() {
            self.add_shards(error.kind());
        } else if let Some(error) = error.downcast_ref::<datafusion_tfrecord::Error>() {
            self.add_table(error.kind());
        } else if let Some(error) = error.downcast_ref::<tfr_files::Error>() {
            self.add_files(error.kind());
        } else if let Some(error) = error.downcast_ref::<tfr_stores::Error>() {
            self.add_place(error.kind());
        } else if let Some(error) = error.downcast_ref::<tfr_formats::Error>() {
            self.add_format(error.kind());
        } else if let Some(error) = error.downcast_ref::<io::Error>() {
            self.add_io(error);
        }
    }

    fn add_own(&mut self, error: &Error) {
        if error.is_usage() {
            self.class = ErrorClass::Usage;
            return;
        }
        match error {
            Error::Read { path, .. } | Error::Write { path, .. } => {
                self.class = ErrorClass::Io;
                self.in_path(path);
            }
            Error::Records { path, error } => {
                self.in_path(path);
                self.at(ErrorClass::Data, error.position());
            }
            Error::Record { path, position, .. } => {
                self.in_path(path);
                self.at(ErrorClass::Data, *position);
            }
            Error::NoMatch { pattern } => {
                self.class = ErrorClass::Missing;
                self.file = Some(pattern.clone());
            }
            Error::SidecarThere { path } => {
                self.class = ErrorClass::Exists;
                self.in_path(path);
            }
            Error::BareFilesStrict { owner } => {
                self.class = ErrorClass::Loss;
                self.file = Some(owner.directory.clone());
            }
            Error::Spill { directory, .. } | Error::SpillLimit { directory, .. } => {
                self.class = ErrorClass::Io;
                self.in_path(directory);
            }
            Error::SpillDamaged { directory, .. } => {
                self.class = ErrorClass::Data;
                self.in_path(directory);
            }
            Error::SpoolInput { .. } | Error::Start { .. } | Error::UnknownMemory(_) | Error::Stdout(_) => {
                self.class = ErrorClass::Io;
            }
            Error::Panic(_) => self.class = ErrorClass::Internal,
            _ => {}
        }
    }

    fn add_record(&mut self, error: &arrow_tfrecord::Error) {
        if matches!(error.kind(), RecordKind::Narrowed { .. }) {
            self.class = ErrorClass::Loss;
        }
        if let Some(position) = error.position() {
            self.at(ErrorClass::Data, position);
        }
        if let Some(row) = error.row() {
            self.class = ErrorClass::Data;
            self.row = Some(row);
        }
        self.column = error.column().map(str::to_owned).or(self.column.take());
    }

    fn add_shards(&mut self, kind: &ShardsKind) {
        match kind {
            ShardsKind::NotEmpty { path, .. }
            | ShardsKind::AlreadyThere { path }
            | ShardsKind::OtherKind { path, .. }
            | ShardsKind::ForeignFiles { path, .. }
            | ShardsKind::NotADirectory { path }
            | ShardsKind::Busy { path, .. }
            | ShardsKind::InsideSet { path, .. }
            | ShardsKind::Superseded { path } => self.of_path(ErrorClass::Exists, path),
            ShardsKind::Damaged { path, error } => {
                self.of_path(ErrorClass::Data, path);
                self.at(ErrorClass::Data, error.position());
            }
            ShardsKind::ShardLength { path, .. }
            | ShardsKind::EmptyCompressed { path }
            | ShardsKind::NothingSound { path, .. }
            | ShardsKind::SpillDamaged { path, .. }
            | ShardsKind::ManifestSyntax { path, .. }
            | ShardsKind::ChangedManifest { path, .. }
            | ShardsKind::ManifestContent { path, .. } => self.of_path(ErrorClass::Data, path),
            ShardsKind::NotWhole(finding) => self.of_path(ErrorClass::Data, &finding.path),
            ShardsKind::NoFiles { path } | ShardsKind::NoManifest { path } => self.of_path(ErrorClass::Missing, path),
            ShardsKind::Io { path, .. } => self.of_path(ErrorClass::Io, path),
            ShardsKind::Write(_) => self.class = ErrorClass::Io,
            _ => {}
        }
    }

    fn add_table(&mut self, kind: &TableKind) {
        match kind {
            TableKind::Record { file, error, .. } | TableKind::Inference { file, error } => {
                self.of_file(ErrorClass::Data, file);
                // It is not among the sources, because its text is part of this error's.
                self.add_record(error);
            }
            TableKind::UnknownFeature { file, record, feature } => {
                self.of_file(ErrorClass::Loss, file);
                (self.record, self.column) = (Some(*record), Some(feature.clone()));
            }
            TableKind::Columns { error } => self.add_record(error),
            TableKind::End { file, found, .. } => {
                self.of_file(ErrorClass::Data, file);
                self.at(ErrorClass::Data, *found);
            }
            TableKind::EmptyCompressed { file } => self.of_file(ErrorClass::Data, file),
            TableKind::MissingParts { .. } => self.class = ErrorClass::Data,
            TableKind::IncompleteSet { directory, .. } => self.of_file(ErrorClass::Data, directory),
            TableKind::ElsewhereInRecords { file, column, .. } => {
                self.of_file(ErrorClass::Data, file);
                self.column = Some(column.clone());
            }
            TableKind::SchemaText { file, .. } | TableKind::SchemaFile { file, .. } => {
                self.of_file(ErrorClass::Data, file);
            }
            TableKind::Store { file, .. } => self.of_file(ErrorClass::Io, file),
            TableKind::Panic { .. } => self.class = ErrorClass::Internal,
            _ => {}
        }
    }

    fn add_files(&mut self, kind: &FilesKind) {
        match kind {
            FilesKind::NotFound { location } | FilesKind::Empty { location, .. } => {
                self.of_file(ErrorClass::Missing, location);
            }
            FilesKind::UnfitValue { file, row, column, .. } => {
                self.of_file(ErrorClass::Data, file);
                self.row = *row;
                self.column = Some(column.clone());
            }
            FilesKind::PartitionNotAsWritten { file, column, .. } | FilesKind::PartitionValue { file, column, .. } => {
                self.of_file(ErrorClass::Data, file);
                self.column = Some(column.clone());
            }
            FilesKind::SchemaConflict { file, column, .. }
            | FilesKind::DuplicateColumn { file, column }
            | FilesKind::MissingColumn { file, column, .. }
            | FilesKind::DeclaredType { file, column, .. }
            | FilesKind::UnreadableColumn { file, column, .. } => {
                self.file = Some(file.clone());
                self.column = Some(column.clone());
            }
            FilesKind::DanglingLink { file, .. } => self.of_file(ErrorClass::Missing, file),
            FilesKind::Unfinished { directory } => self.of_file(ErrorClass::Data, directory),
            FilesKind::Examine { file, .. } => self.of_file(ErrorClass::Io, file),
            FilesKind::EmptyFile { file }
            | FilesKind::Panicked { file, .. }
            | FilesKind::Read { file, .. }
            | FilesKind::Changed { file, .. }
            | FilesKind::FileTooLong { file, .. } => self.of_file(ErrorClass::Data, file),
            FilesKind::Place(error) => self.add_place(error.kind()),
            FilesKind::Row { file, .. } | FilesKind::Expression { file, .. } => {
                self.file = Some(file.clone());
            }
            FilesKind::List { location, .. } | FilesKind::Store { location, .. } => {
                self.of_file(ErrorClass::Io, location);
            }
            _ => {}
        }
    }

    fn add_place(&mut self, kind: &StoreKind) {
        match kind {
            StoreKind::Examine { file, .. } => self.of_file(ErrorClass::Io, file),
            StoreKind::NotAllowed { name: file, .. } | StoreKind::NotAFile { file } => self.file = Some(file.clone()),
            _ => {}
        }
    }

    fn add_format(&mut self, kind: &FormatKind) {
        if let Some(place) = kind.place() {
            let is_loss = matches!(kind, FormatKind::DoubtfulDate { .. });
            self.of_file(if is_loss { ErrorClass::Loss } else { ErrorClass::Data }, &place.file);
            self.column = place.column.clone().or(self.column.take());
            match place.within {
                Within::Row { row, .. } => self.row = Some(row),
                Within::Byte(byte) | Within::Stripe { byte, .. } => self.byte = Some(byte),
                Within::Record { record, block } => (self.record, self.byte) = (Some(record), Some(block)),
                _ => {}
            }
        }
        match kind {
            FormatKind::JsonKey { key, .. } => self.column = Some(key.clone()),
            FormatKind::Changed(changed) => self.add_files(changed.kind()),
            FormatKind::Metastore(error) => {
                self.class = match error {
                    MetastoreError::Address { .. } => ErrorClass::Usage,
                    MetastoreError::NoTable { .. } => ErrorClass::Missing,
                    MetastoreError::Refused { .. } => ErrorClass::Query,
                    MetastoreError::Recorded { .. } | MetastoreError::PartitionColumn { .. } => ErrorClass::Data,
                    _ => ErrorClass::Io,
                };
            }
            FormatKind::PageChecksum { file, column, byte, .. } => {
                self.of_file(ErrorClass::Data, file);
                (self.column, self.byte) = (Some(column.clone()), Some(*byte));
            }
            FormatKind::KeyCase { file, column, .. }
            | FormatKind::MissingColumn { file, column, .. }
            | FormatKind::DuplicateColumn { file, column } => {
                self.of_file(ErrorClass::Data, file);
                self.column = Some(column.clone());
            }
            FormatKind::UnsupportedFormat { file, .. }
            | FormatKind::WrongFormat { file, .. }
            | FormatKind::NotCompressed { file, .. }
            | FormatKind::SeveralFormats { file, .. }
            | FormatKind::Misnamed { file, .. }
            | FormatKind::Read { file, .. }
            | FormatKind::Encoding { file, .. }
            | FormatKind::LongBlock { file, .. }
            | FormatKind::NoColumns { file } => self.of_file(ErrorClass::Data, file),
            _ => {}
        }
    }

    fn add_io(&mut self, error: &io::Error) {
        match (error.kind(), self.class) {
            (io::ErrorKind::NotFound, ErrorClass::Io) => self.class = ErrorClass::Missing,
            (_, ErrorClass::Query) if error.get_ref().is_none() => self.class = ErrorClass::Io,
            _ => {}
        }
    }

    fn of_file(&mut self, class: ErrorClass, file: &str) {
        self.class = class;
        self.file = Some(file.to_owned());
    }

    fn of_path(&mut self, class: ErrorClass, path: &Path) {
        self.class = class;
        self.in_path(path);
    }

    fn in_path(&mut self, path: &Path) {
        self.file = Some(path.display().to_string());
    }

    fn at(&mut self, class: ErrorClass, position: Position) {
        self.class = class;
        (self.record, self.byte) = (Some(position.record), Some(position.byte));
    }
}
