//! Text formats with one row per line, as a [`FileReader`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use bytes::{Buf, Bytes};
use datafusion_common::{DataFusionError, Result};
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_physical_plan::metrics::Count;
use datafusion_session::Session;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use tfr_files::memory::ReadBounds;
use tfr_stores::FileNames;

use super::lines::Lines;
use super::part::{TextLayout, part};
use super::{TextStream, bytes, text};
use crate::error::{Error, Line};
use tfr_files::scan::{FileReader, Scan};

/// A text format with one row per line.
pub(crate) trait LineFormat: fmt::Debug + Send + Sync + 'static {
    /// Returns the text properties of its files.
    fn layout(&self) -> TextLayout;

    /// Returns how many lines at the start and the end of a file are not rows. If there are any, files are not split.
    fn margins(&self) -> Margins {
        Margins::default()
    }

    /// Infers the columns of a file from its first lines.
    fn inference(&self, file: Arc<str>) -> Box<dyn Inference>;

    /// Builds batches of the columns `wanted` of `table`, which are indices into the columns of the files.
    ///
    /// # Errors
    /// A column has a type that the format does not support.
    fn rows(&self, file: Arc<str>, table: &TableSchema, wanted: &[usize], odd_cells: Count) -> Result<Box<dyn Rows>>;
}

/// Numbers of lines that are not rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Margins {
    /// At the start of a file.
    pub(crate) header: usize,
    /// At the end of a file.
    pub(crate) footer: usize,
}

/// Infers the columns of a file.
pub(crate) trait Inference: Send {
    /// Examines a line; returns `false` if no more lines are needed.
    fn observe(&mut self, line: &[u8], at: Line) -> Result<bool, Error>;

    /// Returns the columns.
    fn schema(&self) -> Result<SchemaRef, Error>;
}

/// Converts lines to rows, and rows to batches.
pub(crate) trait Rows: Send {
    /// Adds the row of a line, if the line contains one.
    fn push(&mut self, line: &[u8], at: Line) -> Result<(), Error>;

    /// Returns the number of rows since the last batch.
    fn len(&self) -> usize;

    /// Returns their approximate size in bytes.
    fn size(&self) -> usize;

    /// Returns the rows as a batch.
    fn take(&mut self) -> Result<RecordBatch>;
}

/// The files of a [`LineFormat`].
#[derive(Debug)]
pub(crate) struct LineFiles {
    format: Arc<dyn LineFormat>,
    names: FileNames,
}

impl LineFiles {
    /// Reads files as `format`; `names` determines their names in messages.
    pub(crate) fn new(format: impl LineFormat, names: FileNames) -> Self {
        Self { format: Arc::new(format), names }
    }

    async fn infer_file(
        &self,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
        bound: usize,
    ) -> Result<SchemaRef, Error> {
        let name: Arc<str> = self.names.name(&file.location).into();
        let TextLayout { format, compression, encoding, .. } = self.format.layout();
        let bytes = bytes(store, file, &name, 0..file.size).await?;
        let mut text = text(&name, format, bytes, compression, encoding).await?;
        let mut inference = self.format.inference(Arc::clone(&name));
        let mut lines = Lines::new(name, None).within(bound);
        let mut header = self.format.margins().header;
        let mut wants_more = true;
        let mut observe = |line: &[u8], at| {
            if header > 0 {
                header -= 1;
            } else {
                wants_more = inference.observe(line, at)?;
            }
            Ok(wants_more)
        };
        let mut ended = false;
        while !ended {
            match text.try_next().await? {
                // If a piece is not read to its end, enough lines were seen.
                Some(piece) => ended = lines.read(&piece, &mut observe)? < piece.len(),
                None => {
                    lines.finish(&mut observe)?;
                    ended = true;
                }
            }
        }
        inference.schema()
    }
}

#[async_trait]
impl FileReader for LineFiles {
    fn name(&self) -> &'static str {
        self.format.layout().format.name()
    }

    fn can_split(&self) -> bool {
        self.format.margins() == Margins::default()
    }

    /// Returns the columns of the first file: a table requests one file after the other.
    async fn schema(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        match files.first() {
            Some(file) => Ok(self.infer_file(store, file, ReadBounds::of(session).record()).await?),
            None => Ok(self.format.inference("".into()).schema()?),
        }
    }

    fn opener(self: Arc<Self>, store: Arc<dyn ObjectStore>, scan: &Scan<'_>) -> Result<Arc<dyn FileOpener>> {
        Ok(Arc::new(LineOpener {
            store,
            format: Arc::clone(&self.format),
            names: self.names.clone(),
            table_schema: scan.table.clone(),
            wanted: scan.wanted.to_vec(),
            batch_size: scan.batch_size,
            bounds: scan.bounds,
            bytes_scanned: scan.bytes_scanned(),
            odd_cells: scan.counter("odd_cells"),
        }))
    }
}

/// Opens one file or a part of one.
#[derive(Clone)]
struct LineOpener {
    store: Arc<dyn ObjectStore>,
    format: Arc<dyn LineFormat>,
    names: FileNames,
    table_schema: TableSchema,
    /// The requested columns, as indices into those of the files.
    wanted: Vec<usize>,
    batch_size: usize,
    bounds: ReadBounds,
    bytes_scanned: Count,
    odd_cells: Count,
}

impl FileOpener for LineOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let name: Arc<str> = opener.names.name(&file.object_meta.location).into();
            let layout = opener.format.layout();
            match part(&opener.store, &file, &name, layout, &opener.bytes_scanned).await? {
                Some(part) => {
                    let rows = opener.format.rows(
                        Arc::clone(&name),
                        &opener.table_schema,
                        &opener.wanted,
                        opener.odd_cells.clone(),
                    )?;
                    let lines = Lines::new(name, part.after_byte).within(opener.bounds.record());
                    let feed = Feed {
                        rows,
                        margins: opener.format.margins(),
                        held: VecDeque::new(),
                        batch_len: opener.bounds.batch,
                    };
                    let batches = LineBatches {
                        text: part.text,
                        piece: Bytes::new(),
                        lines,
                        feed,
                        batch_size: opener.batch_size,
                    };
                    Ok(batches.stream().boxed())
                }
                None => Ok(futures::stream::empty().boxed()),
            }
        }
        .boxed())
    }
}

/// The batches of one file or part.
struct LineBatches {
    text: TextStream,
    piece: Bytes,
    lines: Lines,
    feed: Feed,
    batch_size: usize,
}

impl LineBatches {
    fn stream(self) -> impl Stream<Item = Result<RecordBatch>> {
        futures::stream::try_unfold(Some(self), |batches| async {
            let Some(mut batches) = batches else { return Ok(None) };
            let (batch, more) = batches.next().await?;
            Ok::<_, DataFusionError>(batch.map(|batch| (batch, more.then_some(batches))))
        })
    }

    /// Returns the next batch, if rows are left, and whether more may follow.
    async fn next(&mut self) -> Result<(Option<RecordBatch>, bool)> {
        let Self { text, piece, lines, feed, batch_size } = self;
        loop {
            if piece.is_empty() {
                match text.try_next().await? {
                    Some(more) => *piece = more,
                    None => {
                        lines.finish(|line, at| feed.take(line, at, *batch_size))?;
                        let batch = if feed.rows.len() > 0 { Some(feed.rows.take()?) } else { None };
                        return Ok((batch, false));
                    }
                }
                continue;
            }
            let read = lines.read(piece, |line, at| feed.take(line, at, *batch_size))?;
            piece.advance(read);
            if feed.is_full(*batch_size) {
                return Ok((Some(feed.rows.take()?), true));
            }
        }
    }
}

/// Passes on the lines that are rows.
struct Feed {
    rows: Box<dyn Rows>,
    /// How many lines remain to be skipped at the start and the end.
    margins: Margins,
    /// The latest lines, which may be the ones to skip at the end.
    held: VecDeque<(Vec<u8>, Line)>,
    /// A batch is emitted early at about this many bytes.
    batch_len: usize,
}

impl Feed {
    /// Adds a line; returns whether the batch has room for more rows.
    fn take(&mut self, line: &[u8], at: Line, batch_size: usize) -> Result<bool, Error> {
        if self.margins.header > 0 {
            self.margins.header -= 1;
            return Ok(true);
        }
        if self.margins.footer == 0 {
            self.rows.push(line, at)?;
        } else {
            self.held.push_back((line.to_vec(), at));
            if self.held.len() > self.margins.footer
                && let Some((line, at)) = self.held.pop_front()
            {
                self.rows.push(&line, at)?;
            }
        }
        Ok(!self.is_full(batch_size))
    }

    fn is_full(&self, batch_size: usize) -> bool {
        self.rows.len() >= batch_size || self.rows.size() >= self.batch_len
    }
}
