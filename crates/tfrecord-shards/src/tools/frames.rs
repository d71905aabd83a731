//! The frames of a file: [`FrameReader`] reads them one after the other, [`hop`] only tells their lengths.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Add;

use tfrecord_framing::{
    Compression, Damage, HEADER_LEN, Position, RecordDecoder, RecordScanner, crc32c_append, frame_len,
};

use crate::error::{AtPath, Error, ErrorKind, Result};
use crate::error::{Finding, FindingKind};
use crate::set::difference::ShardFigures;
use crate::set::manifest::ShardEntry;
use crate::tools::inputs::InputFile;
use crate::tools::progress::Progress;

/// Bytes that are read at once: enough for any disk, and a moment until a run that is to stop does.
const BLOCK_LEN: usize = 1 << 20;

/// Stretches of damage that are kept for one file, so that memory stays bounded: more than anybody reads.
const MAX_DAMAGE: usize = 10_000;

/// Reads the frames of a file in blocks, and counts and checksums on the way.
pub(crate) struct FrameReader<'a> {
    input: &'a InputFile,
    progress: &'a Progress,
    file: Box<dyn Read + Send>,
    /// What was read, of which the first `taken` of `filled` bytes were decoded.
    block: Vec<u8>,
    taken: usize,
    filled: usize,
    unframe: Unframe,
    /// The compression that the manifest or the name tells, if it is not that of the content.
    contradicted: Option<Compression>,
    compression: Compression,
    figures: ShardFigures,
}

/// What becomes of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDamage {
    /// The first is an error.
    Refuse,
    /// It is noted and passed over.
    PassOver,
}

enum Unframe {
    Refuse(RecordDecoder),
    PassOver(Box<RecordScanner>, DamageNoted),
}

/// The damage met in a file.
#[derive(Debug, Default)]
pub(crate) struct DamageNoted {
    /// The first stretches.
    pub(crate) kept: Vec<Damage>,
    /// The number of further ones, and the bytes in them.
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
    /// Opens a file and tells its compression.
    ///
    /// # Errors
    /// When it cannot be opened, or the run is to stop.
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
            compression: Compression::None,
            figures: ShardFigures::default(),
        };
        // A block is more than a header, unless the file is less.
        reader.fill()?;
        let start = reader.block.get(..reader.filled.min(HEADER_LEN)).unwrap_or_default();
        let (expected, found) = (input.expected_compression(), Compression::detect(start));
        reader.compression = found.or(expected).unwrap_or_default();
        reader.contradicted = expected.filter(|&expected| expected != reader.compression && !start.is_empty());
        reader.unframe = match on_damage {
            OnDamage::Refuse => Unframe::Refuse(RecordDecoder::with_compression(reader.compression)),
            OnDamage::PassOver => {
                let scanner = Box::new(RecordScanner::with_compression(reader.compression));
                Unframe::PassOver(scanner, DamageNoted::default())
            }
        };
        Ok(reader)
    }

    /// How the file is compressed, to judge by its content or else by what is told of it.
    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// Hands some frames to `each`: those of a block, or fewer. False at the end of the file, when the last frames have
    /// been handed out.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged, unless damage is passed over, or when the run is to stop.
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
                    // That it was to stop may be why.
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

    /// What was counted, and the damage met: of the whole file, once all was read.
    pub(crate) fn finish(self) -> (ShardFigures, DamageNoted) {
        let damage = match self.unframe {
            Unframe::Refuse(_) => DamageNoted::default(),
            Unframe::PassOver(_, damage) => damage,
        };
        (self.figures, damage)
    }
}

/// Takes the sound frames of a file.
pub(crate) trait FrameSink {
    /// Takes one.
    fn push(&mut self, frame: &[u8]);

    /// Called now and then, and after the last one.
    fn pause(&mut self) -> Result<()>;
}

/// Takes nothing.
impl FrameSink for () {
    fn push(&mut self, _: &[u8]) {}

    fn pause(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Hands every sound frame of a file to `sink`, and tells what was found and what is wrong.
///
/// # Errors
/// When the file cannot be read or is damaged, unless damage is passed over; when the run is to stop, or the sink does.
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
        find(FindingKind::WrongCompression { expected, found: reader.compression });
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
        // Of a damaged file the other figures are wrong anyway.
        && (expected.file_bytes != found.file_bytes || (!is_damaged && expected != found))
    {
        let finding = Finding::new(&input.path, FindingKind::Figures { expected, found });
        // Whoever names a file wants what is in it, whatever the manifest tells.
        if on_damage == OnDamage::Refuse && !input.named {
            return Err(ErrorKind::NotWhole(finding).into());
        }
        findings.push(finding);
    }
    Ok((found, findings))
}

/// Counts the records of a file. Payloads are looked at only where that cannot be helped.
///
/// # Errors
/// As [`read_through`].
pub(crate) fn count(input: &InputFile, on_damage: OnDamage, progress: &Progress) -> Result<Count> {
    if on_damage == OnDamage::Refuse {
        if let Some(ShardEntry { rows, framed_bytes, .. }) = input.entry().filter(|_| !input.named) {
            return Ok(Count { rows: *rows, framed_bytes: *framed_bytes });
        }
        progress.expect(input.len);
        // A store is asked for all of a file, or for a part; not for every header.
        let is_plain = || -> Result<bool> {
            Ok(FrameReader::open(input, on_damage, &Progress::default())?.compression() == Compression::None)
        };
        if input.store.is_none() && is_plain()? {
            let mut count = Count::default();
            hop(input, progress, |len| {
                count = count + Count { rows: 1, framed_bytes: len };
                Ok(())
            })?;
            return Ok(count);
        }
    } else {
        progress.expect(input.len);
    }
    let ShardFigures { rows, framed_bytes, .. } = read_through(input, on_damage, progress, &mut ())?.0;
    Ok(Count { rows, framed_bytes })
}

/// Records, and bytes of them with their frames.
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

/// Counts frames on their way.
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

/// Goes through an uncompressed file from header to header, and hands the length of every frame to `each`. Payloads are
/// not looked at.
///
/// # Errors
/// When the file cannot be read, a header is damaged, the last record is cut, or the run is to stop.
pub(crate) fn hop(input: &InputFile, progress: &Progress, mut each: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let path = &input.path;
    let damaged = |error| Error::from(ErrorKind::Damaged { path: path.clone(), error });
    let truncated = |position: Position, expected: usize, end: u64| {
        let found = (end - position.byte) as usize;
        damaged(tfrecord_framing::ErrorKind::Truncated { position, expected, found }.into())
    };
    let file = File::open(path).at("open", path)?;
    let end = file.metadata().at("inspect", path)?.len();
    let mut file = BufReader::with_capacity(BLOCK_LEN, file);
    let mut position = Position::default();
    let mut told = 0;
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
        // A length is at most that of the longest record.
        file.seek_relative((len - HEADER_LEN) as i64).at("read", path)?;
        position = Position { record: position.record + 1, byte: position.byte + len as u64 };
        each(len as u64)?;
        if position.byte - told >= BLOCK_LEN as u64 {
            progress.advance(position.byte - told)?;
            told = position.byte;
        }
    }
    progress.advance(position.byte - told)
}
