//! The frames of a file: [`FrameReader`] reads them in order, [`hop`] only reads their lengths.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::{Add, Range};
use std::path::Path;

use tfrecord_framing::array_record::{self, Footer};
use tfrecord_framing::{
    Container, Damage, HEADER_LEN, Position, RecordDecoder, RecordScanner, crc32c_append, frame_len,
};

use crate::error::{AtPath, Error, ErrorKind, Result};
use crate::error::{Finding, FindingKind};
use crate::set::difference::ShardFigures;
use crate::set::manifest::ShardEntry;
use crate::tools::inputs::InputFile;
use crate::tools::progress::Progress;
use crate::tools::stored::ReadSeek;

/// Bytes read at once: enough for any disk, and read quickly enough for a prompt stop.
const BLOCK_LEN: usize = 1 << 20;

/// Maximum number of damaged ranges recorded for one file, so that memory is bounded.
const MAX_DAMAGE: usize = 10_000;

/// Reads the frames of a file in blocks, counting and checksumming them.
pub(crate) struct FrameReader<'a> {
    input: &'a InputFile,
    progress: &'a Progress,
    file: Box<dyn Read + Send>,
    /// The bytes read; the first `taken` of `filled` bytes were decoded.
    block: Vec<u8>,
    taken: usize,
    filled: usize,
    unframe: Unframe,
    /// The container that the manifest or the name specifies, if it differs from that of the content.
    contradicted: Option<Container>,
    container: Container,
    figures: ShardFigures,
}

/// How damage is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDamage {
    /// Fail at the first damage.
    Refuse,
    /// Record it and continue.
    PassOver,
}

enum Unframe {
    Refuse(RecordDecoder),
    PassOver(Box<RecordScanner>, DamageNoted),
}

/// The damage found in a file.
#[derive(Debug, Default)]
pub(crate) struct DamageNoted {
    /// The first damaged ranges.
    pub(crate) kept: Vec<Damage>,
    /// The number of further ranges, and their total length in bytes.
    pub(crate) more: (u64, u64),
}

impl DamageNoted {
    fn bound(&mut self) {
        for damage in self.kept.drain(self.kept.len().min(MAX_DAMAGE)..) {
            self.more.0 += 1;
            self.more.1 += damage.range.end - damage.range.start;
        }
    }
}

impl<'a> FrameReader<'a> {
    /// Opens a file and determines its container.
    ///
    /// # Errors
    /// If it cannot be opened, it is empty although it should be compressed, or the run was stopped.
    pub(crate) fn open(input: &'a InputFile, on_damage: OnDamage, progress: &'a Progress) -> Result<Self> {
        let file = input.open()?;
        let mut reader = Self {
            input,
            progress,
            file,
            block: vec![0; BLOCK_LEN],
            taken: 0,
            filled: 0,
            unframe: Unframe::Refuse(RecordDecoder::new()),
            contradicted: None,
            container: Container::PLAIN,
            figures: ShardFigures::default(),
        };
        // A block contains a whole header, unless the file is shorter.
        reader.fill()?;
        let start = reader.block.get(..reader.filled.min(HEADER_LEN)).unwrap_or_default();
        let (expected, found) = (input.expected_container(), Container::detect(start));
        if start.is_empty() && input.cannot_be_empty() {
            return Err(ErrorKind::EmptyCompressed { path: input.path.clone() }.into());
        }
        reader.container = found.or(expected).unwrap_or_default();
        reader.contradicted = expected.filter(|&expected| expected != reader.container && !start.is_empty());
        reader.unframe = match on_damage {
            OnDamage::Refuse => Unframe::Refuse(RecordDecoder::with_container(reader.container)),
            OnDamage::PassOver => {
                let scanner = Box::new(RecordScanner::with_container(reader.container));
                Unframe::PassOver(scanner, DamageNoted::default())
            }
        };
        Ok(reader)
    }

    /// Returns the file's container, detected from its content or else as specified.
    pub(crate) fn container(&self) -> Container {
        self.container
    }

    /// Passes some frames to `each`, at most those of a block. Returns false at the end of the file, after the last
    /// frames.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged (unless damage is skipped), or the run was stopped.
    pub(crate) fn read(&mut self, mut each: impl FnMut(&[u8])) -> Result<bool> {
        let damaged = |error| ErrorKind::Damaged { path: self.input.path.clone(), error };
        let mut bytes = self.block.get(self.taken..self.filled).unwrap_or_default();
        let read = self.unframe.read(&mut bytes, counting(&mut self.figures, &mut each)).map_err(damaged)?;
        self.taken = self.filled - bytes.len();
        if read > 0 || self.fill()? {
            return Ok(true);
        }
        self.unframe.finish(counting(&mut self.figures, &mut each)).map_err(damaged)?;
        Ok(false)
    }

    /// Reads the next block; false at the end of the file.
    fn fill(&mut self) -> Result<bool> {
        (self.taken, self.filled) = (0, 0);
        while let Some(room) = self.block.get_mut(self.filled..).filter(|room| !room.is_empty()) {
            match self.file.read(room) {
                Ok(0) => break,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // A stop may be the cause.
                    self.progress.advance(0)?;
                    return Err(error).at("read", &self.input.path);
                }
            }
        }
        let filled = self.block.get(..self.filled).unwrap_or_default();
        self.figures.file_bytes += filled.len() as u64;
        self.figures.crc32c = crc32c_append(self.figures.crc32c, filled);
        self.progress.advance(filled.len() as u64)?;
        Ok(!filled.is_empty())
    }

    /// Returns the figures and the damage; those of the whole file if all of it was read.
    pub(crate) fn finish(self) -> (ShardFigures, DamageNoted) {
        let damage = match self.unframe {
            Unframe::Refuse(_) => DamageNoted::default(),
            Unframe::PassOver(_, damage) => damage,
        };
        (self.figures, damage)
    }
}

/// Receives the intact frames of a file.
pub(crate) trait FrameSink {
    /// Adds a frame.
    fn push(&mut self, frame: &[u8]);

    /// Called regularly, and after the last frame.
    fn pause(&mut self) -> Result<()>;
}

/// Discards the frames.
impl FrameSink for () {
    fn push(&mut self, _: &[u8]) {}

    fn pause(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Passes every intact frame of a file to `sink`, and returns its figures and defects.
///
/// # Errors
/// If the file cannot be read or is damaged (unless damage is skipped), if the run was stopped, or if the sink fails.
pub(crate) fn read_through(
    input: &InputFile,
    on_damage: OnDamage,
    progress: &Progress,
    sink: &mut impl FrameSink,
) -> Result<(ShardFigures, Vec<Finding>)> {
    let mut findings = Vec::new();
    let mut find = |kind| findings.push(Finding::new(&input.path, kind));
    let mut reader = FrameReader::open(input, on_damage, progress)?;
    if let Some(expected) = reader.contradicted {
        find(FindingKind::WrongContainer { expected, found: reader.container });
    }
    while reader.read(|frame| sink.push(frame))? {
        sink.pause()?;
    }
    sink.pause()?;
    let (found, DamageNoted { kept, more: (stretches, bytes) }) = reader.finish();
    let is_damaged = !kept.is_empty();
    kept.into_iter().for_each(|damage| find(FindingKind::Damage(damage)));
    if stretches > 0 {
        find(FindingKind::MoreDamage { stretches, bytes });
    }
    if let Some(expected) = input.entry().map(ShardFigures::from)
        // The other figures of a damaged file differ in any case.
        && (expected.file_bytes != found.file_bytes || (!is_damaged && expected != found))
    {
        let finding = Finding::new(&input.path, FindingKind::Figures { expected, found });
        // A file that was named itself is read as it is, whatever its manifest records.
        if on_damage == OnDamage::Refuse && !input.named {
            return Err(ErrorKind::NotWhole(finding).into());
        }
        findings.push(finding);
    }
    Ok((found, findings))
}

/// Counts the records of a file. Reads payloads only if it must.
///
/// # Errors
/// As [`read_through`].
pub(crate) fn count(input: &InputFile, on_damage: OnDamage, progress: &Progress) -> Result<Count> {
    if on_damage == OnDamage::Refuse {
        if let Some(ShardEntry { rows, framed_bytes, .. }) = input.entry().filter(|_| !input.named) {
            return Ok(Count { rows: *rows, framed_bytes: *framed_bytes });
        }
        progress.expect(input.len);
        // Other stores are asked for a whole file or a range, not for every header.
        if let Some(mut file) = input.open_seekable()? {
            match FrameReader::open(input, on_damage, &Progress::default())?.container() {
                Container::ArrayRecord => {
                    let footer = read_footer(&input.path, &mut file)?;
                    progress.advance(input.len)?;
                    return Ok(Count { rows: footer.records(), framed_bytes: footer.framed_len() });
                }
                container if container.is_plain() => {
                    let mut count = Count::default();
                    hop(&input.path, file, progress, |len| {
                        count = count + Count { rows: 1, framed_bytes: len };
                        Ok(())
                    })?;
                    return Ok(count);
                }
                _ => {}
            }
        }
    } else {
        progress.expect(input.len);
    }
    let ShardFigures { rows, framed_bytes, .. } = read_through(input, on_damage, progress, &mut ())?.0;
    Ok(Count { rows, framed_bytes })
}

/// Returns the index at the end of an ArrayRecord file.
///
/// # Errors
/// If the file cannot be read, or is damaged there.
pub(crate) fn read_footer(path: &Path, file: &mut dyn ReadSeek) -> Result<Footer> {
    let damaged = |source| {
        let position = Position::default();
        let error = tfrecord_framing::ErrorKind::ArrayRecord { position, source };
        Error::from(ErrorKind::Damaged { path: path.to_owned(), error: error.into() })
    };
    let end = file.seek(SeekFrom::End(0)).at("inspect", path)?;
    let mut read = |range: Range<u64>| -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(range.start)).at("read", path)?;
        (&mut *file).take(range.end - range.start).read_to_end(&mut bytes).at("read", path)?;
        Ok(bytes)
    };
    let last_block = read(end.saturating_sub(array_record::BLOCK_LEN)..end)?;
    let range = Footer::locate(&last_block, end).map_err(damaged)?;
    Footer::decode(&read(range.clone())?, range.start).map_err(damaged)
}

/// Number of records, and their length in bytes with their frames.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) rows: u64,
    pub(crate) framed_bytes: u64,
}

impl Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, framed_bytes: self.framed_bytes + other.framed_bytes }
    }
}

/// Wraps `each` to count the frames passed to it.
fn counting(figures: &mut ShardFigures, each: &mut impl FnMut(&[u8])) -> impl FnMut(&[u8], Position) {
    |frame, _| {
        figures.rows += 1;
        figures.framed_bytes += frame.len() as u64;
        each(frame);
    }
}

impl Unframe {
    fn read(&mut self, bytes: &mut &[u8], mut each: impl FnMut(&[u8], Position)) -> tfrecord_framing::Result<usize> {
        match self {
            Self::Refuse(decoder) => {
                let frames = decoder.decode_frames(bytes, usize::MAX)?;
                frames.frames().for_each(|(frame, position)| each(frame, position));
                Ok(frames.len())
            }
            Self::PassOver(scanner, damage) => {
                let read = scanner.scan_frames(bytes, usize::MAX, each, &mut damage.kept);
                damage.bound();
                read
            }
        }
    }

    /// Ends the file.
    fn finish(&mut self, each: impl FnMut(&[u8], Position)) -> tfrecord_framing::Result<()> {
        match self {
            Self::Refuse(decoder) => decoder.finish(),
            Self::PassOver(scanner, damage) => {
                let finished = scanner.finish_frames(each, &mut damage.kept);
                damage.bound();
                finished
            }
        }
    }
}

/// Reads an uncompressed file from header to header, and passes the length of every frame to `each`. Skips payloads.
///
/// # Errors
/// If the file cannot be read, a header is damaged, the last record is truncated, or the run was stopped.
pub(crate) fn hop(
    path: &Path,
    mut file: Box<dyn ReadSeek>,
    progress: &Progress,
    mut each: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let damaged = |error| Error::from(ErrorKind::Damaged { path: path.to_owned(), error });
    let truncated = |position: Position, expected: usize, end: u64| {
        let found = (end - position.byte) as usize;
        damaged(tfrecord_framing::ErrorKind::Truncated { position, expected, found }.into())
    };
    let end = file.seek(SeekFrom::End(0)).at("inspect", path)?;
    file.rewind().at("read", path)?;
    let mut file = BufReader::with_capacity(BLOCK_LEN, file);
    let mut position = Position::default();
    let mut reported = 0;
    while position.byte < end {
        if end - position.byte < HEADER_LEN as u64 {
            return Err(truncated(position, HEADER_LEN, end));
        }
        let mut header = [0; HEADER_LEN];
        file.read_exact(&mut header).at("read", path)?;
        let len = frame_len(&header, position).map_err(damaged)?;
        if end - position.byte < len as u64 {
            return Err(truncated(position, len, end));
        }
        // The length is at most that of the longest record.
        file.seek_relative((len - HEADER_LEN) as i64).at("read", path)?;
        position = Position { record: position.record + 1, byte: position.byte + len as u64 };
        each(len as u64)?;
        if position.byte - reported >= BLOCK_LEN as u64 {
            progress.advance(position.byte - reported)?;
            reported = position.byte;
        }
    }
    progress.advance(position.byte - reported)
}
