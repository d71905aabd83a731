//! [`RecordScanner`]: reads a damaged file and finds the intact records in it.

use std::{fmt, ops::Range};

use crate::{
    Compression, Container, MAX_RECORD_LEN, Position, Records, Result,
    frame::{Header, OVERHEAD},
    records::{Each, Sink},
    unpack::{Unpack, UnpackError},
};

mod window;
use window::Window;

/// A range of a file that contains no intact record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The defect at the start of the range.
    pub kind: DamageKind,
    /// Number of records before it, counting every earlier damaged range as one record.
    pub record: u64,
    /// The range in bytes of the framed records: in a compressed file, bytes after decompression.
    pub range: Range<u64>,
    /// In a gzip file with a damaged stream: the compressed bytes from the damage to the member where reading
    /// resumes, or to the end of the file. In an ArrayRecord file: the bytes from the damaged chunk to the next intact
    /// one. Their number of framed bytes is unknown, and later offsets count it as zero.
    pub passed_over: Option<Range<u64>>,
}

/// The kinds of [`Damage`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// The length does not match its checksum, so there is no record header.
    LengthCrc,
    /// A payload does not match its checksum.
    DataCrc,
    /// A record or its header extends past the end of the file.
    Truncated,
    /// A record exceeds the length limit.
    RecordTooLong {
        /// Length of the payload in bytes.
        len: u64,
    },
    /// Only zero bytes.
    ZeroPadding,
    /// The compressed stream is damaged or truncated here. What follows, up to the next gzip member, cannot be
    /// decompressed. The range may be empty.
    Compression {
        /// The stream's compression.
        compression: Compression,
        /// The defect.
        reason: String,
    },
    /// An ArrayRecord file is damaged or truncated here. The range is empty.
    ArrayRecord {
        /// The defect, with its offset in the file.
        reason: String,
    },
}

impl DamageKind {
    /// Whether it is damage of the file around the frames, which has no range of framed bytes.
    fn is_around_frames(&self) -> bool {
        matches!(self, Self::Compression { .. } | Self::ArrayRecord { .. })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, record, range, passed_over } = self;
        write!(f, "record {record} at byte {}: {kind}", range.start)?;
        match range.end - range.start {
            0 => {}
            1 => f.write_str(", 1 byte lost")?,
            lost => write!(f, ", {lost} bytes lost")?,
        }
        match passed_over {
            Some(range) if !range.is_empty() => {
                write!(f, ", bytes {} to {} of the file passed over", range.start, range.end)
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LengthCrc => f.write_str("length does not match its checksum"),
            Self::DataCrc => f.write_str("payload does not match its checksum"),
            Self::Truncated => f.write_str("truncated"),
            Self::RecordTooLong { len } => write!(f, "record of {len} bytes is too long"),
            Self::ZeroPadding => f.write_str("zero bytes where a record should start"),
            Self::Compression { compression, reason } => write!(f, "invalid {compression} stream: {reason}"),
            Self::ArrayRecord { reason } => write!(f, "invalid ArrayRecord file: {reason}"),
        }
    }
}

/// Scans a damaged file, from any byte and in pieces of any length, for intact records and the damaged ranges between
/// them. Together they cover the file.
///
/// A record is intact if both its checksums match. After damage, every byte is tried as the start of the next record.
///
/// * If only a payload is damaged, the scan continues after it, and no part of the payload is reported as a record. The
///   header or the end of the file directly after the payload shows that its length is right.
/// * After a damaged header, a payload cannot be distinguished from records. If it contains framed records itself,
///   these are reported.
/// * Of an ArrayRecord file, the chunks behind damage are found by the block headers, and the records of a damaged chunk
///   are lost.
/// * A zlib file is scanned up to the damage of its stream, and past its end if another stream follows. In a gzip file
///   the scan continues with the next member found; the members written by this crate contain whole records.
///
/// Time is linear in the length of the file for any content. Memory is one piece and the longest record allowed (or the
/// file, if that is shorter).
///
/// ```
/// use tfrecord_framing::{RecordScanner, RecordWriter, Records};
///
/// # fn main() -> tfrecord_framing::Result<()> {
/// let mut writer = RecordWriter::new(Vec::new());
/// for record in [b"first".as_slice(), b"second", b"third"] {
///     writer.write_record(record)?;
/// }
/// let mut file = writer.finish()?;
/// file[21] ^= 1;
///
/// let mut scanner = RecordScanner::new();
/// let (mut records, mut damage) = (Records::new(), Vec::new());
/// for mut piece in file.chunks(10) {
///     while scanner.scan(&mut piece, 1024, &mut records, &mut damage)? > 0 {}
/// }
/// scanner.finish(&mut records, &mut damage)?;
/// assert_eq!(records.iter().collect::<Vec<_>>(), [b"first", b"third"]);
/// assert_eq!(damage[0].to_string(), "record 1 at byte 21: length does not match its checksum, 22 bytes lost");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordScanner {
    unpack: Unpack,
    max_record_len: usize,
    window: Window,
    /// Position of the window's start.
    position: Position,
    /// The damaged range being scanned; `None` if a record may start here.
    stretch: Option<Stretch>,
    /// Why the compressed stream ended early.
    cut: Option<DamageKind>,
    /// Offset in the file where the early end was detected.
    cut_at: u64,
    /// Whether more input may follow it.
    goes_on: bool,
    /// Damage of the compressed stream, after which no intact record has been found yet.
    gap: Option<Damage>,
    /// Whether the window is complete: the file has ended, or its stream is damaged.
    ended: bool,
}

/// The first damage of a range, and the range skipped since.
#[derive(Debug)]
struct Stretch {
    kind: DamageKind,
    start: u64,
    all_zero: bool,
}

/// What a position of the window contains.
enum Found {
    /// An intact frame of this length.
    Sound(usize),
    /// An intact header with a damaged payload; the frame has this length.
    DataCrc(usize),
    Damage(DamageKind),
    /// Too few bytes to decide.
    More,
}

impl RecordScanner {
    /// Creates a scanner of an uncompressed file.
    pub fn new() -> Self {
        Self::with_compression(Compression::None)
    }

    /// Creates a scanner of a file with this compression.
    pub fn with_compression(compression: Compression) -> Self {
        Self::with_container(compression.into())
    }

    /// Creates a scanner of a file with this container.
    pub fn with_container(container: Container) -> Self {
        Self::with_unpack(Unpack::expect(container))
    }

    /// Creates a scanner that detects the file's container from its content.
    pub fn detect() -> Self {
        Self::with_unpack(Unpack::detect())
    }

    fn with_unpack(unpack: Unpack) -> Self {
        Self {
            unpack,
            max_record_len: MAX_RECORD_LEN,
            window: Window::default(),
            position: Position::default(),
            stretch: None,
            cut: None,
            cut_at: 0,
            goes_on: false,
            gap: None,
            ended: false,
        }
    }

    /// Reports records of more than `len` bytes as damage. The default is [`MAX_RECORD_LEN`].
    pub fn with_max_record_len(mut self, len: usize) -> Self {
        self.max_record_len = len;
        self
    }

    /// Sets the position of the first byte in an uncompressed file. The default is the file's start. If no record
    /// starts there, the bytes up to the next record are damage.
    pub fn with_position(mut self, position: Position) -> Self {
        self.position = position;
        if position.byte > 0 {
            self.unpack.believe();
        }
        self
    }

    /// Returns the position of the next record, or how far the current damaged range has been scanned.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns the file's container once it is specified or detected.
    pub fn container(&self) -> Option<Container> {
        self.unpack.container()
    }

    /// Appends at most `limit` intact records to `records`, and the damage between them to `damage`. Returns the number
    /// of records; 0 means that `input` was consumed completely and more is needed (or `limit` is 0). Advances `input`
    /// past the consumed bytes.
    ///
    /// Call it again while it returns more than 0, even with an empty `input`.
    ///
    /// # Errors
    ///
    /// `WrongContainer`; everything else is reported as damage.
    pub fn scan(
        &mut self,
        input: &mut &[u8],
        limit: usize,
        records: &mut Records,
        damage: &mut Vec<Damage>,
    ) -> Result<usize> {
        self.scan_into(input, limit, records, damage)
    }

    /// Same as [`scan`](Self::scan), but calls `each` with the whole frame of every intact record, unchanged, and the
    /// frame's position.
    ///
    /// # Errors
    ///
    /// As [`scan`](Self::scan).
    pub fn scan_frames(
        &mut self,
        input: &mut &[u8],
        limit: usize,
        each: impl FnMut(&[u8], Position),
        damage: &mut Vec<Damage>,
    ) -> Result<usize> {
        self.scan_into(input, limit, &mut Each(each), damage)
    }

    fn scan_into(
        &mut self,
        input: &mut &[u8],
        limit: usize,
        records: &mut impl Sink,
        damage: &mut Vec<Damage>,
    ) -> Result<usize> {
        loop {
            let scanned = self.walk(limit, records, damage);
            if scanned > 0 || limit == 0 {
                return Ok(scanned);
            }
            if self.ended {
                if self.find_next_member() {
                    continue;
                }
                *input = &[];
                return Ok(0);
            }
            let before = self.window.len();
            let unpacked = self.unpack.unpack(input, self.window.tail());
            self.cut_short(unpacked)?;
            if !self.ended && self.window.len() == before {
                return Ok(0);
            }
        }
    }

    /// Ends the file and appends all remaining records and damage.
    ///
    /// Call it after [`scan`](Self::scan) returned 0 for the last piece.
    ///
    /// # Errors
    ///
    /// `WrongContainer`, for a file of a few bytes.
    pub fn finish(&mut self, records: &mut Records, damage: &mut Vec<Damage>) -> Result<()> {
        self.finish_into(records, damage)
    }

    /// Same as [`finish`](Self::finish), but calls `each` with whole frames as [`scan_frames`](Self::scan_frames) does.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn finish_frames(&mut self, each: impl FnMut(&[u8], Position), damage: &mut Vec<Damage>) -> Result<()> {
        self.finish_into(&mut Each(each), damage)
    }

    fn finish_into(&mut self, records: &mut impl Sink, damage: &mut Vec<Damage>) -> Result<()> {
        if !self.ended {
            let mut finished = self.unpack.finish(self.window.tail());
            while let Err(cut) = finished {
                self.cut_short(Err(cut))?;
                // Bytes before the end may have been read as part of a damaged member.
                while self.scan_into(&mut &[][..], usize::MAX, records, damage)? > 0 {}
                finished = if self.ended { Ok(()) } else { self.unpack.finish(self.window.tail()) };
            }
        }
        self.ended = true;
        self.walk(usize::MAX, records, damage);
        self.note_cut();
        self.end_gap(self.unpack.taken().0, damage);
        Ok(())
    }

    /// Treats damage of the compressed stream as its end.
    fn cut_short(&mut self, unpacked: Result<(), UnpackError>) -> Result<()> {
        match unpacked {
            Ok(()) => Ok(()),
            Err(UnpackError::Stream { compression, source }) => {
                self.ended = true;
                self.cut_at = self.unpack.taken().0;
                // Go back only once for each gap, so that a hostile file is not read many times.
                self.goes_on = self.unpack.search(self.gap.is_none());
                match &self.gap {
                    // The bytes found were not a member.
                    Some(gap) => {
                        self.position.byte = gap.range.end;
                        self.stretch = None;
                        self.window.clear();
                    }
                    None => self.cut = Some(DamageKind::Compression { compression, reason: source.to_string() }),
                }
                Ok(())
            }
            Err(UnpackError::Chunks(source)) => {
                self.ended = true;
                self.cut_at = self.unpack.taken().0;
                self.goes_on = self.unpack.search(false);
                // Without a record between, it is the same gap.
                if self.gap.is_none() || self.window.len() > 0 {
                    self.cut = Some(DamageKind::ArrayRecord { reason: source.to_string() });
                }
                Ok(())
            }
            Err(error) => Err(error.at(self.position)),
        }
    }

    /// Continues with the next gzip member or zlib stream. Returns false if there is none.
    fn find_next_member(&mut self) -> bool {
        self.note_cut();
        self.ended = !std::mem::take(&mut self.goes_on);
        !self.ended
    }

    /// Records damage of the stream that is not known to truncate a record.
    fn note_cut(&mut self) {
        if let Some(kind) = self.cut.take() {
            let start = self.position.byte;
            self.begin_gap(kind, start..start);
        }
    }

    fn begin_gap(&mut self, kind: DamageKind, range: Range<u64>) {
        let has_members =
            matches!(self.container(), Some(Container::TfRecord(Compression::Gzip) | Container::ArrayRecord));
        let passed_over = has_members.then_some(self.cut_at..self.cut_at);
        self.gap = Some(Damage { kind, record: self.position.record, range, passed_over });
        self.position.record += 1;
    }

    /// Reports damage of the stream once the offset where reading resumes is known.
    fn end_gap(&mut self, file_byte: u64, damage: &mut Vec<Damage>) {
        if let Some(mut gap) = self.gap.take() {
            gap.passed_over = gap.passed_over.map(|range| range.start.min(file_byte)..file_byte);
            damage.push(gap);
        }
    }

    /// Scans the window as far as its contents can be decided.
    fn walk(&mut self, limit: usize, records: &mut impl Sink, damage: &mut Vec<Damage>) -> usize {
        let mut found = 0;
        while found < limit {
            if self.stretch.is_some() {
                self.skip(self.window.next_header(self.max_record_len));
            }
            match self.look() {
                Found::Sound(len) => {
                    self.end_gap(self.unpack.taken().1, damage);
                    self.end_stretch(damage);
                    records.push(&self.window.bytes()[..len], self.position);
                    found += 1;
                    self.advance(len);
                    self.position.record += 1;
                }
                Found::DataCrc(len) if self.stretch.is_none() => match self.leads_on(len) {
                    Some(true) => {
                        self.begin_stretch(DamageKind::DataCrc);
                        self.advance(len);
                        self.end_stretch(damage);
                    }
                    Some(false) => {
                        self.begin_stretch(DamageKind::DataCrc);
                        self.skip(1);
                    }
                    None => break,
                },
                Found::DataCrc(_) => self.skip(1),
                Found::Damage(kind) => {
                    self.begin_stretch(kind);
                    self.skip(1);
                }
                Found::More if !self.ended => break,
                Found::More => {
                    if !self.window.bytes().is_empty() {
                        self.begin_stretch(DamageKind::Truncated);
                        self.skip(self.window.len());
                    }
                    if let Some(Stretch { kind: kind @ DamageKind::Truncated, .. }) = &mut self.stretch
                        && let Some(cut) = self.cut.take()
                    {
                        *kind = cut;
                    }
                    self.end_stretch(damage);
                    break;
                }
            }
        }
        found
    }

    fn look(&mut self) -> Found {
        let bytes = self.window.bytes();
        let Some(header) = bytes.first_chunk() else { return Found::More };
        let header = Header::parse(header);
        if !header.is_intact() {
            return Found::Damage(DamageKind::LengthCrc);
        }
        let Some(len) = header.len_within(self.max_record_len) else {
            return Found::Damage(DamageKind::RecordTooLong { len: header.len() });
        };
        let frame_len = OVERHEAD + len;
        if bytes.len() >= frame_len {
            if self.window.is_sound(frame_len) { Found::Sound(frame_len) } else { Found::DataCrc(frame_len) }
        } else if self.ended {
            Found::Damage(DamageKind::Truncated)
        } else {
            Found::More
        }
    }

    /// Whether an intact header or the end of the file follows after `len` bytes. `None` if that cannot be decided
    /// yet.
    fn leads_on(&self, len: usize) -> Option<bool> {
        let rest = &self.window.bytes()[len..];
        match rest.first_chunk() {
            Some(header) => Some(Header::parse(header).is_intact()),
            None => self.ended.then_some(rest.is_empty()),
        }
    }

    /// Starts a damaged range here, unless one is open.
    fn begin_stretch(&mut self, kind: DamageKind) {
        let start = self.position.byte;
        self.stretch.get_or_insert(Stretch { kind, start, all_zero: true });
    }

    fn end_stretch(&mut self, damage: &mut Vec<Damage>) {
        if let Some(Stretch { kind, start, all_zero }) = self.stretch.take() {
            let kind = match kind {
                DamageKind::LengthCrc | DamageKind::Truncated if all_zero => DamageKind::ZeroPadding,
                kind => kind,
            };
            let range = start..self.position.byte;
            if kind.is_around_frames() {
                return self.begin_gap(kind, range);
            }
            self.end_gap(self.unpack.taken().1, damage);
            damage.push(Damage { kind, record: self.position.record, range, passed_over: None });
            self.position.record += 1;
        }
    }

    /// Skips bytes that are not part of a record.
    fn skip(&mut self, len: usize) {
        if let Some(stretch) = &mut self.stretch {
            stretch.all_zero = stretch.all_zero && self.window.bytes()[..len].iter().all(|&byte| byte == 0);
        }
        self.advance(len);
    }

    fn advance(&mut self, len: usize) {
        self.window.advance(len);
        self.position.byte += len as u64;
    }
}

impl Default for RecordScanner {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
